const SVG = "http://www.w3.org/2000/svg";

function svgElement(name, attributes = {}, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// The path of an arc from one word to another, whose places are { x, y, bottom }. In one line of words it stands above
// them (side -1) or below them (1); to another line it leads between the lines.
function arcPath(a, b, side = -1) {
  const edge = side < 0 ? "y" : "bottom", high = side * (14 + Math.min(34, Math.abs(a.x - b.x) * 0.16));
  if (a === b) return `M${a.x - 9} ${a[edge]} C${a.x - 20} ${a[edge] + side * 26} ${a.x + 20} ${a[edge] + side * 26} ${a.x + 9} ${a[edge]}`;
  if (a.y === b.y) return `M${a.x} ${a[edge]} C${a.x} ${a[edge] + high} ${b.x} ${a[edge] + high} ${b.x} ${b[edge]}`;
  const up = b.y < a.y, from = up ? a.y : a.bottom, to = up ? b.bottom : b.y, way = up ? -36 : 36;
  return `M${a.x} ${from} C${a.x} ${from + way} ${b.x} ${to - way} ${b.x} ${to}`;
}
