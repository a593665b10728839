// Heads of two runs in pairs: two trainings rarely learn the same head at the same place.

// The weight that two heads share, mean over the queries; null if their shapes differ.
function similarity(a, b) {
  if (!sameShape(a, b)) return null;
  let sum = 0;
  for (let q = 0; q < a.rows; ++q) for (let k = 0; k < a.cols; ++k) sum += Math.min(a.value(q, k), b.value(q, k)) || 0;
  return sum / a.rows;
}

// Pairs { a, b, shared }, the most similar one first; each head is in one pair at most.
function matched(first, second) {
  const all = [];
  for (const a of first) for (const b of second) {
    const shared = similarity(a.head, b.head);
    if (shared !== null) all.push({ a, b, shared });
  }
  const taken = new Set();
  return all.sort((p, q) => q.shared - p.shared).filter(({ a, b }) => {
    if (taken.has(a) || taken.has(b)) return false;
    taken.add(a).add(b);
    return true;
  });
}

class RunPairs {
  constructor(bench) {
    this.bench = bench;
    this.box = byId("matched");
    this.box.hidden = false;
    for (const id of ["pair-first", "pair-second"]) {
      bench.runs.forEach(({ name }, i) => byId(id).add(new Option(name, i)));
      byId(id).addEventListener("change", () => this.match());
    }
    byId("pair-second").value = 1;
  }

  // Opens on the pair that is most alike, unless the address chooses heads.
  async show() {
    await this.match();
    if (!location.hash && this.pairs.length) await this.choose(0);
  }

  async headsOf(run) {
    const { source } = this.bench.runs[run], { names } = this.bench.grids[run];
    const layers = await Promise.all(source.layers.map((_, layer) => source.headsOf(layer, source.frames.length - 1)));
    return layers.flatMap((heads, layer) => heads.map((head, index) => ({ head, at: { run, layer, head: index }, name: `${names[layer]}, head ${index + 1}` })));
  }

  async match() {
    const [first, second] = ["pair-first", "pair-second"].map((id) => Number(byId(id).value));
    this.pairs = first === second ? [] : matched(await this.headsOf(first), await this.headsOf(second));
    byId("pairs").replaceChildren(...this.pairs.map(({ a, b, shared }, i) => {
      const button = document.createElement("button"), number = document.createElement("b");
      button.type = "button";
      number.textContent = shared.toFixed(3);
      button.append(number, `${a.name} ↔ ${b.name}`);
      button.addEventListener("click", () => this.choose(i));
      return button;
    }));
  }

  choose(i) {
    const { a, b } = this.pairs[i];
    [...byId("pairs").children].forEach((button, k) => button.setAttribute("aria-pressed", k === i));
    return this.bench.set({ chosen: [a.at, b.at], frame: this.bench.runs[0].source.frames.length - 1 });
  }
}
