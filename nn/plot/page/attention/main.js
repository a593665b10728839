// The page of one recording. In a frame the page around it has title and theme, and learns the height.
document.addEventListener("DOMContentLoaded", async () => {
  followTheme();
  const framed = window.parent !== window;
  document.documentElement.classList.toggle("framed", framed);
  const view = new HeadsView(document.querySelector(".heads-view"), { whole: true, address: !framed });
  await view.show();
  if (framed)
    new ResizeObserver(() => window.parent.postMessage({ fitHeight: document.body.scrollHeight }, "*")).observe(document.body);
  performance.mark("ready");
  document.documentElement.dataset.ready = "true";
});
