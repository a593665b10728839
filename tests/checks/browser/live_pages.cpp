// live_pages DIR: writes the pages that live_page.py opens, and beside each what C++ computes for its texts.
#include <fstream>
#include <nlohmann/json.hpp>

#include "fit/fit.hpp"
#include "fit/tensor/lookup.hpp"

using namespace fit;
using nlohmann::json;

namespace {

const std::string alphabet = "\n abcdefghijklmnopqrstuvwxyz";  // 28 characters
const std::string text = "the model reads a text", second = "a text reads the model";

// Weights that make logits of some size, and norms that are not the identity.
void fill(nn::GPT& gpt) {
  const NoGrad no_grad;
  for (auto& [name, x] : gpt.named_parameters()) {
    Tensor values = randn(x.shape()) * (x.rank() == 2 ? 0.25 : 0.2);
    if (name.find("norm.weight") != std::string::npos || name.find("ln_") != std::string::npos) values = values + 1;
    Tensor(x).copy_(values);
  }
  gpt.eval();
}

json list(const Tensor& logits) { return logits.to_vector<float>(); }

// The weight that each head moves to other keys: the mean over the queries.
json moved(const nn::LensRun& before, const nn::LensRun& after) {
  json all = json::array();
  for (const std::string& name : after.names())
    all.push_back(list(sum(abs(after[name] - before[name]), {0, 2, 3}) / (2.0 * after[name].size(2))));
  return all;
}

// The logits as they are, and with parts off, by nn::Lens.
json expected(const nn::GPT& gpt, const text::CharVocabulary& vocabulary) {
  const NoGrad no_grad;
  const Tensor ids = vocabulary.encode(text).unsqueeze(0), others = vocabulary.encode(second).unsqueeze(0);
  json all{{"ids", ids.to_vector<std::int64_t>()}, {"second", others.to_vector<std::int64_t>()}};
  all["logits"] = list(gpt(ids));
  const nn::Lens lens(gpt);
  const bool mlps = !gpt.options().attention_only();
  std::vector<std::string> parts{"*.attn.z", "*.attn.weights"};
  if (mlps) parts.emplace_back("*.mlp.out");
  const nn::LensRun own = lens.run(ids, parts), other = lens.run(others, parts);
  for (const auto& [how, value] : {std::pair<std::string, nn::LensEdit>("zero", nn::zero()),
                                   {"mean", nn::mean_of(own)},
                                   {"other", nn::from(other)}}) {
    std::vector<std::pair<std::string, nn::Lens>> edits{{"0.1", lens.with("h.0.attn.z", nn::head(1), value)}};
    if (mlps) edits.emplace_back("1.mlp", lens.with("h.1.mlp.out", value));
    for (const auto& [part, edited] : edits) {
      const nn::LensRun run = edited.run(ids, {"*.attn.weights"});
      all["edits"].push_back({{"how", how}, {"part", part}, {"logits", list(run.output)}, {"moved", moved(own, run)}});
    }
  }
  // The numbers that the button "Which matter?" shows.
  const std::int64_t T = ids.size(1);
  const Tensor targets = ids[{range(), range(1, T)}];
  const auto loss = [&] { return nn::cross_entropy(gpt(ids)[{range(), range(0, T - 1)}], targets); };
  all["matter"] = nn::ablate_heads(lens, loss).to_vector<float>();
  all["matter_mlp"] = json::array();
  for (std::int64_t layer = 0; mlps && layer < gpt.options().num_layers(); ++layer) {
    const std::string mlp = "h." + std::to_string(layer) + ".mlp.out";
    const Tensor without = lens.with(mlp, nn::zero()).run(loss, {}).output;
    all["matter_mlp"].push_back(without.item() - loss().item());
  }
  const auto each = nn::CrossEntropyOptions().reduction(nn::Reduction::none);
  all["losses"] = list(nn::cross_entropy(gpt(ids)[0][{range(0, T - 1)}], targets[0], each));
  const nn::HeadScores scores = head_scores(own, ids);
  all["scores"] = {list(scores.previous), list(scores.duplicate), list(scores.induction)};
  return all;
}

nn::GPTOptions small() {
  return nn::GPTOptions().vocab_size(28).context_length(40).num_layers(2).num_heads(4).d_model(32);
}

void kinds(const std::string& folder, const text::CharVocabulary& vocabulary) {
  using P = nn::Positions;
  using A = nn::Activation;
  const auto yarn = nn::RotaryTableOptions().scaling(nn::RotaryScaling::yarn).factor(4).original_length(16);
  const auto part = nn::RotaryTableOptions().base(500).features(4);
  const std::vector<std::pair<std::string, nn::GPTOptions>> all{
      {"learned", small()},
      {"sinusoidal", small().positions(P::sinusoidal).activation(A::relu).norm_place(nn::NormPlace::after)},
      {"rotary_grouped", small()
                             .positions(P::rotary)
                             .num_kv_heads(2)
                             .norm(nn::Norm::rms)
                             .activation(A::swiglu)
                             .tie_weights(false)
                             .bias(false)
                             .qkv_bias(true)
                             .hidden(48)},
      {"rotary_yarn", small()
                          .positions(P::rotary)
                          .rotary(yarn)
                          .rotary_layout(RotaryLayout::interleaved)
                          .norm_place(nn::NormPlace::both)
                          .activation(A::gelu)
                          .norm_eps(1e-3)},
      {"rotary_today", small()
                           .positions(P::rotary)
                           .rotary(part)
                           .norm(nn::Norm::rms)
                           .activation(A::squared_relu)
                           .qk_norm(true)
                           .logit_cap(15)
                           .attention_logit_cap(2)
                           .value_embeddings(true)
                           .head_gates(true)
                           .num_kv_heads(1)},
      {"alibi", small().positions(P::alibi).windows({5, 0}).activation(A::geglu).head_size(12)},
      {"attention_only", small().attention_only(true).norm(nn::Norm::none).tie_weights(false).head_bias(true)},
      {"none", small().positions(P::none).bias(false).window(7).num_heads(2)}};
  for (const auto& [name, options] : all) {
    nn::GPT gpt(options);
    if (name == "alibi") gpt.head.bias = nn::Parameter(zeros({28}));
    fill(gpt);
    const auto o = plot::WorkbenchOptions().title("Kind: " + name).float32(true);
    plot::write_workbench(folder + "/kind_" + name + ".html", gpt, vocabulary, {text, second}, o);
    std::ofstream(folder + "/kind_" + name + ".json") << expected(gpt, vocabulary);
  }
}

// The strings of tests/golden/tokens.py, which are hard to cut.
std::vector<std::string> hard_texts() {
  const StateDict arrays = load_npz(FIT_GOLDEN_DIR "/tokens/tokens.npz");
  const auto bytes = at(arrays, "text").to_vector<std::int64_t>();
  std::vector<std::string> texts;
  std::int64_t begin = 0;
  for (const std::int64_t end : at(arrays, "text_ends").to_vector<std::int64_t>()) {
    texts.emplace_back(bytes.begin() + begin, bytes.begin() + end);
    begin = end;
  }
  return texts;
}

// Models of byte pairs, and the tokens of many texts.
void pairs(const std::string& folder) {
  const std::vector<std::string> texts = hard_texts();
  std::string all;
  for (const std::string& t : texts) all += t + '\n';
  const auto own = text::BytePairVocabulary::train(all, 500);
  const std::string golden = FIT_GOLDEN_DIR "/tokens/";
  const auto gpt2 = text::GPT2Vocabulary::load(golden + "vocab.json", golden + "merges.txt");
  for (const auto& [name, vocabulary] :
       {std::pair<std::string, const text::Vocabulary*>("own", &own), {"gpt2", &gpt2}}) {
    nn::GPT gpt(small().vocab_size(vocabulary->size()).context_length(64));
    fill(gpt);
    const auto o = plot::WorkbenchOptions().title("Byte pairs: " + name);
    plot::write_workbench(folder + "/pairs_" + name + ".html", gpt, *vocabulary, {"Ein Äffchen 🐒 isst, didn't it?"}, o);
    json truth{{"texts", texts}};
    for (const std::string& t : texts) truth["ids"].push_back(vocabulary->encode(t).to_vector<std::int64_t>());
    std::ofstream(folder + "/pairs_" + name + ".json") << truth;
  }
}

// A model that learns to count through the alphabet, at five steps.
void training(const std::string& folder, const text::CharVocabulary& vocabulary) {
  nn::GPT gpt(small().dropout(0.1));
  optim::AdamW optimizer(gpt.named_parameters(), 4e-3);
  std::vector<plot::ModelSnapshot> snapshots;
  const Tensor abc = vocabulary.encode("\nabcdefgh").unsqueeze(0);
  json truth;  // of this text at each snapshot: its loss, and the probability of the best next token
  const auto note = [&](int step) {
    const NoGrad no_grad;
    snapshots.push_back(plot::model_snapshot(gpt, step));
    gpt.eval();
    truth["losses"].push_back(gpt.loss(abc[{range(), range(0, 8)}], abc[{range(), range(1, 9)}]).item());
    truth["next"].push_back(max(softmax(gpt(abc)[{0, -1}], -1)).item());
    gpt.train();
  };
  for (int step = 0; step <= 80; ++step) {
    if (step % 20 == 0) note(step);
    const Tensor starts = randint(0, 26, {16, 1}), ids = 2 + (starts + arange(24)) % 26;
    const Tensor loss = gpt.loss(ids[{range(), range(0, 23)}], ids[{range(), range(1, 24)}]);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  const auto o = plot::WorkbenchOptions().title("</title><script>alert(1)</script>").prefix("\n").snapshots(snapshots);
  plot::write_workbench(folder + "/training.html", gpt, vocabulary, {"abcdefghij", "klmnopqrst uvwxyz"}, o);
  std::ofstream(folder + "/training.json") << truth;
}

// The model of the lesson `induction`, as a GPT: two layers of attention learn to repeat a random segment.
void induction(const std::string& folder) {
  constexpr std::int64_t B = 64, T = 36, shortest = 8, longest = 16;
  const text::CharVocabulary letters("abcdefghijklmnopqrstuvwxyz");
  nn::GPT gpt(nn::GPTOptions()
                  .vocab_size(26)
                  .context_length(T)
                  .num_layers(2)
                  .num_heads(2)
                  .d_model(64)
                  .attention_only(true)
                  .tie_weights(false));
  optim::AdamW optimizer(gpt.named_parameters(), optim::AdamWOptions().lr(2e-3).weight_decay(0.01));
  std::vector<plot::ModelSnapshot> snapshots;
  for (int step = 0; step <= 500; ++step) {
    if (step % 100 == 0) snapshots.push_back(plot::model_snapshot(gpt, step));
    const Tensor segment = randint(0, 26, {B, longest}), length = randint(shortest, longest + 1, {B, 1});
    const Tensor place = arange(T + 1).unsqueeze(0), all = gather(segment, 1, place % length);
    const Tensor next = where(place < length, full({B, T + 1}, -100, int64), all);
    const Tensor loss = nn::cross_entropy(gpt(all[{range(), range(0, T)}]), next[{range(), range(1, T + 1)}]);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  const auto o = plot::WorkbenchOptions().title("Two layers learn to repeat").snapshots(snapshots);
  plot::write_workbench(folder + "/induction.html", gpt, letters, {"plumbercatsplumberca", "qlumbercatsqlumberca"}, o);
}

// A million parameters, float16.
void large(const std::string& folder, const text::CharVocabulary& vocabulary) {
  nn::GPT gpt(nn::GPTOptions().vocab_size(28).context_length(64).num_layers(4).num_heads(4).d_model(144).bias(false));
  const auto o = plot::WorkbenchOptions().title(std::to_string(gpt.num_parameters()) + " parameters");
  std::string long_text;
  while (long_text.size() < 64) long_text += "a line of letters ";
  plot::write_workbench(folder + "/large.html", gpt, vocabulary, {long_text.substr(0, 64)}, o);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  manual_seed(3);
  const text::CharVocabulary vocabulary(alphabet);
  kinds(folder, vocabulary);
  pairs(folder);
  training(folder, vocabulary);
  induction(folder);
  large(folder, vocabulary);
}
