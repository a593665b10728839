#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <map>
#include <set>
#include <sstream>

#include "fit/fit.hpp"
#include "io/atomic_file.hpp"
#include "support/catch.hpp"
#include "support/child.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

// Everything that writes a file: an old file is replaced completely or not at all.
namespace fit::test::written_files_test {
namespace {

using Catch::Matchers::Contains;
namespace fs = std::filesystem;

std::string letters(std::int64_t n) {
  std::string text;
  for (std::int64_t i = 0; i < n; ++i)
    text += {static_cast<char>(0xE4), static_cast<char>(0xB8 + i / 64 % 4), static_cast<char>(0x80 + i % 64)};
  return text;
}

plot::WorkbenchRun run_of(const Tensor& x) {
  return {"a", {{{"step", 1}, {"loss", static_cast<double>(x.numel())}}}, {}};
}

nn::GPT small_gpt() {
  return nn::GPT(nn::GPTOptions().vocab_size(4).context_length(4).num_layers(1).num_heads(1).d_model(4));
}

// A function that writes `path`: more for more elements of x.
struct Writer {
  const char* name;
  const char* ending;
  const char* source;  // opens the file
  const char* header;  // declares the function with a path; null for a class that writes by itself
  void (*write)(const std::string& path, const Tensor& x);
};
const Writer writers[] = {
    {"save_npy", ".npy", "core/io/npy.cpp", "io/npy.hpp",
     [](const std::string& p, const Tensor& x) { save_npy(p, x); }},
    {"save_npz", ".npz", "core/io/npz.cpp", "io/npz.hpp",
     [](const std::string& p, const Tensor& x) {
       save_npz(p, {{"x", x}});
     }},
    {"save_safetensors", ".safetensors", "core/io/safetensors.cpp", "io/safetensors.hpp",
     [](const std::string& p, const Tensor& x) {
       save_safetensors(p, {{"x", x}});
     }},
    {"save_weights", ".safetensors", "nn/weights/files.cpp", "nn/weights/weights.hpp",
     [](const std::string& p, const Tensor& x) { nn::save_weights(p, nn::Linear(x.numel(), 2)); }},
    {"save_weights to .npz", ".npz", "nn/weights/files.cpp", "",
     [](const std::string& p, const Tensor& x) { nn::save_weights(p, nn::Linear(x.numel(), 2)); }},
    {"save_gguf", ".gguf", "core/io/gguf.cpp", "nn/weights/gguf.hpp",
     [](const std::string& p, const Tensor& x) {
       const auto o = nn::GPTOptions().context_length(4).num_layers(1).num_heads(1).d_model(4);
       nn::save_gguf(p, nn::GPT(nn::GPTOptions(o).vocab_size(4 * x.numel())));
     }},
    {"Checkpoint", ".safetensors", "nn/training/checkpoint.cpp", "nn/training/checkpoint.hpp",
     [](const std::string& p, const Tensor& x) {
       nn::Linear layer(x.numel(), 2);
       Checkpoint().add("model", layer).save(p);
     }},
    {"CharVocabulary", ".json", "nn/tokenizers/vocabulary.cpp", "nn/tokenizers/text.hpp",
     [](const std::string& p, const Tensor& x) { text::CharVocabulary(letters(x.numel())).save(p); }},
    {"BytePairVocabulary", ".json", "nn/tokenizers/vocabulary.cpp", "nn/tokenizers/text.hpp",
     [](const std::string& p, const Tensor& x) {
       text::BytePairVocabulary::train(letters(x.numel()) + letters(x.numel()), 1000).save(p);
     }},
    {"Tokenizer", ".json", "nn/tokenizer/tokenizer.cpp", "nn/tokenizer/tokenizer.hpp",
     [](const std::string& p, const Tensor& x) {
       const std::string text = letters(x.numel());
       text::Tokenizer::train(text + text, text::TokenizerOptions().vocab_size(300)).save(p);
     }},
    {"Figure", ".svg", "nn/plot/figures/drawing.cpp", "plot.hpp",
     [](const std::string& p, const Tensor& x) {
       plot::heatmap(x.reshape({1, x.numel()})).save(p);
     }},
    {"workbench of a recording", ".html", "nn/plot/workbench.cpp", "workbench.hpp",
     [](const std::string& p, const Tensor& x) {
       AttentionRecording recording;
       recording.add("layer", softmax(x.reshape({1, 1, x.numel()})));
       plot::write_workbench(p, recording);
     }},
    {"workbench of runs", ".html", "nn/plot/workbench.cpp", "workbench.hpp",
     [](const std::string& p, const Tensor& x) { plot::write_workbench(p, {run_of(x)}); }},
    {"workbench of a model", ".html", "nn/plot/workbench.cpp", "workbench.hpp",
     [](const std::string& p, const Tensor& x) {
       const auto o = plot::WorkbenchOptions().title(std::to_string(x.numel()));
       plot::write_workbench(p, small_gpt(), text::CharVocabulary("abcd"), {"ab"}, o);
     }},
    {"five-minutes page", ".html", "nn/plot/five_minutes_page.cpp", "five_minutes_page.hpp",
     [](const std::string& p, const Tensor& x) {
       const auto o = plot::FiveMinutesOptions().title(std::to_string(x.numel()));
       plot::write_five_minutes_page(p, small_gpt(), {"a", "b", "c", "d"}, {"a b"}, o);
     }},
    {"training page", ".html", "nn/plot/training_page.cpp", nullptr,
     [](const std::string& p, const Tensor& x) {
       plot::TrainingPage page(p, plot::TrainingPageOptions().steps(x.numel()));
     }},
    {"lesson", ".html", "nn/plot/lesson/lesson.cpp", nullptr,
     [](const std::string& p, const Tensor& x) {
       Lesson lesson(p, LessonOptions().source("/// # A title " + std::to_string(x.numel()) + "\nint main() {}\n"));
     }},
    {"MetricsLog", ".jsonl", "nn/training/metrics_log.cpp", nullptr,
     [](const std::string& p, const Tensor&) {
       std::string rows;
       for (int i = 0; i < 30; ++i) rows += "{\"step\": " + std::to_string(i) + "}\n";
       if (!fs::exists(p)) put(p, rows);
       MetricsLog(p, 1000);
     }},
    {"copy_file", ".safetensors", "nn/training/training_files.cpp", nullptr,  // previous.safetensors without hard links
     [](const std::string& p, const Tensor& x) {
       io::copy_file("copy_file", x.numel() > 9 ? FIT_OPS_HEADER : FIT_TENSOR_HEADER, p);
     }},
};

// The file that a writer is tested with.
std::string file_of(const Directory& d, const Writer& w) { return d.file(std::string(w.name) + w.ending); }

std::map<std::string, std::string> files_in(const fs::path& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::directory_iterator(folder)) all[entry.path().filename()] = get(entry.path().string());
  return all;
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

// Every source of the library and its text.
std::map<std::string, std::string> sources() {
  const fs::path root = fs::canonical(fs::path(FIT_NN_HEADERS) / "../../../..");
  std::map<std::string, std::string> all;
  for (const char* folder : {"core", "nn"})
    for (const auto& entry : fs::recursive_directory_iterator(root / folder))
      if (const auto ending = entry.path().extension(); ending == ".cpp" || ending == ".hpp")
        all[entry.path().lexically_relative(root).string()] = get(entry.path().string());
  return all;
}

// The sources with one of these endings and one of the words.
std::set<std::string> sources_with(const std::vector<std::string>& words,
                                   const std::set<std::string>& endings = {".cpp", ".hpp"}) {
  std::set<std::string> found;
  for (const auto& [name, text] : sources()) {
    const auto in_text = [&text = text](const std::string& word) { return text.find(word) != std::string::npos; };
    if (endings.count(fs::path(name).extension()) > 0 && std::any_of(words.begin(), words.end(), in_text))
      found.insert(name);
  }
  return found;
}

// How many functions of a header write a path.
std::size_t writing_functions(const std::string& header) {
  std::size_t n = 0;
  std::istringstream lines(header);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find_first_not_of(' ');
    const bool writes =
        at != std::string::npos && (line.compare(at, 9, "void save") == 0 || line.compare(at, 10, "void write") == 0);
    n += writes && line.find("(const std::string& path") != std::string::npos;
  }
  return n;
}

}  // namespace

