// The heads of the model as it reads a text now, as a source of the workbench (workbench/data.js).
class LiveSource {
  constructor() {
    this.isLive = true;
    this.layers = Array.from({ length: config.num_layers }, (_, layer) => `layer ${layer + 1}`);
    this.frames = data.snapshots.map(({ step }) => [step, 0]);
    this.heads = this.layers.map(() => []);
  }

  entry(layer) { return { heads: config.num_heads, measures: this.heads[layer].map((head) => head.measures) }; }
  async headsOf(layer) { return this.heads[layer]; }
  forget() { this.heads = this.layers.map(() => []); }

  // What the worker computed for these tokens. by: "weight", or "value" for weights times the length of the values.
  take(ids, { weights, joints, moved }, { by, frame }) {
    const T = ids.length, names = ids.map(shownId), masks = new Map();
    for (const window of config.windows) if (!masks.has(window)) masks.set(window, hiddenPairs(T, window));
    this.heads = this.layers.map((_, layer) => {
      const hidden = masks.get(config.windows[layer]), measures = headMeasures(weights[layer], ids);
      return weights[layer].map((w, index) => {
        const vectors = vectorsOf(joints[layer], index);
        return Head.of({
          index, rows: T, cols: T, queries: names, keys: names, hidden, vectors, weights: by === "value" ? timesLength(w, T, vectors) : w,
          measures: [...measures[index], moved?.[layer][index] ?? 0], roles: data.roles[frame][layer][index],
        });
      });
    });
  }
}

// The queries, keys and values of a head from those of all heads, [T, (H + 2 K) D].
function vectorsOf(joint, head) {
  const { num_heads: H, num_kv_heads: K, head_size: D } = config, F = (H + 2 * K) * D, group = Math.floor((head * K) / H);
  const at = (offset) => (t) => Array.from(joint.subarray(t * F + offset, t * F + offset + D));
  const more = [config.positions === "alibi" && "less the distance times ALiBi's slope", config.attention_logit_cap > 0 && "capped"].filter(Boolean);
  return { size: D, query: at(head * D), key: at((H + group) * D), value: at((H + K + group) * D),
    rule: [`score = sum ÷ √${D} = sum ÷ ${Math.sqrt(D).toFixed(2)}`, ...more].join(", ") + "; weights are the softmax of the scores" };
}

// Each weight times the length of its key's value: how much of it arrives.
function timesLength(weights, T, { value }) {
  const lengths = Array.from({ length: T }, (_, t) => lengthOf(value(t)));
  return weights.map((w, i) => w * lengths[i % T]);
}

// The reasons (workbench/data.js) why pairs are masked.
function hiddenPairs(T, window) {
  const hidden = new Uint8Array(T * T);
  for (let q = 0; q < T; ++q)
    for (let k = 0; k < T; ++k) hidden[q * T + k] = k > q ? 1 : window > 0 && k <= q - window ? 4 : 0;
  return hidden;
}

// As head_measures() and head_scores() compute them, in the order of MEASURES.
function headMeasures(heads, ids) {
  const T = ids.length, mean = (sum, count) => (count > 0 ? sum / count : null), all = new Float64Array(T * T);
  for (const w of heads) for (let i = 0; i < all.length; ++i) all[i] += w[i];
  return heads.map((w) => {
    let entropy = 0, distance = 0, self = 0, previous = 0, first = 0, agreement = 0, duplicate = 0, induction = 0, repeated = 0;
    for (let q = 0; q < T; ++q) {
      let copies = 0;
      for (let k = 0; k <= q; ++k) {
        const v = w[q * T + k], others = all[q * T + k] - v;
        if (v > 0) entropy -= v * Math.log(v);
        distance += v * (q - k);
        agreement += Math.min(v, others / Math.max(1, heads.length - 1));
        if (k < q && ids[k] === ids[q]) ++copies, (duplicate += v), (induction += w[q * T + k + 1]);
      }
      self += w[q * T + q];
      first += w[q * T];
      if (q > 0) previous += w[q * T + q - 1];
      if (copies) ++repeated;
    }
    return [mean(entropy, T), mean(distance, T), mean(self, T), mean(previous, T - 1), mean(first, T),
      heads.length > 1 ? mean(agreement, T) : null, mean(duplicate, repeated), mean(induction, repeated)];
  });
}
