// One chart of one or two curves over the steps. All charts share `view`: a step that is pointed at shows in
// each of them.
const MARGIN = { left: 56, right: 10, top: 8, bottom: 40 };

// The name of the axis of steps; the other axis is named by the chart's title.
function stepAxis(width, height) {
  return svgElement("text", { class: "axis", x: (MARGIN.left + width - MARGIN.right) / 2, y: height - 5, "text-anchor": "middle" }, "Step");
}

const short = (value) => {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(2);
  return size >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(4)));
};

// from, to: the steps that are shown, null for all; at: the step that is pointed at; smoothing: percent of the points.
const view = { from: null, to: null, at: null, smoothing: 0 };

class Chart {
  // curves: [{ name of the series, label, color }]
  constructor(title, curves, wide) {
    this.curves = curves;
    this.log = false;
    this.box = document.createElement("section");
    this.box.className = wide ? "chart wide" : "chart";
    this.box.dataset.series = curves[0].name;
    const bar = this.box.appendChild(document.createElement("div"));
    bar.className = "bar";
    bar.appendChild(document.createElement("h2")).textContent = title;
    this.latest = bar.appendChild(document.createElement("span"));
    this.latest.className = "latest";
    bar.appendChild(document.createElement("span")).className = "spring";
    this.keys = bar.appendChild(document.createElement("span"));
    this.keys.className = "bar";
    this.keys.style.margin = 0;
    if (wide) {
      const button = bar.appendChild(document.createElement("button"));
      button.textContent = "Logarithmic";
      button.setAttribute("aria-pressed", "false");
      button.addEventListener("click", () => {
        this.log = !this.log;
        button.setAttribute("aria-pressed", String(this.log));
        this.draw();
      });
    }
    this.svg = this.box.appendChild(svgElement("svg", { role: "application", tabindex: 0, "aria-label": title + ". Arrow keys move through the steps." }));
    this.svg.addEventListener("pointermove", (event) => this.onMove(event));
    this.svg.addEventListener("pointerdown", (event) => this.onDown(event));
    this.svg.addEventListener("pointerup", (event) => this.onUp(event));
    this.svg.addEventListener("pointerleave", () => this.dragged === undefined && pointAt(null));
    this.svg.addEventListener("dblclick", () => showSteps(null, null));
    this.svg.addEventListener("keydown", (event) => this.onKey(event));
    this.svg.addEventListener("blur", () => pointAt(null));
  }

  onMove(event) {
    const at = this.stepAt(event);
    if (this.dragged !== undefined) {
      const [x1, x2] = [this.x(this.dragged), this.x(at)].sort((a, b) => a - b);
      this.chosen.setAttribute("x", x1);
      this.chosen.setAttribute("width", x2 - x1);
    }
    pointAt(at, this, event);
  }

  onDown(event) {
    if (event.button !== 0 || event.pointerType === "touch" || !this.x) return;
    this.dragged = this.stepAt(event);
    this.svg.setPointerCapture(event.pointerId);
  }

  onUp(event) {
    const from = this.dragged, to = this.stepAt(event);
    this.dragged = undefined;
    this.chosen?.setAttribute("width", 0);
    if (from !== undefined && Math.abs(this.x(from) - this.x(to)) > 8) showSteps(Math.min(from, to), Math.max(from, to));
  }

