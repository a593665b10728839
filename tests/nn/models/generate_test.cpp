#include "fit/nn/models/generate.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "fit/nn/models/gpt.hpp"
#include "fit/nn/models/transformer.hpp"
#include "fit/ops/ops.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace fit::test::generate_test {
namespace {

using nn::Tokens;

nn::GPT lively(std::int64_t context = 12) {
  const auto o = nn::GPTOptions().vocab_size(9).context_length(context).num_layers(2).num_heads(2).d_model(8);
  manual_seed(4);
  nn::GPT gpt(o);
  const NoGrad no_grad;
  for (Tensor p : gpt.parameters()) p.add_(randn(p.shape()) * 0.4);
  return gpt;
}

// How often each token comes, for evenly spread numbers.
std::map<std::int64_t, double> shares(const Tensor& logits, const nn::SamplingOptions& o, const Tokens& before = {}) {
  std::map<std::int64_t, double> found;
  for (int i = 0; i < 1000; ++i) found[nn::sample_token(logits, before, o, (i + 0.5) / 1000)] += 0.001;
  return found;
}

// A model over three tokens whose probabilities hang on the last one alone: rows of log probabilities.
nn::BeamStep chain(const std::vector<std::vector<double>>& probabilities) {
  return [probabilities](const Tokens& tokens, const std::vector<std::int64_t>&) {
    std::vector<double> logits;
    for (const std::int64_t t : tokens)
      for (const double p : probabilities[static_cast<std::size_t>(t)]) logits.push_back(std::log(p));
    return tensor(logits, {static_cast<std::int64_t>(tokens.size()), 3});
  };
}

}  // namespace

TEST_CASE("a token is drawn with its probability", "[generate]") {
  const Tensor logits = log(tensor({0.1, 0.2, 0.3, 0.4}));
  nn::SamplingOptions o;
  auto found = shares(logits, o);
  for (int i = 0; i < 4; ++i) CHECK(found[i] == Approx(0.1 * (i + 1)).margin(0.0021));
  o.temperature(0.5);  // squares them
  found = shares(logits, o);
  for (int i = 0; i < 4; ++i) CHECK(found[i] == Approx((i + 1) * (i + 1) / 30.0).margin(0.0021));
  o.temperature(0);
  CHECK(shares(logits, o).size() == 1);
  CHECK(nn::sample_token(logits, {}, o, 0.99) == 3);
  CHECK(nn::sample_token(tensor({1., 2., 2.}), {}, o, 0.99) == 1);
}

TEST_CASE("top k and top p leave the likeliest", "[generate]") {
  const Tensor logits = log(tensor({0.1, 0.2, 0.3, 0.4}));
  auto o = nn::SamplingOptions().top_k(2);
  auto found = shares(logits, o);
  CHECK(found.size() == 2);
  CHECK(found[2] == Approx(3 / 7.0).margin(0.0021));
  o.top_k(100);
  CHECK(shares(logits, o).size() == 4);
  o.top_k(0).top_p(0.65);  // 0.4 and 0.3
  found = shares(logits, o);
  CHECK(found.size() == 2);
  CHECK(found[3] == Approx(4 / 7.0).margin(0.0021));
  o.top_p(1).min_p(0.7);  // of 0.4
  found = shares(logits, o);
  CHECK(found.size() == 2);
  CHECK(found[2] == Approx(3 / 7.0).margin(0.0021));
  CHECK(shares(logits, o.min_p(1)).size() == 1);
  o.min_p(0).top_p(1e-9);
  CHECK(shares(logits, o).size() == 1);
  o.top_p(0.5).top_k(3);  // of these three, 4/9 and 3/9 make a half
  CHECK(shares(logits, o).size() == 2);
}

