#include "tokenizer/parts.hpp"

namespace fit::text {
namespace {

void read_frame(const io::Config& part, Frame& frame);

Token special(std::int64_t id, const std::string& content) { return {id, content, {0, 0}}; }

// ["[SEP]", 102]
Token pair_in(const io::Config& part, const std::string& key) {
  const io::Config::Value& pair = part.value(key);
  if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_natural())
    part.fail(key, " is ", io::shown(pair.dump()), ": expected a token and its id");
  return special(pair[1].integer(), pair[0].text());
}

void put(Frame& frame, const Token& before, const Token& behind) {
  frame.before.push_back(before);
  frame.behind.push_back(behind);
}

// The tokens for which a name of a template stands.
std::vector<Token> tokens_named(const io::Config& part, const std::string& name) {
  const io::Config token = part.object("special_tokens").object(name);
  const io::Config::Value &ids = token.value("ids"), &contents = token.value("tokens");
  if (!ids.is_array() || !contents.is_array() || ids.size() != contents.size())
    token.fail("ids", " and tokens must be lists of one length");
  std::vector<Token> all;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!ids[i].is_natural() || !contents[i].is_string())
      token.fail("ids", " is ", io::shown(ids.dump()), ": expected ids, and tokens their contents");
    all.push_back(special(ids[i].integer(), contents[i].text()));
  }
  return all;
}

void read_template(const io::Config& part, Frame& frame) {
  bool seen = false;
  for (const io::Config& piece : part.objects("single")) {
    if (piece.has("Sequence")) {
      if (seen || piece.object("Sequence").text("id") != "A") part.fail("single", " must have the sequence A once");
      seen = true;
      continue;
    }
    for (const Token& token : tokens_named(part, piece.object("SpecialToken").text("id")))
      (seen ? frame.behind : frame.before).push_back(token);
  }
  if (!seen) part.fail("single", " must have the sequence A once");
  part.ignore({"pair", "special_tokens"});
}

void read_frame(const io::Config& part, Frame& frame) {
  const std::string type = part.text("type");
  if (type == "Sequence") {
    for (const io::Config& one : part.objects("processors")) read_frame(one, frame);
  } else if (type == "TemplateProcessing") {
    read_template(part, frame);
  } else if (type == "BertProcessing") {
    put(frame, pair_in(part, "cls"), pair_in(part, "sep"));
  } else if (type == "RobertaProcessing") {
    put(frame, pair_in(part, "cls"), pair_in(part, "sep"));
    frame.trims = part.boolean("trim_offsets", true);
    frame.prefix_space = part.boolean("add_prefix_space", true);
  } else if (type == "ByteLevel") {
    frame.trims = part.boolean("trim_offsets", true);
    frame.prefix_space = part.boolean("add_prefix_space", true);
    part.ignore({"use_regex"});
  } else {
    fail_unknown(part, type, "Sequence, TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel");
  }
  part.check_all_read();
}

}  // namespace

Frame frame_of(const io::Config& outer, const std::string& key) {
  Frame frame;
  if (outer.has(key)) read_frame(outer.object(key), frame);
  return frame;
}

}  // namespace fit::text
