#include "nn/layers/layer_table.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "fit/backward/gradcheck.hpp"
#include "fit/graph/autocast.hpp"
#include "fit/nn/layer/parametrize.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/nn/layers/quantize.hpp"
#include "fit/nn/training/checkpoint.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/oracles/one_result.hpp"
#include "support/tensors.hpp"
#include "support/text.hpp"

namespace fit::test {
namespace {

using Family = std::vector<LayerRow> (*)();
std::vector<Family>& families() {
  static std::vector<Family> all;
  return all;
}

template <class F>
void each_row(const F& f) {
  for (const Family family : families())
    for (const LayerRow& row : family()) {
      manual_seed(3);
      const std::shared_ptr<nn::Layer> layer = row.make();
      INFO(*layer);
      f(row, *layer);
    }
}

double largest(const Tensor& x) {
  double most = 0;
  const Tensor d = x.to(float64);
  for (const double v : d.data<double>()) most = std::max(most, std::abs(v));
  return most;
}

// Gradients of a plain sum would be hidden by a softmax.
Tensor scalar_of(const Tensor& y) { return sum(y * random_like(y)); }

}  // namespace

RegisterLayers::RegisterLayers(Family family) { families().push_back(family); }

TEST_CASE("every layer: all members are listed", "[layers]") {
  each_row([](const LayerRow&, const nn::Layer& layer) { CHECK_NOTHROW(layer.children()); });
}

TEST_CASE("every layer: one result on every instruction set", "[layers][one_result]") {
  int number = 0;
  each_row([&](const LayerRow& row, const nn::Layer&) {
    check_one_result("layer " + std::to_string(number++), [&] {
      manual_seed(3);
      const std::shared_ptr<nn::Layer> layer = row.make();
      std::vector<Tensor> in = row.inputs(), all;
      for (Tensor& x : in)
        if (is_floating(x.dtype())) x.requires_grad_();
      const Tensor y = row.call(*layer, in);
      all.push_back(y.detach());
      if (y.requires_grad()) scalar_of(y).backward();
      for (const auto& [name, p] : layer->named_parameters()) all.push_back(p.grad());
      for (const Tensor& x : in) all.push_back(x.grad());
      return all;
    });
  });
}

TEST_CASE("every layer: every parameter and every input get a gradient", "[layers]") {
  each_row([](const LayerRow& row, nn::Layer& layer) {
    layer.eval();
    std::vector<Tensor> in = row.inputs();
    for (Tensor& x : in)
      if (is_floating(x.dtype())) x.requires_grad_();
    scalar_of(row.call(layer, in)).backward();
    for (const Tensor& x : in) {
      if (!is_floating(x.dtype())) continue;
      REQUIRE(x.has_grad());
      CHECK(largest(x.grad()) > 1e-6);
    }
    for (const auto& [name, p] : layer.named_parameters()) {
      INFO(name);
      REQUIRE(p.has_grad());
      if (std::count(row.zero.begin(), row.zero.end(), name))
        CHECK(largest(p.grad()) < 1e-5);
      else
        CHECK(largest(p.grad()) > 1e-6);
    }
  });
}

TEST_CASE("every layer: gradients against central differences", "[layers]") {
  each_row([](const LayerRow& row, nn::Layer& layer) {
    if (!row.derivative) return;
    layer.eval();
    layer.to(float64);
    std::vector<Tensor> in = row.inputs(), all;
    for (Tensor& x : in)
      if (is_floating(x.dtype())) x = x.to(float64).requires_grad_();
    all = in;
    std::vector<std::string> names(in.size(), "an input");
    for (const auto& [name, p] : layer.named_parameters()) {
      all.push_back(p);
      names.push_back(name);
    }
    // The parameters are reached through the layer: they are changed where they are.
    const GradReport report = check_gradients([&](const std::vector<Tensor>&) { return row.call(layer, in); }, all,
                                              GradCheckOptions().names(names));
    INFO(report);
    CHECK(report.ok);
  });
}

TEST_CASE("every layer: evaluation gives the same twice", "[layers]") {
  each_row([](const LayerRow& row, nn::Layer& layer) {
    layer.eval();
    CHECK(same_bits(row.call(layer, row.inputs()), row.call(layer, row.inputs())));
  });
}

TEST_CASE("every layer: the state goes into another one and back", "[layers]") {
  each_row([](const LayerRow& row, nn::Layer& layer) {
    manual_seed(4);
    const std::shared_ptr<nn::Layer> other = row.make();
    layer.eval();
    other->eval();
    const nn::Layer& saved = layer;  // a const layer can be saved
    other->load_state_dict(saved.state_dict());
    CHECK(same_bits(row.call(layer, row.inputs()), row.call(*other, row.inputs())));
  });
}

namespace {

// The types that weights may have: floating ones, int8 numbers with scales, matrices beside them.
struct Form {
  const char* name;
  DType dtype;
  bool int8 = false, lora = false;

