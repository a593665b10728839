// From a text to tokens, and from logits to probabilities.

// The ids of a text after the prefix, or those given. Throws an Error for the reader.
function idsOf(text, given = null) {
  const ids = given ?? vocabulary.encode(data.prefix + text);
  if (ids.length === 0) throw new Error("Type a text.");
  return ids;
}

// The tokens that the model reads: the last ones of a long text.
function read(ids) { return ids.slice(-config.context_length); }

// A token as it is shown: white space must be seen.
function shown(token) { return token.replaceAll("\n", "↵").replaceAll("\t", "⇥").replaceAll(" ", "␣"); }
const shownId = (id) => vocabulary.shown(id);

// The probabilities after position t, among the `top` most probable tokens (0: all).
function probabilities(logits, t, temperature = 1, top = 0) {
  const row = Array.from(logits.subarray(t * vocab, (t + 1) * vocab), (v) => v / temperature);
  const least = top > 0 && top < vocab ? [...row].sort((a, b) => b - a)[top - 1] : -Infinity;
  const largest = row.reduce((a, b) => Math.max(a, b)), e = row.map((v) => (v >= least ? Math.exp(v - largest) : 0));
  const sum = e.reduce((a, b) => a + b);
  return e.map((v) => v / sum);
}

// The loss of each token behind the first, in nats.
function losses(logits, ids) {
  return ids.slice(1).map((id, t) => {
    const row = logits.subarray(t * vocab, (t + 1) * vocab), largest = row.reduce((a, b) => Math.max(a, b));
    return largest + Math.log(row.reduce((sum, v) => sum + Math.exp(v - largest), 0)) - row[id];
  });
}

const meanOf = (list) => list.reduce((a, b) => a + b, 0) / Math.max(1, list.length);

// One token at random.
function drawToken(p) {
  let rest = Math.random();
  const id = p.findIndex((v) => (rest -= v) < 0);
  return id >= 0 ? id : p.indexOf(Math.max(...p));
}

// ---- the views of a text

// The tokens, coloured by their loss; `chosen` is a position, or -1.
function showTokens(element, ids, logits, chosen) {
  const loss = losses(logits, ids);
  element.replaceChildren(...ids.map((id, t) => {
    const span = document.createElement("span");
    span.textContent = shownId(id);
    span.id = `${element.id}-${t}`;
    span.dataset.at = t;
    span.dataset.id = id;
    span.setAttribute("role", "option");
    span.setAttribute("aria-selected", t === chosen);
    if (t > 0) {
      span.style.background = `color-mix(in srgb, var(--accent) ${Math.min(60, 12 * loss[t - 1]).toFixed(0)}%, transparent)`;
      span.title = `loss ${loss[t - 1].toFixed(2)}: the model gave it ${percent(Math.exp(-loss[t - 1]))}`;
    }
    return span;
  }));
  if (chosen >= 0) element.setAttribute("aria-activedescendant", `${element.id}-${chosen}`);
  return meanOf(loss);
}

// All with one decimal; only what is certain is 100 %.
const percent = (p) => (p > 0 && p < 0.0005 ? "< 0.1" : p < 1 && p >= 0.9995 ? "> 99.9" : (100 * p).toFixed(1)) + " %";

// The most probable tokens as bars. `before` are other probabilities, or null; `other` says which: a thin bar.
function showBars(list, p, before, choose, { count = 8, other = "with everything on" } = {}) {
  const order = [...p.keys()].sort((a, b) => p[b] - p[a]).slice(0, count).filter((id) => p[id] > 0);
  const top = Math.max(p[order[0]], ...order.map((id) => before?.[id] ?? 0));
  list.style.setProperty("--name", Math.min(16, Math.max(...order.map((id) => shownId(id).length))) + "ch");
  list.replaceChildren(...order.map((id) => {
    const item = document.createElement("li"), button = document.createElement("button"), name = document.createElement("b");
    const bars = document.createElement("span"), bar = document.createElement("i"), value = document.createElement("small");
    button.type = "button";
    button.dataset.value = p[id];
    button.disabled = !choose;
    button.style.opacity = 1;
    name.textContent = shownId(id);
    value.textContent = percent(p[id]);
    bar.style.width = (100 * p[id]) / top + "%";
    bars.append(bar);
    button.setAttribute("aria-label", `${shownId(id)}, ${percent(p[id])}` + (before ? `, ${percent(before[id])} ${other}` : ""));
    if (before) {
      const line = document.createElement("s");
      line.style.width = (100 * before[id]) / top + "%";
      bars.append(line);
      button.title = `${percent(before[id])} ${other}`;
    }
    if (choose) button.addEventListener("click", () => choose(id));
    button.append(name, bars, value);
    item.append(button);
    return item;
  }));
}
