// What the reader does, and what follows from it: set() changes the state, computes what it must, and draws.

const D = config.head_size, C = config.d_model, H = config.num_heads;
const state = { snapshot: data.snapshots.length - 1, text: data.samples[0], head: 0, query: 0, key: 0, held: false };
let now = null; // of the text: { ids, texts, run, without }
let sentence = null, time = null, guide = null, weightOf = null, drawn = 0;
let unmasked = null; // the query before a card chose one that others follow

const weightsOf = new Map(); // by snapshot
async function load(snapshot) {
  if (!weightsOf.has(snapshot)) weightsOf.set(snapshot, unpack(config, packedSnapshots()[snapshot]));
  return weightsOf.get(snapshot);
}

// ---- computing

function compute() {
  const ids = read(idsOf(state.text));
  now = { ids, texts: ids.map(shownId), run: forward(config, weightOf, ids), without: new Map() };
}

// The logits without a head.
function without(head) {
  if (!now.without.has(head)) now.without.set(head, forward(config, weightOf, now.ids, { edits: new Map([[`0.${head}`, "zero"]]) }).logits);
  return now.without.get(head);
}

// Vector `part` (0: query, 1: key, 2: value) of word t in the chosen head.
function vector(part, t) {
  const at = t * 3 * H * D + part * H * D + state.head * D;
  return Array.from(now.run.joints[0].subarray(at, at + D));
}

const weightRow = (query, head = state.head) => Array.from(now.run.weights[0][head].subarray(query * now.ids.length, (query + 1) * now.ids.length));

function guessOf(logits, t) {
  const p = probabilities(logits, t), best = p.reduce((b, v, id) => (v > p[b] ? id : b), 0);
  return { id: best, word: shownId(best), chance: p[best] };
}

// What the strips show, all computed from the vectors of the run.
function pair() {
  const { query, key, head } = state, { texts, run, ids } = now, T = ids.length, q = vector(0, query), weights = weightRow(query);
  const scores = texts.slice(0, query + 1).map((_, t) => vector(1, t).reduce((sum, v, d) => sum + v * q[d], 0) / Math.sqrt(D));
  const k = vector(1, key), at = query * H * D + head * D;
  const stages = ["word + place", "+ attention", "+ MLP"].map((name, i) => {
    const values = run.streams[i].subarray(query * C, (query + 1) * C);
    return { name, values, guess: guessOf(readOut(config, weightOf, values), 0) };
  });
  return {
    texts, query, key, q, k, scores, weights, stages, size: D, score: q.reduce((sum, v, d) => sum + v * k[d], 0),
    values: Array.from({ length: T }, (_, t) => vector(2, t)), z: Array.from(run.zs[0].subarray(at, at + D)), chooseKey: (t) => set({ key: t }),
  };
}

// ---- drawing

const strongest = (query, head = state.head) => weightRow(query, head).reduce((best, w, t, all) => (t <= query && w > all[best] ? t : best), 0);

function draw() {
  const { query, key } = state, { texts, run } = now, shown = pair(), guess = guessOf(run.logits, query);
  sentence.draw(shown.weights, query, key, guess);
  byId("says").replaceChildren(element("b", "query", `“${texts[query]}”`), " gives ", element("b", "", percent(shown.weights[key])),
    " of its attention to ", element("b", "key", `“${texts[key]}”`), query === key ? ", itself." : ".", " Next, the model says ", element("b", "", `“${guess.word}”`), ".");
  for (const [name, make] of Object.entries(strips)) byId(name).querySelector(".figure").replaceChildren(...make(shown));
  byId("prediction").querySelector(".at").textContent = texts[query];
  showBars(byId("prediction").querySelector(".bars"), probabilities(run.logits, query), probabilities(without(state.head), query), append, { count: 5, other: "without this head" });
  for (const mini of document.querySelectorAll(".mini")) drawMini(mini, texts, shown.weights, query, guess);
  for (const button of byId("heads").children) {
    const chosen = Number(button.dataset.head) === state.head;
    button.setAttribute("aria-checked", chosen);
    button.tabIndex = chosen ? 0 : -1;
  }
  byId("sentence").classList.toggle("held", state.held);
  guide.write();
  document.documentElement.dataset.computed = ++drawn; // for whoever steers the page from outside, such as its tests
}

// ---- changes

// Changes the state. A new text or snapshot is computed; a new query or head chooses its strongest key. `seek` chooses
// the most telling head.
async function set({ seek = false, ...changes }) {
  const snapshot = changes.snapshot ?? state.snapshot, before = weightOf;
  if (snapshot !== state.snapshot || !weightOf) weightOf = await load(snapshot);
  Object.assign(state, changes);
  if (changes.text !== undefined || weightOf !== before) {
    try {
      compute();
      byId("problem").textContent = "";
      document.documentElement.classList.remove("stale");
    } catch (error) {
      byId("problem").textContent = error.message;
      document.documentElement.classList.add("stale"); // what is shown belongs to another text
      return;
    }
    if (changes.text !== undefined) {
      state.query = now.ids.length - 1;
      state.held = false;
      sentence.setWords(now.texts);
      time.forget();
    }
  }
  if (seek) state.head = telling(state.query);
  if (changes.key === undefined && ["text", "query", "head", "snapshot"].some((name) => changes[name] !== undefined)) state.key = strongest(state.query);
  draw();
}

