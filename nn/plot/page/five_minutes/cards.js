// Twelve cards lead through the page. Each lights up what it speaks of. {query}, {key}, {weight} and {guess} are those of
// the moment; `act` puts the page into a state (main.js).
const CARDS = [
  { at: "sentence", act: "first", text: "This small model reads words and guesses the next one. It learned from made-up sentences, in seconds. Point at any word: arcs show where it looks." },
  { at: "sentence", act: "first", text: "To guess “{guess}”, the model must know who is meant. “{query}” looks back, and {weight} of its attention goes to “{key}”." },
  { at: "heads", text: "The model looks in several ways at once: these are its heads. Switch between them. Each head learned by itself what to look for." },
  { at: "vectors", text: "How does it find the word? Each word makes a query, what it looks for, and a key, what it offers. Both are just numbers." },
  { at: "product", text: "Multiply query and key number by number, and add. Numbers of the same sign raise the score: “{key}” is what “{query}” looks for." },
  { at: "scale", act: "mask", text: "Dividing keeps scores small, so that no word wins too early in the training. The mask hides later words: guessing must not mean peeking." },
  { at: "softmax", text: "Softmax makes shares of scores. A slightly larger score wins clearly, but every word keeps a little. All shares add up to 100 %." },
  { at: "values", text: "A third vector, the value, is what a word tells. “{query}” receives mostly the value of “{key}”, because its share is {weight}." },
  { at: "prediction", text: "Does it matter? The thin bars are the guess without this head. Try another head: its absence changes less, or something else." },
  { at: "stream", text: "The word's vector travels from top to bottom: attention adds what it read, the MLP works on it in place. Only the last stage must be right." },
  { at: "training", text: "Nobody programmed this. At step 0 the model looks anywhere. Drag the slider, or press play, and watch the head find its word." },
  { at: "own", text: "Now write your own sentence. Try dogs instead of girl, or two old kings. Where does the model look, and when is it wrong?" },
];

class Guide {
  // enter(card) is called when a card is shown; fill(text) puts names into its text.
  constructor({ enter, fill }) {
    Object.assign(this, { at: 0, enter, fill });
    byId("card-back").addEventListener("click", () => this.go(this.at - 1));
    byId("card-next").addEventListener("click", () => this.go(this.at + 1));
    byId("guide-close").addEventListener("click", () => this.open(false));
    byId("guide-open").addEventListener("click", () => this.open(true));
    document.addEventListener("keydown", (event) => {
      const by = { n: 1, p: -1 }[event.key];
      if (by && !event.ctrlKey && !event.altKey && !event.metaKey && !event.target.closest("input, select")) this.go(this.at + by);
    });
  }

  open(is) {
    byId("card").hidden = !is;
    byId("guide-open").hidden = is;
    this.light(is);
    if (is) byId("card-next").focus();
    else byId("guide-open").focus();
  }

  light(is) {
    for (const old of document.querySelectorAll(".lit")) old.classList.remove("lit");
    if (is) byId(CARDS[this.at].at).classList.add("lit");
  }

  // Shows a card, and what it speaks of.
  go(at) {
    this.at = Math.max(0, Math.min(CARDS.length - 1, at));
    this.enter(CARDS[this.at]);
    this.light(true);
    this.write();
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches, target = byId(CARDS[this.at].at);
    target.scrollIntoView({ block: at < 3 ? "nearest" : "center", behavior: still ? "instant" : "smooth" });
  }

  // Writes the words of the card anew: the page shows another pair.
  write() {
    byId("card-text").textContent = this.fill(CARDS[this.at].text);
    byId("card-number").textContent = `${this.at + 1} of ${CARDS.length}`;
    byId("card-back").disabled = this.at === 0;
    byId("card-next").disabled = this.at === CARDS.length - 1;
  }

  // For paper: all cards.
  list() { return CARDS.map(({ text }) => element("li", "", this.fill(text))); }
}