  void make_of(nn::Layer& layer) const {
    layer.to(dtype);
    const auto linears = layer.named_layers<nn::Linear>();
    const bool free =
        std::none_of(linears.begin(), linears.end(), [](const auto& l) { return l.second->weight.parametrized(); });
    if (int8 && free && !(linears.empty() && layer.named_layers<nn::Embedding>().empty())) nn::quantize_(layer);
    for (const auto& [path, linear] : linears)
      if (lora && free) nn::low_rank(linear->weight, 1);
  }
};

const Form forms[] = {
    {"float32", float32},
    {"float64", float64},
    {"bfloat16", bfloat16},
    {"int8", float32, true},
    {"LoRA", float32, false, true},
    {"LoRA on bfloat16", bfloat16, false, true},
    {"int8 of bfloat16", bfloat16, true},
    {"LoRA on int8 of bfloat16", bfloat16, true, true},
};

}  // namespace

TEST_CASE("every layer: weights of every type, under Autocast or not, give what float64 gives, and gradients",
          "[layers]") {
  for (const Form& form : forms)
    for (const DType autocast : {float32, bfloat16}) {
      INFO(form.name << (autocast == bfloat16 ? " under Autocast" : ""));
      each_row([&](const LayerRow& row, nn::Layer& layer) {
        layer.eval();
        const std::shared_ptr<nn::Layer> exact = layer.clone();
        exact->to(float64);
        form.make_of(layer);
        std::vector<Tensor> in = row.inputs(), wide = in;
        for (std::size_t i = 0; i < in.size(); ++i)
          if (is_floating(in[i].dtype())) wide[i] = in[i].to(float64), in[i] = in[i].to(form.dtype).requires_grad_();
        const Tensor expected = row.call(*exact, wide).detach();
        const Autocast guard(autocast);
        const Tensor y = row.call(layer, in);
        const bool rounded = form.int8 || form.dtype == bfloat16 || autocast == bfloat16;
        CHECK(y.shape() == expected.shape());
        CHECK(largest(y.detach().to(float64) - expected) <= (rounded ? 0.1 : 1e-5) * largest(expected));
        if (!y.requires_grad()) return;
        scalar_of(y).backward();
        for (const auto& [name, p] : layer.named_parameters()) {
          INFO(name);
          CHECK(p.has_grad() == p.requires_grad());
          if (p.has_grad()) CHECK(p.grad().dtype() == p.dtype());
        }
      });
    }
}

TEST_CASE("every layer: what a checkpoint saves can be loaded, in every type", "[layers]") {
  const Directory d;
  for (const Form& form : forms) {
    INFO(form.name);
    each_row([&](const LayerRow& row, nn::Layer& layer) {
      manual_seed(4);
      const std::shared_ptr<nn::Layer> other = row.make();
      form.make_of(layer), form.make_of(*other);
      Checkpoint().add("model", layer).save(d.file("c"));
      Checkpoint().add("model", *other).load(d.file("c"));
      const StateDict saved = layer.state_dict(), loaded = other->state_dict();
      REQUIRE(saved.size() == loaded.size());
      for (std::size_t i = 0; i < saved.size(); ++i) CHECK(same_bits(saved[i].second, loaded[i].second));
    });
  }
}

TEST_CASE("every layer: a clone gives the same and lives its own life", "[layers]") {
  each_row([](const LayerRow& row, nn::Layer& layer) {
    layer.eval();
    const std::uint64_t calls = default_generator().calls();
    const std::shared_ptr<nn::Layer> copy = layer.clone();
    CHECK(default_generator().calls() == calls);
    CHECK_FALSE(copy->training());
    CHECK(copy->str() == layer.str());
    const Tensor before = row.call(layer, row.inputs());
    CHECK(same_bits(before, row.call(*copy, row.inputs())));
    {
      const NoGrad no_grad;
      for (auto& [name, tensor] : copy->state_dict()) Tensor(tensor).zero_();
    }
    CHECK(same_bits(before, row.call(layer, row.inputs())));
  });
}

TEST_CASE("every layer: float64 gives what float32 gives, more precisely", "[layers]") {
  each_row([](const LayerRow& row, nn::Layer& layer) {
    layer.eval();
    std::vector<Tensor> in = row.inputs();
    const Tensor y = row.call(layer, in);
    layer.to(float64);
    for (Tensor& x : in)
      if (is_floating(x.dtype())) x = x.to(float64);
    const Tensor precise = row.call(layer, in);
    CHECK(precise.dtype() == float64);
    CHECK(max_difference(y, precise) < 1e-5);
  });
}

TEST_CASE("every layer: an undefined input is told by operation and argument", "[layers]") {
  using Catch::Matchers::Matches;
  each_row([](const LayerRow& row, const nn::Layer& layer) {
    for (std::size_t i = 0; i < row.inputs().size(); ++i) {
      std::vector<Tensor> in = row.inputs();
      in[i] = Tensor();
      CHECK_THROWS_WITH(row.call(layer, in), Matches(R"(\[\w+\] \w+ is undefined: give it a value first.*)"));
    }
  });
}

TEST_CASE("every layer: it prints its name", "[layers]") {
  each_row([](const LayerRow&, const nn::Layer& layer) { CHECK(layer.str().rfind(layer.name() + '(', 0) == 0); });
}

TEST_CASE("every layer of the headers has a row", "[layers]") {
  std::set<std::string> have, declared;
  each_row([&](const LayerRow&, const nn::Layer& layer) { have.insert(layer.name()); });
  for (const char* folder : {"/layer", "/layers", "/attention", "/models"})
    for (const auto& entry : std::filesystem::directory_iterator(std::string(FIT_NN_HEADERS) + folder)) {
      std::ifstream file(entry.path());
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      for (const std::string& name : matches(text, R"((?:class|struct) (\w+) final : public)")) declared.insert(name);
    }
  REQUIRE(declared.count("Linear") == 1);
  for (const std::string& name : declared) {
    INFO(name << " has no row in the table of layers");
    CHECK(have.count(name) == 1);
  }
}

}  // namespace fit::test
