// A small vision transformer classifies clothes. It splits an image of 28 x 28 pixels into 7 x 7 patches, which attend
// to each other. The figures show the attention. Sized for five minutes on two cores.
#include <iostream>

#include "fit/fit.hpp"
#include "support/example.hpp"

using namespace fit;

namespace {

constexpr std::int64_t side = 28, patch = 4, grid = side / patch, patches = grid * grid, features = 64;
const std::vector<std::string> class_names = {"T-shirt", "trousers", "pullover", "dress", "coat",
                                              "sandal",  "shirt",    "sneaker",  "bag",   "boot"};

struct Images {
  Tensor pixels;   // [N, patches, patch * patch], normalised
  Tensor classes;  // [N]

  Images(const std::string& folder, const std::string& name) {
    const auto read = [&](const std::string& kind, DType dtype) {
      const std::string path = folder + '/' + name + '-' + kind + ".gz";
      return data::read_idx(
          example::data_file(path, "Debian's package dataset-fashion-mnist", "apt-get install dataset-fashion-mnist"),
          dtype);
    };
    const Tensor images = (read("images-idx3-ubyte", float32) / 255 - 0.286) / 0.353;  // their mean and deviation
    const std::int64_t N = images.size(0);
    pixels = images.reshape({N, grid, patch, grid, patch}).transpose(2, 3).reshape({N, patches, patch * patch});
    classes = read("labels-idx1-ubyte", int64);
  }
};

nn::TransformerLayerOptions layer_options() {
  return nn::TransformerLayerOptions()
      .d_model(features)
      .num_heads(4)
      .hidden(2 * features)
      .dropout(0)
      .activation(nn::Activation::gelu)
      .norm_first();
}

struct VisionTransformer : nn::Layer {
  // pixels [B, patches, patch * patch] -> logits [B, classes]. A class token before the patches collects the
  // information for the decision.
  Tensor forward(const Tensor& pixels, nn::TransformerWeights* weights = nullptr) const {
    const Tensor first = broadcast_to(summary, {pixels.size(0), 1, features});
    const Tensor x = cat({first, embed(pixels) + place(arange(patches))}, 1);
    nn::AttentionContext context;
    if (weights) context.weights = &weights->self;
    return out(encoder(x, context)[{range(), 0}]);
  }
  FIT_FIELDS(embed, place, summary, encoder, out)
  nn::Linear embed{patch * patch, features};
  nn::Embedding place{patches, features};
  nn::Parameter summary{randn({features})};
  nn::TransformerEncoder encoder{layer_options(), 3};
  nn::Linear out{features, 10};
};

// The accuracy in percent.
double accuracy(VisionTransformer& model, const Images& images, std::int64_t count) {
  const NoGrad no_grad;
  model.eval();
  double right = 0;
  for (const Tensor& some : split(arange(count), 500)) {
    const Tensor found = argmax(model(index_select(images.pixels, 0, some)), -1);
    right += sum((found == index_select(images.classes, 0, some)).to(float32)).item();
  }
  model.train();
  return 100 * right / static_cast<double>(count);
}

// An image, and the weights from the class token to each patch in the last layer (the mean over heads).
plot::Figure look(VisionTransformer& model, const Images& images, std::int64_t i) {
  const NoGrad no_grad;
  model.eval();
  nn::TransformerWeights weights;
  const Tensor pixels = images.pixels[{range(i, i + 1)}];
  const std::int64_t found = argmax(model(pixels, &weights), -1).item<std::int64_t>();
  const Tensor image = pixels.reshape({grid, grid, patch, patch}).transpose(1, 2).reshape({side, side});
  const Tensor by_patch = mean(weights.self.back()[{0, range(), 0, range(1)}], 0);
  const Tensor where = broadcast_to(by_patch.reshape({grid, 1, grid, 1}), {grid, patch, grid, patch});
  const std::string& name = class_names[images.classes[i].item<std::size_t>()];
  const auto plain_map = plot::Options().title(name).colormap(plot::Colormap::blues).colorbar(false);
  const auto seen = plot::Options().title("Looks here").annotate(false);
  return plot::side_by_side({plot::heatmap(image, plain_map), plot::heatmap(where.reshape({side, side}), seen)},
                            "Taken for: " + class_names[static_cast<std::size_t>(found)]);
}

}  // namespace

int main(int argc, char** argv) {
  const auto train = [](example::Example& e) {
    const Images training(e.data, "train"), test(e.data, "t10k");
    VisionTransformer model;
    dist::DataParallel parallel(model);
    const std::int64_t batch_size = 64;
    const int epochs = e.quick ? 1 : 6,
              per_epoch = e.quick ? 10 : static_cast<int>(training.classes.numel() / batch_size);
    const auto all_steps = std::int64_t{epochs} * per_epoch;
    optim::AdamW optimizer(model.named_parameters());
    optim::OneCycleLR schedule(optimizer, 2e-3, all_steps, optim::OneCycleOptions().pct_start(0.1));
    std::cout << model.num_parameters() << " parameters, " << training.classes.numel() << " images to learn from\n";

    plot::TrainingPage& page = e.follow("Fashion", all_steps, model);
    // Records the heads on the first test image.
    std::vector<std::string> tokens{"summary"};
    for (std::int64_t i = 0; i < patches; ++i)
      tokens.push_back(std::to_string(i / grid + 1) + ", " + std::to_string(i % grid + 1));
    const auto film = [&](int step) {
      e.look(
          model, step, [&] { model(test.pixels[{range(0, 1)}]); },
          [&](AttentionRecording& heads) { heads.name_tokens("", tokens); });
    };
    film(0);
    double last = 0;
    for (int epoch = 1; epoch <= epochs; ++epoch) {
      const Tensor order = randperm(training.classes.numel());
      for (int i = 0; i < per_epoch; ++i) {
        const Tensor some = parallel.rows(order[{range(i * batch_size, (i + 1) * batch_size)}]);
        const Tensor logits = model(index_select(training.pixels, 0, some));
        optimizer.zero_grad();
        last = parallel.backward(nn::cross_entropy(logits, index_select(training.classes, 0, some)));
        const double norm = optim::clip_grad_norm_(model.parameters(), 1.0);
        const int step = (epoch - 1) * per_epoch + i + 1;
        page.add({{"step", step}, {"loss", last}, {"lr", optimizer.lr()}, {"grad_norm", norm}});
        optimizer.step();
        schedule.step();
      }
      film(epoch * per_epoch);
      e.progress("epoch", epoch, epochs, "loss", last);
    }

    e.trained("Nats an image");
    for (std::int64_t i = 0; i < 4; ++i) e.picture("where_it_looks_" + std::to_string(i), look(model, test, i));
    e.at_least("test images that are told right, in percent", accuracy(model, test, e.quick ? 500 : 10000), 88);
  };
  return example::run(argc, argv, "Trains a vision transformer to tell clothes apart.", train, {example::bf16},
                      "/usr/share/datasets/fashion-mnist");
}
