// Two heads as one matrix: second minus first. A cell has the colour of the head that has more weight there.

// The colour of a difference, the stronger the larger it is.
const differenceColor = (v, most) => onPanel(headColor(v > 0 ? 1 : 0), Math.abs(v) / Math.max(most, 1e-3));

// The largest difference of two heads: { q, k, v }.
function largestDifference(first, second) {
  let most = { q: 0, k: 0, v: 0 };
  for (let q = 0; q < first.rows; ++q)
    for (let k = 0; k < first.cols; ++k) {
      const v = second.value(q, k) - first.value(q, k);
      if (Math.abs(v) > Math.abs(most.v)) most = { q, k, v };
    }
  return most;
}

const sameShape = (a, b) => a && b && a.rows === b.rows && a.cols === b.cols;

const differenceView = {
  ...matrixView,

  layout(heads, room, state) {
    const [first, second] = heads, farthest = largestDifference(first, second);
    return { ...matrixView.layout(first, room, state), second, farthest, largest: Math.max(Math.abs(farthest.v), 1e-3) };
  },

  paint(painter, l) {
    const { head, second, cw, ch, left, top, farthest } = l, gap = Math.min(cw, ch) > 8 ? 1 : 0;
    for (let q = 0; q < head.rows; ++q)
      for (let k = 0; k < head.cols; ++k) {
        const hidden = head.reason(q, k), v = second.value(q, k) - head.value(q, k), color = hidden ? theme.hidden : differenceColor(v, l.largest);
        const place = [left + k * cw, top + q * ch, cw - gap, ch - gap];
        painter.rect(...place, color);
        if (hidden) painter.hatch(...place, hidden, theme.hatch);
        else if (Math.min(cw, ch) >= 34) painter.text(place[0] + cw / 2, place[1] + ch / 2, decimal(v, 2), { anchor: "middle", color: inkOn(color) });
      }
    this.paintNames(painter, l);
    this.paintDifferenceBar(painter, l);
    const where = `${quoted(head.queries[farthest.q])} → ${quoted(head.keys[farthest.k])}`;
    return Math.abs(farthest.v) < 0.005 ? "The two heads are equal."
      : `The largest difference: ${where}, where the ${farthest.v > 0 ? "second" : "first"} head has ${Math.abs(farthest.v).toFixed(3)} more. The colours are those of the heads.`;
  },

  // From what the second head has more, on top, to what the first has more.
  paintDifferenceBar(painter, l) {
    const x = l.left + l.cw * l.head.cols + 16, height = Math.max(80, Math.min(l.ch * l.head.rows, 280));
    for (let i = 0; i < 64; ++i) painter.rect(x, l.top + (i * height) / 64, 11, height / 64 + 0.5, differenceColor(l.largest * (1 - i / 31.5), l.largest));
    for (const [at, v] of [[0, l.largest], [0.5, 0], [1, -l.largest]]) painter.text(x + 15, l.top + at * height, v === 0 ? "0" : decimal(v, 2), { size: 10.5 });
  },
};