// The head without which the model would be least sure of its guess.
function telling(query) {
  const { id } = guessOf(now.run.logits, query), left = Array.from({ length: H }, (_, head) => probabilities(without(head), query)[id]);
  return left.indexOf(Math.min(...left));
}

function append(id) {
  byId("text").value = vocabulary.decode([...now.ids, id]);
  return set({ text: byId("text").value });
}

// What a card asks for: "first", the first sentence; "mask", a word that others follow, until the next card.
function act({ act: wanted }) {
  if (wanted === "first" && state.text !== data.samples[0]) set({ text: (byId("text").value = data.samples[0]), seek: true });
  if (wanted === "mask" && unmasked === null) (unmasked = state.query), set({ query: Math.floor((now.ids.length - 1) / 2) });
  else if (wanted !== "mask" && unmasked !== null) set({ query: Math.min(unmasked, now.ids.length - 1) }), (unmasked = null);
}

function onWordsKey(event) {
  const { query, key } = state, last = now.ids.length - 1;
  const changes = {
    ArrowLeft: { query: Math.max(0, query - 1) }, ArrowRight: { query: Math.min(last, query + 1) }, Home: { query: 0 }, End: { query: last },
    ArrowUp: { key: Math.max(0, key - 1) }, ArrowDown: { key: Math.min(query, key + 1) }, Enter: { held: !state.held }, Escape: { held: false },
  }[event.key];
  if (!changes) return;
  event.preventDefault();
  set(changes);
}

function addHeads() {
  byId("heads").append(...Array.from({ length: H }, (_, head) => {
    const button = element("button", "", `Head ${head + 1}`, ...(data.heads[head] ? [element("small", "", data.heads[head])] : []));
    button.type = "button";
    button.dataset.head = head;
    button.setAttribute("role", "radio");
    button.addEventListener("click", () => set({ head }));
    return button;
  }));
  byId("heads").addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    set({ head: (state.head + by + H) % H });
    byId("heads").children[state.head].focus();
  });
}

function listen() {
  byId("words").addEventListener("keydown", onWordsKey);
  byId("sample").addEventListener("change", () => { byId("text").value = data.samples[byId("sample").value]; set({ text: byId("text").value, seek: true }); });
  byId("text").addEventListener("input", () => set({ text: byId("text").value }));
  data.samples.forEach((text, i) => byId("sample").add(new Option(`${text} …`, i)));
  byId("known").append(...data.words.map((word, id) => {
    const button = element("button", "", word);
    button.type = "button";
    button.addEventListener("click", () => (byId("text").value.trim() ? append(id) : set({ text: (byId("text").value = word) })));
    return button;
  }));
  document.addEventListener("theme", () => now && (sentence.place(), draw()));
}

// Compares every number of C++ with the page's.
async function compare() {
  const { ids, last, logits } = data.truth;
  let worst = 0, count = 0;
  const check = (own, theirs) => theirs.forEach((v, i) => {
    const difference = Math.abs(own[i] - v);
    worst = difference >= 0 ? Math.max(worst, difference) : Infinity;
    ++count;
  });
  const run = forward(config, await load(data.snapshots.length - 1), ids), T = ids.length;
  check(run.joints[0], last.joint);
  run.weights[0].forEach((w, head) => check(w, last.weights.slice(head * T * T, (head + 1) * T * T)));
  check(run.zs[0], last.z);
  check(run.mlps[0], last.mlp);
  last.streams.forEach((stream, i) => check(run.streams[i], stream));
  check(run.logits, last.logits);
  for (const [snapshot, theirs] of (logits ?? []).entries()) check(forward(config, await load(snapshot), ids).logits, theirs);
  const badge = byId("badge"), good = worst <= 1e-5;
  badge.dataset.difference = worst;
  badge.className = good ? "good" : "bad";
  badge.textContent = good ? `${count.toLocaleString("en")} numbers agree with C++ to ${worst.toExponential(0)}` : `its numbers differ from C++'s by ${worst.toPrecision(2)}`;
}

document.addEventListener("DOMContentLoaded", async () => {
  followTheme();
  for (const root of document.querySelectorAll(".root")) root.textContent = `√${D} = ${Math.sqrt(D).toFixed(2)}`;
  sentence = new SentenceView(byId("words"), byId("arcs"), {
    point: (query) => !state.held && query !== state.query && set({ query }),
    choose: (query) => set({ query, held: !(state.held && query === state.query) }),
  });
  guide = new Guide({
    enter: act,
    fill: (text) => text.replace(/\{(\w+)\}/g, (_, name) => ({
      query: now.texts[state.query], key: now.texts[state.key], weight: percent(weightRow(state.query)[state.key]), guess: guessOf(now.run.logits, state.query).word,
    })[name]),
  });
  time = new TimeBar(data.snapshots.map(({ step }) => step), (snapshot) => { time.show(snapshot); return set({ snapshot }); },
    async (snapshot) => (now.ids.length < 2 ? null : meanLoss(forward(config, await load(snapshot), now.ids).logits, now.ids, vocab)));
  addHeads();
  listen();
  time.show(state.snapshot);
  byId("text").value = state.text;
  await set({ text: state.text, seek: true });
  guide.light(true);
  byId("cards").append(...guide.list());
  performance.mark("ready");
  document.documentElement.dataset.ready = "true";
  await compare();
  document.documentElement.dataset.checked = "true";
});
