// The workbench: heads of any number of runs, recorded or of a model that runs in the page. Every change goes through set(),
// which computes and redraws what it must. A page may have several.
const MOST_CHOSEN = 6; // as many as there are colours

class Workbench {
  // whole: the bench is the page, and takes the keys that nothing else takes. address: what is chosen stands in the
  // page's address. runs: [{ name, source, switches }] (data.js). live: the model that runs here (workbench_live), or null.
  constructor(root, { whole = false, address = false, runs = recordedRuns(root), live = null } = {}) {
    Object.assign(this, { root, runs, live, whole });
    this.state = {
      chosen: [{ run: 0, layer: 0, head: 0 }], // the first one is in the details, all in the pictures
      frame: runs[0].source.frames.length - 1,
      view: "matrix", scale: "head", by: "weight",
      sort: null, descending: true,
      cell: null, // { q, k }, of which one may be null
      held: false, // a click holds the cell
      ...live?.state,
    };
    this.loaded = []; // of the step, the heads of each run by layer
    this.head = this.layout = this.marks = null;
    this.heads = []; // those chosen
    this.picture = panelsView;
    this.wanted = false;
    this.working = null;
    this.several = false; // a click adds a head to those chosen
    this.addParts();
    this.listen();
    this.address = address ? new BenchAddress(this) : null;
    readTheme();
  }

  part(name) { return this.root.querySelector("." + name); }
  announce(text) { this.part("status").textContent = text; }
  get source() { return this.runs[this.state.chosen[0].run].source; }
  // Whether what is shown may belong to one of several runs, or texts.
  get hasRuns() { return this.live ? this.live.hasSecond : this.runs.length > 1; }
  get grid() { return this.grids[this.state.chosen[0].run]; }

  addParts() {
    const { runs } = this, { frames } = runs[0].source;
    this.grids = runs.map((run, i) => {
      const place = document.createElement("div");
      place.className = "list";
      place.setAttribute("role", "group");
      place.setAttribute("aria-label", runs.length > 1 ? `Heads of ${run.name}` : "Heads");
      const box = document.createElement("div");
      box.className = "run-box";
      box.append(...(runs.length > 1 ? [this.runName(run, i)] : []), place);
      this.part("grids").append(box);
      return new HeadGrid(place, i, this);
    });
    this.strip = new TextStrip(this.part("strip"), this);
    this.curves = new MeasureCurves(this.part("curves"), (frame) => this.set({ frame }));
    this.part("subtitle").textContent = this.subtitle();
    this.part("time").hidden = frames.length < 2;
    this.part("frame").max = frames.length - 1;
    ["the model's order", ...MEASURES.map((measure) => measure.name.toLowerCase())].forEach((name, i) => this.part("sort").add(new Option(name, i - 1)));
    for (const name of ["as-vectors", "by"]) this.part(name).hidden = !this.live;
    for (const place of this.root.querySelectorAll("[data-term]")) place.replaceChildren(term(place.dataset.term));
    followTerms(this.root, this.part("about-tip"));
  }

  runName(run, i) {
    const name = document.createElement("h3"), patch = document.createElement("i");
    name.className = "run-name";
    patch.style.background = `var(${headVariable(i)})`;
    name.append(patch, run.name);
    return name;
  }

  // Shows what the address says, or the most telling head of the last step.
  async show(preferred = {}) {
    const asked = this.address?.read() ?? {};
    Object.assign(this.state, preferred, asked);
    await this.refresh();
    if (!asked.chosen && !preferred.chosen) await this.set({ chosen: [this.telling()] });
  }

  // The first one of the most telling heads of the first run.
  telling() {
    let best = { run: 0, layer: 0, head: 0 }, most = 0;
    this.loaded[0].forEach((heads, layer) => heads.forEach((one, head) => {
      const telling = tellingOf(one);
      if (telling > most + 1e-9) [best, most] = [{ run: 0, layer, head }, telling];
    }));
    return best;
  }

  // ---- loading

  // The step of another run that is nearest to the one shown.
  frameOf(run) {
    const { frames } = this.runs[run].source;
    if (frames.length === this.runs[0].source.frames.length) return Math.min(this.state.frame, frames.length - 1);
    return nearest(frames.map(([step]) => step), this.runs[0].source.frames[this.state.frame][0]);
  }

  // Asks the sources again. Ends when what is wanted then is shown. What was wanted in between may be left out.
  refresh() {
    this.wanted = true;
    this.working ??= this.work();
    return this.working;
  }

  async work() {
    try {
      while (this.wanted) {
        this.wanted = false;
        await this.load();
      }
    } finally {
      this.working = null;
    }
  }

  async load() {
    this.showFrame();
    if (this.live && !(await this.live.load(this.state))) return;
    const frames = this.runs.map((_, run) => this.frameOf(run));
    this.loaded = await Promise.all(this.runs.map(({ source }, run) => Promise.all(source.layers.map((_, layer) => source.headsOf(layer, frames[run])))));
    this.showChoices();
    this.drawAll();
    this.live?.draw();
    document.documentElement.dataset.computed = Number(document.documentElement.dataset.computed ?? 0) + 1; // for whoever steers the page from outside, such as its tests
  }