TEST_CASE("top p keeps the fewest tokens that reach it, also where their sum is exactly p", "[generate]") {
  CHECK(nn::sample_token(log(tensor({.3, .1, .1, .5})), {}, nn::SamplingOptions().top_p(0.8), 0.999999) == 0);
  // Every way to divide 1 into parts of 1 / whole, of at least that: by counts, so the sums are exact.
  for (const int whole : {4, 8, 10, 12, 16}) {
    std::vector<std::vector<int>> all;
    std::vector<int> parts;
    const Callable<void(int, int)> divide = [&](int left, int largest) {
      if (left == 0) return all.push_back(parts);
      for (int part = std::min(left, largest); part > 0; --part) {
        parts.push_back(part);
        divide(left - part, part);
        parts.pop_back();
      }
    };
    divide(whole, whole);
    for (const std::vector<int>& counts : all)
      for (const DType dtype : {float32, float64})
        for (const double temperature : {1., 0.7}) {
          const Tensor probabilities = tensor(std::vector<double>(counts.begin(), counts.end())).to(dtype) / whole;
          const Tensor logits = log(probabilities) * temperature;
          for (int twice = 1; twice < 2 * whole; ++twice) {  // also between the sums
            const auto o = nn::SamplingOptions().top_p(twice / (2. * whole)).temperature(temperature);
            int kept = 0, sum = 0;
            while (2 * sum < twice) sum += counts[static_cast<std::size_t>(kept++)];
            INFO(probabilities << o.top_p());
            REQUIRE(nn::sample_token(logits, {}, o, 0.9999999) == kept - 1);
          }
        }
  }
  // A sum that is below p by more than rounding does not reach it.
  const Tensor logits = log(tensor({.3, .1, .1, .5}));
  CHECK(nn::sample_token(logits, {}, nn::SamplingOptions().top_p(0.8 + 1e-5), 0.999999) == 1);
  CHECK(nn::sample_token(logits.to(float64), {}, nn::SamplingOptions().top_p(0.8 + 1e-6), 0.999999) == 1);
  CHECK(nn::sample_token(zeros({1000}), {}, nn::SamplingOptions().top_p(0.25), 0.99999) == 249);
  CHECK(nn::sample_token(full({1000}, 3e8), {}, nn::SamplingOptions().top_p(0.25), 0.99999) == 249);
}

TEST_CASE("what was said is penalised once, whatever its sign", "[generate]") {
  const auto o = nn::SamplingOptions().repetition_penalty(2);
  auto found = shares(tensor({2., -1., 1., -2.}), o, {0, 0, 1});  // becomes 1, -2, 1, -2
  CHECK(found[0] == Approx(found[2]).margin(0.0021));
  CHECK(found[1] == Approx(found[3]).margin(0.0021));
  CHECK(found[0] == Approx(std::exp(3.0) * found[1]).epsilon(0.05));
}

TEST_CASE("greedy generation is the argmax of the full model, row by row", "[generate]") {
  const nn::GPT gpt = lively();
  auto o = nn::GenerateOptions().max_new_tokens(6).temperature(0);
  const std::vector<Tokens> prompts = {{1}, {2, 3, 4}, {5, 6, 7, 8, 0, 1}};
  const auto together = nn::generate(gpt, prompts, o);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    Tokens all = prompts[i], expected;
    for (int n = 0; n < 6; ++n) {
      const Tensor logits = gpt(tensor(all, {1, static_cast<std::int64_t>(all.size())}));
      expected.push_back(argmax(logits[{0, -1}]).item<std::int64_t>());
      all.push_back(expected.back());
    }
    CHECK(together[i] == expected);
  }
  // A row ends with its first stop token, and the others go on.
  o.stop_tokens({together[0][2]});
  const auto stopped = nn::generate(gpt, prompts, o);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    Tokens expected;
    for (const std::int64_t token : together[i]) {
      expected.push_back(token);
      if (token == o.stop_tokens()[0]) break;
    }
    CHECK(stopped[i] == expected);
  }
  CHECK(stopped[0].size() <= 3);
}

