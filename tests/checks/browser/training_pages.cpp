// training_pages DIR: writes a page of a training, a row for each line that it reads, and of heads for a line "heads".
// A line "end" is the end of it. Then a Trainer trains in DIR/trained.
#include <cmath>
#include <iostream>

#include "fit/fit.hpp"

using namespace fit;

namespace {

// The numbers of a step, as training_page.py knows them.
TrainingRow row(int step) {
  TrainingRow r{{"step", step}, {"loss", 1.0 / step}, {"lr", 0.001 * step}, {"grad_norm", 2.0}, {"tokens", 10}};
  if (step % 5 == 0) r["validation"] = 2.0 / step;
  r["<img src=x onerror=alert(1)>"] = 1;
  return r;
}

void trained(const std::string& out) {
  nn::GPT model(nn::GPTOptions().vocab_size(8).context_length(8).num_layers(1).num_heads(2).d_model(8));
  optim::AdamW optimizer(model.named_parameters(), 1e-2);
  const data::TensorDataset windows({randint(0, 8, {32, 9})});
  data::DataLoader loader(windows, data::LoaderOptions().batch_size(8));
  const auto t = TrainerOptions().steps(12).out(out).title("A small GPT").display(Display::none).histograms_every(2);
  Trainer trainer(
      model, optimizer, loader,
      [&](const data::Batch& b) {
        return model.loss(b[0][{range(), range(0, 8)}], b[0][{range(), range(1, 9)}]);
      },
      t);
  const Tensor text = randint(0, 8, {1, 6});
  trainer.validation([&] { return model.loss(text[{range(), range(0, 5)}], text[{range(), range(1, 6)}]).item(); }, 4);
  trainer.heads(
      [&](std::int64_t step) {
        nn::AttentionRecorder recorder(model);
        recorder.step(step);
        model(text);
        return recorder.recording();
      },
      4);
  trainer.listen(plot::training_page()).run();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  {
    const auto o = plot::TrainingPageOptions().title("</title><script>alert(2)</script>").steps(40).seconds_between(0);
    plot::TrainingPage page(folder + "/training.html", o);
    AttentionRecording recording;
    int step = 0;
    for (std::string line; std::getline(std::cin, line) && line != "end";) {
      if (line == "heads") {
        recording.add("layer", softmax(randn({2, 5, 5})));
        page.heads(recording);
      } else {
        page.add(row(++step));
      }
      std::cout << "done" << std::endl;
    }
    page.finish();
  }
  std::cout << "finished" << std::endl;
  trained(folder + "/trained");
}
