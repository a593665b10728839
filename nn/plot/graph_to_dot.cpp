#include "fit/graph_to_dot.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "graph/node.hpp"
#include "layer/list.hpp"
#include "plot/figures/text.hpp"
#include "tensor/check.hpp"

namespace fit {
namespace {

using detail::Node;
constexpr const char* graph_to_dot_op = "graph_to_dot";

// The parts of a layer's name: {"h", "0", "attn"}.
using Layers = std::vector<std::string>;

Layers parts_of(const std::string& name) {
  Layers parts{""};
  for (const char c : name) {
    if (c == '.')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}
std::string joined(const Layers& parts, std::size_t count) {
  std::string s;
  for (std::size_t i = 0; i < std::min(count, parts.size()); ++i) s += (i == 0 ? "" : ".") + parts[i];
  return s;
}
bool is_number(const std::string& s) { return !s.empty() && s.find_first_not_of("0123456789") == std::string::npos; }

// The common layers of two operations. After a list's index the remaining names are kept.
Layers between(const Layers& before, const Layers& after) {
  std::size_t n = 0;
  while (n < before.size() && n < after.size() && before[n] == after[n]) ++n;
  if (n < before.size() && is_number(before[n]))
    ++n;
  else if (n + 1 < before.size() && is_number(before[n + 1]))
    n += 2;
  return Layers(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(n));
}

std::string quoted(const std::string& text) {
  std::string s = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') s += '\\';
    s += c;
  }
  return s + '"';
}

class Graph {
 public:
  Graph(const Tensor& loss, const StateDict& names, std::map<std::string, std::string> classes)
      : classes_(std::move(classes)), loss_(loss.impl()->node) {
    for (const auto& [name, tensor] : names)
      if (tensor.defined() && tensor.impl()->node) {
        auto& all = names_[tensor.impl()->node];
        if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
      }
    nodes_ = detail::nodes_behind(loss_);
    for (const Node* n : nodes_)
      if (n->released)
        check::fail(graph_to_dot_op, "backward() has freed the graph: draw it before, or keep it by retain_graph");
    for (std::size_t i = 0; i < nodes_.size(); ++i) number_[nodes_[i]] = i;
    find_layers();
  }

  std::string dot(std::size_t most) {
    fold(unfolded);
    for (std::size_t depth = deepest(); depth > 0 && drawn() > most; --depth) fold(depth);
    cut(most);
    return text();
  }

 private:
  static constexpr std::size_t unfolded = ~std::size_t{0};
  struct Group {
    std::int64_t operations = 0, parameters = 0, numbers = 0;  // numbers: elements of the parameters
    const Node* last = nullptr;
  };

  // Assigns a layer to each node: to an operation by its inputs, to a parameter by its first name.
  void find_layers() {
    layers_.resize(nodes_.size());
    std::unordered_map<const Node*, std::size_t> uses;
    std::vector<bool> known(nodes_.size(), false);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const Node& n = *nodes_[i];
      if (n.leaf() && names_.count(&n)) layers_[i] = layer_of(names_[&n].front());
      for (int e = 0; e < n.input_count; ++e) {
        const auto found = names_.find(n.edges[e].node);
        if (!n.edges[e].node || !n.edges[e].node->leaf() || found == names_.end()) continue;
        const std::size_t use = uses[found->first]++;
        if (known[i]) continue;
        known[i] = true;
        layers_[i] = layer_of(found->second[std::min(use, found->second.size() - 1)]);
      }
    }
    const Layers none;
    std::vector<const Layers*> after(nodes_.size(), &none);
    for (std::size_t i = nodes_.size(); i-- > 1;) after[i - 1] = known[i] ? &layers_[i] : after[i];
    const Layers* before = &none;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (known[i])
        before = &layers_[i];
      else if (!nodes_[i]->leaf())
        layers_[i] = between(*before, *after[i]);
    }
  }
  static Layers layer_of(const std::string& parameter) {
    Layers parts = parts_of(parameter);
    parts.pop_back();
    return parts;
  }
  std::size_t deepest() const {
    std::size_t depth = 0;
    for (const Layers& l : layers_) depth = std::max(depth, l.size());
    return depth;
  }

