#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fit/base/option.hpp"
#include "fit/graph/graph.hpp"
#include "fit/ops/windows.hpp"
#include "fit/tensor/random.hpp"
#include "fit/tensor/tensor.hpp"

/// All operations: what they compute, their shapes, and the errors they throw.
///
/// Rules for all of them: operands broadcast as in NumPy. Mixed types promote boolean < int64 < bfloat16 < float32 <
/// float64, and a C++ number changes no type. Except: `/` of int64 and boolean is float32, and sums and products of
/// booleans are int64. Axes may be negative. Results are new tensors. A wrong argument throws Error with the op, the
/// argument, the shapes and the rule. Gradients are PyTorch's, at kinks and ties too; a comment states them where there
/// is a choice. bfloat16 is computed in float32 and rounded once; docs/low_precision.md says what Autocast does.
namespace fit {

// ---- arithmetic: a and b broadcast. int64 stays int64, but a division gives float32. ------------------------------
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
Tensor add(const Tensor& a, Scalar b);
Tensor sub(const Tensor& a, Scalar b);
Tensor sub(Scalar a, const Tensor& b);
Tensor mul(const Tensor& a, Scalar b);
Tensor div(const Tensor& a, Scalar b);
Tensor div(Scalar a, const Tensor& b);
inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator+(const Tensor& a, Scalar b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, Scalar b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, Scalar b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, Scalar b) { return div(a, b); }
inline Tensor operator+(Scalar a, const Tensor& b) { return add(b, a); }
inline Tensor operator-(Scalar a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(Scalar a, const Tensor& b) { return mul(b, a); }
inline Tensor operator/(Scalar a, const Tensor& b) { return div(a, b); }
Tensor neg(const Tensor& x);
inline Tensor operator-(const Tensor& x) { return neg(x); }
/// a += b makes a new tensor and assigns it to the variable a. Throws Error if a is a leaf that requires a gradient:
/// the variable would no longer be the trained tensor. Use a.add_(b) to change the tensor itself.
Tensor& operator+=(Tensor& a, const Tensor& b);
Tensor& operator-=(Tensor& a, const Tensor& b);
Tensor& operator*=(Tensor& a, const Tensor& b);
Tensor& operator/=(Tensor& a, const Tensor& b);
Tensor& operator+=(Tensor& a, Scalar b);
Tensor& operator-=(Tensor& a, Scalar b);
Tensor& operator*=(Tensor& a, Scalar b);
Tensor& operator/=(Tensor& a, Scalar b);
/// x^e, elementwise. d/dx = e x^(e-1), 0 where e = 0; d/de = x^e ln x, 0 where x = 0 and e >= 0.
Tensor pow(const Tensor& x, Scalar e);
Tensor pow(const Tensor& x, const Tensor& e);
Tensor pow(Scalar x, const Tensor& e);
Tensor square(const Tensor& x);      ///< x x; keeps int64
Tensor reciprocal(const Tensor& x);  ///< 1 / x
/// a - b floor(a / b); the sign is that of b, as in Python's %. d/da = 1, d/db = -floor(a / b). int64 stays int64, and
/// throws Error for b = 0.
Tensor remainder(const Tensor& a, const Tensor& b);
Tensor remainder(const Tensor& a, Scalar b);
Tensor remainder(Scalar a, const Tensor& b);
/// a - b trunc(a / b), as C's fmod: the sign is that of a. d/da = 1, d/db = -trunc(a / b). int64 as in remainder().
Tensor fmod(const Tensor& a, const Tensor& b);
Tensor fmod(const Tensor& a, Scalar b);
/// floor(a / b), without a gradient. int64 stays int64, and throws Error for b = 0.
Tensor floor_divide(const Tensor& a, const Tensor& b);
Tensor floor_divide(const Tensor& a, Scalar b);
inline Tensor operator%(const Tensor& a, const Tensor& b) { return remainder(a, b); }
inline Tensor operator%(const Tensor& a, Scalar b) { return remainder(a, b); }
inline Tensor operator%(Scalar a, const Tensor& b) { return remainder(a, b); }

// ---- unary functions: floating types; int64 and boolean are converted to float32 -----------------------------------
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor log2(const Tensor& x);
Tensor log10(const Tensor& x);
Tensor expm1(const Tensor& x);  ///< e^x - 1, accurate near 0
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);  ///< 1 / sqrt(x)
Tensor abs(const Tensor& x);    ///< gradient 0 at 0; keeps int64
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor asin(const Tensor& x);  ///< NaN outside -1 … 1, as acos()
Tensor acos(const Tensor& x);
Tensor atan(const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor asinh(const Tensor& x);
Tensor acosh(const Tensor& x);  ///< NaN below 1
Tensor atanh(const Tensor& x);  ///< NaN outside -1 … 1
Tensor erf(const Tensor& x);
Tensor sigmoid(const Tensor& x);                                   ///< 1 / (1 + e^-x)
Tensor log_sigmoid(const Tensor& x);                               ///< -ln(1 + e^-x), without overflow
Tensor relu(const Tensor& x);                                      ///< max(x, 0); gradient 0 at 0
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);  ///< x > 0 ? x : slope x
Tensor elu(const Tensor& x, double alpha = 1.0);                   ///< x > 0 ? x : alpha (e^x - 1)
Tensor celu(const Tensor& x, double alpha = 1.0);                  ///< x > 0 ? x : alpha (e^(x / alpha) - 1)
/// scale elu(x, alpha) with scale 1.0507 and alpha 1.6733 (Klambauer et al. 2017): mean 0 and variance 1 stay.
Tensor selu(const Tensor& x);
Tensor relu6(const Tensor& x);        ///< x limited to 0 … 6; gradient 0 at both ends
Tensor hardtanh(const Tensor& x);     ///< x limited to -1 … 1; gradient 0 at both ends. clamp() takes other limits
Tensor hardsigmoid(const Tensor& x);  ///< relu6(x + 3) / 6
Tensor hardswish(const Tensor& x);    ///< x relu6(x + 3) / 6 (Howard et al. 2019)
/// x > 0 ? x : weight x (He et al. 2015). weight has one element, or one for each index of axis 1 of x.
Tensor prelu(const Tensor& x, const Tensor& weight);
/// GELU (Hendrycks & Gimpel 2016). exact: x/2 (1 + erf(x / sqrt 2)).
/// tanh: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
enum class Gelu { exact, tanh };
Tensor gelu(const Tensor& x, Gelu form = Gelu::exact);
Tensor silu(const Tensor& x);                         ///< x sigmoid(x)
Tensor mish(const Tensor& x);                         ///< x tanh(softplus(x)) (Misra 2019)
Tensor softplus(const Tensor& x, double beta = 1.0);  ///< ln(1 + e^(beta x)) / beta, without overflow
Tensor softsign(const Tensor& x);                     ///< x / (1 + |x|)
/// Limits x to low … high. The gradient passes where low <= x <= high.
Tensor clamp(const Tensor& x, Scalar low, Scalar high);
Tensor clamp_min(const Tensor& x, Scalar low);   ///< max(x, low); the gradient passes where x >= low
Tensor clamp_max(const Tensor& x, Scalar high);  ///< min(x, high); the gradient passes where x <= high
// Step functions: the gradient is 0 everywhere; int64 and boolean stay as they are.
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor round(const Tensor& x);  ///< to the nearest integer, ties to even
Tensor trunc(const Tensor& x);  ///< towards 0
Tensor sign(const Tensor& x);   ///< -1, 0 or 1; NaN stays
/// Replaces NaN by `nan` and the infinities by `posinf` and `neginf`. The default of these two is the largest and the
/// smallest number of the type. The gradient passes where x is finite.
Tensor nan_to_num(const Tensor& x, double nan = 0);
Tensor nan_to_num(const Tensor& x, double nan, double posinf, double neginf);

// ---- binary functions, conditions ---------------------------------------------------------------------------------
Tensor maximum(const Tensor& a, const Tensor& b);  ///< NaN if a or b is NaN; the gradient is halved on a tie
Tensor minimum(const Tensor& a, const Tensor& b);  ///< as maximum()
Tensor atan2(const Tensor& y, const Tensor& x);    ///< the angle of (x, y), in -pi … pi; gradient 0 at the origin
/// |a| with the sign of b, also of -0. da = dy where the signs agree, -dy where they differ, 0 at 0; b has no gradient.
Tensor copysign(const Tensor& a, const Tensor& b);
Tensor logaddexp(const Tensor& a, const Tensor& b);  ///< ln(e^a + e^b) without overflow
/// condition ? a : b. The condition is boolean, and all three broadcast. The gradient of the chosen elements is that of
/// the result, and 0 elsewhere. A NaN in the other branch has no effect on the result. But 0 times an infinite slope is
/// NaN further back: write sqrt(where(x > 0, x, 1)), not where(x > 0, sqrt(x), 0).
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& condition, const Tensor& a, Scalar b);
Tensor where(const Tensor& condition, Scalar a, const Tensor& b);
/// x with `value` where the boolean mask is true. The mask broadcasts to the shape of x.
Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value);
// Comparisons give boolean tensors. == compares element by element, as in NumPy; allclose() and equal() give one bool.
Tensor eq(const Tensor& a, const Tensor& b);
Tensor ne(const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, const Tensor& b);
Tensor eq(const Tensor& a, Scalar b);
Tensor ne(const Tensor& a, Scalar b);
Tensor lt(const Tensor& a, Scalar b);
Tensor le(const Tensor& a, Scalar b);
Tensor gt(const Tensor& a, Scalar b);
Tensor ge(const Tensor& a, Scalar b);
inline Tensor operator==(const Tensor& a, const Tensor& b) { return eq(a, b); }
inline Tensor operator!=(const Tensor& a, const Tensor& b) { return ne(a, b); }
inline Tensor operator<(const Tensor& a, const Tensor& b) { return lt(a, b); }
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return le(a, b); }
inline Tensor operator>(const Tensor& a, const Tensor& b) { return gt(a, b); }
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return ge(a, b); }
inline Tensor operator==(const Tensor& a, Scalar b) { return eq(a, b); }
inline Tensor operator!=(const Tensor& a, Scalar b) { return ne(a, b); }
inline Tensor operator<(const Tensor& a, Scalar b) { return lt(a, b); }
inline Tensor operator<=(const Tensor& a, Scalar b) { return le(a, b); }
inline Tensor operator>(const Tensor& a, Scalar b) { return gt(a, b); }
inline Tensor operator>=(const Tensor& a, Scalar b) { return ge(a, b); }
inline Tensor operator==(Scalar a, const Tensor& b) { return eq(b, a); }
inline Tensor operator!=(Scalar a, const Tensor& b) { return ne(b, a); }
inline Tensor operator<(Scalar a, const Tensor& b) { return gt(b, a); }
inline Tensor operator<=(Scalar a, const Tensor& b) { return ge(b, a); }
inline Tensor operator>(Scalar a, const Tensor& b) { return lt(b, a); }
inline Tensor operator>=(Scalar a, const Tensor& b) { return le(b, a); }
// Logical operations on boolean tensors. An element of another type is true if x != 0.
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& x);
inline Tensor operator&&(const Tensor& a, const Tensor& b) { return logical_and(a, b); }
inline Tensor operator||(const Tensor& a, const Tensor& b) { return logical_or(a, b); }
inline Tensor operator!(const Tensor& x) { return logical_not(x); }
Tensor isnan(const Tensor& x);
Tensor isfinite(const Tensor& x);
Tensor isinf(const Tensor& x);
/// Whether shape, type and all values are the same (NaN is not equal to NaN).
bool equal(const Tensor& a, const Tensor& b);
/// Whether the shapes are equal and |a - b| <= atol + rtol |b| everywhere. NaN is close to nothing.
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8);

