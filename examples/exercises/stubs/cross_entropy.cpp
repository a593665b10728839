// Exercise cross_entropy: cross entropy and its gradient.
//
// loss: the mean over rows of -log softmax(logits)[class], also for logits of 1000. gradient: of this loss by the
// logits. logits are [N, C], classes [N] of int64.
#include "exercises/exercises.hpp"

using namespace fit;

Tensor entropy_loss(const Tensor& logits, const Tensor& classes) {
  return -mean(gather(log(softmax(logits)), -1, classes.unsqueeze(-1)));
}

Tensor entropy_gradient(const Tensor& logits, const Tensor& classes) {
  return softmax(logits) - one_hot(classes, logits.size(1));
}

EXERCISE(cross_entropy, entropy_loss, entropy_gradient)
