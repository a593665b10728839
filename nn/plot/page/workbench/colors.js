// From weights to colours.

const theme = {
  ink: "", soft: "", line: "", panel: "", accent: "", link: "", hidden: "", hatch: "", blind: "",
  "head-1": "", "head-2": "", "head-3": "", "head-4": "", "head-5": "", "head-6": "",
};

// The style sheet alone says what the colours of the page are; the pictures follow it.
function readTheme() {
  const style = getComputedStyle(document.documentElement);
  for (const name of Object.keys(theme)) theme[name] = style.getPropertyValue("--" + name).trim();
}

// The colour of the i-th chosen head, or of the i-th run.
const headVariable = (i) => `--head-${(i % 6) + 1}`;
function headColor(i) { return theme[headVariable(i).slice(2)]; }

// A colour on the panel, from that of the panel (strength 0) to the colour itself (1).
function onPanel(color, strength) {
  const from = rgbOf(theme.panel), to = rgbOf(color);
  return "#" + from.map((c, i) => Math.round(c + (to[i] - c) * Math.min(1, strength)).toString(16).padStart(2, "0")).join("");
}

const LOG_FLOOR = 1e-3; // the logarithmic scale's lowest value

// The top of the scale on which a head is drawn; of "row", the fraction of the row's largest.
function topOf(head, scale) { return scale === "head" ? head.largest : 1; }

// Where on the scale a weight lies, from 0 to 1.
function position(head, q, k, scale) {
  const code = head.codes[q * head.cols + k] / 255;
  if (scale === "row") return code;
  const v = code * head.rowLargest[q];
  if (scale === "log") return v <= LOG_FLOOR ? 0 : Math.min(1, 1 - Math.log(v) / Math.log(LOG_FLOOR));
  return Math.min(1, v / topOf(head, scale));
}

// The ticks of the colour bar: places from 0 to 1, with their words.
function ticksOf(head, scale) {
  if (scale === "log") return [1e-3, 1e-2, 1e-1, 1].map((v, i) => ({ at: i / 3, text: String(v) }));
  if (scale === "row") return [{ at: 0, text: "0" }, { at: 1, text: "row's\nlargest" }];
  const top = topOf(head, scale);
  const power = 10 ** Math.floor(Math.log10(top / 4));
  const step = power * [1, 2, 2.5, 5, 10].find((m) => m * power * 5 >= top);
  const digits = Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9) + (Math.round(step / power * 10) === 25 ? 1 : 0)));
  const ticks = [];
  for (let i = 0; i * step <= top * 1.0001; ++i) ticks.push({ at: (i * step) / top, text: (i * step).toFixed(digits) });
  // Larger weights have the colour of the top.
  if (scale === "head" && head.clipped) {
    if (ticks.at(-1).at > 0.93) ticks.pop();
    ticks.push({ at: 1, text: "≥ " + top.toFixed(Math.max(2, digits)) });
  }
  return ticks;
}

// The colours of weights as pixels.
const pixelMaps = new Map();
function pixelColors() {
  const colors = weightColors();
  if (!pixelMaps.has(colors)) pixelMaps.set(colors, Int32Array.from(colors, pixelOf));
  return pixelMaps.get(colors);
}

const raster = newCanvas(1, 1);

// A head as an image of one pixel for a cell, or of at most `limit` pixels a side. Where several cells share a pixel,
// the largest shows: a single bright cell among 256 must not vanish. The image holds until the next call.
function rasterize(head, state, limit = Infinity) {
  const { rows, cols, codes, rowLargest, hidden } = head;
  const width = Math.min(cols, limit), height = Math.min(rows, limit);
  const best = new Float32Array(width * height).fill(-2);
  const column = Int32Array.from({ length: cols }, (_, k) => Math.floor((k * width) / cols));
  const scale = state.scale;
  for (let q = 0; q < rows; ++q) {
    const line = Math.floor((q * height) / rows) * width;
    const top = rowLargest[q];
    const unit = (scale === "row" ? (top > 0 ? 1 : 0) : top / topOf(head, scale)) / 255;
    for (let k = 0, at = q * cols; k < cols; ++k, ++at) {
      // -1: hidden, or of a query that sees nothing or of which nothing is known
      const v = (hidden !== null && hidden[at] !== 0) || !(top > 0) ? -1 : codes[at] * unit;
      const pixel = line + column[k];
      if (v > best[pixel]) best[pixel] = v;
    }
  }
  const colors = pixelColors(), last = colors.length - 1;
  const concealed = pixelOf(theme.hidden);
  raster.width = width;
  raster.height = height;
  const context = raster.getContext("2d"), image = context.createImageData(width, height);
  const pixels = new Int32Array(image.data.buffer);
  for (let i = 0; i < pixels.length; ++i) {
    let v = best[i];
    if (v >= 0 && scale === "log") v = v <= LOG_FLOOR ? 0 : 1 - Math.log(v) / Math.log(LOG_FLOOR);
    pixels[i] = v < 0 ? concealed : colors[Math.min(last, Math.round(v * last))];
  }
  context.putImageData(image, 0, 0);
  return raster;
}

// The scale's colours as a strip, the largest on top.
function barImage() {
  const colors = pixelColors().slice().reverse();
  const canvas = newCanvas(1, colors.length);
  const context = canvas.getContext("2d");
  const image = context.createImageData(1, colors.length);
  new Int32Array(image.data.buffer).set(colors);
  context.putImageData(image, 0, 0);
  return canvas;
}