  onKey(event) {
    const curve = this.series?.find(({ x }) => x.length), xs = curve?.x.filter((x) => x >= this.first && x <= this.last);
    if (event.key === "Escape") return showSteps(null, null);
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }[event.key];
    if (!by || !xs?.length) return;
    event.preventDefault();
    const now = view.at === null ? -1 : nearest(xs, view.at);
    pointAt(xs[Math.max(0, Math.min(xs.length - 1, now + by))], this);
  }

  // The step under the pointer.
  stepAt(event) {
    const { left, width } = this.svg.getBoundingClientRect();
    const share = (event.clientX - left - MARGIN.left) / (width - MARGIN.left - MARGIN.right);
    return this.first + Math.max(0, Math.min(1, share)) * (this.last - this.first);
  }

  show(series, steps) {
    this.series = this.curves.filter((curve) => series[curve.name]).map((curve) => ({ ...curve, ...series[curve.name] }));
    this.steps = steps;
    const last = this.series[0];
    this.latest.textContent = last.y.length ? short(last.y.at(-1)) : "";
    this.keys.replaceChildren(...(this.series.length < 2 ? [] : this.series.map((curve) => {
      const key = document.createElement("span"), line = document.createElement("i");
      key.className = "key";
      line.style.background = `var(--${curve.color})`;
      key.append(line, curve.label);
      return key;
    })));
    this.draw();
  }

  // Where the values lie: outliers of a curve's band don't squeeze the curve.
  range() {
    const shown = (v) => !this.log || v > 0;
    const inside = (x) => x >= this.first && x <= this.last;
    const values = this.series.flatMap((curve) => curve.y.filter((_, i) => inside(curve.x[i]))).filter(shown);
    let low = Math.min(...values), high = Math.max(...values);
    if (!values.length) [low, high] = this.log ? [0.1, 1] : [0, 1];
    if (this.log) return low === high ? [low / 2, high * 2] : [low, high];
    if (low === high) [low, high] = low === 0 ? [0, 1] : [low - Math.abs(low) / 2, high + Math.abs(high) / 2];
    const room = 0.05 * (high - low);
    return [low >= 0 && low < 0.3 * high ? 0 : low - room, high + room];
  }

  draw() {
    if (!this.series?.length) return;
    const { width, height } = this.svg.getBoundingClientRect();
    if (width === 0) return;
    this.first = view.from ?? 0;
    this.last = view.to ?? Math.max(1, ...this.series.map((curve) => curve.x.at(-1) ?? 0));
    const [low, high] = this.range(), scale = this.log ? Math.log10 : (v) => v;
    this.x = (step) => MARGIN.left + ((width - MARGIN.left - MARGIN.right) * (step - this.first)) / (this.last - this.first);
    this.y = (v) => MARGIN.top + (height - MARGIN.top - MARGIN.bottom) * (1 - (scale(v) - scale(low)) / (scale(high) - scale(low)));
    const parts = [];
    const across = this.log ? ticks(Math.log10(low), Math.log10(high), 5).map((v) => 10 ** v) : ticks(low, high, height > 250 ? 6 : 4);
    const words = this.log ? across.map((v) => short(Number(v.toPrecision(3)))) : tickWords(across);
    for (const [i, v] of across.entries()) {
      parts.push(svgElement("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: this.y(v), y2: this.y(v) }));
      parts.push(svgElement("text", { x: MARGIN.left - 7, y: this.y(v) + 4, "text-anchor": "end" }, words[i]));
    }
    for (const step of ticks(this.first, this.last, width > 700 ? 10 : 4).filter(Number.isInteger))
      parts.push(svgElement("text", { x: this.x(step), y: height - 22, "text-anchor": this.x(step) > width - 30 ? "end" : "middle" }, step.toLocaleString("en")));
    const inside = (v) => Math.max(MARGIN.top, Math.min(height - MARGIN.bottom, this.y(v)));
    const path = (xs, ys) => xs.map((x, i) => (this.log && !(ys[i] > 0) ? "" : `${i ? "L" : "M"}${this.x(x).toFixed(1)} ${inside(ys[i]).toFixed(1)}`)).join("").replace(/^L/, "M");
    // In a part of the steps the curves go on beyond the axes: they are cut there.
    const clip = "clip-" + this.box.dataset.number, curves = svgElement("g", { "clip-path": `url(#${clip})` });
    const area = svgElement("clipPath", { id: clip });
    area.append(svgElement("rect", { x: MARGIN.left - 3, y: 0, width: Math.max(0, width - MARGIN.left - MARGIN.right + 6), height }));
    parts.push(area, curves);
    for (const curve of this.series) {
      const color = `var(--${curve.color})`;
      if (curve.low && !this.log)
        curves.append(svgElement("path", { class: "band", fill: color, d: path(curve.x, curve.high) + path([...curve.x].reverse(), [...curve.low].reverse()).replace(/^M/, "L") + "Z" }));
      const smoothed = view.smoothing > 0 && curve.y.length > 2 && curve.name !== "lr";
      curves.append(svgElement("path", { class: "curve", stroke: color, "stroke-opacity": smoothed ? 0.28 : 1, d: path(curve.x, curve.y) }));
      if (smoothed) curves.append(svgElement("path", { class: "curve smooth", stroke: color, d: path(curve.x, smooth(curve.y, view.smoothing)) }));
      if (curve.y.length <= 60)
        curve.x.forEach((x, i) => curves.append(svgElement("circle", { class: "dot", cx: this.x(x), cy: inside(curve.y[i]), r: 2.6, fill: color })));
    }
    this.chosen = svgElement("rect", { class: "chosen", x: 0, width: 0, y: MARGIN.top, height: Math.max(0, height - MARGIN.top - MARGIN.bottom) });
    parts.push(this.chosen);
    this.cursor = svgElement("line", { class: "cursor", y1: MARGIN.top, y2: height - MARGIN.bottom, visibility: "hidden" });
    this.svg.replaceChildren(...parts, stepAxis(width, height), this.cursor);
    this.point();
  }

  // The line at the step that is pointed at.
  point() {
    if (!this.x) return;
    const shown = view.at !== null && view.at >= this.first && view.at <= this.last;
    this.cursor.setAttribute("visibility", shown ? "visible" : "hidden");
    if (shown) for (const name of ["x1", "x2"]) this.cursor.setAttribute(name, this.x(view.at));
  }

  // The values at a step, a line for each curve.
  values(step) {
    return (this.series ?? []).filter(({ x }) => x.length).map((curve) => {
      const i = nearest(curve.x, step);
      return `${curve.label}: ${short(curve.y[i])}` + (curve.low ? ` (${short(curve.low[i])} … ${short(curve.high[i])})` : "");
    });
  }
}

// Places the tip beside and above a point of the window.
function placeTip(tip, x, y) {
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(innerWidth - box.width - 4, x + 14)) + "px";
  tip.style.top = Math.max(4, y - box.height - 10) + "px";
}

