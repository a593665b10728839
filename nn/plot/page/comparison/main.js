// Two runs: their curves over each other, their heads in pairs.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

// The weight that two heads share, mean over the queries; null if their shapes differ.
function similarity(a, b) {
  if (a.rows !== b.rows || a.cols !== b.cols) return null;
  let sum = 0;
  for (let q = 0; q < a.rows; ++q) for (let k = 0; k < a.cols; ++k) sum += Math.min(a.value(q, k), b.value(q, k)) || 0;
  return sum / a.rows;
}

// Pairs { a, b, shared }, the most similar one first; each head is in one pair at most.
function matched(heads) {
  const all = [];
  for (const a of heads[0]) for (const b of heads[1]) {
    const shared = similarity(a.head, b.head);
    if (shared !== null) all.push({ a, b, shared });
  }
  const taken = new Set();
  return all.sort((p, q) => q.shared - p.shared).filter(({ a, b }) => {
    if (taken.has(a) || taken.has(b)) return false;
    taken.add(a).add(b);
    return true;
  });
}

const lastHeads = async ({ source }) =>
  (await Promise.all(source.layers.map((_, layer) => source.headsOf(layer, source.frames.length - 1))))
    .flatMap((heads, layer) => heads.map((head, index) => ({ head, layer, index, name: `${layerNames(source.layers)[layer]}, head ${index + 1}` })));

// The colour of a difference: that of the run that has more, the stronger the larger it is, from that of the panel.
function differenceColor(v, most) {
  const style = getComputedStyle(document.documentElement), of = (name) => rgbOf(style.getPropertyValue(name).trim());
  const strength = Math.min(1, Math.abs(v) / Math.max(Math.abs(most), 1e-3)), from = of("--panel"), to = of(v > 0 ? "--accent" : "--link");
  return "#" + from.map((c, i) => Math.round(c + (to[i] - c) * strength).toString(16).padStart(2, "0")).join("");
}

// From what the second run has more, on top, to what the first has more.
function drawDifferenceBar(painter, x, top, height, most) {
  const largest = Math.max(Math.abs(most), 1e-3);
  for (let i = 0; i < 64; ++i) painter.rect(x, top + (i * height) / 64, 11, height / 64 + 0.5, differenceColor(largest * (1 - i / 31.5), largest));
  for (const [at, v] of [[0, largest], [0.5, 0], [1, largest]]) painter.text(x + 15, top + at * height, v === 0 ? "0" : v.toFixed(2), { size: 10.5 });
  data.names.forEach((name, i) => painter.text(x + 15, top + (i ? 14 : height - 14), `more in ${label(name, 14)}`, { size: 10.5 }));
}

// b minus a: a cell has the colour of the run that has more weight there. The strongest is the largest.
function drawDifference({ a, b, shared }) {
  const { rows, cols, queries, keys } = a.head, canvas = byId("difference");
  const gutter = 72 + AXIS, over = 26 + AXIS, bar = 190, side = Math.max(3, Math.min(44, (canvas.parentElement.clientWidth - gutter - bar) / cols));
  const painter = sized(canvas, gutter + cols * side + bar, over + Math.max(rows * side, 90) + 8), gap = side > 8 ? 1 : 0;
  let most = 0, at = [0, 0];
  const difference = (q, k) => b.head.value(q, k) - a.head.value(q, k);
  for (let q = 0; q < rows; ++q) for (let k = 0; k < cols; ++k) if (Math.abs(difference(q, k)) > Math.abs(most)) (most = difference(q, k)), (at = [q, k]);
  for (let q = 0; q < rows; ++q)
    for (let k = 0; k < cols; ++k) {
      const v = difference(q, k), hidden = a.head.reason(q, k), color = hidden ? theme.hidden : differenceColor(v, most);
      const place = [gutter + k * side, over + q * side, side - gap, side - gap];
      painter.rect(...place, color);
      if (hidden) painter.hatch(...place, hidden, theme.hatch);
      else if (side >= 34) painter.text(place[0] + side / 2, place[1] + side / 2, v.toFixed(2).replace("-", "−"), { anchor: "middle", color: inkOn(color) });
    }
  painter.text(gutter, 7, "Key →", { color: theme.ink, bold: true });
  painter.text(7, over, "← Query", { color: theme.ink, bold: true, turn: -90, anchor: "end" });
  const every = Math.ceil(14 / side), across = Math.ceil(34 / side);
  for (let q = 0; q < rows; q += every) painter.text(gutter - 6, over + (q + 0.5) * side, label(queries[q], 7), { anchor: "end" });
  for (let k = 0; k < cols; k += across) painter.text(gutter + (k + 0.5) * side, over - 10, label(keys[k], 5), { anchor: "middle" });
  drawDifferenceBar(painter, gutter + cols * side + 14, over, Math.max(rows * side, 90) - gap, most);
  Object.assign(canvas.dataset, { left: gutter, top: over, side });
  canvas.dataset.most = most;
  const [more, less] = most > 0 ? [1, 0] : [0, 1], where = `${quoted(queries[at[0]])} → ${quoted(keys[at[1]])}`;
  byId("difference-title").textContent = `${data.names[0]}: ${a.name} · ${data.names[1]}: ${b.name} · similarity ${shared.toFixed(3)}`;
  byId("difference-note").textContent = Math.abs(most) < 0.005
    ? "The two heads are equal."
    : `The largest difference: ${where}, where ${data.names[more]} has ${Math.abs(most).toFixed(3)} more than ${data.names[less]}. The colours are those of the runs.`;
  canvas.setAttribute("aria-label", `Difference of the weights. ${byId("difference-note").textContent}`);
}

document.addEventListener("DOMContentLoaded", async () => {
  followTheme();
  byId("names").append(...data.names.map((name, i) => {
    const key = document.createElement("span"), line = document.createElement("i");
    line.style.background = `var(${COLORS[i]})`;
    key.append(line, name);
    return key;
  }));
  const charts = data.charts.map((chart) => new ComparedCurves(chart, data.names));
  byId("charts").append(...charts.map(({ box }) => box));
  charts.forEach((chart) => chart.draw());
  const views = [...document.querySelectorAll(".heads-view")].map((root) => new HeadsView(root));
  await Promise.all(views.map((view) => view.set({ scale: "one" }))); // equal weights have equal colours in both
  let chosen = null;
  if (views.length) {
    const pairs = matched(await Promise.all(views.map(lastHeads)));
    const choose = async (i) => {
      chosen = pairs[i];
      [...byId("pairs").children].forEach((button, k) => button.setAttribute("aria-selected", k === i));
      drawDifference(chosen);
      const ends = [chosen.a, chosen.b];
      await Promise.all(views.map((view, k) => view.set({ layer: ends[k].layer, head: ends[k].index, frame: view.source.frames.length - 1 })));
    };
    byId("pairs").append(...pairs.map(({ a, b, shared }, i) => {
      const button = document.createElement("button"), number = document.createElement("b");
      button.type = "button";
      button.setAttribute("role", "option");
      number.textContent = shared.toFixed(3);
      button.append(number, `${a.name} ↔ ${b.name}`);
      button.addEventListener("click", () => choose(i));
      return button;
    }));
    byId("matched").hidden = pairs.length === 0;
    if (pairs.length) await choose(0);
  }
  const redraw = () => {
    charts.forEach((chart) => chart.draw());
    if (chosen) drawDifference(chosen);
  };
  document.addEventListener("theme", redraw);
  window.addEventListener("resize", redraw);
  performance.mark("ready");
  document.documentElement.dataset.ready = "true";
});
