#pragma once
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fit/base/error.hpp"
#include "fit/tensor/random.hpp"
#include "fit/tensor/state_dict.hpp"
#include "fit/tensor/tensor.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"

// Checks the guarantee of error.hpp: a call that throws Error changes nothing.
namespace fit::test {

/// The observable state of an object, as bytes.
class State {
 public:
  State& operator()(const Tensor& x) {
    if (!x.defined()) return (*this)("undefined");
    (*this)(x.shape().str())(name_of(x.dtype()))(x.requires_grad());
    bytes_.append(static_cast<const char*>(x.raw()), static_cast<std::size_t>(x.numel() * size_of(x.dtype())));
    return x.requires_grad() && x.is_leaf() ? (*this)(x.grad()) : *this;
  }
  State& operator()(const std::vector<Tensor>& all) {
    for (const Tensor& x : all) (*this)(x);
    return *this;
  }
  State& operator()(const StateDict& named) {
    for (const auto& [name, x] : named) (*this)(name)(x);
    return *this;
  }
  State& operator()(const Generator& g) { return (*this)(g.seed())(g.calls()); }
  template <class Printed, class = std::enable_if_t<!std::is_base_of_v<Tensor, Printed>>>
  State& operator()(const Printed& value) {
    std::ostringstream text;
    text << value << ';';
    bytes_ += text.str();
    return *this;
  }
  operator std::string() const { return bytes_; }

 private:
  std::string bytes_;
};

/// An object under test: its state, a call with a bad argument, and a normal use.
struct Trial {
  Callable<std::string()> state;
  Callable<void()> bad;
  Callable<void()> use;
};

struct ChangingCall {
  std::string name;
  Callable<Trial()> make;
};

/// Makes two equal objects and lets the bad call throw on one. Its state must not change, and a later use must have the
/// same effect on both.
inline void check_unchanged(const ChangingCall& call) {
  INFO(call.name);
  manual_seed(11);
  const Trial disturbed = call.make();
  manual_seed(11);
  const Trial other = call.make();
  const std::string before = disturbed.state();
  REQUIRE((before == other.state()));
  const std::string numbers = State()(default_generator());
  bool thrown = false;
  try {
    disturbed.bad();
  } catch (const Error&) {
    thrown = true;
  }
  CHECK(thrown);
  CHECK((disturbed.state() == before));
  CHECK(std::string(State()(default_generator())) == numbers);
  manual_seed(12);
  disturbed.use();
  manual_seed(12);
  other.use();
  CHECK((disturbed.state() == other.state()));
  CHECK((other.state() != before));  // a use without effect would prove nothing
}

}  // namespace fit::test
