#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fit/graph.hpp"
#include "fit/option.hpp"
#include "fit/random.hpp"
#include "fit/tensor.hpp"

/// Every operation, what it computes, its shapes and what it throws.
///
/// For all of them: operands broadcast as in NumPy; mixed types promote boolean < int64 < bfloat16 < float32 < float64;
/// a C++ number never promotes; axes may be negative; results are new tensors. A wrong argument throws Error, with the
/// op, the argument, the shapes and the rule. Gradients are PyTorch's, at kinks and ties too; where one is a choice, it
/// is stated. bfloat16 is computed in float32 and rounded once; what Autocast does: docs/low_precision.md.
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
/// a += b makes a new tensor and calls it a. Throws Error for a leaf that wants a gradient: the name would then stand
/// for another tensor than the one that is trained. a.add_(b) changes the tensor itself.
Tensor& operator+=(Tensor& a, const Tensor& b);
Tensor& operator-=(Tensor& a, const Tensor& b);
Tensor& operator*=(Tensor& a, const Tensor& b);
Tensor& operator/=(Tensor& a, const Tensor& b);
Tensor& operator+=(Tensor& a, Scalar b);
Tensor& operator-=(Tensor& a, Scalar b);
Tensor& operator*=(Tensor& a, Scalar b);
Tensor& operator/=(Tensor& a, Scalar b);
/// x^e, element by element. d/dx = e x^(e-1), 0 where e = 0; d/de = x^e ln x, 0 where x = 0 and e >= 0.
Tensor pow(const Tensor& x, Scalar e);
Tensor pow(const Tensor& x, const Tensor& e);
Tensor pow(Scalar x, const Tensor& e);
Tensor square(const Tensor& x);      ///< x x; keeps int64
Tensor reciprocal(const Tensor& x);  ///< 1 / x
/// a - b floor(a / b), which has the sign of b, as Python's %. d/da = 1, d/db = -floor(a / b). int64 stays int64, and
/// throws Error for b = 0.
Tensor remainder(const Tensor& a, const Tensor& b);
Tensor remainder(const Tensor& a, Scalar b);
Tensor remainder(Scalar a, const Tensor& b);
inline Tensor operator%(const Tensor& a, const Tensor& b) { return remainder(a, b); }
inline Tensor operator%(const Tensor& a, Scalar b) { return remainder(a, b); }
inline Tensor operator%(Scalar a, const Tensor& b) { return remainder(a, b); }

// ---- functions of one number: floating types; int64 and boolean are converted to float32 ---------------------------
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor log2(const Tensor& x);
Tensor expm1(const Tensor& x);  ///< e^x - 1, exact near 0
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);  ///< 1 / sqrt(x)
Tensor abs(const Tensor& x);    ///< gradient 0 at 0; keeps int64
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor asin(const Tensor& x);  ///< NaN beyond -1 … 1, as acos()
Tensor acos(const Tensor& x);
Tensor atan(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor erf(const Tensor& x);
Tensor sigmoid(const Tensor& x);                                   ///< 1 / (1 + e^-x)
Tensor log_sigmoid(const Tensor& x);                               ///< -ln(1 + e^-x), without overflow
Tensor relu(const Tensor& x);                                      ///< max(x, 0); gradient 0 at 0
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);  ///< x > 0 ? x : slope x
Tensor elu(const Tensor& x, double alpha = 1.0);                   ///< x > 0 ? x : alpha (e^x - 1)
/// GELU (Hendrycks & Gimpel 2016). exact: x/2 (1 + erf(x / sqrt 2)); tanh: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715
/// x^3))).
enum class Gelu { exact, tanh };
Tensor gelu(const Tensor& x, Gelu form = Gelu::exact);
Tensor silu(const Tensor& x);      ///< x sigmoid(x)
Tensor softplus(const Tensor& x);  ///< ln(1 + e^x), without overflow
/// Cut off to low … high; the gradient passes where low <= x <= high.
Tensor clamp(const Tensor& x, Scalar low, Scalar high);
Tensor clamp_min(const Tensor& x, Scalar low);   ///< max(x, low); the gradient passes where x >= low
Tensor clamp_max(const Tensor& x, Scalar high);  ///< min(x, high); the gradient passes where x <= high
// Steps: gradient 0 everywhere; int64 and boolean are kept as they are.
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor round(const Tensor& x);  ///< to the nearest whole number, of two the even one
Tensor trunc(const Tensor& x);  ///< towards 0
Tensor sign(const Tensor& x);   ///< -1, 0 or 1; NaN stays
/// Numbers in place of NaN and the infinities: `nan`, and the largest and smallest numbers of the type unless others
/// are given. The gradient passes where x is finite.
Tensor nan_to_num(const Tensor& x, double nan = 0);
Tensor nan_to_num(const Tensor& x, double nan, double posinf, double neginf);

