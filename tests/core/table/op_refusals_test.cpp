#include "fit/attention/attention.hpp"
#include "fit/attention/linear_attention.hpp"
#include "fit/backward/activation_checkpoint.hpp"
#include "fit/backward/functional.hpp"
#include "fit/detail/function_ref.hpp"
#include "fit/int8/int8.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/random.hpp"
#include "support/catch.hpp"
#include "support/tables/refusals.hpp"
#include "support/tensors.hpp"
#include "tensor/dispatch.hpp"

// Each condition on an argument is violated alone.
namespace fit::test::op_refusals_test {

TEST_CASE("matrix operations refuse operands that don't fit", "[refusals]") {
  const Tensor v = ones({3}), m = ones({2, 3}), stack = ones({2, 3, 4});
  check_refused({
      {"[matmul] a is [2, 3] transposed, b is [2, 3] transposed: the last but one of a (2) must equal the last of b "
       "(3)",
       [=] { return matmul(m, Transpose::yes, m, Transpose::yes); }},
      {"a is [3], b is [2, 3]: both must have at least two axes here",
       [=] { return matmul(v, Transpose::no, m, Transpose::yes); }},
      {"a is [2, 3], b is [3]: both must have at least two axes here",
       [=] { return matmul(m, Transpose::no, v, Transpose::no); }},
      {"neither may be a scalar", [=] { return matmul(m, tensor(2.)); }},
      {"[matmul] a is [2, 3], b is [2]: the last of a (3) must equal the size of b (2)",
       [=] { return matmul(m, ones({2})); }},
      {"the last of a (3) must equal the last but one of b (2)", [=] { return matmul(v, m); }},
      {"[linear] x is [], weight is [2, 3]", [=] { return linear(tensor(1.), m); }},
      {"[outer] a is [2, 3], b is [3]", [=] { return outer(m, v); }},
      {"[outer] a is [3], b is [2, 3]", [=] { return outer(v, m); }},
      {"[bmm] a has shape [2, 3], b [2, 3, 4]", [=] { return bmm(m, stack); }},
      {"[bmm] a has shape [2, 3, 4], b [2, 3]", [=] { return bmm(stack, m); }},
      {"[bmm] a has shape [2, 3, 4], b [1, 4, 2]",
       [=] {
         return bmm(stack, ones({1, 4, 2}));
       }},
      {"[bmm] a has shape [2, 3, 4], b [2, 3, 4]", [=] { return bmm(stack, stack); }},
      {"[addmm] a has shape [2, 3], b [3]", [=] { return addmm(v, m, v); }},
      {"[addmm] a has shape [3], b [2, 3]", [=] { return addmm(v, v, m); }},
      {"[addmm] a has shape [2, 3], b [2, 3]", [=] { return addmm(v, m, m); }},
      {"[cdist] a has shape [3], b [2, 3]", [=] { return cdist(v, m); }},
      {"[cdist] a has shape [2, 3], b [3]", [=] { return cdist(m, v); }},
      {"[cdist] a has shape [2, 3], b [2, 3, 4]", [=] { return cdist(m, stack); }},
      {"a matrix may have at most",
       [] {
         return svd(Tensor::empty({1, (1 << 28) + 1}, bfloat16)).s;
       }},
      {"values is int8 [3]: it must be int8 [n, k]",
       [=] {
         return Int8Matrix(tensor({1., 2., 3.}).to(int8), ones({3, 1}));
       }},
      {"values is float32 [2, 3]: it must be int8 [n, k]",
       [=] {
         return Int8Matrix(m, ones({2, 1}));
       }},
  });
}

TEST_CASE("einsum refuses formulas that mean nothing", "[refusals]") {
  const Tensor m = ones({2, 3}), wide = ones({1, 1, 1, 1, 1, 1, 1});
  check_refused({
      {"the character '1' is no letter", [=] { return einsum("i1", {m}); }},
      {"the character '{' is no letter", [=] { return einsum("i{", {m}); }},
      {"the character '_' is no letter", [=] { return einsum("i_", {m}); }},
      {"the character '@' is no letter", [=] { return einsum("i@", {m}); }},
      {"operand 0 has shape [2, 3], \"ijk\" has 3 letters", [=] { return einsum("ijk", {m}); }},
      {"operand 0 has shape [2, 3], \"i\" has 1 letters", [=] { return einsum("i", {m}); }},
      {"operand 0 has shape [2, 3], \"ijk...\" has 3 letters", [=] { return einsum("ijk...", {m}); }},
      {"the result has more axes than a tensor can have",
       [=] {
         return einsum("abcdefg,hi->abcdefghi", {wide, m});
       }},
      {"the result has more axes than a tensor can have",
       [=] {
         return einsum("...,hi->...hi", {wide, m});
       }},
      {"the result has more axes than a tensor can have",
       [=] {
         return einsum("abcdefg,hi", {wide, m});
       }},
      {"the result has more axes than a tensor can have",
       [=] {
         return einsum("...,hi", {wide, m});
       }},
      {"a product on the way has more axes than a tensor can have",
       [=] {
         // Each letter stands in three operands, so that no pair gets rid of one.
         return einsum("abcdefgh,ijklmnop,abcdijkl,efghmnop,abcdmnop,efghijkl->",
                       std::vector<Tensor>(6, ones({1, 1, 1, 1, 1, 1, 1, 1})));
       }},
      {"has size 2 at an axis of \"...\", another operand 3",
       [] {
         return einsum("...,...->...", {ones({3}), ones({2})});
       }},
      {"has size 2 at 'i', another operand 3",
       [] {
         return einsum("i,i->i", {ones({3}), ones({2})});
       }},
  });
}

TEST_CASE("operations on shapes refuse axes and sizes that are not there", "[refusals]") {
  const Tensor v = arange(6), m = ones({2, 3});
  check_refused({
      {"[unfold] the windows' size is 0, the axis has 6: 1 … 6 fit in", [=] { return unfold(v, 0, 0); }},
      {"[unfold] the windows' size is 7, the axis has 6", [=] { return unfold(v, 0, 7); }},
      {"[unfold] step is 0", [=] { return unfold(v, 0, 2, 0); }},
      {"[fold] windows has shape [6]: it must have at least two axes", [=] { return fold(v, 0, 6); }},
      {"[fold] axis -2 of windows of shape [2, 3]", [=] { return fold(m, -2, 4); }},
      {"[fold] axis 1 of windows of shape [2, 3]", [=] { return fold(m, 1, 4); }},
      {"[fold] windows has shape [2, 3]: axis 0 must be 3", [=] { return fold(m, 0, 5); }},
      {"[pad] 4 widths for shape [6]",
       [=] {
         return pad(v, {1, 1, 1, 1});
       }},
      {"[pad] 1 widths for shape [6]", [=] { return pad(v, {1}); }},
      {"[pad] the widths -7 and 0 don't suit axis 0",
       [=] {
         return pad(v, {-7, 0});
       }},
      {"[pad] the widths 0 and -7 don't suit axis 0",
       [=] {
         return pad(v, {0, -7});
       }},
      {"[pad] the widths -4 and -4 don't suit axis 0",
       [=] {
         return pad(v, {-4, -4});
       }},
      {"[pad] the widths are 4611686018427387904 and 0, axis 0 of shape [6]: the result would have too many elements",
       [=] {
         return pad(v, {std::int64_t{1} << 62, 0});
       }},
      {"[pad] the widths are 4398046511104 and 0, axis 0 of shape [2, 3]: the result would have too many elements",
       [=] {
         return pad(m, {0, 0, std::int64_t{1} << 42, 0}, PadMode::replicate);
       }},
      {": a mirror shows one less than there are",
       [=] {
         return pad(v, {6, 0}, PadMode::reflect);
       }},
      {": there is nothing to repeat",
       [] {
         return pad(zeros({0}), {1, 0}, PadMode::replicate);
       }},
      {"[meshgrid] 0 vectors", [] { return meshgrid({}); }},
      {"[meshgrid] 9 vectors: there must be between 1 and 8", [=] { return meshgrid(std::vector<Tensor>(9, v)); }},
      {"[diag] x has 6 elements, the offset is 1073741825", [=] { return diag(v, (1 << 30) + 1); }},
      {"[diag] x has 6 elements, the offset is -1073741825", [=] { return diag(v, -(1 << 30) - 1); }},
      {"[cat] part 1 has shape [2, 3, 1], part 0 [2, 3]",
       [=] {
         return cat({m, ones({2, 3, 1})});
       }},
      {"[cat] part 1 has shape [2, 4], part 0 [2, 3]: they must agree but for axis 0",
       [=] {
         return cat({m, ones({2, 4})});
       }},
      {"parts: there must be between 1 and", [=] { return cat({}); }},
      {"[one_hot] classes is 0, ids has shape [1]: classes must be positive", [] { return one_hot(tensor({0}), 0); }},
      {"[one_hot] classes is -1", [] { return one_hot(tensor({0}), -1); }},
      {"[one_hot] the id at position 1 of ids [2] is -1: it must be in 0 … 2",
       [] {
         return one_hot(tensor({0, -1}), 3);
       }},
      {"[one_hot] the id at position 1 of ids [2] is 3",
       [] {
         return one_hot(tensor({0, 3}), 3);
       }},
      {"[arange] start 0, stop 1, step nan", [] { return arange(0, 1, nan); }},
      {"[arange] start nan, stop 1", [] { return arange(nan, 1, 1); }},
      {"[arange] start 0, stop inf", [] { return arange(0, inf, 1); }},
      {"[arange] start 0, stop 1, step 0", [] { return arange(0, 1, 0); }},
      {"there must be fewer than 1e15 of them", [] { return arange(0, 1e16, 1); }},
      {"[index_add] ids has shape [1, 1]: it must be [N]",
       [=] {
         return index_add(m, 0, tensor({{0}}), ones({1, 3}));
       }},
      {"[index_add] x is boolean",
       [=] {
         return index_add(m.to(boolean), 0, tensor({0}), ones({1, 3}).to(boolean));
       }},
      {"the mask [2, 3, 1]: the mask's sizes must be those of the first axes",
       [=] {
         ones({2, 3})[{ones({2, 3, 1}).to(boolean)}] = 1;
       }},
      {"the mask [3]: the mask's sizes must be those of the first axes",
       [=] {
         ones({2, 3})[{ones({3}).to(boolean)}] = 1;
       }},
      {"[item] the tensor has shape [6]: it must have one element", [=] { return v.item(); }},
      {"[tensor] shape [4611686018427387904] in float32 takes more than",
       [] { return zeros({std::int64_t{1} << 62}); }},
      {"is no leaf that wants a gradient",
       [=] {
         ones({2, 3}).set_grad(m);
       }},
      {"is no leaf that wants a gradient",
       [=] {
         Tensor y = m.clone().requires_grad_() * 2;
         y.set_grad(m);
       }},
  });
}

TEST_CASE("convolutions refuse options and weights that don't fit", "[refusals]") {
  const Tensor x = ones({1, 4, 8}), w = ones({6, 2, 3});
  const auto with = [=](const ConvOptions& o) { return [=] { return conv1d(x, w, {}, o); }; };
  const auto of = [=](const Shape& weight, std::int64_t groups) {
    return [=] { return conv1d(x, ones(weight), {}, ConvOptions().groups(groups)); };
  };
  CHECK(conv1d(x, w, {}, ConvOptions().groups(2)).shape() == Shape{1, 6, 6});
  check_refused({
      {"stride 0, padding 0, dilation 1, groups 2", with(ConvOptions().groups(2).stride(0))},
      {"dilation 0, groups 2", with(ConvOptions().groups(2).dilation(0))},
      {"padding -1, dilation 1, groups 2", with(ConvOptions().groups(2).padding(-1))},
      {"dilation 1, groups 0", with(ConvOptions().groups(0))},
      {"padding 1073741825", with(ConvOptions().groups(2).padding((1 << 30) + 1))},
      {"x has shape [1, 4, 8], weight [6, 2, 3], groups is 1", with({})},
      {"x has shape [4, 8], weight [6, 2, 3]",
       [=] {
         return conv1d(ones({4, 8}), w);
       }},
      {"x has shape [1, 4, 8], weight [6, 2], groups is 2", of({6, 2}, 2)},
      {"x has shape [1, 4, 8], weight [5, 2, 3], groups is 2", of({5, 2, 3}, 2)},
      {"x has shape [1, 4, 8], weight [6, 2, 0], groups is 2", of({6, 2, 0}, 2)},
  });
}

TEST_CASE("masks and parts of attention refuse shapes that don't fit", "[refusals]") {
  const auto part = [](const Shape& output, const Shape& lse) { return AttentionResult{ones(output), {}, ones(lse)}; };
  const auto merged = [=](const Shape& output, const Shape& lse) {
    return [=] { return merge_attention({part(output, lse)}); };
  };
  CHECK(merge_attention({part({2, 3, 4}, {2, 2, 3})}).output.shape() == Shape{2, 3, 4});
  check_refused({
      {"output is [2, 3, 4], lse is [2, 3, 1, 1]", merged({2, 3, 4}, {2, 3, 1, 1})},
      {"output is [2, 3, 4], lse is [2, 2, 5]", merged({2, 3, 4}, {2, 2, 5})},
      {"output is [2, 3, 4], lse is [2, 0, 3]", merged({2, 3, 4}, {2, 0, 3})},
      {"output is [2, 3, 4], lse is [2, 3, 3]", merged({2, 3, 4}, {2, 3, 3})},
      {"offsets is [2, 1]",
       [] {
         return document_mask_from_offsets(zeros({2, 1}, int64));
       }},
      {"lengths is [2, 1]",
       [] {
         return document_mask_from_lengths(ones({2, 1}, int64));
       }},
  });
}

TEST_CASE("types that kernels don't compute in are refused, should a check of arguments be missing", "[refusals]") {
  const auto nothing = [](auto) {};
  check_refused({
      {"int8 holds weights and is not computed with", [=] { dispatch(int8, nothing); }},
      {"int8 holds weights and is not computed with", [=] { dispatch_compute(int8, nothing); }},
      {"bfloat16 was not converted to float32", [=] { dispatch_compute(bfloat16, nothing); }},
      {"bfloat16 was not converted to float32", [=] { dispatch_compute_floating(bfloat16, nothing); }},
      {"int8 holds weights and is not computed with", [=] { dispatch_compute_floating(int8, nothing); }},
      {"int64 is none of the types of this kernel", [=] { dispatch_floating(int64, nothing); }},
  });
}

TEST_CASE("statistics, pools, norms and draws refuse numbers out of range", "[refusals]") {
  const Tensor x = ones({1, 2, 8});
  check_refused({
      {"[bincount] ids has shape [1, 1]", [] { return bincount(tensor({{0}})); }},
      {"[bincount] minimum is -1", [] { return bincount(tensor({0}), {}, -1); }},
      {"[histogram] x goes from -inf to 1",
       [] {
         return histogram(tensor({-inf, 1.}), 3);
       }},
      {"[histogram] x goes from 1 to inf",
       [] {
         return histogram(tensor({1., inf}), 3);
       }},
      {"size is 0, stride 0", [=] { return max_pool1d(x, 0); }},
      {"size is 1073741825", [=] { return max_pool1d(x, (std::int64_t{1} << 30) + 1); }},
      {"size is 2, stride -1, dilation 1: all must be positive",
       [=] { return avg_pool1d(x, 2, PoolOptions().stride(-1)); }},
      {"[group_norm] eps is -1", [=] { return group_norm(x, 1, {}, {}, -1); }},
      {"[group_norm] eps is nan", [=] { return group_norm(x, 1, {}, {}, nan); }},
      {"[multinomial] weights has shape []: it must be [C] or [N, C]", [] { return multinomial(tensor(1.), 1); }},
      {"[multinomial] weights has shape [1, 1, 1]",
       [] {
         return multinomial(ones({1, 1, 1}), 1);
       }},
      {"[multinomial] count is -1", [] { return multinomial(ones({2}), -1); }},
      {"[multinomial] the weight at 1 of row 0 is inf",
       [] {
         return multinomial(tensor({1., inf}), 1);
       }},
      {"[multinomial] the weight at 0 of row 1 is -1",
       [] {
         return multinomial(tensor({{1., 1.}, {-1., 1.}}), 1);
       }},
      {"there must be as many; or draw with Replacement::yes",
       [] {
         return multinomial(tensor({1., 0.}), 2);
       }},
      {": there must be one",
       [] {
         return multinomial(tensor({0., 0.}), 1, Replacement::yes);
       }},
      {"[bernoulli] p is -0.5: it must be in 0 … 1", [] { return bernoulli(-0.5, {2}); }},
      {"[bernoulli] p is 1.5", [] { return bernoulli(1.5, {2}); }},
  });
}

TEST_CASE("rotary refuses tables and positions that don't fit", "[refusals]") {
  const Tensor x = ones({2, 4}), table = zeros({3, 2, 2}, float64);
  const auto with = [](std::int64_t offset) { return RotaryOptions().offset(offset); };
  const auto at = [](const Tensor& positions) { return RotaryOptions().positions(positions); };
  check_refused({
      {"table is [3, 4]: it must be [T, D/2, 2]",
       [=] {
         return rotary(x, zeros({3, 4}, float64));
       }},
      {"table is [3, 2, 3]",
       [=] {
         return rotary(x, zeros({3, 2, 3}, float64));
       }},
      {"table is [3, 0, 2]",
       [=] {
         return rotary(x, zeros({3, 0, 2}, float64));
       }},
      {"x is [4]: it must be [..., T, W]", [=] { return rotary(ones({4}), table); }},
      {"offset -1", [=] { return rotary(x, table, with(-1)); }},
      {"offset 2, table [3, 2, 2]: the 2 positions from 2 on must be in the table",
       [=] { return rotary(x, table, with(2)); }},
      {"the 4 positions from 0 on must be in the table",
       [=] {
         return rotary(ones({4, 4}), table);
       }},
      {"x is [2, 4], features 8", [=] { return rotary(x, table, RotaryOptions().features(8)); }},
      {"x is [2, 4], features -2", [=] { return rotary(x, table, RotaryOptions().features(-2)); }},
      {"x is [2, 4], features 2, table [3, 2, 2]: what is rotated must be whole heads of 4",
       [=] { return rotary(x, table, RotaryOptions().features(2)); }},
      {"positions is [3], x is [2, 4]",
       [=] {
         return rotary(x, table, at(tensor({0, 1, 2})));
       }},
      {"a position is -1",
       [=] {
         return rotary(x, table, at(tensor({0, -1})));
       }},
      {"a position is 3",
       [=] {
         return rotary(x, table, at(tensor({0, 3})));
       }},
      {"offset is 1, and positions are given",
       [=] {
         return rotary(x, table, at(tensor({0, 1})).offset(1));
       }},
  });
  CHECK(rotary(ones({2, 0}), table).shape() == Shape{2, 0});  // nothing to rotate
}

TEST_CASE("attention refuses operands that don't fit", "[refusals]") {
  const Tensor x = ones({2, 3, 8}), four = ones({1, 2, 3, 4}), packed = ones({1, 3, 24});
  const auto attend_parts = [](const Heads& q, const Heads& k, const Heads& v) {
    return [=] { return attend(q, k, v); };
  };
  const auto in_part = [=](std::int64_t offset, std::int64_t heads, std::int64_t features) {
    return attend_parts(part(packed, offset, heads, features), part(packed.clone(), 8, 2, 4),
                        part(packed.clone(), 16, 2, 4));
  };
  check_refused({
      {"all must be (B, H, S, D)", [=] { return scaled_dot_product_attention(four, four, x); }},
      {"all must be (B, H, S, D)", [=] { return scaled_dot_product_attention(four, x, four); }},
      {"all must be (B, H, S, D)", [=] { return scaled_dot_product_attention(ones({4}), ones({4}), ones({4})); }},
      {"all must be (B, H, S, D)",
       [] {
         return scaled_dot_product_attention(ones({1, 1, 1, 1, 4}), ones({1, 1, 1, 1, 4}), ones({1, 1, 1, 1, 4}));
       }},
      {"all must be (B, S, heads * features)", [=] { return multi_head_attention(four, four, four, 2); }},
      {"all must have one batch size",
       [=] {
         return multi_head_attention(x, ones({1, 3, 8}), x, 2);
       }},
      {"all must have one batch size",
       [=] {
         return multi_head_attention(x, x, ones({1, 3, 8}), 2);
       }},
      {"k and v must have equally many keys",
       [=] {
         return multi_head_attention(x, x, ones({2, 4, 8}), 2);
       }},
      {"the last axis of q must be num_heads times", [=] { return multi_head_attention(x, x, x, 0); }},
      {"the last axis of q must be num_heads times", [=] { return multi_head_attention(x, x, x, 3); }},
      {"the last axis of q must be num_heads times",
       [] {
         return multi_head_attention(ones({1, 1, 0}), ones({1, 1, 0}), ones({1, 1, 0}), 2);
       }},
      {"the last axis of k must be a multiple of 4",
       [=] {
         return multi_head_attention(x, ones({2, 3, 6}), x, 2);
       }},
      {"the last axis of v must be a multiple of 2",
       [=] {
         return multi_head_attention(x, x, ones({2, 3, 7}), 2);
       }},
      {"the last axis of v must be a multiple of -1",
       attend_parts(heads_last(x, 2), heads_last(x, 2), heads_last(x, -1))},
      {"all must have their heads first, or all last",
       attend_parts(heads_last(x, 2), heads_first(x), heads_last(x, 2))},
      {"a part must lie within the last axis", in_part(-1, 2, 4)},
      {"a part must lie within the last axis", in_part(0, 0, 4)},
      {"a part must lie within the last axis", in_part(0, 2, -4)},
      {"a part must lie within the last axis", in_part(25, 2, 0)},
      {"a part must lie within the last axis", in_part(20, 2, 4)},
      {"parts of one tensor must not overlap",
       attend_parts(part(packed, 0, 2, 4), part(packed, 4, 2, 4), part(packed, 16, 2, 4))},
      {"num_heads 2, num_kv_heads -1", [=] { return packed_self_attention(packed, 2, {}, -1); }},
      {"num_heads 2, num_kv_heads 3", [=] { return packed_self_attention(packed, 2, {}, 3); }},
      {"num_heads 0", [=] { return packed_self_attention(packed, 0); }},
      {"num_heads 25", [=] { return packed_self_attention(packed, 25); }},
      {"qkv is [3, 24]",
       [=] {
         return packed_self_attention(ones({3, 24}), 2);
       }},
      {"v (B, H, T, Dv)",
       [=] {
         return linear_attention(four, four, ones({1, 2, 3}));
       }},
      {"v (B, H, T, Dv)",
       [=] {
         return linear_attention(four, four, ones({1, 2, 4, 4}));
       }},
      {"v (B, H, T, Dv)",
       [=] {
         return linear_attention(four, ones({1, 2, 3, 5}), four);
       }},
      {"v (B, H, T, Dv)", [=] { return linear_attention(x, x, x); }},
  });
}

TEST_CASE("derivatives of functions refuse what has no rows or changes", "[refusals]") {
  const Tensor x = ones({2, 3}).requires_grad_(), scalar = tensor(1.).requires_grad_();
  check_refused({
      {"[batch_jacobian] y is [], x is [2, 3]", [=] { return batch_jacobian(sum(x), x); }},
      {"[batch_jacobian] y is [1], x is []", [=] { return batch_jacobian(reshape(scalar * 2, {1}), scalar); }},
      {"[batch_jacobian] y is [3], x is [2, 3]", [=] { return batch_jacobian(sum(x, 0), x); }},
  });
  // checkpoint() computes f again in backward(): it must draw the same numbers and give the same shape.
  const auto again = [](FunctionRef<Tensor(const Tensor&, int call)> f) {
    const auto calls = std::make_shared<int>(0);
    const Tensor a = ones({3}).requires_grad_();
    sum(checkpoint([=](const Tensor& z) { return f(z, (*calls)++); }, a)).backward();
  };
  Generator one(1);
  check_refused({
      {"f drew more or fewer random numbers",
       [&] { again([&](const Tensor& z, int call) { return call == 0 ? z * 2 : z * randn({3}, float32, one); }); }},
      {"f gave something else", [&] { again([](const Tensor& z, int call) { return call == 0 ? z * 2 : sum(z); }); }},
      {"f gave something else", [&] { again([](const Tensor& z, int call) { return call == 0 ? z * 2 : Tensor(); }); }},
      {"f gave something else",
       [&] { again([](const Tensor& z, int call) { return call == 0 ? z * 2 : z.detach(); }); }},
  });
}

}  // namespace fit::test::op_refusals_test
