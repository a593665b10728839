#include <map>
#include <set>
#include <sstream>

#include "fit/detail/function_ref.hpp"
#include "fit/fit.hpp"
#include "plot/layer_headers.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

// What measures, prints, draws or saves changes nothing: no version of a tensor and no bit of a training.
namespace fit::test::measuring_test {
namespace {

// Dropout draws numbers, and BatchNorm has buffers.
struct Net final : nn::UnaryLayer {
  Tensor forward(const Tensor& x) const override { return out(dropout(relu(norm(in(x))))); }
  FIT_FIELDS(in, norm, dropout, out)
  nn::Linear in{4, 6};
  nn::BatchNorm norm{6};
  nn::Dropout dropout{0.3};
  nn::Linear out{6, 3};
};

std::string bits(const Tensor& x) {
  const Tensor detached = x.detach();
  return {static_cast<const char*>(detached.raw()), static_cast<std::size_t>(x.numel()) * size_of(x.dtype())};
}

// Two models in the middle of a training. Each tensor has a gradient; some layers are in evaluation, some weights
// frozen.
struct Training {
  Training() {
    manual_seed(11);
    gpt.h[1].eval(), net.dropout.train(), net.out.eval();
    net.in.bias.requires_grad_(false);
    gpt.wpe->weight.requires_grad_(false);
    x = randn({5, 4}), target = randint(0, 3, {5}), ids = randint(0, 7, {2, 5}), next = randint(0, 7, {2, 5});
    variable = randn({3, 3}, float64).requires_grad_();
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      loss().backward();
      optimizer.step();
      average.update();
    }
    sum(square(variable)).backward();
    weights = softmax(randn({2, 4, 4})), logits = randn({5, 3});
  }
  Tensor net_loss() const { return nn::cross_entropy(net(x), target); }
  Tensor loss() const { return net_loss() + gpt.loss(ids, next); }
  StateDict parameters() const {
    StateDict all;
    for (const nn::Layer* layer : {static_cast<const nn::Layer*>(&net), static_cast<const nn::Layer*>(&gpt)})
      for (const auto& [name, p] : layer->named_parameters()) all.emplace_back(layer->name() + '.' + name, p);
    return all;
  }

  // All that must not change, by name.
  std::map<std::string, std::string> facts() const {
    std::map<std::string, std::string> all;
    const auto note = [&](const std::string& name, const Tensor& t) {
      all[name] = std::to_string(t.version()) + ' ' + std::to_string(t.requires_grad()) + ' ' + name_of(t.dtype()) +
                  t.shape().str() + bits(t);
      all[name + " is at"] = std::to_string(reinterpret_cast<std::uintptr_t>(t.impl()));
      if (t.requires_grad()) all[name + " has a gradient"] = std::to_string(t.has_grad());
      if (t.requires_grad() && t.has_grad())
        all[name + ".grad"] = std::to_string(t.grad().version()) + ' ' + bits(t.grad());
    };
    for (const auto& [name, p] : parameters()) note(name, p);
    for (const auto& [name, b] : net.named_buffers()) note("buffer " + name, b);
    for (const auto& [name, s] : optimizer.state_dict())
      all["optimizer." + name] = std::to_string(s.version()) + bits(s);
    for (const auto& [name, s] : average.state_dict()) all["average." + name] = std::to_string(s.version()) + bits(s);
    for (const auto& [name, t] : StateDict{{"x", x},
                                           {"target", target},
                                           {"ids", ids},
                                           {"next", next},
                                           {"variable", variable},
                                           {"weights", weights},
                                           {"logits", logits}})
      note(name, t);
    for (const auto& [name, layer] : net.named_layers()) all["mode of " + name] = std::to_string(layer->training());
    for (const auto& [name, layer] : gpt.named_layers()) all["mode of gpt." + name] = std::to_string(layer->training());
    const Generator& g = default_generator();
    all["generator"] = std::to_string(g.seed()) + ' ' + std::to_string(g.calls());
    all["grad mode"] = std::to_string(grad_enabled());
    all["observers"] = std::to_string(reinterpret_cast<std::uintptr_t>(fit::detail::thread_state.observed));
    all["rate"] = std::to_string(optimizer.lr()) + ' ' + std::to_string(schedule.state_dict().size());
    return all;
  }

