// What the page was given, and how it is read. A number of C++ names the reason why a pair is hidden; here are the words.

const data = JSON.parse(document.getElementById("data").textContent);

const REASONS = ["", "comes later", "padding", "hidden by the mask", "outside the window"];

const MEASURES = [
  { name: "Entropy", unit: " nats", digits: 2, about: "0 if one key gets everything, more the more keys share it" },
  { name: "Mean distance", unit: "", digits: 1, about: "tokens from the query to what it looks at" },
  { name: "On itself", unit: "", digits: 3, about: "weight on the query's own position" },
  { name: "On the previous", unit: "", digits: 3, about: "weight on the position before" },
  { name: "On the first", unit: "", digits: 3, about: "weight on the first key" },
  { name: "Agreement", unit: "", digits: 3, about: "weight that is where the layer's other heads have theirs, too" },
];

// entries[layer][frame]; undefined where a layer was not recorded at that step.
const entries = data.layers.map(() => []);
for (const entry of data.entries) entries[entry.layer][entry.frame] = entry;

// Blocks that were unpacked, the last used ones last, as many as fit into the memory set aside.
const unpacked = new Map();
const unpackedLimit = 256e6;
let unpackedBytes = 0;

async function block(number) {
  let bytes = unpacked.get(number);
  if (bytes) {
    unpacked.delete(number);
    unpacked.set(number, bytes);
    return bytes;
  }
  const packed = atob(document.getElementById("block-" + number).textContent);
  const input = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; ++i) input[i] = packed.charCodeAt(i);
  const stream = new Blob([input]).stream().pipeThrough(new DecompressionStream("deflate"));
  bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  if (!unpacked.has(number)) {
    unpacked.set(number, bytes);
    unpackedBytes += bytes.length;
  }
  for (const [old, { length }] of unpacked) {
    if (unpackedBytes <= unpackedLimit || old === number) break;
    unpacked.delete(old);
    unpackedBytes -= length;
  }
  return bytes;
}

// One head at one step: weights as fractions of their row's largest, in 255 steps.
class Head {
  constructor(entry, bytes, hidden, index) {
    const { rows, cols, heads } = entry;
    this.entry = entry;
    this.index = index;
    this.rows = rows;
    this.cols = cols;
    this.self = entry.kind === "self";
    this.queries = data.tokens[entry.queries];
    this.keys = data.tokens[entry.keys];
    this.rowLargest = new Float32Array(bytes.buffer, index * rows * 4, rows);
    this.codes = bytes.subarray(heads * rows * 4 + index * rows * cols, heads * rows * 4 + (index + 1) * rows * cols);
    const maskHead = entry.mask_heads === heads ? index : 0;
    this.hidden = hidden && hidden.subarray(maskHead * rows * cols, (maskHead + 1) * rows * cols);
    this.largest = 0;
    for (const v of this.rowLargest) if (v > this.largest) this.largest = v;
    if (!(this.largest > 0)) this.largest = 1;
  }

  value(q, k) { return (this.codes[q * this.cols + k] / 255) * this.rowLargest[q]; }
  reason(q, k) { return this.hidden ? this.hidden[q * this.cols + k] : 0; }
  finite(q) { return !Number.isNaN(this.rowLargest[q]); }

  // Whether the query may look at nothing: softmax gives every other row something.
  blind(q) { return this.rowLargest[q] === 0; }

  // Whether nobody may look at the key.
  padded(k) {
    for (let q = 0; q < this.rows; ++q) if (this.reason(q, k) === 0) return false;
    return this.hidden !== null && this.rows > 0 && this.reason(this.rows - 1, k) === 2;
  }

  measures() { return this.entry.measures[this.index]; }

  describe(q, k) {
    if (!this.finite(q)) return "not finite";
    if (this.blind(q)) return "sees nothing";
    const reason = this.reason(q, k);
    return reason ? REASONS[reason] : weightText(this.value(q, k));
  }
}

// All heads of a layer at a step, or an empty list.
async function headsOf(layer, frame) {
  const entry = entries[layer][frame];
  if (!entry) return [];
  const bytes = await block(entry.block);
  const hidden = entry.mask === null ? null : await block(entry.mask);
  return Array.from({ length: entry.heads }, (_, index) => new Head(entry, bytes, hidden, index));
}

function weightText(v) {
  if (v === 0) return "0";
  return v < 0.001 ? v.toExponential(1) : v.toFixed(3);
}

function measureText(measure, value) {
  return value === null ? "–" : value.toFixed(measure.digits) + measure.unit;
}

function frameText(frame) {
  const [step, call] = data.frames[frame];
  return "Step " + step.toLocaleString("en") + (call ? ", call " + (call + 1) : "");
}

// A token as it is shown: not too long, and to be seen even if it is made of spaces.
function label(token, limit = 24) {
  const letters = Array.from(token);
  const text = letters.length > limit ? letters.slice(0, limit - 1).join("") + "…" : token;
  return /^\s*$/u.test(text) ? "␣".repeat(Math.max(1, Math.min(letters.length, 3))) : text;
}
