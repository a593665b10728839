// The pieces of the training loop: the progress bar, the metrics, early stopping, Ctrl-C.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <iostream>
#include <sstream>

#include "fit/nn/training/interrupt.hpp"
#include "fit/nn/training/trainer.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/pseudo_terminal.hpp"
#include "support/text.hpp"

namespace fit::test::progress_test {
namespace {

using Catch::Matchers::Contains;

int lines_of(const std::string& text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

}  // namespace

TEST_CASE("trainer: the progress bar", "[trainer]") {
  std::ostringstream lines;
  {
    ProgressBar bar(200, 0, Display::lines, lines, 0);
    bar.update(50, 1.25, 1000);
    bar.print("a note");
    bar.update(200, 0.5, 1000);
  }
  CHECK_THAT(lines.str(), Contains("50/200  25 %  loss 1.2500  ") && Contains(" tokens/s  ") &&
                              Contains("\na note\n") && Contains("200/200 100 %  loss 0.5000") &&
                              Contains("0:00 left\n"));
  CHECK(lines_of(lines.str()) == 3);

  std::ostringstream rare;  // an hour between lines: the first and the last
  {
    ProgressBar bar(100, 40, Display::automatic, rare, 3600);
    for (int step = 41; step <= 100; ++step) bar.update(step, step);
  }
  CHECK(lines_of(rare.str()) == 2);
  CHECK_THAT(rare.str(), Contains("41/100") && Contains("loss 100.0000") && Contains("steps/s"));

  std::ostringstream drawn;
  {
    ProgressBar bar(4, 0, Display::bar, drawn);
    bar.update(1, 2);
    bar.print("note");
    bar.update(2, 1);
  }
  CHECK_THAT(drawn.str(), Contains("\r1/4 [#####...............]  25 %") && Contains("\r\033[Knote\n") &&
                              Contains("\r2/4 [##########..........]  50 %"));
  CHECK(drawn.str().back() == '\n');

  std::ostringstream wide;  // a terminal's line is not passed
  {
    ProgressBar bar(100000000, 99999990, Display::bar, wide);
    bar.update(99999999, 123456.7891);
  }
  CHECK(wide.str().find('\033') <= 80);
  CHECK_THAT(wide.str(), Contains("99999999/100000000 [#") && Contains(" left"));

  std::ostringstream slow;  // hours are left: one step of a billion is made
  {
    ProgressBar bar(1000000000000, 0, Display::lines, slow, 0);
    bar.update(1, 1);
    ProgressBar endless(0, 0, Display::lines, slow, 0);
    endless.update(5, 1);
  }
  CHECK_THAT(slow.str(),
             Catch::Matches("1/1000000000000   0 %[^\n]* [0-9]+:[0-9][0-9]:[0-9][0-9] left\n5/0 100 %[^\n]*\n"));

  // On a terminal a bar is drawn, elsewhere lines are printed.
  std::string on_terminal;
  {
    const PseudoTerminal terminal;
    for (std::ostream* const out : {&std::cout, &std::cerr}) {
      std::stringbuf text;
      std::streambuf* const before = out->rdbuf(&text);
      ProgressBar(4, 0, Display::automatic, *out).update(1, 2);
      out->rdbuf(before);
      on_terminal += text.str();
    }
  }
  CHECK(count(on_terminal, "\r1/4 [#####") == 2);

  std::ostringstream none;
  ProgressBar(10, 0, Display::none, none).update(1, 1);
  CHECK(none.str().empty());
}

TEST_CASE("trainer: metrics are lines of JSON", "[trainer]") {
  const Directory d;
  {
    MetricsLog log(d.file("m.jsonl"));
    log.add({{"step", 1}, {"loss", 0.5}});
    log.add({{"step", 2}, {"loss", NAN}});
    log.add({{"step", 3}, {"loss", 2}});
  }
  CHECK(get(d.file("m.jsonl")) == "{\"loss\":0.5,\"step\":1}\n{\"loss\":null,\"step\":2}\n{\"loss\":2,\"step\":3}\n");
  MetricsLog resumed(d.file("m.jsonl"), 2);
  REQUIRE(resumed.rows().size() == 2);
  CHECK(std::isnan(resumed.rows()[1].at("loss")));
  CHECK(lines_of(get(d.file("m.jsonl"))) == 2);
  CHECK_THROWS_AS(MetricsLog(d.file("no/folder")), FileError);
  CHECK_THROWS_WITH(MetricsLog().add({{"loss", 1}, {"los\xff", 2}}),
                    "[MetricsLog] a name in the row {\"loss\":1,\"los\\ufffd\":2} is not valid UTF-8 where \\ufffd is");
}

TEST_CASE("trainer: early stopping by hand", "[trainer]") {
  EarlyStopping e(2, 0.1);
  CHECK(e.update(1.0));
  CHECK_FALSE(e.update(0.95));  // not by more than 0.1
  CHECK_FALSE(e.stop());
  CHECK_FALSE(e.update(NAN));
  CHECK(e.stop());
  EarlyStopping other(2, 0.1);
  other.load_state_dict(e.state_dict());
  CHECK(other.stop());
  CHECK(other.best() == 1.0);
  CHECK(other.update(0.5));
  CHECK_FALSE(other.stop());
  EarlyStopping never;
  for (int i = 0; i < 9; ++i) never.update(i);
  CHECK_FALSE(never.stop());
  CHECK_THROWS_WITH(EarlyStopping(-1), "[EarlyStopping] patience is -1: it must not be negative");
  for (const double wrong : {-0.5, std::nan(""), double{INFINITY}})
    CHECK_THROWS_WITH(EarlyStopping(2, wrong), Contains("it must be finite and not negative"));
}

TEST_CASE("trainer: the first Ctrl-C is noted, the second ends the program", "[trainer]") {
  {
    const InterruptGuard guard;
    CHECK_FALSE(InterruptGuard::interrupted());
    std::raise(SIGINT);
    CHECK(InterruptGuard::interrupted());
  }
  {
    const InterruptGuard again;
    CHECK_FALSE(InterruptGuard::interrupted());
  }
  for (const int second : {SIGINT, SIGTERM}) {
    const pid_t child = fork();
    if (child == 0) {
      std::signal(SIGINT, SIG_DFL);
      const InterruptGuard guard;
      std::raise(SIGINT);
      std::raise(second);
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK((WIFSIGNALED(status) && WTERMSIG(status) == second));
  }
  const auto before = std::signal(SIGINT, SIG_IGN);  // as in a shell's background
  {
    const InterruptGuard guard;
    std::raise(SIGINT);
    CHECK_FALSE(InterruptGuard::interrupted());
    std::raise(SIGTERM);
    CHECK(InterruptGuard::interrupted());
    std::raise(SIGINT);
  }
  std::signal(SIGINT, before);
}

}  // namespace fit::test::progress_test
