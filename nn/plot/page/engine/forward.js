// The forward pass of a GPT, as nn/models/gpt.cpp computes it. A tensor is a Float32Array in row-major order: T positions,
// C features of the model, H heads and K key heads of D features. A weight is { shape, values }.

// x [T, In] times w [Out, In] transposed, plus bias [Out]: [T, Out]. Blocks of three rows and three columns read each
// number less often, and their nine sums fit into registers. Numbers are converted to double once.
function linear(input, T, w, bias) {
  const [Out, In] = w.shape, m = w.values, x = new Float64Array(input), y = new Float32Array(T * Out);
  const blockRows = T - (T % 3), blockCols = blockRows > 0 ? Out - (Out % 3) : 0, three = new Float64Array(3 * In);
  for (let o = 0; o < blockCols; o += 3) {
    three.set(m.subarray(o * In, (o + 3) * In));
    for (let t = 0; t < blockRows; t += 3) {
      const x0 = t * In, x1 = x0 + In, x2 = x1 + In, y0 = t * Out + o, y1 = y0 + Out, y2 = y1 + Out;
      let a0 = 0, a1 = 0, a2 = 0, b0 = 0, b1 = 0, b2 = 0, c0 = 0, c1 = 0, c2 = 0;
      for (let i = 0; i < In; ++i) {
        const a = three[i], b = three[In + i], c = three[2 * In + i], p = x[x0 + i], q = x[x1 + i], r = x[x2 + i];
        a0 += a * p, a1 += a * q, a2 += a * r;
        b0 += b * p, b1 += b * q, b2 += b * r;
        c0 += c * p, c1 += c * q, c2 += c * r;
      }
      y[y0] = a0, y[y0 + 1] = b0, y[y0 + 2] = c0;
      y[y1] = a1, y[y1 + 1] = b1, y[y1 + 2] = c1;
      y[y2] = a2, y[y2 + 1] = b2, y[y2 + 2] = c2;
    }
  }
  for (let t = 0; t < T; ++t)
    for (let o = t < blockRows ? blockCols : 0; o < Out; ++o) {
      let sum = 0;
      for (let i = 0; i < In; ++i) sum += m[o * In + i] * x[t * In + i];
      y[t * Out + o] = sum;
    }
  if (bias) for (let t = 0; t < T; ++t) for (let o = 0; o < Out; ++o) y[t * Out + o] += bias.values[o];
  return y;
}

// Each row of x [rows, C], from `at` on and `stride` apart, in place.
// LayerNorm: (x - mean) / sqrt(var + eps) weight + bias. RMSNorm: x / sqrt(mean(x²) + eps) weight.
function normalize(x, rows, stride, at, kind, eps, weight, bias) {
  const C = weight.values.length;
  for (let r = 0; r < rows; ++r, at += stride) {
    let mean = 0, squares = 0;
    if (kind === "layer") for (let c = 0; c < C; ++c) mean += x[at + c] / C;
    for (let c = 0; c < C; ++c) squares += (x[at + c] - mean) ** 2;
    const scale = 1 / Math.sqrt(squares / C + eps);
    for (let c = 0; c < C; ++c) x[at + c] = (x[at + c] - mean) * scale * weight.values[c] + (bias ? bias.values[c] : 0);
  }
}

// The error function. Abramowitz and Stegun 7.1.26: the error is below 2e-7.
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const y = 1 - ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t * Math.exp(-x * x);
  return x < 0 ? -y : y;
}

const sigmoid = (x) => 1 / (1 + Math.exp(-x));
const gelu = (x) => 0.5 * x * (1 + erf(x * Math.SQRT1_2));
const ACTIVATIONS = {
  relu: (x) => Math.max(0, x),
  gelu,
  gelu_tanh: (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x * x * x))),
  swiglu: (x) => x * sigmoid(x),
  geglu: gelu,
  squared_relu: (x) => Math.max(0, x) ** 2,
};

// Rotates the pairs of queries and keys by their position times the angle of the pair, in place. joint is [rows, F], from
// the position `first` on.
function rotate(joint, rows, first, F, heads, D, { layout, angles, lengths }) {
  const half = layout === "half_split";
  for (let t = 0; t < rows; ++t)
    for (let i = 0; i < D / 2; ++i) {
      const angle = (first + t) * angles[i], cos = lengths[i] * Math.cos(angle), sin = lengths[i] * Math.sin(angle);
      for (let h = 0; h < heads; ++h) {
        const at = t * F + h * D, a = half ? at + i : at + 2 * i, b = half ? a + D / 2 : a + 1, u = joint[a], v = joint[b];
        joint[a] = u * cos - v * sin;
        joint[b] = u * sin + v * cos;
      }
    }
}