/// Whether |a - b| <= atol + rtol |b|, for each element: boolean. a and b broadcast.
Tensor isclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8);

// ---- reductions: over the given axes (all by default); keepdims keeps them with size 1. ----------------------------
// float32 is accumulated in double, in an order that depends on the shape only: the number of threads changes no bit.
Tensor sum(const Tensor& x, const Axes& axes = {}, KeepDims keep = {});   ///< boolean: the count of true, int64
Tensor mean(const Tensor& x, const Axes& axes = {}, KeepDims keep = {});  ///< floating; NaN for an empty range
/// sum((x - mean)^2) / (n - correction), in two passes; NaN where n <= correction. Floating.
Tensor var(const Tensor& x, const Axes& axes = {}, Correction correction = Correction{1}, KeepDims keep = {});
/// The same with keepdims before the correction: var(x, -1, keepdims).
Tensor var(const Tensor& x, const Axes& axes, KeepDims keep, Correction correction = Correction{1});
/// The square root of var(), with gradient 0 at 0. After `using namespace fit`, std(x) is ambiguous beside the
/// namespace std: write x.std() or fit::std(x).
Tensor std(const Tensor& x, const Axes& axes = {}, Correction correction = Correction{1}, KeepDims keep = {});
Tensor std(const Tensor& x, const Axes& axes, KeepDims keep, Correction correction = Correction{1});
Tensor prod(const Tensor& x, const Axes& axes = {}, KeepDims keep = {});  ///< the gradient is correct with zeros, too
/// Maximum and minimum. Over one axis, the gradient goes to the first such element (argmax). Over all or several axes,
/// equal elements share it. NaN wins, and all NaN count as equal. Throws Error for an empty range.
Tensor max(const Tensor& x, const Axes& axes = {}, KeepDims keep = {});
Tensor min(const Tensor& x, const Axes& axes = {}, KeepDims keep = {});
/// Same, but equal elements always share the gradient, over one axis, too.
Tensor amax(const Tensor& x, const Axes& axes = {}, KeepDims keep = {});
Tensor amin(const Tensor& x, const Axes& axes = {}, KeepDims keep = {});
/// {values, ids (int64)} of the maximum or minimum along an axis: max(x, axis) and argmax(x, axis) in one call.
std::pair<Tensor, Tensor> max_with_indices(const Tensor& x, int axis, KeepDims keep = {});
std::pair<Tensor, Tensor> min_with_indices(const Tensor& x, int axis, KeepDims keep = {});
/// {values, ids (int64)} of the median along an axis: the middle element in sorted order, the lower one of two. NaN if
/// there is a NaN.
std::pair<Tensor, Tensor> median(const Tensor& x, int axis, KeepDims keep = {});
Tensor median(const Tensor& x);  ///< of all elements; the value only. The gradient goes to one element, on a tie too.
/// The q-quantile (q in 0 … 1) along an axis, linearly interpolated. For sorted x and p = q (n - 1): x[floor p] + (p -
/// floor p) (x[floor p + 1] - x[floor p]). Floating. NaN if there is a NaN. Throws Error for an empty range.
Tensor quantile(const Tensor& x, double q, int axis, KeepDims keep = {});
Tensor quantile(const Tensor& x, double q);  ///< of all elements
/// (sum |x|^p)^(1/p). p = infinity: max |x|; p = -infinity: min |x|; p = 0: the count of nonzero elements (gradient 0).
/// Elements that tie for the max or min share the gradient. The gradient is 0 where the norm is 0. Where the norm is
/// NaN, the gradient is PyTorch's: NaN for all elements; 0 for p = +-infinity; sign(x) for p = 1. An empty range gives
/// 0 for p >= 0, and throws Error for p < 0.
Tensor norm(const Tensor& x, double p = 2, const Axes& axes = {}, KeepDims keep = {});
/// ln(sum(e^x)) without overflow; -inf if all elements are -inf.
Tensor logsumexp(const Tensor& x, const Axes& axes = {}, KeepDims keep = {});
Tensor argmax(const Tensor& x, int axis, KeepDims keep = {});            ///< int64; the first maximum; NaN wins
Tensor argmin(const Tensor& x, int axis, KeepDims keep = {});            ///< int64; the first minimum; NaN wins
Tensor argmax(const Tensor& x);                                          ///< over the flattened tensor
Tensor argmin(const Tensor& x);                                          ///< as argmax()
Tensor any(const Tensor& x, const Axes& axes = {}, KeepDims keep = {});  ///< boolean
Tensor all(const Tensor& x, const Axes& axes = {}, KeepDims keep = {});  ///< boolean
/// The options of cumsum() and cumprod().
struct CumulativeOptions {
  FIT_OPTION(bool, reverse) = false;    ///< From the last element to the first.
  FIT_OPTION(bool, exclusive) = false;  ///< Without the element itself: the first result is 0, or 1 for a product.
};
/// Cumulative sum and product along an axis.
Tensor cumsum(const Tensor& x, int axis, const CumulativeOptions& options = {});
/// As cumsum(); the gradient is correct with zeros, too.
Tensor cumprod(const Tensor& x, int axis, const CumulativeOptions& options = {});
Tensor logcumsumexp(const Tensor& x, int axis);  ///< ln(cumsum(e^x)) without overflow; floating
/// {values, ids (int64)} of the largest (smallest) element up to each one along an axis; of equal elements the last.
/// NaN wins from its place on.
std::pair<Tensor, Tensor> cummax(const Tensor& x, int axis);
std::pair<Tensor, Tensor> cummin(const Tensor& x, int axis);
/// Counts how often each of 0, 1, … occurs in ids [N] (int64, not negative): int64 [max(largest id + 1, minimum)]. With
/// weights [N] it sums the weights of each id instead, with a gradient.
Tensor bincount(const Tensor& ids, const Tensor& weights = {}, std::int64_t minimum = 0);
/// {counts (int64) [bins], edges [bins + 1]} of the elements in low … high, in bins of equal width. Only the last bin
/// includes its upper edge. low and high default to the minimum and maximum of x. x must be floating and finite.
std::pair<Tensor, Tensor> histogram(const Tensor& x, std::int64_t bins);
std::pair<Tensor, Tensor> histogram(const Tensor& x, std::int64_t bins, double low, double high);
/// Sums x over the axes along which `shape` was broadcast to x's shape: the gradient of broadcasting. x itself if it
/// has this shape.
Tensor sum_to(const Tensor& x, const Shape& shape);