TEST_CASE("generation past the context sees the last tokens, row by row", "[generate]") {
  const auto options =
      nn::GPTOptions().vocab_size(9).context_length(12).num_layers(2).num_heads(2).d_model(16).tie_weights(false);
  manual_seed(4);
  nn::GPT gpt(options);
  {
    const NoGrad no_grad;  // what comes next hangs on all that is seen
    for (Tensor p : gpt.parameters())
      if (p.rank() == 2) p.copy_(randn(p.shape()) * 0.6);
  }
  Generator random(7), same(7), again(7);
  auto o =
      nn::GenerateOptions().temperature(1).max_new_tokens(20).past_context(nn::PastContext::slide).generator(&random);
  const std::vector<Tokens> prompts = {{1, 2}, {3, 4, 5, 6, 7, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8}, {2, 0, 1, 5, 8}};
  const auto together = nn::generate(gpt, prompts, o);
  std::vector<Tokens> all = prompts;  // by the whole model, token for token
  std::map<std::int64_t, int> found;
  std::vector<Generator> draws;  // each row draws from its own
  for (std::size_t i = 0; i < 3; ++i)
    draws.emplace_back(static_cast<std::uint64_t>(randint(0, std::int64_t{1} << 62, {1}, same).item<std::int64_t>()));
  for (std::size_t step = 0; step < 20; ++step) {
    for (std::size_t i = 0; i < 3; ++i) {
      const auto seen = static_cast<std::ptrdiff_t>(std::min<std::size_t>(all[i].size(), 12));
      const NoGrad no_grad;
      const Tensor logits = gpt(tensor(Tokens(all[i].end() - seen, all[i].end()), {1, seen}))[{0, -1}];
      all[i].push_back(nn::sample_token(logits, all[i], o, rand({1}, float64, draws[i]).item()));
      CHECK(together[i][step] == all[i].back());
      ++found[all[i].back()];
    }
  }
  CHECK(found.size() > 5);                            // the text is no repetition
  o.stop_tokens({together[1][3]}).generator(&again);  // the longest row may end before the others
  const auto stopped = nn::generate(gpt, prompts, o);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto end = std::find(together[i].begin(), together[i].end(), o.stop_tokens()[0]);
    CHECK(stopped[i] == Tokens(together[i].begin(), end == together[i].end() ? end : end + 1));
  }
}

TEST_CASE("generation penalises what stands in the prompt and what it has written", "[generate]") {
  const nn::GPT gpt = lively();
  auto o = nn::GenerateOptions().max_new_tokens(4).temperature(0).repetition_penalty(1.5);
  const std::vector<Tokens> prompts = {{1, 2}, {3, 4, 5, 6, 0}};
  const auto found = nn::generate(gpt, prompts, o);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    Tokens all = prompts[i];
    for (const std::int64_t token : found[i]) {
      const Tensor logits = gpt(tensor(all, {1, static_cast<std::int64_t>(all.size())}))[{0, -1}];
      CHECK(token == nn::sample_token(logits, all, o, 0.5));
      all.push_back(token);
    }
  }
  o.repetition_penalty(1);
  CHECK(nn::generate(gpt, prompts, o) != found);
}

TEST_CASE("a function of the caller chooses which tokens may follow", "[generate]") {
  const nn::GPT gpt = lively();
  auto o = nn::GenerateOptions().max_new_tokens(7).temperature(0);
  const auto ends = [&](const Tokens& prompt) { return nn::generate(gpt, {prompt}, o)[0]; };
  o.logits_processor([&](const Tensor& logits, const Tokens& sequence) {  // no token may stand twice
    Tensor left = logits.clone();
    for (const std::int64_t token : sequence) left[{token}] = -INFINITY;
    return left;
  });
  Tokens once = ends({1, 2});
  std::sort(once.begin(), once.end());
  CHECK(once == Tokens{0, 3, 4, 5, 6, 7, 8});
  CHECK_THROWS_WITH(nn::generate(gpt, {{0, 1, 2}}, o), Catch::Contains("no token is possible"));
  o.logits_processor([](const Tensor& logits, const Tokens&) { return logits[0]; });
  CHECK_THROWS_WITH(ends({1}), Catch::Contains("the result of logits_processor has shape []: it must be [9]"));
}

TEST_CASE("a seed gives the same sample again", "[generate]") {
  const nn::GPT gpt = lively();
  auto o = nn::GenerateOptions().max_new_tokens(8);
  const auto sample = [&](std::uint64_t seed) {
    Generator g(seed);
    o.generator(&g);
    return nn::generate(gpt, {{1, 2}, {3}}, o);
  };
  CHECK(sample(1) == sample(1));
  CHECK(sample(1) != sample(2));
}

