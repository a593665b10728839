#include "plot/tools_table.hpp"

#include <filesystem>
#include <set>

#include "plot/layer_headers.hpp"
#include "support/catch.hpp"

// Every tool with weights of every type, under Autocast and without: it works, or an Error says clearly why not.
namespace fit::test {
namespace {

using Family = std::vector<ToolRow> (*)();
std::vector<Family>& families() {
  static std::vector<Family> all;
  return all;
}

nn::GPT gpt_of(const WeightForm& form) {
  const auto o =
      nn::GPTOptions().vocab_size(11).context_length(8).num_layers(1).num_heads(2).d_model(8).tie_weights(false);
  nn::GPT model(o);
  {
    const NoGrad no_grad;  // larger than a GPT's first weights, so that errors show
    for (auto& [name, p] : model.named_parameters()) Tensor(p).copy_(Tensor(p) + randn(p.shape()) * 0.1);
  }
  model.to(form.dtype);
  if (form.int8) nn::quantize_(model);
  if (form.lora) {
    nn::add_lora(model);
    for (auto& [name, x] : nn::lora_state_dict(model))
      if (name.find("lora_B") != std::string::npos) nn::init::normal_(x, 0, 0.1);
  }
  return model;
}

// The headers of layers have their rows in the table of layers. These hold no weights, or are tested elsewhere.
const std::set<std::string> others = {
    "fit.hpp",
    "nn.hpp",
    "nn/training/training_listener.hpp",  // trainer_test, trainer_page_test
    "nn/training/interrupt.hpp",
    "nn/training/early_stopping.hpp",
    "nn/training/metrics_log.hpp",
    "nn/training/progress_bar.hpp",
    "nn/distributions/distributions.hpp",
    "five_minutes_page.hpp",        // five_minutes_page_test
    "nn/training/tensorboard.hpp",  // tensorboard_test
    "nn/weights/gguf.hpp",          // gguf_test
    "nn/hub/hub.hpp",               // hub_test
    "nn/chat/chat_template.hpp",    // chat_template_test
    "nn/tokenizer/tokenizer.hpp",   // tokenizer_files_test
    "nn/optim/optimizer.hpp",       // optim.hpp has all of them: fused_step_test, optim_test
    "nn/optim/formula.hpp",
    "nn/optim/adam.hpp",
    "nn/optim/all.hpp",
    "nn/optim/muon.hpp",
    "nn/optim/sgd.hpp",
    "nn/data/transforms.hpp"};

}  // namespace

RegisterTools::RegisterTools(Family family) { families().push_back(family); }

ToolSubject::ToolSubject(const WeightForm& f, DType a) : form(f), autocast(a), model((manual_seed(5), gpt_of(f))) {
  Generator g(3);
  ids = randint(0, 11, {2, 5}, g), targets = randint(0, 11, {2, 5}, g);
  stored = model.head.weight.original().detach();
  values = model.head.weight.value().detach();
}

nn::GPT ToolSubject::twin() const {
  manual_seed(6);
  return gpt_of(form);
}

nn::GPT ToolSubject::exact() const {
  const Autocast off(float32);
  nn::GPT wide = std::move(*nn::clone(model));
  for (const auto& [name, linear] : wide.named_layers<nn::Linear>())
    if (linear->weight.parametrized()) remove_parametrization(linear->weight);
  for (const auto& [name, table] : wide.named_layers<nn::Embedding>())
    if (table->weight.parametrized()) remove_parametrization(table->weight);
  wide.unfreeze();
  wide.to(float64);
  return wide;
}

double ToolSubject::tolerance() const {
  if (form.dtype == bfloat16 || (autocast == bfloat16 && form.dtype == float32)) return 0.05;
  return form.dtype == float64 ? 1e-12 : 1e-5;
}

TEST_CASE("every tool works with weights of every type, or says why not", "[tools]") {
  for (const Family family : families())
    for (const ToolRow& row : family())
      for (const WeightForm& form : weight_forms)
        for (const DType autocast : {float32, bfloat16}) {
          INFO(row.header << ": " << row.tool << " with " << form.name
                          << (autocast == bfloat16 ? " under Autocast" : ""));
          ToolSubject subject(form, autocast);
          const Autocast guard(autocast);
          const auto refused = row.refused.find(form.name);
          if (refused == row.refused.end())
            CHECK_NOTHROW(row.work(subject));
          else
            CHECK_THROWS_WITH(row.work(subject), Catch::Contains(refused->second));
        }
}

TEST_CASE("every public header of nn and plot has a row in the table of tools or of layers", "[tools]") {
  std::set<std::string> have = others, there;
  have.insert(layer_headers.begin(), layer_headers.end());
  for (const Family family : families())
    for (const ToolRow& row : family()) have.insert(row.header);
  namespace fs = std::filesystem;
  for (const fs::path& folder : {fs::path(FIT_NN_HEADERS).parent_path(), fs::path(FIT_PLOT_HEADERS)})
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.path().extension() == ".hpp" && entry.path().parent_path().filename() != "more")
        there.insert(entry.path().lexically_relative(folder).string());
  for (const std::string& header : there) {
    INFO(header);
    CHECK(have.count(header) == 1);
  }
}

}  // namespace fit::test
