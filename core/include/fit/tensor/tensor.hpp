#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fit/base/error.hpp"
#include "fit/base/shape.hpp"
#include "fit/detail/tensor_impl.hpp"
#include "fit/tensor/index.hpp"
#include "fit/tensor/scalar.hpp"
#include "fit/tensor/span.hpp"

// x[0, 1] is x[1], by C++'s comma: the elements are x[{0, 1}]. g++ warns of a comma there from C++20 on, and here
// always.
#if defined(__GNUC__) && !defined(__clang__) && __cplusplus < 202002L
#pragma GCC diagnostic warning "-Wcomma-subscript"
#endif

namespace fit {

class Tensor;
class Indexed;
class Symbol;
struct CumulativeOptions;

/// The axes of a reduction. Axes() means all axes. An empty list means none: the result is x, as in NumPy. Negative
/// axes count from the end.
class Axes {
 public:
  Axes() = default;
  template <class T, class = std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>>
  Axes(T axis) : Axes({static_cast<int>(axis)}) {}
  Axes(std::initializer_list<int> axes);
  Axes(std::initializer_list<bool>) = delete;
  Axes(std::vector<int> axes);
  bool all() const { return all_; }
  const std::vector<int>& list() const { return axes_; }

 private:
  std::vector<int> axes_;
  bool all_ = true;
};

/// Whether a reduction keeps its axes, with size 1: sum(x, -1, keepdims).
enum class KeepDims : bool { no, yes };
inline constexpr KeepDims keepdims = KeepDims::yes;

/// A variance divides by n - correction. var(x, -1, Correction{0}) is the population variance.
enum class Correction : std::int64_t {};

/// The order of sort(): sort(x, -1, descending).
enum class SortOrder : bool { ascending, descending };
inline constexpr SortOrder descending = SortOrder::descending;

/// Which elements topk() returns: topk(x, 3, -1, smallest).
enum class Extremes : bool { largest, smallest };
inline constexpr Extremes smallest = Extremes::smallest;

/// How scatter_reduce() joins elements with the same id. amax and amin: equal elements share the gradient; NaN wins.
enum class Reduce { sum, mean, amax, amin };
/// Whether scatter_reduce() also joins the element of x. With no, ids that occur replace it.
enum class IncludeSelf : bool { no, yes };

/// Flags of backward() and grad(): y.backward(retain_graph), grad(y, x, create_graph). Combine them with |.
enum class GraphFlags : std::uint8_t { none = 0, retain_graph = 1, create_graph = 2, allow_unused = 4 };
/// Keeps the graph, so that another backward() can use it.
inline constexpr GraphFlags retain_graph = GraphFlags::retain_graph;
/// Records the gradients, so that they are differentiable. Implies retain_graph.
inline constexpr GraphFlags create_graph = GraphFlags::create_graph;
/// If the outputs don't depend on an input, grad() returns an undefined tensor for it instead of throwing Error.
inline constexpr GraphFlags allow_unused = GraphFlags::allow_unused;
/// Combines flags.
constexpr GraphFlags operator|(GraphFlags a, GraphFlags b) {
  return static_cast<GraphFlags>(static_cast<int>(a) | static_cast<int>(b));
}
/// Whether a and b have a common flag.
constexpr bool operator&(GraphFlags a, GraphFlags b) { return (static_cast<int>(a) & static_cast<int>(b)) != 0; }

/// An array of numbers with a shape and a type. It stores how it was computed: backward() computes gradients from that.
///
/// A Tensor is a handle: copying it copies no data, and changes through one copy are visible in the other. The elements
/// are contiguous in row-major order. reshape(), flatten(), squeeze() and unsqueeze() share the buffer; EVERY OTHER
/// OPERATION COPIES, including slices and transposes. So x[{0}] = v changes x, but a write into a named copy of x[{0}]
/// does not.
///
///     Tensor w = tensor({{1., 2.}, {3., 4.}}).requires_grad_();
///     Tensor loss = sum(w * w);
///     loss.backward();
///     std::cout << w.grad();   // [[2., 4.],
///                              //  [6., 8.]]
class Tensor {
 public:
  /// An undefined tensor, meaning "none". Every use except defined() and assignment throws Error.
  Tensor() noexcept {}
  /// Another handle to the same elements.
  Tensor(const Tensor& o) noexcept : impl_(o.impl_) {
    if (impl_) detail::hold(impl_->refs);
  }
  /// Moves the handle; `o` becomes undefined.
  Tensor(Tensor&& o) noexcept : impl_(std::exchange(o.impl_, nullptr)) {}
  /// Makes this a handle to the elements of `o`. It is for variables: the result of a call, as in p.grad() = g, can't
  /// be assigned to.
  Tensor& operator=(const Tensor& o) & noexcept {
    Tensor copy(o);
    std::swap(impl_, copy.impl_);
    return *this;
  }
  Tensor& operator=(Tensor&& o) & noexcept {
    std::swap(impl_, o.impl_);
    o.reset();
    return *this;
  }
  void operator=(const Tensor& o) && = delete;  // of a result, it would change nothing: p.set_grad(g), x.copy_(v)
  ~Tensor() { reset(); }

