// The measures of one head over the steps: a small curve for each. A click goes to a step.
class MeasureCurves {
  constructor(element, choose) {
    this.element = element;
    this.choose = choose; // called with a frame
  }

  draw(source, { chosen, frame }) {
    if (source.frames.length < 2 || source.isLive) return;
    const { run, layer, head } = chosen[0], key = [run, layer, head].join("/");
    if (key !== this.shown) this.build(source, layer, head);
    this.shown = key;
    for (const { values, show, number, measure } of this.curves) {
      const at = Math.min(frame, values.length - 1);
      show(at);
      number.textContent = measureText(measure, values[at]);
    }
  }

  build(source, layer, head) {
    const all = source.frames.map((_, frame) => source.entry(layer, frame)?.measures[head]);
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