// ---- softmax, normalisation, dropout, distances --------------------------------------------------------------------
/// e^(x_i - max) / sum_j e^(x_j - max) along an axis. A slice of -inf only gives NaN, as in PyTorch; attention handles
/// fully masked rows itself.
Tensor softmax(const Tensor& x, int axis = -1);
Tensor log_softmax(const Tensor& x, int axis = -1);
/// x / (1 - p) with probability 1 - p, else 0 (p = 1: all 0). Which elements are kept depends on the generator's seed,
/// the number of its call, and the element's index. x itself if p is 0, as in PyTorch: a change in place changes x.
Tensor dropout(const Tensor& x, double p, Generator& g = default_generator());
/// Gated linear unit (Dauphin et al. 2017): a sigmoid(b) for the first and the second half of x along an axis of even
/// size.
Tensor glu(const Tensor& x, int axis = -1);
/// The options of gumbel_softmax().
struct GumbelSoftmaxOptions {
  FIT_OPTION(double, tau) = 1;     ///< The temperature. A small one gives samples close to one-hot.
  FIT_OPTION(bool, hard) = false;  ///< Returns one-hot samples, with the gradient of the soft ones.
  FIT_OPTION(int, axis) = -1;      ///< The axis of the classes.
};
/// softmax((logits + g) / tau), g = -ln(-ln(u)), u uniform in (0, 1): a sample of classes that passes on gradients
/// (Jang et al. 2017).
Tensor gumbel_softmax(const Tensor& logits, const GumbelSoftmaxOptions& options = {},
                      Generator& g = default_generator());
