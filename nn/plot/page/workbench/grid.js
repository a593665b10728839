// All heads of a run: a row for each layer, a column for each head, always as a whole; or all in the order of a measure.
const LARGEST_CELL = 92, LEAST_CELL = 18, CAPTIONED = 52;

class HeadGrid {
  // place: the element of this run. run: { name, source, switches }: only a run whose model is here has switches.
  constructor(place, index, bench) {
    this.place = place;
    this.index = index;
    this.bench = bench;
    this.run = bench.runs[index];
    this.source = this.run.source;
    this.short = shortNames(this.source.layers);
    this.names = layerNames(this.source.layers);
    this.buttons = new Map(); // "layer/head" -> { button, thumbnail, mark, caption, value }
    // One canvas behind all buttons: a browser that has to put a hundred together is slow to follow the pointer.
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("aria-hidden", "true");
    this.rows = document.createElement("div");
    this.rows.className = "rows";
    this.arrows = svgElement("svg", { class: "arrows", "aria-hidden": "true" });
    place.append(this.rows);
    place.addEventListener("click", (event) => this.onClick(event));
    place.addEventListener("keydown", (event) => this.onKey(event));
  }

  // How many heads a layer has, whatever the step.
  count(layer) { return this.source.frames.reduce((most, _, frame) => Math.max(most, this.source.entry(layer, frame)?.heads ?? 0), 0); }
  get columns() { return Math.max(1, ...this.source.layers.map((_, layer) => this.count(layer))); }

  // All heads as [layer, head], in the order in which they are shown.
  order(state) {
    const all = [];
    this.source.layers.forEach((_, layer) => {
      for (let head = 0, count = this.count(layer); head < count; ++head) all.push([layer, head]);
    });
    if (state.sort === null) return all;
    const sign = state.descending ? -1 : 1, frame = this.bench.frameOf(this.index);
    const value = ([layer, head]) => this.source.entry(layer, frame)?.measures[head]?.[state.sort] ?? null;
    return all
      .map((item) => [item, value(item)])
      .sort(([, a], [, b]) => (a === null ? (b === null ? 0 : 1) : b === null ? -1 : sign * (a - b)))
      .map(([item]) => item);
  }

  // ---- drawing

  // `heads` are those of the step, by layer.
  draw(state, heads) {
    const order = this.order(state), key = order.join(" ") + (state.sort === null);
    if (key !== this.shown) this.build(order, state);
    this.shown = key;
    this.fit(state);
    for (const [layer, head] of order) this.write(state, layer, head, heads[layer]?.[head]);
    const ratio = window.devicePixelRatio || 1, painter = sized(this.canvas, this.rows.clientWidth, this.rows.clientHeight);
    for (const [layer, head] of order) {
      const { thumbnail } = this.buttons.get(layer + "/" + head), it = heads[layer]?.[head];
      const { offsetLeft: x, offsetTop: y, clientWidth: w, clientHeight: h } = thumbnail;
      // At most as many pixels as are shown, so that none is left out: a diagonal must stay a line.
      if (it) painter.image(x, y, w, h, rasterize(it, state, Math.max(16, Math.round(Math.max(w, h) * ratio))));
    }
    this.select(state);
  }

  // The cells are as large as all of them have room for.
  fit(state) {
    const sorted = state.sort !== null, cells = this.columns + (this.run.switches?.mlps ? 1 : 0), gap = cells <= 8 ? 6 : this.place.clientWidth < 400 ? 1 : 3;
    const width = this.place.clientWidth - this.nameWidth() - gap * cells;
    const across = width / cells, down = (this.bench.gridHeight() - 20) / this.source.layers.length - gap;
    const room = Math.min(LARGEST_CELL, across, down >= CAPTIONED + 28 ? down - 28 : Math.min(down, CAPTIONED - 1));
    const size = sorted ? Math.max(52, room) : Math.max(LEAST_CELL, room);
    this.place.classList.toggle("sorted", sorted);
    this.place.classList.toggle("captioned", size >= CAPTIONED || sorted);
    for (const [name, value] of [["cell", size], ["gap", gap], ["names", this.nameWidth()]]) this.place.style.setProperty("--" + name, value + "px");
    this.place.style.setProperty("--columns", cells);
  }

