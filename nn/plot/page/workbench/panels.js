// The chosen heads as matrices side by side, on one scale.
const LEAST_PANEL = 200, TITLE = 20;

const panelsView = {
  layout(heads, room, state) {
    if (heads.length === 1) {
      const layout = matrixView.layout(heads[0], room, state);
      return { ...layout, panels: [{ layout, x: 0, y: 0 }] };
    }
    const columns = Math.max(1, Math.min(heads.length, Math.floor(room.width / LEAST_PANEL)));
    const width = Math.floor(room.width / columns), panels = [];
    let y = 0, next = 0;
    heads.forEach((head, i) => {
      if (i > 0 && i % columns === 0) y = next;
      const layout = matrixView.layout(head, { width: width - 10, height: Math.min(room.height, width) }, state);
      panels.push({ layout, x: (i % columns) * width, y: y + TITLE });
      next = Math.max(next, y + TITLE + layout.height + 8);
    });
    return { ...panels[0].layout, left: panels[0].layout.left, top: panels[0].layout.top + TITLE, panels, width: Math.max(columns * width - 10, ...panels.map(({ x, layout }) => x + layout.width)), height: next };
  },

  paint(painter, l, state) {
    l.panels.forEach(({ layout, x, y }, i) => {
      matrixView.paint(new Shifted(painter, x, y), layout, state);
      if (l.panels.length === 1) return;
      painter.rect(x, y - 12, 10, 10, headColor(i));
      painter.text(x + 15, y - 7, fitted(layout.head.name ?? "", layout.width - 20, true), { color: theme.ink, bold: true });
    });
  },

  paintMarks(painter, l, cell) {
    for (const { layout, x, y } of l.panels)
      if ((cell.q ?? 0) < layout.head.rows && (cell.k ?? 0) < layout.head.cols) matrixView.paintMarks(new Shifted(painter, x, y), layout, cell);
  },

  hit(l, x, y) {
    for (const panel of l.panels) {
      const cell = x >= panel.x && x < panel.x + panel.layout.width && y >= panel.y && y < panel.y + panel.layout.height ? matrixView.hit(panel.layout, x - panel.x, y - panel.y) : null;
      if (cell) return cell;
    }
    return null;
  },

  place(l, cell) {
    const { layout, x, y } = l.panels[0], at = matrixView.place(layout, cell);
    return { x: at.x + x, y: at.y + y };
  },
};
