// Two ways to draw the same picture: on a canvas, and as SVG. A view draws itself with whichever it is given.

const FONT = '"Helvetica Neue", Helvetica, Arial, "DejaVu Sans", sans-serif';

const ruler = newCanvas(1, 1).getContext("2d"), widths = new Map(); // font and text -> width
function textWidth(text, size = 11, bold = false) {
  const font = `${bold ? "600 " : ""}${size}px ${FONT}`, known = widths.get(font + text);
  if (known !== undefined) return known;
  ruler.font = font;
  if (widths.size > 10000) widths.clear();
  widths.set(font + text, ruler.measureText(text).width);
  return widths.get(font + text);
}

// What a text covers, seen from its place.
function groundOf(text, size, bold, anchor) {
  const width = textWidth(text, size, bold) + 4;
  return [anchor === "middle" ? -width / 2 : anchor === "end" ? 2 - width : -2, -size * 0.65, width, size * 1.3];
}

// How masked pairs are hatched, by reason, as lines in a square of 8 x 8. Figures of C++ look the same.
const HATCHES = {
  1: [[0, 8, 8, 0]],
  2: [[0, 0, 8, 8]],
  3: [[4, 0, 4, 8]],
  4: [[0, 4, 8, 4]],
  blind: [[0, 8, 8, 0], [0, 0, 8, 8]],
};

const patterns = new Map(); // kind and colour of a hatching -> its pattern

class CanvasPainter {
  constructor(context) { this.context = context; }

  rect(x, y, w, h, fill) {
    this.context.fillStyle = fill;
    this.context.fillRect(x, y, w, h);
  }

  fade(x, y, w, h, fill, opacity) {
    this.context.globalAlpha = opacity;
    this.rect(x, y, w, h, fill);
    this.context.globalAlpha = 1;
  }

  frame(x, y, w, h, color, width) {
    this.context.strokeStyle = color;
    this.context.lineWidth = width;
    this.context.strokeRect(x, y, w, h);
  }

  line(x1, y1, x2, y2, color, width = 1) {
    this.context.strokeStyle = color;
    this.context.lineWidth = width;
    this.context.beginPath();
    this.context.moveTo(x1, y1);
    this.context.lineTo(x2, y2);
    this.context.stroke();
  }

  // y is the middle of the text's height; `turn` is in degrees, and `ground` covers what is behind the text.
  text(x, y, text, { size = 11, color = theme.soft, anchor = "start", bold = false, turn = 0, ground = null } = {}) {
    const { context } = this;
    context.save();
    context.translate(x, y);
    if (turn) context.rotate((turn * Math.PI) / 180);
    context.font = `${bold ? "600 " : ""}${size}px ${FONT}`;
    if (ground) this.rect(...groundOf(text, size, bold, anchor), ground);
    context.fillStyle = color;
    context.textAlign = anchor === "middle" ? "center" : anchor;
    context.textBaseline = "middle";
    context.direction = "ltr";
    context.fillText(text, 0, 0.5);
    context.restore();
  }

  // Enlarged cells keep their edges; those that are less than a pixel are averaged.
  image(x, y, w, h, canvas) {
    this.context.imageSmoothingEnabled = w < canvas.width || h < canvas.height;
    this.context.drawImage(canvas, x, y, w, h);
  }

  // Curves of one colour, [x1, y1, x2, y2] each.
  curves(list, color, width, opacity) {
    const { context } = this;
    context.save();
    context.globalAlpha = opacity;
    context.strokeStyle = color;
    context.lineWidth = width;
    context.beginPath();
    for (const [x1, y1, x2, y2] of list) {
      const middle = (x1 + x2) / 2;
      context.moveTo(x1, y1);
      context.bezierCurveTo(middle, y1, middle, y2, x2, y2);
    }
    context.stroke();
    context.restore();
  }