/// softmax() over the slices that have the same id, for the edges of a graph: along axis 0, y[i] = e^(x[i] - max) /
/// sum_j e^(x[j] - max) over all j with ids[j] = ids[i]. ids: int64 [N], not negative, N the size of the axis.
Tensor segment_softmax(const Tensor& x, const Tensor& ids, int axis = 0);
/// (x - mean) / sqrt(var + eps) * weight + bias over the last axis, C (Ba et al. 2016; var without correction). weight
/// and bias are [C] or undefined.
Tensor layer_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);
/// x / sqrt(mean(x^2) + eps) * weight over the last axis (Zhang & Sennrich 2019). weight is [C] or undefined.
Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, double eps = 1e-6);
/// Splits the C channels of x [N, C, ...] into groups of neighbours. Normalises each group, over its channels and all
/// further axes, to mean 0 and variance 1. Then multiplies by weight [C] and adds bias [C] (Wu & He 2018). weight and
/// bias may be undefined.
Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);
/// (x - mean) / sqrt(var + eps) * weight + bias along axis 1 of x [N, C, ...]; all four are [C] (Ioffe & Szegedy 2015).
/// If mean and var are undefined, the statistics of the batch are used (var without correction).
Tensor batch_norm(const Tensor& x, const Tensor& mean, const Tensor& var, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
/// Does not compile: true is PyTorch's `training` there, and would be an eps of 1. For training, mean and var are {}.
template <class T, class = std::enable_if_t<std::is_same_v<T, bool>>>
Tensor batch_norm(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, T) = delete;
/// x / max(norm(x, p), eps) along an axis.
Tensor normalize(const Tensor& x, double p = 2, int axis = -1, double eps = 1e-12);
/// sum(a b) / (max(|a|, eps) max(|b|, eps)) along an axis: the cosine of the angle between them. a and b broadcast.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int axis = -1, double eps = 1e-8);
/// Distances norm(a_i - b_j, p), p >= 0, of rows of a [..., M, C] and b [..., N, C]: [..., M, N]. Leading axes
/// broadcast.
Tensor cdist(const Tensor& a, const Tensor& b, double p = 2);

// ---- positions -----------------------------------------------------------------------------------------------------
/// Which two of a head's D features are rotated together as pair i: (2i, 2i + 1), or (i, i + D/2).
enum class RotaryLayout { interleaved, half_split };
struct RotaryOptions {
  FIT_OPTION(RotaryLayout, layout) = RotaryLayout::half_split;  ///< Which features are rotated together.
  /// How many of the W features are rotated (a multiple of the head size); the others are copied. -1: all.
  FIT_OPTION(std::int64_t, features) = -1;
  /// The features of a head, at least the table's D; 0: D. The features of a head after the first D are copied.
  FIT_OPTION(std::int64_t, head_size) = 0;
  FIT_OPTION(std::int64_t, offset) = 0;  ///< The position of the first row.
  /// The position of each row instead, int64: [T], or [..., T] as x has it. For packed sequences and trees of tokens.
  FIT_OPTION(Tensor, positions);
  /// Rotates back. A yarn table scales in both directions: there and back multiplies x by (0.1 ln(factor) + 1)^2.
  FIT_OPTION(bool, inverse) = false;
};
/// Rotary position embedding (Su et al. 2021). x [..., T, W] holds heads of D features, side by side. The pair (x, y)
/// with index i at position t becomes (x cos a - y sin a, x sin a + y cos a), with (cos a, sin a) = table[offset +
/// t][i], or table[positions[t]][i]. The table is [positions, D/2, 2], float64 (see nn::rotary_table()), and gets no
/// gradient. Throws Error for a position that is not in the table.
Tensor rotary(const Tensor& x, const Tensor& table, const RotaryOptions& options = {});

// ---- losses (fit/nn/loss/loss.hpp adds the reductions) -------------------------------------------------------------
/// -ln of the target's probability, lse(x) - x[target], for each row of logits x [N, C] and ids [N] (int64): [N]. 0
/// without a gradient where the target is ignore_index. Throws Error for another target outside 0 … C - 1.
Tensor cross_entropy_rows(const Tensor& logits, const Tensor& targets, std::int64_t ignore_index = -100);

// ---- shape: reshape, flatten, squeeze and unsqueeze share the buffer, all others copy -----------------------------
/// One size may be -1: it is inferred.
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor reshape(const Tensor& x, const std::vector<std::int64_t>& shape);
Tensor reshape(const Tensor& x, std::initializer_list<std::int64_t> shape);
Tensor flatten(const Tensor& x, int first = 0, int last = -1);  ///< axes first … last become one
Tensor squeeze(const Tensor& x, int axis);                      ///< removes an axis of size 1
Tensor squeeze(const Tensor& x);                                ///< removes all axes of size 1
Tensor unsqueeze(const Tensor& x, int axis);                    ///< inserts an axis before `axis` of the result
Tensor transpose(const Tensor& x, int a = -2, int b = -1);      ///< swaps two axes
Tensor permute(const Tensor& x, const std::vector<int>& axes);  ///< axis i of the result is axis axes[i] of x
/// Repeats x along axes of size 1, and along new leading axes.
Tensor broadcast_to(const Tensor& x, const Shape& shape);
Tensor movedim(const Tensor& x, int from, int to);  ///< axis `from` becomes axis `to`; the others keep their order
/// Concatenates counts[i] copies of x along axis i. With more counts than axes, x gets leading axes of size 1.
Tensor repeat(const Tensor& x, const std::vector<std::int64_t>& counts);
/// Same, but fewer counts than axes belong to the last axes (NumPy's tile).
Tensor tile(const Tensor& x, const std::vector<std::int64_t>& counts);
Tensor repeat_interleave(const Tensor& x, std::int64_t count, int axis);  ///< each element `count` times in a row
/// Same with a count for each element, int64 [N]: the batch's row of each element of sequences of these lengths is
/// repeat_interleave(arange(B), lengths, 0).
Tensor repeat_interleave(const Tensor& x, const Tensor& counts, int axis);
Tensor roll(const Tensor& x, std::int64_t shift, int axis);  ///< y[i] = x[i - shift], cyclic
/// The same along several axes, with a shift for each.
Tensor roll(const Tensor& x, const std::vector<std::int64_t>& shifts, const std::vector<int>& axes);
/// The elements that pad() adds: one value, the mirror image without the outermost element, or the outermost element.
enum class PadMode { constant, reflect, replicate };
/// Adds elements before and after axes, in PyTorch's order: {before the last, after the last, before the last but one,
/// …}. Negative widths remove elements. reflect throws Error for a width of the axis's size or more.
Tensor pad(const Tensor& x, const std::vector<std::int64_t>& widths, PadMode mode = PadMode::constant,
           Scalar value = 0);
std::vector<Tensor> unbind(const Tensor& x, int axis = 0);  ///< the slices along an axis; the axis is removed
/// Elements x[i][i + offset] of two axes. The two axes are removed, and the diagonal becomes the last axis.
Tensor diagonal(const Tensor& x, std::int64_t offset = 0, int a = 0, int b = 1);
Tensor diag(const Tensor& x,
            std::int64_t offset = 0);  ///< [N] -> a matrix with this diagonal; a matrix -> its diagonal
/// Vectors [N_0], [N_1], … -> tensors [N_0, N_1, …]; tensor i varies along axis i only (indexing "ij").
std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors);
/// Windows of `size` neighbours along an axis, `step` apart. The axis becomes the number of windows, floor((n - size) /
/// step) + 1, and a new last axis has `size`.
Tensor unfold(const Tensor& x, int axis, std::int64_t size, std::int64_t step = 1);
/// The adjoint of unfold(): adds up windows into an axis of n elements.
Tensor fold(const Tensor& windows, int axis, std::int64_t n, std::int64_t step = 1);
/// Concatenates parts along an axis; stack() along a new axis, before `axis`. All other sizes must agree.
Tensor cat(const std::vector<Tensor>& parts, int axis = 0);
Tensor stack(const std::vector<Tensor>& parts, int axis = 0);
/// Pieces of `size` along an axis (the last may be smaller), or of the given sizes.
std::vector<Tensor> split(const Tensor& x, std::int64_t size, int axis = 0);
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int axis = 0);
std::vector<Tensor> chunk(const Tensor& x, int count, int axis = 0);  ///< pieces as equal as possible
namespace detail {
/// Moves n tensors into an array. Throws Error in the name of `op` if there are more or fewer.
void to_array(const char* op, const Tensor& x, std::vector<Tensor> pieces, Tensor* array, std::size_t n);
template <std::size_t n>
std::array<Tensor, n> as_array(const char* op, const Tensor& x, std::vector<Tensor> pieces) {
  std::array<Tensor, n> array;
  to_array(op, x, std::move(pieces), array.data(), n);
  return array;
}
}  // namespace detail
/// The same with a number of pieces that is known to the compiler: `auto [mu, log_var] = chunk<2>(x, -1)`. split()
/// throws Error if the pieces are more or fewer, and unbind() if the axis has another size.
template <std::size_t n>
std::array<Tensor, n> chunk(const Tensor& x, int axis = 0) {
  return detail::as_array<n>("chunk", x, chunk(x, static_cast<int>(n), axis));
}
template <std::size_t n>
std::array<Tensor, n> split(const Tensor& x, std::int64_t size, int axis = 0) {
  return detail::as_array<n>("split", x, split(x, size, axis));
}
template <std::size_t n>
std::array<Tensor, n> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int axis = 0) {
  return detail::as_array<n>("split", x, split(x, sizes, axis));
}
template <std::size_t n>
std::array<Tensor, n> unbind(const Tensor& x, int axis = 0) {
  return detail::as_array<n>("unbind", x, unbind(x, axis));
}
/// x[{...}]: see Index.
Tensor index(const Tensor& x, const std::vector<Index>& where);
/// Writes v, broadcast, into x[{...}]; x itself changes. Lists must not name an element twice.
void index_put_(Tensor& x, const std::vector<Index>& where, const Tensor& v);
/// Same for x[mask] = v and x[ids] = v: v broadcasts to the shape of take(x, where). Ids must not contain a row twice.
void index_put_(Tensor& x, const Tensor& where, const Tensor& v);
/// Elements start, start + step, … up to stop (not included) of one axis.
Tensor slice(const Tensor& x, int axis, std::int64_t start, std::int64_t stop, std::int64_t step = 1);
Tensor index_select(const Tensor& x, int axis,
                    const Tensor& ids);  ///< ids: int64 [N]; negative ones count from the end
