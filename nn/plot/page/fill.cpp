#include "plot/page/assets.hpp"

namespace fit::plot::page {

std::string filled(const std::string& page, const Parts& parts) {
  std::string out;
  std::size_t from = 0;
  for (const auto& [name, part] : parts) {
    const std::size_t at = page.find(name, from);
    out += page.substr(from, at - from) + part;
    from = at + name.size();
  }
  return out + page.substr(from);
}

}  // namespace fit::plot::page