TEST_CASE("every function that writes has a row", "[files]") {
  // One place opens files to write them, logs and events are appended to, and a lock holds no data.
  CHECK(sources_with(
            {"ofstream", "std::fstream", "O_WRONLY", "O_RDWR", "O_CREAT", "mkstemp", "freopen", "\"wb\"", "\"ab\""}) ==
        std::set<std::string>{"core/io/atomic_file.cpp", "core/io/folder_lock.cpp", "nn/training/metrics_log.cpp",
                              "nn/training/tensorboard.cpp",
                              "nn/plot/include/fit/graph_to_dot.hpp"});  // the last one in an example of use
  // These offer the one way to others.
  std::set<std::string> expected{"core/io/atomic_file.cpp", "nn/plot/figures/text.cpp"};
  expected.insert("nn/onnx/save_onnx.cpp");  // of another library: check.onnx_files
  for (const char* const folders : {"nn/hub/save.cpp", "nn/hub/adapter.cpp"}) expected.insert(folders);  // hub_test
  std::map<std::string, std::size_t> declared, of_rows;
  for (const Writer& w : writers) {
    expected.insert(w.source);
    if (w.header && *w.header) ++of_rows[w.header];
  }
  CHECK(sources_with(
            {"AtomicFile", "write_file(", "write_text(", "io::copy_file(", "write_safetensors(", "save_safetensors("},
            {".cpp"}) == expected);
  for (const auto& [name, text] : sources())
    if (const std::size_t at = name.find("include/fit/"); at != std::string::npos)
      if (const std::size_t n = writing_functions(text); n > 0) declared[name.substr(at + 12)] = n;
  CHECK(declared == of_rows);
}

