// What is in the files. How the page looks and behaves is tested in a browser: tests/checks/browser.
#include "fit/training_page.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "fit/nn/training/trainer.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

namespace fit::test::training_page_test {
using namespace fit::plot;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

TrainingPageOptions always() { return TrainingPageOptions().seconds_between(0); }

// What the page reads again and again.
json numbers(const test::Directory& folder, const std::string& name = "training.js") {
  const std::string text = test::get(folder.file(name));
  REQUIRE(text.rfind("show(", 0) == 0);
  return json::parse(text.substr(5, text.size() - 8));
}

}  // namespace

TEST_CASE("training page: histograms count the magnitudes of weights and gradients") {
  const test::Directory folder;
  TrainingPage page(folder.file("training.html"), always());
  Tensor w = tensor({0., 1e-12, -0.5, 0.2, 3., 1e9});
  w.requires_grad_();
  sum(w * 2.0).backward();
  const Tensor frozen = tensor({-INFINITY, NAN, 1.});
  page.histograms(5, {{"w", w}, {"</script>", frozen}});
  page.add({{"step", 5}, {"loss", 1}});
  const json of_w = numbers(folder)["histograms"]["w"], of_frozen = numbers(folder)["histograms"]["</script>"];
  CHECK(of_w["weights"]["x"] == json{5});
  const auto counts = of_w["weights"]["counts"][0].get<std::vector<int>>();
  REQUIRE(counts.size() == 30);
  CHECK(counts[0] == 2);   // 0, and below 1e-10
  CHECK(counts[20] == 1);  // 0.5 is between 10^-0.5 and 1
  CHECK(counts[19] == 1);  // 0.2 is between 0.1 and 10^-0.5
  CHECK(counts[21] == 1);  // 3 is between 1 and 10^0.5
  CHECK(counts[29] == 1);
  CHECK(of_w["gradients"]["counts"][0][21] == 6);
  CHECK(of_frozen["weights"]["counts"][0][29] == 2);
  CHECK_FALSE(of_frozen.contains("gradients"));
  for (int step = 6; step < 206; ++step) page.histograms(step, {{"w", w}});
  page.add({{"step", 205}, {"loss", 1}});
  const json many = numbers(folder)["histograms"]["w"]["weights"];
  CHECK(many["x"].size() == many["counts"].size());
  CHECK(many["x"].size() <= 60);
  CHECK(many["x"].back() == 205);
  std::int64_t all = 0;
  for (const auto& column : many["counts"])
    for (const auto& n : column) all += n.get<std::int64_t>();
  CHECK(all == 201 * 6);
}

TEST_CASE("training page: what is added is in the file beside the page") {
  const test::Directory folder;
  TrainingPageOptions o = always();
  o.title("Names </script> & more").steps(10);
  TrainingPage page(folder.file("training.html"), o);
  CHECK(numbers(folder)["state"] == "running");
  CHECK(numbers(folder)["series"].empty());
  CHECK_THAT(test::get(folder.file("training.html")), Contains("data-source=\"training.js\"") &&
                                                          Contains("id=\"data\"></script>") &&
                                                          Contains("Names &lt;/script&gt; &amp; more"));
  page.add({{"step", 1}, {"loss", 2.5}, {"lr", 0.1}});
  CHECK(numbers(folder)["series"]["loss"]["y"] == json{2.5});
  page.add({{"step", 2}, {"loss", 1.5}, {"validation", 3.5}, {"accuracy", NAN}});
  page.finish();
  const json d = numbers(folder);
  CHECK(d["series"]["loss"]["x"] == json{1, 2});
  CHECK(d["series"]["loss"]["y"] == json{2.5, 1.5});
  CHECK(d["series"]["validation"]["x"] == json{2});
  CHECK(d["series"]["lr"]["x"] == json{1});
  CHECK_FALSE(d["series"].contains("accuracy"));
  CHECK(d["state"] == "done");
  CHECK(d["step"] == 2);
  CHECK(d["steps"] == 10);
  CHECK(d["title"] == "Names </script> & more");
  // the page of a training that has ended holds its numbers
  const std::string html = test::get(folder.file("training.html"));
  CHECK_THAT(html, Contains("\"y\":[2.5,1.5]") && Contains("Names \\u003c/script> & more"));
  CHECK_FALSE(std::filesystem::exists(folder.file("training.js.tmp-0")));
}

TEST_CASE("training page: a long training is thinned out, and its extremes are kept") {
  const test::Directory folder;
  TrainingPage page(folder.file("training.html"), TrainingPageOptions().seconds_between(1000));
  for (int step = 1; step <= 10000; ++step) page.add({{"step", step}, {"loss", step == 5000 ? 7.0 : step % 2}});
  page.finish();
  const json loss = numbers(folder)["series"]["loss"];
  REQUIRE(loss["x"].size() <= 2000);
  CHECK(loss["x"].size() >= 1000);
  CHECK(loss["x"].back() == 10000);
  double highest = 0, mean = 0;
  for (std::size_t i = 0; i < loss["x"].size(); ++i) {
    highest = std::max(highest, loss["high"][i].get<double>());
    CHECK(loss["low"][i] == 0);
    mean += loss["y"][i].get<double>() / static_cast<double>(loss["x"].size());
  }
  CHECK(highest == 7);
  CHECK(mean == Approx((5000 + 7) / 10000.0));
}