/// y[i][j] = x[ids[i][j]][j] for axis 0, and so on. ids: int64, x's rank, not larger than x along the other axes.
Tensor gather(const Tensor& x, int axis, const Tensor& ids);
/// A copy of x with src added: y[ids[i][j]][j] += src[i][j] for axis 0, and so on.
Tensor scatter_add(const Tensor& x, int axis, const Tensor& ids, const Tensor& src);
/// A copy of x, joined with src: y[ids[i][j]][j] = reduce(x[ids[i][j]][j], src[i][j], …) for axis 0, and so on.
/// Elements that no id names are those of x. mean needs a floating type.
Tensor scatter_reduce(const Tensor& x, int axis, const Tensor& ids, const Tensor& src, Reduce reduce,
                      IncludeSelf include_self = IncludeSelf::yes);
/// Same for whole slices: y[ids[i]] = reduce(x[ids[i]], src[i], …) for axis 0, and so on. ids: int64 [N].
Tensor index_reduce(const Tensor& x, int axis, const Tensor& ids, const Tensor& src, Reduce reduce,
                    IncludeSelf include_self = IncludeSelf::yes);
/// A copy of x with src written: y[ids[i][j]][j] = src[i][j] for axis 0, and so on. ids must not name an element twice.
Tensor scatter(const Tensor& x, int axis, const Tensor& ids, const Tensor& src);
/// A copy of x with slices of src added: y[ids[i]] += src[i] for axis 0, and so on. ids: int64 [N].
Tensor index_add(const Tensor& x, int axis, const Tensor& ids, const Tensor& src);
/// gather() with broadcasting: x and ids broadcast along all axes but `axis` (NumPy's take_along_axis).
Tensor take_along(const Tensor& x, int axis, const Tensor& ids);
/// The elements where the boolean mask is true, in row-major order: [N]. The mask broadcasts to the shape of x.
Tensor masked_select(const Tensor& x, const Tensor& mask);
Tensor nonzero(const Tensor& x);  ///< int64 [N, rank]: indices of nonzero elements (and NaN), in row-major order
/// x[ids]: rows at ids [...] (int64; negative ones count from the end), [..., further axes]. x[mask]: rows where a
/// boolean mask of the first axes' shape is true, [N, further axes].
Tensor take(const Tensor& x, const Tensor& where);
/// Rows of table [V, C] at ids [...] (int64): [..., C]. The row padding_idx gets no gradient.
Tensor embedding(const Tensor& table, const Tensor& ids, std::int64_t padding_idx = -1);
/// Reverses the order along these axes.
Tensor flip(const Tensor& x, const Axes& axes);
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);  ///< 0 above the diagonal of the last two axes
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);  ///< 0 below it
/// {values, ids (int64)} along an axis, stable; NaN sorts as the largest. The gradient flows through the values.
std::pair<Tensor, Tensor> sort(const Tensor& x, int axis = -1, SortOrder order = {});
/// {values, ids (int64)} of the k largest (or smallest) along an axis, sorted, the most extreme first.
std::pair<Tensor, Tensor> topk(const Tensor& x, std::int64_t k, int axis = -1, Extremes which = {});
Tensor argsort(const Tensor& x, int axis = -1, SortOrder order = {});  ///< the ids of sort()
/// Where values that equal an element are inserted: before it, or behind it.
enum class Side { left, right };
/// How many elements of `sorted` are below each of `values` (Side::right: or equal to it), int64: inserted at this
/// place, it keeps the order. sorted [N] for values of any shape, or [..., N] with the leading axes of values [..., M].
/// NaN is the largest number. Throws Error unless `sorted` ascends and both have one type.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, Side side = Side::left);
/// The result of unique(): the distinct values in ascending order; for each element of x its index in values (int64,
/// x's shape); how often each value occurs (int64).
struct Unique {
  Tensor values, inverse, counts;
};
Unique unique(const Tensor& x);  ///< no gradient; all NaN count as one value

