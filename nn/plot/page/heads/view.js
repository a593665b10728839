// All heads of a run in one view: what is chosen, and what follows from it. Every change goes through set(), which
// redraws what it must. A page may have several.
class HeadsView {
  // whole: the view is the page, and takes the keys that nothing else takes. address: what is chosen stands in the
  // page's address. source: see data.js.
  constructor(root, { whole = false, address = false, source = new RecordedSource(root) } = {}) {
    this.root = root;
    this.source = source;
    this.whole = whole;
    this.state = {
      layer: 0, head: 0, frame: source.frames.length - 1,
      view: "matrix", scale: "head",
      sort: null, descending: true,
      cell: null, // { q, k }, of which one may be null
      held: false, // a click holds the cell
    };
    this.heads = []; // of the step, by layer
    this.head = this.layout = this.marks = null;
    this.picture = matrixView;
    this.latest = 0; // the newest step that was asked for
    this.list = new HeadList(this.part("list"), source, (layer, head) => this.chooseHead(layer, head));
    this.curves = new MeasureCurves(this.part("curves"), source, (frame) => this.set({ frame }));
    this.part("subtitle").textContent = this.subtitle();
    this.part("time").hidden = source.frames.length < 2;
    this.part("frame").max = source.frames.length - 1;
    ["the model's order", ...MEASURES.map((measure) => measure.name.toLowerCase())].forEach((name, i) => this.part("sort").add(new Option(name, i - 1)));
    this.listen();
    this.address = address ? new ViewAddress(this) : null;
    readTheme();
  }

  part(name) { return this.root.querySelector("." + name); }
  announce(text) { this.part("status").textContent = text; }

  // Shows what the address says, or the most telling head of the last step.
  async show() {
    const asked = this.address?.read() ?? {};
    if (asked.layer === undefined) Object.assign(asked, await this.telling(asked.frame ?? this.state.frame));
    return this.set(asked);
  }

  // The first one of the most telling heads.
  async telling(frame) {
    let best = { layer: 0, head: 0 }, most = 0;
    for (const layer of this.source.layers.keys())
      (await this.source.headsOf(layer, frame)).forEach((one, head) => {
        const telling = tellingOf(one);
        if (telling > most + 1e-9) [best, most] = [{ layer, head }, telling];
      });
    return best;
  }

  // Asks the source again: its heads have changed.
  refresh() {
    this.heads = [];
    return this.set({});
  }

  // ---- drawing

  drawAll() {
    this.list.draw(this.state, this.heads);
    this.drawView();
  }

  drawView() {
    const { state } = this, stage = this.part("stage");
    this.head = this.heads[state.layer]?.[state.head] ?? null;
    this.picture = state.view === "matrix" ? matrixView : linesView;
    this.part("as-matrix").setAttribute("aria-checked", state.view === "matrix");
    this.part("as-lines").setAttribute("aria-checked", state.view === "lines");
    const role = this.head ? roleOf(this.head.roles) : "";
    this.part("head-name").textContent = this.headName() + (!this.head ? " · not recorded at this step" : role ? " · " + role : "");
    if (!this.head) return this.drawNothing();
    if (state.cell && !((state.cell.q ?? 0) < this.head.rows && (state.cell.k ?? 0) < this.head.cols)) Object.assign(state, { cell: null, held: false });
    const room = { width: Math.max(260, stage.clientWidth), height: Math.max(360, Math.min(window.innerHeight - 230, 900)) };
    this.layout = this.picture.layout(this.head, room, state);
    const { width, height, left, top, cw, ch } = this.layout;
    const note = this.picture.paint(sized(this.part("picture"), width, height), this.layout, state);
    this.marks = sized(this.part("marks"), width, height);
    stage.setAttribute("aria-label", `${this.headName()}: ${state.view} of ${this.head.rows} queries and ${this.head.cols} keys. ` +
      "Arrow keys move from weight to weight. Escape lets go of it.");
    // For whoever steers the page from outside, such as its tests: where the weights are.
    Object.assign(stage.dataset, { view: state.view, left, top, cellWidth: cw ?? "", cellHeight: ch ?? "" });
    showLegend(this.part("legend"), this.head);
    showNotes(this.part("notes"), [...this.head.notes, ...(note ? [note] : [])]);
    showMeasures(this.part("measures"), this.head);
    this.curves.draw(state);
    this.drawMarks();
  }

