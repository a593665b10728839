// An encoder and a decoder learn to copy and to reverse sequences of letters: "copy abcd" gives abcd, "reverse abcd"
// gives dcba. The figure shows that the decoder attends along the diagonal, or along the anti-diagonal. About a minute
// on two cores.
#include <iostream>

#include "fit/fit.hpp"
#include "support/example.hpp"

using namespace fit;

namespace {

// 0 … 25 are the letters. The source begins with a task; the target begins with start_token and ends with end_token.
constexpr std::int64_t letters = 26, copy_task = 26, reverse_task = 27, start_token = 28, end_token = 29, padding = 30;
constexpr std::int64_t vocabulary = 31;
constexpr std::int64_t shortest = 4, longest = 12, context = longest + 1;
constexpr std::int64_t features = 64, head_count = 4;

// x + f(norm(x)) for each of its two parts: self-attention, then a small network for each position.
struct EncoderBlock : nn::Layer {
  Tensor forward(const Tensor& x, const Tensor& mask) const {  // [B, S, C] -> [B, S, C]
    const Tensor y = x + attention(attention_norm(x), mask);
    return y + feed_forward(feed_forward_norm(y));
  }
  FIT_FIELDS(attention_norm, attention, feed_forward_norm, feed_forward)
  nn::LayerNorm attention_norm{features}, feed_forward_norm{features};
  nn::SelfAttention attention{features, head_count, 0.0};
  nn::FeedForward feed_forward{features, 4 * features};
};

// The same with two attentions: to the letters written so far, and to the source.
struct DecoderBlock : nn::Layer {
  // y [B, T, C], source [B, S, C] -> [B, T, C], and the weights of the attention to the source, [B, H, T, S].
  AttentionResult forward(const Tensor& y, const Tensor& source, const Tensor& mask) const {
    const Tensor written = y + self(self_norm(y));
    const auto [found, weights] = cross(cross_norm(written), source, mask, nn::return_attention);
    const Tensor z = written + found;
    return {z + feed_forward(feed_forward_norm(z)), weights};
  }
  FIT_FIELDS(self_norm, self, cross_norm, cross, feed_forward_norm, feed_forward)
  nn::LayerNorm self_norm{features}, cross_norm{features}, feed_forward_norm{features};
  nn::CausalSelfAttention self{features, head_count, 0.0};
  nn::CrossAttention cross{features, head_count, 0.0};
  nn::FeedForward feed_forward{features, 4 * features};
};

struct Model : nn::Layer {
  // source [B, S], written [B, T] -> logits [B, T, vocabulary], and the last block's weights [B, H, T, S].
  AttentionResult forward(const Tensor& source, const Tensor& written) const {
    const Tensor mask = create_padding_mask(source, padding);
    Tensor x = token(source) + place(arange(source.size(1)));
    for (const EncoderBlock& block : encoder) x = block(x, mask);
    x = encoder_norm(x);
    AttentionResult y{token(written) + place(arange(written.size(1))), {}};
    for (const DecoderBlock& block : decoder) y = block(y.output, x, mask);
    return {out(decoder_norm(y.output)), y.weights};
  }
  FIT_FIELDS(token, place, encoder, encoder_norm, decoder, decoder_norm, out)
  Model() {
    for (int i = 0; i < 2; ++i) {
      encoder.add(EncoderBlock());
      decoder.add(DecoderBlock());
    }
  }
  nn::Embedding token{vocabulary, features}, place{context, features};
  nn::ModuleList<EncoderBlock> encoder;
  nn::ModuleList<DecoderBlock> decoder;
  nn::LayerNorm encoder_norm{features}, decoder_norm{features};
  nn::Linear out{features, vocabulary};
};

struct Batch {
  Tensor source, input, target;  // [B, context], padded
};

Batch random_batch(std::int64_t count) {
  const Tensor text = randint(0, letters, {count, longest}), lengths = randint(shortest, longest + 1, {count});
  const Tensor reversed = bernoulli(0.5, {count});
  const auto filled = [&] { return full({count, context}, padding, int64); };
  Batch b{filled(), filled(), filled()};
  auto source = b.source.edit<std::int64_t>(), input = b.input.edit<std::int64_t>();
  auto target = b.target.edit<std::int64_t>();
  for (std::int64_t row = 0; row < count; ++row) {
    const std::int64_t length = lengths[row].item<std::int64_t>(), first = row * context;
    const bool reverse = reversed[row].item<bool>();
    source[first] = reverse ? reverse_task : copy_task;
    input[first] = start_token;
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t from = row * longest + (reverse ? length - 1 - i : i);
      source[first + 1 + i] = text.data<std::int64_t>()[row * longest + i];
      target[first + i] = input[first + 1 + i] = text.data<std::int64_t>()[from];
    }
    target[first + length] = end_token;
  }
  return b;
}

