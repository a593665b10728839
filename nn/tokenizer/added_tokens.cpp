#include "tokenizer/added_tokens.hpp"

#include <algorithm>

#include "common/utf8.hpp"
#include "unicode/characters.hpp"

namespace fit::text {
namespace {

char32_t at_byte(const std::string& text, std::size_t at) { return utf8::next(text, at); }

// Where the character before `at` begins.
std::size_t before(const std::string& text, std::size_t at) {
  do --at;
  while (at > 0 && !utf8::starts_code_point(text[at]));
  return at;
}

}  // namespace

void TokenFinder::add(const std::string& content, const AddedToken* token) {
  if (content.empty()) return;
  begins_[static_cast<unsigned char>(content[0])] = true;
  std::size_t node = 0;
  for (const char c : content) {
    const auto [at, fresh] = nodes_[node].next.emplace(static_cast<unsigned char>(c), nodes_.size());
    node = at->second;
    if (fresh) nodes_.emplace_back();
  }
  nodes_[node].token = token;
}

const AddedToken* TokenFinder::longest(const std::string& text, std::size_t at, std::size_t& end) const {
  const AddedToken* found = nullptr;
  std::size_t node = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    const auto next = nodes_[node].next.find(static_cast<unsigned char>(text[i]));
    if (next == nodes_[node].next.end()) break;
    node = next->second;
    if (nodes_[node].token) found = nodes_[node].token, end = i + 1;
  }
  return found;
}

std::vector<Found> TokenFinder::parts(const std::string& text) const {
  std::vector<Found> all;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t begin = at, end = at;
    const AddedToken* const token = begins_[static_cast<unsigned char>(text[at])] ? longest(text, at, end) : nullptr;
    if (!token) {
      ++at;
      continue;
    }
    at = end;  // where the search goes on
    if (token->single_word && ((begin > 0 && unicode::is_word(at_byte(text, before(text, begin)))) ||
                               (end < text.size() && unicode::is_word(at_byte(text, end)))))
      continue;
    if (token->lstrip) {
      begin = std::max(begin, done);  // the token before may have taken the spaces of this one
      while (begin > done && unicode::is_space(at_byte(text, before(text, begin)))) begin = before(text, begin);
    }
    if (token->rstrip)
      while (end < text.size() && unicode::is_space(at_byte(text, end))) utf8::next(text, end);
    if (token->lstrip && end <= begin) continue;
    if (done < begin) all.push_back({done, begin, nullptr});
    all.push_back({begin, end, token});
    done = end;
  }
  if (done < text.size()) all.push_back({done, text.size(), nullptr});
  return all;
}

}  // namespace fit::text
