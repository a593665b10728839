#include "base/affixes.hpp"
#include "common/utf8.hpp"
#include "tokenizer/parts.hpp"
#include "tokenizer/regex.hpp"
#include "unicode/byte_characters.hpp"
#include "unicode/characters.hpp"

namespace fit::text {

const char* const gpt2_pattern = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

namespace {

PreTokenizers pre_tokenizers_of(const io::Config& part);

template <class Change>
void each_part(std::vector<Normalized>& parts, const Change& change) {
  if (parts.size() == 1) return void(parts = change(parts[0]));
  std::vector<Normalized> all;
  for (Normalized& part : parts)
    for (Normalized& one : change(part)) all.push_back(std::move(one));
  parts = std::move(all);
}

PreTokenizer splits(const Pattern& pattern, Behavior behavior) {
  return [=](std::vector<Normalized>& parts) {
    each_part(parts, [&](const Normalized& part) { return part.split(pattern, behavior); });
  };
}

Behavior behavior_of(const io::Config& part, const io::Config::Value& absent = {}) {
  const std::string name = part.text("behavior", absent);
  static const std::pair<const char*, Behavior> all[] = {{"Removed", Behavior::removed},
                                                         {"Isolated", Behavior::isolated},
                                                         {"MergedWithPrevious", Behavior::merged_with_previous},
                                                         {"MergedWithNext", Behavior::merged_with_next},
                                                         {"Contiguous", Behavior::contiguous}};
  for (const auto& [known, behavior] : all)
    if (name == known) return behavior;
  part.fail("behavior", " is '", io::shown(name), "': it is not known here");
}

void to_byte_characters(Normalized& part) {
  const std::string text = part.text();
  unicode::Changes changes;
  for (const char b : text)
    changes.push_back(
        {unicode::character_of_byte(static_cast<unsigned char>(b)), (static_cast<unsigned char>(b) & 0xC0) == 0x80});
  part.transform(changes);
}

PreTokenizers byte_level(const io::Config& part) {
  const bool prefix = part.boolean("add_prefix_space", true), uses_pattern = part.boolean("use_regex", true);
  part.ignore({"trim_offsets"});
  const PreTokenizer words = splits(pattern_of(Regex(gpt2_pattern)), Behavior::isolated);
  return {[=](std::vector<Normalized>& parts) {
            for (Normalized& one : parts)
              if (prefix && one.text()[0] != ' ') one.prepend(" ");
            if (uses_pattern) words(parts);
          },
          [](std::vector<Normalized>& parts) {
            for (Normalized& one : parts) to_byte_characters(one);
          }};
}

PreTokenizer metaspace(const io::Config& part) {
  const std::string sign = sign_in(part);
  const bool always = part.boolean("add_prefix_space", true);
  const std::string scheme = part.text("prepend_scheme", always ? "always" : "never");
  const bool splits_words = part.boolean("split", true);
  part.ignore({"str_rep"});
  if (scheme != "always" && scheme != "first" && scheme != "never")
    part.fail("prepend_scheme", " is '", io::shown(scheme), "': expected always, first or never");
  const Pattern space = pattern_of(std::string(" ")), sign_pattern = pattern_of(sign);
  return [=](std::vector<Normalized>& parts) {
    each_part(parts, [&](Normalized& one) {
      one.replace(space, sign);
      if (!starts_with(one.text(), sign) && (scheme == "always" || (scheme == "first" && one.is_first())))
        one.prepend(sign);
      return splits_words ? one.split(sign_pattern, Behavior::merged_with_next) : std::vector<Normalized>{one};
    });
  };
}

PreTokenizer split_by(const io::Config& part) {
  const Pattern pattern = pattern_in(part);
  return splits(part.boolean("invert", false) ? inverted(pattern) : pattern, behavior_of(part));
}

PreTokenizers sequence_of_pre_tokenizers(const io::Config& part) {
  PreTokenizers all;
  for (const io::Config& one : part.objects("pretokenizers"))
    for (PreTokenizer& step : pre_tokenizers_of(one)) all.push_back(std::move(step));
  return all;
}

PreTokenizers bert_pre_tokenizer() {
  return {splits(pattern_of(unicode::is_space), Behavior::removed),
          splits(pattern_of(unicode::is_punctuation), Behavior::isolated)};
}

// \w+|[^\w\s]+
PreTokenizer words_and_signs() {
  const auto kind = [](char32_t c) { return unicode::is_word(c) ? 1 : unicode::is_space(c) ? 0 : 2; };
  return [kind](std::vector<Normalized>& parts) {
    each_part(parts, [&](const Normalized& part) {
      std::vector<Normalized> words;
      const std::vector<char32_t> all = characters(part.text());
      for (std::size_t i = 0, byte = 0; i < all.size();) {
        const std::size_t begin = i, first = byte;
        for (; i < all.size() && kind(all[i]) == kind(all[begin]); ++i) byte += utf8::size(all[i]);
        if (kind(all[begin]) != 0) words.push_back(part.slice(first, byte));
      }
      return words;
    });
  };
}

PreTokenizers pre_tokenizers_of(const io::Config& part) {
  const std::string type = part.text("type");
  const auto made = [&]() -> PreTokenizers {
    if (type == "Sequence") return sequence_of_pre_tokenizers(part);
    if (type == "ByteLevel") return byte_level(part);
    if (type == "Metaspace") return {metaspace(part)};
    if (type == "Split") return {split_by(part)};
    if (type == "Digits")
      return {splits(pattern_of(unicode::is_numeric),
                     part.boolean("individual_digits", false) ? Behavior::isolated : Behavior::contiguous)};
    if (type == "BertPreTokenizer") return bert_pre_tokenizer();
    if (type == "Whitespace") return {words_and_signs()};
    if (type == "WhitespaceSplit") return {splits(pattern_of(unicode::is_space), Behavior::removed)};
    if (type == "Punctuation") return {splits(pattern_of(unicode::is_punctuation), behavior_of(part, "Isolated"))};
    fail_unknown(part, type,
                 "Sequence, ByteLevel, Metaspace, Split, Digits, BertPreTokenizer, Whitespace, WhitespaceSplit, "
                 "Punctuation");
  }();
  part.check_all_read();
  return made;
}

}  // namespace

PreTokenizers pre_tokenizers_of(const io::Config& outer, const std::string& key) {
  return outer.has(key) ? pre_tokenizers_of(outer.object(key)) : PreTokenizers();
}

PreTokenizer ascii_words() {
  return splits(pattern_of([](char32_t c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }),
                Behavior::removed);
}

PreTokenizer each_normalized(const Normalizer& normalizer) {
  return [=](std::vector<Normalized>& parts) {
    for (Normalized& one : parts) normalizer(one);
  };
}

}  // namespace fit::text
