#include "base/affixes.hpp"
#include "common/utf8.hpp"
#include "tokenizer/parts.hpp"
#include "unicode/byte_characters.hpp"

namespace fit::text {
namespace {

using Contents = std::vector<std::string>;
Decoder decoder_of(const io::Config& part);

const std::string replacement = "\xEF\xBF\xBD";  // U+FFFD

// The bytes of a sequence at text[at] that could begin a character and end too early; at least 1.
std::size_t broken_length(const std::string& text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(at);
  const std::size_t wanted = lead >= 0xC2 && lead < 0xE0   ? 2
                             : lead >= 0xE0 && lead < 0xF0 ? 3
                             : lead >= 0xF0 && lead < 0xF5 ? 4
                                                           : 1;
  std::size_t n = 1;
  for (; n < wanted && at + n < text.size(); ++n) {
    const unsigned b = byte(at + n);
    const unsigned low = n > 1 ? 0x80 : lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = n > 1 ? 0xBF : lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (b < low || b > high) break;
  }
  return n;
}

// Bytes as text: what is not UTF-8 becomes U+FFFD.
std::string readable(const std::string& bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t n = utf8::sequence_length(bytes, at);
    text += n == 0 ? replacement : bytes.substr(at, n);
    at += n == 0 ? broken_length(bytes, at) : n;
  }
  return text;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

void byte_level_decoder(Contents& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) bytes += unicode::bytes_of_token(token);
  tokens = {readable(bytes)};
}

// A token such as <0x0A>: its byte; -1 for others.
int byte_of_token(const std::string& token) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
  };
  if (token.size() != 6 || token.compare(0, 3, "<0x") != 0 || token[5] != '>') return -1;
  const int high = digit(token[3]), low = digit(token[4]);
  return high < 0 || low < 0 ? -1 : 16 * high + low;
}

void byte_fallback_decoder(Contents& tokens) {
  Contents all;
  std::string bytes;
  const auto finish = [&] {
    bool valid = true;
    for (std::size_t at = 0, n = 0; at < bytes.size() && valid; at += n) {
      n = utf8::sequence_length(bytes, at);
      valid = n > 0;
    }
    if (valid && !bytes.empty())
      all.push_back(bytes);
    else
      all.insert(all.end(), bytes.size(), replacement);
    bytes.clear();
  };
  for (const std::string& token : tokens) {
    if (const int byte = byte_of_token(token); byte >= 0) {
      bytes += static_cast<char>(byte);
      continue;
    }
    finish();
    all.push_back(token);
  }
  finish();
  tokens = std::move(all);
}

Decoder word_piece_decoder(const io::Config& part) {
  const std::string prefix = part.text("prefix", "##");
  const bool cleans = part.boolean("cleanup", true);
  return [=](Contents& tokens) {
    static const std::pair<const char*, const char*> cleaned[] = {
        {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
        {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0 && starts_with(tokens[i], prefix))
        tokens[i].erase(0, prefix.size());
      else if (i > 0)
        tokens[i].insert(0, " ");
      for (const auto& [from, to] : cleaned)
        if (cleans) replace_all(tokens[i], from, to);
    }
  };
}

Decoder metaspace_decoder(const io::Config& part) {
  const std::string sign = sign_in(part);
  const bool always = part.boolean("add_prefix_space", true);
  const bool prepended = part.text("prepend_scheme", always ? "always" : "never") != "never";
  part.ignore({"split", "str_rep"});
  return [=](Contents& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) replace_all(tokens[i], sign, i == 0 && prepended ? "" : " ");
  };
}

Decoder strip_decoder(const io::Config& part) {
  const std::string content = part.text("content");
  const std::int64_t start = part.integer("start"), stop = part.integer("stop");
  return [=](Contents& tokens) {
    for (std::string& token : tokens) {
      for (std::int64_t i = 0; i < start && !content.empty() && starts_with(token, content); ++i)
        token.erase(0, content.size());
      for (std::int64_t i = 0; i < stop && !content.empty() && ends_with(token, content); ++i)
        token.erase(token.size() - content.size());
    }
  };
}

Decoder replace_decoder(const io::Config& part) {
  const Pattern pattern = pattern_in(part);
  const std::string content = part.text("content");
  return [=](Contents& tokens) {
    for (std::string& token : tokens) {
      std::string replaced;
      for (const Piece& piece : pattern(token))
        replaced += piece.matches ? content : token.substr(piece.begin, piece.end - piece.begin);
      token = replaced;
    }
  };
}

Decoder word_ends(const io::Config& part) {
  const std::string suffix = part.text("suffix", "</w>");
  return [=](Contents& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      if (!suffix.empty()) replace_all(tokens[i], suffix, i + 1 == tokens.size() ? "" : " ");
  };
}

Decoder sequence_of_decoders(const io::Config& part) {
  std::vector<Decoder> all;
  for (const io::Config& one : part.objects("decoders")) all.push_back(decoder_of(one));
  return [all](Contents& tokens) {
    for (const Decoder& one : all) one(tokens);
  };
}

Decoder decoder_of(const io::Config& part) {
  const std::string type = part.text("type");
  const auto made = [&]() -> Decoder {
    if (type == "Sequence") return sequence_of_decoders(part);
    if (type == "ByteLevel") {
      part.ignore({"add_prefix_space", "trim_offsets", "use_regex"});
      return byte_level_decoder;
    }
    if (type == "ByteFallback") return byte_fallback_decoder;
    if (type == "WordPiece") return word_piece_decoder(part);
    if (type == "Metaspace") return metaspace_decoder(part);
    if (type == "Replace") return replace_decoder(part);
    if (type == "Strip") return strip_decoder(part);
    if (type == "BPEDecoder") return word_ends(part);
    if (type == "Fuse")
      return [](Contents& tokens) {
        std::string all;
        for (const std::string& token : tokens) all += token;
        tokens = {all};
      };
    fail_unknown(part, type,
                 "Sequence, ByteLevel, ByteFallback, WordPiece, Metaspace, Replace, Strip, BPEDecoder, Fuse");
  }();
  part.check_all_read();
  return made;
}

}  // namespace

Decoder decoder_of(const io::Config& outer, const std::string& key) {
  if (outer.has(key)) return decoder_of(outer.object(key));
  return [](Contents& tokens) {
    for (std::size_t i = 1; i < tokens.size(); ++i) tokens[i].insert(0, " ");
  };
}

}  // namespace fit::text
