#include <sstream>

#include "nn/models/small_model.hpp"
#include "plot/tools_table.hpp"
#include "support/catch.hpp"

// Tools that work on layers and their weights, and those that read, write and draw tensors.
namespace fit::test {
namespace {

const char* const not_computed = "which holds weights and is not computed with";
const char* const no_such_type = "save_safetensors()";

// A figure of a tensor is that of the same numbers in float64.
template <class Draw>
void draws_alike(const ToolSubject& s, const Draw& draw) {
  const bool alike = draw(s.stored) == draw(s.stored.to(float64));
  CHECK(alike);
}

std::vector<ToolRow> model_rows() {
  return {
      ToolRow("nn/models/gpt.hpp", "logits and loss",
              [](ToolSubject& s) {
                const nn::GPT exact = s.exact();
                CHECK(near(s.logits(), exact(s.ids), s.tolerance()));
                CHECK(s.loss().item() == Approx(exact.loss(s.ids, s.targets).item()).epsilon(s.tolerance()));
              }),
      ToolRow("nn/layer/layer.hpp", "state_dict, clone and to",
              [](ToolSubject& s) {
                nn::GPT other = s.twin();
                other.load_state_dict(s.model.state_dict());
                CHECK(same_bits(other(s.ids), s.logits()));
                const auto copy = nn::clone(s.model);
                CHECK(same_state(copy->state_dict(), s.model.state_dict()));
                CHECK(copy->str() == s.model.str());
                copy->to(float64);
                CHECK(near((*copy)(s.ids), s.exact()(s.ids), s.form.dtype == bfloat16 ? 0.02 : 1e-5));
              }),
      ToolRow("nn/layer/forward_hooks.hpp", "register_forward_hook",
              [](ToolSubject& s) {
                const Tensor plain = s.logits();
                Tensor seen;
                const auto look = nn::register_forward_hook(
                    *s.model.ln_f, [&](const nn::Layer&, const Tensor& y) { seen = y.detach(); });
                CHECK(same_bits(s.logits(), plain));
                CHECK(seen.shape() == Shape{2, 5, 8});
                const auto before = nn::register_forward_pre_hook(
                    s.model.head, [](const nn::Layer&, const Tensor& x) { return x * 0; });
                CHECK(max(abs(s.logits())).item() == 0);
              }),
      ToolRow("nn/lens/lens.hpp", "run",
              [](ToolSubject& s) {
                const nn::LensRun run = nn::Lens(s.model).run(s.ids, {"h.0.resid_pre"});
                CHECK(same_bits(run.output, s.logits()));
                CHECK(run["h.0.resid_pre"].shape() == Shape{2, 5, 8});
              }),
      ToolRow("nn/layer/per_sample_grad.hpp", "per_sample_grad",
              [](ToolSubject& s) {
                const auto loss = [](const nn::GPT& gpt, const Tensor& ids, const Tensor& targets) {
                  return gpt.loss(ids, targets);
                };
                const std::vector<Tensor> each = nn::per_sample_grad(loss, s.model, s.ids, s.targets);
                if (s.trains()) s.loss().backward();
                const auto parameters = s.model.parameters();
                for (std::size_t i = 0; i < each.size(); ++i)
                  if (each[i].defined()) CHECK(near(mean(each[i].to(float64), 0), parameters[i].grad(), 0.05));
              })
          .refuses({"int8"}, "all leaves it came from are frozen"),
      ToolRow("nn/layers/fine_tune.hpp", "add_lora, freeze and merge_lora",
              [](ToolSubject& s) {
                const Tensor plain = s.logits();
                nn::add_lora(s.model);
                CHECK(near(s.logits(), plain, s.tolerance()));
                for (const auto& [name, x] : nn::lora_state_dict(s.model))
                  CHECK(x.dtype() == (s.form.dtype == float64 || x.rank() == 0 ? float64 : float32));
                nn::freeze(s.model, {"h.*"});
                nn::merge_lora(s.model);
                CHECK(near(s.logits(), plain, s.tolerance()));
              })
          .refuses({"LoRA", "LoRA on bfloat16"}, "is parametrised already"),
      ToolRow("nn/layer/parametrize.hpp", "parametrize",
              [](ToolSubject& s) {
                nn::Parameter& w = s.model.head.weight;
                nn::parametrize(w, nn::LowRank(11, 8, 2));
                CHECK(w.value().dtype() == s.values.dtype());
                CHECK(near(w.value(), s.values, 1e-6));
                nn::remove_parametrization(w);
                CHECK(near(w, s.values, 1e-6));
              })
          .refuses({"LoRA", "LoRA on bfloat16"}, "is parametrised already"),
      ToolRow("nn/layers/quantize.hpp", "quantize_",
              [](ToolSubject& s) {
                const Tensor plain = s.logits();
                nn::quantize_(s.model);
                CHECK(near(s.logits(), plain, 0.05));
              })
          .refuses({"int8"}, "is quantised already")
          .refuses({"LoRA", "LoRA on bfloat16"}, "is parametrised: merge_lora()"),
      ToolRow("nn/weights/weights.hpp", "save_weights as .safetensors",
              [](ToolSubject& s) {
                nn::save_weights(s.folder.file("w.safetensors"), s.model);
                nn::GPT other = s.twin();
                nn::load_weights(other, s.folder.file("w.safetensors"));
                CHECK(same_state(other.state_dict(), s.model.state_dict()));
              }),
      ToolRow("nn/weights/weights.hpp", "save_weights as .npz",
              [](ToolSubject& s) {
                nn::save_weights(s.folder.file("w.npz"), s.model);
                nn::GPT other = s.twin();
                nn::load_weights(other, s.folder.file("w.npz"));
                CHECK(same_state(other.state_dict(), s.model.state_dict()));
              })
          .refuses({"bfloat16", "LoRA on bfloat16"}, no_such_type)
          .refuses({"int8"}, not_computed),
      ToolRow("nn/weights/weights.hpp", "save_weights under gpt2_names()",
              [](ToolSubject& s) {
                nn::save_weights(s.folder.file("w"), s.model, nn::gpt2_names(s.model));
                nn::GPT other = s.twin();
                nn::load_weights(other, s.folder.file("w"), nn::gpt2_names(other));
                CHECK(same_state(other.state_dict(), s.model.state_dict()));
              })
          .refuses({"int8", "LoRA", "LoRA on bfloat16"}, "which the names of the map can't say"),
      ToolRow("nn/models/generate.hpp", "generate",
              [](ToolSubject& s) {
                const auto o = nn::GenerateOptions().max_new_tokens(3).temperature(0);
                const auto rows = nn::generate(s.model, {{1, 2}, {3}}, o);
                REQUIRE(rows.size() == 2);
                for (const nn::Tokens& row : rows) CHECK(row.size() == 3);
                CHECK(rows[0][0] == argmax(s.model(tensor({{1, 2}}))[{0, 1}], -1).item<std::int64_t>());
              }),
      ToolRow("nn/attention/kv_cache.hpp", "KVCache",
              [](ToolSubject& s) {
                const NoGrad no_grad;
                nn::KVCache cache = s.model.make_cache(2);
                std::vector<Tensor> logits;
                for (std::int64_t t = 0; t < 5; ++t) logits.push_back(s.model(slice(s.ids, 1, t, t + 1), cache));
                CHECK(near(cat(logits, 1), s.exact()(s.ids), s.tolerance()));
                cache.select({1, 0, 1});
                CHECK(cache.batch() == 3);
              }),
      ToolRow("nn/layer/init.hpp", "normal_, uniform_ and orthogonal_",
              [](ToolSubject& s) {
                Tensor x = s.stored.clone();
                nn::init::uniform_(x, 1, 2);
                CHECK(min(x).item() >= 1);
                nn::init::normal_(x, 5, 0.1);
                CHECK(mean(x.to(float64)).item() == Approx(5).epsilon(0.05));
                nn::init::orthogonal_(x);
                CHECK(near(matmul(x.transpose().to(float64), x.to(float64)), eye(8, -1, float64), 0.05));
              })
          .refuses({"int8"}, not_computed),
      ToolRow("nn/loss/loss.hpp", "losses",
              [](ToolSubject& s) {
                const Tensor logits = s.logits(), exact = logits.detach().to(float64), target = softmax(exact * 0.5);
                const Tensor narrow = target.to(logits.dtype()), wide = narrow.to(float64);
                const double off = s.tolerance() / 5;
                CHECK(near(nn::cross_entropy(logits, s.targets), nn::cross_entropy(exact, s.targets), off));
                CHECK(near(nn::mse_loss(logits, narrow), nn::mse_loss(exact, wide), off));
                CHECK(near(nn::l1_loss(logits, narrow), nn::l1_loss(exact, wide), off));
                CHECK(near(nn::binary_cross_entropy_with_logits(logits, narrow),
                           nn::binary_cross_entropy_with_logits(exact, wide), off));
              }),
      ToolRow("nn/metrics/metrics.hpp", "accuracy, perplexity, ConfusionMatrix",
              [](ToolSubject& s) {
                const Tensor logits = s.logits().detach(), exact = logits.to(float64);
                CHECK(metrics::accuracy(logits, s.targets) == metrics::accuracy(exact, s.targets));
                CHECK(metrics::top_k_accuracy(logits, s.targets, 3) == metrics::top_k_accuracy(exact, s.targets, 3));
                CHECK(metrics::perplexity(logits, s.targets) ==
                      Approx(metrics::perplexity(exact, s.targets)).epsilon(s.tolerance()));
                metrics::ConfusionMatrix a(11), b(11);
                a.add(logits, s.targets), b.add(exact, s.targets);
                CHECK(equal(a.counts(), b.counts()));
              }),
      ToolRow(
          "explain.hpp", "explain",
          [](ToolSubject& s) {
            const Tensor seen = (s.values[{range(0, 4), range(0, 4)}] > 0);
            CHECK(explain(seen.to(s.values.dtype())) == explain(seen));
            CHECK(explain(AttentionOptions().bias(s.values[{range(0, 4), range(0, 4)}]).causal(), 4, 4).size() > 10);
          }),
      ToolRow("nn/tokenizers/text.hpp", "TextWindows and decode",
              [](ToolSubject& s) {
                const text::CharVocabulary letters("abcdefghijk");
                data::DataLoader loader(text::TextWindows(letters.encode("abcabcabc"), 5), 2);
                for (const data::Batch& b : loader) {
                  const Tensor next = argmax(s.model(b[0]), -1);
                  CHECK(letters.decode(next).size() == static_cast<std::size_t>(next.numel()));
                }
              }),
      ToolRow("nn/tokenizers/tokenizers.hpp", "WordPieces",
              [](ToolSubject& s) {
                const text::WordPieces pieces({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c", "d", "e", "f", "g"});
                const text::Batch batch = pieces.encode(std::vector<std::string>{"a b", "c"});
                CHECK_NOTHROW(pieces.decode(argmax(s.model(batch.ids), -1)));
              }),
      ToolRow("nn/data/readers.hpp", "read_csv and read_idx",
              [](ToolSubject& s) {
                put(s.folder.file("t.csv"), "a,b\n1,7\n2,-3\n");
                const Tensor numbers = data::read_csv(s.folder.file("t.csv")).numbers({}, s.stored.dtype());
                CHECK(numbers.dtype() == s.stored.dtype());
                CHECK(equal(numbers.to(float64), tensor({{1., 7.}, {2., -3.}}).to(float64)));
                put(s.folder.file("i.idx"), std::string("\0\0\x08\x01\0\0\0\x02\x07\x09", 10));
                CHECK(equal(data::read_idx(s.folder.file("i.idx"), s.stored.dtype()).to(float64),
                            tensor({7., 9.}).to(float64)));
              })
          .refuses({"int8"}, not_computed),
      ToolRow("plot.hpp", "heatmap, difference, heads, token_lines",
              [](ToolSubject& s) {
                draws_alike(s, [](const Tensor& x) { return plot::heatmap(x).svg(); });
                draws_alike(s, [](const Tensor& x) { return plot::difference(x, x).svg(); });
                draws_alike(s, [](const Tensor& x) { return plot::heads(abs(x).reshape({1, 11, 8})).svg(); });
                draws_alike(s, [](const Tensor& x) { return plot::token_lines(abs(x)).svg(); });
              })
          .refuses({"int8"}, not_computed),
      ToolRow("plot.hpp", "histogram and embedding_map",
              [](ToolSubject& s) {
                draws_alike(s, [](const Tensor& x) { return plot::histogram(x).svg(); });
                draws_alike(s, [](const Tensor& x) { return plot::embedding_map(x).svg(); });
              })
          .refuses({"int8"}, not_computed),
      ToolRow("plot.hpp", "histogram of a state",
              [](ToolSubject& s) {
                const plot::Figure figure = plot::histogram(s.model.state_dict());
                CHECK(figure.svg().size() > 100);
              })
          .refuses({"int8"}, not_computed),
      ToolRow("plot.hpp", "print_heatmap",
              [](ToolSubject& s) {
                draws_alike(s, [](const Tensor& x) {
                  std::ostringstream out;
                  plot::print_heatmap(out, x, {}, plot::Colors::never);
                  return out.str();
                });
              })
          .refuses({"int8"}, not_computed),
      ToolRow("lesson.hpp", "Lesson",
              [](ToolSubject& s) {
                Lesson lesson(s.folder.file("page.html"), LessonOptions().source("/// # A lesson\nint x;\n"));
                lesson.figure(plot::heatmap(s.values));
                lesson.claim("it is finite", all(isfinite(s.logits())).item<bool>());
                CHECK(lesson.failed() == 0);
              }),
      // ---- of tensors: core's
      ToolRow("tensor/tensor.hpp", "printing",
              [](ToolSubject& s) {
                std::ostringstream out;
                out << s.stored;
                const bool said = out.str().find(name_of(s.stored.dtype())) != std::string::npos;
                CHECK(said == (s.stored.dtype() != float32));
              }),
      ToolRow("io/npz.hpp", "save_npz and save_npy",
              [](ToolSubject& s) {
                save_npz(s.folder.file("x.npz"), {{"x", s.stored}});
                CHECK(same_bits(at(load_npz(s.folder.file("x.npz")), "x"), s.stored));
                save_npy(s.folder.file("x.npy"), s.stored);
                CHECK(same_bits(load_npy(s.folder.file("x.npy")), s.stored));
              })
          .refuses({"bfloat16", "LoRA on bfloat16"}, no_such_type)
          .refuses({"int8"}, not_computed),
      ToolRow("io/safetensors.hpp", "save_safetensors",
              [](ToolSubject& s) {
                save_safetensors(s.folder.file("x"), s.model.state_dict());
                for (const auto& [name, x] : load_safetensors(s.folder.file("x"), keep_bfloat16).tensors)
                  CHECK(same_bits(x, at(s.model.state_dict(), name)));
              }),
      ToolRow("graph/hooks.hpp", "register_hook and register_post_accumulate_grad_hook",
              [](ToolSubject& s) {
                std::vector<GradHook> hooks;
                int called = 0;
                for (const auto& [name, p] : s.model.named_parameters())
                  if (p.requires_grad())
                    hooks.push_back(register_post_accumulate_grad_hook(p, [&](const Tensor&) { ++called; }));
                Tensor hidden = s.model.wte(s.ids);
                if (!hidden.requires_grad()) hidden = hidden.detach().requires_grad_();
                Tensor halved;
                const GradHook hook = register_hook(hidden, [&](const Tensor& g) { return halved = g * 0.5; });
                hidden.retain_grad();
                sum(s.model.head(s.model.h[0](hidden))).backward();
                CHECK(same_bits(hidden.grad(), halved));
                CHECK((called > 0) == s.trains());
              }),
      ToolRow("backward/activation_checkpoint.hpp", "checkpoint",
              [](ToolSubject& s) {
                const auto f = [&](const Tensor& x) { return s.model.h[0](x); };
                Tensor a = s.values[{range(0, 3)}].reshape({1, 3, 8}).clone().requires_grad_(),
                       b = a.detach().requires_grad_();
                const Tensor plain = f(a), again = checkpoint(f, b);
                CHECK(same_bits(plain.detach(), again.detach()));
                sum(plain).backward(), sum(again).backward();
                CHECK(same_bits(a.grad(), b.grad()));
              }),
      ToolRow("backward/functional.hpp", "jacobian and hvp",
              [](ToolSubject& s) {
                const Tensor x = s.values[{range(0, 1)}];
                const auto f = [&](const Tensor& z) { return s.model.head(z).flatten(); };
                CHECK(near(jacobian(f, x).reshape({11, 8}), s.values, s.tolerance()));
                const auto squares = [&](const Tensor& z) { return sum(square(s.model.head(z))); };
                const Tensor w = s.values.to(float64);
                CHECK(near(hvp(squares, x, x), 2 * matmul(matmul(x.to(float64), w.transpose()), w), s.tolerance()));
              }),
      ToolRow("backward/gradcheck.hpp", "check_gradients",
              [](ToolSubject& s) {
                const GradReport r = check_gradients([](const auto& in) { return tanh(in[0]); }, {s.values});
                CHECK(r.ok);
                CHECK(r.entries.size() == 1);
              }),
      ToolRow("graph/graph.hpp", "grad",
              [](ToolSubject& s) {
                const Tensor x = s.values.clone().requires_grad_();
                CHECK(near(grad(sum(square(x)), x), 2 * s.values.to(float64), s.tolerance()));
              }),
      ToolRow("int8/int8.hpp", "quantize",
              [](ToolSubject& s) {
                const Int8Matrix m = quantize(s.values);
                CHECK(m.scale().dtype() == s.values.dtype());
                CHECK(near(dequantize(m), s.values, 0.01));
              }),
  };
}
const RegisterTools models(model_rows);

}  // namespace
}  // namespace fit::test
