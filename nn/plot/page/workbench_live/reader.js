// The reader's texts: the fields, the bars of the next token, sampling, and what the switches change, in words.
const READER_ADDRESS = { temperature: "temperature", top: "top-k" }; // in the address: the field

class Reader {
  constructor(live) {
    this.live = live;
    this.bench = live.bench;
    data.samples.forEach((text, i) => byId("sample").add(new Option(shown(text.slice(0, 40)) || "(empty)", i)));
    this.listen();
  }

  listen() {
    const { live, bench } = this, on = (id, event, act) => byId(id).addEventListener(event, act);
    on("text", "input", () => live.setText(byId("text").value));
    on("second", "input", () => bench.set({ second: byId("second").value }));
    on("sample", "change", () => live.setText(data.samples[Number(byId("sample").value)]));
    for (const id of Object.values(READER_ADDRESS)) on(id, "input", () => {
      bench.address?.write();
      if (live.now) this.drawNext();
    });
    on("sample-one", "click", () => this.sample(1));
    on("sample-many", "click", () => this.sample(20));
    on("how", "change", () => { live.matter = null; bench.set({ how: byId("how").value }); });
    on("all-on", "click", () => bench.set({ off: new Map() }));
    on("matter", "click", () => live.now && live.tryAll());
    on("by-loss", "click", () => {
      byId("by-loss").setAttribute("aria-pressed", byId("by-loss").getAttribute("aria-pressed") !== "true");
      bench.drawMarks();
    });
  }

  // { all, ids, secondIds } of both texts, or null if the first cannot be read. Says what is wrong.
  read(state) {
    for (const id of ["text", "second"]) if (byId(id).value !== state[id]) byId(id).value = state[id];
    let all, ids, secondIds = null;
    try {
      all = idsOf(state.text, state.ids);
      ids = read(all);
      byId("problem").textContent = ids.length < all.length ? `The model reads the last ${ids.length} of ${all.length} tokens.` : "";
    } catch (error) {
      byId("problem").textContent = error.message;
      return null;
    }
    try {
      if (state.second) secondIds = read(idsOf(state.second));
      byId("second-note").textContent = this.noteOf(ids, secondIds);
    } catch (error) {
      byId("second-note").textContent = error.message;
    }
    this.settle(state, secondIds?.length === ids.length);
    return { all, ids, secondIds };
  }

  noteOf(ids, secondIds) {
    if (!secondIds) return "Type a text to compare with. Of as many tokens as the first one, its heads can be dragged onto those of the first text (or press c on a head): they bring their output along.";
    return secondIds.length === ids.length ? "As many tokens as the first text: drag a head of this text onto the first one's heads, or press c on a head there, and its output comes from here."
      : `${secondIds.length} tokens; the first text has ${ids.length}. Parts can take their output from here if there are as many.`;
  }

  // Without a second text of as many tokens, nothing can come from there.
  settle(state, fits) {
    byId("how").querySelector('[value="other"]').disabled = !fits;
    if (fits) return;
    if (state.how === "other") state.how = "mean";
    if ([...state.off.values()].includes("other")) state.off = new Map([...state.off].filter(([, what]) => what !== "other"));
  }

  fits() { return this.live.now?.secondIds?.length === this.live.now?.ids.length; }

  // How the reader samples, in the address.
  readAddress(given) {
    for (const [name, id] of Object.entries(READER_ADDRESS)) if (given.has(name)) byId(id).value = given.get(name);
  }

  writeAddress(parts) {
    for (const [name, id] of Object.entries(READER_ADDRESS)) if (byId(id).value !== byId(id).defaultValue) parts.set(name, byId(id).value);
  }

  // ---- drawing

  // The token whose successor is shown: the query, else the last one.
  get position() {
    const { cell } = this.bench.state, last = this.live.now.ids.length - 1;
    return Math.min(cell?.q ?? last, last);
  }

  draw() {
    const { ids, logits, second, secondIds } = this.live.now, { state } = this.bench;
    this.losses = losses(logits, ids);
    byId("loss").textContent = ids.length > 1 ? `Mean loss ${meanOf(this.losses).toFixed(3)} nats a token.` : "";
    byId("how").value = state.how;
    byId("all-on").disabled = state.off.size === 0;
    byId("effect").textContent = this.effect();
    for (const [t, token] of (this.bench.strip.items.get("query") ?? []).entries()) {
      token.dataset.id = ids[t];
      token.title = t > 0 ? `loss ${this.losses[t - 1].toFixed(2)}: the model gave it ${percent(Math.exp(-this.losses[t - 1]))}` : "";
    }
    byId("second-next-title").hidden = byId("second-bars").hidden = byId("second-tokens").hidden = !second;
    if (second) showTokens(byId("second-tokens"), secondIds, second.logits, -1);
    this.drawNext();
  }

  drawNext() {
    const { ids, secondIds, logits, before, second } = this.live.now, at = this.position, { off } = this.bench.state;
    const title = (list, t) => `Which token comes after “${shownId(list[t])}”? (${t + 1} of ${list.length})`;
    byId("next-title").textContent = title(ids, at);
    byId("temperature-label").textContent = Number(byId("temperature").value).toFixed(1);
    showBars(byId("bars"), this.chances(logits, at), off.size ? this.chances(before, at) : null, at === ids.length - 1 ? (id) => this.live.append(id) : null);
    if (byId("by-loss").getAttribute("aria-pressed") === "true") this.paintLosses();
    if (!second) return;
    const there = Math.min(at, secondIds.length - 1);
    byId("second-next-title").textContent = title(secondIds, there);
    showBars(byId("second-bars"), this.chances(second.logits, there), null, null, { count: 5 });
  }

  // The text in the colours of its losses, instead of the weights.
  paintLosses() {
    for (const [t, token] of (this.bench.strip.items.get("query") ?? []).entries()) {
      token.shownAs = null;
      token.style.color = "";
      token.style.background = t > 0 ? `color-mix(in srgb, var(--accent) ${Math.min(60, 12 * this.losses[t - 1]).toFixed(0)}%, transparent)` : "";
    }
  }

  // The probabilities with which the reader samples.
  chances(logits, t) {
    return probabilities(logits, t, Number(byId("temperature").value), Math.max(0, Math.floor(Number(byId("top-k").value)) || 0));
  }

  async sample(count) {
    for (let i = 0; i < count; ++i) {
      const { now } = this.live;
      if (!now) return;
      await this.live.append(drawToken(this.chances(now.logits, now.ids.length - 1)));
    }
  }

  // What the switches change, in words.
  effect() {
    const { off } = this.bench.state, { ids, logits, before } = this.live.now;
    if (this.live.matter) return "The number on a head is how much the loss of this text rises without it. Heads and MLPs are coloured each on a scale of their own.";
    if (off.size === 0) return "The switch on a head or an MLP takes it out of the model; the name of a row or a column, all of them. “Which matter?” tries each on this text.";
    const at = this.position, p = probabilities(logits, at), q = probabilities(before, at);
    const most = p.reduce((best, v, id) => (Math.abs(v - q[id]) > Math.abs(p[best] - q[best]) ? id : best), 0);
    const parts = [`“${shownId(most)}” as next token: ${percent(q[most])} → ${percent(p[most])}.`];
    if (ids.length > 1) parts.unshift(`Loss of this text: ${meanOf(losses(before, ids)).toFixed(3)} → ${meanOf(losses(logits, ids)).toFixed(3)}.`);
    return parts.join(" ") + " Heads say how much of their weight moved.";
  }
}
