// The colour bar of a map is its last image. On a narrow page it goes: where cells have numbers, they tell their values;
// where they have none, it lies below the map.

const BAR_BELOW = 34; // its height with its numbers

function barOf(part) {
  const bar = [...part.querySelectorAll(":scope > image")].at(-1);
  return bar && Number(bar.getAttribute("width")) < 30 ? bar : null;
}

// What is drawn after the bar, beside it: lines at its numbers, the numbers, and its name.
function besideBar(bar) {
  const all = [...bar.parentNode.children], after = all.slice(all.indexOf(bar) + 1), x = Number(bar.getAttribute("x"));
  return after.filter((e) => (e.tagName === "text" && Number(e.getAttribute("x")) > x) || (e.tagName === "line" && Number(e.getAttribute("x1")) > x));
}

// Puts the bar where it was drawn, or below a map of this size, the largest number at its right end.
function placeBar(bar, below, width, height) {
  const at = (name) => Number(bar.getAttribute(name)), move = (e, by) => (by ? e.setAttribute("transform", by) : e.removeAttribute("transform"));
  const length = Math.min(at("height"), width - 80), right = width - 56, top = height + 2, shrink = length / at("height");
  move(bar, below && `translate(${right} ${top}) rotate(90) scale(1 ${shrink}) translate(${-at("x")} ${-at("y")})`);
  for (const e of besideBar(bar)) {
    if (e.tagName === "line") {
      e.style.display = below ? "none" : "";
      continue;
    }
    const drawn = (e.dataset.drawn ??= e.getAttribute("transform") ?? ""), isName = drawn !== "";
    const [x, y, size] = ["x", "y", "font-size"].map((name) => Number(e.getAttribute(name)));
    // A number's line of text stands a third of its size below its place on the bar.
    const [toX, toY] = isName ? [right + 10, top + at("width") - 2] : [right - shrink * (y - 0.36 * size - at("y")), top + at("width") + 13];
    move(e, below ? `translate(${toX - x} ${toY - y})` : drawn);
    e.setAttribute("text-anchor", isName === below ? "start" : "middle");
  }
}

// The size of a map in this room.
function placeMap(part, room) {
  const { width, height } = drawnSize(part), bar = barOf(part);
  if (!bar) return { width, height };
  const narrow = width > room, below = narrow && !part.querySelector(".on-cell"), left = Number(bar.getAttribute("x")) - 10;
  placeBar(bar, below, left, height);
  return { width: narrow ? left : width, height: height + (below ? BAR_BELOW : 0) };
}