// Writes the most likely token, `context` times: [B, context].
Tensor answer(const Model& model, const Tensor& source) {
  Tensor written = full({source.size(0), 1}, start_token, int64);
  for (std::int64_t t = 0; t < context; ++t)
    written = cat({written, argmax(model(source, written).output[{range(), -1}], -1).unsqueeze(1)}, 1);
  return written[{range(), range(1)}];
}

// The percentage of new sequences with every letter and the end right.
double exact_match(Model& model, std::int64_t count) {
  const NoGrad no_grad;
  model.eval();
  const Batch b = random_batch(count);
  const Tensor right = logical_or(answer(model, b.source) == b.target, b.target == padding);
  model.train();
  return 100 * mean(all(right, -1).to(float32)).item();
}

std::vector<std::string> with_letters(std::vector<std::string> list, const Tensor& ids) {
  for (const std::int64_t id : ids.data<std::int64_t>()) list.emplace_back(1, static_cast<char>('a' + id));
  return list;
}

// A task with eight letters, and the expected output.
struct Sample {
  Tensor source, input;                         // [1, 9]
  std::vector<std::string> read, fed, written;  // the tokens of source, input and output

  explicit Sample(std::int64_t task) {
    const Tensor text = tensor({{17, 4, 21, 4, 17, 18, 8, 13}});  // reversin
    const Tensor answer = task == reverse_task ? flip(text, 1) : text;
    source = cat({full({1, 1}, task, int64), text}, 1);
    input = cat({full({1, 1}, start_token, int64), answer}, 1);
    read = with_letters({task == reverse_task ? "reverse" : "copy"}, text);
    fed = with_letters({"begin"}, answer);
    written = with_letters({}, answer);
    written.emplace_back("end");
  }
};

// The decoder's attention to the source: the mean over heads.
plot::Figure look(Model& model, const Sample& s) {
  const NoGrad no_grad;
  model.eval();
  return plot::heatmap(mean(model(s.source, s.input).weights[0], 0), plot::Options()
                                                                         .title(s.read[0])
                                                                         .x(s.read)
                                                                         .y(s.written)
                                                                         .xlabel("Key (source)")
                                                                         .ylabel("Query (written)")
                                                                         .bar_label("Attention weight")
                                                                         .vmin(0)
                                                                         .vmax(1));
}

void name_tokens(AttentionRecording& heads, const Sample& s) {
  heads.name_tokens("encoder", s.read);
  for (const std::string block : {"decoder.0", "decoder.1"}) {
    heads.name_tokens(block + ".self", s.fed);
    heads.name_tokens(block + ".cross", s.fed, s.read);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto train = [](example::Example& e) {
    Model model;
    dist::DataParallel parallel(model);
    const int steps = e.quick ? 20 : 1500;
    optim::AdamW optimizer(model.named_parameters());
    optim::OneCycleLR schedule(optimizer, 2e-3, steps, optim::OneCycleOptions().pct_start(0.05));
    const auto without_padding = nn::CrossEntropyOptions().ignore_index(padding);
    std::cout << model.num_parameters() << " parameters, " << steps << " steps\n";

    plot::TrainingPage& page = e.follow("Copy and reverse", steps, model);
    const Sample copy(copy_task), reverse(reverse_task);
    const auto film = [&](int step) {
      e.look(
          model, step, [&] { model(reverse.source, reverse.input); },
          [&](AttentionRecording& heads) { name_tokens(heads, reverse); });
    };
    film(0);
    for (int step = 1; step <= steps; ++step) {
      const Batch b = random_batch(64);
      const Tensor source = parallel.rows(b.source), input = parallel.rows(b.input), target = parallel.rows(b.target);
      const double letters_and_ends = sum(target != padding).item();
      optimizer.zero_grad();
      const double loss =
          parallel.backward(nn::cross_entropy(model(source, input).output, target, without_padding), letters_and_ends);
      const double norm = optim::clip_grad_norm_(model.parameters(), 1.0);
      page.add({{"step", step}, {"loss", loss}, {"lr", optimizer.lr()}, {"grad_norm", norm}});
      optimizer.step();
      schedule.step();
      if (step % (steps / 20) == 0) film(step);
      if (step % (steps / 10) == 0) e.progress("step", step, steps, "loss", loss);
    }

    e.trained("Nats a letter");
    e.picture("where_it_looks", plot::side_by_side({look(model, copy), look(model, reverse)}));
    e.at_least("new sequences that come out right, in percent", exact_match(model, e.quick ? 100 : 2000), 99.5);
  };
  return example::run(argc, argv, "Trains an encoder and a decoder to copy and reverse.", train, {example::bf16});
}