// ---- two numbers, conditions --------------------------------------------------------------------------------------
Tensor maximum(const Tensor& a, const Tensor& b);  ///< NaN if either is; the gradient is halved on a tie
Tensor minimum(const Tensor& a, const Tensor& b);  ///< the same, with the smaller one
Tensor atan2(const Tensor& y, const Tensor& x);    ///< the angle of (x, y), in -pi … pi; gradient 0 at the origin
/// condition ? a : b; the condition is boolean, all three broadcast. The gradient reaches only what was chosen, so a
/// NaN in the other branch stays out of it.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& condition, const Tensor& a, Scalar b);
Tensor where(const Tensor& condition, Scalar a, const Tensor& b);
/// x with `value` where the boolean mask is true; the mask broadcasts to the shape of x.
Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value);
// Comparisons give boolean tensors. (== compares elements, as in NumPy: use allclose() or equal() for one answer.)
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
// Logic on boolean tensors; other types count as x != 0.
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
/// One answer: same shape, type and values (NaN is not equal to NaN).
bool equal(const Tensor& a, const Tensor& b);
/// One answer: |a - b| <= atol + rtol |b| everywhere, shapes equal; NaN is close to nothing.
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8);

// ---- reductions: over the axes given (all if none); keepdims leaves them with size 1. ------------------------------
// float32 is accumulated in double, in an order fixed by the shape: the number of threads changes no bit.
Tensor sum(const Tensor& x, const Axes& axes = {}, KeepDims keep = {});   ///< boolean counts into int64
Tensor mean(const Tensor& x, const Axes& axes = {}, KeepDims keep = {});  ///< floating; NaN over nothing
/// sum((x - mean)^2) / (n - correction), in two passes; NaN where n <= correction. Floating.
Tensor var(const Tensor& x, const Axes& axes = {}, Correction correction = Correction{1}, KeepDims keep = {});
Tensor std(const Tensor& x, const Axes& axes = {}, Correction correction = Correction{1},
           KeepDims keep = {});  ///< gradient 0 at 0
