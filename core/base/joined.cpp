#include "base/joined.hpp"

#include <sstream>

namespace fit {

std::string joined_parts(std::initializer_list<Part> parts) {
  std::ostringstream s;
  s << std::boolalpha;
  for (const Part& part : parts) s << part;
  return s.str();
}

}  // namespace fit
