// The measures of one head over the steps: a small curve for each. A click goes to a step.
class MeasureCurves {
  constructor(element, source, choose) {
    this.element = element;
    this.source = source;
    this.choose = choose; // called with a frame
  }

  draw({ layer, head, frame }) {
    const { frames } = this.source;
    if (frames.length < 2) return;
    const key = layer + "/" + head;
    if (key !== this.shown) this.build(layer, head);
    this.shown = key;
    for (const { values, cursor, number, measure } of this.curves) {
      for (const name of ["x1", "x2"]) cursor.setAttribute(name, frame);
      number.textContent = measureText(measure, values[frame]);
    }
  }

  build(layer, head) {
    const { frames } = this.source;
    const all = frames.map((_, frame) => this.source.entry(layer, frame)?.measures[head]);
    this.curves = [];
    MEASURES.forEach((measure, i) => {
      const values = all.map((measures) => measures?.[i] ?? null), known = values.filter((v) => v !== null);
      if (known.length > 1) this.curves.push(this.curve(measure, values, known));
    });
    this.element.replaceChildren(...this.curves.map(({ box }) => box));
  }

  curve(measure, values, known) {
    // A share has its scale from 0 to 1, another number from 0 to its largest.
    const top = measure.digits === 3 ? 1 : Math.max(...known, 1e-9), last = values.length - 1;
    const box = document.createElement("div"), name = document.createElement("span"), number = document.createElement("b");
    box.className = "measure-curve";
    name.textContent = measure.name;
    box.title = measure.about;
    const y = (v) => 31 - (28 * v) / top;
    const svg = svgElement("svg", { viewBox: `0 0 ${last} 34`, preserveAspectRatio: "none", role: "img",
      "aria-label": `${measure.name}: ${measureText(measure, known[0])} at first, ${measureText(measure, known.at(-1))} at last` });
    if (measure.threshold) svg.append(svgElement("line", { class: "threshold", x1: 0, x2: last, y1: y(measure.threshold), y2: y(measure.threshold) }));
    let d = "";
    values.forEach((v, i) => { if (v !== null) d += `${d && values[i - 1] !== null ? "L" : "M"}${i} ${y(v).toFixed(2)}`; });
    const cursor = svgElement("line", { y1: 0, y2: 34 });
    svg.append(svgElement("path", { d }), cursor);
    svg.addEventListener("click", (event) => {
      const { left, width } = svg.getBoundingClientRect();
      this.choose(Math.max(0, Math.min(last, Math.round(((event.clientX - left) / width) * last))));
    });
    box.append(number, name, svg);
    return { box, values, cursor, number, measure };
  }
}