TEST_CASE("a file that would be longer than the limit is an error, not the end of the program", "[files]") {
  const Directory d;
  for (const Writer& w : writers) w.write(file_of(d, w), ones({2}));
  const auto before = files_in(d.path);
  for (const Writer& w : writers) {
    INFO(w.name);
    CHECK(in_child([&] {
            const rlimit limit{100, 100};
            setrlimit(RLIMIT_FSIZE, &limit);
            std::signal(SIGXFSZ, SIG_DFL);
            if (!refuses([&] { w.write(file_of(d, w), ones({100})); }, " can't be written: File too large")) return 1;
            sigset_t mask, pending;
            pthread_sigmask(SIG_SETMASK, nullptr, &mask);
            sigpending(&pending);
            if (sigismember(&mask, SIGXFSZ) || sigismember(&pending, SIGXFSZ)) return 2;
            return 0;
          }) == 0);
    CHECK(files_in(d.path) == before);  // nothing half-written is left
  }
  CHECK(in_child([&] {
          const rlimit limit{200, 200};
          setrlimit(RLIMIT_FSIZE, &limit);
          MetricsLog log(d.file("metrics"));
          for (int i = 0; i < 100; ++i) log.add({{"step", i}, {"loss", 0.125}});
          return log.rows().size() == 100 ? 0 : 1;
        }) == 0);
}

