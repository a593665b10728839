// What the reader does, and what follows from it. Every change ends in compute(), which draws what came out.

const state = {
  snapshot: data.snapshots.length - 1,
  text: data.samples[0], second: "",
  ids: null, // of the text if its last tokens were sampled: these may end within a character
  position: null, // the token whose successor is shown; null: the last one
  off: new Set(),
  how: "mean",
};
let now = null; // of the text: { ids, all, secondIds, logits, before, second, moved }
let source = null, view = null, switches = null, time = null;

// ---- computing

let wanted = false, computing = null, computed = 0;

// Ends when what is wanted then is shown. What was wanted in between may be left out.
function compute() {
  wanted = true;
  computing ??= (async () => {
    try {
      while (wanted) {
        wanted = false;
        await computeOnce();
      }
    } finally {
      computing = null;
    }
  })();
  return computing;
}

function complain(problem) { byId("problem").textContent = problem; }

async function computeOnce() {
  let all, ids, secondIds = null;
  try {
    all = idsOf(state.text, state.ids);
    ids = read(all);
    complain(ids.length < all.length ? `The model reads the last ${ids.length} of ${all.length} tokens.` : "");
    document.documentElement.classList.remove("stale");
  } catch (error) {
    complain(error.message);
    document.documentElement.classList.add("stale"); // what is shown belongs to another text
    now = null;
    return;
  }
  try {
    if (state.second) secondIds = read(idsOf(state.second));
    byId("second-note").textContent = !secondIds
      ? "Type a text to compare with. If it has as many tokens as the first one, a part of the model can take its value from there."
      : secondIds.length === ids.length
        ? "As many tokens as the first text: parts that are off may take their value from here."
        : `${secondIds.length} tokens; the first text has ${ids.length}. Parts can take their value from here if there are as many.`;
  } catch (error) {
    byId("second-note").textContent = error.message;
  }
  const fits = secondIds?.length === ids.length;
  byId("how").querySelector('[value="other"]').disabled = !fits;
  if (!fits && state.how === "other") byId("how").value = state.how = "mean";
  const { snapshot, off, how } = state;
  const result = await ask("run", { snapshot, ids, off, how, second: secondIds });
  now = { ids, all, secondIds, ...result };
  if (state.position !== null && state.position >= ids.length) state.position = null;
  source.take(ids, result);
  drawAll();
  await (view.head === null ? view.show() : view.refresh());
  document.documentElement.dataset.computed = ++computed; // for whoever steers the page from outside, such as its tests
}

// ---- drawing

const positionOf = () => state.position ?? now.ids.length - 1;

function drawAll() {
  drawText();
  switches.show(state.off, now.moved);
  byId("all-on").disabled = state.off.size === 0;
  byId("effect").textContent = effect();
}

function drawText() {
  const { ids, secondIds, logits, before, second } = now, at = positionOf();
  const loss = showTokens(byId("tokens"), ids, logits, at);
  byId("loss").textContent = ids.length > 1 ? `Mean loss ${loss.toFixed(3)} nats a token: the stronger the colour of a token, the less the model expected it.` : "";
  byId("next-title").textContent = `Next token after “${shownId(ids[at])}” (${at + 1} of ${ids.length})`;
  byId("temperature-label").textContent = Number(byId("temperature").value).toFixed(1);
  showBars(byId("bars"), chances(logits, at), state.off.size ? chances(before, at) : null, at === ids.length - 1 ? append : null);
  byId("second-next-title").hidden = byId("second-bars").hidden = byId("second-tokens").hidden = !second;
  if (!second) return;
  const there = Math.min(at, secondIds.length - 1);
  showTokens(byId("second-tokens"), secondIds, second, there);
  byId("second-next-title").textContent = `Next token after “${shownId(secondIds[there])}” (${there + 1} of ${secondIds.length})`;
  showBars(byId("second-bars"), chances(second, there), null, null);
}

// The probabilities with which the reader samples.
function chances(logits, t) {
  return probabilities(logits, t, Number(byId("temperature").value), Math.max(0, Math.floor(Number(byId("top-k").value)) || 0));
}

// What the switches change, in words.
function effect() {
  if (state.off.size === 0) return "A switch takes a head or an MLP out of the model. “Which matter?” tries them all on this text.";
  const { ids, logits, before } = now, at = positionOf(), p = probabilities(logits, at), q = probabilities(before, at);
  const most = p.reduce((best, v, id) => (Math.abs(v - q[id]) > Math.abs(p[best] - q[best]) ? id : best), 0);
  const parts = [`“${shownId(most)}” as next token: ${percent(q[most])} → ${percent(p[most])}.`];
  if (ids.length > 1) parts.unshift(`Loss of this text: ${meanOf(losses(before, ids)).toFixed(3)} → ${meanOf(losses(logits, ids)).toFixed(3)}.`);
  return parts.join(" ") + " Heads say how much of their weight moved.";
}

// ---- changes