  // ---- properties
  /// False for Tensor().
  bool defined() const { return impl_ != nullptr; }
  /// The sizes of the axes.
  const Shape& shape() const { return get().shape; }
  /// The number of axes.
  int rank() const { return get().shape.rank(); }
  /// The number of elements.
  std::int64_t numel() const { return get().shape.numel(); }
  /// The type of the elements.
  DType dtype() const { return get().dtype; }
  /// Size of one axis; a negative axis counts from the end. Throws Error if there is no such axis.
  std::int64_t size(int axis) const {
    if (!impl_ || axis >= rank() || axis < -rank()) fail_size(axis);
    return impl_->shape[axis];
  }

  // ---- elements
  /// Read access to the elements. T must be the C++ type of dtype(). The span is valid as long as this tensor's buffer:
  /// give a result a name first, or copy its elements with to_vector().
  template <class T>
  Span<const T> data() const& {
    expect_dtype(dtype_of<T>());
    return {static_cast<const T*>(raw()), numel()};
  }
  template <class T>
  Span<const T> data() const&& = delete;  // the tensor ends with this line: name it first, or use to_vector()
  /// Write access to the elements. Counts as a change in place, once and at the call: a backward() that needs the old
  /// values throws Error. Call it again for writes after operations have read the tensor. Throws Error while operations
  /// are recorded if this tensor was computed from tensors that require gradients.
  template <class T>
  Span<T> edit() {
    expect_dtype(dtype_of<T>());
    before_write("edit");
    return {static_cast<T*>(const_cast<void*>(raw())), numel()};
  }
  /// The only element of a tensor with one element, converted to T. An integer T, also bool, throws Error for a number
  /// with a fraction and for a number beyond its range.
  template <class T = double>
  T item() const {
    using Limits = std::numeric_limits<T>;
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(item_int(static_cast<std::int64_t>(Limits::min()),
                                     Limits::digits > 63 ? INT64_MAX : static_cast<std::int64_t>(Limits::max())));
    else if (dtype() == DType::int64)  // rounded once
      return static_cast<T>(item_int(INT64_MIN, INT64_MAX));
    else
      return static_cast<T>(item_double());
  }
  /// All elements, in row-major order.
  template <class T>
  std::vector<T> to_vector() const {
    const Span<const T> d = data<T>();
    return std::vector<T>(d.begin(), d.end());
  }

  // ---- copies
  /// A copy with its own buffer; the gradient flows through it.
  Tensor clone() const;
  /// A tensor with the same buffer, without graph.
  Tensor detach() const;
  /// Converts to another type; returns this tensor if it has the type already. The gradient is converted back. To
  /// boolean: x != 0 (NaN is true). From a floating type to int64: the fraction is removed, values beyond int64 become
  /// its maximum or minimum, and NaN becomes 0. To int8: the same, also from int64.
  Tensor to(DType dtype) const;

