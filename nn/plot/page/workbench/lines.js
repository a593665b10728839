// Heads as lines from each query, on the left, to the keys that it looks at, on the right. Several heads of one text have
// colours of their own.

// So many lines for a token are drawn: more is a wall.
const LINES_FOR_A_TOKEN = 4, LEAST_LINES = 300;

const linesView = {
  layout(heads, room, state) {
    const head = heads[0], others = heads.slice(1).map((other, i) => ({ head: other, color: i + 1 })).filter(({ head: other }) => sameShape(head, other));
    const queries = head.queries.map((t) => label(t)), keys = head.keys.map((t) => label(t));
    const longest = Math.max(head.rows, head.cols);
    const height = longest * Math.max(5, Math.min(26, (room.height - 40) / longest));
    const width = Math.min(room.width, 760);
    // Wide enough for the names, and for the heading above them.
    const side = (names, heading) => Math.max(Math.min(170, widest(names)), textWidth(heading, 11, true)) + 10;
    const left = side(queries, "Query"), right = width - side(keys, "Key");
    const top = 26;
    const pitch = (n) => Math.min(height / n, 40);
    const start = (n) => top + (height - pitch(n) * n) / 2;
    return {
      head, others, unlike: heads.length - 1 - others.length, scale: state.scale, queries, keys, size: labelSize(queries, pitch(head.rows)), keySize: labelSize(keys, pitch(head.cols)), left, right, top, width, height: height + top + 10,
      qy: (q) => start(head.rows) + (q + 0.5) * pitch(head.rows),
      ky: (k) => start(head.cols) + (k + 0.5) * pitch(head.cols),
      qPitch: pitch(head.rows), kPitch: pitch(head.cols), qStart: start(head.rows), kStart: start(head.cols),
    };
  },

  paint(painter, l, state) {
    painter.text(l.left - 7, 10, "Query", { anchor: "end", bold: true });
    painter.text(l.right + 7, 10, "Key", { bold: true });
    const { shown, all } = strongest(l.head, state.scale);
    this.draw(painter, l, shown, headColor(0));
    for (const { head, color } of l.others) this.draw(painter, l, strongest(head, state.scale).shown, headColor(color));
    for (let q = 0, step = stride(l.qPitch, l.size * 1.12); q < l.head.rows; q += step) this.queryLabel(painter, l, q, false);
    for (let k = 0, step = stride(l.kPitch, l.keySize * 1.12); k < l.head.cols; k += step) this.keyLabel(painter, l, k, false);
    if (l.unlike > 0) return "Heads of another number of tokens have no lines here.";
    return shown.length < all ? `The ${shown.length.toLocaleString("en")} strongest of ${all.toLocaleString("en")} lines are drawn.` : "";
  },

  queryLabel(painter, l, q, bold) {
    const color = bold ? theme.accent : l.head.blind(q) ? theme.hatch : theme.soft;
    const text = l.head.blind(q) ? "(sees nothing) " + l.queries[q] : l.queries[q];
    painter.text(l.left - 7, l.qy(q), fitted(text, 170, bold), { anchor: "end", color, bold, size: l.size });
  },

  keyLabel(painter, l, k, bold) {
    const padded = l.head.padded(k);
    const color = bold ? theme.accent : padded ? theme.hatch : theme.soft;
    painter.text(l.right + 7, l.ky(k), fitted(padded ? l.keys[k] + " (padding)" : l.keys[k], 170, bold), { color, bold, size: l.keySize });
  },

  // Lines of about the same strength are drawn at once.
  draw(painter, l, lines, color) {
    const groups = Array.from({ length: 12 }, () => []);
    for (const { q, k, at } of lines) groups[Math.min(11, Math.floor(at * 12))].push([l.left, l.qy(q), l.right, l.ky(k)]);
    groups.forEach((list, i) => list.length && painter.curves(list, color, 0.6 + (2.6 * i) / 11, 0.1 + (0.85 * i) / 11));
  },

  paintMarks(painter, l, cell) {
    painter.fade(l.left, 0, l.right - l.left, l.height, theme.panel, 0.75); // the other lines, and no name
    const side = cell.q !== null ? "query" : "key", lines = linesAt(l.head, cell, l.scale);
    this.draw(painter, l, lines, l.others.length ? headColor(0) : theme.accent);
    for (const { head, color } of l.others) this.draw(painter, l, linesAt(head, cell, l.scale), headColor(color));
    this.paintEnds(painter, l, cell, side, lines);
  },

  // The names at both ends of the lines of a token.
  paintEnds(painter, l, cell, side, lines) {
    const clear = (x, y, w) => painter.rect(x, y - 8, w, 16, theme.panel);
    if (side === "query") {
      clear(0, l.qy(cell.q), l.left - 2);
      this.queryLabel(painter, l, cell.q, true);
    } else {
      clear(l.right + 2, l.ky(cell.k), l.width - l.right);
      this.keyLabel(painter, l, cell.k, true);
    }
    // The names at the other ends, the strongest first, where they don't cover each other.
    const taken = [];
    lines.sort((a, b) => b.at - a.at);
    for (const { q, k, at } of lines) {
      if (at < 0.1 || taken.length > 40) break;
      const y = side === "query" ? l.ky(k) : l.qy(q);
      if (taken.some((other) => Math.abs(other - y) < 13)) continue;
      taken.push(y);
      if (side === "query") {
        clear(l.right + 2, y, l.width - l.right);
        this.keyLabel(painter, l, k, true);
      } else {
        clear(0, y, l.left - 2);
        this.queryLabel(painter, l, q, true);
      }
    }
  },

  hit(l, x, y) {
    const q = Math.floor((y - l.qStart) / l.qPitch), k = Math.floor((y - l.kStart) / l.kPitch);
    if (x < (l.left + l.right) / 2) return q >= 0 && q < l.head.rows ? { q, k: null } : null;
    return k >= 0 && k < l.head.cols ? { q: null, k } : null;
  },

  place(l, cell) {
    return cell.q !== null ? { x: l.left + 8, y: l.qy(cell.q) } : { x: l.right - 60, y: l.ky(cell.k) };
  },
};

