// What stands beside the picture: the head's measures, and in words what the pointer is at.

const MOST_WEIGHTS = 8;

function showMeasures(list, head) {
  list.replaceChildren();
  MEASURES.forEach((measure, i) => {
    const name = document.createElement("dt"), value = document.createElement("dd");
    name.append(term(measure.name, measure.about));
    value.textContent = measureText(measure, head.measures[i]);
    list.append(name, value);
  });
}

// The largest of some weights, with their names, as bars.
function showWeights(root, part, title, weights, why) {
  root.querySelector(`.${part}-title`).textContent = title;
  const list = root.querySelector(`.${part}-list`);
  list.replaceChildren();
  weights.sort((a, b) => b.value - a.value);
  const top = weights.length ? weights[0].value : 0;
  for (const { token, at, value } of weights.slice(0, MOST_WEIGHTS)) {
    if (value === 0) break;
    const item = document.createElement("li");
    const name = document.createElement("bdi"), bar = document.createElement("i"), number = document.createElement("span");
    // In a long text a name alone does not say which of its tokens is meant.
    const place = document.createElement("small");
    place.textContent = weights.length > 16 && token !== String(at) ? " " + at : "";
    name.append(label(token, 40), place);
    name.title = token;
    bar.style.width = (100 * value) / top + "%";
    number.textContent = weightText(value);
    item.append(name, bar, number);
    list.append(item);
  }
  if (!list.children.length) {
    const item = document.createElement("li");
    item.textContent = why;
    list.append(item);
  }
}

function quoted(token) { return "“" + label(token, 40) + "”"; }

function showDetails(root, head, cell) {
  const query = root.querySelector(".query-part"), key = root.querySelector(".key-part");
  query.hidden = cell === null || cell.q === null;
  key.hidden = cell === null || cell.k === null;
  root.querySelector(".invitation").hidden = cell !== null;
  if (cell === null) return;
  if (cell.q !== null) {
    const weights = Array.from({ length: head.cols }, (_, k) => ({ token: head.keys[k], at: k, value: head.finite(cell.q) && !head.reason(cell.q, k) ? head.value(cell.q, k) : 0 }));
    showWeights(root, "query", `${quoted(head.queries[cell.q])} looks at`, weights, head.finite(cell.q) ? "nothing: every key is hidden" : "its weights are not finite");
  }
  if (cell.k !== null) {
    const weights = Array.from({ length: head.rows }, (_, q) => ({ token: head.queries[q], at: q, value: head.finite(q) && !head.reason(q, cell.k) ? head.value(q, cell.k) : 0 }));
    showWeights(root, "key", `${quoted(head.keys[cell.k])} is looked at by`, weights, "nobody");
  }
}

// A sentence for the tip and for screen readers. Of several heads, each says its weight.
function sentence(heads, cell) {
  const head = heads[0];
  if (cell.q === null) return `key ${quoted(head.keys[cell.k])}`;
  if (cell.k === null) return `query ${quoted(head.queries[cell.q])}` + (head.blind(cell.q) ? ": sees nothing" : "");
  const weights = heads.map((one) => (sameShape(head, one) ? one.describe(cell.q, cell.k) : "–"));
  return `${quoted(head.queries[cell.q])} → ${quoted(head.keys[cell.k])}: ${weights.join(" | ")}`;
}

// What of the marks is there in this head, with a patch of how it looks.
function showLegend(list, head) {
  list.replaceChildren();
  const there = new Set();
  if (head.hidden) for (const reason of head.hidden) there.add(reason);
  const names = { 1: "comes later (causal)", 2: "padding", 3: "masked", 4: "outside the window" };
  const patches = [...there].filter((reason) => reason !== 0).sort().map((reason) => [reason, theme.hidden, names[reason]]);
  let blind = false, strange = false;
  for (let q = 0; q < head.rows; ++q) {
    blind = blind || head.blind(q);
    strange = strange || !head.finite(q);
  }
  if (blind) patches.push(["blind", theme.blind, "query that sees nothing"]);
  if (strange) patches.push(["blind", theme.blind, "weights that are not finite"]);
  for (const [kind, color, name] of patches) {
    const item = document.createElement("li"), patch = newCanvas(36, 24);
    patch.style.width = "18px";
    patch.style.height = "12px";
    const context = patch.getContext("2d");
    context.scale(2, 2);
    const painter = new CanvasPainter(context);
    painter.rect(0, 0, 18, 12, color);
    painter.hatch(0, 0, 18, 12, kind, theme.hatch);
    item.append(patch, name);
    list.append(item);
  }
}

function showNotes(list, notes) {
  list.replaceChildren();
  for (const note of notes) {
    const item = document.createElement("li");
    item.textContent = note;
    list.append(item);
  }
}
