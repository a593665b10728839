#include "demonstrate/five_minutes.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fit/fit.hpp"

using namespace fit;

namespace example {
namespace {

// ---- sentences: "the girl who sees the dogs is happy because she likes them ."

constexpr std::int64_t context = 16, ignored = -100;

struct Noun {
  std::string one, many, subject, object;
};
const std::vector<Noun> nouns{
    {"girl", "girls", "she", "her"}, {"woman", "women", "she", "her"}, {"queen", "queens", "she", "her"},
    {"boy", "boys", "he", "him"},    {"man", "men", "he", "him"},      {"king", "kings", "he", "him"},
    {"dog", "dogs", "it", "it"},     {"cat", "cats", "it", "it"},      {"bird", "birds", "it", "it"}};
const std::vector<std::string> verbs = words("see like know help follow"), states = words("happy proud tired sad"),
                               looks = words("old young small tall");

std::vector<std::string> all_words() {
  std::vector<std::string> all = words("the who is are because . she he it they her him them");
  for (const Noun& noun : nouns) all.push_back(noun.one), all.push_back(noun.many);
  for (const std::string& verb : verbs) all.push_back(verb), all.push_back(verb + 's');
  all.insert(all.end(), states.begin(), states.end());
  all.insert(all.end(), looks.begin(), looks.end());
  return all;
}

// A word that the sentence before it decides, and the place of the noun that decides it.
struct Answer {
  std::string kind;
  std::size_t at, noun;
};
struct Sentence {
  std::vector<std::string> words;
  std::vector<Answer> answers;
};

class Sentences {
 public:
  explicit Sentences(std::uint64_t seed) : random_(static_cast<std::mt19937::result_type>(seed)) {}

  // A sixth of the pairs of nouns are `unseen` in the training.
  Sentence draw(bool unseen) {
    std::size_t a = 0, b = 0;
    while (a / 2 == b / 2 || ((5 * a + b) % 6 == 0) != unseen) a = any(18), b = any(18);
    const Noun &subject = nouns[a / 2], &object = nouns[b / 2];
    const bool many = a % 2, many_objects = b % 2, relative = any(3) < 2;
    Sentence s;
    const auto put = [&](const std::string& word) { s.words.push_back(word); };
    const auto answer = [&](const std::string& kind, const std::string& word, std::size_t noun) {
      s.answers.push_back({kind, s.words.size(), noun});
      put(word);
    };
    const auto described = [&](const Noun& noun, bool several) {  // "the old girl"; returns the noun's place
      put("the");
      if (any(3) == 0) put(looks[any(looks.size())]);
      put(several ? noun.many : noun.one);
      return s.words.size() - 1;
    };
    const auto verb = [&] { return verbs[any(verbs.size())] + (many ? "" : "s"); };
    const std::size_t doer = described(subject, many);
    if (relative) put("who");
    put(verb());
    const std::size_t target = described(object, many_objects);
    if (relative) {
      answer("is or are", many ? "are" : "is", doer);
      put(states[any(states.size())]);
    }
    put("because");
    answer("who", many ? "they" : subject.subject, doer);
    put(verb());
    answer("whom", many_objects ? "them" : object.object, target);
    put(".");
    return s;
  }