// The lines of a query, or of a key: { q, k, at }.
function linesAt(head, cell, scale) {
  const lines = [];
  const add = (q, k) => {
    if (head.reason(q, k) || !head.finite(q)) return;
    const at = position(head, q, k, scale);
    if (at > 0.004) lines.push({ q, k, at });
  };
  if (cell.q !== null) for (let k = 0; k < head.cols; ++k) add(cell.q, k);
  else for (let q = 0; q < head.rows; ++q) add(q, cell.k);
  return lines;
}

// The strongest lines, weakest first, and how many there are.
function strongest(head, scale) {
  const counts = new Int32Array(256);
  const bin = new Uint8Array(head.rows * head.cols);
  let all = 0;
  for (let q = 0, i = 0; q < head.rows; ++q)
    for (let k = 0; k < head.cols; ++k, ++i) {
      if (head.reason(q, k) || !head.finite(q)) continue;
      bin[i] = Math.floor(position(head, q, k, scale) * 255);
      if (bin[i] > 0) ++counts[bin[i]], ++all;
    }
  const most = Math.max(LEAST_LINES, LINES_FOR_A_TOKEN * Math.max(head.rows, head.cols));
  let least = 255;
  for (let n = counts[255]; least > 1 && n + counts[least - 1] <= most; n += counts[least]) --least;
  const shown = [];
  for (let q = 0, i = 0; q < head.rows; ++q)
    for (let k = 0; k < head.cols; ++k, ++i)
      if (bin[i] >= least && shown.length < most) shown.push({ q, k, at: bin[i] / 255 });
  return { shown: shown.sort((a, b) => a.at - b.at), all };
}