  // ---- indexing (see Index; the gradient flows through reads). The result of a read is const, so that it can't be
  // assigned to by mistake.
  const Tensor operator[](std::initializer_list<Index> where) const;
  template <class I, class = IsIndex<I>>
  const Tensor operator[](I i) const {
    return (*this)[{Index(i)}];
  }
  /// take(x, where): rows at ids, or where a mask is true.
  const Tensor operator[](const Tensor& where) const;
  /// Reads as the const version; x[{...}] = v also writes into x. v broadcasts to the shape of x[{...}].
  Indexed operator[](std::initializer_list<Index> where);
  template <class I, class = IsIndex<I>>
  Indexed operator[](I i);
  /// Same with ids or a mask: x[mask] = v, where v broadcasts to the shape of x[mask].
  Indexed operator[](const Tensor& where);
  /// An element of a table in the expression of a score, for a Symbol (fit/attention/score/score.hpp).
  template <class S, class = std::enable_if_t<std::is_same_v<S, Symbol>>>
  S operator[](const S& index) const {
    return S::lookup(*this, index);
  }

  // ---- changes in place; version() counts them. They return this tensor. `o` broadcasts to this shape and is
  // converted to this type. Arithmetic throws Error if an int64 or boolean tensor can't hold the result. A leaf that
  // requires a gradient can be changed under NoGrad only, and a frozen one, too, by tensors that require one. While
  // operations are recorded, a change of the result of a recorded operation is recorded, too; it throws Error if
  // another tensor or a recorded operation shares the buffer.
  Tensor& add_(const Tensor& o);
  Tensor& sub_(const Tensor& o);
  Tensor& mul_(const Tensor& o);
  Tensor& div_(const Tensor& o);
  Tensor& add_(Scalar s);
  Tensor& sub_(Scalar s);
  Tensor& mul_(Scalar s);
  Tensor& div_(Scalar s);
  Tensor& fill_(Scalar s);
  Tensor& zero_();
  Tensor& copy_(const Tensor& o);
  /// The number of changes in place.
  std::uint32_t version() const { return get().storage->version.load(std::memory_order_relaxed); }

  // ---- gradients
  /// Whether operations on this tensor are recorded.
  bool requires_grad() const { return get().node != nullptr; }
  /// Makes this a leaf that requires a gradient (backward() adds to its grad()), or with `false` one that does not. A
  /// leaf that requires one again has its gradient and its hooks of before, and gets gradients of graphs of before.
  /// Floating types only. Throws Error for a tensor computed from tensors that require gradients (detach() it first).
  Tensor& requires_grad_(bool on = true);
  /// Whether this is a leaf: not the result of a recorded operation.
  bool is_leaf() const;
  /// The sum of the gradients of all backward() calls so far; undefined before the first. Not a copy: an optimiser sees
  /// changes made to it in place.
  Tensor grad() const;
  /// Whether grad() is defined.
  bool has_grad() const;
  /// Replaces the gradient by one of the same shape and type, or by none. Throws Error unless this is a leaf that
  /// requires a gradient.
  void set_grad(const Tensor& g);
  /// Removes the gradient.
  void zero_grad();
  /// Makes backward() set grad() of a tensor that is not a leaf, too: the gradient of its values after the last change
  /// in place.
  void retain_grad();
  /// Adds d(this)/d(leaf) to the gradient of every leaf from which this tensor was computed. A tensor with more than
  /// one element needs `seed`, the gradient of this tensor, of its shape. The graph is freed unless it is retained:
  /// another backward() through it then throws Error. (For higher derivatives, fit::grad() is the better tool.) Throws
  /// Error if no tensor requires a gradient; the message says where the graph was cut.
  void backward(const Tensor& seed, GraphFlags flags = {}) const;
  void backward(GraphFlags flags = {}) const { backward(Tensor(), flags); }
  /// The name of the operation that computed this tensor; "leaf" or "none" otherwise.
  const char* grad_fn() const;

