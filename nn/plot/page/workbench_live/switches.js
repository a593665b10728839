// The switches on the heads and MLPs of the first text, and where a head of the second text may be dropped.
class Switches {
  constructor(live) {
    this.live = live;
    this.mlps = config.mlps;
    this.parts = new Map(); // "layer.head" or "layer.mlp", as in the worker -> { button, words }
  }

  // The switch of a head, beside its thumbnail.
  add(cell, layer, head, name) {
    cell.append(this.button(`${layer}.${head}`, `${name}, head ${head + 1}`));
    cell.addEventListener("dragover", (event) => this.live.dragged && event.preventDefault());
    cell.addEventListener("drop", (event) => this.live.drop(event));
  }

  mlpCell(layer, name) {
    const cell = document.createElement("div"), value = document.createElement("span"), part = `${layer}.mlp`;
    cell.className = "head-cell mlp";
    value.className = "value";
    cell.append(this.button(part, `MLP of ${name}`), value);
    return cell;
  }

  button(part, words) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "part";
    button.dataset.part = part;
    button.title = `${words}: off, or on again`;
    button.setAttribute("role", "switch");
    button.addEventListener("click", () => this.live.toggle([part]));
    this.parts.set(part, { button, words });
    return button;
  }

  toggleRow(layer) { this.live.toggle(Array.from({ length: config.num_heads }, (_, head) => `${layer}.${head}`)); }
  toggleColumn(head) { this.live.toggle(Array.from({ length: config.num_layers }, (_, layer) => `${layer}.${head}`)); }

  // What is written on a thumbnail: that the head is off, by how much the loss rises without it, or how much of its weight moved.
  effect(layer, head) {
    const { off } = this.live.bench.state, part = `${layer}.${head}`, { now, matter } = this.live;
    if (off.has(part)) return off.get(part) === "other" ? "from text 2" : "off";
    if (matter) return signedLoss(matter[layer][head]);
    const moved = off.size && now ? now.moved[layer][head] : 0;
    return moved >= 0.005 ? `moved ${moved.toFixed(2)}` : "";
  }

  draw() {
    const { matter } = this.live, { off } = this.live.bench.state, heads = config.num_heads;
    // An MLP often matters much more: on one scale no head would stand out. More than 44 % hides a number in the dark.
    const largest = (values) => Math.max(1e-9, ...values.map(Math.abs));
    const most = matter && { head: largest(matter.flatMap((row) => row.slice(0, heads))), mlp: largest(matter.map((row) => row[heads] ?? 0)) };
    for (const [part, { button, words }] of this.parts) {
      const [layer, head] = part.split("."), v = matter?.[layer][head === "mlp" ? heads : head], effect = off.get(part);
      button.setAttribute("aria-checked", effect === undefined);
      button.setAttribute("aria-label", [words, effect === "other" ? "from the second text" : effect ? "off" : "", matter ? signedLoss(v) : ""].filter(Boolean).join(", "));
      button.parentElement.classList.toggle("is-off", effect !== undefined);
      button.parentElement.style.setProperty("--part", matter ? `color-mix(in srgb, var(${v < 0 ? "--link" : "--accent"}) ${((44 * Math.abs(v)) / most[head === "mlp" ? "mlp" : "head"]).toFixed(0)}%, var(--button))` : "");
      if (matter) button.dataset.value = v;
      else delete button.dataset.value;
      if (head === "mlp") button.nextElementSibling.textContent = effect ? "off" : matter ? signedLoss(v) : "";
    }
  }
}

const signedLoss = (v) => (v >= 0.0005 ? "+" : "") + decimal(v, 3);
