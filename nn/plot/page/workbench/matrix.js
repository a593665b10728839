// A head as a matrix: queries go down, keys go right. The names of both axes stand at the corner where they begin.
const AXIS = 16; // the height of such a name

const matrixView = {
  layout(head, room, state) {
    const queries = head.queries.map((t) => label(t)), keys = head.keys.map((t) => label(t));
    // Long names are cut: they must not take the room of the cells.
    const most = Math.min(150, 0.2 * room.width);
    const gutter = Math.min(most, widest(queries)) + 10 + AXIS;
    const bar = 64;
    const keyWidth = Math.min(most, widest(keys));
    // Key names lie flat if they fit over their columns, else they slant, and stand upright where columns are narrow.
    const across = (head.cols > 0 ? room.width - gutter - bar - 12 : 0) / head.cols;
    const side = Math.max(0.5, Math.min(54, across, (room.height - 60 - AXIS) / head.rows));
    // Names of a letter or two never turn, also if a longer one is among them, which is cut.
    const letters = isLetters(keys), flat = letters || keyWidth + 6 <= side;
    const turn = flat ? 0 : side >= 15 ? -45 : -90;
    const over = AXIS + (flat ? 20 : keyWidth * (turn === -45 ? Math.SQRT1_2 : 1) + 12);
    const beyond = turn === -45 ? Math.max(0, keyWidth * Math.SQRT1_2 - bar) : 0;
    const cell = Math.max(0.5, Math.min(54, (room.width - gutter - bar - 12 - beyond) / head.cols, Math.max(room.height - over, 240) / head.rows));
    // A strip is made thick enough to be seen.
    const thick = (n) => Math.max(cell, Math.min(54, 90 / n));
    const cw = head.cols * thick(head.cols) <= room.width - gutter - bar - 12 ? thick(head.cols) : cell, ch = thick(head.rows);
    const width = gutter + cw * head.cols + bar + beyond + 12, height = over + ch * head.rows + 8;
    return { head, scale: state.scale, queries, keys, turn, letters, most, cw, ch, size: labelSize(queries, ch), keySize: flat ? labelSize(keys, cw) : 11, left: gutter, top: over, width: Math.ceil(Math.max(width, 260)), height: Math.ceil(Math.max(height, 130)) };
  },

  paint(painter, l, state) {
    const { head, cw, ch, left, top } = l;
    const width = cw * head.cols, height = ch * head.rows;
    painter.image(left, top, width, height, rasterize(head, state));
    this.paintHidden(painter, l);
    // Fine lines between cells that are large enough to have some.
    if (Math.min(cw, ch) >= 14) {
      for (let q = 1; q < head.rows; ++q) painter.line(left, top + q * ch, left + width, top + q * ch, theme.panel);
      for (let k = 1; k < head.cols; ++k) painter.line(left + k * cw, top, left + k * cw, top + height, theme.panel);
    }
    if (ch >= 12) this.paintStrange(painter, l);
    if (Math.min(cw, ch) >= 34) this.paintValues(painter, l, state);
    this.paintNames(painter, l);
    this.paintBar(painter, l, state);
  },

  // The frame, the axes and the tokens.
  paintNames(painter, l) {
    const { head, cw, ch, left, top } = l;
    painter.frame(left, top, cw * head.cols, ch * head.rows, theme.line, 1);
    painter.text(left, 7, "Key →", { color: theme.ink, bold: true });
    painter.text(7, top, "← Query", { color: theme.ink, bold: true, turn: -90, anchor: "end" });
    for (let q = 0, step = stride(ch, l.size * 1.12); q < head.rows; q += step) this.queryLabel(painter, l, q, theme.soft, false);
    for (let k = 0, step = stride(cw, l.turn !== 0 ? 13 : l.letters ? l.keySize * 0.9 + 1 : widest(l.keys) + 4); k < head.cols; k += step) this.keyLabel(painter, l, k, theme.soft, false);
  },

  queryLabel(painter, l, q, color, bold) {
    painter.text(l.left - 7, l.top + (q + 0.5) * l.ch, fitted(l.queries[q], l.most, bold), { anchor: "end", color, bold, size: l.size });
  },

  keyLabel(painter, l, k, color, bold) {
    const x = l.left + (k + 0.5) * l.cw, text = fitted(l.keys[k], l.letters ? Math.max(l.cw, 24) : l.most, bold), ground = bold ? theme.panel : null;
    if (l.turn === 0) painter.text(x, l.top - 9, text, { anchor: "middle", color, bold, ground, size: l.keySize });
    else painter.text(x, l.top - 7, text, { color, bold, ground, turn: l.turn });
  },

  // Runs of pairs that are masked for one reason are hatched at once.
  paintHidden(painter, l) {
    const { head, cw, ch, left, top } = l;
    for (let q = 0; q < head.rows; ++q) {
      const y = top + q * ch;
      if (head.blind(q) || !head.finite(q)) {
        painter.rect(left, y, cw * head.cols, ch, theme.blind);
        painter.hatch(left, y, cw * head.cols, ch, "blind", theme.hatch);
        continue;
      }
      for (let k = 0; head.hidden && k < head.cols;) {
        const reason = head.reason(q, k), from = k;
        while (k < head.cols && head.reason(q, k) === reason) ++k;
        if (reason) painter.hatch(left + from * cw, y, (k - from) * cw, ch, reason, theme.hatch);
      }
    }
  },

  // Rows without weights say why.
  paintStrange(painter, l) {
    const { head, cw, ch, left, top } = l;
    for (let q = 0; q < head.rows; ++q) {
      if (!head.blind(q) && head.finite(q)) continue;
      const text = head.finite(q) ? "sees nothing" : "not finite";
      painter.text(left + (cw * head.cols) / 2, top + (q + 0.5) * ch, text, { anchor: "middle", color: theme.ink, ground: theme.blind });
    }
  },

  paintValues(painter, l, state) {
    const colors = weightColors();
    for (let q = 0; q < l.head.rows; ++q)
      for (let k = 0; k < l.head.cols; ++k) {
        if (l.head.reason(q, k) || l.head.blind(q) || !l.head.finite(q)) continue;
        const background = colors[Math.round(position(l.head, q, k, state.scale) * (colors.length - 1))];
        painter.text(l.left + (k + 0.5) * l.cw, l.top + (q + 0.5) * l.ch, l.head.value(q, k).toFixed(2),
          { anchor: "middle", color: inkOn(background) });
      }
  },

  paintBar(painter, l, state) {
    const x = l.left + l.cw * l.head.cols + 16, height = Math.max(80, Math.min(l.ch * l.head.rows, 280));
    painter.image(x, l.top, 11, height, barImage());
    for (const tick of ticksOf(l.head, state.scale)) {
      const y = l.top + height * (1 - tick.at);
      painter.line(x + 11, y, x + 14, y, theme.soft);
      tick.text.split("\n").forEach((part, i) => painter.text(x + 17, y + 12 * i, part, { size: 10.5 }));
    }
  },

  // The row and the column of a weight stand out, and their names are shown wherever they are.
  paintMarks(painter, l, cell) {
    const { left, top, cw, ch, head } = l;
    const width = cw * head.cols, height = ch * head.rows;
    if (cell.q !== null) {
      painter.frame(left, top + cell.q * ch, width, ch, theme.accent, 1.5);
      painter.rect(AXIS, top + (cell.q + 0.5) * ch - 8, left - 2 - AXIS, 16, theme.panel);
      this.queryLabel(painter, l, cell.q, theme.accent, true);
    }
    if (cell.k !== null) {
      painter.frame(left + cell.k * cw, top, cw, height, theme.accent, 1.5);
      if (l.turn === -90) painter.rect(left + (cell.k + 0.5) * cw - 8, AXIS, 16, top - 2 - AXIS, theme.panel);
      this.keyLabel(painter, l, cell.k, theme.accent, true);
    }
    if (cell.q !== null && cell.k !== null) painter.frame(left + cell.k * cw, top + cell.q * ch, cw, ch, theme.ink, 2);
  },

  hit(l, x, y) {
    const q = Math.floor((y - l.top) / l.ch), k = Math.floor((x - l.left) / l.cw);
    const inRow = q >= 0 && q < l.head.rows, inColumn = k >= 0 && k < l.head.cols;
    if (!inRow && !inColumn) return null;
    if (!inRow && y > l.top) return null;
    if (!inColumn && x > l.left) return null;
    return { q: inRow ? q : null, k: inColumn ? k : null };
  },

  // Where the tip goes that speaks of a weight.
  place(l, cell) {
    return { x: l.left + ((cell.k ?? 0) + 0.5) * l.cw, y: l.top + ((cell.q ?? 0) + 0.5) * l.ch };
  },
};

function widest(labels) { return labels.reduce((most, text) => Math.max(most, textWidth(text, 11, true)), 0); }

// Whether names are letters, such as the tokens of a text of characters, but for a few.
function isLetters(names) { return names.filter((name) => Array.from(name).length <= 2).length >= 0.8 * names.length; }

// The size of names that stand `pitch` apart. A text of letters is read as a whole: its letters shrink before one is left out.
function labelSize(names, pitch) { return isLetters(names) ? Math.max(8, Math.min(11, pitch / 1.12)) : 11; }

// Every how many-th label is shown, if one needs so much room.
function stride(step, room = 13) {
  const needed = room / step;
  return needed <= 1 ? 1 : [2, 4, 5, 8, 10, 16, 20, 25, 32, 50, 64, 100, 128].find((n) => n >= needed) ?? Math.ceil(needed);
}

function fitted(text, width, bold = false) {
  if (textWidth(text, 11, bold) <= width) return text;
  const letters = Array.from(text);
  while (letters.length > 1 && textWidth(letters.join("") + "…", 11, bold) > width) letters.pop();
  return letters.join("") + "…";
}