// ---- matrix products ----------------------------------------------------------------------------------------------
/// NumPy's matmul: [..., M, K] x [..., K, N] -> [..., M, N]; leading axes broadcast. A vector on the left is a row, and
/// a vector on the right is a column; the result has no axis for it. Floating types; mixed ones are promoted.
Tensor matmul(const Tensor& a, const Tensor& b);
/// Whether matmul() transposes an operand.
enum class Transpose : bool { no, yes };
/// op(a) op(b) of shapes [..., M, K] x [..., K, N]; op may transpose the last two axes. Both ranks are >= 2.
/// x x' and x' x of one Tensor x take about 0.6 of the time: they are symmetric.
Tensor matmul(const Tensor& a, Transpose transpose_a, const Tensor& b, Transpose transpose_b);
/// x [..., in] times weight [out, in] transposed, plus bias [out] (may be undefined): [..., out].
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
Tensor outer(const Tensor& a, const Tensor& b);  ///< [M] x [N] -> [M, N]
Tensor dot(const Tensor& a, const Tensor& b);    ///< [N] x [N] -> []: sum(a b)
Tensor bmm(const Tensor& a, const Tensor& b);    ///< [B, M, K] x [B, K, N] -> [B, M, N]
/// beta c + alpha a b for a [M, K], b [K, N], and c that broadcasts to [M, N]. c is ignored if beta is 0.
Tensor addmm(const Tensor& c, const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1);
/// Einstein summation in NumPy's notation: einsum("bqhd,bkhd->bhqk", {q, k}). Takes one or more operands. "..." stands
/// for leading axes. The axes of one letter, or of "...", broadcast: one of size 1 goes with any size of another
/// operand. Of three or more operands, the pair whose product is smallest is contracted first. Without "->", the result
/// has the letters that occur once, in alphabetical order. A letter that occurs twice in one operand takes the
/// diagonal: einsum("ii", {x}) is the trace.
Tensor einsum(const std::string& formula, const std::vector<Tensor>& operands);

