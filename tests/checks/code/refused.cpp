// Programs with one mistake each, which refused.sh compiles alone. The compiler must say the text behind "says:".
#include <fit/fit.hpp>

using namespace fit;

#if MISTAKE == 1  // says: give layer.named_parameters()
void mistake(nn::Linear& layer) { optim::Adam optimizer(layer, 0.1); }
#elif MISTAKE == 2   // says: give layer.named_parameters()
void mistake(nn::Linear& layer) { optim::clip_grad_norm_(layer, 1.0); }
#elif MISTAKE == 3   // says: give nn::ReLU() instead of the function relu
void mistake() { nn::Sequential net(nn::Linear(2, 3), relu); }
#elif MISTAKE == 4   // says: give nn::ReLU() instead of the function relu
void mistake(nn::ModuleList<>& list) { list.add(3); }
#elif MISTAKE == 5   // says: give (in_features, out_features, bias = true), or (weight, bias)
void mistake() { nn::Linear layer("fc", 3); }
#elif MISTAKE == 6   // says: give (num_embeddings, embedding_dim, padding_idx = -1)
void mistake() { nn::Embedding layer(3); }
#elif MISTAKE == 7   // says: give (d_model, num_heads, dropout), or options at the end
void mistake() { nn::MultiHeadAttention layer(32, 4, nn::GPTOptions()); }
#elif MISTAKE == 8   // says: give (d_model, num_heads, dropout), or options at the end
void mistake() { nn::SelfAttention layer("attention"); }
#elif MISTAKE == 9   // says: give one GPTOptions()
void mistake() { nn::GPT gpt(65, 64); }
#elif MISTAKE == 10  // says: give one TransformerLayerOptions()
void mistake() { nn::TransformerEncoderLayer layer(32, 4); }
#elif MISTAKE == 11  // says: give (size, eps = 1e-6)
void mistake() { nn::RMSNorm norm(nn::LayerNormOptions{}); }
#elif MISTAKE == 12  // says: a layer lists Parameters, Buffers (for a Tensor that is saved), layers
struct Net : nn::UnaryLayer {
  Tensor forward(const Tensor& x) const override { return x * scale; }
  FIT_FIELDS(scale)
  Tensor scale;
};
#elif MISTAKE == 13  // says: comma
Tensor mistake(const Tensor& x) { return x[0, 1]; }
#elif MISTAKE == 14  // says: comma
void mistake(Tensor& x, int i, int j) { x[i, j] = 3; }
#elif MISTAKE == 15  // says: in passing argument 1 of
Tensor mistake() { return relu({64}); }
#elif MISTAKE == 16  // says: this layer has no public forward() that takes these arguments
Tensor mistake(const nn::Linear& layer, const Tensor& x) { return layer(x, 2); }
#elif MISTAKE == 17  // says: this layer has no public forward() that takes these arguments
struct Net : nn::Layer {
  Tensor operator()(const Tensor& x) const { return fc(x); }
  FIT_FIELDS(fc)
  nn::Linear fc{2, 2};
};
Tensor mistake(Net& net, const Tensor& x) { return net(x); }
#elif MISTAKE == 18  // says: the tensor ends with this line: name it first, or use to_vector()
auto mistake() { return randn({3}).data<float>(); }
#elif MISTAKE == 19  // says: it would change a copy: assign to x[...] instead
void mistake(Tensor& x) { x[0].fill_(1); }
#elif MISTAKE == 20  // says: call step(closure) in a loop of your own, and set options().lr() there
void mistake(optim::LBFGS& optimizer) { optim::StepLR schedule(optimizer, 10); }
#elif MISTAKE == 21  // says: call step(closure) in a loop of your own, and set options().lr() there
void mistake(nn::Layer& net, optim::LBFGS& optimizer, data::DataLoader& loader) {
  Trainer trainer(net, optimizer, loader, [](const data::Batch& b) { return b[0]; });
}
#elif MISTAKE == 22  // says: inside a function: FIT_FIELDS_ONLY
void mistake() {
  struct Net : nn::Layer {
    FIT_FIELDS(fc)
    nn::Linear fc{2, 2};
  } net;
}
#elif MISTAKE == 23  // says: declared with attribute
void mistake() { NoGrad(); }
#elif MISTAKE == 24  // says: declared with attribute
void mistake() { Reproducible(); }
#elif MISTAKE == 25  // says: of a result, it would change nothing: p.set_grad(g), x.copy_(v)
void mistake(nn::Linear& layer, const Tensor& g) { layer.weight.grad() = g; }
#elif MISTAKE == 26  // says: give nn::Parameter(x), or under NoGrad copy_(x), which an optimiser sees
void mistake(nn::Linear& layer, const Tensor& x) { layer.weight = x; }
#elif MISTAKE == 27  // says: give nn::Buffer(x), or copy_(x)
void mistake(nn::BatchNorm& layer, const Tensor& x) { layer.running_mean = 2 * x; }
#elif MISTAKE == 28  // says: a layer is not copied: std::move() it in, or give a shared_ptr
void mistake(nn::Linear& hidden, nn::Linear& out) { nn::Sequential net{hidden, out}; }
#elif MISTAKE == 29  // says: a layer is not copied: std::move() it in, or give a shared_ptr
void mistake(nn::Linear& block) { nn::ModuleList<nn::Linear> blocks{nn::Linear(2, 3), block}; }
#endif
