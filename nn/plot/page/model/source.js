// The heads of the model as it stands now, for the view of all heads (heads/data.js).

MEASURES.push({ name: "Moved", unit: "", digits: 3, about: "weight that went to other keys because of the switches" });

class LiveSource {
  constructor() {
    this.layers = Array.from({ length: config.num_layers }, (_, layer) => `layer ${layer + 1}`);
    this.frames = [[0, 0]];
    this.heads = this.layers.map(() => []);
  }

  entry(layer) { return { heads: config.num_heads, measures: this.heads[layer].map((head) => head.measures) }; }
  async headsOf(layer) { return this.heads[layer]; }

  // What the worker computed for these tokens.
  take(ids, { weights, moved }) {
    const T = ids.length, names = ids.map(shownId), masks = new Map();
    for (const window of config.windows) if (!masks.has(window)) masks.set(window, hiddenPairs(T, window));
    this.heads = this.layers.map((_, layer) => {
      const hidden = masks.get(config.windows[layer]), measures = headMeasures(weights[layer], ids), roles = headRoles(weights[layer], ids, hidden);
      return weights[layer].map((w, index) =>
        Head.of({ index, weights: w, rows: T, cols: T, queries: names, keys: names, hidden, measures: [...measures[index], moved[layer][index]], roles: roles[index] }));
    });
  }
}

// The reasons (heads/data.js) why pairs are masked.
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

// As head_roles() of C++ computes them, in the order of ROLES.
const LEAST_KEYS = 3, LEAST_QUERIES = 4;

function headRoles(heads, ids, hidden) {
  const T = ids.length;
  const roles = [(q, k) => k === q, (q, k) => k === q - 1, (q, k) => k === 0,
    (q, k) => k < q && ids[k] === ids[q], (q, k) => k > 0 && k - 1 < q && ids[k - 1] === ids[q]];
  return heads.map((w) => roles.map((isTarget) => {
    let weight = 0, even = 0, queries = 0;
    for (let q = 0; q < T; ++q) {
      let visible = 0, targets = 0, here = 0;
      for (let k = 0; k < T; ++k) {
        if (hidden[q * T + k]) continue;
        ++visible;
        if (isTarget(q, k)) ++targets, (here += w[q * T + k]);
      }
      if (visible < LEAST_KEYS || targets === 0 || targets === visible) continue;
      ++queries, (weight += here), (even += targets / visible);
    }
    return queries < LEAST_QUERIES ? null : (weight - even) / (queries - even);
  }));
}