  drawNothing() {
    this.layout = null;
    Object.assign(this.state, { cell: null, held: false });
    for (const name of ["picture", "marks"]) sized(this.part(name), 300, 150);
    for (const name of ["legend", "measures", "notes"]) this.part(name).replaceChildren();
    this.part("tip").hidden = true;
    this.curves.draw(this.state);
  }

  // What follows the pointer: the picture itself stays as it is.
  drawMarks() {
    const { state, layout, head, marks } = this;
    if (!layout) return;
    marks.context.clearRect(0, 0, layout.width, layout.height);
    const tip = this.part("tip");
    tip.hidden = state.cell === null;
    showDetails(this.root, head, state.cell);
    if (state.cell === null) return;
    this.picture.paintMarks(marks, layout, state.cell);
    tip.textContent = sentence(head, state.cell);
    const at = this.picture.place(layout, state.cell);
    // Beyond the middle it stands on the other side: nothing has to be measured for that, which would take a layout.
    const toLeft = at.x > layout.width / 2 ? "-100%" : "0px", up = at.y > layout.height / 2 ? "-100%" : "0px";
    tip.style.transform = `translate(${at.x + (toLeft === "0px" ? 10 : -10)}px, ${at.y + (up === "0px" ? 10 : -10)}px) translate(${toLeft}, ${up})`;
  }

  // ---- changes

  async set(changes) {
    const { state } = this, before = { ...state };
    Object.assign(state, changes);
    this.address?.write();
    if (state.frame !== before.frame || this.heads.length === 0) {
      // What was asked for last is shown, whatever is unpacked first.
      const mine = ++this.latest;
      this.showFrame();
      const heads = await Promise.all(this.source.layers.map((_, layer) => this.source.headsOf(layer, state.frame)));
      if (mine !== this.latest) return;
      this.heads = heads;
      this.showChoices();
      this.drawAll();
      return;
    }
    const differs = (...names) => names.some((name) => state[name] !== before[name]);
    if (differs("scale", "sort", "descending")) {
      this.showChoices();
      this.drawAll();
    } else if (differs("layer", "head", "view")) {
      this.list.select(state);
      this.drawView();
    } else this.drawMarks();
  }

  showChoices() {
    const { state } = this;
    this.part("scale").value = state.scale;
    this.part("sort").value = state.sort ?? -1;
    this.part("direction").disabled = state.sort === null;
    this.part("direction").textContent = state.descending ? "↓" : "↑";
  }

  showFrame() {
    const { state, source } = this, text = frameText(source.frames[state.frame]);
    this.part("frame").value = state.frame;
    this.part("frame").setAttribute("aria-valuetext", text);
    this.part("frame-label").textContent = `${text} (${state.frame + 1} of ${source.frames.length})`;
  }

  chooseHead(layer, head) {
    this.set({ layer, head });
    this.announce(this.headName());
  }

  moveHead(by) {
    const order = this.list.order(this.state);
    const at = order.findIndex(([layer, head]) => layer === this.state.layer && head === this.state.head);
    this.chooseHead(...order[(at + by + order.length) % order.length]);
  }

  moveFrame(by) {
    const frame = Math.max(0, Math.min(this.source.frames.length - 1, this.state.frame + by));
    if (frame !== this.state.frame) this.set({ frame });
  }

  // ---- what the user does

  listen() {
    const on = (name, event, act) => this.part(name).addEventListener(event, act);
    on("sort", "change", (event) => this.set({ sort: Number(event.target.value) < 0 ? null : Number(event.target.value) }));
    on("direction", "click", () => this.set({ descending: !this.state.descending }));
    on("scale", "change", (event) => this.set({ scale: event.target.value }));
    on("as-matrix", "click", () => this.set({ view: "matrix" }));
    on("as-lines", "click", () => this.set({ view: "lines" }));
    on("help-button", "click", () => this.part("help").showModal());
    on("save-svg", "click", () => this.head && this.save(exportSvg(this), "svg"));
    on("save-png", "click", async () => this.head && this.save(await exportPng(this), "png"));
    on("frame", "input", (event) => this.set({ frame: Number(event.target.value) }));
    playThrough(this.part("play"), { at: () => this.state.frame, last: this.source.frames.length - 1, go: (frame) => this.set({ frame }) });
    on("marks", "pointermove", (event) => this.onPoint(event));
    on("marks", "pointerdown", (event) => this.onPoint(event));
    on("marks", "pointerleave", () => this.state.held || this.set({ cell: null }));
    on("marks", "click", (event) => this.onClick(event));
    on("stage", "keydown", (event) => this.onStageKey(event));
    (this.whole ? document : this.root).addEventListener("keydown", (event) => this.onKey(event));
    document.addEventListener("theme", () => {
      readTheme();
      if (this.heads.length) this.drawAll();
    });
    let resizing = 0;
    window.addEventListener("resize", () => {
      cancelAnimationFrame(resizing);
      resizing = requestAnimationFrame(() => this.heads.length && this.drawAll());
    });
  }

