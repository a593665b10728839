// A model that runs in the page: what it computes of the reader's texts, and what the reader changes in it. Its state is a
// part of the bench's state: text, second, ids, off, how, by. Changes go through bench.set().
class Live {
  constructor() {
    MEASURES.push({ name: "Moved", unit: "", digits: 3, about: "weight that went to other keys because of the switches" });
    this.worked = new Worked();
    this.state = {
      text: data.samples[0], second: "",
      ids: null, // of the text if its last tokens were sampled: these may end within a character
      off: new Map(), // "layer.head" or "layer.mlp" -> "off", or "other": its output in the second text
      how: "mean", // what "off" means
    };
    this.computed = ["text", "ids", "second", "off", "how", "by"]; // the names on which the heads depend
    this.switches = new Switches(this);
    this.sources = [new LiveSource(), new LiveSource()];
    this.runs = [{ name: "First text", source: this.sources[0], switches: this.switches }, { name: "Second text", source: this.sources[1] }];
    this.now = null; // of the text: { ids, all, secondIds, logits, before, second, moved }
    this.matter = null; // by how much the loss rises without each part
    this.dragged = null; // the head of the second text that is on its way
  }

  get hasSecond() { return this.now?.second != null; }

  // The bench that shows it.
  async start(bench) {
    this.bench = bench;
    bench.part("heads").append(bench.part("switches")); // they belong to the heads, and to the text
    bench.part("text").append(bench.part("by-loss"));
    this.reader = new Reader(this);
    this.composition = new Composition(this);
    const place = document.createElement("div");
    place.className = "measure-curve";
    place.id = "losses";
    bench.part("curves").append(place);
    this.losses = new LossCurve(place, data.snapshots.length, (frame) => bench.set({ frame }),
      async (snapshot) => (this.now && this.now.ids.length > 1 ? this.worked.ask("loss", { snapshot, ids: this.now.ids }) : null));
    bench.grids[1].place.addEventListener("dragstart", (event) => this.drag(event));
    bench.grids[1].place.addEventListener("dragend", () => { this.dragged = null; });
    await this.worked.start();
  }

  // ---- computing

  // Computes what the heads of both texts do. False if the text cannot be read: what is shown belongs to another one.
  async load(state) {
    const texts = this.reader.read(state);
    this.bench.root.classList.toggle("stale", texts === null);
    if (texts === null) {
      this.now = null;
      return false;
    }
    const { all, ids, secondIds } = texts, edits = new Map([...state.off].map(([part, what]) => [part, what === "other" ? "other" : state.how]));
    const before = this.now, result = await this.worked.ask("run", { snapshot: state.frame, ids, edits, second: secondIds });
    this.now = { ids, all, secondIds, snapshot: state.frame, ...result };
    this.sources[0].take(ids, result, state);
    if (result.second) this.sources[1].take(secondIds, result.second, state);
    else this.sources[1].forget();
    if (!result.second) state.chosen = state.chosen.map((one) => ({ ...one, run: 0 }));
    const isOther = String(before?.ids) !== String(ids);
    if (isOther || before.snapshot !== state.frame) this.matter = null;
    if (isOther) this.losses.forget();
    if (isOther || before.snapshot !== state.frame) this.renewed = true;
    return true;
  }

  // After the bench has drawn.
  draw() {
    this.reader.draw();
    this.switches.draw();
    this.losses.show(this.bench.state.frame);
    for (const { button } of this.bench.grids[1].buttons.values()) button.draggable = true;
    if (this.renewed) this.composition.forget();
    else this.composition.draw();
    this.renewed = false;
  }

  // The pointer has moved, another head is chosen.
  point() { if (this.now) this.reader.drawNext(); }
  chosen() { this.composition.draw(); }

  // ---- changes

  setText(text, ids = null) { return this.bench.set({ text, ids, cell: null, held: false }); }

  append(id) {
    const ids = [...this.now.all, id]; // the model reads the last ones: its window slides on
    return this.setText(vocabulary.decode(ids).slice(data.prefix.length), ids);
  }

  // Turns parts off, or on again if all of them are off.
  toggle(parts) {
    const off = new Map(this.bench.state.off), on = parts.every((part) => off.has(part));
    for (const part of parts) if (on) off.delete(part);
    else off.set(part, "off");
    return this.bench.set({ off });
  }

