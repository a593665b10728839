// Which heads compose: without one of them, how much of the weight of each later head moves. The worker tries one head
// after the other while the reader pauses.
const LEAST_MOVED = 0.08, MOST_ARROWS = 6;

class Composition {
  constructor(live) {
    this.live = live;
    this.reach = null; // [layer][head] -> [layer][head], or null while it is not known
    this.question = 0;
  }

  async forget() {
    const mine = ++this.question, { num_layers: L, num_heads: H } = config, { now, bench } = this.live;
    this.reach = null;
    this.draw();
    if (L < 2 || !now) return;
    await new Promise((done) => setTimeout(done, 300));
    const reach = [];
    for (let layer = 0; layer + 1 < L; ++layer) {
      reach.push([]);
      for (let head = 0; head < H; ++head) {
        if (mine !== this.question) return;
        reach[layer].push(await this.live.worked.ask("reach", { snapshot: bench.state.frame, ids: now.ids, layer, head }));
      }
    }
    if (mine !== this.question) return;
    this.reach = reach;
    this.draw();
  }

  // The strongest pairs that the chosen head is in.
  pairs() {
    const { layer, head } = this.live.bench.state.chosen[0], { num_layers: L, num_heads: H } = config, list = [];
    for (let h = 0; h < H; ++h) {
      for (let l = 0; l < layer; ++l) list.push({ from: [l, h], to: [layer, head], value: this.reach[l][h][layer][head] });
      for (let l = layer + 1; l < L; ++l) list.push({ from: [layer, head], to: [l, h], value: this.reach[layer][head][l][h] });
    }
    return list.filter(({ value }) => value >= LEAST_MOVED).sort((a, b) => b.value - a.value).slice(0, MOST_ARROWS);
  }

  draw() {
    const { bench } = this.live, place = bench.part("composes"), list = this.reach && bench.state.sort === null ? this.pairs() : [];
    bench.grids[0].drawArrows(list);
    place.hidden = list.length === 0;
    if (!list.length) return;
    const name = ([layer, head]) => `head ${head + 1} of layer ${layer + 1}`, { from, to, value } = list[0];
    place.replaceChildren(term("Arrows", TERMS.composes), `: ${name(to)} reads ${name(from)} most. Without it, ${percent(value)} of its weight moves.`);
    document.documentElement.dataset.composed = this.live.computedCount; // for whoever steers the page from outside, such as its tests
  }
}