// Causal attention of the joint queries, keys and values [T, (H + 2 K) D]: the weights of each head [T, T], and z [T, H D].
// Only the queries from `begin` on are computed.
function attend(joint, T, config, window, begin) {
  const { num_heads: H, num_kv_heads: K, head_size: D, attention_logit_cap: cap } = config, F = (H + 2 * K) * D;
  const scale = 1 / Math.sqrt(D), x = new Float64Array(joint);
  const z = new Float32Array(T * H * D), scores = new Float64Array(T), weights = [], sums = new Float64Array(D);
  for (let h = 0; h < H; ++h) {
    const q = h * D, k = (H + Math.floor((h * K) / H)) * D, v = k + K * D, slope = config.alibi?.[h] ?? 0;
    const of = (weights[h] = new Float32Array(T * T));
    for (let i = begin; i < T; ++i) {
      const first = window > 0 ? Math.max(0, i - window + 1) : 0;
      let largest = -Infinity, sum = 0;
      for (let j = first; j <= i; ++j) {
        let dot = 0;
        for (let d = 0, a = i * F + q, b = j * F + k; d < D; ++d) dot += x[a + d] * x[b + d];
        scores[j] = dot * scale - slope * (i - j);
        if (cap > 0) scores[j] = cap * Math.tanh(scores[j] / cap);
        if (scores[j] > largest) largest = scores[j];
      }
      for (let j = first; j <= i; ++j) sum += scores[j] = Math.exp(scores[j] - largest);
      sums.fill(0);
      for (let j = first; j <= i; ++j) {
        const w = (of[i * T + j] = scores[j] / sum);
        for (let d = 0, b = j * F + v; d < D; ++d) sums[d] += w * x[b + d];
      }
      z.set(sums, (i * H + h) * D);
    }
  }
  return { weights, z };
}

// Replaces features from … from + count of x [T, F] by 0, by their mean over the positions, or by those of `other`.
function edit(x, T, F, from, count, how, other) {
  for (let c = from; c < from + count; ++c) {
    let mean = 0;
    if (how === "mean") for (let t = 0; t < T; ++t) mean += x[t * F + c] / T;
    for (let t = 0; t < T; ++t) x[t * F + c] = how === "other" ? other[t * F + c] : mean;
  }
}

// { ids, logits [T, vocab], weights [layer][head], and by layer joints, zs, and mlps if it has some }. streams are the residual [T, C] behind
// the embedding, and behind the attention and the MLP of each layer. `edits` says by what the output of "layer.head" and
// "layer.mlp" is replaced: "zero", "mean" or "other", the output in `other`, a result for a text of as many tokens. `past` is a result without edits: tokens that begin its text, too, are not computed again.
function forward(config, weightOf, ids, { edits = new Map(), other = null, past = null } = {}) {
  const { d_model: C, num_heads: H, num_kv_heads: K, head_size: D } = config, F = (H + 2 * K) * D;
  const T = ids.length, known = Math.min(T - 1, sharedTokens(past?.ids, ids)), rows = T - known;
  const has = (name) => weightOf(name + ".weight") !== null;
  const project = (x, name) => linear(x, rows, weightOf(name + ".weight"), weightOf(name + ".bias"));
  const normed = (x, name) => normedBy(config, weightOf, x, name);
  const add = (x, y) => { for (let i = 0; i < x.length; ++i) x[i] += y[i]; };
  // The rows of all tokens [T, width], of these new ones.
  const behindPast = (rowsOfPast, width, now) => {
    if (known === 0) return now;
    const all = new Float32Array(T * width);
    all.set(rowsOfPast.subarray(0, known * width));
    all.set(now, known * width);
    return all;
  };

  const x = embed(config, weightOf, ids, known), result = { ids, weights: [], joints: [], zs: [], mlps: [], streams: [] };
  const keepStream = () => result.streams.push(behindPast(past?.streams[result.streams.length], C, x.slice()));
  keepStream();
  for (let layer = 0; layer < config.num_layers; ++layer) {
    const name = `h.${layer}.`, attn = name + "attn.", input = normed(x, name + "ln_1");
    const joint = project(input, attn + "qkv");
    if (config.qk_norm)
      for (let h = 0; h < H + K; ++h)
        normalize(joint, rows, F, h * D, "rms", config.norm_eps, weightOf(attn + (h < H ? "q_norm.weight" : "k_norm.weight")));
    if (config.rotary) rotate(joint, rows, known, F, H + K, D, config.rotary);
    const added = weightOf(attn + "value_embedding.weight")?.values;
    if (added)
      for (let t = 0; t < rows; ++t) for (let i = 0; i < K * D; ++i) joint[t * F + (H + K) * D + i] += added[ids[known + t] * K * D + i];
    result.joints.push(behindPast(past?.joints[layer], F, joint));
    const { weights, z } = attend(result.joints[layer], T, config, config.windows[layer], known);
    if (known > 0) {
      z.set(past.zs[layer].subarray(0, known * H * D));
      weights.forEach((w, h) => { for (let i = 0; i < known; ++i) w.set(past.weights[layer][h].subarray(i * past.ids.length, i * past.ids.length + known), i * T); });
    }
    for (let h = 0; h < H; ++h) if (edits.has(`${layer}.${h}`)) edit(z, T, H * D, h * D, D, edits.get(`${layer}.${h}`), other?.zs[layer]);
    result.weights.push(weights);
    result.zs.push(z);
    let gated = z.subarray(known * H * D);
    if (has(attn + "gate")) {
      const gates = project(input, attn + "gate");
      gated = gated.map((v, i) => v * sigmoid(gates[Math.floor(i / D)]));
    }
    add(x, normed(project(gated, attn + "proj"), name + "post_ln_1"));
    keepStream();
    if (!config.mlps) continue;
    const mlp = feedForward(normed(x, name + "ln_2"), name + "mlp.", project, has, ACTIVATIONS[config.activation]);
    if (edits.has(`${layer}.mlp`)) edit(mlp, T, C, 0, C, edits.get(`${layer}.mlp`), other?.mlps[layer]);
    result.mlps.push(behindPast(past?.mlps[layer], C, mlp));
    add(x, normed(mlp, name + "post_ln_2"));
    keepStream();
  }
  result.logits = behindPast(past?.logits, config.vocab_size, readOut(config, weightOf, x));
  return result;
}

