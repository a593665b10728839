// The loss of the text at each step of the training, as a curve.
class LossCurve {
  // choose(i) shows snapshot i; loss(i) is a promise of the text's loss there, or of null if it has none.
  constructor(element, count, choose, loss) {
    Object.assign(this, { element, count, choose, loss, at: count - 1, question: 0, known: [] });
  }

  show(i) {
    this.at = i;
    this.draw();
  }

  // The text is another one. Its losses are computed when the reader pauses, one at a time.
  async forget() {
    if (this.count < 2) return;
    const mine = ++this.question;
    this.known = [];
    this.element.replaceChildren();
    await new Promise((done) => setTimeout(done, 500));
    for (let i = 0; i < this.count; ++i) {
      if (mine !== this.question) return;
      const loss = await this.loss(i);
      if (mine !== this.question || loss === null) return;
      this.known.push(loss);
    }
    this.draw();
  }

  draw() {
    const { known, at, choose } = this;
    if (known.length < this.count) return;
    const label = `Loss of this text: ${known[0].toFixed(2)} at first, ${known.at(-1).toFixed(2)} at last`;
    const { svg, show } = sparkline(known, { label, top: Math.max(...known, 1e-9), choose });
    show(at);
    const value = document.createElement("b");
    value.textContent = known[at].toFixed(3);
    this.element.replaceChildren(value, "Loss of this text", svg);
  }
}

// The slider over the training, and under it the loss of the text at each step.
class TimeBar {
  constructor(steps, choose, loss) {
    Object.assign(this, { steps, at: steps.length - 1, curve: new LossCurve(byId("losses"), steps.length, choose, loss) });
    this.slider = byId("snapshot");
    this.slider.max = steps.length - 1;
    byId("time").hidden = steps.length < 2;
    this.slider.addEventListener("input", () => choose(Number(this.slider.value)));
    playThrough(byId("play"), { at: () => this.at, last: steps.length - 1, go: choose });
  }

  show(i) {
    const text = "Step " + this.steps[i].toLocaleString("en");
    this.at = i;
    this.slider.value = i;
    this.slider.setAttribute("aria-valuetext", text);
    byId("snapshot-label").textContent = text;
    this.curve.show(i);
  }

  forget() { return this.curve.forget(); }
}
