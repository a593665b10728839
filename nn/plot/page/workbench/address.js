// What the workbench shows stands in the address of the page, behind "#": a link leads back to it.
const ADDRESS_WORDS = { view: ["matrix", "lines", "vectors", "difference"], scale: ["head", "one", "row", "log"], by: ["weight", "value"], how: ["mean", "zero", "other"] };

class BenchAddress {
  constructor(bench) {
    this.bench = bench;
    window.addEventListener("hashchange", () => bench.set(this.read()));
  }

  // The changes that the address asks for. What does not fit is left out.
  read() {
    const { bench } = this, { frames } = bench.runs[0].source, given = new URLSearchParams(location.hash.slice(1)), changes = {};
    const number = (name, count) => {
      const n = given.has(name) ? Number(given.get(name)) : NaN;
      return Number.isInteger(n) && n >= 0 && n < count ? n : undefined;
    };
    const chosen = (given.get("heads") ?? "").split(",").map((text) => this.headOf(text)).filter(Boolean);
    if (chosen.length) changes.chosen = chosen.slice(0, MOST_CHOSEN);
    const step = given.has("step") ? frames.findIndex(([s, call]) => [s, call].join(".") === given.get("step")) : -1;
    if (step >= 0) changes.frame = step;
    for (const [name, words] of Object.entries(ADDRESS_WORDS)) if (words.includes(given.get(name)) && name in bench.state) changes[name] = given.get(name);
    const sort = number("sort", MEASURES.length);
    if (sort !== undefined) Object.assign(changes, { sort, descending: given.get("order") !== "up" });
    const q = number("query", 1e6), k = number("key", 1e6);
    if (q !== undefined || k !== undefined) Object.assign(changes, { cell: { q: q ?? null, k: k ?? null }, held: true });
    return { ...changes, ...bench.live?.readAddress(given) };
  }

  // "run.layer.head", counted from 1.
  headOf(text) {
    const [run, layer, head] = text.split(".").map((n) => Number(n) - 1), grid = this.bench.grids[run];
    return grid && layer in grid.source.layers && head >= 0 && head < grid.count(layer) ? { run, layer, head } : null;
  }

  // Soon: a browser takes few changes in a second.
  write() {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => history.replaceState(null, "", "#" + this.parts()), 250);
  }

  parts() {
    const { bench } = this, { state } = bench, { frames } = bench.runs[0].source;
    const parts = new URLSearchParams({ heads: state.chosen.map(({ run, layer, head }) => [run + 1, layer + 1, head + 1].join(".")).join(",") });
    if (state.frame !== frames.length - 1) parts.set("step", frames[state.frame].join("."));
    for (const [name, words] of Object.entries(ADDRESS_WORDS)) if (state[name] !== undefined && state[name] !== words[0]) parts.set(name, state[name]);
    if (state.sort !== null) parts.set("sort", state.sort);
    if (state.sort !== null && !state.descending) parts.set("order", "up");
    if (state.held && state.cell?.q != null) parts.set("query", state.cell.q);
    if (state.held && state.cell?.k != null) parts.set("key", state.cell.k);
    bench.live?.writeAddress(parts);
    return parts;
  }
}