// ---- linear algebra on the last two axes, for each index of the leading axes; LAPACK, in float64 ------------------
/// Solves a X = b for a [..., N, N] and b [..., N, K]. Leading axes broadcast. Throws Error if a is singular.
Tensor solve(const Tensor& a, const Tensor& b);
/// Which triangle of a matrix is read.
enum class Triangle : bool { lower, upper };
/// solve() for a triangular a, of which this triangle is read, in a fraction of the time: with a = cholesky(k) of
/// Gaussian processes and covariances. Throws Error for a 0 on the diagonal.
Tensor solve_triangular(const Tensor& a, const Tensor& b, Triangle triangle);
/// Least squares: the x [..., N, K] with the smallest |a x - b| for a [..., M, N] and b [..., M, K] with equal leading
/// axes; of several, the one with the smallest |x|. The gradient assumes that the rank of a does not change nearby.
Tensor lstsq(const Tensor& a, const Tensor& b);
Tensor inv(const Tensor& x);  ///< the inverse of [..., N, N]; throws Error if x is singular
Tensor det(const Tensor& x);  ///< [..., N, N] -> [...]; the gradient throws Error if it is 0
/// {sign, ln |det(x)|} of [..., N, N], each [...]: of large matrices, det() overflows. {0, -inf} if x is singular; the
/// gradient throws Error then.
std::pair<Tensor, Tensor> slogdet(const Tensor& x);
/// The lower triangular L with L L^T = x. x must be symmetric (only its lower triangle is read) and positive definite,
/// otherwise Error. The gradient is that for a symmetric x.
Tensor cholesky(const Tensor& x);
/// Eigenvalues [..., N], ascending, and eigenvectors [..., N, N], in columns, of a symmetric x. Only the lower triangle
/// of x is read. The gradient of the vectors throws Error if two values are equal.
std::pair<Tensor, Tensor> eigh(const Tensor& x);
/// Result of svd(): x = u diag(s) v^T with u [..., M, K], s [..., K] descending and v [..., N, K], K = min(M, N).
struct Svd {
  Tensor u, s, v;
};
/// The gradients of u and v throw Error if two singular values are equal, or one is 0.
Svd svd(const Tensor& x);
/// {q [..., M, K], r [..., K, N]} with x = q r, K = min(M, N). q^T q = 1, and r is upper triangular; its diagonal may
/// be negative. The gradient throws Error if the first K columns of x are linearly dependent.
std::pair<Tensor, Tensor> qr(const Tensor& x);

template <std::size_t n>
std::array<Tensor, n> Tensor::unbind(int axis) const {
  return fit::unbind<n>(*this, axis);
}
template <std::size_t n>
std::array<Tensor, n> Tensor::split(std::int64_t size, int axis) const {
  return fit::split<n>(*this, size, axis);
}
template <std::size_t n>
std::array<Tensor, n> Tensor::split(const std::vector<std::int64_t>& sizes, int axis) const {
  return fit::split<n>(*this, sizes, axis);
}
template <std::size_t n>
std::array<Tensor, n> Tensor::chunk(int axis) const {
  return fit::chunk<n>(*this, axis);
}

}  // namespace fit
