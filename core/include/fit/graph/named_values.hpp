#pragma once
#include <utility>

#include "fit/graph/observer.hpp"

/// Named values: what a layer computes inside, offered to observers. nn::Lens reads and edits them.
namespace fit {

/// A value that a layer offers under a name, by observed().
struct ValueInfo {
  const char* name;       ///< "resid_mid", "q", …
  const LayerCall* call;  ///< the layer that computes the value, or null
};

/// An observer of named values. It is attached as every Observer, and gets the other events, too.
class ValueObserver : public Observer {
 public:
  /// Whether the observer wants this value. Some values are computed only if an observer wants them.
  virtual bool wants_value(const ValueInfo&) const = 0;
  /// A wanted value has been computed. The observer may assign another tensor of the same shape and type, with which
  /// the layer continues; gradients flow through it. A change in place throws Error. Attention offers the queries "q"
  /// [B, H, Sq, D], the new keys "k" and values "v" [B, Hkv, S, D], and the output of each head "z" [B, H, Sq, Dv]; it
  /// stays fused. It also offers "scores" [B, H, Sq, Sk], with scale and bias, -inf for masked pairs, without a graph:
  /// a replacement of these has no effect (see Observer::edit_scores()).
  virtual void value_computed(const ValueInfo&, Tensor&) = 0;
};

namespace detail {
bool value_wanted(const char* name);
Tensor notify_value(const char* name, Tensor value);
}  // namespace detail

/// Whether an observer wants this value of the innermost layer call.
inline bool value_wanted(const char* name) { return detail::thread_state.observed && detail::value_wanted(name); }

/// Offers a value to the observers of the innermost layer call, and returns the value or their replacement. Without
/// observers it reads one pointer.
///
///     const Tensor y = observed("resid_mid", x + attn(ln_1(x)));
inline Tensor observed(const char* name, Tensor value) {
  return detail::thread_state.observed ? detail::notify_value(name, std::move(value)) : value;
}

}  // namespace fit
