#include "fit/nn/inspect/summary.hpp"

#include <algorithm>
#include <map>
#include <ostream>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "common/pattern.hpp"
#include "fit/tensor/random.hpp"
#include "graph/node.hpp"
#include "layer/buffers.hpp"
#include "layer/list.hpp"
#include "tensor/check.hpp"

namespace fit::nn {
namespace {

// Counts calls and operations of each layer.
class Calls final : public Observer {
 public:
  struct Entry {
    std::int64_t calls = 0, flops = 0;
    std::optional<Shape> output;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> made;  // ranges (from, to] of node numbers
  };

  void flops_counted(std::int64_t count) override {
    if (newest()) flops_ += count;
  }
  void layer_entered(LayerCall& call) override { open_.push_back({&call, flops_, fit::detail::newest_sequence()}); }
  void layer_left(LayerCall& call) override {
    if (open_.empty() || open_.back().call != &call) return;  // memory ran out in layer_entered()
    const Open begin = open_.back();
    open_.pop_back();
    if (call.failed) return;
    Entry& s = entries_[&call.layer];
    if (!s.output && call.output.defined()) s.output = call.output.shape();
    ++s.calls;
    s.flops += flops_ - begin.flops;
    s.made.emplace_back(begin.sequence, fit::detail::newest_sequence());
  }
  const Entry& of(const Layer& layer) { return entries_[&layer]; }

 private:
  // In nested summaries, only the innermost counts operations.
  bool newest() const {
    for (const fit::detail::ObserverLink* at = fit::detail::thread_state.observed; at; at = at->outer)
      if (!at->muted && dynamic_cast<const Calls*>(at->observer)) return at->observer == this;
    return false;
  }
  struct Open {
    const LayerCall* call;
    std::int64_t flops;
    std::uint64_t sequence;
  };
  std::int64_t flops_ = 0;
  std::vector<Open> open_;
  std::unordered_map<const Layer*, Entry> entries_;
  const Observe watching_{*this};
};

// The bytes that each node keeps and no earlier node keeps, by node number.
std::map<std::uint64_t, std::int64_t> kept_bytes(const Tensor& result, const Layer& model) {
  std::map<std::uint64_t, std::int64_t> kept;
  if (!result.defined() || !result.impl()->node) return kept;
  std::unordered_set<const void*> known;
  each_value(model, [&](const std::string&, const Field& field) { known.insert(field.value().impl()->storage); });
  for (const fit::detail::Node* n : fit::detail::nodes_behind(result.impl()->node))
    for (int i = 0; i < n->saved_count; ++i) {
      const fit::detail::Saved& s = n->saved[i];
      if (s.storage && known.insert(s.storage).second) kept[n->sequence] += s.shape.numel() * size_of(s.dtype);
    }
  return kept;
}

void list(const Layer& layer, const std::string& name, int depth, ModelSummary& all,
          std::vector<const Layer*>& layers) {
  if (std::find(layers.begin(), layers.end(), &layer) != layers.end()) return;
  layers.push_back(&layer);
  LayerSummary s;
  s.name = name, s.class_name = layer.name(), s.depth = depth;
  all.layers.push_back(std::move(s));
  for (const auto& [child, below] : layer.children())
    list(*below, name.empty() ? child : name + '.' + child, depth + 1, all, layers);
}

// Counts each parameter in its first layer.
void count_parameters(const Layer& model, ModelSummary& all) {
  std::map<const void*, std::string> first;
  std::int64_t total = 0;
  each_value(model, [&](const std::string& name, const Field& field) {
    if (!field.parameter) return;
    const Tensor& p = field.value();
    const auto [at, is_new] = first.emplace(p.impl(), name);
    if (!is_new) {
      all.notes.push_back(name + " is " + at->second + ", and counted there.");
      return;
    }
    total += p.numel();
    if (p.requires_grad()) all.trainable_parameters += p.numel();
    all.parameter_bytes += p.numel() * size_of(p.dtype());
    for (LayerSummary& s : all.layers)
      if (is_below(name, s.name)) s.parameters += p.numel();
  });
  for (LayerSummary& s : all.layers)
    if (total > 0) s.share = static_cast<double>(s.parameters) / static_cast<double>(total);
}

// ---- as a table ---------------------------------------------------------------------------------------------------

std::string with_commas(std::int64_t n) {
  std::string s = std::to_string(n);
  for (std::size_t at = s.size(); at > 3; at -= 3) s.insert(at - 3, ",");
  return s;
}

// With three digits and a unit.
std::string scaled(double v, double step, const std::vector<const char*>& units) {
  std::size_t unit = 0;
  while (v >= 0.9995 * step && unit + 1 < units.size()) v /= step, ++unit;
  char text[32];
  std::snprintf(text, sizeof text,
                unit == 0   ? "%.0f %s"
                : v < 9.995 ? "%.2f %s"
                : v < 99.95 ? "%.1f %s"
                            : "%.0f %s",
                v, units[unit]);
  std::string s = text;
  return s.back() == ' ' ? s.substr(0, s.size() - 1) : s;
}
std::string bytes_text(std::int64_t n) {
  return n == 0 ? "-" : scaled(static_cast<double>(n), 1024, {"B", "KiB", "MiB", "GiB", "TiB"});
}
std::string flops_text(std::int64_t n) {
  return n == 0 ? "-" : scaled(static_cast<double>(n), 1000, {"", "k", "M", "G", "T", "P"});
}
std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

using Row = std::vector<std::string>;

std::string output_text(const ModelSummary& all, const LayerSummary& s) {
  const bool used = std::any_of(all.layers.begin(), all.layers.end(), [&](const LayerSummary& other) {
    return other.calls > 0 && is_below(other.name, s.name);
  });
  if (!used) return "not called";
  return (s.output ? s.output->str() : "-") + (s.calls > 1 ? ", " + std::to_string(s.calls) + " calls" : "");
}

Row row_of(const ModelSummary& all, const LayerSummary& s) {
  return {s.depth == 0 ? "all" : std::string(static_cast<std::size_t>(2 * s.depth - 2), ' ') + s.name,
          s.class_name,
          output_text(all, s),
          s.parameters == 0 ? "-" : with_commas(s.parameters),
          s.parameters == 0 ? "-" : percent(s.share),
          flops_text(s.flops),
          bytes_text(s.activation_bytes)};
}

}  // namespace

ModelSummary detail::summary_of_call(const Layer& model, const std::function<Tensor()>& call) {
  ModelSummary all;
  all.training = model.training();
  std::vector<const Layer*> layers;
  list(model, "", 0, all, layers);
  count_parameters(model, all);

  const fit::detail::Scoped keep(default_generator());
  const KeptBuffers buffers(model);
  const EnableGrad on;
  Calls calls;
  const Tensor result = within(model, call);
  const auto kept = kept_bytes(result, model);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Calls::Entry& seen = calls.of(*layers[i]);
    LayerSummary& s = all.layers[i];
    s.calls = seen.calls, s.flops = seen.flops, s.output = seen.output;
    for (const auto& [from, to] : seen.made)
      for (auto at = kept.upper_bound(from); at != kept.end() && at->first <= to; ++at)
        s.activation_bytes += at->second;
  }
  // A layer that was not called, such as a ModuleList, sums the costs of its sublayers.
  for (std::size_t i = all.layers.size(); i-- > 1;) {
    std::size_t parent = i;
    while (all.layers[parent].depth >= all.layers[i].depth) --parent;
    if (all.layers[parent].calls > 0) continue;
    all.layers[parent].flops += all.layers[i].flops;
    all.layers[parent].activation_bytes += all.layers[i].activation_bytes;
  }
  return all;
}

