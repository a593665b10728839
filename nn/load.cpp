#include "load.hpp"

#include <sstream>
#include <unordered_map>

#include "fit/graph.hpp"
#include "tensor/check.hpp"

namespace fit::nn {
namespace {

// Names that do not fit, for one line of the message.
class Misfits {
 public:
  template <class... Parts>
  void add(const Parts&... parts) {
    if (list_.tellp() > 0) list_ << ", ";
    (list_ << ... << parts);
  }
  std::string line(const std::string& what) const {
    const std::string names = list_.str();
    return names.empty() ? names : "\n  " + what + ": " + names;
  }

 private:
  std::ostringstream list_;
};

}  // namespace

void load_values(const char* op, const std::string& owner, const StateDict& mine, const StateDict& given) {
  Misfits missing, unexpected, misshapen;
  std::unordered_map<std::string, Tensor> left;
  for (const auto& [name, tensor] : given)
    if (!left.emplace(name, tensor).second) unexpected.add(name, " (twice)");

  std::vector<std::pair<Tensor, Tensor>> copies;
  for (const auto& [name, to] : mine) {
    const auto found = left.find(name);
    if (found == left.end()) {
      missing.add(name, ' ', to.shape());
      continue;
    }
    const Tensor from = found->second;
    left.erase(found);
    if (!from.defined())
      misshapen.add(name, " is undefined");
    else if (from.shape() != to.shape())
      misshapen.add(name, " is ", from.shape(), ", here ", to.shape());
    else if (from.dtype() != to.dtype() && !(is_floating(from.dtype()) && is_floating(to.dtype())))
      misshapen.add(name, " is ", from.dtype(), ", here ", to.dtype());
    else
      copies.emplace_back(to, from);
  }
  for (const auto& [name, tensor] : given)
    if (left.erase(name)) unexpected.add(name, ' ', tensor.defined() ? tensor.shape().str() : "undefined");

  const std::string wrong = missing.line("missing") + unexpected.line("unexpected") + misshapen.line("misshapen");
  if (!wrong.empty()) check::fail(op, "the state does not fit this ", owner, "; nothing was loaded:", wrong);
  const NoGrad no_grad;
  for (auto& [to, from] : copies) to.copy_(from);
}

}  // namespace fit::nn