  Net net;
  nn::GPT gpt{nn::GPTOptions().vocab_size(7).context_length(6).num_layers(2).num_heads(2).d_model(8)};
  nn::GPT one_layer{nn::GPTOptions().vocab_size(7).context_length(6).num_layers(1).num_heads(2).d_model(8)};
  optim::AdamW optimizer{parameters(), optim::AdamWOptions().lr(1e-2)};
  optim::StepLR schedule{optimizer, 3};
  optim::ExponentialMovingAverage average{parameters(), 0.9};
  Tensor x, target, ids, next, variable, weights, logits;
  Directory folder;
};

struct Measure {
  const char* header;
  const char* name;
  Callable<void(Training&)> work;
};

template <class T>
void print(const T& value) {
  std::ostringstream out;
  out << value;
  CHECK_FALSE(out.str().empty());
}

AttentionRecording recorded(const Training& t) {
  const nn::AttentionRecorder recorder(t.gpt);
  t.gpt(t.ids);
  return recorder.recording();
}

const std::vector<Measure>& measures() {
  static const std::vector<Measure> all = {
      {"tensor/tensor.hpp", "printing",
       [](Training& t) { print(t.net.in.weight), print(t.variable), print(t.net.in.weight.grad()); }},
      {"tensor/tensor.hpp", "reading",
       [](Training& t) {
         const Tensor& w = t.net.in.weight;
         w.to_vector<float>();
         sum(w).item();
         w.to(float64), w.to(float32), w.clone(), w.detach(), w[{0}];
         CHECK(w.data<float>().size() == w.numel());
         CHECK(w.raw() != nullptr);
         CHECK((w.is_leaf() && w.has_grad() && w.version() > 0));
       }},
      {"ops/ops.hpp", "comparisons and statistics",
       [](Training& t) {
         const Tensor& w = t.net.in.weight;
         CHECK((equal(w, w) && allclose(w, w)));
         max(w), argmax(w), mean(w), norm(w), any(isnan(w)), sort(w), quantile(w, 0.5), histogram(w, 5);
       }},
      {"graph/graph.hpp", "grad", [](Training& t) { grad(t.gpt.loss(t.ids, t.next), t.gpt.wte.weight); }},
      {"backward/functional.hpp", "jacobian, hessian, vjp, jvp and hvp",
       [](Training& t) {
         const auto f = [](const Tensor& x) { return sum(exp(x) * x); };
         jacobian(f, t.variable), hessian(f, t.variable), hvp(f, t.variable, ones({3, 3}, float64));
         const auto g = [](const Tensor& x) { return tanh(x); };
         vjp(g, t.variable, ones({3, 3}, float64)), jvp(g, t.variable, ones({3, 3}, float64));
       }},
      // A leaf is moved and restored, as documented; what is none is copied.
      {"backward/gradcheck.hpp", "check_gradients",
       [](Training& t) {
         print(check_gradients([](const auto& in) { return tanh(in[0]); }, {t.variable.detach()}));
         const auto o = GradCheckOptions().order(2);
         CHECK(check_gradients([](const auto& in) { return sum(in[0] * in[0]); }, {t.variable.detach()}, o).ok);
       }},
      {"base/memory.hpp", "memory_stats", [](Training&) { CHECK(memory_stats().live_blocks > 0); }},
      {"tensor/lookup.hpp", "at, under, contains",
       [](Training& t) {
         const StateDict state = t.net.state_dict();
         at(state, "in.weight"), under(state, "in."), contains(state, "x");
       }},
      {"io/npy.hpp", "save_npy", [](Training& t) { save_npy(t.folder.file("x.npy"), t.net.in.weight); }},
      {"io/npz.hpp", "save_npz", [](Training& t) { save_npz(t.folder.file("x.npz"), t.parameters()); }},
      {"io/safetensors.hpp", "save_safetensors",
       [](Training& t) { save_safetensors(t.folder.file("x"), t.gpt.state_dict()); }},
      {"explain.hpp", "explain",
       [](Training& t) {
         explain(AttentionOptions().causal().mask(t.weights[0] > 0.1), 4, 4), explain(t.weights[0] > 0.1);
         explain_padding(t.ids);
       }},
      {"nn/layer/layer.hpp", "names, state, text and clones",
       [](Training& t) {
         t.net.state_dict(), t.net.named_parameters(), t.net.parameters(), t.net.named_buffers(), t.net.named_layers();
         t.net.children(), t.net.num_parameters(), t.net.num_trainable_parameters();
         print(t.net), print(t.gpt);
         t.net.clone(), t.gpt.clone();
       }},
      {"nn/layer/forward_hooks.hpp", "a hook that looks",
       [](Training& t) {
         int seen = 0;
         const auto hook = nn::register_forward_hook(*t.gpt.ln_f, [&](const nn::Layer&, const Tensor&) { ++seen; });
         t.gpt(t.ids);
         CHECK(seen == 1);
       }},
      {"nn/lens/lens.hpp", "runs and questions",
       [](Training& t) {
         const nn::Lens lens(t.gpt);
         const nn::LensRun run = lens.run(t.ids);
         const auto measure = [&] { return t.gpt.loss(t.ids, t.next); };
         lens.names(t.ids), nn::ablate_heads(lens, measure), nn::ablate_heads(lens, measure, nn::Ablation::mean);
         nn::patch_heads(lens, run, measure), nn::patch_sweep(lens, run, measure);
         nn::logit_attribution(t.gpt, t.ids[{range(0, 1)}], 3), nn::head_scores(run, t.ids), nn::attention_rollout(run);
         nn::integrated_gradients(lens, "h.0.resid_pre", measure, {}, 3);
         lens.with("h.0.resid_pre", nn::zero()).run(t.ids);
       }},
      {"nn/attention/attention_recorder.hpp", "AttentionRecorder",
       [](Training& t) { CHECK(recorded(t).records().size() == 2); }},
      {"nn/weights/weights.hpp", "save_weights and maps",
       [](Training& t) {
         nn::save_weights(t.folder.file("w.safetensors"), t.gpt), nn::save_weights(t.folder.file("w.npz"), t.gpt);
         nn::to_theirs(t.gpt.state_dict(), nn::gpt2_names(t.gpt));
       }},
      {"nn/loss/loss.hpp", "losses",
       [](Training& t) {
         nn::cross_entropy(t.logits, t.target), nn::mse_loss(t.logits, t.logits), nn::l1_loss(t.logits, t.logits);
       }},
      {"nn/models/generate.hpp", "greedy generation and sample_token",
       [](Training& t) {
         // Its streams come from a generator of its own.
         Generator own(3);
         auto o = nn::GenerateOptions().max_new_tokens(1).temperature(0).generator(&own);
         nn::generate(t.gpt, {{1, 2, 3}}, o);
         nn::sample_token(t.logits[0], {0, 1}, nn::SamplingOptions().repetition_penalty(2).top_p(0.5), 0.5);
       }},
      {"nn/attention/attention_recording.hpp", "head_measures and recordings",
       [](Training& t) {
         AttentionRecording recording;
         recording.add("layer", t.weights, AttentionRecordOptions().mask(t.weights > 0.1));
         head_measures(recording.records()[0]);
       }},
      {"nn/metrics/metrics.hpp", "accuracy, perplexity, ConfusionMatrix",
       [](Training& t) {
         metrics::accuracy(t.logits, t.target), metrics::top_k_accuracy(t.logits, t.target, 2);
         metrics::perplexity(t.logits, t.target);
         metrics::ConfusionMatrix matrix(3);
         matrix.add(t.logits, t.target);
         plot::confusion(matrix).svg();
       }},
      {"nn/inspect/summary.hpp", "summary",
       [](Training& t) {
         print(nn::summary(t.net, t.x)), print(nn::summary(t.gpt, t.ids));
         nn::summary(t.net, [&] { return t.net_loss(); });
       }},
      {"nn/inspect/diagnose.hpp", "diagnose",
       [](Training& t) {
         print(nn::diagnose(t.net, [&] { return t.net_loss(); }));
         print(nn::diagnose(
             t.gpt, [&] { return t.gpt.loss(t.ids, t.next); }, nn::DiagnoseOptions().trained(t.optimizer.trained())));
       }},
      {"nn/inspect/anomaly.hpp", "DetectAnomaly",
       [](Training& t) {
         const DetectAnomaly detect;
         t.gpt(t.ids);
       }},
      {"graph_to_dot.hpp", "graph_to_dot", [](Training& t) { graph_to_dot(t.gpt.loss(t.ids, t.next), t.gpt); }},
      {"nn/training/checkpoint.hpp", "Checkpoint::save and state_dict",
       [](Training& t) {
         Checkpoint checkpoint;
         checkpoint.add("net", t.net).add("gpt", t.gpt).add("optimizer", t.optimizer).add("average", t.average);
         checkpoint.add("schedule", t.schedule);
         checkpoint.state_dict();
         checkpoint.save(t.folder.file("checkpoint"));
         checkpoint_info(t.folder.file("checkpoint"));
       }},
      {"nn/optim/optim.hpp", "what an optimiser and averages say",
       [](Training& t) {
         t.optimizer.state_dict(), t.optimizer.trained(), t.optimizer.nonfinite_gradient(), t.optimizer.lr();
         t.average.state_dict(), optim::decay_groups(t.gpt, optim::AdamWOptions());
       }},
      {"nn/optim/schedule.hpp", "state_dict", [](Training& t) { t.schedule.state_dict(); }},
      {"plot.hpp", "figures of tensors",
       [](Training& t) {
         const Tensor w = t.net.in.weight;
         plot::heatmap(w).svg(), plot::difference(w, w).svg(), plot::heads(t.weights).svg(), plot::histogram(w).svg();
         plot::token_lines(t.weights[0]).svg(), plot::histogram(t.parameters()).svg(), plot::embedding_map(w).svg();
         std::ostringstream out;
         plot::print_heatmap(out, w);
         plot::heatmap(w.grad()).save(t.folder.file("x.svg"));
       }},
      {"workbench.hpp", "workbench and model_snapshot",
       [](Training& t) {
         plot::write_workbench(t.folder.file("a.html"), recorded(t));
         plot::workbench({{"a", {{{"step", 1}, {"loss", 1}}}, recorded(t)}, {"b", {}, recorded(t)}});
         plot::workbench(t.gpt, text::CharVocabulary("abcdefg"), {"abc"});
         plot::model_snapshot(t.gpt, 3);
       }},
      {"five_minutes_page.hpp", "five_minutes_page",
       [](Training& t) {
         plot::five_minutes_page(t.one_layer, {"a", "b", "c", "d", "e", "f", "g"}, {"a b"});
       }},
      {"training_page.hpp", "TrainingPage",
       [](Training& t) {
         plot::TrainingPage page(t.folder.file("t.html"));
         page.histograms(1, t.parameters());
         page.add({{"step", 1}, {"loss", 2}});
         page.heads(recorded(t));
         page.finish();
       }},
      {"lesson.hpp", "Lesson",
       [](Training& t) {
         Lesson lesson(t.folder.file("lesson.html"), LessonOptions().source("/// # A lesson\nint x;\n"));
         lesson.figure(plot::heatmap(t.net.in.weight));
         lesson.product(t.x, t.net.in.weight.transpose());
         lesson.claim("it holds", true);
       }},
  };
  return all;
}

}  // namespace

