// Colours for the C++ of a lesson.
const KEYWORDS = new Set(("alignas auto bool break case catch char class const constexpr continue default delete do double else enum explicit " +
  "false final float for friend if inline int long mutable namespace new noexcept nullptr operator override private protected public return " +
  "short signed sizeof static struct switch template this throw true try typedef typename union unsigned using virtual void volatile while").split(" "));

const TOKENS = new RegExp([
  /(?<comment>\/\/[^\n]*|\/\*[^]*?\*\/)/,
  /(?<text>R"(?<mark>[^(\s]*)\([^]*?\)\k<mark>"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'|(?<=#include )<[^>\n]+>)/,
  /(?<number>\b\d[\w.']*(?:(?<=[eE])[+-]\d+)?)/,
  /(?<directive>#\w+)/,
  /(?<word>[A-Za-z_]\w*)/,
].map((part) => part.source).join("|"), "g");

function kindOf({ comment, text, number, directive, word }, next) {
  if (comment) return "comment";
  if (text) return "text";
  if (number) return "number";
  if (directive || KEYWORDS.has(word)) return "keyword";
  if (/^[A-Z]/.test(word) || /^(std|fit|nn|plot|optim|int64_t)$/.test(word)) return "type";
  return next === "(" ? "call" : word ? "plain" : null;
}

function colorCode(code) {
  const text = code.textContent, parts = [];
  let end = 0;
  for (const match of text.matchAll(TOKENS)) {
    const after = match.index + match[0].length, kind = kindOf(match.groups, text[after]);
    if (!kind) continue;
    parts.push(text.slice(end, match.index));
    const span = document.createElement("span");
    span.className = match.groups.word ? kind + " word" : kind;
    span.textContent = match[0];
    parts.push(span);
    end = after;
  }
  code.replaceChildren(...parts, text.slice(end));
}

// Each piece of code has a button that copies it.
function addCopyButton(pre) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(pre.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(pre);
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  const box = document.createElement("div");
  box.className = "code-box";
  pre.replaceWith(box);
  box.append(pre, button);
}
