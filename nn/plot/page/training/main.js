const CHARTS = [
  { title: "Loss", wide: true, curves: [{ name: "loss", label: "training", color: "first" }, { name: "validation", label: "validation", color: "second" }] },
  { title: "Learning rate", curves: [{ name: "lr", label: "rate", color: "first" }] },
  { title: "Gradient norm", curves: [{ name: "grad_norm", label: "norm", color: "first" }] },
];
const charts = new Map();
let shown = null, headsShown = 0, news = Date.now();

function duration(seconds) {
  const s = Math.round(seconds), two = (n) => String(n).padStart(2, "0");
  return s < 3600 ? `${Math.floor(s / 60)}:${two(s % 60)}` : `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
}

function showStatus(data) {
  const state = { running: "running", done: "done", stopped: "stopped" }[data.state];
  document.documentElement.classList.remove("running", "done", "stopped");
  document.documentElement.classList.add(state);
  const parts = [state, `step <b>${data.step.toLocaleString("en")}</b>` + (data.steps ? ` of ${data.steps.toLocaleString("en")}` : "")];
  const last = (name) => data.series[name]?.y.at(-1);
  if (last("loss") !== undefined) parts.push(`loss <b>${short(last("loss"))}</b>`);
  if (last("validation") !== undefined) parts.push(`validation <b>${short(last("validation"))}</b>`);
  if (last("rate") !== undefined) parts.push(`${short(last("rate"))} ${data.rate.toLowerCase()}`);
  parts.push(duration(data.seconds) + " so far");
  const done = data.step - data.first;
  if (data.state === "running" && data.steps && done > 0) parts.push(duration(data.seconds / done * (data.steps - data.step)) + " left");
  const silent = (Date.now() - news) / 1000;
  if (data.state === "running" && silent > 30) parts.push(`<b>no news for ${duration(silent)}</b>`);
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

// Called by the file of numbers.
function show(data) {
  if (data.seconds !== shown?.seconds) news = Date.now();
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
      document.getElementById("charts").append(charts.get(title).box);
    }
    charts.get(title).show(data.series, data.steps);
  }
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
window.addEventListener("resize", () => charts.forEach((chart) => chart.draw()));
const inside = document.getElementById("data").textContent;
if (inside) show(JSON.parse(inside));
else load();