TEST_CASE("what measures, prints, draws or saves changes no version and no bit", "[measuring]") {
  Training training;
  for (const Measure& m : measures()) {
    INFO(m.header << ": " << m.name);
    const auto before = training.facts();
    m.work(training);
    const auto after = training.facts();
    for (const auto& [name, fact] : before) {
      INFO(name);
      const auto now = after.find(name);
      const bool same = now != after.end() && now->second == fact;
      CHECK(same);
    }
    CHECK(after.size() == before.size());
  }
}

TEST_CASE("the facts of a training show each change", "[measuring]") {
  const auto changes = [](const char* fact, FunctionRef<void(Training&)> f) {
    Training training;
    const auto before = training.facts();
    f(training);
    INFO(fact);
    CHECK((training.facts() != before));
    const auto after = training.facts();
    const bool changed = after.count(fact) == 0 || after.at(fact) != before.at(fact);
    CHECK(changed);
  };
  changes("Net.in.weight", [](Training& t) {
    const NoGrad no_grad;
    t.net.in.weight.mul_(1);
  });
  changes("Net.in.weight.grad", [](Training& t) {
    const NoGrad no_grad;
    t.net.in.weight.grad().mul_(1);
  });
  changes("GPT.wte.weight.grad", [](Training& t) { t.loss().backward(); });
  changes("GPT.wte.weight has a gradient", [](Training& t) { t.optimizer.zero_grad(); });
  changes("buffer norm.running_mean", [](Training& t) { t.net(t.x); });
  changes("generator", [](Training&) { rand({1}); });
  changes("mode of dropout", [](Training& t) { t.net.eval(); });
  changes("GPT.wpe.weight", [](Training& t) { t.gpt.unfreeze(); });
  changes("average.Net.in.weight", [](Training& t) { t.average.update(); });
  changes("optimizer.Net.in.weight.exp_avg", [](Training& t) { t.optimizer.step(); });
}