  hatch(x, y, w, h, kind, color) {
    if (!HATCHES[kind]) return;
    const key = kind + color;
    if (!patterns.has(key)) {
      const tile = newCanvas(16, 16);
      const context = tile.getContext("2d");
      context.scale(2, 2);
      context.strokeStyle = color;
      context.lineWidth = 1;
      // the corners of a tile belong to its neighbours' lines, too
      for (const dx of [-8, 0, 8])
        for (const [x1, y1, x2, y2] of HATCHES[kind]) {
          context.beginPath();
          context.moveTo(x1 + dx, y1);
          context.lineTo(x2 + dx, y2);
          context.stroke();
        }
      const pattern = this.context.createPattern(tile, "repeat");
      pattern.setTransform(new DOMMatrix().scale(0.5));
      patterns.set(key, pattern);
    }
    this.rect(x, y, w, h, patterns.get(key));
  }
}

class SvgPainter {
  constructor(width, height) {
    this.document = document.implementation.createDocument(SVG, "svg", null);
    this.root = this.document.documentElement;
    this.set(this.root, { width, height, viewBox: `0 0 ${width} ${height}`, "font-family": FONT });
    this.hatches = new Set();
  }

  set(element, attributes) {
    for (const [name, value] of Object.entries(attributes))
      element.setAttribute(name, typeof value === "number" ? String(Math.round(value * 100) / 100) : value);
    return element;
  }

  add(name, attributes, parent = this.root) {
    return parent.appendChild(this.set(this.document.createElementNS(SVG, name), attributes));
  }

  rect(x, y, w, h, fill) { this.add("rect", { x, y, width: w, height: h, fill }); }
  fade(x, y, w, h, fill, opacity) { this.add("rect", { x, y, width: w, height: h, fill, "fill-opacity": opacity }); }
  frame(x, y, w, h, color, width) {
    this.add("rect", { x, y, width: w, height: h, fill: "none", stroke: color, "stroke-width": width });
  }
  line(x1, y1, x2, y2, color, width = 1) { this.add("line", { x1, y1, x2, y2, stroke: color, "stroke-width": width }); }

  text(x, y, text, { size = 11, color = theme.soft, anchor = "start", bold = false, turn = 0, ground = null } = {}) {
    const place = turn ? { transform: `rotate(${turn} ${Math.round(x * 100) / 100} ${Math.round(y * 100) / 100})` } : {};
    if (ground) {
      const [left, top, width, height] = groundOf(text, size, bold, anchor);
      this.add("rect", { x: x + left, y: y + top, width, height, fill: ground, ...place });
    }
    const attributes = { x, y, dy: "0.35em", "font-size": size, fill: color, "text-anchor": anchor, ...place };
    if (bold) attributes["font-weight"] = "600";
    this.add("text", attributes).textContent = xmlText(text);
  }

  image(x, y, w, h, canvas) {
    this.add("image", { x, y, width: w, height: h, preserveAspectRatio: "none", style: "image-rendering:pixelated", href: canvas.toDataURL() });
  }

  curves(list, color, width, opacity) {
    const n = (v) => Math.round(v * 100) / 100;
    const d = list.map(([x1, y1, x2, y2]) => `M${n(x1)} ${n(y1)}C${n((x1 + x2) / 2)} ${n(y1)} ${n((x1 + x2) / 2)} ${n(y2)} ${n(x2)} ${n(y2)}`);
    this.add("path", { d: d.join(""), fill: "none", stroke: color, "stroke-width": width, "stroke-opacity": opacity });
  }

  hatch(x, y, w, h, kind, color) {
    if (!HATCHES[kind]) return;
    if (!this.hatches.has(kind)) {
      this.hatches.add(kind);
      const pattern = this.add("pattern", { id: "hatch-" + kind, width: 8, height: 8, patternUnits: "userSpaceOnUse" });
      for (const [x1, y1, x2, y2] of HATCHES[kind]) this.add("line", { x1, y1, x2, y2, stroke: color }, pattern);
    }
    this.rect(x, y, w, h, `url(#hatch-${kind})`);
  }

  done() { return '<?xml version="1.0" encoding="UTF-8"?>\n' + new XMLSerializer().serializeToString(this.document); }
}

// What XML 1.0 can't hold becomes the sign for a character that is not known.
function xmlText(text) {
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd");
}
