// What a view of heads shows. A source has
//   layers            their names
//   frames            [step, call] of each frame
//   entry(l, f)       { heads, measures } of a layer at a frame, or undefined if it was not recorded
//   headsOf(l, f)     a promise of the layer's Heads, empty if it was not recorded
// RecordedSource reads a recording in the page.

// A number of C++ names the reason why a pair is masked; here are the words.
const REASONS = ["", "comes later", "padding", "masked", "outside the window"];

// In the order of the numbers in the page.
const MEASURES = [
  { name: "Entropy", unit: " nats", digits: 2, about: "0 if one key gets everything, more the more keys share it" },
  { name: "Mean distance", unit: "", digits: 1, about: "tokens from the query to what it looks at" },
  { name: "On itself", unit: "", digits: 3, about: "weight on the query's own position" },
  { name: "On the previous", unit: "", digits: 3, about: "weight on the position before" },
  { name: "On the first", unit: "", digits: 3, about: "weight on the first key" },
  { name: "Agreement", unit: "", digits: 3, about: "weight on the same keys as the mean of the layer's other heads: 1 if it does what they do" },
  { name: "Duplicate", unit: "", digits: 3, about: "weight on earlier occurrences of the query's token" },
  { name: "Induction", unit: "", digits: 3, about: "weight on the tokens right after earlier occurrences of the query's token" },
];

// What a head may be called, in the order of HeadRoles of C++, and from which number on: 0 is the weight there by chance
// (even weights), 1 all weight. C++ has measured a role as [number, weight, weight by chance], or null.
const ROLES = [
  { name: "self", about: "It looks at its own token", letter: "S", threshold: 0.5 },
  { name: "previous token", about: "It looks at the token before", letter: "P", threshold: 0.3 },
  { name: "first token", about: "It looks at the first token: often a place to rest", letter: "F", threshold: 0.5 },
  { name: "duplicate", about: "It looks at earlier copies of the same token", letter: "D", threshold: 0.4 },
  { name: "induction", about: "It looks behind earlier copies of the same token: at what came next there", letter: "I", threshold: 0.4 },
];

// The largest role of a head that passes its threshold: { name, letter, value, weight, chance, words }, or null.
function roleOf(roles) {
  let best = null;
  ROLES.forEach(({ name, letter, threshold }, i) => {
    const [value, weight, chance] = roles?.[i] ?? [0];
    if (value >= threshold && value > (best?.value ?? 0)) best = { name, letter, value, weight, chance, words: `${name} ${value.toFixed(2)}` };
  });
  return best;
}

// How much a head has to tell at first sight: what it finds in the text, then how sharply it looks. Of two that find
// something, the one that needs more of the text for it.
const TELLING = [1, 3, 4]; // previous token, duplicate, induction
function tellingOf(head) {
  const found = TELLING.map((i) => { const value = head.roles?.[i]?.[0] ?? 0; return value >= ROLES[i].threshold ? i + value : 0; });
  const plain = roleOf(head.roles) !== null, sharp = head.cols > 1 ? 1 - (head.measures[0] ?? Infinity) / Math.log(head.cols) : 0;
  return Math.max(...found, plain ? 0 : sharp);
}

// The runs whose heads stand in the page.
function recordedRuns(root) {
  return [...root.querySelectorAll(".run-data")].map((part) => ({ name: part.dataset.name, source: new RecordedSource(part) }));
}

class RecordedSource {
  constructor(root) {
    this.data = JSON.parse(root.querySelector("script.data").textContent);
    this.layers = this.data.layers;
    this.frames = this.data.frames;
    this.entries = this.layers.map(() => []);
    for (const entry of this.data.entries) this.entries[entry.layer][entry.frame] = entry;
    this.packed = [...root.querySelectorAll("script.block")];
    // Blocks that were unpacked, the last used ones last, as many as fit into the memory set aside.
    this.unpacked = new Map();
    this.unpackedBytes = 0;
  }

  entry(layer, frame) { return this.entries[layer][frame]; }

  async headsOf(layer, frame) {
    const entry = this.entry(layer, frame);
    if (!entry) return [];
    const { heads, rows, cols, notes } = entry;
    const bytes = await this.block(entry.block);
    const masked = entry.mask === null ? null : await this.block(entry.mask);
    return Array.from({ length: heads }, (_, index) => {
      const maskHead = entry.mask_heads === heads ? index : 0;
      return new Head({
        index, rows, cols, notes,
        self: entry.kind === "self",
        queries: this.data.tokens[entry.queries],
        keys: this.data.tokens[entry.keys],
        rowLargest: new Float32Array(bytes.buffer, index * rows * 4, rows),
        codes: bytes.subarray(heads * rows * 4 + index * rows * cols, heads * rows * 4 + (index + 1) * rows * cols),
        hidden: masked && masked.subarray(maskHead * rows * cols, (maskHead + 1) * rows * cols),
        measures: entry.measures[index],
        roles: entry.roles[index],
      });
    });
  }

