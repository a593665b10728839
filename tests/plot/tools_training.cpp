#include "nn/models/small_model.hpp"
#include "plot/tools_table.hpp"
#include "support/catch.hpp"
#include "support/thread_world.hpp"

// Tools that train: optimisers, schedules, loaders, checkpoints, the Trainer; and what looks on.
namespace fit::test {
namespace {

const char* const not_trained = "bfloat16, in which small steps are lost";
const char* const nothing_recorded = "has no graph: all leaves it came from are frozen";
const char* const all_frozen = "all parameters are frozen: there is nothing to train";

std::vector<std::string> names_of_trained(const nn::Layer& model) {
  std::vector<std::string> names;
  for (const auto& [name, p] : model.named_parameters())
    if (p.requires_grad()) names.push_back(name);
  return names;
}

double first_change(const StateDict& before, const nn::Layer& model) {
  double most = 0;
  for (const auto& [name, p] : model.named_parameters())
    most = std::max(most, max_difference(p.detach(), at(before, name)));
  return most;
}

template <class Make>
void step_lowers(ToolSubject& s, const Make& make) {
  auto optimizer = make(s.model.named_parameters());
  const double before = s.loss().item();
  for (int i = 0; i < 5; ++i) {
    optimizer.zero_grad();
    s.loss().backward();
    optimizer.step();
  }
  CHECK(s.loss().item() < before);
}

AttentionRecording recorded(ToolSubject& s) {
  nn::AttentionRecorder recorder(s.model);
  s.logits();
  return recorder.recording();
}

std::vector<ToolRow> training_rows() {
  return {
      ToolRow("nn/optim/optim.hpp", "AdamW",
              [](ToolSubject& s) { step_lowers(s, [](const StateDict& p) { return optim::AdamW(p, 1e-2); }); })
          .refuses({"bfloat16"}, not_trained)
          .refuses({"int8"}, all_frozen),
      ToolRow("nn/optim/optim.hpp", "decay_groups and with_rates",
              [](ToolSubject& s) {
                optim::AdamWOptions o;
                const auto groups = optim::with_rates(optim::decay_groups(s.model, o), {{"h.0.*", 1e-4}});
                optim::AdamW optimizer(groups);
                CHECK(optimizer.groups() >= 2);
              })
          .refuses({"bfloat16"}, not_trained)
          .refuses({"int8"}, all_frozen),
      ToolRow("nn/optim/optim.hpp", "grad_norm, clip_grad_norm_ and clip_grad_value_",
              [](ToolSubject& s) {
                s.loss().backward();
                double squares = 0;
                for (const auto& [name, p] : s.model.named_parameters())
                  if (p.has_grad()) squares += sum(square(p.grad().to(float64))).item();
                CHECK(optim::grad_norm(s.model.named_parameters()) == Approx(std::sqrt(squares)).epsilon(1e-6));
                const double norm = optim::clip_grad_norm_(s.model.named_parameters(), 1e-3);
                CHECK(norm == Approx(std::sqrt(squares)).epsilon(1e-6));
                CHECK(optim::clip_grad_norm_(s.model.named_parameters(), 1) == Approx(1e-3).epsilon(0.01));
                optim::clip_grad_value_(s.model.named_parameters(), 1e-5);
                for (const auto& [name, p] : s.model.named_parameters())
                  if (p.has_grad()) CHECK(max(abs(p.grad())).item() < 1.01e-5);
              })
          .refuses({"int8"}, nothing_recorded),
      ToolRow("nn/optim/optim.hpp", "ExponentialMovingAverage",
              [](ToolSubject& s) {
                optim::ExponentialMovingAverage average(s.model.named_parameters(), 0.5);
                const StateDict before = copied(s.model);
                {
                  const NoGrad no_grad;
                  for (auto& [name, p] : s.model.named_parameters()) Tensor(p).mul_(3);
                }
                average.update();
                const StateDict after = copied(s.model);
                for (const auto& [name, x] : average.state_dict())
                  CHECK(near(x, at(before, name).to(float64) * 2, s.form.dtype == bfloat16 ? 0.01 : 1e-6));
                {
                  const auto scope = average.apply();
                  CHECK(first_change(after, s.model) > 0);
                }
                CHECK(same_state(s.model.state_dict(), after));
              }),
      ToolRow("lbfgs.hpp", "LBFGS",
              [](ToolSubject& s) {
                // Without a line search, gradients from bfloat16 products may lead a step astray.
                optim::LBFGS optimizer(s.model.named_parameters(),
                                       optim::LBFGSOptions().line_search_fn(optim::LineSearch::strong_wolfe));
                const double before = s.loss().item();
                optimizer.step([&] {
                  optimizer.zero_grad();
                  const Tensor loss = s.loss();
                  loss.backward();
                  return loss;
                });
                CHECK(s.loss().item() < before);
              })
          .refuses({"bfloat16"}, not_trained)
          .refuses({"int8"}, all_frozen),
      ToolRow("muon.hpp", "Muon",
              [](ToolSubject& s) {
                optim::Muon optimizer(
                    optim::muon_groups(s.model, optim::MuonOptions().lr(0.01), optim::AdamWOptions().lr(1e-3)));
                const Tensor loss = s.loss();
                loss.backward();
                optimizer.step();
                CHECK(s.loss().item() < loss.item());
              })
          .refuses({"bfloat16"}, not_trained)
          .refuses({"int8"}, all_frozen),
      ToolRow("nn/optim/step_in_backward.hpp", "StepInBackward",
              [](ToolSubject& s) {
                optim::SGD optimizer(s.model.named_parameters(), 0.1);
                const optim::StepInBackward fused(optimizer);
                const Tensor loss = s.loss();
                loss.backward();
                CHECK(s.loss().item() < loss.item());
                for (const auto& [name, p] : s.model.named_parameters()) CHECK_FALSE(p.has_grad());
              })
          .refuses({"bfloat16"}, not_trained)
          .refuses({"int8"}, all_frozen),
      ToolRow("nn/optim/schedule.hpp", "CosineAnnealingLR",
              [](ToolSubject& s) {
                optim::SGD optimizer(s.model.named_parameters(), 0.1);
                optim::CosineAnnealingLR schedule(optimizer, 2);
                schedule.step(), schedule.step();
                CHECK(optimizer.lr() == Approx(0).margin(1e-12));
              })
          .refuses({"bfloat16"}, not_trained)
          .refuses({"int8"}, all_frozen),
      ToolRow("nn/training/checkpoint.hpp", "Checkpoint",
              [](ToolSubject& s) {
                Checkpoint().add("model", s.model).save(s.folder.file("c"));
                nn::GPT other = s.twin();
                Checkpoint().add("model", other).load(s.folder.file("c"));
                CHECK(same_state(other.state_dict(), s.model.state_dict()));
                CHECK(same_bits(other(s.ids), s.logits()));
              }),
      ToolRow("nn/training/trainer.hpp", "Trainer",
              [](ToolSubject& s) {
                const data::TensorDataset data({s.ids, s.targets});
                data::DataLoader loader(data, 2), held_out(data, 2);
                auto o = TrainerOptions()
                             .steps(3)
                             .out(s.folder.file("out"))
                             .display(Display::none)
                             .clip_norm(1)
                             .autocast(s.autocast);
                const auto run = [&](nn::GPT& model) {
                  optim::AdamW optimizer(model.named_parameters(), 1e-2);
                  Trainer trainer(
                      model, optimizer, loader, [&](const data::Batch& b) { return model.loss(b[0], b[1]); }, o);
                  trainer.validation(held_out, 1).listen(plot::training_page());
                  return trainer.run();
                };
                const TrainerResult result = run(s.model);
                CHECK(result.end == TrainerResult::End::done);
                CHECK(result.without_gradient.empty());
                CHECK(std::filesystem::exists(s.folder.file("out/training.html")));
                nn::GPT other = s.twin();
                o.resume(true).steps(4);
                CHECK(run(other).step == 4);
                load_from_checkpoint(s.folder.file("out/previous.safetensors"), other);
              })
          .refuses({"bfloat16"}, not_trained)
          .refuses({"int8"}, all_frozen),
      ToolRow("nn/data/data.hpp", "TensorDataset, DataLoader and samplers",
              [](ToolSubject& s) {
                const Tensor rows = s.stored;
                auto o = data::LoaderOptions()
                             .batch_size(3)
                             .sampler(data::weighted_sampler(std::vector<double>(11, 1), 6))
                             .prefetch(1);
                data::DataLoader drawn(data::TensorDataset({rows}), o);
                for (const data::Batch& b : drawn) CHECK(b[0].dtype() == rows.dtype());
                data::DataLoader all(data::TensorDataset({rows}), 11);
                for (const data::Batch& b : all) CHECK(same_bits(b[0], rows));
                const std::vector<data::Example> examples{{rows[0]}, {slice(rows[1], 0, 0, 3)}};
                o.batch_size(2).sampler(data::bucket_sampler({8, 3})).collate(data::pad_collate({0}));
                data::DataLoader padded(data::ListDataset(examples), o);
                for (const data::Batch& b : padded) {
                  CHECK(b[0].dtype() == rows.dtype());
                  CHECK(sum(b[1].to(int64)).item() == 11);
                }
              })
          .refuses({"int8"}, "which holds weights and is not computed with"),
      ToolRow("nn/training/data_parallel.hpp", "DataParallel",
              [](ToolSubject& s) {
                dist::DataParallel parallel(s.model);
                const double loss = parallel.backward(s.loss());
                CHECK(loss == s.loss().item());
                for (const auto& [name, p] : s.model.named_parameters())
                  if (p.requires_grad()) CHECK(p.has_grad());
              })
          .refuses({"bfloat16"}, "[DataParallel] the parameter wte.weight is bfloat16")
          .refuses({"int8"}, nothing_recorded),
      ToolRow("nn/dist/dist.hpp", "broadcast",
              [](ToolSubject& s) {
                std::vector<StateDict> got(2);
                const StateDict mine = s.model.state_dict();
                on_ranks(2, [&](dist::World& world) {
                  StateDict state = world.rank() == 0 ? mine : StateDict();
                  dist::broadcast(state, world);
                  got[static_cast<std::size_t>(world.rank())] = state;
                });
                CHECK(same_state(got[1], mine));
              }),
      ToolRow("nn/inspect/anomaly.hpp", "DetectAnomaly",
              [](ToolSubject& s) {
                const double plain = s.loss().item();
                const DetectAnomaly detect;
                const Tensor loss = s.loss();
                CHECK(loss.item() == plain);
                if (loss.requires_grad()) loss.backward();
                CHECK_THROWS_WITH(log(s.values * 0), Catch::Contains("[log] its result has an infinity"));
              }),
      ToolRow("nn/inspect/diagnose.hpp", "diagnose",
              [](ToolSubject& s) {
                const nn::Diagnosis d = nn::diagnose(s.model, [&] { return s.loss(); });
                CHECK(d.loss == s.loss().item());
                std::vector<std::string> with;
                for (const auto& p : d.parameters)
                  if (p.gradient_rms) with.push_back(p.name);
                CHECK(with == names_of_trained(s.model));
                for (const nn::Finding& f : d.findings)
                  CHECK(f.text.find("fault of this library") == std::string::npos);
              }),
      ToolRow("nn/inspect/summary.hpp", "summary",
              [](ToolSubject& s) {
                const nn::ModelSummary m = nn::summary(s.model, s.ids);
                CHECK(m.model().parameters == s.model.num_parameters());
                CHECK(m.trainable_parameters == s.model.num_trainable_parameters());
                CHECK(m.model().flops > 0);
                std::int64_t bytes = 0;
                for (const auto& [name, p] : s.model.named_parameters()) bytes += p.numel() * size_of(p.dtype());
                CHECK(m.parameter_bytes == bytes);
                CHECK(m.str().find("GPT") != std::string::npos);
              }),
      ToolRow("graph_to_dot.hpp", "graph_to_dot",
              [](ToolSubject& s) {
                const std::string dot = graph_to_dot(s.loss(), s.model);
                for (const std::string& name : {names_of_trained(s.model).front(), std::string("cross_entropy")})
                  CHECK(dot.find(name) != std::string::npos);
              })
          .refuses({"int8"}, "has no graph"),
      ToolRow("nn/attention/attention_recorder.hpp", "AttentionRecorder",
              [](ToolSubject& s) {
                const AttentionRecording all = recorded(s);
                REQUIRE(all.records().size() == 1);
                CHECK(near(sum(all.records()[0].weights, -1), ones({2, 5}), 0.02));
                CHECK(head_measures(all.records()[0]).size() == 2);
              }),
      ToolRow("nn/attention/attention_recording.hpp", "AttentionRecording",
              [](ToolSubject& s) {
                AttentionRecording all;
                const Tensor weights = softmax(s.values[{range(0, 4), range(0, 4)}]).reshape({1, 4, 4});
                all.add("layer", weights.to(s.values.dtype()));
                CHECK(near(all.records()[0].weights, weights, 0.01));
              }),
      ToolRow("workbench.hpp", "workbench",
              [](ToolSubject& s) { CHECK(plot::workbench(recorded(s)).find("<html") != std::string::npos); }),
      ToolRow("training_page.hpp", "TrainingPage",
              [](ToolSubject& s) {
                plot::TrainingPage page(s.folder.file("t.html"));
                page.add({{"step", 1}, {"loss", s.loss().item()}});
                page.heads(recorded(s));
                page.finish();
                CHECK(std::filesystem::exists(s.folder.file("t_heads.html")));
              }),
  };
}
const RegisterTools training(training_rows);

}  // namespace
}  // namespace fit::test
