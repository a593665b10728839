// Words, divided by white space. The model knows no others.
class Words {
  constructor(tokens) {
    this.tokens = tokens;
    this.ids = new Map(tokens.map((token, id) => [token, id]));
  }

  // Throws an Error for the reader.
  encode(text) {
    return text.toLowerCase().replaceAll(".", " .").split(/\s+/).filter(Boolean).map((word) => {
      const id = this.ids.get(word);
      if (id === undefined) throw new Error(`The model does not know “${word}”. It knows ${this.tokens.length} words: they stand below the field.`);
      return id;
    });
  }

  decode(ids) { return ids.map((id) => this.tokens[id]).join(" "); }
  shown(id) { return this.tokens[id]; }
}

const vocabulary = new Words(data.words);
