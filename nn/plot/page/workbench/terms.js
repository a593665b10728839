// What a newcomer cannot know, in one line each, at the place: a word that tells it when it is pointed at or focused.
const TERMS = {
  head: "A head lets each token look at others: it gives weights that sum to 1.",
  layer: "Layers follow each other: each works on what the one before has written.",
  residual: "The residual stream is the vector of a token, to which each layer adds.",
  agreement: "Agreement: the share of weight on the same keys as the mean of the layer's other heads.",
  query: "The query is the token that looks.",
  key: "The key is the token that is looked at.",
  MLP: "The MLP of a layer works on each token alone, and adds to its vector.",
  composes: "An arrow leads from a head to one that reads what it wrote: without the first, so much of the second's weight moves elsewhere.",
  role: "Measured on data: the part of a head's weight on these keys beyond what even weights would give. 0 is chance, 1 all.",
};

// A word with its explanation.
function term(word, about = TERMS[word]) {
  const element = document.createElement("button");
  element.type = "button";
  element.className = "term";
  element.dataset.about = about;
  element.textContent = word;
  element.setAttribute("aria-description", about);
  return element;
}

// Shows the explanation under the word: by pointer, by focus, by touch.
function followTerms(root, tip) {
  const show = (event) => {
    const word = event.target.closest?.(".term");
    tip.hidden = !word;
    if (!word) return;
    const box = word.getBoundingClientRect(), ground = root.getBoundingClientRect();
    tip.textContent = word.dataset.about;
    tip.style.left = Math.max(0, Math.min(box.left - ground.left, ground.width - 290)) + "px";
    tip.style.top = box.bottom - ground.top + 4 + "px";
  };
  for (const name of ["pointerover", "focusin", "click"]) root.addEventListener(name, show);
  for (const name of ["pointerleave", "focusout"]) root.addEventListener(name, () => { tip.hidden = true; });
  root.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });
}
