// The page: what is chosen, and what follows from it. Every change goes through set(), which redraws what it must.

const byId = (id) => document.getElementById(id);

const page = {
  state: {
    layer: 0, head: 0, frame: data.frames.length - 1,
    view: "matrix", scale: "head", palette: "auto",
    sort: null, descending: true,
    cell: null, // { q, k }, of which one may be null
    held: false, // a click holds the cell
  },
  heads: [], // of the step, by layer
  head: null, view: null, layout: null, marks: null, list: null, playing: false,
};

function announce(text) { byId("status").textContent = text; }

// ---- drawing

function fit(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return new CanvasPainter(context);
}

function drawView() {
  const { state } = page;
  page.head = page.heads[state.layer]?.[state.head] ?? null;
  page.view = state.view === "matrix" ? matrixView : linesView;
  byId("head-name").textContent = headName(state, page.head);
  const stage = byId("stage");
  if (!page.head) {
    byId("head-name").textContent += " · not recorded at this step";
    page.layout = null;
    state.cell = null;
    state.held = false;
    fit(byId("picture"), 300, 150);
    fit(byId("marks"), 300, 150);
    showNotes([]);
    byId("legend").replaceChildren();
    byId("measures").replaceChildren();
    byId("tip").hidden = true;
    return;
  }
  if (state.cell && !((state.cell.q ?? 0) < page.head.rows && (state.cell.k ?? 0) < page.head.cols)) {
    state.cell = null;
    state.held = false;
  }
  const room = { width: Math.max(260, stage.clientWidth), height: Math.max(360, Math.min(window.innerHeight - 230, 900)) };
  page.layout = page.view.layout(page.head, room, state);
  const { width, height } = page.layout;
  const note = page.view.paint(fit(byId("picture"), width, height), page.layout, state);
  page.marks = fit(byId("marks"), width, height);
  stage.setAttribute("aria-label", `${headName(state, page.head)}: ${state.view} of ${page.head.rows} queries and ${page.head.cols} keys`);
  // For whoever steers the page from outside, such as its tests: where the weights are.
  const { left, top, cw, ch } = page.layout;
  Object.assign(stage.dataset, { view: state.view, left, top, cellWidth: cw ?? "", cellHeight: ch ?? "" });
  showLegend(page.head);
  showNotes([...(page.head.entry.notes ?? []), ...(note ? [note] : [])]);
  showMeasures(page.head);
  drawMarks();
}

// What follows the pointer: the picture itself stays as it is.
function drawMarks() {
  const { state, layout, head, marks } = page;
  if (!layout) return;
  marks.context.clearRect(0, 0, layout.width, layout.height);
  byId("picture").classList.toggle("dim", state.view === "lines" && state.cell !== null);
  const tip = byId("tip");
  tip.hidden = state.cell === null;
  showDetails(head, state.cell);
  if (state.cell === null) return;
  page.view.paintMarks(marks, layout, state.cell);
  tip.textContent = sentence(head, state.cell);
  const at = page.view.place(layout, state.cell);
  // Beyond the middle it stands on the other side: nothing has to be measured for that, which would take a layout.
  const toLeft = at.x > layout.width / 2 ? "-100%" : "0px", up = at.y > layout.height / 2 ? "-100%" : "0px";
  tip.style.transform = `translate(${at.x + (toLeft === "0px" ? 10 : -10)}px, ${at.y + (up === "0px" ? 10 : -10)}px) translate(${toLeft}, ${up})`;
}

function drawAll() {
  page.list.draw(page.state, page.heads);
  drawView();
}

// ---- changes

let latest = 0;

async function set(changes) {
  const { state } = page;
  const before = { ...state };
  Object.assign(state, changes);
  if (state.frame !== before.frame || page.heads.length === 0) {
    // What was asked for last is shown, whatever is unpacked first.
    const mine = ++latest;
    showFrame();
    const heads = await Promise.all(data.layers.map((_, layer) => headsOf(layer, state.frame)));
    if (mine !== latest) return;
    page.heads = heads;
    drawAll();
    return;
  }
  const differs = (...names) => names.some((name) => state[name] !== before[name]);
  if (differs("scale", "palette", "sort", "descending")) drawAll();
  else if (differs("layer", "head", "view")) {
    page.list.select(state);
    drawView();
  } else drawMarks();
}

function showFrame() {
  const { state } = page;
  byId("frame").value = state.frame;
  const text = frameText(state.frame);
  byId("frame").setAttribute("aria-valuetext", text);
  byId("frame-label").textContent = `${text} (${state.frame + 1} of ${data.frames.length})`;
}

function chooseHead(layer, head) {
  set({ layer, head });
  announce(headName(page.state, page.head));
}

function moveHead(by) {
  const order = page.list.order(page.state);
  const at = order.findIndex(([layer, head]) => layer === page.state.layer && head === page.state.head);
  chooseHead(...order[(at + by + order.length) % order.length]);
}

function moveFrame(by) {
  const frame = Math.max(0, Math.min(data.frames.length - 1, page.state.frame + by));
  if (frame !== page.state.frame) set({ frame });
}

function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  byId("theme").textContent = dark ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", dark ? "Light colours" : "Dark colours");
  readTheme();
  if (page.heads.length) drawAll();
}

function setView(view) {
  byId("as-matrix").setAttribute("aria-checked", view === "matrix");
  byId("as-lines").setAttribute("aria-checked", view === "lines");
  set({ view });
}

// ---- what the user does

function onPoint(event) {
  const { state, layout } = page;
  if (!layout || state.held) return;
  const box = byId("marks").getBoundingClientRect();
  const cell = page.view.hit(layout, event.clientX - box.left, event.clientY - box.top);
  if (cell?.q === state.cell?.q && cell?.k === state.cell?.k) return;
  set({ cell });
}