  // ---- operations as members: x.sum(-1) is sum(x, -1). fit/ops/ops.hpp documents them. As in PyTorch, these are free
  // functions only: operations on several equivalent tensors (cat, where, einsum, linear, maximum, …) and the
  // mathematics of layers (layer_norm, gelu, dropout, embedding, …).
  Tensor add(const Tensor& o) const;
  Tensor sub(const Tensor& o) const;
  Tensor mul(const Tensor& o) const;
  Tensor div(const Tensor& o) const;
  Tensor add(Scalar o) const;
  Tensor sub(Scalar o) const;
  Tensor mul(Scalar o) const;
  Tensor div(Scalar o) const;
  Tensor pow(Scalar exponent) const;
  Tensor pow(const Tensor& exponent) const;
  Tensor neg() const;
  Tensor square() const;
  Tensor reciprocal() const;
  Tensor remainder(const Tensor& o) const;
  Tensor remainder(Scalar o) const;
  Tensor fmod(const Tensor& o) const;
  Tensor fmod(Scalar o) const;
  Tensor floor_divide(const Tensor& o) const;
  Tensor floor_divide(Scalar o) const;
  Tensor exp() const;
  Tensor log() const;
  Tensor log1p() const;
  Tensor log2() const;
  Tensor log10() const;
  Tensor expm1() const;
  Tensor sqrt() const;
  Tensor rsqrt() const;
  Tensor abs() const;
  Tensor sin() const;
  Tensor cos() const;
  Tensor tan() const;
  Tensor asin() const;
  Tensor acos() const;
  Tensor atan() const;
  Tensor sinh() const;
  Tensor cosh() const;
  Tensor tanh() const;
  Tensor asinh() const;
  Tensor acosh() const;
  Tensor atanh() const;
  Tensor erf() const;
  Tensor sigmoid() const;
  Tensor relu() const;
  Tensor clamp(Scalar low, Scalar high) const;
  Tensor clamp_min(Scalar low) const;
  Tensor clamp_max(Scalar high) const;
  Tensor floor() const;
  Tensor ceil() const;
  Tensor round() const;
  Tensor trunc() const;
  Tensor sign() const;
  Tensor nan_to_num(double nan = 0) const;
  Tensor nan_to_num(double nan, double posinf, double neginf) const;
  Tensor masked_fill(const Tensor& mask, Scalar value) const;
  Tensor logical_not() const;
  Tensor isnan() const;
  Tensor isfinite() const;
  Tensor isinf() const;
  Tensor isclose(const Tensor& o, double rtol = 1e-5, double atol = 1e-8) const;
  bool equal(const Tensor& o) const;
  bool allclose(const Tensor& o, double rtol = 1e-5, double atol = 1e-8) const;
  Tensor sum(const Axes& axes = {}, KeepDims keep = {}) const;
  Tensor mean(const Axes& axes = {}, KeepDims keep = {}) const;
  Tensor var(const Axes& axes = {}, Correction correction = Correction{1}, KeepDims keep = {}) const;
  Tensor var(const Axes& axes, KeepDims keep, Correction correction = Correction{1}) const;
  Tensor std(const Axes& axes = {}, Correction correction = Correction{1}, KeepDims keep = {}) const;
  Tensor std(const Axes& axes, KeepDims keep, Correction correction = Correction{1}) const;
  Tensor prod(const Axes& axes = {}, KeepDims keep = {}) const;
  Tensor max(const Axes& axes = {}, KeepDims keep = {}) const;
  Tensor min(const Axes& axes = {}, KeepDims keep = {}) const;
  Tensor amax(const Axes& axes = {}, KeepDims keep = {}) const;
  Tensor amin(const Axes& axes = {}, KeepDims keep = {}) const;
  std::pair<Tensor, Tensor> max_with_indices(int axis, KeepDims keep = {}) const;
  std::pair<Tensor, Tensor> min_with_indices(int axis, KeepDims keep = {}) const;
  std::pair<Tensor, Tensor> median(int axis, KeepDims keep = {}) const;
  Tensor median() const;
  Tensor quantile(double q, int axis, KeepDims keep = {}) const;
  Tensor quantile(double q) const;
  Tensor norm(double p = 2, const Axes& axes = {}, KeepDims keep = {}) const;
  Tensor logsumexp(const Axes& axes = {}, KeepDims keep = {}) const;
  Tensor argmax(int axis, KeepDims keep = {}) const;
  Tensor argmin(int axis, KeepDims keep = {}) const;
  Tensor argmax() const;
  Tensor argmin() const;
  Tensor any(const Axes& axes = {}, KeepDims keep = {}) const;
  Tensor all(const Axes& axes = {}, KeepDims keep = {}) const;
  Tensor cumsum(int axis) const;
  Tensor cumsum(int axis, const CumulativeOptions& options) const;
  Tensor cumprod(int axis) const;
  Tensor cumprod(int axis, const CumulativeOptions& options) const;
  Tensor logcumsumexp(int axis) const;
  std::pair<Tensor, Tensor> cummax(int axis) const;
  std::pair<Tensor, Tensor> cummin(int axis) const;
  Tensor bincount(const Tensor& weights = Tensor(), std::int64_t minimum = 0) const;
  std::pair<Tensor, Tensor> histogram(std::int64_t bins) const;
  std::pair<Tensor, Tensor> histogram(std::int64_t bins, double low, double high) const;
  Tensor sum_to(const Shape& shape) const;
  Tensor softmax(int axis = -1) const;
  Tensor log_softmax(int axis = -1) const;
  Tensor reshape(const Shape& shape) const;
  Tensor reshape(const std::vector<std::int64_t>& shape) const;
  Tensor reshape(std::initializer_list<std::int64_t> shape) const;
  Tensor flatten(int first = 0, int last = -1) const;
  Tensor squeeze(int axis) const;
  Tensor squeeze() const;
  Tensor unsqueeze(int axis) const;
  Tensor transpose(int a = -2, int b = -1) const;
  Tensor permute(const std::vector<int>& axes) const;
  Tensor broadcast_to(const Shape& shape) const;
  Tensor movedim(int from, int to) const;
  Tensor repeat(const std::vector<std::int64_t>& counts) const;
  Tensor tile(const std::vector<std::int64_t>& counts) const;
  Tensor repeat_interleave(std::int64_t count, int axis) const;
  Tensor repeat_interleave(const Tensor& counts, int axis) const;
  Tensor roll(std::int64_t shift, int axis) const;
  Tensor roll(const std::vector<std::int64_t>& shifts, const std::vector<int>& axes) const;
  std::vector<Tensor> unbind(int axis = 0) const;
  template <std::size_t n>
  std::array<Tensor, n> unbind(int axis = 0) const;
  Tensor diagonal(std::int64_t offset = 0, int a = 0, int b = 1) const;
  Tensor diag(std::int64_t offset = 0) const;
  Tensor unfold(int axis, std::int64_t size, std::int64_t step = 1) const;
  std::vector<Tensor> split(std::int64_t size, int axis = 0) const;
  std::vector<Tensor> split(const std::vector<std::int64_t>& sizes, int axis = 0) const;
  std::vector<Tensor> chunk(int count, int axis = 0) const;
  template <std::size_t n>
  std::array<Tensor, n> split(std::int64_t size, int axis = 0) const;
  template <std::size_t n>
  std::array<Tensor, n> split(const std::vector<std::int64_t>& sizes, int axis = 0) const;
  template <std::size_t n>
  std::array<Tensor, n> chunk(int axis = 0) const;
  Tensor index_select(int axis, const Tensor& ids) const;
  Tensor gather(int axis, const Tensor& ids) const;
  Tensor scatter_add(int axis, const Tensor& ids, const Tensor& src) const;
  Tensor scatter_reduce(int axis, const Tensor& ids, const Tensor& src, Reduce reduce,
                        IncludeSelf include_self = IncludeSelf::yes) const;
  Tensor index_reduce(int axis, const Tensor& ids, const Tensor& src, Reduce, IncludeSelf = IncludeSelf::yes) const;
  Tensor scatter(int axis, const Tensor& ids, const Tensor& src) const;
  Tensor index_add(int axis, const Tensor& ids, const Tensor& src) const;
  Tensor take_along(int axis, const Tensor& ids) const;
  Tensor masked_select(const Tensor& mask) const;
  Tensor nonzero() const;
  Tensor take(const Tensor& where) const;
  Tensor flip(const Axes& axes) const;
  Tensor tril(std::int64_t diagonal = 0) const;
  Tensor triu(std::int64_t diagonal = 0) const;
  std::pair<Tensor, Tensor> sort(int axis = -1, SortOrder order = {}) const;
  std::pair<Tensor, Tensor> topk(std::int64_t k, int axis = -1, Extremes which = {}) const;
  Tensor argsort(int axis = -1, SortOrder order = {}) const;
  Tensor matmul(const Tensor& o) const;
  Tensor dot(const Tensor& o) const;
  Tensor bmm(const Tensor& o) const;
  Tensor inv() const;
  Tensor det() const;

