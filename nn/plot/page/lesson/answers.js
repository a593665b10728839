// What a lesson answers to: sliders, products, symbols.

// All cases were computed; the slider shows one of them.
function prepareVary(vary, number) {
  const cases = [...vary.querySelectorAll(".case")], slider = vary.querySelector("input"), output = vary.querySelector("output");
  const marks = document.createElement("datalist"); // a mark below the slider for each case
  marks.id = `marks-${number}`;
  slider.setAttribute("list", marks.id);
  cases.forEach((_, i) => marks.append(new Option("", i)));
  slider.after(marks);
  const show = () => {
    cases.forEach((one, i) => (one.hidden = i !== Number(slider.value)));
    output.textContent = cases[slider.value].dataset.value;
    slider.setAttribute("aria-valuetext", output.textContent);
  };
  slider.addEventListener("input", show);
  // A case that was hidden had no width when its figures were placed.
  slider.addEventListener("input", () => vary.querySelectorAll(".case:not([hidden]) figure svg").forEach(placePanels));
  show();
}

// A number of the result is the sum over a row and a column: pointing at it shows all three.
function prepareProduct(product) {
  const cells = (name) => [...product.querySelectorAll(`[data-of="${name}"] tr`)].map((row) => [...row.cells]);
  const a = cells("a"), b = cells("b"), c = cells("c"), sum = product.querySelector(".sum"), play = product.querySelector(".play");
  let at = null, timer = null;
  const show = (i, j) => {
    at = [i, j];
    for (const cell of product.querySelectorAll("td")) cell.classList.remove("on", "sum-on");
    a[i].forEach((cell) => cell.classList.add("on"));
    b.forEach((row) => row[j].classList.add("on"));
    c[i][j].classList.add("sum-on");
    const signed = (text) => (text.startsWith("-") ? `(${text})` : text);
    sum.textContent = a[i].map((cell, k) => `${signed(cell.textContent)} · ${signed(b[k][j].textContent)}`).join(" + ") + " = " + c[i][j].textContent;
  };
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = "▶ Play";
  };
  c.forEach((row, i) => row.forEach((cell, j) => {
    // A pointer that rests while the page moves below it does not point.
    cell.addEventListener("pointermove", (event) => (event.movementX || event.movementY) && (stop(), show(i, j)));
    cell.addEventListener("click", () => (stop(), show(i, j)));
  }));
  product.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!way || event.target !== product) return;
    event.preventDefault();
    stop();
    const [i, j] = at ?? [0, 0], clamp = (v, n) => Math.max(0, Math.min(n - 1, v));
    if (at) show(clamp(i + way[0], c.length), clamp(j + way[1], c[0].length));
    else show(0, 0);
  });
  play.addEventListener("click", () => {
    if (timer) return stop();
    play.textContent = "❚❚ Pause";
    let n = 0;
    const step = () => {
      if (n === c.length * c[0].length) return stop();
      show(Math.floor(n / c[0].length), n % c[0].length);
      ++n;
    };
    step();
    timer = setInterval(step, 900);
  });
}

// A symbol of a formula marks its name wherever the lesson uses it, and the figures that are drawn from it.
function prepareSymbol(symbol) {
  const name = symbol.dataset.name;
  const words = [...document.querySelectorAll(".code .word, p code, li code, figure text")].filter((word) => word.textContent === name);
  const others = [...document.querySelectorAll("math [data-name]")].filter((other) => other.dataset.name === name);
  const figures = [...document.querySelectorAll("figure[data-names]")].filter((figure) => figure.dataset.names.includes(` ${name} `));
  const light = (on) => () => [...words, ...others, ...figures].forEach((word) => word.classList.toggle("named", on));
  symbol.setAttribute("title", name);
  for (const [event, on] of [["pointerenter", true], ["focus", true], ["pointerleave", false], ["blur", false]])
    symbol.addEventListener(event, light(on));
}

function prepareAnswers() {
  prepareQuestions();
  document.querySelectorAll(".text-view").forEach(prepareText);
  document.querySelectorAll(".vary").forEach(prepareVary);
  document.querySelectorAll(".product").forEach(prepareProduct);
  document.querySelectorAll("math [data-name]").forEach(prepareSymbol);
}
