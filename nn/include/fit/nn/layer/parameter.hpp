#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "fit/int8/int8.hpp"
#include "fit/tensor/state_dict.hpp"
#include "fit/tensor/tensor.hpp"

/// The tensors that a layer lists.
namespace fit::nn {

class Fields;
class Layer;

namespace detail {

class Parametrized;
struct ParametrizedOf;

/// The base of Parameter, Buffer and Layer. Each member registers its address while it lives, and the tensor that it
/// holds. Layer uses the addresses to find members that its list lacks.
class Member {
 public:
  enum class Kind { parameter, buffer, layer };
  Kind kind() const { return kind_; }

 protected:
  explicit Member(Kind kind, const void* tensor = nullptr) noexcept;
  Member(const Member& o) noexcept : Member(o.kind_) {}
  Member& operator=(const Member&) noexcept { return *this; }
  ~Member();
  /// Registers another tensor.
  void holds(const void* tensor) noexcept;

 private:
  friend struct Members;
  Kind kind_;
  Member *previous_, *next_;
  std::atomic<std::uintptr_t> tensor_;  // the address of its data, to be compared: other threads read it
};

/// The base of Parameter and Buffer. The tensor that is registered follows all copies and moves.
class TensorMember : public Tensor, public Member {
 public:
  TensorMember(const TensorMember& o) noexcept;
  TensorMember(TensorMember&& o) noexcept;
  TensorMember& operator=(const TensorMember& o) noexcept;
  TensorMember& operator=(TensorMember&& o) noexcept;

 protected:
  explicit TensorMember(Kind kind, const Tensor& t = {}) noexcept;
  ~TensorMember() = default;

 private:
  friend class nn::Layer;
  void hold(const Tensor& t) noexcept;
};

/// A tensor that is no member of a layer.
template <class T>
using IfOther = std::enable_if_t<std::is_base_of_v<Tensor, T> && !std::is_base_of_v<TensorMember, T>>;

/// The parameters of layers in an optimiser or an average, which a layer may lose: `net.fc = nn::Linear(2, 3)`.
class HeldByLayers {
 public:
  /// Adds the tensors that are in layers now; others are left out.
  void add(const StateDict& tensors);
  /// Throws Error in the name of `op` if one that is not frozen is in no layer any more. It looks only after a member
  /// of a layer, anywhere, has given up its tensor. `what` is made anew then.
  void expect(const char* op, const char* what);

 private:
  StateDict held_;
  std::uint64_t releases_ = 0;  // when it looked last
};

}  // namespace detail

/// A trainable tensor: a leaf that requires a gradient. A copy shares the data, as with every Tensor, so
/// `head.weight = embedding.weight` ties two layers. An undefined parameter means "none" (a layer without bias).
class Parameter : public detail::TensorMember {
 public:
  Parameter() noexcept : TensorMember(Kind::parameter) {}
  /// Shares the buffer of `value`, detached from its graph. Throws Error if `value` is not floating.
  explicit Parameter(const Tensor& value);
  template <class T, class = detail::IfOther<T>>
  void operator=(const T&) = delete;  // give nn::Parameter(x), or under NoGrad copy_(x), which an optimiser sees

  /// The tensor that a layer computes with: this one, or a computed one (see parametrize.hpp and quantize.hpp).
  Tensor value() const { return parametrized_ ? computed() : Tensor(*this); }
  /// The same for linear() and embedding(), which can read whole numbers directly. It is an Int8Matrix if the parameter
  /// is quantised and has no parametrization, else value().
  Weight operand() const;
  /// The tensor that is trained and saved: this one, or the tensor from which value() is computed. The shape is the
  /// same, unless two numbers of 4 bits share a byte. The type is int8 after quantisation.
  const Tensor& original() const;
  /// value().size(axis).
  std::int64_t value_size(int axis) const { return parametrized_ ? computed_size(axis) : size(axis); }
  /// Whether value() is computed from other tensors.
  bool parametrized() const { return parametrized_ != nullptr; }

  /// A frozen parameter gets no gradient, so no optimiser changes it. Parameters that share its tensor are frozen, too.
  /// A quantised parameter stays frozen: unfreeze() throws Error.
  void freeze();
  void unfreeze();
  bool frozen() const { return original().defined() && !original().requires_grad(); }

 private:
  friend class Fields;
  friend struct detail::ParametrizedOf;
  Tensor computed() const;
  std::int64_t computed_size(int axis) const;

  std::shared_ptr<detail::Parametrized> parametrized_;
};

/// A tensor that is saved with the layer but not trained. An undefined buffer means "none". forward() is const, so it
/// changes a buffer through another handle, and under NoGrad if the change depends on parameters:
///
///     { const NoGrad no_grad;  Tensor(running).mul_(0.9).add_(0.1 * mean(x, 0)); }
class Buffer : public detail::TensorMember {
 public:
  Buffer() noexcept : TensorMember(Kind::buffer) {}
  /// Shares the buffer of `value`, detached from its graph.
  explicit Buffer(const Tensor& value) : TensorMember(Kind::buffer, value.defined() ? value.detach() : value) {}
  template <class T, class = detail::IfOther<T>>
  void operator=(const T&) = delete;  // give nn::Buffer(x), or copy_(x)
};

/// All elements of the tensors one behind the other, [N], for example of model.parameters() or of their gradients. The
/// gradient flows through. Floating types; mixed ones are promoted. PyTorch's torch.nn.utils.parameters_to_vector.
Tensor parameters_to_vector(const std::vector<Tensor>& parameters);
/// The way back: copies the elements of `vector` [N] into the tensors, in place and not recorded. Throws Error, and
/// changes nothing, unless the tensors have N elements together.
void vector_to_parameters(const Tensor& vector, const std::vector<Tensor>& parameters);

}  // namespace fit::nn
