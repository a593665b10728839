// The weights of a model, as C++ has packed them (plot/live_model.cpp).

// IEEE 754 binary16 as float32
function floats(halves) {
  const out = new Float32Array(halves.length), bits = new Uint32Array(out.buffer);
  for (let i = 0; i < halves.length; ++i) {
    const sign = halves[i] & 0x8000, rest = halves[i] & 0x7fff;
    if (rest >= 1024) bits[i] = (sign << 16) | ((rest << 13) + 0x38000000); // the exponent begins at -126, not at -14
    else out[i] = (sign ? -1 : 1) * rest * 2 ** -24;
  }
  return out;
}

// The weights of a snapshot: a function from a tensor's name to { shape, values }, or null.
async function unpack(config, base64) {
  const buffer = await inflated(base64);
  const values = config.float32 ? new Float32Array(buffer) : floats(new Uint16Array(buffer)), tensors = new Map();
  let at = 0;
  for (const { name, shape } of config.tensors) tensors.set(name, { shape, values: values.subarray(at, (at += shape.reduce((a, b) => a * b, 1))) });
  return (name) => tensors.get(name) ?? null;
}