/// The same as std(), under a name that `using namespace fit` leaves unambiguous beside the namespace std.
Tensor stddev(const Tensor& x, const Axes& axes = {}, Correction correction = Correction{1}, KeepDims keep = {});
Tensor prod(const Tensor& x, const Axes& axes = {}, KeepDims keep = {});  ///< the gradient is right with zeros too
/// Largest and smallest. Over one axis the gradient goes to the first such element (argmax); over all or several it is
/// shared among equals. NaN wins. Throws Error over nothing.
Tensor max(const Tensor& x, const Axes& axes = {}, KeepDims keep = {});
Tensor min(const Tensor& x, const Axes& axes = {}, KeepDims keep = {});
/// The same, but the gradient is always shared among equals, over one axis too.
Tensor amax(const Tensor& x, const Axes& axes = {}, KeepDims keep = {});
Tensor amin(const Tensor& x, const Axes& axes = {}, KeepDims keep = {});
/// {values, ids (int64)} of the largest and smallest along an axis: max(x, axis) and argmax(x, axis) in one.
std::pair<Tensor, Tensor> max_with_indices(const Tensor& x, int axis, KeepDims keep = {});
std::pair<Tensor, Tensor> min_with_indices(const Tensor& x, int axis, KeepDims keep = {});
/// {values, ids (int64)} along an axis of the element in the middle once they are sorted, of two the lower one; NaN
/// where there is one.
std::pair<Tensor, Tensor> median(const Tensor& x, int axis, KeepDims keep = {});
Tensor median(const Tensor& x);  ///< of all elements, the value alone
/// The number below which the share q (0 … 1) of the elements along an axis lies, between the two nearest in a straight
/// line: for x sorted, and p = q (n - 1), x[floor p] + (p - floor p) (x[floor p + 1] - x[floor p]). Floating; NaN where
/// there is one. Throws Error over nothing.
Tensor quantile(const Tensor& x, double q, int axis, KeepDims keep = {});
Tensor quantile(const Tensor& x, double q);  ///< of all elements
/// (sum |x|^p)^(1/p); for p = infinity the largest |x|, for -infinity the least one, for 0 how many are not 0 (gradient
/// 0). Elements that tie for the largest or the least share the gradient; it is 0 where the norm is 0. Where the
/// norm is NaN the gradient is PyTorch's: NaN for all elements; for p = +-infinity 0, and for p = 1 sign(x). Of nothing
/// 0; throws Error there for p < 0.
Tensor norm(const Tensor& x, double p = 2, const Axes& axes = {}, KeepDims keep = {});
/// ln(sum(e^x)) without overflow; -inf where all are.
Tensor logsumexp(const Tensor& x, const Axes& axes = {}, KeepDims keep = {});
Tensor argmax(const Tensor& x, int axis, KeepDims keep = {});            ///< int64; the first of equals; NaN wins
Tensor argmin(const Tensor& x, int axis, KeepDims keep = {});            ///< the same of the smallest
Tensor argmax(const Tensor& x);                                          ///< over the flattened tensor
Tensor argmin(const Tensor& x);                                          ///< the same of the smallest
Tensor any(const Tensor& x, const Axes& axes = {}, KeepDims keep = {});  ///< boolean
Tensor all(const Tensor& x, const Axes& axes = {}, KeepDims keep = {});  ///< boolean
/// Sums of all elements so far, along an axis.
Tensor cumsum(const Tensor& x, int axis);
Tensor cumprod(const Tensor& x, int axis);  ///< the gradient is right with zeros too
/// How often each of 0, 1, … stands in ids [N] (int64, none negative): [max(largest id + 1, minimum)]. With weights [N]
/// their sums, with a gradient; without, counts (int64).
Tensor bincount(const Tensor& ids, const Tensor& weights = {}, std::int64_t minimum = 0);
/// {counts (int64) [bins], edges [bins + 1]} of the elements within low … high, in bins of one width. The last bin
/// holds its upper edge too; the others don't. Without low and high, from the smallest to the largest. Floating,
/// finite.
std::pair<Tensor, Tensor> histogram(const Tensor& x, std::int64_t bins);
std::pair<Tensor, Tensor> histogram(const Tensor& x, std::int64_t bins, double low, double high);
/// x summed over the axes along which `shape` was broadcast to x's shape: the gradient of broadcasting.
Tensor sum_to(const Tensor& x, const Shape& shape);

