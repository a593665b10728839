// A switch for each head and each MLP.
class PartSwitches {
  constructor(element, layers, toggle) {
    this.buttons = new Map(); // "layer.head" or "layer.mlp", as in the worker -> { button, name, moved, matter }
    const table = document.createElement("table");
    layers.forEach((name, layer) => {
      const row = table.insertRow(), title = document.createElement("th");
      title.scope = "row";
      title.append(allHeads(layer, name, toggle));
      row.append(title);
      for (let head = 0; head <= config.num_heads; ++head) {
        const part = `${layer}.${head === config.num_heads ? "mlp" : head}`;
        const button = document.createElement("button"), moved = document.createElement("span"), matter = document.createElement("span");
        button.type = "button";
        button.setAttribute("role", "switch");
        button.dataset.part = part;
        button.addEventListener("click", () => toggle([part]));
        button.append(head === config.num_heads ? "MLP" : `head ${head + 1}`, matter, moved);
        row.insertCell().append(button);
        this.buttons.set(part, { button, words: head === config.num_heads ? `MLP of ${name}` : `${name}, head ${head + 1}`, moved, matter });
      }
    });
    element.replaceChildren(table);
  }

  // What is off, and how much of its weight each head moved for that.
  show(off, movedBy) {
    for (const [part, { button, words, moved }] of this.buttons) {
      const [layer, head] = part.split("."), v = off.size ? movedBy[layer][head] ?? 0 : 0;
      button.setAttribute("aria-checked", !off.has(part));
      moved.textContent = off.has(part) ? "off" : v >= 0.005 ? `moved ${v.toFixed(2)}` : "";
      button.setAttribute("aria-label", [words, moved.textContent, this.buttons.get(part).matter.textContent].filter(Boolean).join(", "));
    }
  }

  // By how much the loss rises without each part, rows[layer][head, …, MLP]; null: not known.
  showMatter(rows) {
    // An MLP often matters much more: on one scale no head would stand out.
    const largest = (values) => Math.max(1e-9, ...values.map(Math.abs)), heads = config.num_heads;
    const most = rows && { head: largest(rows.flatMap((row) => row.slice(0, heads))), mlp: largest(rows.map((row) => row[heads])) };
    for (const [part, { button, matter }] of this.buttons) {
      const [layer, head] = part.split("."), v = rows?.[layer][head === "mlp" ? config.num_heads : head];
      matter.textContent = rows ? (v < 0 ? "−" : "+") + Math.abs(v).toFixed(3) : "";
      button.style.setProperty("--part", rows ? `color-mix(in srgb, var(${v < 0 ? "--link" : "--accent"}) ${((50 * Math.abs(v)) / most[head === "mlp" ? "mlp" : "head"]).toFixed(0)}%, var(--button))` : "");
      if (rows) button.dataset.value = v;
      else delete button.dataset.value;
    }
  }
}

// The button before a layer's switches, which turns all of its heads.
function allHeads(layer, name, toggle) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = name;
  button.title = `All heads of ${name} off, or on again`;
  button.addEventListener("click", () => toggle(Array.from({ length: config.num_heads }, (_, head) => `${layer}.${head}`)));
  return button;
}
