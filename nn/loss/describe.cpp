#include "layers/describe.hpp"

#include "fit/nn/loss.hpp"

namespace fit::nn {
namespace {

std::string weight_of(const char* name, const Tensor& weight) {
  return weight.defined() ? describe_all(name, '=', weight.shape(), ", ") : std::string();
}

}  // namespace

std::string describe(const Reduction& r) {
  return describe_all("reduction=", r == Reduction::none ? "none" : r == Reduction::mean ? "mean" : "sum");
}
std::string describe(const CrossEntropyOptions& o) {
  return describe_all(weight_of("weight", o.weight), "ignore_index=", o.ignore_index,
                      ", label_smoothing=", o.label_smoothing, ", ", describe(o.reduction));
}
std::string describe(const NLLOptions& o) {
  return describe_all(weight_of("weight", o.weight), "ignore_index=", o.ignore_index, ", ", describe(o.reduction));
}
std::string describe(const BCEOptions& o) { return weight_of("weight", o.weight) + describe(o.reduction); }
std::string describe(const BCEWithLogitsOptions& o) {
  return weight_of("weight", o.weight) + weight_of("pos_weight", o.pos_weight) + describe(o.reduction);
}
std::string describe(const FocalOptions& o) {
  return describe_all("alpha=", o.alpha, ", gamma=", o.gamma, ", ", describe(o.reduction));
}
std::string describe(const SmoothL1Options& o) { return describe_all("beta=", o.beta, ", ", describe(o.reduction)); }
std::string describe(const HuberOptions& o) { return describe_all("delta=", o.delta, ", ", describe(o.reduction)); }
std::string describe(const KLDivOptions& o) {
  return describe_all("log_target=", o.log_target, ", ", describe(o.reduction));
}
std::string describe(const CosineEmbeddingOptions& o) {
  return describe_all("margin=", o.margin, ", ", describe(o.reduction));
}

}  // namespace fit::nn
