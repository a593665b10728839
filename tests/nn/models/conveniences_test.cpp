#include <sstream>

#include "fit/nn/data/readers.hpp"
#include "fit/nn/layers/containers.hpp"
#include "fit/nn/layers/norm.hpp"
#include "fit/nn/metrics/metrics.hpp"
#include "fit/nn/models/generate.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/optim/adam.hpp"
#include "fit/nn/optim/optim.hpp"
#include "fit/nn/tokenizers/text.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

// Small things that others' libraries have, and that are asked for.
namespace fit::test::conveniences_test {
namespace {

using Catch::Matchers::Contains;

nn::GPT gpt_of(std::uint64_t seed, std::int64_t vocab_size = 11) {
  manual_seed(seed);
  nn::GPT gpt(nn::GPTOptions().vocab_size(vocab_size).context_length(32).num_layers(1).num_heads(2).d_model(8));
  for (const Tensor& p : gpt.parameters()) Tensor(p).detach().mul_(8);
  gpt.eval();
  return gpt;
}

}  // namespace

TEST_CASE("generate() tells each token as it comes, with the draws of a call that tells none", "[conveniences]") {
  const nn::GPT gpt = gpt_of(1), assistant = gpt_of(1);
  const std::vector<nn::Tokens> prompts = {{1, 2, 3}, {4, 5}};
  for (const bool assisted : {false, true}) {
    Generator plain(7), told(7);
    const auto o =
        nn::GenerateOptions().max_new_tokens(9).stop_tokens({6}).assistant_model(assisted ? &assistant : nullptr);
    const auto texts = nn::generate(gpt, prompts, nn::GenerateOptions(o).generator(&plain));
    std::vector<nn::Tokens> heard(2);
    const auto hear = [&](std::int64_t row, std::int64_t token) {
      heard.at(static_cast<std::size_t>(row)).push_back(token);
    };
    CHECK(nn::generate(gpt, prompts, nn::GenerateOptions(o).generator(&told).on_token(hear)) == texts);
    CHECK(heard == texts);
  }
}

TEST_CASE("generate() counts what an assistant proposed, and what the model wrote as well", "[conveniences]") {
  const nn::GPT gpt = gpt_of(1), same = gpt_of(1), other = gpt_of(2);
  const auto counted = [&](const nn::GPT& assistant) {
    nn::Proposals proposals;
    Generator generator(3);
    nn::generate(gpt, {{1, 2, 3}},
                 nn::GenerateOptions()
                     .max_new_tokens(20)
                     .assistant_model(&assistant)
                     .num_assistant_tokens(3)
                     .proposals(&proposals)
                     .generator(&generator));
    return proposals;
  };
  const nn::Proposals all = counted(same), some = counted(other);
  CHECK(all.made == 15);  // 5 times 3, and 1 token of the model after each
  CHECK(all.accepted == 15);
  CHECK(some.made > all.made);
  CHECK(some.accepted < some.made);
  CHECK(some.made <= 22);    // each time one more than were right
  Generator one(3), two(3);  // the same text without the mode, as no two tokens are equally likely here
  const auto o = nn::GenerateOptions().max_new_tokens(20).assistant_model(&other);
  CHECK(nn::generate(gpt, {{1, 2, 3}}, nn::GenerateOptions(o).reproducible(false).generator(&one)) ==
        nn::generate(gpt, {{1, 2, 3}}, nn::GenerateOptions(o).generator(&two)));
}

TEST_CASE("a stream of tokens gives whole characters", "[conveniences]") {
  const std::string text = "a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80z\xC3";  // the last one is not complete
  const auto bytes = text::BytePairVocabulary::train("", 256);            // a token for each byte
  text::Stream stream(bytes);
  std::vector<std::string> parts;
  for (const std::int64_t id : bytes.encode(text).to_vector<std::int64_t>())
    if (const std::string part = stream.add(id); !part.empty()) parts.push_back(part);
  CHECK(parts == std::vector<std::string>{"a", "\xC3\xA4", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "z"});
  CHECK(stream.waiting() == "\xC3");
}

TEST_CASE("a table may have values that are missing", "[conveniences]") {
  const Directory folder;
  const std::string path = put(folder.file("t.csv"), "a,b\n1,NA\n,2.5\n");
  const data::Csv csv = data::read_csv(path, data::CsvOptions().missing({"", "NA"}));
  const Tensor x = csv.numbers();
  CHECK(values(isnan(x).to(int64)) == std::vector<double>{0, 1, 1, 0});
  CHECK(x[{1, 1}].item() == 2.5);
  CHECK_THROWS_WITH(csv.numbers({}, int64), Contains("column b: expected a whole number, found 'NA'"));
  CHECK_THROWS_WITH(data::read_csv(path).numbers(), Contains("found 'NA'"));
}

TEST_CASE("a ConfusionMatrix prints its counts", "[conveniences]") {
  metrics::ConfusionMatrix m(2);
  m.add(tensor({0, 1, 1, 1}), tensor({0, 0, 1, 1}));
  CHECK(m.str({"cat", "dog"}) ==
        "true \\ predicted  cat  dog\n"
        "             cat    1    1\n"
        "             dog    0    2\n");
  std::ostringstream out;
  out << m;
  CHECK(out.str() == m.str());
  CHECK_THROWS_WITH(m.str({"cat"}), Contains("1 names for 2 classes"));
}

TEST_CASE("layers give themselves, their constant parts, and the parameters of several", "[conveniences]") {
  nn::GPT gpt = gpt_of(1);
  CHECK(&gpt.to(float64) == &gpt);
  CHECK(gpt.parameter("ln_f.weight").value().dtype() == float64);
  const nn::GPT& constant = gpt;
  CHECK(&constant.layer("h.0") == &gpt.layer("h.0"));
  CHECK(&constant.layer<nn::GPTBlock>("h.0") == &gpt.layer<nn::GPTBlock>("h.0"));
  CHECK(&constant.parameter("ln_f.weight") == &gpt.parameter("ln_f.weight"));
  CHECK_THROWS_WITH(constant.layer<nn::Linear>("h.0"), Contains("not of the class wanted"));

  const StateDict some = gpt.named_parameters({"ln_f", "h.0.mlp"});
  std::vector<std::string> names;
  for (const auto& [name, parameter] : some) names.push_back(name);
  CHECK(names == std::vector<std::string>{"h.0.mlp.fc.weight", "h.0.mlp.fc.bias", "h.0.mlp.proj.weight",
                                          "h.0.mlp.proj.bias", "ln_f.weight", "ln_f.bias"});
  CHECK_THROWS_WITH(gpt.named_parameters({"ln"}), Contains("GPT has no parameter under 'ln'"));
  optim::AdamW optimizer(std::vector<optim::Group<optim::AdamWOptions>>{
      {some, optim::AdamWOptions().lr(1e-3)}, {gpt.named_parameters({"wte"}), optim::AdamWOptions().lr(1e-4)}});
  CHECK(optimizer.groups() == 2);
}

TEST_CASE("PyTorch's count of batches is read over beside a BatchNorm, and only there", "[conveniences]") {
  nn::Sequential net(nn::BatchNorm(3));
  StateDict state;
  for (const auto& [name, value] : net.state_dict()) state.emplace_back(name, value.clone());
  state.emplace_back("0.num_batches_tracked", full({}, 5, int64));
  CHECK_NOTHROW(net.load_state_dict(state));
  state.emplace_back("1.num_batches_tracked", full({}, 5, int64));
  CHECK_THROWS_WITH(net.load_state_dict(state), Contains("unexpected: 1.num_batches_tracked"));
}

}  // namespace fit::test::conveniences_test