TEST_CASE("a full disk is an error, and the old file stays", "[files]") {
  const Directory d;
  const int result = in_child([&] {
    if (!has_disk_of_its_own(d.path.c_str(), "size=4m")) return 77;
    for (const Writer& w : writers) w.write(file_of(d, w), ones({2}));
    const int filler = open(d.file("filler").c_str(), O_CREAT | O_WRONLY, 0666);
    const std::string page(4096, 'x');
    while (write(filler, page.data(), page.size()) > 0) {
    }
    if (errno != ENOSPC) return 1;
    const auto before = files_in(d.path);
    for (std::size_t i = 0; i < std::size(writers); ++i) {
      const std::string path = file_of(d, writers[i]);
      if (!refuses([&] { writers[i].write(path, ones({100})); }, " can't be written: No space left on device"))
        return 100 + static_cast<int>(i);
      if (files_in(d.path) != before) return 200 + static_cast<int>(i);
    }
    nn::Linear layer(2, 2);
    Checkpoint checkpoint;
    checkpoint.add("model", layer).load(d.file("Checkpoint.safetensors"));
    return 0;
  });
  if (result == 77)
    WARN("not tested: this system lets no process mount a disk of its own");
  else
    CHECK(result == 0);
}

TEST_CASE("a device that is full is an error, and stays a device", "[files]") {
  CHECK_THROWS_WITH(save_npy("/dev/full", ones({3})), Contains("/dev/full can't be written: No space left on device"));
  save_npy("/dev/null", ones({3}));
  for (const char* device : {"/dev/full", "/dev/null"}) CHECK(fs::is_character_file(device));
}

TEST_CASE("a new file has the permissions of the old one", "[files]") {
  const Directory d;
  for (const mode_t mode : {0600, 0640, 0666, 0755})
    for (const Writer& w : writers) {
      INFO(w.name << ' ' << mode);
      const std::string path = put(file_of(d, w), "{}");
      REQUIRE(chmod(path.c_str(), mode) == 0);
      w.write(path, ones({3}));
      struct stat now;
      REQUIRE(stat(path.c_str(), &now) == 0);
      CHECK((now.st_mode & 07777) == mode);
    }
  // A new file gets those of the process.
  const mode_t before = umask(027);
  save_npy(d.file("new"), ones({3}));
  umask(before);
  struct stat now;
  REQUIRE(stat(d.file("new").c_str(), &now) == 0);
  CHECK((now.st_mode & 07777) == 0640);
}

TEST_CASE("a file without permission to write is not replaced", "[files]") {
  const Directory d;
  chmod(d.path.c_str(), 0777);
  for (const Writer& w : writers) {
    put(file_of(d, w), "{}");
    chmod(file_of(d, w).c_str(), 0444);
  }
  const auto before = files_in(d.path);
  for (const Writer& w : writers) {
    INFO(w.name);
    CHECK(in_child([&] {
            if (geteuid() == 0 && setuid(65534) != 0) return 1;
            const auto write = [&] { w.write(file_of(d, w), ones({3})); };
            return refuses(write, " can't be written: Permission denied") ? 0 : 2;
          }) == 0);
  }
  for (const auto& [name, content] : before)
    if (name != "training page.js") CHECK(get(d.file(name)) == content);
}

TEST_CASE("a symbolic link stays, and the file that it leads to is replaced", "[files]") {
  const Directory d;
  fs::create_directories(d.path / "far" / "away");
  for (const Writer& w : writers) {
    INFO(w.name);
    const std::string target = d.file("far/away/x"), path = file_of(d, w);
    fs::remove(target);
    fs::create_symlink("far/second", path);                      // relative to its folder
    fs::create_symlink("away/../away/x", d.file("far/second"));  // a link to a link, to a file that is not there yet
    for (int i = 0; i < 2; ++i) {
      w.write(path, ones({2 + i}));
      CHECK(fs::is_symlink(path));
      CHECK(fs::is_symlink(d.file("far/second")));
      CHECK(fs::is_regular_file(fs::symlink_status(target)));
    }
    CHECK(get(path) == get(target));
    CHECK_FALSE(get(target).empty());
    fs::remove(d.file("far/second"));
  }
  CHECK(files_in(d.path / "far" / "away").size() == 1);
  fs::create_symlink("circle", d.file("circle"));
  CHECK_THROWS_WITH(save_npy(d.file("circle"), ones({2})), Contains("circle can't be created: Too many levels"));
}

}  // namespace fit::test::written_files_test
