#include "tokenizer/charsmap.hpp"
#include "tokenizer/parts.hpp"
#include "tokenizer/regex.hpp"
#include "unicode/characters.hpp"

namespace fit::text {

void fail_unknown(const io::Config& part, const std::string& type, const char* known) {
  part.fail("type", " is '", io::shown(type), "': those known here are ", known);
}

std::string sign_in(const io::Config& part) {
  const std::string sign = part.text("replacement");
  if (characters(sign).size() != 1) part.fail("replacement", " is '", io::shown(sign), "': expected one character");
  return sign;
}

Pattern pattern_in(const io::Config& part) {
  const io::Config pattern = part.object("pattern");
  if (pattern.has("String")) return pattern_of(pattern.text("String"));
  return pattern_of(Regex(pattern.text("Regex")));
}

namespace {

Normalizer normalizer_of(const io::Config& part);

unicode::Changes lower_case_changes(const std::vector<char32_t>& text) {
  unicode::Changes all;
  all.reserve(text.size());
  for (const char32_t c : text) {
    if (c < 0x80) {
      all.push_back({c >= U'A' && c <= U'Z' ? c + 32 : c, 0});
      continue;
    }
    int added = 0;
    for (const char32_t lower : unicode::lower_case_of(c)) all.push_back({lower, added++ > 0});
  }
  return all;
}

void space_around_chinese(Normalized& x) {
  unicode::Changes changes;
  for (const char32_t c : characters(x.text())) {
    if (unicode::is_chinese(c))
      changes.insert(changes.end(), {{U' ', 0}, {c, 1}, {U' ', 1}});
    else
      changes.push_back({c, 0});
  }
  x.transform(changes);
}

// SentencePiece's normalisation for translation: without control characters, and with one kind of space.
void normalize_for_translation(Normalized& x) {
  x.keep([](char32_t c) {
    return !((c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F);
  });
  x.map([](char32_t c) {
    const bool space = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
                       (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF ||
                       c == 0xFFFD;
    return space ? U' ' : c;
  });
}

Normalizer normal_form(unicode::Changes (*form)(const unicode::Points&, unicode::Equivalence),
                       unicode::Equivalence to) {
  return [=](Normalized& x) { x.transform(form(characters(x.text()), to)); };
}

Normalizer bert_normalizer(const io::Config& part) {
  const bool clean = part.boolean("clean_text", true), chinese = part.boolean("handle_chinese_chars", true);
  const bool lower = part.boolean("lowercase", true), strip = part.boolean("strip_accents", lower);
  return [=](Normalized& x) {
    if (clean) {
      x.keep([](char32_t c) { return !unicode::is_control(c); });
      x.map([](char32_t c) { return unicode::is_space(c) ? U' ' : c; });
    }
    if (chinese) space_around_chinese(x);
    if (strip) {
      x.transform(unicode::decomposed(characters(x.text())));
      x.keep([](char32_t c) { return !unicode::is_nonspacing(c); });
    }
    if (lower) x.transform(lower_case_changes(characters(x.text())));
  };
}

Normalizer sequence_of_normalizers(const io::Config& part) {
  std::vector<Normalizer> all;
  for (const io::Config& one : part.objects("normalizers")) all.push_back(normalizer_of(one));
  return [all](Normalized& x) {
    for (const Normalizer& one : all) one(x);
  };
}

Normalizer normalizer_of(const io::Config& part) {
  const std::string type = part.text("type");
  const auto made = [&]() -> Normalizer {
    if (type == "Sequence") return sequence_of_normalizers(part);
    if (type == "BertNormalizer") return bert_normalizer(part);
    if (type == "NFC") return normal_form(unicode::composed, unicode::Equivalence::canonical);
    if (type == "NFD") return normal_form(unicode::decomposed, unicode::Equivalence::canonical);
    if (type == "NFKC") return normal_form(unicode::composed, unicode::Equivalence::compatible);
    if (type == "NFKD") return normal_form(unicode::decomposed, unicode::Equivalence::compatible);
    if (type == "Nmt") return normalize_for_translation;
    if (type == "Precompiled")
      return [map = Charsmap(part.text("precompiled_charsmap"))](Normalized& x) { map.normalize(x); };
    if (type == "Lowercase") return [](Normalized& x) { x.transform(lower_case_changes(characters(x.text()))); };
    if (type == "StripAccents")
      return [](Normalized& x) { x.keep([](char32_t c) { return !unicode::is_combining(c); }); };
    if (type == "Strip")
      return [left = part.boolean("strip_left"), right = part.boolean("strip_right")](Normalized& x) {
        x.strip(left, right);
      };
    if (type == "Prepend") return [text = part.text("prepend")](Normalized& x) { x.prepend(text); };
    if (type == "Replace")
      return
          [pattern = pattern_in(part), content = part.text("content")](Normalized& x) { x.replace(pattern, content); };
    fail_unknown(part, type,
                 "Sequence, BertNormalizer, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, Lowercase, StripAccents, Strip, "
                 "Prepend, Replace");
  }();
  part.check_all_read();
  return made;
}

}  // namespace

Normalizer normalizer_of(const io::Config& outer, const std::string& key) {
  if (!outer.has(key)) return [](Normalized&) {};
  return normalizer_of(outer.object(key));
}

}  // namespace fit::text
