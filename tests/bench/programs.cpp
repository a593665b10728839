// A step of small training programs, as users write them: images, a variational and an adversarial model, values of
// actions, a small vision transformer. programs.py times the same in PyTorch.
#include <algorithm>
#include <cmath>
#include <memory>

#include "bench.hpp"
#include "fit/fit.hpp"

namespace fit::bench {
namespace {

// Program P has `explicit P(DType)` and double step(), which returns a loss. It is right if the losses of its first
// steps are those in float64.
template <class P>
Workload program(const char* name) {
  return {name,
          Limit::none,
          0,
          2.0,
          []() -> std::function<void()> {
            auto p = std::make_shared<P>(float32);
            return [p] { p->step(); };
          },
          [=] {
            const auto losses = [](DType t) {
              manual_seed(1);
              P p(t);
              std::vector<double> all;
              for (int i = 0; i < 3; ++i) {
                manual_seed(static_cast<std::uint64_t>(i));
                all.push_back(p.step());
              }
              return all;
            };
            const std::vector<double> got = losses(float32), exact = losses(float64);
            for (std::size_t i = 0; i < got.size(); ++i)
              if (!(std::abs(got[i] - exact[i]) < 1e-3 * std::max(1.0, std::abs(exact[i]))))
                throw Error(std::string(name) + ": step " + std::to_string(i) + " has the loss " +
                            std::to_string(got[i]) + ", in float64 " + std::to_string(exact[i]));
          }};
}

template <class Optimizer>
double stepped(Optimizer& optimizer, const Tensor& loss) {
  optimizer.zero_grad();
  loss.backward();
  optimizer.step();
  return loss.item();
}

// Classifies images.
struct Images {
  Images(nn::Sequential layers, const Tensor& images, DType t) : net(std::move(layers)), x(images.to(t)) { net.to(t); }
  double step() { return stepped(*optimizer, nn::cross_entropy(net(x), classes)); }

  nn::Sequential net;
  Tensor x, classes = randint(0, 10, {x.size(0)});
  std::unique_ptr<optim::Adam> optimizer = std::make_unique<optim::Adam>(net.parameters(), 1e-3);
};

ConvOptions same() { return ConvOptions().padding(1); }

struct Cnn : Images {
  explicit Cnn(DType t)
      : Images(nn::Sequential{nn::Conv2d(1, 16, 3, same()), nn::ReLU(), nn::MaxPool2d(2), nn::Conv2d(16, 32, 3, same()),
                              nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(), nn::Linear(32 * 49, 128), nn::ReLU(),
                              nn::Linear(128, 10)},
               randn({64, 1, 28, 28}), t) {}
};

struct CnnBatchNorm : Images {
  explicit CnnBatchNorm(DType t)
      : Images(
            nn::Sequential{nn::Conv2d(3, 32, 3, same()), nn::BatchNorm(32), nn::ReLU(), nn::Conv2d(32, 32, 3, same()),
                           nn::BatchNorm(32), nn::ReLU(), nn::Conv2d(32, 64, 3, same().stride(2)), nn::BatchNorm(64),
                           nn::ReLU(), nn::Lambda([](const Tensor& x) {
                             return mean(x, {2, 3});
                           }),
                           nn::Linear(64, 10)},
            randn({32, 3, 32, 32}), t) {}
};

// Patches of 8 x 8 pixels as tokens.
struct VisionTransformer {
  explicit VisionTransformer(DType t) : x(randn({32, 3, 64, 64}).to(t)) {
    for (nn::Layer* layer : std::initializer_list<nn::Layer*>{&patches, &encoder, &head}) layer->to(t);
  }
  double step() {
    const Tensor tokens = transpose(flatten(patches(x), 2), 1, 2);
    return stepped(optimizer, nn::cross_entropy(head(mean(encoder(tokens), 1)), classes));
  }

