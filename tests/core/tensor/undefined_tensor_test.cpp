#include <string>

#include "fit/attention/attention.hpp"
#include "fit/detail/function_ref.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"

namespace fit::test::undefined_tensor_test {

TEST_CASE("an undefined tensor is named by operation and argument, also where there is no row of the table", "[ops]") {
  const std::string rule =
      " is undefined: give it a value first (zeros, tensor, ...); a gradient gets one by backward(), and a "
      "parametrised parameter has its own in value()";
  const Tensor x = ones({2}), none;
  const auto told = [&](const std::string& what, FunctionRef<void()> f) {
    INFO(what);
    CHECK_THROWS_WITH(f(), what + rule);
  };
  told("[matmul] b", [&] { matmul(x, none); });
  told("[add] a", [&] { none + x; });
  told("[mul] a", [&] { none * 2; });
  told("[sub] b", [&] { 2 - none; });
  told("[pow] e", [&] { pow(2, none); });
  told("[eq] b", [&] { eq(x, none); });
  told("[lt] a", [&] { lt(none, 1); });
  told("[logical_or] a", [&] { none || x; });
  told("[logical_not] x", [&] { !none; });
  told("[isnan] x", [&] { isnan(none); });
  told("[isfinite] x", [&] { isfinite(none); });
  told("[equal] a", [&] { equal(none, x); });
  told("[allclose] b", [&] { allclose(x, none); });
  told("[any] x", [&] { any(none); });
  told("[argmax] x", [&] { argmax(none); });
  told("[argmin] x", [&] { argmin(none, 0); });
  told("[where] the condition", [&] { where(none, x, x); });
  told("[where] a", [&] { where(x > 0, none, 1); });
  told("[cat] part 1", [&] { cat({x, none}); });
  told("[stack] part 0", [&] { stack({none, x}); });
  told("[einsum] operand 1", [&] { einsum("i,i->i", {x, none}); });
  told("[index] x", [&] { none[0]; });
  told("[index_select] ids", [&] { index_select(x, 0, none); });
  told("[embedding] ids", [&] { embedding(ones({2, 2}), none); });
  told("[add_] the operand", [&] { ones({2}).add_(none); });
  told("[add_] the tensor", [&] { Tensor().add_(x); });
  told("[fill_] the tensor", [&] { Tensor().fill_(1); });
  told("[copy_] the operand", [&] { ones({2}).copy_(none); });
  told("[index_put_] the value", [&] {
    Tensor y = ones({2});
    y[0] = none;
  });
  told("[clone] x", [&] { none.clone(); });
  told("[to] x", [&] { none.to(float64); });
  told("[zeros_like] x", [&] { zeros_like(none); });
  told("[one_hot] ids", [&] { one_hot(none, 3); });
  told("[scaled_dot_product_attention] k", [&] { scaled_dot_product_attention(ones({2, 2}), none, ones({2, 2})); });
  told("[create_padding_mask] ids", [&] { create_padding_mask(none); });
}

}  // namespace fit::test::undefined_tensor_test
