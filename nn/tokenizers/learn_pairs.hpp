#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tokenizers/tokens.hpp"

namespace fit::text {

constexpr std::size_t longest_token = 256;  // bytes

/// The bytes of a word, each a token.
Ids bytes_of(const std::string& word);

/// Learns up to `most` tokens 256, 257 …, each a pair of earlier ones, from words and how often they occur. The most
/// frequent pair is joined first; among equals, the smaller ids. Ends when no pair occurs twice.
std::vector<Pair> learn_pairs(const std::map<std::string, std::int64_t>& counted, std::int64_t most);

}  // namespace fit::text
