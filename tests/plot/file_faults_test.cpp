#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <thread>

#include "fit/fit.hpp"
#include "io/input_file.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

// What is no file, a file that changes under the reader, and disks that take no more: errors, and the old file stays.
namespace fit::test::file_faults_test {
namespace {

using Catch::Matchers::Contains;

struct Reader {
  const char* name;
  void (*read)(const std::string& path);
};
const Reader readers[] = {
    {"load_npy", [](const std::string& p) { load_npy(p); }},
    {"load_npz", [](const std::string& p) { load_npz(p); }},
    {"load_safetensors", [](const std::string& p) { load_safetensors(p); }},
    {"load_weights",
     [](const std::string& p) {
       nn::Linear layer(2, 2);
       nn::load_weights(layer, p);
     }},
    {"checkpoint_info", [](const std::string& p) { checkpoint_info(p); }},
    {"read_text", [](const std::string& p) { data::read_text(p); }},
    {"read_lines", [](const std::string& p) { data::read_lines(p); }},
    {"read_csv", [](const std::string& p) { data::read_csv(p); }},
    {"read_idx", [](const std::string& p) { data::read_idx(p); }},
    {"CharVocabulary", [](const std::string& p) { text::CharVocabulary::load(p); }},
    {"BytePairVocabulary", [](const std::string& p) { text::BytePairVocabulary::load(p); }},
    {"WordPieces", [](const std::string& p) { text::WordPieces::load(p); }},
    {"GPT2Vocabulary", [](const std::string& p) { text::GPT2Vocabulary::load(p, p); }},
};

// Runs f in a process of its own, which may be limited; its result. -1 if a signal ended it.
template <class F>
int in_child(const F& f) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    set_num_threads(1);
    int result = 99;
    try {
      result = f();
    } catch (...) {
    }
    _exit(result);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Whether f throws a FileError that says `text`.
template <class F>
bool refuses(const F& f, const std::string& text) {
  try {
    f();
  } catch (const FileError& e) {
    return std::string(e.what()).find(text) != std::string::npos;
  }
  return false;
}

std::size_t files_in(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

// Whether a disk, in memory, could be mounted that this process alone sees; it needs not be root for that.
bool has_disk_of_its_own(const char* path, const char* options) {
  const std::string user = std::to_string(geteuid()), group = std::to_string(getegid());
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  put("/proc/self/setgroups", "deny");
  put("/proc/self/uid_map", "0 " + user + " 1");
  put("/proc/self/gid_map", "0 " + group + " 1");
  return mount("none", path, "tmpfs", 0, options) == 0;
}

struct Writer {
  const char* name;
  void (*write)(const std::string& path, const Tensor& x);
};
const Writer writers[] = {
    {"save_npy", [](const std::string& p, const Tensor& x) { save_npy(p, x); }},
    {"save_npz",
     [](const std::string& p, const Tensor& x) {
       save_npz(p, {{"x", x}});
     }},
    {"save_safetensors",
     [](const std::string& p, const Tensor& x) {
       save_safetensors(p, {{"x", x}});
     }},
    {"CharVocabulary",
     [](const std::string& p, const Tensor& x) {
       std::string text;
       for (std::int64_t i = 0; i < x.numel(); ++i)
         text += {static_cast<char>(0xE4), static_cast<char>(0xB8 + i / 64 % 4), static_cast<char>(0x80 + i % 64)};
       text::CharVocabulary(text).save(p);
     }},
};

}  // namespace

TEST_CASE("pipes, folders, devices and links to nowhere are errors for every reader", "[files]") {
  const Directory d;
  REQUIRE(mkfifo(d.file("pipe").c_str(), 0600) == 0);
  std::filesystem::create_directory(d.file("folder"));
  std::filesystem::create_symlink(d.file("nothing"), d.file("dangling"));
  std::filesystem::create_symlink(d.file("circle"), d.file("circle"));
  std::filesystem::create_symlink(d.file("pipe"), d.file("to the pipe"));
  for (const Reader& r : readers) {
    for (const std::string& path : {d.file("pipe"), d.file("folder"), std::string("/dev/zero"),
                                    std::string("/dev/null"), d.file("to the pipe")}) {
      INFO(r.name << " of " << path);
      CHECK_THROWS_AS(r.read(path), FileError);
      CHECK_THROWS_WITH(r.read(path), Contains(path) && Contains("it is not a regular file"));
    }
    for (const std::string& path : {d.file("nothing"), d.file("dangling"), d.file("circle"), d.file("folder") + "/x"}) {
      INFO(r.name << " of " << path);
      CHECK_THROWS_WITH(r.read(path), Contains("there is no such file"));
    }
  }
}

TEST_CASE("a link to a file is that file", "[files]") {
  const Directory d;
  save_npy(d.file("x"), arange(3));
  std::filesystem::create_symlink(d.file("x"), d.file("link"));
  CHECK(same_bits(load_npy(d.file("link")), arange(3)));
}

TEST_CASE("who may not read or write is told so", "[files]") {
  const Directory d;
  save_npy(d.file("x"), arange(3));
  chmod(d.file("x").c_str(), 0);
  std::filesystem::create_directory(d.file("closed"));
  save_npy(d.file("closed") + "/x", arange(3));
  chmod(d.file("closed").c_str(), 0555);
  chmod(d.path.c_str(), 0755);
  CHECK(in_child([&] {
          if (geteuid() == 0 && setuid(65534) != 0) return 1;
          if (!refuses([&] { load_npy(d.file("x")); }, "can't be opened for reading")) return 2;
          if (!refuses([&] { save_npy(d.file("closed") + "/y", arange(3)); }, "can't be created")) return 3;
          if (!refuses([&] { save_npy(d.file("closed") + "/x", arange(4)); }, "can't be created")) return 4;
          return load_npy(d.file("closed") + "/x").numel() == 3 ? 0 : 5;
        }) == 0);
  chmod(d.file("closed").c_str(), 0755);
}

TEST_CASE("a file that would be longer than the limit is an error, not the end of the program", "[files]") {
  const Directory d;
  for (const Writer& w : writers) {
    INFO(w.name);
    const std::string path = d.file(w.name);
    w.write(path, ones({2}));
    const std::string before = get(path);
    CHECK(in_child([&] {
            const rlimit limit{200, 200};
            setrlimit(RLIMIT_FSIZE, &limit);
            std::signal(SIGXFSZ, SIG_DFL);
            if (!refuses([&] { w.write(path, ones({100})); }, "can't be written")) return 1;
            sigset_t mask, pending;
            pthread_sigmask(SIG_SETMASK, nullptr, &mask);
            sigpending(&pending);
            if (sigismember(&mask, SIGXFSZ) || sigismember(&pending, SIGXFSZ)) return 2;
            return 0;
          }) == 0);
    CHECK(get(path) == before);
  }
  CHECK(files_in(d.path) == std::size(writers));  // nothing half-written is left
  CHECK(in_child([&] {
          const rlimit limit{200, 200};
          setrlimit(RLIMIT_FSIZE, &limit);
          MetricsLog log(d.file("metrics"));
          for (int i = 0; i < 100; ++i) log.add({{"step", i}, {"loss", 0.125}});
          if (log.rows().size() != 100) return 1;
          return refuses([&] { plot::heatmap(ones({30, 30})).save(d.file("m.svg")); }, "cannot write") ? 0 : 2;
        }) == 0);
}

TEST_CASE("a full disk is an error, and the old file stays", "[files]") {
  const Directory d;
  const int result = in_child([&] {
    if (!has_disk_of_its_own(d.path.c_str(), "size=64k")) return 77;
    nn::Linear layer(2, 2);
    optim::Adam optimizer(layer.named_parameters(), 0.1);
    Checkpoint checkpoint;
    checkpoint.add("model", layer).add("optimizer", optimizer).step = 7;
    checkpoint.save(d.file("checkpoint"));
    for (const Writer& w : writers) w.write(d.file(w.name), ones({2}));
    const int filler = open(d.file("filler").c_str(), O_CREAT | O_WRONLY, 0666);
    const std::string page(4096, 'x');
    while (write(filler, page.data(), page.size()) > 0) {
    }
    if (errno != ENOSPC) return 1;
    for (const Writer& w : writers) {
      const std::string before = get(d.file(w.name));
      if (!refuses([&] { w.write(d.file(w.name), ones({100})); }, "can't be written: No space left on device"))
        return 2;
      if (get(d.file(w.name)) != before) return 3;
    }
    checkpoint.step = 8;
    if (!refuses([&] { checkpoint.save(d.file("checkpoint")); }, "No space left on device")) return 4;
    if (files_in(d.path) != std::size(writers) + 2) return 5;  // nothing half-written is left
    checkpoint.load(d.file("checkpoint"));
    return checkpoint.step == 7 ? 0 : 6;
  });
  if (result == 77)
    WARN("not tested: this system lets no process mount a disk of its own");
  else
    CHECK(result == 0);
}

TEST_CASE("a file that is cut while it is read is an error", "[files]") {
  const Directory d;
  save_npy(d.file("x"), zeros({1000}));
  io::InputFile file("test", d.file("x"));
  std::vector<char> bytes(4096);
  REQUIRE(truncate(d.file("x").c_str(), 100) == 0);
  CHECK_THROWS_WITH(file.read(bytes.data(), 4096), Contains("[test]") && Contains("found fewer"));

  // By another thread, at any moment: what comes back is the whole or an error.
  save_safetensors(d.file("model"), {{"a", full({3000}, 7)}, {"b", full({3000}, 7)}});
  const std::string whole = get(d.file("model"));
  std::atomic<bool> stop{false};
  std::thread cutter([&] {
    for (unsigned i = 0; !stop; ++i) {
      truncate(d.file("model").c_str(), static_cast<off_t>(i * 977 % whole.size()));
      put(d.file("model"), whole);
    }
  });
  int read = 0, refused = 0, wrong = 0;
  for (int i = 0; i < 300; ++i) try {
      // What was cut away and written anew while it was read may be zero: no reader can tell.
      load_safetensors(d.file("model")).tensors.size() == 2 ? ++read : ++wrong;
    } catch (const FileError&) {
      ++refused;
    }
  stop = true;
  cutter.join();
  CHECK(read + refused == 300);
  CHECK(wrong == 0);
}

TEST_CASE("a tensor may be saved over the file that it was loaded from", "[files]") {
  const Directory d;
  save_safetensors(d.file("m"), {{"a", arange(1000)}, {"b", ones({3})}});
  for (int i = 0; i < 3; ++i) {
    const SafeTensors all = load_safetensors(d.file("m"));
    save_safetensors(d.file("m"), all.tensors);
  }
  CHECK(same_bits(load_safetensors(d.file("m")).tensors.at(0).second, arange(1000)));
}

}  // namespace fit::test::file_faults_test
