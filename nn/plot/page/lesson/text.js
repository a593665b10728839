// A text whose tokens show, when they are pointed at, which tokens each head attends to: a colour for each head.

function prepareText(root) {
  const heads = JSON.parse(root.querySelector("script").textContent), tokens = [...root.querySelectorAll(".token")];
  const stage = root.querySelector(".stage"), arcs = root.querySelector("svg"), told = root.querySelector(".told");
  let at = tokens.length - 1;

  // What each head does: the token that asks, and the keys from the largest weight on.
  const find = () => {
    let key = at;
    return heads.map(({ name, weights, fromKey }) => {
      const asks = fromKey ? key : at, row = weights[asks];
      const keys = row.map((_, t) => t).sort((a, b) => row[b] - row[a]);
      key = keys[0];
      return { name, asks, row, keys };
    });
  };
  const sentence = ({ name, asks, row, keys }, h) => {
    const line = document.createElement("p"), bold = document.createElement("b");
    bold.className = `head-${h}`;
    bold.textContent = name;
    const most = keys.slice(0, 3).filter((t, i) => i === 0 || row[t] >= 0.1);
    line.append(bold, `: from “${tokens[asks].textContent}” to ` + most.map((t) => `“${tokens[t].textContent}” ${Math.round(100 * row[t])}\u00a0%`).join(", "));
    return line;
  };
  const draw = () => {
    const { offsetWidth: width, offsetHeight: height } = stage;
    if (width === 0) return;
    // In the units of the style sheet, which leaves room for arcs: a printed page is zoomed.
    const places = tokens.map(({ offsetLeft, offsetTop, offsetWidth, offsetHeight }) =>
      ({ x: offsetLeft + offsetWidth / 2, y: offsetTop, bottom: offsetTop + offsetHeight }));
    const found = find(), colors = weightColors();
    arcs.setAttribute("viewBox", `0 0 ${width} ${height}`);
    arcs.replaceChildren(...found.flatMap(({ asks, row }, h) => row.map((w, t) => w >= 0.02 && svgElement("path", {
      d: arcPath(places[asks], places[t], h % 2 ? 1 : -1), class: `head-${h}`, "stroke-width": (1 + 6 * w).toFixed(2), opacity: (0.25 + 0.75 * w).toFixed(2) })).filter(Boolean)));
    tokens.forEach((token, t) => {
      const color = colors[Math.round(Math.max(...found.filter(({ asks }) => asks === at).map(({ row }) => row[t])) * (colors.length - 1))];
      token.style.background = color;
      token.style.color = inkOn(color);
      token.classList.toggle("asks", t === at);
    });
    told.replaceChildren(...found.map(sentence));
  };
  const choose = (t) => {
    at = Math.max(0, Math.min(tokens.length - 1, t));
    draw();
  };
  const choosePointed = (event) => {
    const t = tokens.indexOf(event.target.closest(".token"));
    if (t >= 0 && t !== at) choose(t);
  };
  stage.addEventListener("pointermove", (event) => (event.movementX || event.movementY) && choosePointed(event));
  stage.addEventListener("click", choosePointed);
  root.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!way) return;
    event.preventDefault();
    choose(at + way);
  });
  new ResizeObserver(draw).observe(stage);
  document.addEventListener("theme", draw);
  for (const turned of ["beforeprint", "afterprint"]) window.addEventListener(turned, draw);
  draw();
}
