// A head's query opened: its product with each key, feature by feature, the score, the weight, and the weight times the
// length of the value. Only a model that runs in the page has these vectors.
const MOST_KEYS = 24, LINE = 18;

// The sum of products of two vectors.
const dotOf = (a, b) => a.reduce((sum, v, d) => sum + v * b[d], 0);
const lengthOf = (v) => Math.sqrt(dotOf(v, v));

// The colour of a signed number, from -most to most.
const signedColor = (v, most) => onPanel(v < 0 ? theme["head-2"] : theme["head-1"], Math.abs(v) / Math.max(most, 1e-9));

// The pair that the vectors show: the cell, or the strongest key of its query.
function pairOf(head, cell) {
  const q = cell?.q ?? head.rows - 1;
  if (cell?.k != null && cell.k < head.cols) return { q, k: cell.k };
  let k = 0;
  for (let i = 1; i < head.cols; ++i) if (head.value(q, i) > head.value(q, k)) k = i;
  return { q, k };
}

const vectorsView = {
  layout(heads, room, state) {
    const head = heads[0], { q, k } = pairOf(head, state.cell), { vectors } = head, D = vectors.size;
    // The keys that the query may attend to, the strongest of many, in the order of the text.
    const seen = [...Array(head.cols).keys()].filter((i) => !head.reason(q, i));
    const kept = new Set([...seen].sort((a, b) => head.value(q, b) - head.value(q, a)).slice(0, MOST_KEYS - 1).concat(k));
    const keys = seen.filter((i) => kept.has(i)), names = head.keys.map((t) => label(t));
    const left = Math.min(120, Math.max(60, widest(names) + 12)), numbers = 190;
    const width = Math.max(420, room.width), cell = Math.max(2, Math.min(22, (width - left - numbers) / D));
    const query = vectors.query(q);
    const rows = keys.map((i) => {
      const key = vectors.key(i), products = query.map((v, d) => v * key[d]);
      return { k: i, products, score: products.reduce((a, b) => a + b, 0), weight: head.value(q, i), length: lengthOf(vectors.value(i)) };
    });
    const most = Math.max(1e-9, ...rows.flatMap(({ products }) => products.map(Math.abs))), farthest = Math.max(1e-9, ...rows.map(({ weight, length }) => weight * length));
    return { head, q, k, rows, most, farthest, names, left, cell, numbers, right: left + cell * D + 10, top: 92, unseen: seen.length - keys.length, width, height: 92 + rows.length * LINE + 26 };
  },

  paint(painter, l) {
    const { head, q, k, rows, left, cell, top, right } = l, { vectors } = head, query = vectors.query(q), key = vectors.key(k);
    const most = Math.max(1e-9, ...query.map(Math.abs), ...key.map(Math.abs));
    const vector = (y, name, values) => {
      painter.text(left - 6, y + 8, fitted(name, left - 8), { anchor: "end", color: theme.ink });
      values.forEach((v, d) => painter.rect(left + d * cell, y, cell - (cell > 5 ? 1 : 0), 16, signedColor(v, most)));
    };
    painter.text(left, 8, `Feature 1 … ${vectors.size} of the head →`, { color: theme.ink, bold: true });
    vector(20, "query", query);
    vector(40, "key", key);
    painter.text(right, 28, `${quoted(head.queries[q])} asks`, {});
    painter.text(right, 48, `${quoted(head.keys[k])} answers`, {});
    painter.text(left, 80, "query × key, feature by feature", { bold: true });
    for (const [i, name] of ["sum", "weight", "× |value|"].entries()) painter.text(right + [42, 96, 172][i], 80, name, { anchor: "end", bold: true });
    painter.text(7, top, "← Key", { color: theme.ink, bold: true, turn: -90, anchor: "end" });
    rows.forEach((row, i) => this.paintRow(painter, l, row, top + i * LINE));
    painter.text(left, l.height - 10, vectors.rule, { size: 10.5 });
    return l.unseen > 0 ? `The ${rows.length} strongest of ${rows.length + l.unseen} keys are shown.` : "";
  },

  paintRow(painter, l, { k, products, score, weight, length }, y) {
    const { left, cell, right, most, farthest } = l, chosen = k === l.k, color = chosen ? theme.accent : theme.soft;
    painter.text(left - 6, y + 8, fitted(l.names[k], left - 24), { anchor: "end", color, bold: chosen });
    products.forEach((v, d) => painter.rect(left + d * cell, y + 1, cell - (cell > 5 ? 1 : 0), LINE - 3, signedColor(v, most)));
    painter.text(right + 42, y + 8, decimal(score, 2), { anchor: "end", color });
    painter.text(right + 96, y + 8, weight.toFixed(3), { anchor: "end", color });
    painter.rect(right + 46, y + LINE - 3, 50 * weight, 2, theme["head-1"]);
    painter.text(right + 172, y + 8, (weight * length).toFixed(3), { anchor: "end", color });
    painter.rect(right + 112, y + LINE - 3, (60 * weight * length) / farthest, 2, theme["head-3"]);
    if (chosen) painter.frame(left - 1, y, cell * products.length + 1, LINE - 1, theme.accent, 1.5);
  },

  paintMarks() {},

  hit(l, x, y) {
    const row = l.rows[Math.floor((y - l.top) / LINE)];
    return row ? { q: l.q, k: row.k } : null;
  },

  place(l) { return { x: l.right, y: l.top + (l.rows.findIndex(({ k }) => k === l.k) + 1) * LINE }; },

  // The picture itself depends on the pair.
  follows: true,
};