  // Groups the nodes of layers at this depth or below.
  void fold(std::size_t depth) {
    groups_.clear();
    group_of_.assign(nodes_.size(), "");
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (layers_[i].size() < depth || nodes_[i]->leaf()) continue;
      group_of_[i] = joined(layers_[i], depth);
      Group& g = groups_[group_of_[i]];
      ++g.operations;
      g.last = nodes_[i];
    }
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (layers_[i].size() < depth || !nodes_[i]->leaf()) continue;
      const auto g = groups_.find(joined(layers_[i], depth));
      if (g == groups_.end()) continue;  // A parameter that only other layers use is drawn on its own.
      group_of_[i] = g->first;
      ++g->second.parameters;
      g->second.numbers += nodes_[i]->outputs[0].shape.numel();
    }
  }
  std::size_t drawn() const {
    return groups_.size() + static_cast<std::size_t>(std::count(group_of_.begin(), group_of_.end(), ""));
  }

  // Drops the nodes farthest from the loss if there are too many.
  void cut(std::size_t most) {
    left_out_ = 0;
    shown_.assign(nodes_.size(), true);
    if (drawn() <= most) return;
    std::size_t room = most;
    std::map<std::string, bool> group_shown;
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      const auto [group, is_new] = group_shown.emplace(group_of_[i], room > 0);
      if (group_of_[i].empty()) group->second = room > 0;
      shown_[i] = group->second;
      if (shown_[i] && (is_new || group_of_[i].empty())) --room;
    }
    // Leaves come first in the order. A leaf is shown if a shown node reads it.
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (!shown_[i] || nodes_[i]->leaf()) continue;
      for (int e = 0; e < nodes_[i]->input_count; ++e)
        if (const Node* from = nodes_[i]->edges[e].node; from && from->leaf()) shown_[number_.at(from)] = true;
    }
    left_out_ = static_cast<std::size_t>(std::count(shown_.begin(), shown_.end(), false));
  }

  bool stands_alone(std::size_t i) const { return shown_[i] && group_of_[i].empty(); }
  std::string id(std::size_t i) const {
    if (!shown_[i]) return "more";
    return group_of_[i].empty() ? "n" + std::to_string(i) : quoted("layer " + plot::printable(group_of_[i]));
  }
  static std::string shape_text(const Shape& s) { return s.rank() == 0 ? "" : "\\n" + s.str(); }

  std::string node_text(std::size_t i) const {
    const Node& n = *nodes_[i];
    if (!n.leaf()) {
      std::string label = escaped(n.op);
      for (int o = 0; o < n.output_count; ++o) label += shape_text(n.outputs[o].shape);
      return id(i) + " [label=\"" + label + '"' + (&n == loss_ ? ", penwidth=2" : "") + "];\n";
    }
    const auto found = names_.find(&n);
    std::string label;
    if (found == names_.end())
      label = "leaf";
    else
      for (const std::string& name : found->second) label += (label.empty() ? "" : " = ") + escaped(name);
    return id(i) + " [label=\"" + label + shape_text(n.outputs[0].shape) + "\", shape=box, style=filled, fillcolor=\"" +
           (found == names_.end() ? "#fde9c8" : "#d6e8f7") + "\"];\n";
  }
  static std::string escaped(const std::string& s) {
    const std::string all = quoted(plot::shorten(plot::printable(s), 80));
    return all.substr(1, all.size() - 2);
  }
  std::string layer_label(const std::string& name) const {
    const auto found = classes_.find(name);
    return escaped(name) + (found == classes_.end() ? "" : ": " + escaped(found->second));
  }
  std::string group_text(std::size_t i) const {
    const Group& g = groups_.at(group_of_[i]);
    std::string holds = plot::counted(g.operations, "operation", "operations");
    if (g.parameters > 0)
      holds += ", " + plot::counted(g.parameters, "parameter", "parameters") + " of " + std::to_string(g.numbers) +
               " numbers";
    return id(i) + " [label=\"" + layer_label(group_of_[i]) + "\\n" + holds + shape_text(g.last->outputs[0].shape) +
           "\", shape=box3d, style=filled, fillcolor=\"#e3f1dc\"];\n";
  }
  std::string item_text(std::size_t i) const { return group_of_[i].empty() ? node_text(i) : group_text(i); }
  // The number of layers around a drawn node. A layer that is drawn as one node does not count itself.
  std::size_t layers_around(std::size_t i) const {
    return group_of_[i].empty() ? layers_[i].size() : parts_of(group_of_[i]).size() - 1;
  }

  // Draws nodes in nested boxes, one per layer.
  void write_layers(std::string& out, const std::vector<std::size_t>& inside, std::size_t depth) const {
    const std::string indent(2 * depth + 2, ' ');
    std::map<std::string, std::vector<std::size_t>> below;
    std::vector<std::string> order;
    for (const std::size_t i : inside) {
      if (layers_around(i) <= depth) {
        out += indent + item_text(i);
        continue;
      }
      auto& list = below[layers_[i][depth]];
      if (list.empty()) order.push_back(layers_[i][depth]);
      list.push_back(i);
    }
    for (const std::string& name : order) {
      const std::vector<std::size_t>& list = below[name];
      const std::string layer = joined(layers_[list[0]], depth + 1);
      out += indent + "subgraph " + quoted("cluster " + plot::printable(layer)) + " {\n" + indent + "  label=\"" +
             layer_label(layer) + "\"; color=\"#aab1b9\"; fontcolor=\"#57606a\";\n";
      write_layers(out, list, depth + 1);
      out += indent + "}\n";
    }
  }

  std::string text() const {
    std::string out =
        "digraph {\n"
        "  rankdir=TB; fontname=\"Helvetica\"; nodesep=0.25; ranksep=0.3;\n"
        "  node [fontname=\"Helvetica\", fontsize=11, height=0.3, shape=box, style=\"rounded\"];\n"
        "  edge [color=\"#57606a\", arrowsize=0.6];\n";
    std::vector<std::size_t> items;
    std::set<std::string> done;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (shown_[i] && (group_of_[i].empty() || done.insert(group_of_[i]).second)) items.push_back(i);
    if (left_out_ > 0) out += "  more [label=\"… " + std::to_string(left_out_) + " more\", shape=plaintext];\n";
    write_layers(out, items, 0);
    std::set<std::pair<std::string, std::string>> drawn;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      for (int e = 0; e < nodes_[i]->input_count; ++e) {
        const Node* const from = nodes_[i]->edges[e].node;
        if (!from) continue;
        const std::size_t source = number_.at(from);
        const std::pair edge(id(source), id(i));
        const bool once = !stands_alone(source) || !stands_alone(i);  // one edge per group, not per operation
        if (edge.first == edge.second || (once && !drawn.insert(edge).second)) continue;
        out += "  " + edge.first + " -> " + edge.second + ";\n";
      }
    return out + "}\n";
  }

  std::map<std::string, std::string> classes_;  // of layers, by their names
  Node* loss_;
  std::unordered_map<const Node*, std::vector<std::string>> names_;
  std::vector<Node*> nodes_;
  std::unordered_map<const Node*, std::size_t> number_;
  std::vector<Layers> layers_;

  std::map<std::string, Group> groups_;
  std::vector<std::string> group_of_;  // the group of each node; "" for a node drawn on its own
  std::vector<bool> shown_;
  std::size_t left_out_ = 0;
};

