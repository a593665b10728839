#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "support/catch.hpp"

namespace fit::test {

/// What a page's script reads: the JSON of its element "data".
inline nlohmann::json data_of(const std::string& html) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const std::size_t from = html.find(begin);
  REQUIRE(from != std::string::npos);
  return nlohmann::json::parse(html.substr(from + begin.size(), html.find("</script>", from) - from - begin.size()));
}

}  // namespace fit::test