const LayerSummary& ModelSummary::layer(const std::string& name) const {
  for (const LayerSummary& s : layers)
    if (s.name == name) return s;
  check::fail("summary", model().class_name, " has no layer that is called '", name, '\'');
}

std::string ModelSummary::str(int depth) const {
  std::vector<Row> rows{{"Layer", "Class", "Output", "Parameters", "Share", "FLOPs", "Activations"}};
  for (const LayerSummary& s : layers)
    if (s.depth > 0 && s.depth <= depth) rows.push_back(row_of(*this, s));
  rows.push_back(row_of(*this, model()));
  std::vector<std::size_t> widths(rows[0].size(), 0);
  for (const Row& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::size_t width = 2 * (widths.size() - 1);
  for (const std::size_t w : widths) width += w;

  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (r == 1 || r + 1 == rows.size()) text += std::string(width, '-') + '\n';
    std::string line;
    for (std::size_t c = 0; c < rows[r].size(); ++c) {
      const std::string gap(widths[c] - rows[r][c].size(), ' ');
      line += (c == 0 ? "" : "  ") + (c < 3 ? rows[r][c] + gap : gap + rows[r][c]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  const std::int64_t frozen = model().parameters - trainable_parameters;
  text += with_commas(model().parameters) + " parameters, " + bytes_text(parameter_bytes) + ", " +
          (frozen == 0 ? "all of them trained" : with_commas(trainable_parameters) + " of them trained") + ". In " +
          (training ? "training.\n" : "evaluation.\n");
  text +=
      "Each line is of the layer and those below. FLOPs are those of matrix products and attention, forward.\n"
      "Activations are what the backward pass keeps.\n";
  for (const std::string& note : notes) text += note + '\n';
  return text;
}

std::ostream& operator<<(std::ostream& out, const ModelSummary& summary) { return out << summary.str(); }

}  // namespace fit::nn
