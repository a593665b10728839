// A symbol of a formula marks its name wherever the lesson uses it.
function prepareSymbol(symbol) {
  const name = symbol.dataset.name;
  const words = [...document.querySelectorAll(".code .word, p code, li code, figure text")].filter((word) => word.textContent === name);
  const others = [...document.querySelectorAll("math [data-name]")].filter((other) => other.dataset.name === name);
  const light = (on) => () => [...words, ...others].forEach((word) => word.classList.toggle("named", on));
  symbol.setAttribute("title", name);
  for (const [event, on] of [["pointerenter", true], ["focus", true], ["pointerleave", false], ["blur", false]])
    symbol.addEventListener(event, light(on));
}
