// Heat maps tell the value that is pointed at, tapped, or reached by the arrow keys, and mark its row and column.
// The cells are rectangles with a title, which the browser would show too late and too small.
function prepare(svg) {
  const names = [...svg.querySelectorAll("text")].filter((text) => text.getAttribute("font-weight")).map((text) => text.textContent);
  svg.setAttribute("role", "img");
  const axes = [...svg.querySelectorAll("text.axis")].map((text) => text.textContent);
  const said = svg.closest("figure")?.querySelector("figcaption")?.textContent;
  svg.setAttribute("aria-label", names.join(", ") || said || (axes.length > 1 ? `${axes[1]} by ${axes[0]}` : "Figure"));
  placePanels(svg);
  for (const cell of svg.querySelectorAll("rect.cell")) {
    const title = cell.querySelector("title");
    cell.dataset.says = title.textContent;
    title.remove();
  }
  if (!svg.querySelector("rect.cell")) return;
  svg.tabIndex = 0;
  svg.setAttribute("role", "application");
  svg.addEventListener("keydown", (event) => onFigureKey(svg, event));
  svg.addEventListener("blur", () => showCell(null));
}

// On a narrow page a figure scrolls: it does not shrink until its labels can't be read.
const LEAST_SCALE = 0.85;

// The size of a figure or panel as it was drawn.
function drawnSize(part) {
  const size = (name) => Number(part.dataset[name] ??= part.getAttribute(name));
  return { width: size("width"), height: size("height") };
}

function setSize(svg, width, height) {
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
}

// On a narrow page the names of curves stand below the chart, and its labels grow, so that they can be read.
function placeChart(svg, room) {
  const { width, height } = drawnSize(svg), names = [...svg.querySelectorAll("text.legend")], narrow = width > room;
  const right = names.length ? Number(names[0].getAttribute("x")) - 46 : width - 16;
  names.forEach((name, i) => {
    const by = narrow ? `translate(${16 - right} ${height + 19 * i - Number(name.getAttribute("y"))})` : "";
    for (const part of [name, name.previousElementSibling]) part.setAttribute("transform", by);
  });
  const wide = narrow ? right + 16 : width, grow = Math.max(1, (wide / room) * (0.83 / LEAST_SCALE));
  for (const text of svg.querySelectorAll("text")) text.setAttribute("font-size", (text.dataset.size ??= text.getAttribute("font-size")) * grow);
  setSize(svg, wide, height + (narrow ? 19 * names.length : 0));
}

// The panels of a figure stand in rows as wide as the page; they stack where only one fits.
function placePanels(svg) {
  const isChart = svg.querySelector(":scope > .curve");
  const panels = [...svg.querySelectorAll(":scope > .panel")], room = svg.parentNode.clientWidth / LEAST_SCALE;
  if (room > 0 && isChart) placeChart(svg, room);
  else if (room > 0 && panels.length < 2) {
    const { width, height } = placeMap(svg, room);
    setSize(svg, width, height);
  }
  if (panels.length > 1 && room > 0) {
    const title = svg.querySelector(":scope > .title"), top = title ? 30 : 0, rows = [];
    for (const panel of panels) {
      const { width, height } = placeMap(panel, room), last = rows.at(-1);
      const row = last && last.width + width <= Math.min(room, 1000) ? last : rows[rows.push({ panels: [], width: 0, height: 0 }) - 1];
      row.panels.push([panel, row.width]);
      row.width += width;
      row.height = Math.max(row.height, height);
    }
    const width = Math.max(...rows.map((row) => row.width), title ? title.getBBox().width + 32 : 0);
    let y = top;
    for (const row of rows) {
      for (const [panel, x] of row.panels) panel.setAttribute("transform", `translate(${(width - row.width) / 2 + x} ${y})`);
      y += row.height;
    }
    title?.setAttribute("x", width / 2);
    setSize(svg, width, y);
  }
  svg.style.minWidth = isChart ? "" : LEAST_SCALE * Number(svg.getAttribute("width")) + "px";
}

// Arrow keys go to the nearest cell in their direction.
let reached = null;
function onFigureKey(svg, event) {
  const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (event.key === "Escape") return showCell(null);
  if (!way) return;
  event.preventDefault();
  const cells = [...svg.querySelectorAll("rect.cell")];
  const from = reached && svg.contains(reached) ? reached.getBoundingClientRect() : null;
  let best = from ? null : cells[0], least = Infinity;
  for (const cell of from ? cells : []) {
    const box = cell.getBoundingClientRect(), dx = box.left - from.left, dy = box.top - from.top;
    const along = dx * way[0] + dy * way[1], aside = Math.abs(dx * way[1]) + Math.abs(dy * way[0]);
    if (along > 0.5 && along + 20 * aside < least) [best, least] = [cell, along + 20 * aside];
  }
  if (best) showCell(best);
}