std::string draw(const Tensor& loss, const StateDict& names, const GraphToDotOptions& options,
                 std::map<std::string, std::string> classes) {
  check::defined(graph_to_dot_op, "the loss", loss);
  if (options.max_nodes() < 1)
    check::fail(graph_to_dot_op, "max_nodes is ", options.max_nodes(), ": it must be positive");
  if (!loss.impl()->node)
    check::fail(graph_to_dot_op, "the loss of shape ", loss.shape(),
                " has no graph: nothing that it comes from wants a gradient, ", "or it was computed under NoGrad");
  return Graph(loss, names, std::move(classes)).dot(static_cast<std::size_t>(options.max_nodes()));
}

}  // namespace

std::string graph_to_dot(const Tensor& loss, const nn::Layer& model, const GraphToDotOptions& options) {
  StateDict names;  // with every name of a shared parameter
  nn::each_value(model, [&](const std::string& name, const nn::Field& field) {
    if (field.parameter) names.emplace_back(name, field.value());
  });
  std::map<std::string, std::string> classes;
  for (const auto& [name, layer] : model.named_layers()) classes.emplace(name, layer->name());
  return draw(loss, names, options, std::move(classes));
}

std::string graph_to_dot(const Tensor& loss, const StateDict& names, const GraphToDotOptions& options) {
  return draw(loss, names, options, {});
}

std::string graph_to_dot(const Tensor& loss, const GraphToDotOptions& options) { return draw(loss, {}, options, {}); }

}  // namespace fit