// x [rows, C] behind its norm, if it has one of this name.
function normedBy(config, weightOf, x, name) {
  const weight = weightOf(name + ".weight");
  if (weight === null) return x;
  const y = x.slice(), C = config.d_model;
  normalize(y, x.length / C, C, 0, config.norm, config.norm_eps, weight, weightOf(name + ".bias"));
  return y;
}

// What the residual x [rows, C] predicts: logits [rows, vocab].
function readOut(config, weightOf, x) {
  const logits = linear(normedBy(config, weightOf, x, "ln_f"), x.length / config.d_model, weightOf("head.weight") ?? weightOf("wte.weight"), weightOf("head.bias"));
  const cap = config.logit_cap;
  if (cap > 0) logits.forEach((v, i) => { logits[i] = cap * Math.tanh(v / cap); });
  return logits;
}

// With how many equal tokens two texts begin.
function sharedTokens(a, b) {
  let n = 0;
  while (a && n < Math.min(a.length, b.length) && a[n] === b[n]) ++n;
  return n;
}

function feedForward(x, name, project, has, activation) {
  const hidden = project(x, name + "fc");
  if (has(name + "gate")) {
    const gate = project(x, name + "gate");
    for (let i = 0; i < hidden.length; ++i) hidden[i] *= activation(gate[i]);
  } else for (let i = 0; i < hidden.length; ++i) hidden[i] = activation(hidden[i]);
  return project(hidden, name + "proj");
}

// Embeddings of the tokens from `first` on, plus those of the positions if they are added: [T - first, C].
function embed({ d_model: C, positions }, weightOf, ids, first) {
  const x = new Float32Array((ids.length - first) * C), wte = weightOf("wte.weight").values, wpe = weightOf("wpe.weight")?.values;
  for (let t = first; t < ids.length; ++t)
    for (let c = 0; c < C; ++c) {
      let place = wpe ? wpe[t * C + c] : 0;
      if (positions === "sinusoidal") place = (c % 2 ? Math.cos : Math.sin)(t / 10000 ** ((c - (c % 2)) / C));
      x[(t - first) * C + c] = wte[ids[t] * C + c] + place;
    }
  return x;
}

// The mean loss of the tokens behind the first, in nats.
function meanLoss(logits, ids, vocab) {
  let total = 0;
  for (let t = 0; t + 1 < ids.length; ++t) {
    let largest = -Infinity, sum = 0;
    for (let v = t * vocab; v < (t + 1) * vocab; ++v) largest = Math.max(largest, logits[v]);
    for (let v = t * vocab; v < (t + 1) * vocab; ++v) sum += Math.exp(logits[v] - largest);
    total += largest + Math.log(sum) - logits[t * vocab + ids[t + 1]];
  }
  return total / Math.max(1, ids.length - 1);
}
