#pragma once
#include <cstdint>
#include <memory>
#include <vector>

// The smallest GPT without the library: a training step in plain loops, on one thread. It shows what the library's
// steps could cost at the least.
namespace fit::bench {

/// One block of 4 heads: x + attn(rms(x)), x + mlp(rms(x)) with relu(fc x)^2, a norm, and a head of its own. No biases.
/// A batch is 16 sequences of 16 tokens.
class HandWrittenGPT {
 public:
  static constexpr std::int64_t B = 16, T = 16, heads = 4, vocab = 27;
  /// An array, and how many of its numbers count.
  struct Array {
    float* data;
    std::int64_t size;
  };

  virtual ~HandWrittenGPT() = default;
  /// In the order of nn::GPT: wte, wpe, ln_1, qkv, proj, ln_2, fc, proj, ln_f, head.
  virtual std::vector<Array> parameters() = 0;
  virtual std::vector<Array> gradients() = 0;
  /// Forward, backward and a step of Adam for ids and targets [B, T]; the loss.
  virtual float step(const std::int64_t* ids, const std::int64_t* targets) = 0;
};

/// For d_model 16, 32 or 64, in the instruction set that the library's kernels use.
std::unique_ptr<HandWrittenGPT> hand_written_gpt(std::int64_t d);

/// The function that does this in one instruction set.
using MakeHandWrittenGPT = std::unique_ptr<HandWrittenGPT> (*)(std::int64_t d);
template <class IsaTag, class Model>
MakeHandWrittenGPT hand_written_gpt_of();

}  // namespace fit::bench
