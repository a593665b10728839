// Questions: a choice, numbers, or a cell of a map. Each try gets a word.

// "1/4" and "0,25" are numbers, too.
function numberOf(text) {
  const [top, bottom = "1", ...more] = text.trim().replaceAll(",", ".").split("/");
  return text.trim() === "" || more.length ? NaN : Number(top) / Number(bottom);
}

class QuestionView {
  constructor(root) {
    this.root = root;
    this.said = root.querySelector(".said");
    this.words = [...root.querySelectorAll(".word")];
    this.right = this.words.find((word) => "right" in word.dataset);
    this.other = this.words.find((word) => "otherwise" in word.dataset);
    const form = root.querySelector("form");
    this.giveUp = document.createElement("button");
    Object.assign(this.giveUp, { type: "button", className: "give-up", textContent: "Show the answer", hidden: true });
    this.giveUp.addEventListener("click", () => this.answer());
    form.append(this.giveUp);
    form.addEventListener("submit", (event) => (event.preventDefault(), this.check()));
    this.choices = [...root.querySelectorAll(".choice")];
    this.choices.forEach((choice, i) => choice.addEventListener("click", () => this.choose(i)));
    this.numbers = [...root.querySelectorAll("input")];
    this.within = Number(root.querySelector("table")?.dataset.within);
    root.querySelector("figure")?.addEventListener("click", (event) => this.point(event.target.closest("rect.cell")));
    root.querySelector("figure")?.addEventListener("keydown", (event) => event.key === "Enter" && this.point(reached));
  }

  // The word on a try, with what stands before it.
  say(word, before = "") {
    const solved = word === this.right, shown = word.cloneNode(true);
    shown.hidden = false;
    this.root.classList.toggle("solved", solved);
    this.said.classList.toggle("wrong", !solved);
    this.said.replaceChildren(before, shown);
    if (solved && document.activeElement === this.giveUp) this.said.focus();
    this.giveUp.hidden = solved;
    if (solved) keepAnswered();
  }

  choose(i) {
    const word = this.words[i];
    this.choices[i].classList.add(word === this.right ? "right" : "wrong");
    this.say(word, `${this.choices[i].textContent}: `);
  }

  check() {
    const wrong = this.numbers.filter((input) => !(Math.abs(numberOf(input.value) - Number(input.dataset.value)) <= this.within));
    this.numbers.forEach((input) => input.setAttribute("aria-invalid", wrong.includes(input)));
    if (wrong.length === 0) return this.say(this.right);
    const count = this.numbers.length - wrong.length;
    const mistake = this.numbers.length === 1 && this.words.find((word) => word.dataset.answer && numberOf(word.dataset.answer) === numberOf(wrong[0].value));
    this.say(mistake || this.other, this.numbers.length > 1 ? `${count} of ${this.numbers.length} numbers are right. ` : "");
  }

  point(cell) {
    const name = cell?.dataset.says?.split(": ")[0];
    if (!name) return;
    this.root.querySelectorAll(".chosen").forEach((other) => other.classList.remove("chosen"));
    cell.classList.add("chosen");
    this.say(this.words.find((word) => word.dataset.answer === name) ?? this.other, `${name}: `);
  }

  answer() {
    this.numbers.forEach((input) => (input.value = String(Number(Number(input.dataset.value).toFixed(4)))));
    this.choices[this.words.indexOf(this.right)]?.classList.add("right");
    const cell = [...this.root.querySelectorAll("rect.cell")].find((one) => one.dataset.says?.startsWith(`${this.right.dataset.answer}: `));
    if (this.numbers.length) this.check();
    else if (cell) this.point(cell);
    else this.say(this.right, `${this.right.dataset.answer ?? ""}: `);
  }
}

// How many questions of each page are answered, for the home page of a course: { page: [answered, all] }. A browser may
// forbid to keep it.
const ANSWERED_KEY = "fit-answered";

function answeredPages() {
  try { return JSON.parse(localStorage.getItem(ANSWERED_KEY)) ?? {}; } catch { return {}; }
}

function pageName(address) { return new URL(address).pathname.split("/").at(-1); }

function keepAnswered() {
  const pages = answeredPages(), name = pageName(location.href), all = document.querySelectorAll(".question").length;
  pages[name] = [Math.max(pages[name]?.[0] ?? 0, document.querySelectorAll(".question.solved").length), all];
  try { localStorage.setItem(ANSWERED_KEY, JSON.stringify(pages)); } catch { /* the next page does not know it */ }
}

function showAnswered() {
  const pages = answeredPages();
  for (const link of document.querySelectorAll("li > a[href$='.html']")) {
    const [count, all] = pages[pageName(link.href)] ?? [];
    if (all) link.after(` · ${count} of ${all} questions answered`);
  }
}

// On paper the answers stand at the end, not below the questions.
function prepareQuestions() {
  showAnswered();
  const views = [...document.querySelectorAll(".question")].map((root) => new QuestionView(root));
  if (views.length === 0) return;
  const list = document.createElement("ol"), section = document.createElement("section"), title = document.createElement("h2");
  section.className = "answers";
  title.textContent = "Answers";
  for (const { right, numbers, choices, words } of views) {
    const item = document.createElement("li");
    const said = choices.length ? choices[words.indexOf(right)].textContent : numbers.length ? numbers.map((n) => Number(Number(n.dataset.value).toFixed(4))).join(", ") : right.dataset.answer;
    item.append(`${said}. `, ...right.cloneNode(true).childNodes);
    list.append(item);
  }
  section.append(title, list);
  document.querySelector("main").append(section);
}