// ---- rows: normalised exponentials, normalisation, dropout ---------------------------------------------------------
/// e^(x_i - max) / sum_j e^(x_j - max) along an axis. A row of -inf alone gives NaN, as in PyTorch; attention treats
/// its masked rows itself.
Tensor softmax(const Tensor& x, int axis = -1);
Tensor log_softmax(const Tensor& x, int axis = -1);
/// x / (1 - p) with probability 1 - p, else 0 (p = 1: all 0). What survives depends on the generator's seed, the number
/// of its call, and the element's index.
Tensor dropout(const Tensor& x, double p, Generator& g = default_generator());
/// (x - mean) / sqrt(var + eps) * weight + bias over the last axis, C (Ba et al. 2016; var without correction). weight
/// and bias are [C] or undefined.
Tensor layer_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);
/// x / sqrt(mean(x^2) + eps) * weight over the last axis (Zhang & Sennrich 2019). weight is [C] or undefined.
Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, double eps = 1e-6);
/// x [N, C, ...] with its C channels in groups of neighbours, each brought to mean 0 and variance 1 over its channels
/// and all further axes, times weight [C] plus bias [C] (Wu & He 2018). weight and bias may be undefined.
Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);
/// (x - mean) / sqrt(var + eps) * weight + bias, each [C], along axis 1 of x [N, C, ...] (Ioffe & Szegedy 2015): with
/// statistics given. Those of the batch are taken where mean and var are undefined (var without correction).
Tensor batch_norm(const Tensor& x, const Tensor& mean, const Tensor& var, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
/// x / max(norm(x, p), eps) along an axis.
Tensor normalize(const Tensor& x, double p = 2, int axis = -1, double eps = 1e-12);
/// sum(a b) / (max(|a|, eps) max(|b|, eps)) along an axis: the cosine of the angle between them. a and b broadcast.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int axis = -1, double eps = 1e-8);
/// Distances norm(a_i - b_j, p), p >= 0, between rows of a [..., M, C] and b [..., N, C]: [..., M, N]. Leading axes
/// broadcast.
Tensor cdist(const Tensor& a, const Tensor& b, double p = 2);

// ---- positions -----------------------------------------------------------------------------------------------------
/// The two features of a head that are rotated together as pair i, of D: (2i, 2i + 1), or (i, i + D/2).
enum class RotaryLayout { interleaved, half_split };
struct RotaryOptions {
  FIT_OPTION(RotaryLayout, layout) = RotaryLayout::half_split;  ///< Which features turn together.
  /// How many of the W features are rotated, whole heads; the rest is copied. -1: all.
  FIT_OPTION(std::int64_t, features) = -1;
  FIT_OPTION(std::int64_t, offset) = 0;  ///< The position of the first row.
  FIT_OPTION(bool, inverse) = false;     ///< Rotates back.
};
/// Rotary positions (Su et al. 2021): x [..., T, W] is heads of D features side by side. Pair i of a head at position t
/// is rotated by the angle a whose cos and sin are table[offset + t][i]: (x cos a - y sin a, x sin a + y cos a). The
/// table is [at least offset + T, D/2, 2], float64 (nn::rotary_table()), and gets no gradient.
Tensor rotary(const Tensor& x, const Tensor& table, const RotaryOptions& options = {});

// ---- losses (fit/nn/loss.hpp has them as functions with reductions) ------------------------------------------------
/// Row by row lse(x) - x[target], float [N], from logits x [N, C] and ids [N] (int64): -ln of the target's probability.
/// 0, with no gradient, where the target is ignore_index. Throws Error for another target outside 0 … C - 1.
Tensor cross_entropy_rows(const Tensor& logits, const Tensor& targets, std::int64_t ignore_index = -100);

// ---- shape: reshape and its kin share the buffer, all others copy -------------------------------------------------
/// One size may be -1: what is left.
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor reshape(const Tensor& x, const std::vector<std::int64_t>& shape);
Tensor reshape(const Tensor& x, std::initializer_list<std::int64_t> shape);
Tensor flatten(const Tensor& x, int first = 0, int last = -1);  ///< axes first … last become one
Tensor squeeze(const Tensor& x, int axis);                      ///< takes out an axis of size 1
Tensor squeeze(const Tensor& x);                                ///< takes out all of them
Tensor unsqueeze(const Tensor& x, int axis);                    ///< puts one in before `axis` of the result
Tensor transpose(const Tensor& x, int a = -2, int b = -1);      ///< swaps two axes
Tensor permute(const Tensor& x, const std::vector<int>& axes);  ///< axis i of the result is axis axes[i] of x
/// x repeated along axes of size 1, and along new ones in front.
Tensor broadcast_to(const Tensor& x, const Shape& shape);
Tensor movedim(const Tensor& x, int from, int to);  ///< axis `from` becomes axis `to`; the others keep their order
/// x put side by side as often as told for each axis; where there are more counts than axes, axes of size 1 come first.
Tensor repeat(const Tensor& x, const std::vector<std::int64_t>& counts);
/// The same, but where there are fewer counts than axes, they are those of the last axes (NumPy's tile).
Tensor tile(const Tensor& x, const std::vector<std::int64_t>& counts);
Tensor repeat_interleave(const Tensor& x, std::int64_t count, int axis);  ///< each element `count` times in a row
Tensor roll(const Tensor& x, std::int64_t shift, int axis);  ///< y[i] = x[i - shift], what falls off comes in again
/// What pad() puts beyond the ends of an axis: one value, the elements as in a mirror that stands on the outermost one,
/// or the outermost one again and again.
enum class PadMode { constant, reflect, replicate };
/// Elements put before and after axes, PyTorch's order: {before the last, after the last, before the last but one, …}.
/// Negative widths take elements away. reflect throws Error for more than the axis has beside its outermost one.
Tensor pad(const Tensor& x, const std::vector<std::int64_t>& widths, PadMode mode = PadMode::constant,
           Scalar value = 0);
std::vector<Tensor> unbind(const Tensor& x, int axis = 0);  ///< its elements along an axis, which goes away
/// Elements x[i][i + offset] of two axes, which go away; the diagonal becomes the last axis.
Tensor diagonal(const Tensor& x, std::int64_t offset = 0, int a = 0, int b = 1);
Tensor diag(const Tensor& x,
            std::int64_t offset = 0);  ///< of [N] a matrix with that diagonal, of a matrix its diagonal
/// Of vectors [N_0], [N_1], …: tensors [N_0, N_1, …], each of which varies along its own axis (indexing "ij").
std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors);
/// Windows of `size` neighbours along an axis, whose first elements are `step` apart: the axis becomes their count,
/// floor((n - size) / step) + 1, and a last axis of `size` is new.
Tensor unfold(const Tensor& x, int axis, std::int64_t size, std::int64_t step = 1);
/// The adjoint of unfold(): windows, as it gives them, added up into an axis of n elements.
Tensor fold(const Tensor& windows, int axis, std::int64_t n, std::int64_t step = 1);
/// Parts one behind the other along an axis; stack() along a new one, before `axis`. Shapes must agree elsewhere.
Tensor cat(const std::vector<Tensor>& parts, int axis = 0);
Tensor stack(const std::vector<Tensor>& parts, int axis = 0);
/// Pieces of `size` along an axis (the last may be smaller), or of the sizes given.
std::vector<Tensor> split(const Tensor& x, std::int64_t size, int axis = 0);
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int axis = 0);
std::vector<Tensor> chunk(const Tensor& x, int count, int axis = 0);  ///< as equal as they can be
/// x[{...}]: see Index. At most one list among the entries.
Tensor index(const Tensor& x, const std::vector<Index>& where);
/// Writes v, broadcast, into x[{...}]: x itself changes. A list must not name an element twice.
void index_put_(Tensor& x, const std::vector<Index>& where, const Tensor& v);
/// Writes v, broadcast to the shape of take(x, where), there: x[mask] = v. Ids must not name a row twice.
void index_put_(Tensor& x, const Tensor& where, const Tensor& v);
/// Elements start, start + step, … (count of them) of one axis.
Tensor slice(const Tensor& x, int axis, std::int64_t start, std::int64_t stop, std::int64_t step = 1);
Tensor index_select(const Tensor& x, int axis,
                    const Tensor& ids);  ///< ids: int64 [N]; negative ones count from the end
