#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fit/nn/layer/layer.hpp"

namespace fit::nn {

namespace detail {

/// A layer that is handed in: shared, or moved in.
template <class L, class T>
std::shared_ptr<L> hold(std::shared_ptr<T> layer) {
  return layer;
}
template <class L, class T, class = std::enable_if_t<std::is_base_of_v<Layer, std::decay_t<T>>>>
std::shared_ptr<L> hold(T&& layer) {
  static_assert(!std::is_lvalue_reference_v<T>, "a layer is not copied: std::move() it in, or give a shared_ptr");
  return std::make_shared<T>(std::move(layer));
}

[[noreturn]] void fail_null(const std::string& holder);

/// The same for a layer that must be there. Throws Error for a null pointer; `holder` is the name in it.
template <class L, class T>
std::shared_ptr<L> hold_one(const std::string& holder, T&& layer) {
  std::shared_ptr<L> held = hold<L>(std::forward<T>(layer));
  if (!held) fail_null(holder);
  return held;
}

/// Layers that are moved in, or pointers: a layer is not copied.
template <class... Layers>
inline constexpr bool handed_in = (!(std::is_lvalue_reference_v<Layers> &&
                                     std::is_base_of_v<Layer, std::remove_reference_t<Layers>>)&&...);
template <class... Layers>
using IfHandedIn = std::enable_if_t<handed_in<Layers...>>;
// Not for a copy of the list itself.
template <class List, class... Layers>
using IfCopied =
    std::enable_if_t<!handed_in<Layers...> &&
                         !(sizeof...(Layers) == 1 && (std::is_base_of_v<List, std::remove_reference_t<Layers>> && ...)),
                     int>;

template <class L, class T>
struct IsHeld : std::is_base_of<L, T> {};
template <class L, class T>
struct IsHeld<L, std::shared_ptr<T>> : std::is_convertible<T*, L*> {};
template <class L, class T>
inline constexpr bool is_held = IsHeld<L, std::decay_t<T>>::value;

[[noreturn]] void fail_position(const Layer& list, std::size_t i, std::size_t size);

/// A list of layers, named by their positions. Layers are moved in, or shared by shared_ptr, which must not be null.
template <class Base, class L>
class LayerList : public Base {
 public:
  std::size_t size() const { return layers_.size(); }
  /// Throws Error past the end.
  L& operator[](std::size_t i) { return *at(i); }
  const L& operator[](std::size_t i) const { return *at(i); }

  /// Adds a layer that is moved in, or held by a std::shared_ptr.
  template <class T>
  void add(T&& layer) {
    static_assert(
        is_held<L, T>,
        "this list holds layers: give nn::ReLU() instead of the function relu, nn::Lambda(f) for a function of "
        "your own, a layer that is moved in, or a std::shared_ptr to one");
    if constexpr (is_held<L, T>) layers_.push_back(hold_one<L>(this->name(), std::forward<T>(layer)));
  }

  template <class Item>
  struct Iterator {
    const std::shared_ptr<L>* at;
    Item& operator*() const { return **at; }
    Iterator& operator++() {
      ++at;
      return *this;
    }
    bool operator!=(const Iterator& o) const { return at != o.at; }
  };
  Iterator<L> begin() { return {layers_.data()}; }
  Iterator<L> end() { return {layers_.data() + size()}; }
  Iterator<const L> begin() const { return {layers_.data()}; }
  Iterator<const L> end() const { return {layers_.data() + size()}; }

  using Base::replace;  // by a dotted name
  /// Replaces layer i. Throws Error past the end.
  template <class T>
  void replace(std::size_t i, T&& layer) {
    at(i);
    layers_[i] = hold_one<L>(this->name(), std::forward<T>(layer));
  }

 protected:
  void list(Fields& f) {
    for (std::size_t i = 0; i < size(); ++i) f(std::to_string(i), layers_[i]);
  }

 private:
  const std::shared_ptr<L>& at(std::size_t i) const {
    if (i >= size()) fail_position(*this, i, size());
    return layers_[i];
  }

  std::vector<std::shared_ptr<L>> layers_;
};

}  // namespace detail

/// Calls its layers in order. The output of each layer is the input of the next. In braces, layers draw their initial
/// weights from left to right; in parentheses, C++ leaves the order to the compiler, and so the numbers.
///
///     nn::Sequential net{nn::Linear(2, 16), nn::ReLU(), nn::Linear(16, 1)};
class Sequential final : public detail::LayerList<UnaryLayer, UnaryLayer> {
 public:
  template <class... Layers, class = detail::IfHandedIn<Layers...>>
  explicit Sequential(Layers&&... layers) {
    (add(std::forward<Layers>(layers)), ...);
  }
  template <class... Layers, detail::IfCopied<Sequential, Layers...> = 0>
  explicit Sequential(Layers&&...) = delete;  // a layer is not copied: std::move() it in, or give a shared_ptr
  Tensor forward(const Tensor& x) const override;
  void fields(Fields& f) override;
};

/// A list of layers as one member of a layer:
///
///     nn::ModuleList<Block> blocks{Block(32), Block(32)};   // FIT_FIELDS(blocks); blocks.add(Block(32)) adds one
///     for (const auto& block : blocks) x = block(x);
template <class L = UnaryLayer>
class ModuleList final : public detail::LayerList<Layer, L> {
 public:
  ModuleList() = default;
  /// Layers that are moved in, or held by std::shared_ptr.
  template <class... Layers, class = detail::IfHandedIn<Layers...>>
  explicit ModuleList(Layers&&... layers) {
    (this->add(std::forward<Layers>(layers)), ...);
  }
  template <class... Layers, detail::IfCopied<ModuleList, Layers...> = 0>
  explicit ModuleList(Layers&&...) = delete;  // a layer is not copied: std::move() it in, or give a shared_ptr
  void fields(Fields& f) override { f.self(*this), this->list(f); }
};

}  // namespace fit::nn