TEST_CASE("generation's errors", "[generate]") {
  using Catch::Contains;
  nn::GPT gpt = lively();
  auto o = nn::GenerateOptions().max_new_tokens(10);
  CHECK_THROWS_WITH(nn::generate(gpt, {{1, 2, 3}}, o), Contains("3 tokens") && Contains("at most context_length, 12"));
  CHECK_THROWS_WITH(nn::generate(gpt, {{1}, {}}, o), Contains("a prompt is empty"));
  CHECK(nn::generate(gpt, {}, o).empty());
  o.max_new_tokens(-1);
  CHECK_THROWS_WITH(nn::generate(gpt, {{1}}, o), Contains("max_new_tokens is -1"));
  o.max_new_tokens(0);
  CHECK(nn::generate(gpt, {{1}}, o) == std::vector<Tokens>{{}});
  const std::int64_t vocab_size = gpt.options().vocab_size();
  for (const std::int64_t stop : {std::int64_t{-1}, vocab_size})
    CHECK_THROWS_WITH(nn::generate(gpt, {{1}}, nn::GenerateOptions(o).stop_tokens({0, stop})),
                      Contains("[generate] stop_tokens has " + std::to_string(stop)));
  const Tensor logits = zeros({3});
  const auto refused = [&](const char* text, const nn::SamplingOptions& s) {
    CHECK_THROWS_WITH(nn::sample_token(logits, {}, s, 0.5), Contains(text));
  };
  refused("temperature is -1", nn::SamplingOptions().temperature(-1));
  refused("top_k is -1", nn::SamplingOptions().top_k(-1));
  refused("top_p is 0", nn::SamplingOptions().top_p(0));
  refused("top_p is 1.5", nn::SamplingOptions().top_p(1.5));
  refused("min_p is -1", nn::SamplingOptions().min_p(-1));
  refused("repetition_penalty is 0", nn::SamplingOptions().repetition_penalty(0));
  CHECK_THROWS_WITH(nn::sample_token(logits, {3}, {}, 0.5), Contains("the token 3: it must be in 0 … 2"));
  CHECK_THROWS_WITH(nn::sample_token(tensor({1., NAN}), {}, {}, 0.5), Contains("a logit is NaN: look into"));
  CHECK_THROWS_WITH(nn::sample_token(zeros({1, 3}), {}, {}, 0.5), Contains("must be [V]"));
  CHECK_THROWS_WITH(nn::sample_token(full({2}, -INFINITY), {}, {}, 0.5), Contains("are -inf: no token is possible"));
  const auto none_left = [](const Tensor& logits, const nn::Tokens&) { return logits - INFINITY; };
  CHECK_THROWS_WITH(nn::sample_token(zeros({2}), {}, nn::SamplingOptions().logits_processor(none_left), 0.5),
                    Contains("all logits are -inf behind the logits_processor, which must leave a token"));
  CHECK(nn::sample_token(tensor({-INFINITY, -5., -INFINITY}), {}, {}, 0.99) == 1);
  nn::GPTOptions dropping = gpt.options();
  dropping.dropout(0.1);
  CHECK_THROWS_WITH(nn::generate(nn::GPT(dropping), {{1}}, o), Contains("call its eval() first"));
  nn::GPT dropped(dropping);
  nn::KVCache cache = dropped.make_cache(1);
  CHECK_THROWS_WITH(dropped(tensor({{1}}), cache),
                    Contains("[GPT] the model has dropout and is in training: call its "));
  CHECK(cache.length() == 0);
  dropped.eval();
  CHECK_NOTHROW(dropped(tensor({{1}}), cache));
}

TEST_CASE("a beam finds what greed misses", "[generate]") {
  // From 0 (the beginning): 1 with 0.6, 2 with 0.4. After 1 all is even; after 2, the end (0) is nearly certain.
  const auto step = chain({{1e-9, 0.6, 0.4}, {0.34, 0.33, 0.33}, {0.98, 0.01, 0.01}});
  auto o = nn::BeamOptions().max_length(4).length_penalty(0).num_beams(1);
  CHECK(nn::beam_search(step, 1, o)[0][0].tokens == Tokens{1, 0});
  o.num_beams(2);
  const auto found = nn::beam_search(step, 2, o);
  REQUIRE(found.size() == 2);
  for (const auto& item : found) {
    REQUIRE(item.size() == 2);
    CHECK(item[0].tokens == Tokens{2, 0});
    CHECK(item[0].log_probability == Approx(std::log(0.4 * 0.98)));
    CHECK(item[1].tokens == Tokens{1, 0});
    CHECK(item[0].score == item[0].log_probability);
  }
  o.length_penalty(2);
  CHECK(nn::beam_search(step, 1, o)[0][0].tokens.size() > 2);
}

