// Numbers of charts.

// Round numbers between low and high, about `count` of them.
function ticks(low, high, count) {
  const power = 10 ** Math.floor(Math.log10((high - low) / count));
  const step = power * [1, 2, 5, 10].find((m) => (high - low) / (m * power) <= count);
  const list = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i) list.push(Number((i * step).toPrecision(10)));
  return list;
}

// The index of the number that is nearest to `step`, in a list.
function nearest(xs, step) { return xs.reduce((best, x, i) => (Math.abs(x - step) < Math.abs(xs[best] - step) ? i : best), 0); }
