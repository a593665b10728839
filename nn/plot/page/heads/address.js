// What a view shows stands in the address of the page, behind "#": a link leads back to it.
class ViewAddress {
  constructor(view) {
    this.view = view;
    window.addEventListener("hashchange", () => view.set(this.read()));
  }

  // The changes that the address asks for. What does not fit is left out.
  read() {
    const { source, list } = this.view, given = new URLSearchParams(location.hash.slice(1)), changes = {};
    const number = (name, count) => {
      const n = given.has(name) ? Number(given.get(name)) : NaN;
      return Number.isInteger(n) && n >= 0 && n < count ? n : undefined;
    };
    const layer = number("layer", source.layers.length);
    if (layer !== undefined) Object.assign(changes, { layer, head: (number("head", list.count(layer) + 1) || 1) - 1 });
    const step = given.has("step") ? source.frames.findIndex(([s, call]) => [s, call].join(".") === given.get("step")) : -1;
    if (step >= 0) changes.frame = step;
    if (["matrix", "lines"].includes(given.get("view"))) changes.view = given.get("view");
    if (["head", "one", "row", "log"].includes(given.get("scale"))) changes.scale = given.get("scale");
    const sort = number("sort", MEASURES.length);
    if (sort !== undefined) Object.assign(changes, { sort, descending: given.get("order") !== "up" });
    const q = number("query", 1e6), k = number("key", 1e6);
    if (q !== undefined || k !== undefined) Object.assign(changes, { cell: { q: q ?? null, k: k ?? null }, held: true });
    return changes;
  }

  // Soon: a browser takes few changes in a second.
  write() {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => {
      const { state, source } = this.view, parts = new URLSearchParams({ layer: state.layer, head: state.head + 1 });
      if (state.frame !== source.frames.length - 1) parts.set("step", source.frames[state.frame].join("."));
      if (state.view !== "matrix") parts.set("view", state.view);
      if (state.scale !== "head") parts.set("scale", state.scale);
      if (state.sort !== null) parts.set("sort", state.sort);
      if (state.sort !== null && !state.descending) parts.set("order", "up");
      if (state.held && state.cell?.q != null) parts.set("query", state.cell.q);
      if (state.held && state.cell?.k != null) parts.set("key", state.cell.k);
      history.replaceState(null, "", "#" + parts);
    }, 250);
  }
}
