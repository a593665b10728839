#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/config.hpp"
#include "tokenizer/normalized.hpp"

// The parts of a tokenizer.json. Each is made from an object of that file, whose "type" says which it is.
namespace fit::text {

using Ids = std::vector<std::int64_t>;
/// Ids are below this.
inline constexpr std::int64_t largest_id = std::int64_t{1} << 31;

/// A token of a text, and the bytes of the text that it stands for.
struct Token {
  std::int64_t id;
  std::string content;  // as the vocabulary has it
  Span span;
};

using Normalizer = std::function<void(Normalized&)>;
/// A step of splitting. It changes each part by itself, and of what stands before one it knows is_first() alone.
using PreTokenizer = std::function<void(std::vector<Normalized>&)>;
using PreTokenizers = std::vector<PreTokenizer>;
/// Changes the tokens of a text that is decoded; what they are in the end is joined.
using Decoder = std::function<void(std::vector<std::string>&)>;

/// The sign of a Metaspace, which must be one character.
std::string sign_in(const io::Config& part);
/// The pattern of a part: {"String": …} or {"Regex": …}.
Pattern pattern_in(const io::Config& part);
/// One that does nothing if the key is absent.
Normalizer normalizer_of(const io::Config& outer, const std::string& key);
PreTokenizers pre_tokenizers_of(const io::Config& outer, const std::string& key);
/// Steps that split at the white space of ASCII, and that normalise each part.
PreTokenizer ascii_words();
PreTokenizer each_normalized(const Normalizer& normalizer);
/// One that joins with spaces if the key is absent.
Decoder decoder_of(const io::Config& outer, const std::string& key);

/// A vocabulary and the way in which it cuts a word.
class Model {
 public:
  virtual ~Model() = default;
  /// Cuts a word. The spans are bytes of the word.
  virtual std::vector<Token> tokens_of(const std::string& word) const = 0;
  /// The id of a token; -1 if there is none.
  std::int64_t id(const std::string& token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? -1 : found->second;
  }
  const std::unordered_map<std::string, std::int64_t>& ids() const { return ids_; }

 protected:
  std::unordered_map<std::string, std::int64_t> ids_;
};
std::unique_ptr<Model> model_of(const io::Config& outer, const std::string& key);

/// What comes before and behind the tokens of a text.
struct Frame {
  std::vector<Token> before, behind;
  bool trims = false;         // spaces at the ends of a token's span
  bool prefix_space = false;  // the first space was added
};
/// The frame of one text.
Frame frame_of(const io::Config& outer, const std::string& key);

/// GPT-2's pattern.
extern const char* const gpt2_pattern;

/// A type that is not known here.
[[noreturn]] void fail_unknown(const io::Config& part, const std::string& type, const char* known);

}  // namespace fit::text
