// The view as a file: the same drawing, with a heading, as SVG or as PNG.

const MARGIN = 18, HEADING = 30;

function exportSize({ layout }) { return [layout.width + 2 * MARGIN, layout.height + 2 * MARGIN + HEADING]; }

// Everything that a view draws is moved under the heading.
class Shifted {
  constructor(painter, dx, dy) {
    for (const name of ["rect", "fade", "frame", "image", "hatch", "text"])
      this[name] = (x, y, ...rest) => painter[name](x + dx, y + dy, ...rest);
    this.line = (x1, y1, x2, y2, ...rest) => painter.line(x1 + dx, y1 + dy, x2 + dx, y2 + dy, ...rest);
    this.curves = (list, ...rest) => painter.curves(list.map(([x1, y1, x2, y2]) => [x1 + dx, y1 + dy, x2 + dx, y2 + dy]), ...rest);
  }
}

function drawExport(view, painter) {
  const [width, height] = exportSize(view), { state, picture, layout } = view;
  painter.rect(0, 0, width, height, theme.panel);
  painter.text(MARGIN, MARGIN + 6, fitted(view.heading(), width - 2 * MARGIN, true), { size: 13, color: theme.ink, bold: true });
  const shifted = new Shifted(painter, MARGIN, MARGIN + HEADING);
  picture.paint(shifted, layout, state);
  if (state.held && state.cell) picture.paintMarks(shifted, layout, state.cell);
}

function exportSvg(view) {
  const painter = new SvgPainter(...exportSize(view));
  drawExport(view, painter);
  return new Blob([painter.done()], { type: "image/svg+xml" });
}

function exportPng(view) {
  const [width, height] = exportSize(view);
  const canvas = newCanvas(2 * width, 2 * height);
  const context = canvas.getContext("2d");
  context.scale(2, 2);
  drawExport(view, new CanvasPainter(context));
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

function save(blob, name) {
  const link = document.createElement("a");
  link.download = name;
  link.href = URL.createObjectURL(blob);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
