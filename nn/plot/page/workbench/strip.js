// The text as a strip of tokens. The token that is pointed at is the query: each other token has the colour of the weight
// that it gives it, and below a bar for each chosen head. In cross-attention the keys are a second strip.
class TextStrip {
  constructor(element, bench) {
    this.element = element;
    this.bench = bench;
    this.items = new Map(); // "query" and "key" -> spans
    this.element.addEventListener("pointermove", (event) => event.pointerType !== "touch" && this.point(event));
    this.element.addEventListener("pointerleave", () => bench.state.held || bench.set({ cell: null }));
    this.element.addEventListener("click", (event) => this.click(event));
    this.element.addEventListener("keydown", (event) => this.onKey(event));
  }

  // { q, k: null } or { q: null, k } of the token under the pointer, or null.
  cellOf(event) {
    const token = event.target.closest(".token");
    if (!token) return null;
    const at = Number(token.dataset.at);
    return token.parentElement.dataset.side === "key" ? { q: null, k: at } : { q: at, k: null };
  }

  point(event) {
    const { state } = this.bench, cell = this.cellOf(event);
    if (!cell || state.held || (cell.q === state.cell?.q && cell.k === state.cell?.k)) return;
    this.bench.set({ cell });
  }

  click(event) {
    const { state } = this.bench, cell = this.cellOf(event);
    if (!cell) return;
    const same = state.held && cell.q === state.cell?.q && cell.k === state.cell?.k;
    this.bench.set({ cell, held: !same });
  }

  onKey(event) {
    const { head, state } = this.bench, by = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (!head || !by) return;
    event.preventDefault();
    event.stopPropagation();
    const cell = { q: Math.max(0, Math.min(head.rows - 1, (state.cell?.q ?? head.rows - 1) + by)), k: null };
    this.bench.set({ cell, held: true });
    this.bench.announce(this.words(cell.q));
  }

  // What the query of this number gives its weights to, in words.
  words(q) {
    const { head } = this.bench, keys = [...Array(head.cols).keys()].filter((k) => head.finite(q) && !head.reason(q, k)).sort((a, b) => head.value(q, b) - head.value(q, a)).slice(0, 3);
    return `${quoted(head.queries[q])} gives ` + (keys.length ? keys.map((k) => `${quoted(head.keys[k])} ${weightText(head.value(q, k))}`).join(", ") : "nothing");
  }

  // The tokens of a head. They stay if they are the same.
  build(head) {
    const sides = head.self ? [["query", head.queries]] : [["query", head.queries], ["key", head.keys]];
    const shown = JSON.stringify(sides);
    if (shown === this.shown) return;
    this.shown = shown;
    this.items.clear();
    this.element.replaceChildren(...sides.map(([side, tokens]) => {
      const line = document.createElement("div"), name = document.createElement("small");
      line.className = "tokens" + (isLetters(tokens) ? " letters" : "");
      line.dataset.side = side;
      name.textContent = sides.length > 1 ? (side === "query" ? "Queries" : "Keys") : "";
      const spans = tokens.map((token, at) => {
        const span = document.createElement("span");
        span.className = "token";
        span.dataset.at = at;
        span.append(label(token, 30));
        return span;
      });
      this.items.set(side, spans);
      line.append(...(name.textContent ? [name] : []), ...spans);
      return line;
    }));
  }

  // The weights of the cell's query, or those that its key gets, in the colours of the matrix.
  draw(heads, cell, scale) {
    const head = heads[0], queries = this.items.get("query"), keys = this.items.get("key") ?? queries, colors = weightColors();
    const q = cell?.q ?? (cell ? null : head.rows - 1), shifted = head.self ? head.cols - head.rows : 0;
    const asked = q !== null ? queries : keys, others = q !== null ? keys : queries;
    if (asked !== others) asked.forEach((span, i) => this.paint(span, null, i === (q ?? cell.k)));
    others.forEach((span, i) => {
      const at = q !== null ? [q, i + (others === queries ? shifted : 0)] : [i, cell.k];
      const known = at[0] < head.rows && at[1] < head.cols && head.finite(at[0]) && !head.reason(...at);
      this.paint(span, known ? colors[Math.round(position(head, ...at, scale) * (colors.length - 1))] : "hidden",
        asked === others && i === (q ?? cell.k), heads.length > 1 ? heads.map((one) => (known && sameShape(head, one) ? one.value(...at) : 0)) : null,
        cell?.q != null && i === cell.k);
    });
  }

  // Writes what has changed: a style that is set again, even to the same, costs time.
  paint(span, color, asks, weights = null, answers = false) {
    const key = [color, asks, answers, weights, isDark()].join();
    if (span.shownAs === key) return;
    span.shownAs = key;
    span.classList.toggle("asks", asks);
    span.classList.toggle("answers", answers);
    span.classList.toggle("later", color === "hidden");
    span.style.background = color && color !== "hidden" ? color : "";
    span.style.color = color && color !== "hidden" ? inkOn(color) : "";
    span.style.boxShadow = weights ? weights.map((w, i) => `inset 0 ${-3 * (i + 1)}px 0 ${w >= 0.02 ? onPanel(headColor(i), 0.15 + w) : "transparent"}`).reverse().join(", ") : "";
  }
}
