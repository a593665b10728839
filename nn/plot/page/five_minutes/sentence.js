// The sentence: words coloured by the weight that the chosen word, the query, gives them, and arcs to them.

function element(name, className, ...children) {
  const e = document.createElement(name);
  if (className) e.className = className;
  e.append(...children);
  return e;
}

// The colour of a weight, and the ink on it.
function paintWeight(e, weight) {
  const colors = weightColors(), color = colors[Math.round(Math.min(1, weight) * (colors.length - 1))];
  e.style.background = color;
  e.style.color = inkOn(color);
}

class SentenceView {
  // point(t) and choose(t): the pointer or a click is on word t.
  constructor(words, arcs, { point, choose }) {
    Object.assign(this, { words, arcs, items: [], boxes: [] });
    const at = (event) => event.target.closest("[data-at]")?.dataset.at;
    words.addEventListener("pointermove", (event) => event.pointerType !== "touch" && at(event) !== undefined && point(Number(at(event))));
    words.addEventListener("click", (event) => at(event) !== undefined && choose(Number(at(event))));
    new ResizeObserver(() => this.place()).observe(words);
  }

  // The words of a text, and the model's guess behind them.
  setWords(texts) {
    this.shown = null;
    this.items = texts.map((text, t) => {
      const word = element("span", "word", element("b", "", text), element("small"));
      word.id = `word-${t}`;
      word.dataset.at = t;
      word.setAttribute("role", "option");
      return word;
    });
    this.guess = element("span", "word guess", element("b"), element("small"));
    this.guess.setAttribute("role", "presentation");
    this.words.replaceChildren(...this.items, this.guess);
    this.place();
  }

  // Measures where the words stand: once, not at each move of the pointer.
  place() {
    const { left, top, width, height } = this.arcs.parentElement.getBoundingClientRect();
    this.boxes = this.items.map((item) => {
      const box = item.getBoundingClientRect();
      return { x: box.left - left + box.width / 2, y: box.top - top, bottom: box.bottom - top };
    });
    this.arcs.setAttribute("viewBox", `0 0 ${width} ${height}`);
    if (this.shown) this.draw(...this.shown);
  }

  draw(weights, query, key, guess) {
    this.shown = [weights, query, key, guess];
    this.items.forEach((word, t) => {
      word.setAttribute("aria-selected", t === query);
      word.classList.toggle("asks", t === query);
      word.classList.toggle("answers", t === key);
      word.classList.toggle("later", t > query);
      word.lastChild.textContent = t > query ? "later" : percent(weights[t]);
      word.setAttribute("aria-label", `${word.firstChild.textContent}, ${t > query ? "comes later" : percent(weights[t])}`);
      if (t > query) word.style.background = word.style.color = "";
      else paintWeight(word, weights[t]);
    });
    this.words.setAttribute("aria-activedescendant", `word-${query}`);
    this.guess.firstChild.textContent = guess.word;
    this.guess.lastChild.textContent = `guess ${percent(guess.chance)}`;
    this.guess.title = `the model's guess for the word behind “${this.items[query].firstChild.textContent}”`;
    this.arcs.replaceChildren(...weights.map((w, t) => (t > query || w < 0.01 ? null : this.arc(query, t, w, t === key))).filter(Boolean));
  }

  arc(from, to, weight, chosen) {
    const a = this.boxes[from], b = this.boxes[to];
    if (!a || !b) return null;
    return svgElement("path", { d: arcPath(a, b), class: chosen ? "chosen" : "", "stroke-width": (1 + 7 * weight).toFixed(2), opacity: chosen ? 1 : (0.25 + 0.75 * weight).toFixed(2) });
  }
}

// A line of words coloured by weight, with the guess: the same as above, small.
function drawMini(place, texts, weights, query, guess) {
  place.replaceChildren(...texts.map((text, t) => {
    const word = element("span", t === query ? "asks" : t > query ? "later" : "", text);
    if (t <= query) paintWeight(word, weights[t]);
    return word;
  }), element("span", "guess", `→ ${guess.word} ${percent(guess.chance)}`));
}