// The answers to earlier questions, which a change makes old.
function forget() {
  switches.showMatter(null);
  time.forget();
}

function setText(text, ids = null) {
  state.text = text;
  state.ids = ids;
  state.position = null;
  if (byId("text").value !== text) byId("text").value = text;
  forget();
  return compute();
}

function append(id) {
  const ids = [...now.all, id]; // the model reads the last ones
  return setText(vocabulary.decode(ids).slice(data.prefix.length), ids);
}

async function sample(count) {
  for (let i = 0; i < count; ++i) {
    if (!now) return;
    await append(drawToken(chances(now.logits, now.ids.length - 1)));
  }
}

async function matter() {
  const button = byId("matter"), { snapshot, how } = state, { ids, secondIds } = now;
  button.disabled = true;
  const rows = await ask("matter", { snapshot, ids, how, second: how === "other" ? secondIds : null });
  button.disabled = false;
  if (snapshot !== state.snapshot || how !== state.how || String(ids) !== String(now.ids)) return;
  switches.showMatter(rows);
  switches.show(state.off, now.moved);
  byId("effect").textContent = "The number on a switch is how much the loss of this text rises without that part. Heads and MLPs are coloured each on a scale of their own.";
}

function movePosition(to) {
  state.position = Math.max(0, Math.min(now.ids.length - 1, to));
  drawAll();
}

// Turns parts off, or on again if all of them are off.
function toggle(parts) {
  const on = parts.every((part) => state.off.has(part));
  for (const part of parts) if (on) state.off.delete(part);
    else state.off.add(part);
  return compute();
}

function setSnapshot(i) {
  state.snapshot = i;
  time.show(i);
  switches.showMatter(null);
  return compute();
}

// Compares with the logits that C++ computed from the same weights. They may differ by a few roundings.
async function compare() {
  let worst = 0, largest = 1, other = null;
  for (const { ids, logits, text } of data.checks) {
    if (String(idsOf(text).slice(0, ids.length)) !== String(ids)) other = text;
    const run = await ask("run", { snapshot: data.snapshots.length - 1, ids, off: new Set(), how: "zero", second: null });
    logits.forEach((v, i) => {
      const difference = Math.abs(v - run.logits[i]);
      worst = difference >= 0 ? Math.max(worst, difference) : Infinity;
      largest = Math.max(largest, Math.abs(v));
    });
  }
  const badge = byId("badge"), good = worst <= 1e-5 * largest + 1e-5 && other === null;
  badge.dataset.difference = worst;
  badge.className = good ? "good" : "bad";
  badge.textContent = good ? `agrees with C++ to ${worst.toExponential(0)}`
    : other !== null ? `it reads “${other}” in other tokens than C++` : `its logits differ from C++'s by ${worst.toPrecision(2)}`;
  badge.title = config.float32 ? "" : `Both compute with the weights of this page, float16. They move a logit by up to ${data.rounding.toPrecision(1)}.`;
}

function listen() {
  const on = (id, event, act) => byId(id).addEventListener(event, act);
  on("text", "input", () => setText(byId("text").value));
  on("second", "input", () => { state.second = byId("second").value; compute(); });
  on("sample", "change", () => setText(data.samples[Number(byId("sample").value)]));
  for (const id of ["temperature", "top-k"]) on(id, "input", () => now && drawText());
  on("sample-one", "click", () => sample(1));
  on("sample-many", "click", () => sample(20));
  on("how", "change", () => { state.how = byId("how").value; switches.showMatter(null); compute(); });
  on("all-on", "click", () => { state.off.clear(); compute(); });
  on("matter", "click", () => now && matter());
  on("tokens", "click", (event) => { if (now && event.target.dataset.at) movePosition(Number(event.target.dataset.at)); });
  on("tokens", "keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (!by || !now) return;
    event.preventDefault();
    movePosition(positionOf() + by);
  });
}

document.addEventListener("DOMContentLoaded", async () => {
  const { num_layers, num_heads, d_model, positions } = config, count = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
  byId("subtitle").textContent = [count(config.parameters, "parameter"), `${count(num_layers, "layer")} of ${count(num_heads, "head")}`,
    `${d_model} features`, `positions: ${positions}`, "the model runs in this page"].join(" · ");
  data.samples.forEach((text, i) => byId("sample").add(new Option(shown(text.slice(0, 40)) || "(empty)", i)));
  followTheme();
  source = new LiveSource();
  view = new HeadsView(document.querySelector(".heads-view"), { source });
  switches = new PartSwitches(byId("parts"), shortNames(source.layers), toggle);
  time = new TimeBar(data.snapshots.map(({ step }) => step), setSnapshot, (snapshot) => ask("loss", { snapshot, ids: now.ids }));
  listen();
  await startWorker();
  time.show(state.snapshot);
  await setText(state.text);
  performance.mark("ready");
  document.documentElement.dataset.ready = "true";
  await compare();
  document.documentElement.dataset.checked = "true";
});
