// From a text to the ids of tokens and back, as text::Vocabulary does it. A page has one of these kinds.

// One token for each character. A capital that is not known is read as its small letter.
class Characters {
  constructor(tokens) {
    this.tokens = tokens;
    this.ids = new Map(tokens.map((token, id) => [token, id]));
  }

  // Throws an Error for the reader.
  encode(text) {
    return Array.from(text, (letter) => {
      const id = this.ids.get(letter) ?? this.ids.get(letter.toLowerCase());
      if (id === undefined) throw new Error(`The model does not know “${letter}”. It knows: ${this.tokens.map(shown).join("")}`);
      return id;
    });
  }

  decode(ids) { return ids.map((id) => this.tokens[id]).join(""); }
  shown(id) { return shown(this.tokens[id]); }
}

// Byte pairs: each letter of a token stands for a byte. `words` is a pattern; in the bytes of each of its matches the
// first of `merges` [token, token, joined] is applied repeatedly. `whole` is a text that is one token, `end`, or null.
class BytePairs {
  constructor(tokens, { bytes, merges, words, whole, end }) {
    Object.assign(this, { bytes, whole, end, words: new RegExp(words, "gu"), size: tokens.length });
    this.tokens = tokens.map((token) => Uint8Array.from(token, (letter) => letter.charCodeAt(0)));
    this.merges = new Map(merges.map(([a, b, joined], rank) => [a * this.size + b, { rank, joined }]));
  }

  encode(text) {
    const parts = this.whole === null ? [text] : text.split(this.whole);
    return parts.flatMap((part, i) => [...(i > 0 ? [this.end] : []), ...(part.match(this.words) ?? []).flatMap((word) => this.joined(word))]);
  }

  joined(word) {
    let ids = Array.from(new TextEncoder().encode(word), (byte) => this.bytes[byte]);
    const mergeAt = (i) => this.merges.get(ids[i] * this.size + ids[i + 1]);
    while (true) {
      let first = null;
      for (let i = 0; i + 1 < ids.length; ++i) if (mergeAt(i)?.rank < (first?.rank ?? Infinity)) first = mergeAt(i);
      if (!first) return ids;
      const next = [];
      for (let i = 0; i < ids.length; ++i) {
        const here = i + 1 < ids.length && mergeAt(i) === first;
        next.push(here ? first.joined : ids[i]);
        if (here) ++i;
      }
      ids = next;
    }
  }

  // A part of a character becomes U+FFFD.
  decode(ids) {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(ids.flatMap((id) => [...this.tokens[id]])));
  }

  shown(id) {
    const text = this.decode([id]);
    return text.includes("\ufffd") ? Array.from(this.tokens[id], (byte) => "\\x" + byte.toString(16)).join("") : shown(text);
  }
}

const vocabulary = data.pairs ? new BytePairs(data.tokens, data.pairs) : new Characters(data.tokens ?? []);