  async block(number) {
    let bytes = this.unpacked.get(number);
    if (bytes) {
      this.unpacked.delete(number);
      this.unpacked.set(number, bytes);
      return bytes;
    }
    bytes = new Uint8Array(await inflated(this.packed[number].textContent));
    if (!this.unpacked.has(number)) {
      this.unpacked.set(number, bytes);
      this.unpackedBytes += bytes.length;
    }
    for (const [old, { length }] of this.unpacked) {
      if (this.unpackedBytes <= 256e6 || old === number) break;
      this.unpacked.delete(old);
      this.unpackedBytes -= length;
    }
    return bytes;
  }
}

// One head at one step: weights as fractions of their row's largest, in 255 steps.
class Head {
  // { index, rows, cols, self, queries, keys, rowLargest, codes, hidden, measures, roles, notes }; hidden: reasons, or null.
  constructor(parts) {
    Object.assign(this, parts);
    this.notes ??= [];
    this.largest = this.scaleTop();
  }

  // A head of computed weights, rows x cols. Rows of zeros attend to nothing.
  static of({ weights, rows, cols, ...parts }) {
    const rowLargest = new Float32Array(rows), codes = new Uint8Array(rows * cols);
    for (let q = 0; q < rows; ++q) {
      for (let k = 0; k < cols; ++k) {
        const v = weights[q * cols + k];
        rowLargest[q] = Number.isFinite(v) && !Number.isNaN(rowLargest[q]) ? Math.max(rowLargest[q], v) : NaN;
      }
      if (rowLargest[q] > 0) for (let k = 0; k < cols; ++k) codes[q * cols + k] = Math.round((weights[q * cols + k] / rowLargest[q]) * 255);
    }
    return new Head({ self: true, hidden: null, measures: [], roles: [], ...parts, rows, cols, rowLargest, codes });
  }

  // The top of the default scale: nine of ten rows have their largest weight below it. Rows that attend to a few keys
  // only, such as the first ones of a causal head, have large weights whatever the head does: they don't count.
  scaleTop() {
    const tops = [], few = [];
    for (let q = 0; q < this.rows; ++q) {
      if (!(this.rowLargest[q] > 0)) continue;
      let keys = this.cols;
      if (this.hidden) for (let k = 0; k < this.cols; ++k) keys -= this.hidden[q * this.cols + k] !== 0;
      (keys > 1 ? tops : few).push(this.rowLargest[q]);
    }
    const list = (tops.length ? tops : few).sort((a, b) => a - b);
    this.clipped = list.length > 0 && list.at(-1) > list[Math.floor(0.9 * (list.length - 1))] * 1.001;
    return list[Math.floor(0.9 * (list.length - 1))] ?? 1;
  }

  // The same on a scale up to this weight.
  scaledTo(top) { return Object.assign(Object.create(Head.prototype), this, { largest: top }); }

  value(q, k) { return (this.codes[q * this.cols + k] / 255) * this.rowLargest[q]; }
  reason(q, k) { return this.hidden ? this.hidden[q * this.cols + k] : 0; }
  finite(q) { return !Number.isNaN(this.rowLargest[q]); }

  // Whether the query is fully masked: softmax gives every other row something.
  blind(q) { return this.rowLargest[q] === 0; }

  // Whether no query may attend to the key.
  padded(k) {
    for (let q = 0; q < this.rows; ++q) if (this.reason(q, k) === 0) return false;
    return this.hidden !== null && this.rows > 0 && this.reason(this.rows - 1, k) === 2;
  }

  describe(q, k) {
    if (!this.finite(q)) return "not finite";
    if (this.blind(q)) return "sees nothing";
    const reason = this.reason(q, k);
    return reason ? REASONS[reason] : weightText(this.value(q, k));
  }
}

function weightText(v) {
  if (v === 0) return "0";
  return v < 0.001 ? v.toExponential(1) : v.toFixed(3);
}

function measureText(measure, value) {
  return value === null || value === undefined ? "–" : value.toFixed(measure.digits) + measure.unit;
}

function frameText([step, call]) {
  return "Step " + step.toLocaleString("en") + (call ? ", call " + (call + 1) : "");
}

// A token as it is shown: not too long, and to be seen even if it is made of spaces.
function label(token, limit = 24) {
  const letters = Array.from(token);
  const text = letters.length > limit ? letters.slice(0, limit - 1).join("") + "…" : token;
  return /^\s*$/u.test(text) ? "␣".repeat(Math.max(1, Math.min(letters.length, 3))) : text;
}

// How pages call layers. Names that differ in one number alone, h.0.attn, h.1.attn …, become layer 1, layer 2 …
function layerNames(layers) {
  const parts = layers.map((name) => name.split(".")), first = parts[0];
  const differs = first.map((_, i) => i).filter((i) => parts.some((p) => p[i] !== first[i]));
  const counted = layers.length > 1 && parts.every((p) => p.length === first.length) && differs.length === 1 &&
    parts.every((p, layer) => p[differs[0]] === String(layer));
  return counted ? layers.map((_, layer) => `layer ${layer + 1}`) : layers;
}

// Names of layers without the dotted parts that all of them end with.
function shortNames(layers) {
  if (layerNames(layers) !== layers) return layerNames(layers);
  const parts = layers.map((name) => name.split("."));
  while (layers.length > 1 && parts.every((p) => p.length > 1 && p.at(-1) === parts[0].at(-1))) parts.forEach((p) => p.pop());
  return parts.map((p) => p.join("."));
}