  nn::Conv2d patches{3, 128, 8, ConvOptions().stride(8)};
  nn::TransformerEncoder encoder{nn::TransformerLayerOptions().d_model(128).num_heads(4).dropout(0), 2};
  nn::Linear head{128, 10};
  Tensor x, classes = randint(0, 10, {32});
  optim::AdamW optimizer{{patches.parameters(), encoder.parameters(), head.parameters()}, 1e-3};
};

struct Vae {
  explicit Vae(DType t) : x(rand({128, 784}).to(t)) {
    for (nn::Linear* layer : {&encode, &mean, &log_var, &decode, &pixels}) layer->to(t);
  }
  double step() {
    const Tensor h = relu(encode(x)), m = mean(h), l = log_var(h);
    const Tensor z = m + randn({128, 20}).to(x.dtype()) * exp(l * 0.5), y = pixels(relu(decode(z)));
    const auto total = nn::BCEWithLogitsOptions().reduction(nn::Reduction::sum);
    return stepped(optimizer, nn::binary_cross_entropy_with_logits(y, x, total) + sum(exp(l) + m * m - 1 - l) * 0.5);
  }

  nn::Linear encode{784, 400}, mean{400, 20}, log_var{400, 20}, decode{20, 400}, pixels{400, 784};
  Tensor x;
  optim::Adam optimizer{
      {encode.parameters(), mean.parameters(), log_var.parameters(), decode.parameters(), pixels.parameters()}, 1e-3};
};

struct Gan {
  explicit Gan(DType t) : x(randn({64, 784}).to(t)), real(ones({64, 1}).to(t)), made(zeros({64, 1}).to(t)) {
    generator.to(t), judge.to(t);
  }
  double step() {
    const auto loss = [this](const Tensor& y, const Tensor& target) {
      return nn::binary_cross_entropy_with_logits(judge(y), target);
    };
    const Tensor y = generator(randn({64, 64}).to(x.dtype()));
    const double seen = stepped(judging, loss(x, real) + loss(y.detach(), made));
    return seen + stepped(generating, loss(y, real));
  }

  nn::Sequential generator{nn::Linear(64, 256), nn::LeakyReLU(0.2),   nn::Linear(256, 512),
                           nn::LeakyReLU(0.2),  nn::Linear(512, 784), nn::Tanh()};
  nn::Sequential judge{nn::Linear(784, 512), nn::LeakyReLU(0.2), nn::Dropout(0.3),  nn::Linear(512, 256),
                       nn::LeakyReLU(0.2),   nn::Dropout(0.3),   nn::Linear(256, 1)};
  Tensor x, real, made;
  optim::Adam judging{judge.parameters(), 2e-4}, generating{generator.parameters(), 2e-4};
};

// Q-learning with a target network.
struct Dqn {
  explicit Dqn(DType t)
      : state(randn({128, 4}).to(t)),
        next(randn({128, 4}).to(t)),
        reward(randn({128, 1}).to(t)),
        action(randint(0, 2, {128, 1})) {
    net.to(t), target.to(t);
  }
  double step() {
    Tensor value;
    {
      const NoGrad no_grad;
      value = reward + max(target(next), 1, keepdims) * 0.99;
    }
    const Tensor loss = nn::smooth_l1_loss(gather(net(state), 1, action), value);
    optimizer.zero_grad();
    loss.backward();
    optim::clip_grad_norm_(net.parameters(), 1);
    optimizer.step();
    return loss.item();
  }

  static nn::Sequential values() {
    return nn::Sequential{nn::Linear(4, 128), nn::ReLU(), nn::Linear(128, 128), nn::ReLU(), nn::Linear(128, 2)};
  }
  nn::Sequential net = values(), target = values();
  Tensor state, next, reward, action;
  optim::Adam optimizer{net.parameters(), 1e-3};
};

}  // namespace

std::vector<Workload> program_workloads() {
  return {program<Cnn>("cnn_b64"),  program<CnnBatchNorm>("cnn_batch_norm_b32"),
          program<Vae>("vae_b128"), program<Gan>("gan_b64"),
          program<Dqn>("dqn_b128"), program<VisionTransformer>("vit_b32t64c128")};
}

}  // namespace fit::bench