/// y[i][j] = x[ids[i][j]][j] for axis 0, and so on. ids: int64, of x's rank, not larger than x beside the axis.
Tensor gather(const Tensor& x, int axis, const Tensor& ids);
/// A copy of x with src added: y[ids[i][j]][j] += src[i][j] for axis 0, and so on.
Tensor scatter_add(const Tensor& x, int axis, const Tensor& ids, const Tensor& src);
/// A copy of x with src written: y[ids[i][j]][j] = src[i][j] for axis 0, and so on. No element may be named twice.
Tensor scatter(const Tensor& x, int axis, const Tensor& ids, const Tensor& src);
/// A copy of x with slices of src added: y[ids[i]] += src[i] for axis 0, and so on. ids: int64 [N].
Tensor index_add(const Tensor& x, int axis, const Tensor& ids, const Tensor& src);
/// gather() whose x and ids broadcast beside the axis: x[ids[i][j]][j] with NumPy's take_along_axis.
Tensor take_along(const Tensor& x, int axis, const Tensor& ids);
/// The elements where the boolean mask is true, in row-major order: [N]. The mask broadcasts to the shape of x.
Tensor masked_select(const Tensor& x, const Tensor& mask);
Tensor nonzero(const Tensor& x);  ///< int64 [N, rank]: where x is not 0 (NaN counts), in row-major order
/// x[ids], x[mask]: rows at ids [...] (int64; negative ones count from the end), [..., further axes]; or where a
/// boolean mask of the first axes' shape is true, [N, further axes].
Tensor take(const Tensor& x, const Tensor& where);
/// Rows of table [V, C] at ids [...] (int64): [..., C]. The row padding_idx gets no gradient.
Tensor embedding(const Tensor& table, const Tensor& ids, std::int64_t padding_idx = -1);
/// From behind, along these axes.
Tensor flip(const Tensor& x, const Axes& axes);
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);  ///< 0 above the diagonal of the last two axes
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);  ///< 0 below it
/// {values, ids (int64)} along an axis, stable; NaN sorts as the largest. The gradient is that of the values.
std::pair<Tensor, Tensor> sort(const Tensor& x, int axis = -1, SortOrder order = {});
/// {values, ids (int64)} of the k largest, or smallest, along an axis, the most extreme first.
std::pair<Tensor, Tensor> topk(const Tensor& x, std::int64_t k, int axis = -1, Extremes which = {});
Tensor argsort(const Tensor& x, int axis = -1, SortOrder order = {});  ///< the ids of sort()
/// What unique() finds: each number once, in ascending order; for each element of x which of them it is (int64, x's
/// shape); and how often each stands there (int64).
struct Unique {
  Tensor values, inverse, counts;
};
Unique unique(const Tensor& x);  ///< no gradient; all NaN are one