function onClick(event) {
  const { state } = page;
  const held = state.held;
  state.held = false;
  onPoint(event);
  set({ held: !held && state.cell !== null });
}

function onStageKey(event) {
  const { state, head } = page;
  if (!head) return;
  const { q, k } = state.cell ?? { q: null, k: null };
  const lines = state.view === "lines";
  const moved = {
    ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -Infinity], End: [0, Infinity],
  }[event.key];
  if (event.key === "Escape") set({ cell: null, held: false });
  else if (event.key === "Enter") set({ held: !state.held && state.cell !== null });
  else if (moved) {
    const clamp = (v, n) => Math.max(0, Math.min(n - 1, v));
    let cell;
    if (lines) {
      // One end of the lines has the names: left and right change sides.
      const onKeys = moved[1] !== 0 ? moved[1] > 0 : q === null && k !== null;
      const at = clamp((q ?? k ?? 0) + moved[0], onKeys ? head.cols : head.rows);
      cell = onKeys ? { q: null, k: at } : { q: at, k: null };
    } else {
      cell = state.cell ? { q: clamp((q ?? 0) + moved[0], head.rows), k: clamp((k ?? 0) + moved[1], head.cols) } : { q: 0, k: 0 };
    }
    set({ cell });
    announce(sentence(head, cell));
  } else return;
  event.preventDefault();
  event.stopPropagation();
}

function onKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("select, input, dialog")) return;
  const act = {
    n: () => moveHead(1), p: () => moveHead(-1), ",": () => moveFrame(-1), ".": () => moveFrame(1),
    v: () => setView(page.state.view === "matrix" ? "lines" : "matrix"),
    d: () => setTheme(!theme.dark), "?": () => byId("help").showModal(),
    Escape: () => set({ cell: null, held: false }),
  }[event.key];
  if (act) act();
}

// Plays from here to the end, or from the beginning if this is the end.
async function play() {
  const button = byId("play");
  page.playing = !page.playing;
  button.textContent = page.playing ? "❚❚" : "▶";
  button.setAttribute("aria-label", page.playing ? "Pause" : "Play the training");
  if (!page.playing) return;
  if (page.state.frame === data.frames.length - 1) await set({ frame: 0 });
  while (page.playing && page.state.frame < data.frames.length - 1) {
    const pause = new Promise((resolve) => setTimeout(resolve, 350));
    await Promise.all([set({ frame: page.state.frame + 1 }), pause]);
  }
  if (page.playing) play();
}

function subtitle() {
  const heads = data.layers.map((_, layer) => HeadList.count(layer));
  const count = (n, word) => n + " " + word + (n === 1 ? "" : "s");
  const all = heads.reduce((a, b) => a + b, 0);
  const longest = data.entries.reduce((most, entry) => Math.max(most, data.tokens[entry.keys].length), 0);
  return [count(data.layers.length, "layer"), count(all, "head"), `up to ${count(longest, "token")}`,
    ...(data.frames.length > 1 ? [`${frameText(0).toLowerCase()} to ${frameText(data.frames.length - 1).toLowerCase()}`] : [])].join(" · ");
}

document.addEventListener("DOMContentLoaded", async () => {
  byId("title").textContent = data.title;
  byId("subtitle").textContent = subtitle();
  byId("time").hidden = data.frames.length < 2;
  byId("frame").max = data.frames.length - 1;
  const sort = byId("sort");
  ["the model's order", ...MEASURES.map((measure) => measure.name.toLowerCase())].forEach((name, i) => sort.add(new Option(name, i - 1)));

  page.list = new HeadList(byId("list"), chooseHead);
  sort.addEventListener("change", () => {
    byId("direction").disabled = Number(sort.value) < 0;
    set({ sort: Number(sort.value) < 0 ? null : Number(sort.value) });
  });
  byId("direction").addEventListener("click", () => {
    byId("direction").textContent = page.state.descending ? "↑" : "↓";
    set({ descending: !page.state.descending });
  });
  byId("scale").addEventListener("change", (event) => set({ scale: event.target.value }));
  byId("palette").addEventListener("change", (event) => set({ palette: event.target.value }));
  byId("as-matrix").addEventListener("click", () => setView("matrix"));
  byId("as-lines").addEventListener("click", () => setView("lines"));
  byId("theme").addEventListener("click", () => setTheme(!theme.dark));
  byId("help-button").addEventListener("click", () => byId("help").showModal());
  byId("save-svg").addEventListener("click", () => page.head && save(exportSvg(), "svg"));
  byId("save-png").addEventListener("click", async () => page.head && save(await exportPng(), "png"));
  byId("frame").addEventListener("input", (event) => set({ frame: Number(event.target.value) }));
  byId("play").addEventListener("click", play);

  const stage = byId("stage"), marks = byId("marks");
  marks.addEventListener("pointermove", onPoint);
  marks.addEventListener("pointerdown", onPoint);
  marks.addEventListener("pointerleave", () => page.state.held || set({ cell: null }));
  marks.addEventListener("click", onClick);
  stage.addEventListener("keydown", onStageKey);
  document.addEventListener("keydown", onKey);
  let resizing = 0;
  window.addEventListener("resize", () => {
    cancelAnimationFrame(resizing);
    resizing = requestAnimationFrame(() => page.heads.length && drawAll());
  });

  const preferred = window.matchMedia("(prefers-color-scheme: dark)");
  preferred.addEventListener("change", (event) => setTheme(event.matches));
  setTheme(preferred.matches);
  await set({});
  performance.mark("ready");
  document.documentElement.dataset.ready = "true";
});
