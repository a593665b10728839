// The curves of all runs, one chart for each number.
const brief = (v) => (v !== 0 && (Math.abs(v) >= 1e5 || Math.abs(v) < 1e-3) ? v.toExponential(1) : String(Number(v.toPrecision(4))));

class RunCurves {
  // runs: [[step, value], …] of each run, or null.
  constructor({ name, runs }, names) {
    Object.assign(this, { name, names, runs, at: null });
    this.known = runs.map((run, i) => ({ run, i })).filter(({ run }) => run);
    this.box = document.createElement("section");
    this.box.className = "box";
    this.svg = svgElement("svg", { role: "application", tabindex: 0, "aria-label": `${name} of all runs. Arrow keys move through the steps.` });
    this.values = document.createElement("output");
    const title = document.createElement("h2");
    title.textContent = name;
    this.box.append(title, this.svg, this.values);
    this.svg.addEventListener("pointermove", (event) => this.point(this.first + ((event.clientX - this.svg.getBoundingClientRect().left - 52) / this.width) * (this.last - this.first)));
    this.svg.addEventListener("pointerleave", () => this.point(null));
    this.svg.addEventListener("keydown", (event) => this.onKey(event));
  }

  onKey(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key], steps = this.known[0].run.map(([step]) => step);
    if (!by) return;
    event.preventDefault();
    const now = this.at === null ? -1 : steps.findIndex((step) => step >= this.at);
    this.point(steps[Math.max(0, Math.min(steps.length - 1, now + by))]);
  }

  draw() {
    const box = this.svg.getBoundingClientRect(), all = this.known.flatMap(({ run }) => run), steps = all.map(([step]) => step), values = all.map(([, v]) => v);
    this.width = Math.max(60, box.width - 62);
    [this.first, this.last] = [Math.min(...steps), Math.max(...steps)];
    if (this.first === this.last) this.last += 1;
    let [low, high] = [Math.min(...values), Math.max(...values)];
    if (low >= 0 && low < 0.3 * high) low = 0;
    if (low === high) [low, high] = [low - 1, high + 1];
    this.x = (step) => 52 + (this.width * (step - this.first)) / (this.last - this.first);
    const y = (v) => 204 - (196 * (v - low)) / (high - low), parts = [];
    const across = ticks(low, high, 5), words = tickWords(across);
    for (const [i, v] of across.entries())
      parts.push(svgElement("line", { class: "grid", x1: 52, x2: 52 + this.width, y1: y(v), y2: y(v) }), svgElement("text", { x: 46, y: y(v) + 4, "text-anchor": "end" }, words[i]));
    for (const step of ticks(this.first, this.last, 4)) parts.push(svgElement("text", { x: this.x(step), y: 224, "text-anchor": "middle" }, step.toLocaleString("en")));
    for (const { run, i } of this.known) {
      const d = run.map(([step, v], k) => `${k ? "L" : "M"}${this.x(step).toFixed(1)} ${y(v).toFixed(1)}`).join("");
      parts.push(svgElement("path", { d, style: `stroke: var(${headVariable(i)})` }));
    }
    parts.push(svgElement("text", { class: "axis", x: 52 + this.width, y: 240, "text-anchor": "end" }, "Step"));
    this.cursor = svgElement("line", { class: "cursor", y1: 8, y2: 204, visibility: "hidden" });
    this.svg.replaceChildren(...parts, this.cursor);
    this.point(this.at);
  }

  // The values of all runs nearest to a step; at the end if there is none.
  point(step) {
    this.at = step;
    const shown = this.known.map(({ run }) => run.at(step === null ? -1 : nearest(run.map(([at]) => at), step)));
    this.cursor.setAttribute("visibility", step === null ? "hidden" : "visible");
    if (step !== null) for (const name of ["x1", "x2"]) this.cursor.setAttribute(name, this.x(shown[0][0]));
    this.values.replaceChildren(...this.known.flatMap(({ i }, k) => {
      const patch = document.createElement("i");
      patch.style.background = `var(${headVariable(i)})`;
      return [...(k ? [" · "] : []), patch, `${this.names[i]}: ${brief(shown[k][1])} (step ${shown[k][0].toLocaleString("en")})`];
    }));
  }
}

function showRunCurves(place, { charts, names }) {
  const all = charts.map((chart) => new RunCurves(chart, names)), draw = () => all.forEach((chart) => chart.draw());
  place.append(...all.map(({ box }) => box));
  draw();
  document.addEventListener("theme", draw);
  window.addEventListener("resize", draw);
}