TEST_CASE("a wide beam over few tokens finds the best of all sequences", "[generate]") {
  const auto step = chain({{0.2, 0.5, 0.3}, {0.3, 0.1, 0.6}, {0.25, 0.35, 0.4}});
  const std::vector<std::vector<double>> p = {{0.2, 0.5, 0.3}, {0.3, 0.1, 0.6}, {0.25, 0.35, 0.4}};
  auto o = nn::BeamOptions().max_length(4).num_beams(100);
  for (const double penalty : {0.0, 0.7, 1.0, 1.5, -0.5}) {
    o.length_penalty(penalty);
    double best = -INFINITY;
    const Callable<void(std::int64_t, std::int64_t, double)> walk = [&](std::int64_t last, std::int64_t length,
                                                                        double log_probability) {
      for (std::int64_t t = 0; t < 3; ++t) {
        const double now = log_probability + std::log(p[last][t]);
        if (t == 0 || length + 1 == o.max_length())
          best = std::max(best, now / std::pow(static_cast<double>(length + 1), penalty));
        else
          walk(t, length + 1, now);
      }
    };
    walk(0, 0, 0);
    CHECK(nn::beam_search(step, 1, o)[0][0].score == Approx(best));
    nn::BeamOptions narrow = o;
    narrow.num_beams(3);
    CHECK(nn::beam_search(step, 1, narrow)[0][0].score <= best + 1e-12);
  }
}

TEST_CASE("beam search through an encoder-decoder gives its probabilities", "[generate]") {
  const auto t = nn::TransformerOptions()
                     .d_model(8)
                     .num_heads(2)
                     .hidden(16)
                     .source_vocab(7)
                     .target_vocab(6)
                     .max_length(9)
                     .num_encoder_layers(2)
                     .num_decoder_layers(2);
  manual_seed(2);
  nn::Transformer model(t);
  auto o = nn::BeamOptions().num_beams(3).max_length(5).begin(1).end(0);
  const Tensor source = tensor({{3, 4, 5, 0}, {2, 6, 3, 4}}), mask = create_padding_mask(source);
  CHECK_THROWS_WITH(nn::beam_search(model, source, mask, o), Catch::Contains("call its eval() first"));
  model.eval();
  const auto found = nn::beam_search(model, source, mask, o);
  REQUIRE(found.size() == 2);
  for (std::int64_t b = 0; b < 2; ++b) {
    REQUIRE(found[b].size() == 3);
    for (const nn::Hypothesis& h : found[b]) {
      Tokens input = {1};
      input.insert(input.end(), h.tokens.begin(), h.tokens.end() - 1);
      const auto T = static_cast<std::int64_t>(input.size());
      const Tensor logits = model(slice(source, 0, b, b + 1), tensor(input, {1, T}), slice(mask, 0, b, b + 1));
      const Tensor probabilities = log_softmax(logits);
      double sum = 0;
      for (std::int64_t i = 0; i < T; ++i) sum += probabilities[{0, i, h.tokens[static_cast<std::size_t>(i)]}].item();
      CHECK(h.log_probability == Approx(sum).epsilon(1e-4));
    }
    CHECK(found[b][0].score >= found[b][1].score);
    // An item's result does not depend on its neighbours.
    const auto alone = nn::beam_search(model, slice(source, 0, b, b + 1), slice(mask, 0, b, b + 1), o);
    CHECK(alone[0][0].tokens == found[b][0].tokens);
  }
  o.max_length(10);
  CHECK_THROWS_WITH(nn::beam_search(model, source, mask, o), Catch::Contains("max_length is 10: the model's is 9"));
}

