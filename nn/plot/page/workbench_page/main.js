// The page: a workbench with recorded runs, or with a model that runs here. In a frame the page around it has title and
// theme, and learns the height.
async function openBench(root, framed) {
  const live = config ? new Live() : null;
  const bench = new Workbench(root, { whole: true, address: !framed, ...(live ? { live, runs: live.runs } : {}) });
  await live?.start(bench);
  const runs = live || bench.runs.length < 2 ? null : new RunPairs(bench);
  await bench.show();
  await runs?.show();
  return live;
}

document.addEventListener("DOMContentLoaded", async () => {
  followTheme();
  const framed = window.parent !== window, root = document.querySelector(".workbench");
  document.documentElement.classList.toggle("framed", framed);
  if (data.charts?.length) showRunCurves(byId("charts"), data);
  const live = root && (await openBench(root, framed));
  if (framed) new ResizeObserver(() => window.parent.postMessage({ fitHeight: document.body.scrollHeight }, "*")).observe(document.body);
  performance.mark("ready");
  document.documentElement.dataset.ready = "true";
  await live?.compare();
  document.documentElement.dataset.checked = "true";
});