TEST_CASE("training page: it says how it ended, and what a training that goes on had before") {
  const test::Directory folder;
  { TrainingPage page(folder.file("a.html")); }
  CHECK(numbers(folder, "a.js")["state"] == "stopped");
  TrainingPageOptions o = always();
  o.before({{{"step", 1}, {"loss", 4}}, {{"step", 2}, {"loss", 3}}});
  TrainingPage page(folder.file("a.html"), o);
  CHECK(numbers(folder, "a.js")["series"]["loss"]["y"] == json{4, 3});
  page.add({{"step", 3}, {"loss", 2}, {"tokens", 100}});
  page.add({{"step", 4}, {"loss", 1}, {"tokens", 100}});
  page.finish(TrainingState::stopped);
  const json d = numbers(folder, "a.js");
  CHECK(d["series"]["loss"]["y"] == json{4, 3, 2, 1});
  CHECK(d["first"] == 3);
  CHECK(d["rate"] == "Tokens a second");
  CHECK(d["series"]["rate"]["x"].size() == 1);
  CHECK(d["state"] == "stopped");
}

TEST_CASE("training page: heads stand beside it") {
  const test::Directory folder;
  TrainingPage page(folder.file("training.html"), always());
  AttentionRecording recording;
  recording.add("layer", full({2, 3, 3}, 1.0 / 3));
  page.heads(recording);
  page.add({{"step", 1}, {"loss", 1}});
  CHECK(numbers(folder)["heads"] == 1);
  CHECK_THAT(test::get(folder.file("training_heads.html")), Contains("\"layer\""));
  page.add({{"step", 2}, {"loss", 1}});
  CHECK(numbers(folder)["heads"] == 1);
  page.heads(recording);
  page.finish();
  CHECK(numbers(folder)["heads"] == 2);
}

TEST_CASE("training page: what can't be is an error, a disk that is full is told") {
  const test::Directory folder;
  CHECK_THROWS_AS(TrainingPage("/dev/null/training.html"), FileError);
  CHECK_THROWS_WITH(TrainingPage(folder.file("training.htm")), Contains("must end with .html"));
  CHECK_THROWS_AS(TrainingPage("x"), Error);
  auto o = TrainingPageOptions().steps(-1);
  CHECK_THROWS_WITH(TrainingPage(folder.file("a.html"), o), Contains("steps is -1"));
  o.steps(0).seconds_between(NAN);
  CHECK_THROWS_WITH(TrainingPage(folder.file("a.html"), o), Contains("seconds_between"));

  std::ostringstream said;
  std::streambuf* const before = std::cerr.rdbuf(said.rdbuf());
  {
    TrainingPage page(folder.file("sub/training.html"), always());
    CHECK_THROWS_WITH(page.add({{"loss", 1}}), Contains("\"step\""));
    std::filesystem::remove_all(folder.file("sub"));
    test::put(folder.file("sub"), "in the way");
    page.add({{"step", 1}, {"loss", 1}});
    page.add({{"step", 2}, {"loss", 1}});
  }
  std::cerr.rdbuf(before);
  CHECK_THAT(said.str(), Contains("[plot::TrainingPage] " + folder.file("sub/training.js") + " can't be written"));
  CHECK(said.str().find("can't be written") == said.str().rfind("can't be written"));
}

TEST_CASE("training page: the loss as a picture") {
  const test::Directory folder;
  TrainingPage page(folder.file("training.html"));
  page.add({{"step", 1}, {"loss", 2}});
  page.add({{"step", 2}, {"loss", 1}, {"validation", 1}});
  CHECK_THAT(page.loss(plot::LineOptions().title("Loss").xlabel("Step").ylabel("Nats")).svg(),
             Contains("training") && Contains("validation"));
}

TEST_CASE("training page: Ctrl-C shows the training as stopped, and then ends the program") {
  const test::Directory folder;
  for (const int signal : {SIGINT, SIGTERM}) {
    const pid_t child = fork();
    if (child == 0) {
      std::signal(signal, SIG_DFL);
      if (!std::freopen("/dev/null", "w", stderr)) _exit(2);
      const auto save = [&] { test::put(folder.file("stopped"), "at " + std::to_string(signal)); };
      TrainingPage page(folder.file("training.html"), TrainingPageOptions().seconds_between(1000).on_stop(save));
      for (int step = 1;; ++step) {
        if (step == 244) std::raise(signal);
        page.add({{"step", step}, {"loss", 1.0}});
        if (step > 300) _exit(0);
      }
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK((WIFSIGNALED(status) && WTERMSIG(status) == signal));
    CHECK(numbers(folder)["state"] == "stopped");
    CHECK(numbers(folder)["step"] == 244);
    CHECK(test::get(folder.file("stopped")) == "at " + std::to_string(signal));
  }
  const InterruptGuard own;  // a loop with a guard ends itself
  TrainingPage page(folder.file("guarded.html"), always());
  std::raise(SIGINT);
  page.add({{"step", 1}, {"loss", 1.0}});
  CHECK(numbers(folder, "guarded.js")["state"] == "running");
}

}  // namespace fit::test::training_page_test