  // Layers that are counted have their number alone.
  nameWidth() { return this.names === this.source.layers ? Math.min(104, 0.25 * this.place.clientWidth, Math.max(24, ...this.short.map((name) => textWidth(name, 11) + 6))) : 22; }

  write(state, layer, head, it) {
    const { button, thumbnail, mark, caption, value } = this.buttons.get(layer + "/" + head), measure = state.sort === null ? null : MEASURES[state.sort];
    const role = it ? roleOf(it.roles) : null, number = it && measure ? measureText(measure, it.measures[state.sort]) : "";
    const effect = this.run.switches?.effect(layer, head) ?? "";
    // Layer and head stay in every order; under them the measure of the order, what a switch does, or what the head does.
    // A text that is written again, even the same one, costs a layout.
    const shown = [(state.sort === null ? "" : this.shortName(layer) + " · ") + (head + 1), number || effect || (role?.words ?? ""), role?.letter ?? ""];
    [caption, value, mark].forEach((element, i) => { if (element.textContent !== shown[i]) element.textContent = shown[i]; });
    mark.dataset.role = role?.letter ?? "";
    const name = `${this.names[layer]}, head ${head + 1}`;
    button.title = [name, ...(this.names === this.source.layers ? [] : [this.source.layers[layer]]), ...(number ? [`${measure.name} ${number}`] : []), ...(role ? [role.words] : []), ...(effect ? [effect] : [])].join("\n");
    button.setAttribute("aria-label", [this.bench.hasRuns ? this.run.name : "", name, it ? "" : "not recorded at this step", number ? `${measure.name} ${number}` : "", role?.words ?? "", effect].filter(Boolean).join(", "));
    if (it) thumbnail.style.aspectRatio = Math.max(1, Math.min(4, it.cols / it.rows));
  }

  shortName(layer) { return this.names === this.source.layers ? this.short[layer] : String(layer + 1); }

  build(order, state) {
    this.buttons.clear();
    this.rows.replaceChildren(this.canvas);
    if (state.sort === null) this.buildRows();
    else this.rows.append(...order.map(([layer, head]) => this.cellOf(layer, head)));
    this.rows.append(this.arrows);
  }

  buildRows() {
    const { switches } = this.run, corner = document.createElement("span");
    corner.className = "corner";
    this.rows.append(corner);
    for (let head = 0; head < this.columns; ++head) this.rows.append(this.title(String(head + 1), `Head ${head + 1} of all layers`, switches && (() => switches.toggleColumn(head))));
    if (switches?.mlps) this.rows.append(this.title("MLP", "The MLPs of all layers", () => switches.toggleColumn("mlp")));
    this.source.layers.forEach((name, layer) => {
      this.rows.append(this.title(this.shortName(layer), switches ? `All heads of ${this.names[layer]}` : name, switches && (() => switches.toggleRow(layer)), "layer-name"));
      for (let head = 0; head < this.columns; ++head) this.rows.append(head < this.count(layer) ? this.cellOf(layer, head) : document.createElement("span"));
      if (switches?.mlps) this.rows.append(switches.mlpCell(layer, this.names[layer]));
    });
  }

  // The name of a row or a column. Where the model runs, it turns all of its parts off, or on again.
  title(text, about, act, kind = "column-name") {
    const element = document.createElement(act ? "button" : "span");
    element.className = kind;
    element.textContent = text.replace(/[._]/g, "$&\u200b"); // where a long name may be broken
    element.title = act ? `${about}: off, or on again` : about;
    if (!act) return element;
    element.type = "button";
    element.setAttribute("aria-label", element.title);
    element.addEventListener("click", act);
    return element;
  }

  cellOf(layer, head) {
    const cell = document.createElement("div"), button = document.createElement("button");
    const thumbnail = document.createElement("i"), mark = document.createElement("b"), caption = document.createElement("span"), value = document.createElement("span");
    cell.className = "head-cell";
    button.type = "button";
    button.className = "head";
    Object.assign(button.dataset, { layer, head, run: this.index });
    mark.className = "role";
    value.className = "value";
    button.append(thumbnail, mark, caption, value);
    cell.append(button);
    this.run.switches?.add(cell, layer, head, this.names[layer]);
    this.buttons.set(layer + "/" + head, { button, thumbnail, mark, caption, value });
    return cell;
  }