TEST_CASE("every public header that measures has a row", "[measuring]") {
  // These train, compute, read or hold values, or make what is measured.
  std::set<std::string> have = {"backward/activation_checkpoint.hpp",
                                "tensor/dlpack.hpp",
                                "nn/training/tensorboard.hpp",
                                "nn/weights/gguf.hpp",
                                "nn/hub/hub.hpp",
                                "nn/chat/chat_template.hpp",
                                "nn/tokenizer/tokenizer.hpp",
                                "attention/attention.hpp",
                                "graph/autocast.hpp",
                                "matmul/reproducible.hpp",
                                "base/bfloat16.hpp",
                                "matmul/blas.hpp",
                                "core.hpp",
                                "base/error.hpp",
                                "graph/hooks.hpp",
                                "tensor/index.hpp",
                                "int8/int8.hpp",
                                "attention/linear_attention.hpp",
                                "graph/named_values.hpp",
                                "graph/observer.hpp",
                                "base/option.hpp",
                                "threads/parallel.hpp",
                                "tensor/random.hpp",
                                "tensor/scalar.hpp",
                                "tensor/span.hpp",
                                "ops/recurrent.hpp",
                                "ops/windows.hpp",
                                "attention/score/score.hpp",
                                "base/shape.hpp",
                                "tensor/state_dict.hpp",
                                "base/version.hpp",
                                "tensor/xtensor.hpp",
                                "nn/data/data.hpp",
                                "nn/training/data_parallel.hpp",
                                "nn/dist/dist.hpp",
                                "nn/distributions/distributions.hpp",
                                "fit.hpp",
                                "nn/training/interrupt.hpp",
                                "nn.hpp",
                                "nn/optim/adam.hpp",
                                "nn/optim/all.hpp",
                                "nn/optim/formula.hpp",
                                "nn/optim/muon.hpp",
                                "nn/optim/optimizer.hpp",
                                "nn/optim/sgd.hpp",
                                "nn/data/readers.hpp",
                                "nn/optim/step_in_backward.hpp",
                                "nn/tokenizers/text.hpp",
                                "nn/tokenizers/tokenizers.hpp",
                                "nn/training/early_stopping.hpp",
                                "nn/training/metrics_log.hpp",
                                "nn/training/progress_bar.hpp",
                                "nn/training/trainer.hpp",
                                "nn/training/training_listener.hpp",
                                "nn/data/transforms.hpp",
                                "nn/layers/fine_tune.hpp",
                                "nn/models/gpt.hpp",
                                "nn/layer/init.hpp",
                                "nn/attention/kv_cache.hpp",
                                "nn/layer/parametrize.hpp",
                                "nn/layer/per_sample_grad.hpp",
                                "nn/layers/quantize.hpp"};
  have.insert(layer_headers.begin(), layer_headers.end());
  std::set<std::string> there;
  for (const Measure& m : measures()) have.insert(m.header);
  const std::filesystem::path root = std::filesystem::path(FIT_NN_HEADERS) / "../../../..";
  for (const char* const layer : {"core", "nn", "nn/plot"}) {
    const std::filesystem::path headers = root / layer / "include/fit";
    for (const auto& entry : std::filesystem::recursive_directory_iterator(headers)) {
      const std::string name = entry.path().lexically_relative(headers).string();
      const bool counts = name.rfind("detail/", 0) != 0 && name.rfind("nn/optim/more/", 0) != 0;
      if (entry.path().extension() == ".hpp" && counts) there.insert(name);
    }
  }
  CHECK(there == have);
}

}  // namespace fit::test::measuring_test
