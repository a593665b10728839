#include "fit/graph_to_dot.hpp"

#include <set>

#include "fit/graph/graph.hpp"
#include "fit/nn/layers/activation.hpp"
#include "fit/nn/layers/containers.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/text.hpp"

namespace fit::test::graph_to_dot_test {
using Catch::Matchers::Contains;
using fit::test::count;

namespace {

// Statements that say what is drawn, and arrows between them that lead nowhere else.
std::int64_t nodes(const std::string& dot) { return count(dot, " [label="); }
void check_arrows(const std::string& dot) {
  std::set<std::string> known;
  for (std::size_t at = dot.find(" [label="); at != std::string::npos; at = dot.find(" [label=", at + 1)) {
    const std::size_t begin = dot.rfind('\n', at) + 1;
    const std::string line = dot.substr(begin, at - begin);
    known.insert(line.substr(line.find_first_not_of(' ')));
  }
  for (std::size_t at = dot.find(" -> "); at != std::string::npos; at = dot.find(" -> ", at + 1)) {
    const std::string from = dot.substr(dot.rfind('\n', at) + 3, at - dot.rfind('\n', at) - 3);
    const std::string to = dot.substr(at + 4, dot.find(";\n", at) - at - 4);
    CAPTURE(from, to);
    CHECK(known.count(from) == 1);
    CHECK(known.count(to) == 1);
    CHECK(from != to);
  }
}

// The part of the text that is the box of a layer.
std::string box(const std::string& dot, const std::string& layer) {
  const std::size_t begin = dot.find("subgraph \"cluster " + layer + "\" {\n");
  REQUIRE(begin != std::string::npos);
  const std::size_t line = dot.rfind('\n', begin) + 1;
  return dot.substr(begin, dot.find("\n" + std::string(begin - line, ' ') + "}\n", begin) - begin);
}

nn::GPT small_gpt(std::int64_t layers) {
  return nn::GPT(nn::GPTOptions().vocab_size(20).context_length(16).num_layers(layers).num_heads(2).d_model(16));
}

std::string dot_of(const nn::GPT& model, std::int64_t max_nodes) {
  const Tensor ids = zeros({2, 4}, int64);
  return graph_to_dot(model.loss(ids, ids), model, GraphToDotOptions().max_nodes(max_nodes));
}

}  // namespace

TEST_CASE("a graph has operations with shapes, parameters with names, and what reads what") {
  Tensor w = ones({3, 2}), b = ones({2});
  w.requires_grad_(), b.requires_grad_();
  const std::string dot = graph_to_dot(sum(matmul(ones({4, 3}), w) + b), {{"w", w}});
  CHECK(dot ==
        "digraph {\n"
        "  rankdir=TB; fontname=\"Helvetica\"; nodesep=0.25; ranksep=0.3;\n"
        "  node [fontname=\"Helvetica\", fontsize=11, height=0.3, shape=box, style=\"rounded\"];\n"
        "  edge [color=\"#57606a\", arrowsize=0.6];\n"
        "  n0 [label=\"w\\n[3, 2]\", shape=box, style=filled, fillcolor=\"#d6e8f7\"];\n"
        "  n1 [label=\"leaf\\n[2]\", shape=box, style=filled, fillcolor=\"#fde9c8\"];\n"
        "  n2 [label=\"matmul\\n[4, 2]\"];\n"
        "  n3 [label=\"add\\n[4, 2]\"];\n"
        "  n4 [label=\"sum\", penwidth=2];\n"
        "  n0 -> n2;\n"
        "  n2 -> n3;\n"
        "  n1 -> n3;\n"
        "  n3 -> n4;\n"
        "}\n");
}

TEST_CASE("operations stand in the boxes of their layers") {
  const std::string dot = dot_of(small_gpt(2), 200);
  check_arrows(dot);
  for (const char* name : {"h.0.attn.qkv.weight", "wpe.weight", "h.1.mlp.proj.bias"}) CHECK(count(dot, name) == 1);
  CHECK(count(dot, "wte.weight = head.weight") == 1);
  CHECK(count(box(dot, "h.0.attn"), "label=\"attention") == 1);
  CHECK(count(box(dot, "h.0.mlp"), "label=\"gelu") == 1);
  CHECK(count(box(dot, "h.0.mlp.fc"), "label=\"gelu") == 0);
  CHECK(count(box(dot, "h.0"), "label=\"add") == 2);
  CHECK(count(box(dot, "h.1"), "label=\"add") == 2);  // that behind the last parameter, too
  CHECK(count(box(dot, "wte"), "label=\"embedding") == 1);
  CHECK(count(box(dot, "wte"), "label=\"linear") == 0);  // that is the head's, although it reads the same table
  CHECK(count(box(dot, "head"), "label=\"linear") == 1);
  CHECK(count(dot, "label=\"h.1.attn: GPTAttention\"") == 1);
}

TEST_CASE("a large graph is folded layer by layer until it is small enough") {
  const nn::GPT model = small_gpt(12);
  const std::string all = dot_of(model, 10000);
  CHECK(nodes(all) > 250);
  CHECK(count(all, "box3d") == 0);
  std::int64_t before = nodes(all);
  for (const std::int64_t most : {200, 90, 30, 12}) {
    const std::string dot = dot_of(model, most);
    CAPTURE(most);
    check_arrows(dot);
    CHECK(nodes(dot) <= most);
    CHECK(nodes(dot) < before);
    before = nodes(dot);
  }
  const std::string blocks = dot_of(model, 30);
  CHECK(count(blocks, "shape=box3d") >= 12);
  CHECK(count(blocks, "[label=\"h.7: GPTBlock\\n10 operations, 12 parameters of 3280 numbers\\n[2, 4, 16]\"") == 1);
  CHECK(count(blocks, "\"layer h.6\" -> \"layer h.7\";") == 1);
  CHECK(count(blocks, "-> \"layer h.6\"") == 1);
}

TEST_CASE("what can't be folded is cut off behind what is nearest to the loss") {
  Tensor x = ones({3});
  x.requires_grad_();
  Tensor y = x;
  for (int i = 0; i < 100000; ++i) y = y * x;
  const auto o = GraphToDotOptions().max_nodes(10);
  const std::string dot = graph_to_dot(sum(y), {{"x", x}}, o);
  check_arrows(dot);
  CHECK(nodes(dot) == 10 + 2);  // x, which is read, and the note
  CHECK(count(dot, "… 99991 more") == 1);
  CHECK(count(dot, "label=\"sum\"") == 1);
  CHECK(count(dot, "label=\"x\\n[3]\"") == 1);
}

TEST_CASE("the same graph gives the same text") {
  const nn::GPT model = small_gpt(3);
  for (const std::int64_t most : {500, 60, 5}) CHECK(dot_of(model, most) == dot_of(model, most));
}

TEST_CASE("a layer that is called twice, and one that stands behind a list's layers") {
  nn::Linear shared(4, 4);
  const Tensor x = ones({2, 4});
  const std::string dot = graph_to_dot(sum(shared(relu(shared(x)))), shared);
  CHECK(count(dot, "label=\"linear") == 2);
  CHECK(count(dot, "n0 -> ") == 2);
  nn::Sequential model(nn::Linear(4, 4), nn::ReLU(), nn::Linear(4, 2), nn::GELU());
  const std::string list = graph_to_dot(sum(model(x)), model);
  check_arrows(list);
  CHECK(count(box(list, "0"), "label=\"relu") == 1);
}

TEST_CASE("names are quoted") {
  Tensor x = ones({3});
  x.requires_grad_();
  const std::string dot = graph_to_dot(sum(x), {{"\"; evil -> x [\\l\n\x01\xff", x}});
  CHECK(count(dot, "label=\"\\\"; evil -> x [\\\\l↵ �\\n[3]\"") == 1);
  CHECK(count(graph_to_dot(sum(x), {{std::string(10000, 'x'), x}}), std::string(100, 'x')) == 0);
}

TEST_CASE("without a graph there is an Error that says why") {
  Tensor x = ones({3});
  CHECK_THROWS_WITH(graph_to_dot(sum(x)), Contains("[graph_to_dot]") && Contains("has no graph"));
  CHECK_THROWS_AS(graph_to_dot(Tensor()), Error);
  x.requires_grad_();
  CHECK(count(graph_to_dot(x), "label=\"leaf\\n[3]\"") == 1);
  const Tensor loss = sum(x * x);
  CHECK_THROWS_WITH(graph_to_dot(loss, GraphToDotOptions().max_nodes(0)), Contains("max_nodes is 0"));
  loss.backward(retain_graph);
  CHECK(nodes(graph_to_dot(loss)) == 3);
  loss.backward();
  CHECK_THROWS_WITH(graph_to_dot(loss), Contains("backward() has freed the graph"));
}

}  // namespace fit::test::graph_to_dot_test
