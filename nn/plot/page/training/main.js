const CHARTS = [
  { title: "Loss", wide: true, curves: [{ name: "loss", label: "training", color: "first" }, { name: "validation", label: "validation", color: "second" }] },
  { title: "Learning rate", curves: [{ name: "lr", label: "rate", color: "first" }] },
  { title: "Gradient norm", curves: [{ name: "grad_norm", label: "norm", color: "first" }] },
];
const charts = new Map();
let shown = null, headsShown = 0;

function duration(seconds) {
  const s = Math.round(seconds), two = (n) => String(n).padStart(2, "0");
  return s < 3600 ? `${Math.floor(s / 60)}:${two(s % 60)}` : `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
}

// Tokens or steps a second, over the last ten samples: one alone says little.
function speed(rate) {
  const last = rate.y.slice(-10).sort((a, b) => a - b);
  return last[Math.floor(last.length / 2)];
}

function showStatus(data) {
  const state = data.state;
  document.documentElement.classList.remove("running", "done", "stopped");
  document.documentElement.classList.add(state);
  const step = `step <b>${data.step.toLocaleString("en")}</b>` + (data.steps ? ` of ${data.steps.toLocaleString("en")}` : "");
  const parts = state === "stopped" ? ["stopped at " + step] : [state, step];
  const last = (name) => data.series[name]?.y.at(-1);
  if (last("loss") !== undefined) parts.push(`loss <b>${short(last("loss"))}</b>`);
  if (last("validation") !== undefined) parts.push(`validation <b>${short(last("validation"))}</b>`);
  if (last("rate") !== undefined) parts.push(`${short(speed(data.series.rate))} ${data.rate.toLowerCase()}`);
  parts.push({ running: duration(data.seconds) + " so far", done: "in " + duration(data.seconds), stopped: "after " + duration(data.seconds) }[state]);
  const done = data.step - data.first;
  if (data.state === "running" && data.steps && done > 0) parts.push(duration(data.seconds / done * (data.steps - data.step)) + " left");
  const silent = Date.now() / 1000 - data.written;
  if (data.state === "running" && silent > 30) parts.push(`<b>no news for ${duration(silent)}: it may have been killed</b>`);
  document.getElementById("status").innerHTML = '<span class="dot"></span>' + parts.join(" · ");
  const progress = document.getElementById("progress"), share = data.steps ? Math.min(100, 100 * data.step / data.steps) : 0;
  progress.hidden = !data.steps;
  progress.setAttribute("aria-valuenow", Math.round(share));
  progress.firstElementChild.style.width = share + "%";
  document.title = (data.state === "running" && data.steps ? `${Math.floor(share)} % · ` : "") + data.title;
}

function showHeads(data) {
  const section = document.getElementById("heads"), frame = section.querySelector("iframe"), newer = document.getElementById("newer");
  if (!data.heads) return;
  section.hidden = false;
  if (frame.hasAttribute("srcdoc")) return; // a finished page contains them
  const load = () => {
    frame.src = document.body.dataset.heads + "?" + data.heads;
    headsShown = data.heads;
    newer.hidden = true;
  };
  newer.onclick = load;
  // whoever looks at a head is not disturbed
  if (headsShown === 0 || (headsShown !== data.heads && !section.matches(":hover"))) load();
  else newer.hidden = headsShown === data.heads;
}

function setSmoothing(percent) {
  view.smoothing = percent;
  document.getElementById("smoothing").value = percent;
  document.getElementById("smoothing-label").textContent = percent ? percent + " % of the steps" : "off";
  charts.forEach((chart) => chart.draw());
}

// Called by the file of numbers.
function show(data) {
  if (shown === null) setSmoothing(Math.max(0, ...Object.values(data.series).map(({ y }) => y.length)) >= 200 ? 3 : 0);
  shown = data;
  document.getElementById("title").textContent = data.title;
  showStatus(data);
  const known = new Set(CHARTS.flatMap((chart) => chart.curves.map((curve) => curve.name)));
  const others = Object.keys(data.series).filter((name) => !known.has(name)).map((name) => ({
    title: name === "rate" ? data.rate : name, curves: [{ name, label: name, color: "first" }] }));
  for (const { title, curves, wide } of [...CHARTS, ...others]) {
    if (!curves.some((curve) => data.series[curve.name])) continue;
    if (!charts.has(title)) {
      charts.set(title, new Chart(title, curves, wide));
      charts.get(title).box.dataset.number = charts.size;
      document.getElementById("charts").append(charts.get(title).box);
    }
    charts.get(title).show(data.series, data.steps);
  }
  showHistograms(data.histograms);
  showHeads(data);
  document.documentElement.dataset.ready = "true";
}

// A page may not read files, but it may run a script that lies beside it: the numbers come as one.
function load() {
  const script = document.createElement("script");
  script.src = document.body.dataset.source + "?" + Date.now();
  const next = () => {
    script.remove();
    if (shown?.state !== "done") setTimeout(load, shown?.state === "stopped" ? 5000 : 1000);
  };
  script.onload = script.onerror = next;
  document.body.append(script);
}

followTheme();
// The page of heads in the frame takes the theme, and says how high it is.
const frame = document.querySelector("#heads iframe");
frame.addEventListener("load", () => tellTheme(frame));
window.addEventListener("message", ({ source, data }) => {
  if (source === frame.contentWindow && data?.fitHeight) frame.style.height = data.fitHeight + "px";
});
// Paper is narrower than most windows: heads inside the page are drawn for it, and the frame takes their height at once.
// A frame is not broken between sheets: high ones shrink to one sheet of A4 or Letter.
const SHEET = 900;
for (const kind of ["beforeprint", "afterprint"])
  window.addEventListener(kind, () => {
    const inside = frame.contentDocument; // null if the heads lie in a file beside the page
    if (!inside?.body) return;
    inside.documentElement.style.zoom = "";
    frame.contentWindow.dispatchEvent(new Event(kind));
    const height = inside.body.scrollHeight, shrink = kind === "beforeprint" ? Math.min(1, SHEET / height) : 1;
    if (shrink < 1) inside.documentElement.style.zoom = shrink;
    frame.style.height = Math.ceil(height * shrink) + "px";
  });
document.getElementById("smoothing").addEventListener("input", (event) => setSmoothing(Number(event.target.value)));
document.getElementById("all").addEventListener("click", () => showSteps(null, null));
const redraw = () => [...charts.values(), ...histograms].forEach((chart) => chart.draw());
document.addEventListener("theme", redraw);
window.addEventListener("resize", redraw);
const inside = document.getElementById("data").textContent;
if (inside) show(JSON.parse(inside));
else load();