 private:
  std::size_t any(std::size_t count) { return random_() % count; }
  std::mt19937 random_;
};

using Ids = std::map<std::string, std::int64_t>;

Tensor ids_of(const std::vector<std::string>& text, const Ids& ids) {
  std::vector<std::int64_t> list;
  for (const std::string& word : text) list.push_back(ids.at(word));
  return tensor(list);
}

// Input and target, [B, T]. Sentences are padded; the loss ignores targets there.
std::pair<Tensor, Tensor> batch_of(const std::vector<Sentence>& sentences, const Ids& ids) {
  const auto B = static_cast<std::int64_t>(sentences.size());
  Tensor input = full({B, context}, 0, int64), target = full({B, context}, ignored, int64);
  for (std::int64_t i = 0; i < B; ++i) {
    const Tensor text = ids_of(sentences[static_cast<std::size_t>(i)].words, ids);
    const std::int64_t T = text.numel() - 1;
    input[{i, range(0, T)}] = text[{range(0, T)}];
    target[{i, range(0, T)}] = text[{range(1)}];
  }
  return {input, target};
}

// ---- what the model can do, on sentences whose nouns it has never seen together

struct Judged {
  std::map<std::string, double> right;               // by kind of answer: the fraction
  std::map<std::string, std::vector<double>> looks;  // by kind, the weight of each head on the noun that decides it
};

Judged judge(const nn::GPT& gpt, const std::vector<std::string>& vocabulary, const Ids& ids) {
  const NoGrad no_grad;
  Sentences source(7);
  std::vector<Sentence> sentences;
  for (int i = 0; i < 200; ++i) sentences.push_back(source.draw(true));
  const nn::LensRun run = nn::Lens(gpt).run(batch_of(sentences, ids).first, {"h.0.attn.weights"});
  const Tensor& weights = run["h.0.attn.weights"];
  const Tensor guess = argmax(run.output, -1);
  Judged judged;
  std::map<std::string, double> count;
  for (std::size_t i = 0; i < sentences.size(); ++i)
    for (const Answer& answer : sentences[i].answers) {
      const auto row = static_cast<std::int64_t>(i), before = static_cast<std::int64_t>(answer.at) - 1;
      const auto guessed = static_cast<std::size_t>(guess[{row, before}].item<std::int64_t>());
      ++count[answer.kind];
      judged.right[answer.kind] += vocabulary[guessed] == sentences[i].words[answer.at];
      judged.looks[answer.kind].resize(static_cast<std::size_t>(weights.size(1)));
      for (std::int64_t h = 0; h < weights.size(1); ++h)
        judged.looks[answer.kind][static_cast<std::size_t>(h)] +=
            weights[{row, h, before, static_cast<std::int64_t>(answer.noun)}].item();
    }
  for (auto& [kind, right] : judged.right) right /= count[kind];
  for (auto& [kind, of_heads] : judged.looks)
    for (double& weight : of_heads) weight /= count[kind];
  return judged;
}

// What a head finds, if it gives most of its weight to it.
std::vector<std::string> names_of_heads(const Judged& judged) {
  std::vector<std::string> names;
  const std::vector<double>&who = judged.looks.at("who"), &whom = judged.looks.at("whom");
  for (std::size_t h = 0; h < who.size(); ++h)
    names.push_back(std::max(who[h], whom[h]) < 0.5 ? "" : who[h] > whom[h] ? "finds who" : "finds whom");
  return names;
}

// ---- one head by hand: what the strips of the page show, in order. The page quotes the lines below each "strip".

void by_hand(Example& e, const nn::GPT& gpt, const Tensor& ids, std::int64_t head) {
  const NoGrad no_grad;
  const std::int64_t T = ids.numel(), D = gpt.options().head_size(), query = T - 1, key = 1;
  const auto& block = dynamic_cast<const nn::GPTBlock&>(gpt.h[0]);
  const auto& attn = dynamic_cast<const nn::GPTAttention&>(*block.attn);
  const Range of_head = range(head * D, (head + 1) * D);
  const nn::Lens lens(gpt);
  const nn::LensRun run = lens.run(ids.unsqueeze(0));
  const auto agrees = [&](const std::string& what, const Tensor& own, const Tensor& model) {
    e.claim("by hand, " + what + " as in the model", distance(own, model) < 1e-5);
  };

  // strip: vectors
  const Tensor x = gpt.wte(ids) + gpt.wpe->weight.value()[{range(0, T)}];  // each word and its place [T, C]
  const auto qkv = chunk(attn.qkv((*block.ln_1)(x)), 3, -1);               // a norm, then a matrix [T, 3 C]
  const Tensor q = qkv[0][{range(), of_head}];                             // what each word looks for [T, D]
  const Tensor k = qkv[1][{range(), of_head}];                             // what each word offers   [T, D]
  // end
  agrees("queries are", q, run["h.0.attn.q"][{0, head}]);

  // strip: product
  const Tensor products = q[query] * k[key];  // [D]
  const double score = sum(products).item();
  // end

  // strip: scale
  const Tensor earlier = tril(ones({T, T})) != 0;  // no word attends to a later one
  const Tensor scores =
      where(earlier, matmul(q, transpose(k)) / std::sqrt(D), -std::numeric_limits<double>::infinity());
  // end
  e.claim("by hand, the score of a pair is in the matrix of scores",
          std::abs(score / std::sqrt(D) - scores[{query, key}].item()) < 1e-5);

  // strip: softmax
  const Tensor weights = exp(scores) / sum(exp(scores), -1, keepdims);  // rows sum to 1
  // end
  agrees("weights are", weights, run["h.0.attn.weights"][{0, head}]);

  // strip: values
  const Tensor v = qkv[2][{range(), of_head}];  // what each word tells [T, D]
  const Tensor z = matmul(weights, v);          // the weighted sums    [T, D]
  // end
  agrees("outputs are", z, run["h.0.attn.z"][{0, head}]);

  // strip: prediction
  const nn::Lens without = lens.with("h.0.attn.z", nn::head(head), nn::zero());
  const Tensor next = softmax(gpt(ids.unsqueeze(0))[{0, query}]);
  const Tensor next_without = softmax(without.run(ids.unsqueeze(0)).output[{0, query}]);
  // end
  e.claim("without the head the guess changes", distance(next, next_without) > 0.1);

  // strip: stream
  const Tensor middle = x + attn((*block.ln_1)(x).unsqueeze(0))[0];  // all heads add what they read
  const Tensor end = middle + (*block.mlp)((*block.ln_2)(middle));   // the MLP adds its own
  const Tensor logits = gpt.head((*gpt.ln_f)(end));                  // a number for each word [T, V]
  // end
  agrees("logits are", logits, run.output[0]);
}

// The lines of this file between "// strip: NAME" and "// end", by name.
std::vector<plot::StripCode> quoted() {
  std::vector<plot::StripCode> code;
  std::ifstream file(__FILE__);
  bool inside = false;
  const std::string mark = "  // strip: ", end = "  // end";
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(mark, 0) == 0) {
      code.push_back({line.substr(mark.size()), ""});
      inside = true;
    } else if (line == end) {
      inside = false;
    } else if (inside) {
      code.back().lines += line.substr(2) + '\n';
    }
  }
  return code;
}

}  // namespace