  /// The text of NumPy's print, with the type if it is not the default.
  std::string str() const;

  // ---- for the library and for user-defined operations
  /// An uninitialised tensor.
  static Tensor empty(const Shape& shape, DType dtype = float32);
  /// A tensor with another shape and the same buffer, without graph. The counts of elements must agree.
  Tensor alias(const Shape& shape) const;
  /// The address of the first element.
  const void* raw() const { return get().storage->data; }
  /// Write access to a new result: does not count as a change in place.
  template <class T>
  T* fresh() {
    return static_cast<T*>(const_cast<void*>(raw()));
  }
  /// Checks that a write is allowed, and counts it.
  void before_write(const char* op);
  /// Whether no other handle and no other tensor shares the buffer.
  bool unique() const {
    return impl_->refs.load(std::memory_order_acquire) == 1 &&
           impl_->storage->refs.load(std::memory_order_acquire) == 1;
  }
  /// For the library: makes a handle from its shared part, and returns the shared part.
  static Tensor adopt(detail::TensorImpl* impl) noexcept {
    Tensor t;
    t.impl_ = impl;
    return t;
  }
  detail::TensorImpl* impl() const { return impl_; }

 private:
  const detail::TensorImpl& get() const {
    if (!impl_) throw_undefined();
    return *impl_;
  }
  void reset() noexcept {
    if (impl_ && detail::drop(impl_->refs)) detail::free_impl(impl_);
    impl_ = nullptr;
  }
  void expect_dtype(DType t) const {
    if (get().dtype != t) throw_dtype(t);
  }
  [[noreturn]] static void throw_undefined();
  [[noreturn]] void fail_size(int axis) const;
  [[noreturn]] void throw_dtype(DType asked) const;
  double item_double() const;
  std::int64_t item_int(std::int64_t low, std::int64_t high) const;

