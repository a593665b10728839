#include "support/tables/accuracy_table.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "fit/base/error.hpp"

namespace fit::test {

const std::map<std::string, Accuracy>& accuracy_table() {
  static const auto all = [] {
    std::map<std::string, Accuracy> rows;
    const char* const other = std::getenv("FIT_ACCURACY_PAGE");
    std::ifstream page(other && *other ? other : FIT_GOLDEN_DIR "/../../docs/accuracy.md");
    for (std::string line; std::getline(page, line);) {
      std::replace(line.begin(), line.end(), '|', '\n');
      std::istringstream cells(line);
      std::string empty, name, more;
      char two, power;
      Accuracy a;
      if (std::getline(cells, empty) && std::getline(cells, name) &&
          cells >> a.narrow >> a.narrow_at >> a.narrow_bound >> a.wide >> a.wide_at >> a.wide_bound >> two >> power >>
              a.log_points &&
          two == '2' && power == '^' && !(cells >> more))
        rows[name.substr(1, name.find_last_not_of(' '))] = a;
    }
    return rows;
  }();
  return all;
}

template <class T>
double accuracy_bound(const std::string& name) {
  const auto row = accuracy_table().find(name);
  if (row == accuracy_table().end()) throw Error("docs/accuracy.md has no line for " + name);
  return std::is_same_v<T, float> ? row->second.narrow_bound : row->second.wide_bound;
}
template double accuracy_bound<float>(const std::string&);
template double accuracy_bound<double>(const std::string&);

}  // namespace fit::test