Reading five_minutes(Example& e) {
  const std::vector<std::string> vocabulary = all_words();
  Ids ids;
  for (const std::string& word : vocabulary) ids.emplace(word, ids.size());

  constexpr std::uint64_t seed = 6;  // the page explains one model: the same in each run
  manual_seed(seed);
  const auto size = static_cast<std::int64_t>(vocabulary.size());
  nn::GPT gpt(
      nn::GPTOptions().vocab_size(size).context_length(context).num_layers(1).num_heads(4).d_model(32).hidden(64));
  constexpr int steps = 800;
  constexpr double peak = 5e-3;
  optim::AdamW optimizer(gpt.named_parameters(), peak);
  Sentences source(seed);
  const std::vector<int> shown{0, 10, 25, 50, 75, 100, 150, 200, 400, steps};
  std::vector<plot::ModelSnapshot> snapshots{plot::model_snapshot(gpt, 0)};
  for (int step = 1; step <= steps; ++step) {
    const double progress = static_cast<double>(step) / steps;
    optimizer.set_lr(peak * std::min(1.0, step / 30.0) * (0.02 + 0.49 * (1 + std::cos(std::acos(-1.0) * progress))));
    std::vector<Sentence> sentences;
    for (int i = 0; i < 64; ++i) sentences.push_back(source.draw(false));
    const auto [input, target] = batch_of(sentences, ids);
    const Tensor loss = nn::cross_entropy(gpt(input), target, nn::CrossEntropyOptions().ignore_index(ignored));
    optimizer.zero_grad();
    loss.backward();
    optim::clip_grad_norm_(gpt.parameters(), 1);
    optimizer.step();
    if (std::find(shown.begin(), shown.end(), step) != shown.end())
      snapshots.push_back(plot::model_snapshot(gpt, step));
    if (step % 200 == 0) std::printf("step %3d  loss %.3f\n", step, loss.item());
  }

  gpt.eval();
  const Judged judged = judge(gpt, vocabulary, ids);
  for (const auto& [kind, right] : judged.right)
    e.claim("the model says " + kind + " right in 97 of 100 new sentences", right > 0.97);
  const std::vector<double>& who = judged.looks.at("who");
  const auto finder = std::max_element(who.begin(), who.end());
  for (std::size_t h = 0; h < who.size(); ++h)
    std::printf("head %zu gives %.2f of its weight to who, %.2f to whom\n", h + 1, who[h], judged.looks.at("whom")[h]);
  e.claim("one head finds who a pronoun stands for", *finder > 0.5);

  const std::vector<std::string> samples{
      "the girl who sees the dogs is happy because", "the girl who sees the dogs is happy because she likes",
      "the old kings who follow the young woman", "the birds help the boy because they know"};
  by_hand(e, gpt, ids_of(words(samples[0]), ids), finder - who.begin());
  e.five_minutes("five_minutes", gpt, vocabulary, samples,
                 plot::FiveMinutesOptions()
                     .snapshots(snapshots)
                     .heads(names_of_heads(judged))
                     .code(quoted())
                     .next({{"attention at work", "demonstrate.html"}}));

  Reading reading{words(samples[1]), {}};
  const NoGrad no_grad;
  const nn::LensRun run = nn::Lens(gpt).run(ids_of(reading.words, ids).unsqueeze(0), {"h.0.attn.weights"});
  const std::vector<std::string> names = names_of_heads(judged);
  for (std::size_t h = 0; h < names.size(); ++h)
    if (!names[h].empty())
      reading.heads.push_back(TextHead()
                                  .name("Head " + std::to_string(h + 1) + ", which " + names[h])
                                  .weights(run["h.0.attn.weights"][{0, static_cast<std::int64_t>(h)}]));
  return reading;
}

}  // namespace example
