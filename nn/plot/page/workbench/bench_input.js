// What the user does at the workbench.
Object.assign(Workbench.prototype, {
  listen() {
    const on = (name, event, act) => this.part(name).addEventListener(event, act);
    on("sort", "change", (event) => this.set({ sort: Number(event.target.value) < 0 ? null : Number(event.target.value) }));
    on("direction", "click", () => this.set({ descending: !this.state.descending }));
    on("scale", "change", (event) => this.set({ scale: event.target.value }));
    on("by", "change", (event) => this.set({ by: event.target.value }));
    for (const view of ["matrix", "lines", "vectors", "difference"]) on("as-" + view, "click", () => this.set({ view }));
    on("several", "click", () => {
      this.several = !this.several;
      this.showChosen();
    });
    on("help-button", "click", () => this.part("help").showModal());
    on("save-svg", "click", () => this.head && this.save(exportSvg(this), "svg"));
    on("save-png", "click", async () => this.head && this.save(await exportPng(this), "png"));
    on("frame", "input", (event) => this.set({ frame: Number(event.target.value) }));
    playThrough(this.part("play"), { at: () => this.state.frame, last: this.runs[0].source.frames.length - 1, go: (frame) => this.set({ frame }) });
    on("marks", "pointermove", (event) => this.onPoint(event));
    on("marks", "pointerdown", (event) => this.onPoint(event));
    on("marks", "pointerleave", () => this.state.held || this.set({ cell: null }));
    on("marks", "click", (event) => this.onClick(event));
    on("stage", "keydown", (event) => this.onStageKey(event));
    (this.whole ? document : this.root).addEventListener("keydown", (event) => this.onKey(event));
    document.addEventListener("theme", () => {
      readTheme();
      if (this.loaded.length) this.drawAll();
    });
    let resizing = 0;
    window.addEventListener("resize", () => {
      cancelAnimationFrame(resizing);
      resizing = requestAnimationFrame(() => this.loaded.length && this.drawAll());
    });
  },

  onPoint(event) {
    const { state, layout } = this;
    if (!layout || state.held) return;
    const box = this.part("marks").getBoundingClientRect();
    const cell = this.picture.hit(layout, event.clientX - box.left, event.clientY - box.top);
    if (cell?.q === state.cell?.q && cell?.k === state.cell?.k) return;
    this.set({ cell });
  },

  onClick(event) {
    const { state } = this, held = state.held;
    state.held = false;
    this.onPoint(event);
    this.set({ held: !held && state.cell !== null });
  },

  onStageKey(event) {
    const { state, head } = this;
    if (!head) return;
    const moved = {
      ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -Infinity], End: [0, Infinity],
    }[event.key];
    if (event.key === "Escape") this.set({ cell: null, held: false });
    else if (event.key === "Enter") this.set({ held: !state.held && state.cell !== null });
    else if (moved) {
      const cell = this.movedCell(moved);
      this.set({ cell });
      this.announce(sentence(this.heads, cell));
    } else return;
    event.preventDefault();
    event.stopPropagation();
  },

  movedCell([down, right]) {
    const { state, head } = this, { q, k } = state.cell ?? { q: null, k: null }, clamp = (v, n) => Math.max(0, Math.min(n - 1, v));
    if (state.view === "vectors") {
      const pair = pairOf(head, state.cell);
      return { q: clamp(pair.q + right, head.rows), k: clamp(Math.min(pair.k + down, head.self ? pair.q + right : Infinity), head.cols) };
    }
    if (state.view !== "lines") return state.cell ? { q: clamp((q ?? 0) + down, head.rows), k: clamp((k ?? 0) + right, head.cols) } : { q: 0, k: 0 };
    // One end of the lines has the names: left and right change sides.
    const onKeys = right !== 0 ? right > 0 : q === null && k !== null, at = clamp((q ?? k ?? 0) + down, onKeys ? head.cols : head.rows);
    return onKeys ? { q: null, k: at } : { q: at, k: null };
  },

  onKey(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("select, input, textarea, dialog")) return;
    const views = ["matrix", "lines", ...(this.live ? ["vectors"] : []), ...(this.state.chosen.length === 2 ? ["difference"] : [])];
    const act = {
      n: () => this.moveHead(1), p: () => this.moveHead(-1), ",": () => this.moveFrame(-1), ".": () => this.moveFrame(1),
      v: () => this.set({ view: views[(views.indexOf(this.state.view) + 1) % views.length] }),
      s: () => this.part("several").click(), d: () => chooseTheme(!isDark()), "?": () => this.part("help").showModal(),
      x: () => this.live?.toggleHead(this.state.chosen[0]), c: () => this.live?.patchHead(this.state.chosen[0]),
      Escape: () => this.set({ cell: null, held: false }),
    }[event.key];
    if (act) act();
  },
});
