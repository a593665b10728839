// The slider over the training, and under it the loss of the text at each step.
class TimeBar {
  // choose(i) shows snapshot i; loss(i) is a promise of the text's loss there.
  constructor(steps, choose, loss) {
    Object.assign(this, { steps, choose, loss, at: steps.length - 1, question: 0, known: [] });
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
    this.drawLosses();
  }

  // The text is another one. Its losses are computed when the reader pauses, one at a time.
  async forget() {
    if (this.steps.length < 2) return;
    const mine = ++this.question;
    this.known = [];
    byId("losses").replaceChildren();
    await new Promise((done) => setTimeout(done, 500));
    for (const i of this.steps.keys()) {
      if (mine !== this.question || !now || now.ids.length < 2) return;
      const loss = await this.loss(i);
      if (mine !== this.question) return;
      this.known.push(loss);
    }
    this.drawLosses();
  }

  drawLosses() {
    const { known, steps, at, choose } = this;
    if (known.length < steps.length) return;
    const label = `Loss of this text: ${known[0].toFixed(2)} at first, ${known.at(-1).toFixed(2)} at last`;
    const { svg, show } = sparkline(known, { label, top: Math.max(...known, 1e-9), choose });
    show(at);
    const value = document.createElement("b");
    value.textContent = known[at].toFixed(3);
    byId("losses").replaceChildren(value, "Loss of this text", svg);
  }
}
