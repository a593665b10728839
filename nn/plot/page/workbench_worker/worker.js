// What the page asks for (workbench_live/ask.js): the page stays alive while this computes.

let config = null;
let packed = []; // of each snapshot, its weights in base64
const unpacked = new Map(); // snapshot -> its tensors by name; the last used ones last
const plain = new Map(); // what was computed lately without edits: snapshot and ids -> { snapshot, run }
const MOST_NUMBERS = 16e6, MOST_PLAIN = 4;

// A map's value, computed if it is missing. The map keeps the `most` last used ones.
function kept(map, key, most, make) {
  const value = map.has(key) ? map.get(key) : make();
  map.delete(key);
  map.set(key, value);
  for (const old of map.keys()) if (map.size > most) map.delete(old);
  return value;
}

function weightsOf(snapshot) {
  return kept(unpacked, snapshot, Math.max(2, Math.floor(MOST_NUMBERS / config.parameters)), () => unpack(config, packed[snapshot]));
}

async function plainRun(snapshot, ids) {
  const weightOf = await weightsOf(snapshot);
  // Mostly the reader has typed a letter behind a text that is known.
  const past = [...plain.values()].filter((known) => known.snapshot === snapshot).map(({ run }) => run)
    .reduce((best, run) => (sharedTokens(run.ids, ids) > sharedTokens(best?.ids, ids) ? run : best), null);
  return kept(plain, snapshot + ":" + ids, MOST_PLAIN, () => ({ snapshot, run: forward(config, weightOf, ids, { past }) })).run;
}

// Of each query the weight that went to other keys, mean over the queries: 0 … 1.
function moved(weights, before, T) {
  let sum = 0;
  for (let i = 0; i < weights.length; ++i) sum += Math.abs(weights[i] - before[i]) / 2;
  return sum / T;
}

function movedBy(now, before) {
  return now.weights.map((heads, layer) => heads.map((w, head) => moved(w, before.weights[layer][head], now.ids.length)));
}

const tasks = {
  start(given) {
    ({ config, packed } = given);
  },

  // The text with parts replaced, and without; the second text. edits: part -> "zero", "mean" or "other" (engine/forward.js).
  async run({ snapshot, ids, edits, second }) {
    const before = await plainRun(snapshot, ids), other = second ? await plainRun(snapshot, second) : null;
    const now = edits.size ? forward(config, await weightsOf(snapshot), ids, { edits, other }) : before;
    return {
      logits: now.logits, weights: now.weights, joints: now.joints, before: before.logits, moved: movedBy(now, before),
      second: other && { logits: other.logits, weights: other.weights, joints: other.joints },
    };
  },

  // By how much the loss of the text rises without each head and each MLP: [layer][head, …, MLP].
  async matter({ snapshot, ids, how, second }) {
    const weightOf = await weightsOf(snapshot), other = second ? await plainRun(snapshot, second) : null;
    const loss = ({ logits }) => meanLoss(logits, ids, config.vocab_size), before = loss(await plainRun(snapshot, ids));
    return Array.from({ length: config.num_layers }, (_, layer) => Array.from({ length: config.num_heads + (config.mlps ? 1 : 0) }, (_, head) =>
      loss(forward(config, weightOf, ids, { edits: new Map([[partName(layer, head, config), how]]), other })) - before));
  },

  // What reads a head: the weight that each later head moves if this one has its mean: [layer][head].
  async reach({ snapshot, ids, layer, head }) {
    const before = await plainRun(snapshot, ids);
    return movedBy(forward(config, await weightsOf(snapshot), ids, { edits: new Map([[`${layer}.${head}`, "mean"]]) }), before);
  },

  // The loss of the text.
  async loss({ snapshot, ids }) {
    return meanLoss((await plainRun(snapshot, ids)).logits, ids, config.vocab_size);
  },
};

// "layer.head", or "layer.mlp" for the number behind the last head.
function partName(layer, head, { num_heads }) { return `${layer}.${head === num_heads ? "mlp" : head}`; }

self.onmessage = async ({ data: { id, task, given } }) => {
  try {
    self.postMessage({ id, result: await tasks[task](given) });
  } catch (error) {
    self.postMessage({ id, error: String(error) });
  }
};