  // ---- drawing

  drawAll() {
    this.root.classList.toggle("one-run", !this.hasRuns);
    this.grids.forEach((grid, run) => this.loaded[run].some((heads) => heads.length) && grid.draw(this.state, this.loaded[run]));
    this.showRoles();
    this.drawView();
  }

  headAt({ run, layer, head }) { return this.loaded[run]?.[layer]?.[head] ?? null; }

  // The chosen heads that are there, on one scale, with their names.
  chosenHeads() {
    const { chosen } = this.state, there = chosen.map((one, i) => ({ head: this.headAt(one), name: this.nameOf(one), i })).filter(({ head }) => head);
    const top = Math.max(...there.map(({ head }) => head.largest));
    return there.map(({ head, name }) => Object.assign(there.length > 1 ? head.scaledTo(top) : head, { name }));
  }

  pictureFor({ view }) {
    const [first, second] = this.heads;
    if (view === "lines") return linesView;
    if (view === "vectors" && first?.vectors) return vectorsView;
    return view === "difference" && sameShape(first, second) ? differenceView : panelsView;
  }

  drawView() {
    const { state } = this, stage = this.part("stage");
    this.heads = this.headAt(state.chosen[0]) ? this.chosenHeads() : [];
    this.head = this.heads[0] ?? null;
    this.showChosen();
    if (!this.head) return this.drawNothing();
    this.forgetCell();
    this.picture = this.pictureFor(state);
    const room = { width: Math.max(260, stage.clientWidth), height: Math.max(300, Math.min(window.innerHeight - 230, 900)) };
    this.layout = this.picture.layout(this.heads, room, state);
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
    this.curves.draw(this.source, state);
    this.strip.build(this.head);
    this.drawMarks();
  }

  // A cell outside the head, or of a pair that two heads do not share, is let go of.
  forgetCell() {
    const { state, head } = this;
    if (state.cell && !((state.cell.q ?? 0) < head.rows && (state.cell.k ?? 0) < head.cols)) Object.assign(state, { cell: null, held: false });
  }

  drawNothing() {
    this.layout = null;
    Object.assign(this.state, { cell: null, held: false });
    for (const name of ["picture", "marks"]) sized(this.part(name), 300, 150);
    for (const name of ["legend", "measures", "notes"]) this.part(name).replaceChildren();
    this.part("tip").hidden = true;
    this.curves.draw(this.source, this.state);
  }

  // What follows the pointer: the picture itself stays as it is, unless it shows the pair.
  drawMarks() {
    const { state, head, marks } = this;
    if (!this.layout) return;
    if (this.picture.follows) {
      this.layout = this.picture.layout(this.heads, { width: this.layout.width, height: 0 }, state);
      this.picture.paint(sized(this.part("picture"), this.layout.width, this.layout.height), this.layout, state);
    }
    const { layout } = this, tip = this.part("tip");
    marks.context.clearRect(0, 0, layout.width, layout.height);
    tip.hidden = state.cell === null || this.picture.follows === true;
    showDetails(this.root, head, state.cell);
    this.strip.draw(this.heads, state.cell, state.scale);
    this.live?.point();
    if (state.cell === null) return;
    this.picture.paintMarks(marks, layout, state.cell);
    tip.textContent = sentence(this.heads, state.cell);
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
    const differs = (...names) => names.some((name) => state[name] !== before[name]);
    if (this.loaded.length === 0 || differs("frame", ...(this.live?.computed ?? []))) return this.refresh();
    if (this.working) return this.working;
    if (differs("scale", "sort", "descending")) {
      this.showChoices();
      this.drawAll();
    } else if (differs("chosen", "view")) {
      this.grids.forEach((grid) => grid.buttons.size && grid.select(state));
      this.drawView();
      this.live?.chosen();
    } else this.drawMarks();
  }

  showChoices() {
    const { state } = this;
    this.part("scale").value = state.scale;
    this.part("by").value = state.by;
    this.part("sort").value = state.sort ?? -1;
    this.part("direction").disabled = state.sort === null;
    this.part("direction").textContent = state.descending ? "↓" : "↑";
  }

  // What the chosen heads are called, each in its colour.
  showChosen() {
    const { state } = this, several = state.chosen.length > 1, pressed = { matrix: "as-matrix", lines: "as-lines", vectors: "as-vectors", difference: "as-difference" };
    for (const [view, name] of Object.entries(pressed)) this.part(name).setAttribute("aria-checked", state.view === view);
    this.part("as-difference").hidden = state.chosen.length !== 2;
    this.part("several").setAttribute("aria-pressed", this.several);
    const role = this.head ? roleOf(this.head.roles) : null;
    this.part("head-name").textContent = this.headName() + (!this.head ? " · not recorded at this step" : role ? ` · ${role.words}` : "");
    this.part("role-line").replaceChildren(...(role ? [term(role.name, ROLES.find(({ name }) => name === role.name).about), `: ${hundredth(role.weight)} of its weight is there, ${hundredth(role.chance)} would be by chance. `, term("Measured", TERMS.role)] : []));
    this.part("chips").replaceChildren(...(several ? state.chosen.map((one, i) => this.chip(one, i)) : []));
  }