  toggleHead({ layer, head }) { return this.toggle([`${layer}.${head}`]); }

  // A head of the first text takes its output from the second text, or gives it back.
  patchHead({ layer, head }) {
    const part = `${layer}.${head}`, off = new Map(this.bench.state.off);
    if (!this.reader.fits()) return this.bench.announce("The second text needs as many tokens as the first");
    if (off.get(part) === "other") off.delete(part);
    else off.set(part, "other");
    this.bench.announce(off.has(part) ? "Takes its output from the second text" : "Has its own output again");
    return this.bench.set({ off });
  }

  drag(event) {
    const head = event.target.closest(".head");
    if (!head) return;
    this.dragged = { layer: Number(head.dataset.layer), head: Number(head.dataset.head) };
    event.dataTransfer.setData("text/plain", `${this.dragged.layer}.${this.dragged.head}`);
    event.dataTransfer.effectAllowed = "copy";
  }

  // Wherever it is dropped, a head replaces the same head: another one would not know what to do with its output.
  drop(event) {
    if (!this.dragged) return;
    event.preventDefault();
    this.patchHead(this.dragged);
    this.dragged = null;
  }

  async tryAll() {
    const { frame, how } = this.bench.state, { ids, secondIds } = this.now;
    const rows = await this.worked.ask("matter", { snapshot: frame, ids, how, second: how === "other" ? secondIds : null });
    if (frame !== this.bench.state.frame || how !== this.bench.state.how || String(ids) !== String(this.now?.ids)) return;
    this.matter = rows;
    this.bench.drawAll();
    this.draw();
  }

  // ---- the address

  readAddress(given) {
    const changes = {};
    this.reader.readAddress(given);
    for (const name of ["text", "second"]) if (given.has(name)) changes[name] = given.get(name);
    const parts = (name, what) => (given.get(name) ?? "").split(",").map((text) => text.match(/^(\d+)\.(\d+|mlp)$/)).filter(Boolean)
      .map(([, layer, head]) => [`${layer - 1}.${head === "mlp" ? head : head - 1}`, what]).filter(([part]) => this.switches.parts.has(part) || !this.switches.parts.size);
    if (given.has("off") || given.has("patched")) changes.off = new Map([...parts("off", "off"), ...parts("patched", "other")]);
    return changes;
  }

  writeAddress(parts) {
    const { text, second, off } = this.bench.state;
    this.reader.writeAddress(parts);
    if (text !== data.samples[0]) parts.set("text", text);
    if (second) parts.set("second", second);
    for (const [name, what] of [["off", "off"], ["patched", "other"]]) {
      const list = [...off].filter(([, value]) => value === what).map(([part]) => part.split(".").map((n) => (n === "mlp" ? n : Number(n) + 1)).join("."));
      if (list.length) parts.set(name, list.join(","));
    }
  }

  // ---- the proof

  // Compares with the logits that C++ computed from the same weights. They may differ by a few roundings.
  async compare() {
    let worst = 0, largest = 1, other = null;
    for (const { ids, logits, text } of data.checks) {
      if (String(idsOf(text).slice(0, ids.length)) !== String(ids)) other = text;
      const run = await this.worked.ask("run", { snapshot: data.snapshots.length - 1, ids, edits: new Map(), second: null });
      logits.forEach((v, i) => {
        const difference = Math.abs(v - run.logits[i]);
        worst = difference >= 0 ? Math.max(worst, difference) : Infinity;
        largest = Math.max(largest, Math.abs(v));
      });
    }
    const badge = byId("badge"), good = worst <= 1e-5 * largest + 1e-5 && other === null;
    badge.dataset.difference = worst;
    badge.className = good ? "good" : "bad";
    badge.textContent = good ? `agrees with C++ to ${worst.toExponential(0)}`
      : other !== null ? `it reads “${other}” in other tokens than C++` : `its logits differ from C++'s by ${worst.toPrecision(2)}`;
    badge.title = config.float32 ? "" : `Both compute with the weights of this page, float16. They move a logit by up to ${data.rounding.toPrecision(1)}.`;
  }
}