  detail::TensorImpl* impl_ = nullptr;
};

/// Writes str().
std::ostream& operator<<(std::ostream& out, const Tensor& x);

/// The text of a tensor and its shape, for debuggers: `print fit_show(x)`. Valid until the next call. Every program has
/// it.
extern "C" const char* fit_show(const Tensor& x);

/// The type of x[{...}] and x[mask] for a writable x: the elements, and a target for =, +=, -=, *= and /=. Only the
/// expression itself assigns into x; a named copy is a separate tensor.
class Indexed : public Tensor {
 public:
  Indexed(Tensor base, std::vector<Index> where);
  Indexed(Tensor base, Tensor ids);
  Indexed(const Indexed&) = default;
  /// x[0][1] is read-only; x[{0, 1}] can be assigned to.
  const Tensor operator[](std::initializer_list<Index> where) const { return Tensor::operator[](where); }
  template <class I, class = IsIndex<I>>
  const Tensor operator[](I i) const {
    return Tensor::operator[](i);
  }
  const Tensor operator[](const Tensor& where) const { return Tensor::operator[](where); }
  template <class S, class = std::enable_if_t<std::is_same_v<S, Symbol>>>
  S operator[](const S& index) const {
    return Tensor::operator[](index);
  }
  /// Writes into x; v broadcasts to the shape of the indexed elements.
  void operator=(const Tensor& v) &&;
  void operator=(const Indexed& v) && { std::move(*this) = static_cast<const Tensor&>(v); }
  void operator=(Scalar v) &&;
  void operator+=(const Tensor& v) &&;
  void operator-=(const Tensor& v) &&;
  void operator*=(const Tensor& v) &&;
  void operator/=(const Tensor& v) &&;
  void operator+=(Scalar v) &&;
  void operator-=(Scalar v) &&;
  void operator*=(Scalar v) &&;
  void operator/=(Scalar v) &&;
  // x[{0}].fill_(1) would change a copy: write x[{0}] = 1, x[{0}] += v … (or name a copy: Tensor row = x[{0}]).
#define FIT_NOT_IN_PLACE_(name) \
  template <class... A>         \
  void name(A&&...) = delete; /* it would change a copy: assign to x[...] instead */
  FIT_NOT_IN_PLACE_(add_)
  FIT_NOT_IN_PLACE_(sub_)
  FIT_NOT_IN_PLACE_(mul_)
  FIT_NOT_IN_PLACE_(div_)
  FIT_NOT_IN_PLACE_(fill_)
  FIT_NOT_IN_PLACE_(zero_)
  FIT_NOT_IN_PLACE_(copy_)
  template <class T>
  Span<T> edit() = delete;
#undef FIT_NOT_IN_PLACE_