  chip(one, i) {
    const button = document.createElement("button"), patch = document.createElement("i");
    button.type = "button";
    button.className = "chip";
    button.title = "Take this head away";
    button.setAttribute("aria-label", `Take ${this.nameOf(one)} away`);
    patch.style.background = `var(${headVariable(i)})`;
    button.append(patch, this.nameOf(one), " ✕");
    button.addEventListener("click", () => this.set({ chosen: this.state.chosen.filter((_, k) => k !== i) }));
    return button;
  }

  // The letters on thumbnails, in words.
  showRoles() {
    const there = new Set(this.loaded.flat(2).map((head) => roleOf(head.roles)?.letter).filter(Boolean));
    this.part("roles").replaceChildren(...(there.size ? [...ROLES.filter(({ letter }) => there.has(letter)).map(({ name, letter }) => {
      const item = document.createElement("span"), mark = document.createElement("b");
      mark.className = "role";
      mark.textContent = mark.dataset.role = letter;
      item.append(mark, " " + name);
      return item;
    }), term("How measured", TERMS.role)] : []));
  }

  showFrame() {
    const { state } = this, { frames } = this.runs[0].source, text = frameText(frames[state.frame]);
    this.part("frame").value = state.frame;
    this.part("frame").setAttribute("aria-valuetext", text);
    this.part("frame-label").textContent = `${text} (${state.frame + 1} of ${frames.length})`;
  }

  // Shows a head; with `more` beside those chosen, or away if it is one of them.
  chooseHead(one, more = false) {
    const { chosen } = this.state, at = chosen.findIndex(({ run, layer, head }) => run === one.run && layer === one.layer && head === one.head);
    if (!more && !this.several) this.set({ chosen: [one] });
    else if (at < 0) this.set({ chosen: [...chosen, one].slice(-MOST_CHOSEN) });
    else if (chosen.length > 1) this.set({ chosen: chosen.filter((_, i) => i !== at) });
    this.announce(this.headName());
  }

  moveHead(by) {
    const order = this.grid.order(this.state), { run, layer, head } = this.state.chosen[0];
    const at = order.findIndex((one) => one[0] === layer && one[1] === head), to = order[(at + by + order.length) % order.length];
    this.chooseHead({ run, layer: to[0], head: to[1] });
  }

  moveFrame(by) {
    const frame = Math.max(0, Math.min(this.runs[0].source.frames.length - 1, this.state.frame + by));
    if (frame !== this.state.frame) this.set({ frame });
  }

  // ---- words

  nameOf({ run, layer, head }) {
    const { names } = this.grids[run];
    return (this.hasRuns ? this.runs[run].name + " · " : "") + `${names[layer]} · head ${head + 1}`;
  }

  headName() {
    const { run, layer, head } = this.state.chosen[0], { names, source } = this.grids[run], name = names[layer], dotted = source.layers[layer];
    return (this.hasRuns ? this.runs[run].name + " · " : "") + `${name}${name === dotted ? "" : ` (${dotted})`} · head ${head + 1} of ${this.grids[run].count(layer)}` +
      (this.head && !this.head.self ? " · cross-attention" : "");
  }

  // The title of a picture that is saved.
  heading() {
    const { frames } = this.runs[0].source;
    return this.headName() + (frames.length > 1 ? " · " + frameText(frames[this.state.frame]) : "");
  }

  save(blob, kind) {
    const { state, source } = this, { layer, head } = state.chosen[0], { frames } = this.runs[0].source;
    const step = frames.length > 1 ? "_step_" + frames[state.frame][0] : "";
    const name = `${source.layers[layer].replace(/[^\w.-]+/g, "_").slice(0, 80) || "attention"}_head_${head + 1}${step}_${state.view}.${kind}`;
    save(blob, name);
    this.announce("Saved as " + name);
  }

  subtitle() {
    const { layers, frames } = this.runs[0].source, count = (n, word) => n + " " + word + (n === 1 ? "" : "s");
    const heads = layers.reduce((all, _, layer) => all + this.grids[0].count(layer), 0);
    return [...(this.runs.length > 1 && !this.live ? [count(this.runs.length, "run")] : []), count(layers.length, "layer"), count(heads, "head"),
      ...(frames.length > 1 ? [`${frameText(frames[0]).toLowerCase()} to ${frameText(frames.at(-1)).toLowerCase()}`] : [])].join(" · ");
  }

  // The height that a grid has room for. A frame is as high as its page: it says nothing.
  gridHeight() {
    const all = this.whole && window.parent === window ? Math.max(300, window.innerHeight - 260) : 420;
    return all / (window.innerWidth < 720 || !this.hasRuns ? 1 : this.runs.length);
  }
}

const hundredth = (share) => (100 * share).toFixed(0) + " %";

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
