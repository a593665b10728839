// One chart of one or two curves over the steps.
const SVG = "http://www.w3.org/2000/svg", MARGIN = { left: 56, right: 10, top: 8, bottom: 24 };

const short = (value) => {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(2);
  return size >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(4)));
};

function element(name, attributes, text) {
  const e = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  if (text !== undefined) e.textContent = text;
  return e;
}

// Round numbers between low and high, about `count` of them.
function ticks(low, high, count) {
  const power = 10 ** Math.floor(Math.log10((high - low) / count));
  const step = power * [1, 2, 5, 10].find((m) => (high - low) / (m * power) <= count);
  const list = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i) list.push(Number((i * step).toPrecision(10)));
  return list;
}

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
    this.svg = this.box.appendChild(element("svg", { role: "img", "aria-label": title }));
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.leave());
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
    const values = this.series.flatMap((curve) => curve.y).filter(shown);
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
    const [low, high] = this.range(), scale = this.log ? Math.log10 : (v) => v;
    const last = Math.max(1, ...this.series.map((curve) => curve.x.at(-1) ?? 0));
    this.x = (step) => MARGIN.left + (width - MARGIN.left - MARGIN.right) * (step / last);
    this.y = (v) => MARGIN.top + (height - MARGIN.top - MARGIN.bottom) * (1 - (scale(v) - scale(low)) / (scale(high) - scale(low)));
    const parts = [];
    const across = this.log ? ticks(Math.log10(low), Math.log10(high), 5).map((v) => 10 ** v) : ticks(low, high, height > 250 ? 6 : 4);
    for (const v of across) {
      parts.push(element("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: this.y(v), y2: this.y(v) }));
      parts.push(element("text", { x: MARGIN.left - 7, y: this.y(v) + 4, "text-anchor": "end" }, short(Number(v.toPrecision(3)))));
    }
    for (const step of ticks(0, last, width > 700 ? 10 : 4).filter(Number.isInteger))
      parts.push(element("text", { x: this.x(step), y: height - 6, "text-anchor": this.x(step) > width - 30 ? "end" : "middle" }, step.toLocaleString("en")));
    const inside = (v) => Math.max(MARGIN.top, Math.min(height - MARGIN.bottom, this.y(v)));
    const path = (xs, ys) => xs.map((x, i) => (this.log && !(ys[i] > 0) ? "" : `${i ? "L" : "M"}${this.x(x).toFixed(1)} ${inside(ys[i]).toFixed(1)}`)).join("").replace(/^L/, "M");
    for (const curve of this.series) {
      const color = `var(--${curve.color})`;
      if (curve.low && !this.log)
        parts.push(element("path", { class: "band", fill: color, d: path(curve.x, curve.high) + path([...curve.x].reverse(), [...curve.low].reverse()).replace(/^M/, "L") + "Z" }));
      const noisy = curve.y.length >= 200 && curve.name !== "lr";
      parts.push(element("path", { class: "curve", stroke: color, "stroke-opacity": noisy ? 0.28 : 1, d: path(curve.x, curve.y) }));
      if (noisy) parts.push(element("path", { class: "curve", stroke: color, d: path(curve.x, smooth(curve.y)) }));
      if (curve.y.length <= 60)
        curve.x.forEach((x, i) => parts.push(element("circle", { class: "dot", cx: this.x(x), cy: inside(curve.y[i]), r: 2.6, fill: color })));
    }
    this.cursor = element("line", { class: "cursor", y1: MARGIN.top, y2: height - MARGIN.bottom, visibility: "hidden" });
    this.svg.replaceChildren(...parts, this.cursor);
  }

  point(event) {
    if (!this.series?.length) return;
    const at = event.clientX - this.svg.getBoundingClientRect().left;
    const lines = [];
    let step = null;
    for (const curve of this.series) {
      if (!curve.x.length) continue;
      const i = curve.x.reduce((best, x, k) => (Math.abs(this.x(x) - at) < Math.abs(this.x(curve.x[best]) - at) ? k : best), 0);
      step ??= curve.x[i];
      lines.push(`${curve.label}: ${short(curve.y[i])}` + (curve.low ? ` (${short(curve.low[i])} … ${short(curve.high[i])})` : ""));
    }
    if (step === null) return;
    this.cursor.setAttribute("visibility", "visible");
    for (const name of ["x1", "x2"]) this.cursor.setAttribute(name, this.x(step));
    const tip = document.getElementById("tip");
    tip.hidden = false;
    tip.textContent = [`step ${step.toLocaleString("en")}`, ...lines].join("\n");
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.min(innerWidth - box.width - 4, event.clientX + 14) + "px";
    tip.style.top = Math.max(4, event.clientY - box.height - 10) + "px";
  }

  leave() {
    this.cursor?.setAttribute("visibility", "hidden");
    document.getElementById("tip").hidden = true;
  }
}

// The mean of each value and its neighbours, a fortieth of all.
function smooth(values) {
  const half = Math.ceil(values.length / 80), sums = [0];
  for (const v of values) sums.push(sums.at(-1) + v);
  return values.map((_, i) => {
    const from = Math.max(0, i - half), to = Math.min(values.length, i + half + 1);
    return (sums[to] - sums[from]) / (to - from);
  });
}
