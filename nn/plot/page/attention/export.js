// The view as a file: the same drawing, with a heading, as SVG or as PNG.

const MARGIN = 18, HEADING = 30;

function headName(state, head) {
  const of = HeadList.count(state.layer);
  return `${data.layers[state.layer]} · head ${state.head + 1} of ${of}` + (head && !head.self ? " · cross-attention" : "");
}

function paintExport(painter, width, height) {
  const { state, view, layout, head } = page;
  painter.rect(0, 0, width, height, theme.panel);
  const step = data.frames.length > 1 ? " · " + frameText(state.frame) : "";
  painter.text(MARGIN, MARGIN + 6, fitted(headName(state, head) + step, width - 2 * MARGIN, true), { size: 13, color: theme.ink, bold: true });
  return { view, layout, state };
}

function exportSize() {
  return [page.layout.width + 2 * MARGIN, page.layout.height + 2 * MARGIN + HEADING];
}

// Everything that a view draws is moved under the heading.
class Shifted {
  constructor(painter, dx, dy) {
    for (const name of ["rect", "frame", "image", "hatch", "text"])
      this[name] = (x, y, ...rest) => painter[name](x + dx, y + dy, ...rest);
    this.line = (x1, y1, x2, y2, ...rest) => painter.line(x1 + dx, y1 + dy, x2 + dx, y2 + dy, ...rest);
    this.curves = (list, ...rest) => painter.curves(list.map(([x1, y1, x2, y2]) => [x1 + dx, y1 + dy, x2 + dx, y2 + dy]), ...rest);
  }
}

function drawExport(painter) {
  const [width, height] = exportSize();
  const { view, layout, state } = paintExport(painter, width, height);
  const shifted = new Shifted(painter, MARGIN, MARGIN + HEADING);
  view.paint(shifted, layout, state);
  if (state.held && state.cell) view.paintMarks(shifted, layout, state.cell);
}

function exportSvg() {
  const painter = new SvgPainter(...exportSize());
  drawExport(painter);
  return new Blob([painter.done()], { type: "image/svg+xml" });
}

function exportPng() {
  const [width, height] = exportSize();
  const canvas = newCanvas(2 * width, 2 * height);
  const context = canvas.getContext("2d");
  context.scale(2, 2);
  drawExport(new CanvasPainter(context));
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

function save(blob, kind) {
  const { state } = page;
  const link = document.createElement("a");
  const step = data.frames.length > 1 ? "_step_" + data.frames[state.frame][0] : "";
  const layer = data.layers[state.layer].replace(/[^\w.-]+/g, "_").slice(0, 80);
  link.download = `${layer || "attention"}_head_${state.head + 1}${step}.${kind}`;
  link.href = URL.createObjectURL(blob);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  announce("Saved as " + link.download);
}
