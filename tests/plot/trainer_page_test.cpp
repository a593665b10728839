#include <csignal>
#include <filesystem>

#include "fit/nn/training/trainer.hpp"
#include "fit/training_page.hpp"
#include "nn/models/trained.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/text.hpp"

// The page of a Trainer.
namespace fit::test::trainer_page_test {

using Catch::Matchers::Contains;
using plot::training_page;

TEST_CASE("trainer: a page follows the training, and shows what its heads do", "[trainer]") {
  const Directory d;
  std::vector<std::int64_t> looked;
  const auto look = [&](std::int64_t step) {
    looked.push_back(step);
    CHECK_FALSE(grad_enabled());
    AttentionRecording r;
    const auto o = AttentionRecordOptions().step(step);
    r.add("layer", full({1, 2, 2}, 0.5), o);
    return r;
  };
  TrainerOptions options = quiet(10, d.path.string());
  options.title("Followed");
  Trained t(options, [&](int step) {
    if (step == 1) CHECK_THAT(get(d.file("training.js")), Contains("\"state\":\"running\""));
  });
  t.trainer.heads(look, 4).validation([&] { return 1.; }, 5).listen(training_page());
  t.trainer.run();
  CHECK(looked == std::vector<std::int64_t>{0, 4, 8, 10});
  const std::string page = get(d.file("training.html"));
  for (const char* const what : {"\"title\":\"Followed\"", "\"state\":\"done\"", "\"steps\":10",
                                 "\"loss\":", "\"lr\":", "\"grad_norm\":", "\"validation\":"})
    CHECK_THAT(page, Contains(what));
  CHECK_THAT(get(d.file("training_heads.html")), Contains("\"frames\":[[0,0],[4,0],[8,0],[10,0]]"));

  options.resume(true).steps(12);  // goes on with what there was
  Trained on(options);
  on.trainer.listen(training_page()).run();
  CHECK_THAT(get(d.file("training.html")), Contains("\"x\":[1.0,2.0,3.0") && Contains("11.0,12.0]"));
  CHECK_THAT(get(d.file("loss.svg")), Contains("<svg") && Contains("training") && Contains("validation"));
}

TEST_CASE("trainer: the page has histograms, and says that a training was stopped", "[trainer]") {
  const Directory d;
  Trained t(quiet(4, d.path.string()).histograms_every(3), [](int step) {
    if (step == 3) std::raise(SIGINT);
  });
  t.trainer.listen(training_page()).run();
  CHECK_THAT(get(d.file("training.html")), Contains("\"weights\":{\"counts\"") &&
                                               Contains("\"gradients\":{\"counts\"") &&
                                               Contains("\"state\":\"stopped\""));
}

TEST_CASE("trainer: without a listener or a folder there is no page", "[trainer]") {
  const Directory d;
  Trained t(quiet(2, d.path.string()));
  t.trainer.run();
  for (const char* file : {"training.html", "training.js", "loss.svg"})
    CHECK_FALSE(std::filesystem::exists(d.file(file)));
  CHECK(std::filesystem::exists(d.file("metrics.jsonl")));
  Trained nowhere(quiet(2));
  CHECK(nowhere.trainer.listen(training_page()).run().step == 2);
  CHECK_FALSE(std::filesystem::exists("training.html"));
}

}  // namespace fit::test::trainer_page_test
