// The slider over the training, and under it the loss of the text at each step.
class TimeBar {
  // choose(i) shows snapshot i; loss(i) is a promise of the text's loss there.
  constructor(steps, choose, loss) {
    Object.assign(this, { steps, choose, loss, at: steps.length - 1, playing: false, question: 0, known: [] });
    this.slider = byId("snapshot");
    this.slider.max = steps.length - 1;
    byId("time").hidden = steps.length < 2;
    this.slider.addEventListener("input", () => choose(Number(this.slider.value)));
    byId("play").addEventListener("click", () => this.play());
    byId("losses").addEventListener("click", (event) => {
      const box = byId("losses").getBoundingClientRect(), last = steps.length - 1;
      choose(Math.max(0, Math.min(last, Math.round(((event.clientX - box.left) / box.width) * last))));
    });
  }

  show(i) {
    const text = "Step " + this.steps[i].toLocaleString("en");
    this.at = i;
    this.slider.value = i;
    this.slider.setAttribute("aria-valuetext", text);
    byId("snapshot-label").textContent = text;
    this.drawLosses();
  }

  // Plays to the end, from the beginning if this is the end.
  async play() {
    const last = this.steps.length - 1, button = byId("play");
    this.playing = !this.playing;
    button.textContent = this.playing ? "❚❚" : "▶";
    button.setAttribute("aria-label", this.playing ? "Pause" : "Play the training");
    if (!this.playing) return;
    if (this.at === last) await this.choose(0);
    while (this.playing && this.at < last) await Promise.all([this.choose(this.at + 1), new Promise((done) => setTimeout(done, 350))]);
    if (this.playing) this.play();
  }

  // The text is another one. Its losses are computed when the reader pauses, one at a time.
  async forget() {
    if (this.steps.length < 2) return;
    const mine = ++this.question;
    this.known = [];
    byId("losses").replaceChildren();
    await new Promise((done) => setTimeout(done, 500));
    for (const i of this.steps.keys()) {
      if (mine !== this.question || now.ids.length < 2) return;
      const loss = await this.loss(i);
      if (mine !== this.question) return;
      this.known.push(loss);
    }
    this.drawLosses();
  }

  drawLosses() {
    const { known, steps, at } = this, last = steps.length - 1;
    if (known.length < steps.length) return;
    const top = Math.max(...known, 1e-9), y = (v) => (31 - (28 * v) / top).toFixed(2);
    const svg = svgElement("svg", { viewBox: `0 0 ${last} 34`, preserveAspectRatio: "none", role: "img",
      "aria-label": `Loss of this text: ${known[0].toFixed(2)} at first, ${known[last].toFixed(2)} at last` });
    svg.append(svgElement("path", { d: known.map((v, i) => `${i ? "L" : "M"}${i} ${y(v)}`).join("") }), svgElement("line", { x1: at, x2: at, y1: 0, y2: 34 }));
    const value = document.createElement("b");
    value.textContent = known[at].toFixed(3);
    byId("losses").replaceChildren(value, "Loss of this text", svg);
  }
}