// ---- products -----------------------------------------------------------------------------------------------------
/// NumPy's matmul: [..., M, K] x [..., K, N] -> [..., M, N], the leading axes broadcast; a vector on the left is a row,
/// on the right a column, and that axis goes away again. One floating type, or mixed ones promoted.
Tensor matmul(const Tensor& a, const Tensor& b);
/// Whether matmul() reads rows as columns.
enum class Transpose : bool { no, yes };
/// op(a) op(b) where op may transpose the last two axes; [..., M, K] x [..., K, N] after that. Both of rank >= 2.
Tensor matmul(const Tensor& a, Transpose transpose_a, const Tensor& b, Transpose transpose_b);
/// x [..., in] times weight [out, in] transposed, plus bias [out] (may be undefined): [..., out].
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
Tensor outer(const Tensor& a, const Tensor& b);  ///< [M] x [N] -> [M, N]
Tensor dot(const Tensor& a, const Tensor& b);    ///< [N] x [N] -> []: sum(a b)
Tensor bmm(const Tensor& a, const Tensor& b);    ///< [B, M, K] x [B, K, N] -> [B, M, N]
/// beta c + alpha a b for a [M, K], b [K, N] and c that broadcasts to [M, N]. c doesn't count where beta is 0.
Tensor addmm(const Tensor& c, const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1);
/// Einstein's sum, NumPy's notation: einsum("bqhd,bkhd->bhqk", {q, k}). One or more operands; "..." stands for leading
/// axes that broadcast; without "->" the letters that stand once are kept, in the order of the alphabet. A letter that
/// stands twice in one operand takes the diagonal: einsum("ii", {x}) is the trace.
Tensor einsum(const std::string& formula, const std::vector<Tensor>& operands);

