#include <unistd.h>

#include <csignal>
#include <vector>

#include "fit/graph/graph.hpp"
#include "io/folder_lock.hpp"
#include "nn/models/trained.hpp"
#include "support/catch.hpp"
#include "support/child.hpp"
#include "support/files.hpp"

// One training writes to a folder at a time.
namespace fit::test::trainer_folder_test {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::Equals;

std::string host() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

std::string refusal(const std::string& folder, pid_t holder) {
  return "[Trainer] another training writes to the folder " + folder + ": process " + std::to_string(holder) +
         " on the host " + host() + "; wait for its end, end it, or give this one another folder";
}

// The steps of the rows of the metrics.
std::vector<double> logged(const Directory& d) {
  std::vector<double> steps;
  const MetricsLog log(d.file("metrics.jsonl"), 1000);
  for (const auto& row : log.rows()) steps.push_back(row.at("step"));
  return steps;
}

}  // namespace

TEST_CASE("trainer: a second training in a folder is refused at its start, and the first one loses nothing") {
  const Directory d;
  int refused = 0;
  Trained first(quiet(6, d.path.string()).save_every(1));
  Trained second(quiet(6, d.path.string()).save_every(1));
  first.trainer.after_step([&] {
    if (first.trainer.checkpoint().step % 2 == 0) return;
    CHECK_THROWS_WITH(second.trainer.run(), Equals(refusal(d.path.string(), getpid())));
    CHECK(second.trainer.checkpoint().step == 0);
    ++refused;
  });
  first.trainer.run();
  CHECK(refused == 3);
  CHECK(logged(d) == std::vector<double>{1, 2, 3, 4, 5, 6});
  CHECK(checkpoint_info(d.file("last.safetensors")).step == 6);
  CHECK_FALSE(std::filesystem::exists(d.file(".lock")));
  second.trainer.run();  // the folder is free
  CHECK(second.trainer.checkpoint().step == 6);
}

TEST_CASE("trainer: a training that fails, or never begins, frees its folder") {
  const Directory d;
  Trained broken(quiet(6, d.path.string()), [](int step) {
    if (step == 3) throw Error("broken");
  });
  CHECK_THROWS_WITH(broken.trainer.run(), Contains("broken"));
  Trained longer(quiet(1, d.path.string()));
  CHECK_THROWS_WITH(longer.trainer.run(), Contains("holds a training of 2 steps"));
  Trained next(quiet(6, d.path.string()).resume());
  CHECK(next.trainer.run().step == 6);
  CHECK(logged(d) == std::vector<double>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("trainer: a process that holds a folder is named, and frees the folder when it is killed") {
  const Directory d;
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    set_num_threads(1);
    Trained holds(quiet(6, d.path.string()).save_every(1), [&](int step) {
      if (step < 4) return;
      if (write(ready[1], "x", 1) != 1) _exit(1);
      while (true) pause();
    });
    holds.trainer.run();
    _exit(1);
  }
  char c;
  REQUIRE(read(ready[0], &c, 1) == 1);
  Trained second(quiet(6, d.path.string()).resume());
  CHECK_THROWS_WITH(second.trainer.run(), Equals(refusal(d.path.string(), child)));
  REQUIRE(kill(child, SIGKILL) == 0);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  CHECK(std::filesystem::exists(d.file(".lock")));  // left behind, and held by no process
  Trained third(quiet(6, d.path.string()).resume());
  CHECK(third.trainer.restore() == 3);
  CHECK(third.trainer.run().step == 6);
  CHECK(logged(d) == std::vector<double>{1, 2, 3, 4, 5, 6});
  CHECK_FALSE(std::filesystem::exists(d.file(".lock")));
  close(ready[0]), close(ready[1]);
}

TEST_CASE("trainer: of many processes that begin at once in a folder, one trains there") {
  const Directory d;
  constexpr int processes = 8;
  int go[2];
  REQUIRE(pipe(go) == 0);
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      set_num_threads(1);
      close(go[1]);
      char c;
      if (read(go[0], &c, 1) != 0) _exit(9);  // until the parent closes the pipe
      try {
        Trained one(quiet(20, d.path.string()).resume().save_every(1));
        one.trainer.run();
        _exit(0);
      } catch (const Error& e) {
        _exit(std::string(e.what()).find("another training writes to the folder") != std::string::npos ? 1 : 2);
      }
    }
    children.push_back(child);
  }
  close(go[0]), close(go[1]);
  int ran = 0;
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) <= 1);
    ran += WEXITSTATUS(status) == 0;
  }
  CHECK(ran >= 1);
  std::vector<double> steps;
  for (int i = 1; i <= 20; ++i) steps.push_back(i);
  CHECK(logged(d) == steps);
}

TEST_CASE("a folder that can't be locked is not held, and a lock leaves nothing open") {
  const Directory d;
  const auto open_files = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); };
  const auto before = open_files();
  for (int i = 0; i < 3; ++i) {
    const io::FolderLock lock(d.path.string()), refused(d.path.string());
    CHECK_FALSE(refused.holder().empty());
  }
  CHECK(open_files() == before);
  CHECK(io::FolderLock(d.file("nowhere")).holder().empty());
  const io::FolderLock first(d.path.string()), second(d.path.string());
  CHECK(first.holder().empty());
  CHECK(second.holder() == "process " + std::to_string(getpid()) + " on the host " + host());
}

}  // namespace fit::test::trainer_folder_test
