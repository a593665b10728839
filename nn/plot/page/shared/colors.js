// The colours of C++'s figures, which all pictures of the pages share (page/fill.cpp): LIGHT_WEIGHTS is the map of weights,
// DARK_COLORS leads from a colour of a light figure to the colour at the same place of a dark one.

// One colour map for weights: white to blue, on a dark page nearly black to light blue.
const DARK_WEIGHTS = LIGHT_WEIGHTS.map((color) => DARK_COLORS.get(color));
function weightColors() { return isDark() ? DARK_WEIGHTS : LIGHT_WEIGHTS; }

function rgbOf(css) {
  const n = parseInt(css.slice(1), 16);
  return [(n >> 16) & 255, (n >> 8) & 255, n & 255];
}

// A colour as a pixel of a canvas.
function pixelOf(css) {
  const [r, g, b] = rgbOf(css);
  return (255 << 24) | (b << 16) | (g << 8) | r;
}

// The ink of a number on a coloured cell, as ink_on() of C++: a contrast of 4.58 or more.
function inkOn(css) {
  const [r, g, b] = rgbOf(css).map((v) => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}

function newCanvas(width, height) {
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  return canvas;
}
