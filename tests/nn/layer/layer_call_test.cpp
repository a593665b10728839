#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fit/nn.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// The call operator that FIT_FIELDS makes around forward().
namespace fit::test::layer_call_test {
namespace {

using Catch::Matchers::Contains;

struct Defaults final : nn::Layer {
  Tensor forward(const Tensor& x, const Tensor& y = {}, double scale = 1) const {
    return (y.defined() ? x + y : x) * scale;
  }
  FIT_FIELDS()
};

struct Overloads final : nn::Layer {
  FIT_FIELDS()
  void forward() const {}
  Tensor forward(const Tensor& x) const { return x; }
  std::tuple<Tensor, int> forward(const Tensor& x, int n) const { return {x * n, n}; }
  std::pair<Tensor, Tensor> forward(const Tensor& x, std::unique_ptr<int> n) { return {x * *n, x}; }
  const Tensor& forward(const Tensor& x, const std::string&) const { return x; }
  nn::RecurrentResult forward(Tensor x, const std::vector<Tensor>& more) const { return {x + more.at(0), {}}; }
};

// Not const, without tensors of its own.
struct Lists final : nn::Layer {
  Tensor forward(const std::vector<Tensor>& all, const Shape& shape = {}) {
    ++calls;
    return shape.rank() > 0 ? reshape(cat(all), shape) : cat(all);
  }
  FIT_FIELDS()
  int calls = 0;
};

template <class T>
struct Templated final : nn::Layer {
  Tensor forward(const T& x, const std::vector<T>& more) const { return x + more.at(1); }
  FIT_FIELDS()
};

struct OldCall final : nn::Layer {
  Tensor operator()(const Tensor& x) const { return fc(x); }
  FIT_FIELDS(fc)
  nn::Linear fc{2, 2};
};

struct BothCalls final : nn::Layer {
  Tensor forward(const Tensor& x) const { return x; }
  Tensor operator()(const Tensor& x, double k) const { return forward(x) * k; }
  FIT_FIELDS()
};

struct Outer final : nn::Layer {
  Tensor forward(const Tensor& x, const Tensor& gate) const { return inner(x, gate, 2) + 1; }
  FIT_FIELDS(inner)
  struct Inner final : nn::Layer {
    Tensor forward(const Tensor& x, const Tensor& gate, int n) const { return fc(x) * gate * n; }
    FIT_FIELDS(fc)
    nn::Linear fc{2, 2};
  } inner;
};

struct Attends final : nn::Layer {
  struct Cross final : nn::Layer {
    Tensor forward(const Tensor& x, const Tensor& y) const { return scaled_dot_product_attention(x, y, y); }
    FIT_FIELDS()
  };
  Tensor forward(const Tensor& x, const Tensor& y) const { return cross(x, y); }
  FIT_FIELDS(cross)
  Cross cross;
};

struct Notes final : Observer {
  void layer_entered(LayerCall& call) override { inputs.push_back(call.inputs); }
  void layer_left(LayerCall& call) override { outputs.push_back(call.output); }
  std::vector<std::vector<Tensor>> inputs;
  std::vector<Tensor> outputs;
};

}  // namespace

TEST_CASE("a call takes what forward takes: defaults, overloads, const or not", "[layer_call]") {
  const Tensor x = rand({2, 2}), y = rand({2, 2});
  const Defaults layer;
  CHECK(same_bits(layer(x), x));
  CHECK(same_bits(layer(x, y), x + y));
  CHECK(same_bits(layer(x, Tensor(), 3), x * 3));
  Overloads many;
  many();
  CHECK(same_bits(many(x), x));
  CHECK(std::get<1>(many(x, 3)) == 3);
  CHECK(same_bits(many(x, std::make_unique<int>(4)).first, x * 4));
  CHECK(&many(x, "text") == &x);
  CHECK(same_bits(many(x, std::vector<Tensor>{y}).output, x + y));
  Lists lists;
  CHECK(same_bits(lists(std::vector<Tensor>{x, y}), cat({x, y})));
  CHECK(lists(std::vector<Tensor>{x, y}, Shape{8}).shape() == Shape{8});
  CHECK(lists.calls == 2);
  CHECK(same_bits(Templated<Tensor>()(x, std::vector<Tensor>{y, x}), x + x));
  Tensor written = zeros({2, 2});
  CHECK(layer(written[0]).shape() == Shape{2});
}

TEST_CASE("hooks run around forward with any arguments, and replace its tensors", "[layer_call]") {
  const Tensor x = rand({2, 2}), y = rand({2, 2});
  Defaults layer;
  int before = 0, after = 0;
  auto pre = nn::register_forward_pre_hook(layer, [&](const nn::Layer&, const Tensor& in) {
    ++before;
    return in * 10;
  });
  auto post = nn::register_forward_hook(layer, [&](const nn::Layer&, const Tensor& out) {
    ++after;
    return out + 1;
  });
  CHECK(same_bits(layer(x, y), (x * 10 + y) + 1));
  CHECK(same_bits(layer(x, Tensor(), 2), x * 10 * 2 + 1));
  CHECK((before == 2 && after == 2));
  pre.remove();
  post.remove();
  CHECK(same_bits(layer(x, y), x + y));

  Overloads many;
  const auto hook = nn::register_forward_hook(many, [](const nn::Layer&, const Tensor& out) { return out + 1; });
  many();
  CHECK(same_bits(std::get<0>(many(x, 3)), x * 3 + 1));
  CHECK(same_bits(many(x, std::make_unique<int>(4)).first, x * 4 + 1));
  CHECK(same_bits(many(x, std::vector<Tensor>{y}).output, x + y + 1));
}

TEST_CASE("observers see the tensors of every layer's call, and errors name the layer", "[layer_call]") {
  const Outer outer;
  const Tensor x = rand({3, 2}), gate = rand({3, 2});
  Notes notes;
  Tensor out;
  {
    const Observe watching(notes);
    out = outer(x, gate);
  }
  REQUIRE(notes.inputs.size() == 3);
  CHECK(notes.inputs[0].size() == 2);
  CHECK(same_bits(notes.inputs[1].at(1), gate));
  CHECK(notes.inputs[2].size() == 1);
  CHECK(same_bits(notes.outputs.back(), out));
  CHECK_THROWS_WITH(outer(rand({3, 5}), gate), Contains(", in inner.fc"));
  CHECK_THROWS_WITH(outer(x, rand({7})), Contains(", in inner"));
  const nn::ModelSummary s = nn::summary(outer, x, gate);
  CHECK(s.layer("inner").calls == 1);
}

TEST_CASE("anomaly mode and the recorder know a layer with several arguments by its name", "[layer_call]") {
  const Outer outer;
  {
    const DetectAnomaly detect;
    CHECK_THROWS_WITH(outer(ones({1, 2}), ones({1, 2}) / 0), Contains("[div]"));
    Tensor gate;
    {
      const NoGrad quiet;
      gate = full({1, 2}, 1e38);
    }
    CHECK_THROWS_WITH(outer(full({1, 2}, 1e30), gate), Contains("[mul]") && Contains(", in inner"));
  }
  const Attends attends;
  const nn::AttentionRecorder recorder(attends);
  attends(rand({5, 4}), rand({3, 4}));
  const AttentionRecording recording = recorder.recording();
  REQUIRE(recording.records().size() == 1);
  CHECK(recording.records()[0].layer == "cross");
}

TEST_CASE("a class with a call operator of its own is told so", "[layer_call]") {
  OldCall old;
  CHECK(old(zeros({1, 2})).shape() == Shape{1, 2});
  CHECK_THROWS_WITH(nn::register_forward_hook(old, [](const nn::Layer&, const Tensor&) {}),
                    "[register_forward_hook] OldCall has a call operator of its own, which no hook sees: name it "
                    "forward, and FIT_FIELDS makes the call operator");
  CHECK_THROWS_WITH(nn::register_forward_pre_hook(old, [](const nn::Layer&, const Tensor&) {}), Contains("OldCall"));
  CHECK_THROWS_WITH(nn::attach(old, std::make_shared<Notes>()), Contains("[attach] OldCall"));
  BothCalls both;
  CHECK_THROWS_WITH(nn::register_forward_hook(both, [](const nn::Layer&, const Tensor&) {}), Contains("BothCalls"));
  nn::ModuleList<nn::Linear> list;  // is never called
  CHECK_NOTHROW(nn::register_forward_hook(list, [](const nn::Layer&, const Tensor&) {}).remove());
}

}  // namespace fit::test::layer_call_test
