#include <vector>

#include "fit/ops/ops.hpp"
#include "support/catch.hpp"

// Changes in place: what they compute, what they count, what they record, and when they are refused.
namespace fit::test::inplace_test {
namespace {

using Numbers = std::vector<double>;
Numbers values(const Tensor& x) { return x.to(float64).to_vector<double>(); }
auto says(const char* text) { return Catch::Contains(text); }

}  // namespace

TEST_CASE("in-place arithmetic changes the elements that all handles see", "[inplace]") {
  Tensor x = tensor({{1., 2.}, {3., 4.}});
  const Tensor other = x, reshaped = x.reshape({4});
  const void* where = x.raw();
  x.add_(tensor({10., 20.}));
  CHECK(values(x) == Numbers{11, 22, 13, 24});
  x.sub_(1).mul_(tensor({{2.}, {3.}})).div_(2);
  CHECK(values(other) == Numbers{10, 21, 18, 34.5});
  CHECK(values(reshaped) == values(x));
  CHECK(x.raw() == where);
  CHECK(x.version() == 4);
  x.fill_(7);
  CHECK(values(x) == Numbers{7, 7, 7, 7});
  x.copy_(tensor({{1}, {2}}));
  CHECK(values(x) == Numbers{1, 1, 2, 2});
  x.zero_();
  CHECK(values(x) == Numbers{0, 0, 0, 0});
  CHECK(x.version() == 7);
}

TEST_CASE("a tensor may be its own operand", "[inplace]") {
  Tensor x = tensor({1., 2., 3.});
  x.add_(x);
  CHECK(values(x) == Numbers{2, 4, 6});
  x.mul_(x.reshape({1, 3}).reshape({3}));
  CHECK(values(x) == Numbers{4, 16, 36});
  x.copy_(x).div_(x).sub_(x);
  CHECK(values(x) == Numbers{0, 0, 0});
}

TEST_CASE("large changes in place go by threads", "[inplace]") {
  Tensor x = ones({3, 50001});
  x.mul_(tensor({{1.}, {2.}, {3.}})).add_(1);
  CHECK(sum(x.to(float64)).item() == 50001. * 9);
}

TEST_CASE("the tensor's own shape and type hold", "[inplace]") {
  Tensor x = tensor({1., 2.}), whole = tensor({1, 2}), truth = tensor({true, false});
  x.add_(tensor({0.5, 0.25}, float64));
  CHECK(x.dtype() == float32);
  CHECK(values(x) == Numbers{1.5, 2.25});
  whole.add_(tensor({true, true}));
  CHECK(values(whole) == Numbers{2, 3});
  whole.copy_(tensor({-1.5, 7.9}));
  CHECK(values(whole) == Numbers{-1, 7});
  truth.copy_(tensor({0., 0.5})).fill_(1);
  CHECK(values(truth) == Numbers{1, 1});
  CHECK_THROWS_WITH(x.add_(zeros({2, 2})),
                    says("[add_] the operand of shape [2, 2] does not broadcast to the tensor's own shape [2]"));
  CHECK_THROWS_WITH(x.copy_(zeros({3})), says("[copy_] shapes [2] and [3] do not broadcast"));
  CHECK_THROWS_WITH(whole.div_(2), says("[div_] the tensor is int64, which can't hold the result"));
  CHECK_THROWS_WITH(whole.mul_(x), says("[mul_] the tensor is int64, which can't hold the result"));
  CHECK_THROWS_WITH(whole.add_(0.5), says("[add_] the number 0.5 is not whole"));
  CHECK_THROWS_WITH(whole.fill_(0.5), says("[fill_] the number 0.5 is not whole"));
  CHECK_THROWS_WITH(truth.add_(1), says("[add_] the tensor is boolean, which can't hold the result"));
  CHECK(values(whole) == Numbers{-1, 7});
}

TEST_CASE("numbers stand on the right of +=, -=, *= and /=", "[inplace]") {
  Tensor x = tensor({1., 2., 3.});
  const Tensor before = x;
  x += 1;
  x -= 0.5;
  x *= 4;
  x /= 2;
  CHECK(values(x) == Numbers{3, 5, 7});
  CHECK(values(before) == Numbers{1, 2, 3});  // a new tensor, as with tensors on the right
  x[{0}] += 1;
  x[1] -= 1;
  x[{range(1)}] *= 2;
  x[{ellipsis}] /= 4;
  CHECK(values(x) == Numbers{1, 2, 3.5});
  Tensor whole = tensor({3, 4});
  whole[0] += 2;
  CHECK(values(whole) == Numbers{5, 4});
  CHECK_THROWS_WITH(whole[0] += 0.5, says("[add] the number 0.5 is not whole"));
  CHECK_THROWS_WITH(whole[0] /= 2, says("[div] the tensor is int64"));
  Tensor truth = tensor({true, false});
  CHECK_THROWS_WITH(truth[1] += 5,
                    says("[add] the tensor is boolean, the result int64: convert the tensor with .to(int64)"));
  CHECK_THROWS_WITH(truth[0] -= tensor(true), says("[sub] the tensor is boolean, the result int64"));
  CHECK_THROWS_WITH(truth[0] *= false, says("[mul] the tensor is boolean, the result int64"));
  CHECK_THROWS_WITH(truth[0] /= 2, says("[div] the tensor is boolean, the result float32"));
  CHECK(values(truth) == Numbers{1, 0});
  truth[1] = 5;
  CHECK(values(truth) == Numbers{1, 1});
}

TEST_CASE("empty tensors and single numbers change in place", "[inplace]") {
  Tensor none = zeros({0, 3}), one = full({}, 2);
  none.add_(zeros({3})).mul_(2).fill_(1).copy_(zeros({1, 3}));
  CHECK(none.numel() == 0);
  one.add_(full({}, 3)).mul_(2);
  CHECK(one.item() == 10);
}

TEST_CASE("a leaf that wants gradients changes under NoGrad only", "[inplace]") {
  Tensor w = tensor({1., 2.}).requires_grad_();
  CHECK_THROWS_WITH(w.add_(1), says("[add_] the tensor of shape [2] is a leaf that wants a gradient: change it under "
                                    "NoGrad"));
  CHECK_THROWS_WITH(w.copy_(zeros({2})), says("[copy_]"));
  CHECK_THROWS_WITH(w.fill_(1), says("[fill_]"));
  CHECK_THROWS_WITH(w.edit<float>(), says("[edit]"));
  CHECK(w.version() == 0);
  {
    const NoGrad no_grad;
    w.sub_(tensor({0.5, 0.5})).mul_(2);
    w.edit<float>()[0] = 7;
  }
  CHECK(values(w) == Numbers{7, 3});
  CHECK(w.version() == 3);
  CHECK(w.is_leaf());
}

TEST_CASE("a change of a computed tensor is recorded, for all its handles", "[inplace]") {
  const Tensor w = tensor({1., 2., 4.}).requires_grad_();
  Tensor h = w * 2;
  const Tensor handle = h;
  h.mul_(h).add_(w).sub_(1).div_(w);  // (4 w^2 + w - 1) / w = 4 w + 1 - 1 / w
  CHECK(values(handle) == Numbers{4, 8.5, 16.75});
  CHECK(h.version() == 4);
  sum(handle).backward();
  CHECK(values(w.grad()) == Numbers{5, 4.25, 4.0625});
  CHECK_THROWS_WITH(h.edit<float>(), says("[edit] the tensor of shape [3] was computed by div"));
}

TEST_CASE("a plain tensor takes up the history of what it is changed by", "[inplace]") {
  const Tensor w = tensor({1., 2., 3.}).requires_grad_();
  Tensor total = zeros({2, 3});
  total.add_(w * w).add_(1);
  CHECK(total.requires_grad());
  sum(total).backward();
  CHECK(values(w.grad()) == Numbers{4, 8, 12});
  Tensor copy = zeros({2, 3}, float64);
  copy.copy_(w * 3);
  CHECK(copy.dtype() == float64);
  CHECK(values(copy) == Numbers{3, 6, 9, 3, 6, 9});
  Tensor same = zeros({3});
  same.copy_(w);
  CHECK(same.raw() != w.raw());
  (sum(copy) + sum(same)).backward();
  CHECK(values(w.grad()) == Numbers{11, 15, 19});
  copy.fill_(2);
  CHECK_FALSE(copy.requires_grad());
}

TEST_CASE("retain_grad() keeps the gradient of a tensor's values after its last change", "[inplace]") {
  const Tensor w = tensor({1., 2.}).requires_grad_();
  const auto gradient = [&](const auto& change) {
    Tensor h = w * 3;
    h.retain_grad();
    change(h);
    sum(h * h + w).backward();
    return h.has_grad() ? values(h.grad()) : Numbers{};
  };
  CHECK(gradient([](Tensor& h) { h.mul_(2.); }) == Numbers{12, 24});
  CHECK(gradient([](Tensor& h) { h.mul_(2.).add_(1); }) == Numbers{14, 26});
  CHECK(gradient([](Tensor& h) { h[0] = 1.; }) == Numbers{2, 12});
  CHECK(gradient([&](Tensor& h) { h.copy_(w * w); }) == Numbers{2, 8});
  CHECK(gradient([](Tensor& h) { h.fill_(2); }).empty());  // no longer computed from a leaf
}

TEST_CASE("a change that must be recorded is refused where the buffer is shared", "[inplace]") {
  const Tensor w = tensor({1., 2.}).requires_grad_();
  Tensor h = w * 2, power = exp(w), plain = zeros({2});
  const Tensor view = h.reshape({2, 1}), seen = plain.detach();
  for (Tensor* x : {&h, &power, &plain})
    CHECK_THROWS_WITH(x->add_(w),
                      says("[add_] the change of the tensor of shape [2] must be recorded, but another tensor or "
                           "a recorded operation shares its buffer"));
  CHECK_THROWS_WITH(h.fill_(0), says("[fill_]"));
  CHECK_THROWS_WITH(h.mul_(2), says("change a clone()"));
  CHECK(values(h) == Numbers{2, 4});
  Tensor own = h.clone();
  own.mul_(2);
  sum(own).backward();
  CHECK(values(w.grad()) == Numbers{4, 4});
}

TEST_CASE("backward through a value that was changed is an error", "[inplace]") {
  const Tensor w = tensor({1., 2.}).requires_grad_();
  Tensor x = tensor({3., 4.});
  const Tensor y = sum(w * x);
  x.add_(1);
  CHECK_THROWS_WITH(y.backward(), says("that mul needs for its gradient was changed in place"));
  Tensor h = w * w;
  const Tensor z = sum(h * h);
  {
    const NoGrad no_grad;
    h.zero_();
  }
  CHECK_THROWS_WITH(z.backward(), says("changed in place"));
}

}  // namespace fit::test::inplace_test
