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
    for (const { values, show, number, measure } of this.curves) {
      show(frame);
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
    const box = document.createElement("div"), name = document.createElement("span"), number = document.createElement("b");
    box.className = "measure-curve";
    name.textContent = measure.name;
    box.title = measure.about;
    const { svg, show } = sparkline(values, {
      label: `${measure.name}: ${measureText(measure, known[0])} at first, ${measureText(measure, known.at(-1))} at last`,
      top: measure.digits === 3 ? 1 : Math.max(...known, 1e-9), // a share has its scale from 0 to 1, another number from 0 to its largest
      choose: this.choose,
    });
    box.append(number, name, svg);
    return { box, values, show, number, measure };
  }
}
