// The magnitudes of weights and gradients over the steps: a column for a step, two classes a decade.
const LOWEST = -10; // the power of ten below which class 0 is
const power = (k) => `1e${LOWEST + (k - 1) / 2}`;

class Histogram {
  constructor(kind, title) {
    this.kind = kind;
    this.at = null; // { column, k }: what is pointed at
    this.box = document.createElement("section");
    this.box.className = "chart";
    this.box.dataset.histogram = kind;
    this.box.appendChild(document.createElement("h2")).textContent = title;
    this.svg = this.box.appendChild(svgElement("svg", { role: "application", tabindex: 0, "aria-label": title + ". Arrow keys move through steps and magnitudes." }));
    this.svg.addEventListener("pointermove", (event) => this.onMove(event));
    this.svg.addEventListener("pointerleave", () => this.point(null));
    this.svg.addEventListener("blur", () => this.point(null));
    this.svg.addEventListener("keydown", (event) => this.onKey(event));
  }

  show(columns) {
    this.columns = columns;
    this.box.hidden = !columns;
    this.draw();
  }

  draw() {
    if (!this.columns) return;
    const { width, height } = this.svg.getBoundingClientRect(), { x, counts } = this.columns;
    if (width === 0) return;
    const classes = counts[0].length, used = counts[0].map((_, k) => counts.some((column) => column[k] > 0));
    this.low = Math.max(0, used.indexOf(true) - 1);
    this.high = Math.min(classes - 1, used.lastIndexOf(true) + 1);
    const parts = [], cell = (height - MARGIN.top - MARGIN.bottom) / (this.high - this.low + 1);
    const step = (width - MARGIN.left - MARGIN.right) / x.length;
    Object.assign(this, { cell, step });
    this.share = (column, k) => counts[column][k] / Math.max(1, counts[column].reduce((a, b) => a + b, 0));
    for (let i = 0; i < x.length; ++i)
      for (let k = this.low; k <= this.high; ++k)
        if (counts[i][k] > 0)
          parts.push(svgElement("rect", { class: "share", x: MARGIN.left + i * step, y: this.top(k), width: step, height: cell, "fill-opacity": Math.sqrt(this.share(i, k)).toFixed(3) }));
    for (let k = this.low; k <= this.high; ++k)
      if (k === 0 || (k % 4 === 1 || (k % 2 === 1 && cell > 14)) && (k > 1 || this.low > 0 || cell > 24)) // 0 and the lowest power apart
        parts.push(svgElement("text", { x: MARGIN.left - 7, y: this.top(k) + cell + (k ? 4 : -cell / 2 + 4), "text-anchor": "end" }, k === 0 ? "0" : power(k)));
    const every = Math.ceil(x.length / Math.max(2, Math.floor(width / 90)));
    for (let i = 0; i < x.length; i += every)
      parts.push(svgElement("text", { x: MARGIN.left + (i + 0.5) * step, y: height - 22, "text-anchor": "middle" }, x[i].toLocaleString("en")));
    this.mark = svgElement("rect", { class: "mark", width: step, height: cell, visibility: "hidden" });
    this.svg.replaceChildren(...parts, stepAxis(width, height), this.mark);
    if (this.at) this.point(this.at);
  }

  top(k) { return MARGIN.top + (this.high - k) * this.cell; }

  words({ column, k }) {
    const share = 100 * this.share(column, k), last = this.columns.counts[0].length - 1;
    const where = k === 0 ? `below ${power(1)}` : k === last ? `above ${power(k)}` : `from ${power(k)} to ${power(k + 1)}`;
    return `step ${this.columns.x[column].toLocaleString("en")}: ${share >= 10 || share === 0 ? Math.round(share) : share.toPrecision(2)} % ${where}`;
  }

  point(at, event = null) {
    this.at = at;
    const tip = document.getElementById("tip");
    tip.hidden = at === null;
    this.mark?.setAttribute("visibility", at ? "visible" : "hidden");
    if (!at) return;
    this.mark.setAttribute("x", MARGIN.left + at.column * this.step);
    this.mark.setAttribute("y", this.top(at.k));
    tip.textContent = this.words(at);
    if (!event) document.getElementById("said").textContent = tip.textContent;
    const place = this.svg.getBoundingClientRect();
    placeTip(tip, event?.clientX ?? place.left + MARGIN.left + at.column * this.step, event?.clientY ?? place.top + this.top(at.k));
  }

  onMove(event) {
    if (!this.columns) return;
    const { left, top } = this.svg.getBoundingClientRect();
    const column = Math.floor((event.clientX - left - MARGIN.left) / this.step), k = this.high - Math.floor((event.clientY - top - MARGIN.top) / this.cell);
    this.point(column >= 0 && column < this.columns.x.length && k >= this.low && k <= this.high ? { column, k } : null, event);
  }

  onKey(event) {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (event.key === "Escape") return this.point(null);
    if (!way || !this.columns) return;
    event.preventDefault();
    const last = this.columns.x.length - 1, { column, k } = this.at ?? { column: last - way[0], k: Math.round((this.low + this.high) / 2) };
    this.point({ column: Math.max(0, Math.min(last, column + way[0])), k: Math.max(this.low, Math.min(this.high, k + way[1])) });
  }
}

const histograms = [];

// A menu names the parameters; weights and gradients of one of them are shown.
function showHistograms(data) {
  const names = Object.keys(data ?? {}), section = document.getElementById("histograms"), menu = document.getElementById("parameter");
  section.hidden = names.length === 0;
  if (names.length === 0) return;
  if (histograms.length === 0) {
    histograms.push(new Histogram("weights", "Weights by magnitude"), new Histogram("gradients", "Gradients by magnitude"));
    document.getElementById("distributions").append(...histograms.map(({ box }) => box));
    menu.addEventListener("change", () => showHistograms(shown.histograms));
  }
  if (menu.options.length !== names.length) {
    const chosen = menu.value;
    menu.replaceChildren(...names.map((name) => new Option(name, name)));
    if (names.includes(chosen)) menu.value = chosen;
  }
  for (const histogram of histograms) histogram.show(data[menu.value][histogram.kind]);
}
