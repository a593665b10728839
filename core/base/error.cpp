#include "fit/base/error.hpp"

namespace fit {

struct Error::Place {
  std::string path, message;
  const void* from;
};

const char* Error::what() const noexcept {
  return place_ && !place_->path.empty() ? place_->message.c_str() : std::invalid_argument::what();
}

std::string Error::where() const { return place_ ? place_->path : std::string(); }

const void* Error::seen_from() const noexcept { return place_ ? place_->from : nullptr; }

void Error::set_where(const std::string& path, const void* from) {
  place_ = std::make_shared<const Place>(Place{path, std::invalid_argument::what() + (", in " + path), from});
}

}  // namespace fit
