#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "fit/nn/models/gpt.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/random.hpp"
#include "support/catch.hpp"

namespace fit::test {

/// What a page's script reads: the JSON of its element "data".
inline nlohmann::json data_of(const std::string& html) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const std::size_t from = html.find(begin);
  REQUIRE(from != std::string::npos);
  return nlohmann::json::parse(html.substr(from + begin.size(), html.find("</script>", from) - from - begin.size()));
}

/// Writing a page of this model draws no random number, and leaves it in training.
template <class Write>
void check_only_read(const nn::GPT& gpt, const Write& write) {
  manual_seed(5);
  const Tensor expected = rand({3});
  manual_seed(5);
  write();
  CHECK(equal(rand({3}), expected));
  CHECK(gpt.training());
}

}  // namespace fit::test