  // Which heads are chosen. One of them takes part in the order of the tabulator key; arrows go on from there.
  select(state) {
    const own = state.chosen.map((one, i) => ({ ...one, i })).filter(({ run }) => run === this.index);
    for (const [key, { button }] of this.buttons) {
      const one = own.find(({ layer, head }) => key === layer + "/" + head);
      button.setAttribute("aria-pressed", one !== undefined);
      button.style.setProperty("--chosen", one === undefined ? "" : `var(${headVariable(one.i)})`);
      button.tabIndex = one === own[0] && one !== undefined ? 0 : -1;
      if (one && one.i === 0 && this.selected !== key) this.reveal(button);
    }
    if (!own.length) this.buttons.values().next().value.button.tabIndex = 0;
    this.selected = own[0] ? own[0].layer + "/" + own[0].head : null;
  }

  // scrollIntoView() would scroll the page that frames this one as well.
  reveal(button) {
    const list = this.place.getBoundingClientRect(), box = button.getBoundingClientRect();
    this.place.scrollTop += Math.min(0, box.top - list.top) + Math.max(0, box.bottom - list.bottom);
  }

  // Arrows between heads: { from: [layer, head], to: [layer, head], value }.
  drawArrows(list) {
    const middle = ([layer, head]) => {
      const found = this.buttons.get(layer + "/" + head);
      return found && { x: found.button.offsetLeft + found.button.offsetWidth / 2, top: found.button.offsetTop, bottom: found.button.offsetTop + found.button.offsetHeight };
    };
    for (const [name, size] of [["width", this.rows.clientWidth], ["height", this.rows.clientHeight]]) this.arrows.setAttribute(name, size);
    this.arrows.replaceChildren(...list.flatMap(({ from, to, value }) => {
      const a = middle(from), b = middle(to);
      if (!a || !b) return [];
      const x1 = a.x, y1 = a.bottom - 4, x2 = b.x, y2 = b.top + 2, bend = Math.max(10, (y2 - y1) / 2);
      const path = svgElement("path", { d: `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`, "stroke-width": (1 + 4 * value).toFixed(1) });
      path.dataset.from = from.join(".");
      path.dataset.to = to.join(".");
      path.dataset.value = value;
      return [path, svgElement("path", { class: "tip-of", d: `M${x2 - 5} ${y2 - 7}L${x2} ${y2}L${x2 + 5} ${y2 - 7}Z` })];
    }));
  }

  // ---- what the user does

  onClick(event) {
    const button = event.target.closest(".head");
    if (button) this.bench.chooseHead({ run: this.index, layer: Number(button.dataset.layer), head: Number(button.dataset.head) }, event.shiftKey || event.ctrlKey || event.metaKey);
  }

  onKey(event) {
    const all = [...this.buttons.values()].map(({ button }) => button), at = all.indexOf(document.activeElement);
    if (at < 0) return;
    const here = all[at].getBoundingClientRect();
    // Up and down: the nearest one of the next row.
    const vertical = (sign) => {
      let best = null, least = Infinity;
      for (const button of all) {
        const box = button.getBoundingClientRect(), dy = sign * (box.top - here.top), distance = dy * 10 + Math.abs(box.left - here.left);
        if (dy > 4 && distance < least) [best, least] = [button, distance];
      }
      return best;
    };
    const to = { ArrowRight: all[at + 1], ArrowLeft: all[at - 1], Home: all[0], End: all[all.length - 1] }[event.key] ??
      (event.key === "ArrowDown" ? vertical(1) : event.key === "ArrowUp" ? vertical(-1) : null);
    if (!to) return;
    event.preventDefault();
    event.stopPropagation();
    to.focus();
    this.bench.chooseHead({ run: this.index, layer: Number(to.dataset.layer), head: Number(to.dataset.head) });
  }
}