  onPoint(event) {
    const { state, layout } = this;
    if (!layout || state.held) return;
    const box = this.part("marks").getBoundingClientRect();
    const cell = this.picture.hit(layout, event.clientX - box.left, event.clientY - box.top);
    if (cell?.q === state.cell?.q && cell?.k === state.cell?.k) return;
    this.set({ cell });
  }

  onClick(event) {
    const { state } = this, held = state.held;
    state.held = false;
    this.onPoint(event);
    this.set({ held: !held && state.cell !== null });
  }

  onStageKey(event) {
    const { state, head } = this;
    if (!head) return;
    const { q, k } = state.cell ?? { q: null, k: null };
    const moved = {
      ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -Infinity], End: [0, Infinity],
    }[event.key];
    if (event.key === "Escape") this.set({ cell: null, held: false });
    else if (event.key === "Enter") this.set({ held: !state.held && state.cell !== null });
    else if (moved) {
      const clamp = (v, n) => Math.max(0, Math.min(n - 1, v));
      let cell;
      if (state.view === "lines") {
        // One end of the lines has the names: left and right change sides.
        const onKeys = moved[1] !== 0 ? moved[1] > 0 : q === null && k !== null;
        const at = clamp((q ?? k ?? 0) + moved[0], onKeys ? head.cols : head.rows);
        cell = onKeys ? { q: null, k: at } : { q: at, k: null };
      } else {
        cell = state.cell ? { q: clamp((q ?? 0) + moved[0], head.rows), k: clamp((k ?? 0) + moved[1], head.cols) } : { q: 0, k: 0 };
      }
      this.set({ cell });
      this.announce(sentence(head, cell));
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  onKey(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("select, input, textarea, dialog")) return;
    const act = {
      n: () => this.moveHead(1), p: () => this.moveHead(-1), ",": () => this.moveFrame(-1), ".": () => this.moveFrame(1),
      v: () => this.set({ view: this.state.view === "matrix" ? "lines" : "matrix" }),
      d: () => chooseTheme(!isDark()), "?": () => this.part("help").showModal(),
      Escape: () => this.set({ cell: null, held: false }),
    }[event.key];
    if (act) act();
  }

  // ---- words

  headName() {
    const { state, source, head } = this;
    const name = this.list.names[state.layer], dotted = source.layers[state.layer];
    return `${name}${name === dotted ? "" : ` (${dotted})`} · head ${state.head + 1} of ${this.list.count(state.layer)}` + (head && !head.self ? " · cross-attention" : "");
  }

  // The title of a picture that is saved.
  heading() {
    const { frames } = this.source;
    return this.headName() + (frames.length > 1 ? " · " + frameText(frames[this.state.frame]) : "");
  }

  save(blob, kind) {
    const { state, source } = this;
    const step = source.frames.length > 1 ? "_step_" + source.frames[state.frame][0] : "";
    const layer = source.layers[state.layer].replace(/[^\w.-]+/g, "_").slice(0, 80);
    const name = `${layer || "attention"}_head_${state.head + 1}${step}_${state.view}.${kind}`;
    save(blob, name);
    this.announce("Saved as " + name);
  }

  subtitle() {
    const { layers, frames } = this.source;
    const count = (n, word) => n + " " + word + (n === 1 ? "" : "s");
    const heads = layers.reduce((all, _, layer) => all + this.list.count(layer), 0);
    return [count(layers.length, "layer"), count(heads, "head"),
      ...(frames.length > 1 ? [`${frameText(frames[0]).toLowerCase()} to ${frameText(frames.at(-1)).toLowerCase()}`] : [])].join(" · ");
  }
}

// A canvas of this size, ready to be drawn on.
function sized(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return new CanvasPainter(context);
}