 private:
  void put(const Tensor& v);
  Tensor base_, ids_;  // ids or a mask; undefined if where_ is used
  std::vector<Index> where_;
};

template <class I, class>
Indexed Tensor::operator[](I i) {
  return (*this)[{Index(i)}];
}

// ---- creating tensors ---------------------------------------------------------------------------------------------

/// Nested braces of numbers. All rows of one level must have the same length.
class Nested {
 public:
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Nested(T v) : dtype_(Scalar(v).dtype()), value_{Scalar(v)} {}
  Nested(std::initializer_list<Nested> rows);

 private:
  friend Tensor tensor(const Nested& values);
  friend Tensor tensor(const Nested& values, DType dtype);
  friend struct NestedReader;
  std::vector<Nested> rows_;
  DType dtype_ = DType::float32;
  Scalar value_ = 0;
  bool list_ = false;
};

/// tensor({{1., 2.}, {3., 4.}}): float32 for floating numbers, int64 for integers, boolean for bools; or the given
/// dtype.
Tensor tensor(const Nested& values);
Tensor tensor(const Nested& values, DType dtype);
/// From a vector in row-major order, with the type of the vector (double becomes float64).
Tensor tensor(const std::vector<float>& values, const Shape& shape);
Tensor tensor(const std::vector<double>& values, const Shape& shape);
Tensor tensor(const std::vector<std::int64_t>& values, const Shape& shape);
Tensor tensor(const std::vector<bool>& values, const Shape& shape);
/// The same with one axis, [values.size()]. Other integers become int64.
template <class T>
Tensor tensor(const std::vector<T>& values) {
  static_assert(std::is_arithmetic_v<T>, "a tensor is made from a vector of numbers");
  const Shape shape{static_cast<std::int64_t>(values.size())};
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, std::int64_t>)
    return tensor(std::vector<std::int64_t>(values.begin(), values.end()), shape);
  else
    return tensor(values, shape);
}

/// A tensor with all elements 0, 1 or `value`.
Tensor zeros(const Shape& shape, DType dtype = float32);
Tensor ones(const Shape& shape, DType dtype = float32);
Tensor full(const Shape& shape, Scalar value, DType dtype = float32);
/// Same, with the shape and type of x.
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
Tensor full_like(const Tensor& x, Scalar value);
/// start, start + step, … up to stop (not included). Integers are exact: three of them are counted in int64, whatever
/// dtype is.
Tensor arange(Scalar start, Scalar stop, Scalar step, DType dtype);
/// The same, int64 if all are of integer types, else float32.
Tensor arange(Scalar start, Scalar stop, Scalar step = 1);
/// 0, 1, … n - 1, int64.
Tensor arange(std::int64_t n);
/// 0, 1, … up to stop (not included), float32: arange(2.5) is 0, 1, 2.
template <class T, class = std::enable_if_t<std::is_floating_point_v<T>>>
Tensor arange(T stop) {
  return arange(0, stop);
}
/// `count` numbers from start to stop, both included.
Tensor linspace(double start, double stop, std::int64_t count, DType dtype = float32);
/// The identity matrix [n, m]; m defaults to n.
Tensor eye(std::int64_t n, std::int64_t m = -1, DType dtype = float32);
Tensor eye(std::int64_t n, DType dtype);
/// [..., classes] with a 1 at each id of `ids` [...], int64. Throws Error for an id outside 0 … classes - 1.
Tensor one_hot(const Tensor& ids, std::int64_t classes, DType dtype = float32);

}  // namespace fit
