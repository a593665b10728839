#pragma once
#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "fit/nn/layer/parameter.hpp"

/// The list of a layer's members. FIT_FIELDS (fit/nn/layer/layer.hpp) makes it.
namespace fit::nn {

class Layer;

namespace detail {

struct NoForward {};

/// An argument that stands for any: finds call operators that FIT_CALL did not make.
struct AnyArgument {
  template <class T>
  operator T() const;
};

template <class Void, class L, class... A>
struct CallCompiles : std::false_type {};
template <class L, class... A>
struct CallCompiles<std::void_t<decltype(std::declval<L&>()(std::declval<A>()...))>, L, A...> : std::true_type {};
/// FIT_CALL's operators do not take AnyArgument.
template <class... A>
using NotAny = std::enable_if_t<(!std::is_same_v<std::decay_t<A>, AnyArgument> && ...)>;
/// Whether the class has a call operator that FIT_CALL did not make.
template <class L>
struct HasOwnCall : std::bool_constant<CallCompiles<void, L, AnyArgument>::value ||
                                       CallCompiles<void, L, AnyArgument, AnyArgument>::value ||
                                       CallCompiles<void, L, AnyArgument, AnyArgument, AnyArgument>::value> {};
template <class L, class = void>
struct HasForward : std::true_type {};
template <class L>
struct HasForward<L, std::enable_if_t<std::is_same_v<decltype(&L::forward), void (Layer::*)(NoForward) const>>>
    : std::false_type {};

template <class L, class = void>
struct HasFitCall : std::false_type {};
template <class L>
struct HasFitCall<L, std::void_t<typename L::FitCall>> : std::true_type {};

}  // namespace detail

/// One entry of a layer's list: a name, and a parameter, buffer or layer.
struct Field {
  std::string name;
  Parameter* parameter = nullptr;
  Buffer* buffer = nullptr;
  Layer* layer = nullptr;

  /// The parameter's or buffer's tensor.
  Tensor& value() const { return parameter ? static_cast<Tensor&>(*parameter) : *buffer; }

  /// Replaces a layer that is held by std::shared_ptr. Returns false if the type does not fit.
  bool (*put)(void* held, const std::shared_ptr<Layer>& layer) = nullptr;
  void* held = nullptr;
};

/// Collects the members that a layer lists. A member is a Parameter, a Buffer, a layer, or a std::optional,
/// std::vector, std::array, std::map, std::shared_ptr or std::unique_ptr of members. An empty pointer or optional is
/// skipped. Elements of a vector or array are named by position ("blocks.0"), those of a map by their keys, which are
/// strings ("heads.left"). An undefined parameter is listed, too.
///
/// Write the function by hand if the list is known only at run time:
///
///     void fields(nn::Fields& f) override {
///       f.self(*this);                                            // always first
///       for (auto& [name, layer] : branches_) f(name, layer);
///     }
class Fields {
 public:
  /// Sets the layer that the next members belong to. Its class is the static type.
  template <class Self>
  void self(Self& layer);
  template <class T>
  void operator()(const std::string& name, T& member) {
    add_span(name, &member, sizeof member);
    add(name, member);
  }
  /// FIT_FIELDS calls of(*this, "hidden, out")(hidden, out): self(), and then each member under its name.
  template <class Self>
  auto of(Self& layer, const char* names) {
    self(layer);
    return Named{*this, names};
  }
  const std::vector<Field>& list() const { return list_; }

 private:
  friend class ListOf;
  friend class Layer;
  /// The bytes of a listed member, or of a whole layer.
  struct Span {
    std::string name;
    const char* begin;
    std::size_t size;
    bool holds(const char* p) const { return begin <= p && p < begin + size; }
  };
  /// Adds members. Commas separate their names.
  struct Named {
    Fields& fields;
    const char* names;
    template <class... Members>
    void operator()(Members&... members) {
      (fields(next(names), members), ...);
    }
  };

  static std::string next(const char*& names);
  /// "heads.left". Throws Error unless the key is a word.
  static std::string key_name(const std::string& name, const std::string& key);

  // Compiled once, as each class instantiates the templates.
  void add_span(const std::string& name, const void* begin, std::size_t size);
  void add_parameter(const std::string& name, Parameter& p);
  void add_buffer(const std::string& name, Buffer& b);
  void add_layer(const std::string& name, Layer& layer);
  template <class T>
  void add(const std::string& name, T& member);
  template <class T>
  void add(const std::string& name, std::optional<T>& member) {
    if (member) add(name, *member);
  }
  template <class T>
  void add(const std::string& name, std::unique_ptr<T>& member) {
    if (member) add(name, *member);
  }
  template <class T>
  void add(const std::string& name, std::shared_ptr<T>& member);
  template <class T>
  void add(const std::string& name, std::vector<T>& members) {
    std::size_t i = 0;
    for (T& member : members) add(name + '.' + std::to_string(i++), member);
  }
  template <class T>
  void add(const std::string& name, std::map<std::string, T>& members) {
    for (auto& [key, member] : members) add(key_name(name, key), member);
  }
  template <class T, std::size_t n>
  void add(const std::string& name, std::array<T, n>& members) {
    std::size_t i = 0;
    for (T& member : members) add(name + '.' + std::to_string(i++), member);
  }

  std::vector<Field> list_;
  std::vector<Span> spans_;
  const std::type_info* type_ = nullptr;
  Span self_{};
  Layer* (*copy_)(const Layer&) = nullptr;  // a new copy, owned by the caller; null if the class can't be copied
  bool own_call_ = false;                   // the class defines a call operator, which calls no hook
};

template <class Self>
void Fields::self(Self& layer) {
  static_assert(std::is_base_of_v<Layer, Self>, "this is for what derives from fit::nn::Layer");
  type_ = &typeid(Self);
  self_ = {{}, reinterpret_cast<const char*>(&layer), sizeof layer};
  own_call_ = detail::HasOwnCall<Self>::value && (!detail::HasForward<Self>::value || detail::HasFitCall<Self>::value);
  if constexpr (std::is_copy_constructible_v<Self> && !std::is_abstract_v<Self>)
    copy_ = [](const Layer& l) -> Layer* { return new Self(static_cast<const Self&>(l)); };
  else
    copy_ = nullptr;
}

template <class T>
void Fields::add(const std::string& name, T& member) {
  static_assert(std::is_base_of_v<Parameter, T> || std::is_base_of_v<Buffer, T> || std::is_base_of_v<Layer, T>,
                "a layer lists Parameters, Buffers (for a Tensor that is saved), layers, and std::optional, vector, "
                "array, map from std::string, shared_ptr and unique_ptr of them");
  if constexpr (std::is_base_of_v<Parameter, T>)
    add_parameter(name, member);
  else if constexpr (std::is_base_of_v<Buffer, T>)
    add_buffer(name, member);
  else if constexpr (std::is_base_of_v<Layer, T>)
    add_layer(name, member);
}

template <class T>
void Fields::add(const std::string& name, std::shared_ptr<T>& member) {
  static_assert(std::is_base_of_v<Layer, T>, "of what is held by std::shared_ptr, a layer lists layers");
  if (!member) return;
  add(name, *member);
  list_.back().held = &member;
  list_.back().put = [](void* held, const std::shared_ptr<Layer>& layer) {
    auto fitting = std::dynamic_pointer_cast<T>(layer);
    if (!fitting) return false;
    *static_cast<std::shared_ptr<T>*>(held) = std::move(fitting);
    return true;
  };
}

}  // namespace fit::nn