// ---- convolutions and pools: sliding windows over the last one or two axes ------------------------------------------
/// The same along each axis that the windows slide along.
struct ConvOptions {
  FIT_OPTION(std::int64_t, stride) = 1;    ///< The distance from window to window, in elements.
  FIT_OPTION(std::int64_t, padding) = 0;   ///< The number of zeros before and after the axis.
  FIT_OPTION(std::int64_t, dilation) = 1;  ///< The distance from element to element within a window.
  FIT_OPTION(std::int64_t, groups) = 1;    ///< The number of groups of channels, each with outputs of its own.
};
/// x [N, C, L] and weight [O, C / groups, K]: [N, O, M], M = floor((L + 2 padding - dilation (K - 1) - 1) / stride) +
/// 1, y[n][o][m] = bias[o] + sum of weight[o][c][k] x[n][c][m stride + k dilation - padding]. bias is [O] or undefined.
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvOptions& options = {});
/// The same over the last two axes: x [N, C, H, W], weight [O, C / groups, K, L].
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvOptions& options = {});
/// How the windows of a pool lie.
struct PoolOptions {
  FIT_OPTION(std::int64_t, stride) = 0;  ///< The distance from window to window; 0: the width of the window.
  /// At most half a window. Padding has no effect on a maximum, and counts as zeros in a mean.
  FIT_OPTION(std::int64_t, padding) = 0;
};
/// The largest, or the mean, of each window of `size` along the last axis (x [N, C, L]), or of size x size along the
/// last two (x [N, C, H, W]). The gradient of a maximum goes to the first of equals.
Tensor max_pool1d(const Tensor& x, std::int64_t size, const PoolOptions& options = {});
Tensor max_pool2d(const Tensor& x, std::int64_t size, const PoolOptions& options = {});
Tensor avg_pool1d(const Tensor& x, std::int64_t size, const PoolOptions& options = {});
Tensor avg_pool2d(const Tensor& x, std::int64_t size, const PoolOptions& options = {});

// ---- linear algebra: matrices are the last two axes, leading axes are taken one by one; LAPACK, in float64 ---------
/// X with a X = b for a [..., N, N] and b [..., N, K], of equal leading axes. Throws Error where a is singular.
Tensor solve(const Tensor& a, const Tensor& b);
Tensor inv(const Tensor& x);  ///< the inverse of [..., N, N]; throws Error where it is singular
Tensor det(const Tensor& x);  ///< [..., N, N] -> [...]; the gradient throws Error where it is 0
/// The lower triangle L with L L^T = x, for x symmetric (only its lower triangle is read) and positive definite, else
/// Error. The gradient is that for a symmetric x.
Tensor cholesky(const Tensor& x);
/// {values [..., N] in ascending order, vectors [..., N, N], one a column} of a symmetric x, of which only the lower
/// triangle is read. The gradient of the vectors throws Error where two values are equal.
std::pair<Tensor, Tensor> eigh(const Tensor& x);
/// What svd() gives: x = u diag(s) v^T with u [..., M, K], s [..., K] descending and v [..., N, K], K = min(M, N).
struct Svd {
  Tensor u, s, v;
};
/// The gradients of u and v throw Error where two singular values are equal, or one is 0.
Svd svd(const Tensor& x);
/// {q [..., M, K], r [..., K, N]} with x = q r, K = min(M, N): q^T q = 1, and r is 0 below its diagonal, whose numbers
/// have either sign. The gradient throws Error where the first K columns of x are dependent.
std::pair<Tensor, Tensor> qr(const Tensor& x);

}  // namespace fit