// Marks a cell and says it where it stands.
function showCell(cell) {
  reached = cell;
  mark(cell);
  const box = cell?.getBoundingClientRect();
  showTip(cell?.dataset.says, box && { clientX: box.right, clientY: box.bottom });
  document.getElementById("said").textContent = cell?.dataset.says ?? "";
}

// A map of many cells is an image, one pixel a cell. Its colours are those of the bar beside it, the image that is one
// pixel wide; a description says the values at the bar's ends.
const pixels = new Map();
function pixelsOf(href) {
  if (!pixels.has(href)) {
    pixels.set(href, (async () => {
      const picture = new Image();
      picture.src = href;
      await picture.decode();
      const canvas = newCanvas(picture.naturalWidth, picture.naturalHeight), context = canvas.getContext("2d");
      context.drawImage(picture, 0, 0);
      return { width: canvas.width, height: canvas.height, colors: new Int32Array(context.getImageData(0, 0, canvas.width, canvas.height).data.buffer) };
    })());
  }
  return pixels.get(href);
}

async function sayPixel(image, event) {
  const part = image.parentNode, bar = [...part.querySelectorAll(":scope > image")].at(-1);
  const ends = part.querySelector(":scope > desc")?.textContent.match(/from (\S+) to (\S+)/);
  if (!ends || bar === image) return null;
  const [map, scale] = await Promise.all([image, bar].map((one) => pixelsOf(one.getAttribute("href"))));
  const box = image.getBoundingClientRect();
  const column = Math.min(map.width - 1, Math.floor(((event.clientX - box.left) / box.width) * map.width));
  const row = Math.min(map.height - 1, Math.floor(((event.clientY - box.top) / box.height) * map.height));
  const index = scale.colors.indexOf(map.colors[row * map.width + column]);
  const low = Number(ends[1]), high = Number(ends[2]), digits = Math.max(2, 2 - Math.floor(Math.log10(high - low)));
  const value = index < 0 ? "not a number" : (high - (index / (scale.height - 1)) * (high - low)).toFixed(Math.min(100, digits));
  return `row ${row}, column ${column}: ${value}`;
}

const marks = [];
function mark(cell) {
  while (marks.length) marks.pop().remove();
  if (!cell) return;
  const number = (name) => Number(cell.getAttribute(name));
  const all = [...cell.parentNode.querySelectorAll(":scope > rect.cell")];
  // of several heads, those beside and below are maps of their own: cells without a gap between them belong together
  const touching = (name, size) => {
    const line = all.filter((other) => other.getAttribute(name === "x" ? "y" : "x") === cell.getAttribute(name === "x" ? "y" : "x"));
    const step = number(size) + 1.01;
    const at = line.map((other) => Number(other.getAttribute(name))).sort((a, b) => a - b);
    let from = at.indexOf(number(name)), to = from;
    while (from > 0 && at[from] - at[from - 1] <= step) --from;
    while (to + 1 < at.length && at[to + 1] - at[to] <= step) ++to;
    return [at[from], at[to] + number(size)];
  };
  const [left, right] = touching("x", "width"), [top, bottom] = touching("y", "height");
  const frame = (x, y, width, height) => {
    marks.push(cell.parentNode.appendChild(svgElement("rect", { x, y, width, height, class: "mark" })));
  };
  frame(left, number("y"), right - left, number("height"));
  frame(number("x"), top, number("width"), bottom - top);
}

function showTip(text, event) {
  const tip = document.getElementById("tip");
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(innerWidth - box.width - 4, event.clientX + 14)) + "px";
  tip.style.top = (event.clientY + box.height + 22 > innerHeight ? event.clientY - box.height - 10 : event.clientY + 16) + "px";
}

let latest = 0;
async function onMove(event) {
  const turn = ++latest, target = event.target;
  const cell = target.closest?.("figure rect.cell"), image = target.closest?.("figure image");
  const says = cell ? cell.dataset.says : image ? await sayPixel(image, event) : null;
  if (turn !== latest) return;
  mark(cell);
  showTip(says, event);
}

function followPointer() {
  const figures = [...document.querySelectorAll("figure svg")];
  figures.forEach(prepare);
  const place = () => figures.forEach(placePanels);
  window.addEventListener("resize", place);
  for (const turned of ["beforeprint", "afterprint"]) window.addEventListener(turned, place);
  // A finger that moves scrolls; one that taps points.
  // A browser also reports a pointer that rests while the page moves below it.
  document.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "touch" && (event.movementX || event.movementY)) onMove(event);
  });
  document.addEventListener("click", onMove);
  document.addEventListener("pointerleave", () => { mark(null); showTip(null); });
  document.addEventListener("scroll", () => showCell(reached), { passive: true });
}
