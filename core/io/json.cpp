#include "io/json.hpp"

#include <unordered_set>
#include <vector>

namespace fit::io {

Json parse_json(const InputFile& file, const std::string& text, const JsonLimits& limits) {
  using json = nlohmann::json;
  std::vector<std::unordered_set<std::string>> keys(static_cast<std::size_t>(limits.depth) + 1);
  std::size_t innermost = 0;
  const auto watch = [&](int depth, json::parse_event_t event, json& value) {
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        if (depth >= limits.depth) file.fail("the JSON nests deeper than ", limits.depth, " levels");
        keys[static_cast<std::size_t>(depth) + 1].clear();
        innermost = 0;
        break;
      case json::parse_event_t::key: {
        const auto& key = value.get_ref<const std::string&>();
        if (key.size() > limits.name)
          file.fail("the key '", shown(key), "' has ", key.size(), " bytes: ", limits.name, " are the most");
        if (!keys[static_cast<std::size_t>(depth)].insert(key).second)
          file.fail("the key '", shown(key), "' stands twice in the JSON");
        break;
      }
      case json::parse_event_t::value:
        if (depth == limits.depth && ++innermost > limits.innermost)
          file.fail("a list in the JSON has more than ", limits.innermost, " values");
        break;
      default:
        break;
    }
    return true;
  };
  try {
    return json::parse(text.begin(), text.end(), watch);
  } catch (const json::parse_error& e) {
    file.fail("expected valid JSON, found something else at byte ", e.byte, " of it");
  } catch (const json::exception& e) {
    file.fail("the JSON can't be read: ", e.what());
  }
}

}  // namespace fit::io
