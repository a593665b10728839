// The list of all heads: a row of thumbnails for each layer, or all in the order of a measure.

class HeadList {
  constructor(element, source, choose) {
    this.element = element;
    this.source = source; // data.js
    this.choose = choose; // called with a layer and a head
    this.short = shortNames(source.layers);
    this.names = layerNames(source.layers);
    this.buttons = new Map(); // "layer/head" -> { button, place, caption, value }
    // One canvas behind all buttons: a browser that has to put a hundred together is slow to follow the pointer.
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("aria-hidden", "true");
    // This element holds the rows and clips the canvas, so the canvas never makes the list larger.
    this.rows = document.createElement("div");
    this.rows.className = "rows";
    this.rows.setAttribute("role", "presentation");
    element.append(this.rows);
    element.addEventListener("click", (event) => {
      const button = event.target.closest(".head");
      if (button) this.choose(Number(button.dataset.layer), Number(button.dataset.head));
    });
    element.addEventListener("keydown", (event) => this.onKey(event));
  }

  // How many heads a layer has, whatever the step.
  count(layer) { return this.source.frames.reduce((most, _, frame) => Math.max(most, this.source.entry(layer, frame)?.heads ?? 0), 0); }

  // All heads as [layer, head], in the order in which they are shown.
  order(state) {
    const all = [];
    this.source.layers.forEach((_, layer) => {
      for (let head = 0, count = this.count(layer); head < count; ++head) all.push([layer, head]);
    });
    if (state.sort === null) return all;
    const sign = state.descending ? -1 : 1;
    const value = ([layer, head]) => this.source.entry(layer, state.frame)?.measures[head]?.[state.sort] ?? null;
    return all
      .map((item) => [item, value(item)])
      .sort(([, a], [, b]) => (a === null ? (b === null ? 0 : 1) : b === null ? -1 : sign * (a - b)))
      .map(([item]) => item);
  }

  // `heads` are those of the step, by layer.
  draw(state, heads) {
    const order = this.order(state);
    const key = order.join(" ") + (state.sort === null);
    if (key !== this.shown) this.build(order, state);
    this.shown = key;
    const ratio = window.devicePixelRatio || 1, { layers } = this.source, measure = state.sort === null ? null : MEASURES[state.sort];
    for (const [layer, head] of order) {
      const { button, place, caption, value } = this.buttons.get(layer + "/" + head), it = heads[layer][head];
      const role = it ? roleOf(it.roles) : "", number = it && measure ? measureText(measure, it.measures[state.sort]) : "";
      // Layer and head stay in every order; under them the measure of the order, or what the head does.
      // A text that is written again, even the same one, costs a layout.
      const shown = [(state.sort === null ? "" : this.short[layer] + " · ") + (head + 1), measure ? number : role];
      [caption, value].forEach((element, i) => { if (element.textContent !== shown[i]) element.textContent = shown[i]; });
      const name = `${this.names[layer]}, head ${head + 1}`;
      button.title = [name, ...(this.names === layers ? [] : [layers[layer]]), ...(number ? [`${measure.name} ${number}`] : []), ...(role ? [role] : [])].join("\n");
      button.setAttribute("aria-label", name + (it ? "" : ", not recorded at this step") +
        (number ? `, ${measure.name} ${number}` : "") + (role ? `, ${role}` : ""));
      if (it) place.style.aspectRatio = Math.max(0.25, Math.min(4, it.cols / it.rows));
    }
    const painter = sized(this.canvas, this.rows.clientWidth, this.rows.clientHeight);
    for (const [layer, head] of order) {
      const { place } = this.buttons.get(layer + "/" + head), it = heads[layer][head];
      const { offsetLeft: x, offsetTop: y, clientWidth: w, clientHeight: h } = place;
      // At most as many pixels as are shown, so that none is left out: a diagonal must stay a line.
      if (it) painter.image(x, y, w, h, rasterize(it, state, Math.max(16, Math.round(Math.max(w, h) * ratio))));
    }
    this.select(state);
  }

  build(order, state) {
    this.buttons.clear();
    this.rows.replaceChildren(this.canvas);
    this.element.style.setProperty("--columns", Math.max(4, ...this.source.layers.map((_, layer) => this.count(layer))));
    this.element.classList.toggle("sorted", state.sort !== null);
    let row = null, of = -1;
    for (const [layer, head] of order) {
      if (row === null || (state.sort === null && layer !== of)) {
        if (state.sort === null) {
          const name = document.createElement("div");
          name.className = "layer-name";
          name.setAttribute("role", "presentation");
          name.textContent = this.names[layer];
          name.title = this.source.layers[layer];
          this.rows.append(name);
        }
        row = document.createElement("div");
        row.className = "row";
        row.setAttribute("role", "presentation");
        this.rows.append(row);
        of = layer;
      }
      const button = document.createElement("button");
      button.type = "button";
      button.className = "head";
      button.setAttribute("role", "option");
      Object.assign(button.dataset, { layer, head });
      const place = document.createElement("i"), caption = document.createElement("span"), value = document.createElement("span");
      value.className = "value";
      button.append(place, caption, value);
      row.append(button);
      this.buttons.set(layer + "/" + head, { button, place, caption, value });
    }
  }

  // One of them takes part in the order of the tabulator key; arrows go on from there.
  select(state) {
    for (const [key, { button }] of this.buttons) {
      const on = key === state.layer + "/" + state.head;
      button.setAttribute("aria-selected", on);
      button.tabIndex = on ? 0 : -1;
      if (on && this.selected !== key) this.reveal(button);
    }
    this.selected = state.layer + "/" + state.head;
  }

  // scrollIntoView() would scroll the page that frames this one as well.
  reveal(button) {
    const list = this.element.getBoundingClientRect(), box = button.getBoundingClientRect();
    this.element.scrollTop += Math.min(0, box.top - list.top) + Math.max(0, box.bottom - list.bottom);
  }

  onKey(event) {
    const all = [...this.buttons.values()].map(({ button }) => button);
    const at = all.indexOf(document.activeElement);
    if (at < 0) return;
    const here = all[at].getBoundingClientRect();
    // Up and down: the nearest one of the next row.
    const vertical = (sign) => {
      let best = null, least = Infinity;
      for (const button of all) {
        const box = button.getBoundingClientRect(), dy = sign * (box.top - here.top);
        const distance = dy * 10 + Math.abs(box.left - here.left);
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
    this.choose(Number(to.dataset.layer), Number(to.dataset.head));
  }
}