// Shows a step in all charts, and its values beside `event` or, of keys, beside the line.
function pointAt(step, chart = null, event = null) {
  const tip = document.getElementById("tip"), xs = chart?.series?.find(({ x }) => x.length)?.x;
  view.at = step === null || !xs ? null : xs[nearest(xs, step)];
  charts.forEach((each) => each.point());
  tip.hidden = view.at === null;
  if (tip.hidden) return;
  tip.textContent = [`step ${view.at.toLocaleString("en")}`, ...chart.values(view.at)].join("\n");
  if (!event) document.getElementById("said").textContent = tip.textContent.replaceAll("\n", ", ");
  const place = chart.svg.getBoundingClientRect();
  placeTip(tip, event?.clientX ?? place.left + chart.x(view.at), event?.clientY ?? place.top + 60);
}

// Shows a part of the steps in all charts, or all.
function showSteps(from, to) {
  Object.assign(view, { from, to });
  document.getElementById("all").hidden = from === null;
  charts.forEach((chart) => chart.draw());
}

// The mean of each value and its neighbours, `percent` of all.
function smooth(values, percent) {
  const half = Math.ceil((values.length * percent) / 200), sums = [0];
  for (const v of values) sums.push(sums.at(-1) + v);
  return values.map((_, i) => {
    const from = Math.max(0, i - half), to = Math.min(values.length, i + half + 1);
    return (sums[to] - sums[from]) / (to - from);
  });
}