TEST_CASE("beam search's errors", "[generate]") {
  using Catch::Contains;
  nn::BeamOptions o;
  const nn::BeamStep step = chain({{0.2, 0.5, 0.3}, {0.3, 0.1, 0.6}, {0.25, 0.35, 0.4}});
  CHECK_THROWS_WITH(nn::beam_search(step, 1, o), Contains("max_length is 0: it must be positive"));
  o.max_length(3);
  CHECK(nn::beam_search(step, 0, o).empty());
  CHECK_THROWS_WITH(nn::beam_search(step, -1, o), Contains("batch is -1"));
  for (const std::int64_t end : {3, 77, -1})
    CHECK_THROWS_WITH(nn::beam_search(step, 1, nn::BeamOptions(o).end(end)),
                      Contains("end is " + std::to_string(end) + ", the step gave logits of 3 tokens"));
  const nn::BeamStep bad = [](const Tokens&, const std::vector<std::int64_t>&) { return zeros({3}); };
  CHECK_THROWS_WITH(nn::beam_search(bad, 1, o), Contains("logits of shape [3] for 1 rows"));
  const nn::BeamStep nan = [](const Tokens&, const std::vector<std::int64_t>&) { return full({1, 3}, NAN); };
  CHECK_THROWS_WITH(nn::beam_search(nan, 1, o), Contains("row 0 of the step's logits holds NaN"));
  const auto gives = [](double logit) {
    return [logit](const Tokens& tokens, const std::vector<std::int64_t>&) {
      Tensor logits = zeros({static_cast<std::int64_t>(tokens.size()), 3});
      logits[{-1}] = logit;
      return logits;
    };
  };
  CHECK_THROWS_WITH(nn::beam_search(gives(-INFINITY), 2, o), Contains("row 1 of the step's logits is -inf everywhere"));
  CHECK_THROWS_WITH(nn::beam_search(gives(INFINITY), 2, o), Contains("row 1 of the step's logits holds +inf"));
  const nn::BeamStep nothing = [](const Tokens&, const std::vector<std::int64_t>&) { return Tensor(); };
  CHECK_THROWS_WITH(nn::beam_search(nothing, 1, o), Contains("[beam_search] what the step gave is undefined"));
  const nn::BeamStep whole = [](const Tokens&, const std::vector<std::int64_t>&) { return zeros({1, 3}, int64); };
  CHECK_THROWS_WITH(nn::beam_search(whole, 1, o), Contains("what the step gave is int64"));
  const nn::BeamStep no_tokens = [](const Tokens&, const std::vector<std::int64_t>&) { return zeros({1, 0}); };
  CHECK_THROWS_WITH(nn::beam_search(no_tokens, 1, o), Contains("V > 0"));
  CHECK_THROWS_WITH(nn::beam_search(nn::BeamStep(), 1, o), Contains("the step is empty"));
  CHECK_THROWS_WITH(nn::beam_search(step, INT64_MAX, o), Contains("batch is 9223372036854775807"));
  o.length_penalty(1e300);
  CHECK_THROWS_WITH(nn::beam_search(step, 1, o), Contains("max_length to the power of it must be finite"));
  o.length_penalty(1).num_beams(0);
  CHECK_THROWS_WITH(nn::beam_search(step, 1, o), Contains("num_beams is 0"));
}

TEST_CASE("beam search with more beams than there are sequences gives all of these", "[generate]") {
  const nn::BeamStep step = chain({{0.2, 0.5, 0.3}, {0.3, 0.1, 0.6}, {0.25, 0.35, 0.4}});
  auto o = nn::BeamOptions().max_length(3).end(0).begin(1);
  for (const std::int64_t beams : {std::int64_t{20}, std::int64_t{1} << 40, INT64_MAX / 2 + 1, INT64_MAX}) {
    o.num_beams(beams);
    const auto found = nn::beam_search(step, 1, o).at(0);
    CHECK(found.size() == 15);  // 1 that ends at once, 2 after one token, 12 of full length
    double total = 0;
    for (const nn::Hypothesis& h : found) total += std::exp(h.log_probability);
    CHECK(total == Approx(1));
  }
}

TEST_CASE("numbers that are not finite draw no token", "[generate]") {
  using Catch::Contains;
  const Tensor logits = tensor({1., -INFINITY, 0.});
  nn::SamplingOptions o;
  for (const double bad : {double(INFINITY), double(NAN)}) {
    o.temperature(bad);
    CHECK_THROWS_WITH(nn::sample_token(logits, {}, o, 0.5), Contains("temperature is"));
    o.temperature(1).repetition_penalty(bad);
    CHECK_THROWS_WITH(nn::sample_token(logits, {}, o, 0.5), Contains("repetition_penalty is"));
    o.repetition_penalty(1);
    CHECK_THROWS_WITH(nn::sample_token(logits, {}, o, bad), Contains("uniform is"));
  }
  CHECK_THROWS_WITH(nn::sample_token(logits, {}, o, 1), Contains("uniform is 1"));
  o.temperature(1e300);  // all alike, but what is impossible stays so
  for (int i = 0; i < 100; ++i) CHECK(nn::sample_token(logits, {}, o, i / 100.) != 1);
  o.temperature(1);
  for (const double penalty : {1e300, 1e-300}) {
    o.repetition_penalty(penalty);
    for (int i = 0; i < 100; ++i) CHECK(nn::sample_token(logits, {0, 1, 2}, o, i / 100.) != 1);
    CHECK_NOTHROW(nn::sample_token(tensor({-1e300, -1e300}, float64), {0, 1}, o, 0.5));
  }
  nn::GPT gpt = lively();
  const auto g = nn::GenerateOptions().max_new_tokens(INT64_MAX);
  CHECK_THROWS_WITH(nn::generate(gpt, {{1}}, g), Contains("at most context_length, 12"));
}

}  // namespace fit::test::generate_test
