// Numbers of charts.

// Round numbers between low and high, about `count` of them.
function ticks(low, high, count) {
  const power = 10 ** Math.floor(Math.log10((high - low) / count));
  const step = power * [1, 2, 5, 10].find((m) => (high - low) / (m * power) <= count);
  const list = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i) list.push(Number((i * step).toPrecision(10)));
  return list;
}

// The words of the ticks of one axis: all have as many decimals as one of them needs, or all have exponents.
function tickWords(values) {
  const size = Math.max(...values.map(Math.abs)), exponents = size >= 1e5 || size < 1e-3;
  const plain = (v) => (exponents ? v.toExponential() : String(v));
  const digits = Math.max(...values.map((v) => (plain(v).match(/\.(\d+)/)?.[1] ?? "").length));
  const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return values.map((v) => (v === 0 ? "0" : exponents ? v.toExponential(digits) : v.toLocaleString("en", options)));
}

// A number with so many decimals and a long minus. A zero has no sign.
function decimal(v, digits) {
  const text = Math.abs(v).toFixed(digits);
  return (v < 0 && Number(text) > 0 ? "−" : "") + text;
}

// The index of the number that is nearest to `step`, in a list.
function nearest(xs, step) { return xs.reduce((best, x, i) => (Math.abs(x - step) < Math.abs(xs[best] - step) ? i : best), 0); }
