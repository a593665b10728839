// Small curves over the steps of a training, and a button that plays them.

// A curve of `values`, null where there is none. A click calls choose(i). Returns the picture, and show(i), which puts a
// line at a value.
function sparkline(values, { label, top, choose }) {
  const last = values.length - 1, y = (v) => (31 - (28 * v) / top).toFixed(2);
  const svg = svgElement("svg", { viewBox: `0 0 ${last} 34`, preserveAspectRatio: "none", role: "img", "aria-label": label });
  const d = values.map((v, i) => (v === null ? "" : `${i && values[i - 1] !== null ? "L" : "M"}${i} ${y(v)}`)).join("");
  const cursor = svgElement("line", { y1: 0, y2: 34 });
  svg.append(svgElement("path", { d }), cursor);
  svg.addEventListener("click", (event) => {
    const { left, width } = svg.getBoundingClientRect();
    choose(Math.max(0, Math.min(last, Math.round(((event.clientX - left) / width) * last))));
  });
  const show = (i) => { for (const name of ["x1", "x2"]) cursor.setAttribute(name, i); };
  return { svg, show };
}

// Lets a button play from the place at() to the end, or from the beginning if this is the end. go(i) is a promise.
function playThrough(button, { at, last, go }) {
  let playing = false;
  const play = async () => {
    playing = !playing;
    button.textContent = playing ? "❚❚" : "▶";
    button.setAttribute("aria-label", playing ? "Pause" : "Play the training");
    if (!playing) return;
    if (at() === last) await go(0);
    while (playing && at() < last) await Promise.all([go(at() + 1), new Promise((done) => setTimeout(done, 350))]);
    if (playing) play();
  };
  button.addEventListener("click", play);
}
