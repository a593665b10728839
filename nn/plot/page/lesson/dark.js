// C++ writes figures, and the colours of a terminal, for a light page. A dark page replaces each colour by the one at the
// same place of the dark theme (shared/colors.js).
const painted = []; // a function of "dark" for each attribute that has such a colour

function rememberColors() {
  for (const name of ["fill", "stroke"])
    for (const element of document.querySelectorAll(`figure svg [${name}]:not(.on-cell)`)) {
      const light = element.getAttribute(name), dark = DARK_COLORS.get(light);
      if (dark) painted.push((night) => element.setAttribute(name, night ? dark : light));
    }
  for (const number of document.querySelectorAll("figure .turns")) {
    const light = number.getAttribute("fill"), dark = light === "#ffffff" ? "#000000" : "#ffffff";
    painted.push((night) => number.setAttribute("fill", night ? dark : light));
  }
  for (const cell of document.querySelectorAll(".printed span")) {
    const light = cell.getAttribute("style"), dark = DARK_COLORS.get(light.match(/background:(#\w+)/)?.[1]);
    if (dark) painted.push((night) => cell.setAttribute("style", night ? `background:${dark};color:${inkOn(dark)}` : light));
  }
}

// An image's address, with its pixels in dark colours.
async function darkImage(href) {
  const { width, height, colors } = await pixelsOf(href);
  const canvas = newCanvas(width, height), context = canvas.getContext("2d"), image = context.createImageData(width, height);
  const dark = new Map([...DARK_COLORS].map(([from, to]) => [pixelOf(from), pixelOf(to)]));
  new Int32Array(image.data.buffer).set(colors.map((color) => dark.get(color) ?? color));
  context.putImageData(image, 0, 0);
  return canvas.toDataURL();
}

// Most colour bars are the same image.
async function rememberImages() {
  const made = new Map();
  for (const image of document.querySelectorAll("figure image")) {
    const light = image.getAttribute("href");
    if (!made.has(light)) made.set(light, await darkImage(light));
    painted.push((night) => image.setAttribute("href", night ? made.get(light) : light));
  }
}

// Printing does not wait for images: the dark ones are made before the page is ready.
async function prepareColors() {
  rememberColors();
  await rememberImages();
  const show = () => painted.forEach((paint) => paint(isDark()));
  document.addEventListener("theme", show);
  show();
}
