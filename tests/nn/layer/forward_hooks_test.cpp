#include "fit/nn/layer/forward_hooks.hpp"

#include <atomic>
#include <thread>

#include "fit/nn.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// Hooks around the calls of layers.
namespace fit::test::forward_hooks_test {
namespace {

using Catch::Matchers::Contains;

struct Net final : nn::UnaryLayer {
  Tensor forward(const Tensor& x) const override { return second(relu(first(x))); }
  FIT_FIELDS(first, second)
  nn::Linear first{3, 4}, second{4, 2};
};

// One whose own call is made of another one of its own.
struct Within final : nn::Layer {
  Tensor inner(const Tensor& x) const {
    return nn::within(*this, [&] { return x + 1; });
  }
  Tensor forward(const Tensor& x) const { return inner(x) * 10; }
  FIT_FIELDS()
};

}  // namespace

TEST_CASE("a forward hook sees what comes out, and may put something else in its place", "[hooks]") {
  Net net;
  const Tensor x = rand({5, 3}), plain = net(x);
  std::vector<Shape> seen;
  const nn::Layer* of = nullptr;
  auto look = nn::register_forward_hook(net.first, [&](const nn::Layer& layer, const Tensor& y) {
    of = &layer;
    seen.push_back(y.shape());
  });
  CHECK(same_bits(net(x), plain));
  CHECK(seen == std::vector<Shape>{{5, 4}});
  CHECK(of == &net.first);
  {
    const auto zero = nn::register_forward_hook(net, [](const nn::Layer&, const Tensor& y) { return y * 0; });
    const auto one = nn::register_forward_hook(net, [](const nn::Layer&, const Tensor& y) { return y + 1; });
    CHECK(same_bits(net(x), ones({5, 2})));
  }
  CHECK(same_bits(net(x), plain));
  look.remove();
  look.remove();
  seen.clear();
  net(x);
  CHECK(seen.empty());
}

TEST_CASE("a pre-hook sees what goes in, and the layer computes with what it gives", "[hooks]") {
  Net net;
  const Tensor x = rand({5, 3}), other = rand({5, 3}), expected = net(other);
  const auto hook = nn::register_forward_pre_hook(net, [&](const nn::Layer&, const Tensor& in) {
    CHECK(same_bits(in, x));
    return other;
  });
  CHECK(same_bits(net(x), expected));
  const auto bad = nn::register_forward_pre_hook(
      net.second, [](const nn::Layer&, const Tensor&) -> Tensor { throw Error("[test] no"); });
  CHECK_THROWS_WITH(net(x), Contains("[test] no") && Contains("in second"));
}

TEST_CASE("gradients go through what a hook has put in place", "[hooks]") {
  nn::Linear layer(2, 2);
  const Tensor x = ones({1, 2});
  const auto hook = nn::register_forward_hook(layer, [](const nn::Layer&, const Tensor& y) { return y * 3; });
  sum(layer(x)).backward();
  CHECK(same_bits(layer.bias.grad(), full({2}, 3)));
}

TEST_CASE("attention with weights, a call within a call, and an observer have one call of the hooks", "[hooks]") {
  nn::MultiHeadAttention attention(8, 2, 0.0);
  int calls = 0;
  const auto count = [&](const nn::Layer&, const Tensor&) { ++calls; };
  const auto hook = nn::register_forward_hook(attention, count);
  const auto half = nn::register_forward_hook(attention, [](const nn::Layer&, const Tensor& y) { return y / 2; });
  const Tensor x = rand({1, 3, 8});
  const Tensor y = attention.forward(x, x, x);
  const AttentionResult r = attention(x, x, x, nn::return_attention);
  CHECK(calls == 2);
  CHECK(same_bits(y, r.output));
  Within within;
  const auto other = nn::register_forward_hook(within, count);
  calls = 0;
  CHECK(within(ones({1})).item() == 20);
  CHECK(calls == 1);
  Net net;
  const auto third = nn::register_forward_hook(net.first, count);
  const nn::ModelSummary s = nn::summary(net, rand({2, 3}));
  CHECK(calls == 2);
  CHECK(s.layer("first").calls == 1);
}

TEST_CASE("hooks move with their layer, are not cloned, and handles may outlive it", "[hooks]") {
  int calls = 0;
  const auto count = [&](const nn::Layer&, const Tensor&) { ++calls; };
  nn::ForwardHook hook;
  {
    nn::Linear layer(2, 2);
    hook = nn::register_forward_hook(layer, count);
    const nn::Sequential all(std::move(layer), nn::ReLU());
    all(ones({1, 2}));
    CHECK(calls == 1);
    (*nn::clone(all))(ones({1, 2}));
    CHECK(calls == 1);
  }
  hook.remove();
  Net net;
  CHECK_FALSE(net.hooked());
  CHECK_THROWS_WITH(nn::register_forward_hook(net, std::function<void(const nn::Layer&, const Tensor&)>()),
                    Contains("[register_forward_hook] the hook is empty"));
}

TEST_CASE("an observer of a thread sees the calls of all layers, in pairs, with what hooks have put in place",
          "[observer]") {
  struct Notes final : Observer {
    void layer_entered(LayerCall& call) override {
      notes.push_back(std::string(call.outer ? "  " : "") + call.layer.name());
      inputs = call.inputs;
      CHECK(innermost_call() == &call);
    }
    void layer_left(LayerCall& call) override {
      notes.push_back(std::string(call.failed ? "failed " : "left ") + call.layer.name());
      output = call.output;
    }
    std::vector<std::string> notes;
    std::vector<Tensor> inputs;
    Tensor output;
  } notes;
  Net net;
  const auto hook = nn::register_forward_hook(net, [](const nn::Layer&, const Tensor& y) { return zeros_like(y); });
  const Observe watching(notes);
  const Tensor y = net(ones({1, 3}));
  CHECK(notes.notes ==
        std::vector<std::string>{"Net", "  Linear", "left Linear", "  Linear", "left Linear", "left Net"});
  CHECK(notes.inputs.size() == 1);
  CHECK(same_bits(notes.output, zeros({1, 2})));
  notes.notes.clear();
  CHECK_THROWS_WITH(net(ones({1, 5})), Contains("in first"));
  CHECK(notes.notes == std::vector<std::string>{"Net", "  Linear", "failed Linear", "failed Net"});
  CHECK(innermost_call() == nullptr);
  notes.notes.clear();
  Within within;
  within(ones({1}));
  CHECK(notes.notes == std::vector<std::string>{"Within", "left Within"});
}

TEST_CASE("an observer may replace what a layer computes with and returns", "[observer]") {
  struct Replace final : Observer {
    void layer_entered(LayerCall& call) override { call.inputs[0] = zeros_like(call.inputs[0]); }
    void layer_left(LayerCall& call) override { call.output = call.output + 1; }
  };
  Net net;
  const Tensor expected = net(zeros({5, 3})) + 1;
  const auto replacing = nn::attach(net, std::make_shared<Replace>());
  CHECK(same_bits(net(rand({5, 3})), expected));
  CHECK_THROWS_WITH((void)nn::attach(net, nullptr), Contains("[attach] the observer is null"));
}

TEST_CASE("an observer that is attached to a layer sees and edits the attention of this layer alone", "[observer]") {
  struct Silence final : Observer {
    bool edits_attention(const AttentionInfo& info) const override { return info.H == 2; }
    void edit_output(const AttentionInfo& info, Tensor& y) override {
      CHECK(info.call->layer.name() == "ScaledDotProductAttention");
      y = y * 0;
    }
    void attention_computed(const AttentionEvent&) override { ++seen; }
    int seen = 0;
  };
  manual_seed(1);
  nn::MultiHeadAttention one(8, 2, 0.0), other(8, 2, 0.0);
  const Tensor x = randn({1, 3, 8}), plain = other(x, x, x);
  const auto silence = std::make_shared<Silence>();
  auto attachment = nn::attach(one.attention, silence);
  CHECK(same_bits(one(x, x, x), one.w_o(zeros({1, 3, 8}))));
  CHECK(same_bits(other(x, x, x), plain));
  CHECK(silence->seen == 1);
  const auto above = nn::attach(one, silence);  // computes no attention itself
  one(x, x, x);
  CHECK(silence->seen == 2);
  attachment.remove();
  one(x, x, x);
  CHECK(silence->seen == 2);
  CHECK_FALSE(one.attention.hooked());
}

TEST_CASE("hooks come and go while other threads call the layer", "[observer]") {
  const nn::Linear layer(2, 2);
  struct Count final : Observer {
    void layer_left(LayerCall&) override { ++calls; }
    std::atomic<int> calls{0};
  };
  const auto count = std::make_shared<Count>();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      const NoGrad no_grad;
      while (!stop) layer(ones({1, 2}));
    });
  for (int i = 0; i < 200 || count->calls == 0; ++i) {
    const auto attachment = nn::attach(layer, count);
    layer(ones({1, 2}));
  }
  stop = true;
  for (std::thread& t : threads) t.join();
  CHECK(count->calls >= 200);
  CHECK_FALSE(layer.hooked());
}

}  // namespace fit::test::forward_hooks_test
