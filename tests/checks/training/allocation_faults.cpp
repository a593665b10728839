#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fit/fit.hpp>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <new>
#include <string>

// allocation_faults [TASK [NUMBER]]   lets each allocation of a task fail in turn: afterwards the task's state is as it
// was before or as it is after the task, nothing is left behind, no signal is blocked, and the task can be done again
// with the result that it always has. With FIT_FAULTS_EVERY=n, each n-th allocation fails. Memory comes from operator
// new, aligned_alloc and posix_memalign, which are replaced here.
namespace {

const long every = [] {
  const char* const asked = std::getenv("FIT_FAULTS_EVERY");
  return asked ? std::max(std::atol(asked), 1l) : 1;
}();
std::atomic<long> until_failure{-1};  // -1: none fails
std::atomic<long> requests{0}, living{0};
std::atomic<bool> last_failed{false};

bool fails() {
  requests.fetch_add(1, std::memory_order_relaxed);
  if (until_failure.load(std::memory_order_relaxed) < 0) return false;
  if (until_failure.fetch_sub(1) != 0) return false;
  last_failed = true;
  return true;
}

void* allocate(std::size_t bytes) {
  void* const p = fails() ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
  if (p) living.fetch_add(1, std::memory_order_relaxed);
  return p;
}
void give_back(void* p) {
  if (p) living.fetch_sub(1, std::memory_order_relaxed);
  std::free(p);
}

}  // namespace

void* operator new(std::size_t bytes) {
  if (void* const p = allocate(bytes)) return p;
  throw std::bad_alloc();
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void operator delete(void* p) noexcept { give_back(p); }
void operator delete[](void* p) noexcept { give_back(p); }
void operator delete(void* p, std::size_t) noexcept { give_back(p); }
void operator delete[](void* p, std::size_t) noexcept { give_back(p); }

// The library's blocks, which fit::memory_stats() counts.
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  static auto* const real = reinterpret_cast<void* (*)(std::size_t, std::size_t)>(dlsym(RTLD_NEXT, "aligned_alloc"));
  return fails() ? nullptr : real(alignment, bytes);
}
extern "C" int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) noexcept {
  static auto* const real =
      reinterpret_cast<int (*)(void**, std::size_t, std::size_t)>(dlsym(RTLD_NEXT, "posix_memalign"));
  return fails() ? ENOMEM : real(block, alignment, bytes);
}

using namespace fit;

namespace {

using State = std::string;

void put(State& s, const Tensor& x) {
  s.append(x.shape().str())
      .append(static_cast<const char*>(x.raw()), static_cast<std::size_t>(x.numel()) * size_of(x.dtype()));
}
State state_of(const StateDict& state) {
  State s;
  for (const auto& [name, x] : state) s += name, put(s, x);
  return s;
}

// What a task works on. `whole`: its state is afterwards as before or as after the task, never in between.
struct Trial {
  std::function<void()> act;
  std::function<State()> state;
};
struct Task {
  std::string name;
  std::function<Trial()> make;
};

struct Net final : nn::UnaryLayer {
  Tensor forward(const Tensor& x) const override { return out(dropout(attention(norm(hidden(x))))); }
  FIT_FIELDS(hidden, norm, attention, dropout, out)
  nn::Linear hidden{4, 8};
  nn::LayerNorm norm{8};
  nn::CausalSelfAttention attention{8, 2, 0.1};
  nn::Dropout dropout{0.1};
  nn::Linear out{8, 3};
};

template <class Optimizer>
struct Training {
  Net net;
  Optimizer optimizer{net.named_parameters(), 1e-2};
  Tensor x = full({2, 3, 4}, 0.5), y = zeros({2, 3}, int64);
  Training() { step(); }
  void step() {
    manual_seed(4);  // the same numbers for whoever tries again
    optimizer.zero_grad();
    const Tensor loss = nn::cross_entropy(net(x), y);
    loss.backward();
    optim::clip_grad_norm_(net.named_parameters(), 1.0);
    optimizer.step();
  }
  State state() const { return state_of(net.state_dict()) + state_of(optimizer.state_dict()); }
};

template <class Optimizer>
Task training_step(const char* name) {
  return {name, [] {
            manual_seed(1);
            auto t = std::make_shared<Training<Optimizer>>();
            return Trial{[t] { t->step(); }, [t] { return t->state(); }};
          }};
}

// The first step, which makes the averages.
Task first_step() {
  return {"the optimiser's first step", [] {
            manual_seed(1);
            struct First {
              Net net;
              optim::AdamW optimizer{net.named_parameters(), 1e-2};
            };
            auto f = std::make_shared<First>();
            nn::cross_entropy(f->net(full({2, 3, 4}, 0.5)), zeros({2, 3}, int64)).backward();
            return Trial{[f] { f->optimizer.step(); },
                         [f] { return state_of(f->net.state_dict()) + state_of(f->optimizer.state_dict()); }};
          }};
}

std::string folder;

struct Saved {
  Training<optim::AdamW> training;
  Checkpoint checkpoint;
  Saved() {
    checkpoint.add("model", training.net).add("optimizer", training.optimizer);
    checkpoint.config["name"] = "faults";
  }
  State state() const { return training.state() + state_of(checkpoint.state_dict()) + std::to_string(checkpoint.step); }
};

State content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  State bytes{std::istreambuf_iterator<char>(in), {}};
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& f : std::filesystem::directory_iterator(folder)) ++files;
  return bytes + std::to_string(files);
}

const std::vector<Task>& tasks() {
  static const std::vector<Task> all = {
      training_step<optim::AdamW>("a training step, AdamW"),
      training_step<optim::NAdam>("a training step, NAdam"),
      training_step<optim::SGD>("a training step, SGD"),
      training_step<optim::Adafactor>("a training step, Adafactor"),
      first_step(),
      {"a block that is computed again",
       [] {
         manual_seed(1);
         auto net = std::make_shared<Net>();
         return Trial{[net] {
                        manual_seed(2);
                        net->zero_grad();
                        sum(checkpoint([&](const Tensor& z) { return (*net)(z); }, full({2, 3, 4}, 0.5))).backward();
                      },
                      [net] { return state_of(net->state_dict()); }};
       }},
      {"a second derivative",
       [] {
         manual_seed(1);
         auto net = std::make_shared<Net>();
         return Trial{[net] {
                        manual_seed(2);
                        Tensor x = full({2, 3, 4}, 0.5).requires_grad_();
                        const Tensor g = grad(sum(square((*net)(x))), x, create_graph);
                        sum(square(g)).backward();
                        net->zero_grad();
                      },
                      [net] { return state_of(net->state_dict()); }};
       }},
      {"Checkpoint::save",
       [] {
         manual_seed(1);
         auto s = std::make_shared<Saved>();
         const std::string path = folder + "/c.safetensors";
         s->checkpoint.step = 1;
         s->checkpoint.save(path);
         s->checkpoint.step = 2;
         return Trial{[=] { s->checkpoint.save(path); }, [=] { return content(path) + s->state(); }};
       }},
      {"Checkpoint::load",
       [] {
         manual_seed(1);
         auto s = std::make_shared<Saved>();
         const std::string path = folder + "/c.safetensors";
         s->checkpoint.step = 7;
         s->checkpoint.save(path);
         s->training.step();
         s->checkpoint.step = 8;
         return Trial{[=] { s->checkpoint.load(path); }, [=] { return s->state(); }};
       }},
      {"load_state_dict of another type",
       [] {
         manual_seed(1);
         auto net = std::make_shared<Net>(), other = std::make_shared<Net>();
         other->to(float64);
         return Trial{[=] { net->load_state_dict(other->state_dict()); }, [=] { return state_of(net->state_dict()); }};
       }},
      {"weights of a file",
       [] {
         manual_seed(1);
         auto net = std::make_shared<Net>(), other = std::make_shared<Net>();
         const std::string path = folder + "/w.safetensors";
         save_safetensors(path, other->state_dict());
         return Trial{[=] { net->load_state_dict(load_safetensors(path).tensors); },
                      [=] { return state_of(net->state_dict()); }};
       }},
      {"generate()",
       [] {
         manual_seed(1);
         auto gpt = std::make_shared<nn::GPT>(
             nn::GPTOptions().vocab_size(11).context_length(8).d_model(8).num_heads(2).num_layers(1));
         auto said = std::make_shared<std::vector<nn::Tokens>>();
         gpt->eval();
         return Trial{[=] {
                        manual_seed(5);
                        const auto g = nn::GenerateOptions().max_new_tokens(3).top_k(4).top_p(0.9);
                        *said = nn::generate(*gpt, {{1, 2}, {3}}, g);
                      },
                      [=] {
                        State s;
                        for (const auto& row : *said)
                          for (const auto token : row) s += std::to_string(token) + ' ';
                        return s;
                      }};
       }},
      {"an epoch of a loader that reads ahead",
       [] {
         const auto o = data::LoaderOptions().batch_size(3).shuffle().prefetch(2).seed(3);
         auto loader = std::make_shared<data::DataLoader>(data::TensorDataset({arange(7)}), o);
         auto seen = std::make_shared<std::vector<Tensor>>();
         const StateDict begin = loader->state_dict();
         return Trial{[=] {
                        loader->load_state_dict(begin);
                        std::vector<Tensor> all;
                        for (const data::Batch& b : *loader) all.push_back(b[0]);
                        seen->swap(all);
                      },
                      [=] {
                        State s;
                        for (const Tensor& x : *seen) put(s, x);
                        return s;
                      }};
       }},
      {"a deep graph",
       [] {
         auto x = std::make_shared<Tensor>(ones({2}).requires_grad_());
         return Trial{[x] {
                        x->zero_grad();
                        Tensor y = *x;
                        for (int i = 0; i < 60; ++i) y = y * 1.01 + *x;
                        sum(y).backward();
                        x->zero_grad();
                      },
                      [x] {
                        State s;
                        put(s, *x);
                        return s;
                      }};
       }},
      {"a clone and a summary",
       [] {
         manual_seed(1);
         auto net = std::make_shared<Net>();
         return Trial{[net] {
                        const auto copy = nn::clone(*net);
                        (void)nn::summary(*copy, full({1, 3, 4}, 0.5)).str();
                        const auto hook = nn::register_forward_hook(*copy, [](const nn::Layer&, const Tensor&) {});
                        (void)(*copy)(full({1, 3, 4}, 0.5));
                      },
                      [net] { return state_of(net->state_dict()); }};
       }},
      {"hooks of gradients",
       [] {
         auto w = std::make_shared<Tensor>(ones({2}).requires_grad_());
         return Trial{[w] {
                        w->zero_grad();
                        const GradHook a = register_hook(*w, [](const Tensor& g) { return g * 2; });
                        const GradHook b = register_post_accumulate_grad_hook(*w, [](const Tensor&) {});
                        const Tensor h = *w * 3;
                        register_hook(h, [](const Tensor& g) { return g + 1; }).keep();
                        sum(h * h).backward();
                        w->zero_grad();
                      },
                      [w] {
                        State s;
                        put(s, *w);
                        return s;
                      }};
       }},
  };
  return all;
}

std::string blocked_signals() {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  std::string s;
  for (int i = 1; i < NSIG; ++i) s += sigismember(&mask, i) ? '1' : '0';
  return s;
}

long failures = 0, told = 0;
std::string under_test;  // for the terminate handler

void expect(bool right, const std::string& what) {
  if (right) return;
  ++failures;
  if (++told <= 8) std::cerr << under_test << ": " << what << '\n';
}

struct Counts {
  std::int64_t blocks;
  long news;
};
Counts counts() {
  empty_cache();
  return {memory_stats().live_blocks, living.load()};
}

long try_each(const Task& task, long only) {
  told = 0;
  const std::string signals = blocked_signals();
  State before, done;
  {
    const Trial t = task.make();
    before = t.state();
    t.act();
    done = t.state();
  }
  long k = std::max(only, 0l), thrown = 0;
  for (;; k += every) {
    under_test = task.name + ", allocation " + std::to_string(k);
    std::string what;
    Counts base;
    {
      { const Trial warm = task.make(); }  // what is made once and kept
      base = counts();
      const Trial t = task.make();
      expect(t.state() == before, "it does not begin as it did");
      last_failed = false;
      until_failure = k;
      try {
        t.act();
        until_failure = -1;
        expect(t.state() == done, "it ended well, with another result");
      } catch (const std::exception& e) {
        until_failure = -1;
        what = e.what();
        ++thrown;
        const State now = t.state();
        expect(now == before || now == done, "its state is neither that before nor that after: " + what);
        t.act();
        expect(t.state() == done, "tried again, it gives another result: " + what);
      }
      expect(blocked_signals() == signals, "signals are blocked: " + what);
      expect(grad_enabled(), "recording is off: " + what);
    }
    const Counts now = counts();
    expect(now.blocks == base.blocks, std::to_string(now.blocks - base.blocks) + " blocks are left: " + what);
    expect(now.news == base.news, std::to_string(now.news - base.news) + " allocations are left: " + what);
    if (!last_failed || only >= 0) break;
  }
  if (only < 0) expect(thrown > 0, "no allocation failed: nothing was tried");
  return k;
}

// Threads are made once in a process: for each allocation there is a child of its own. A thread that can't be made is
// done without, and made when it is next asked for: parallel_for adds no failure of its own.
long try_threads() {
  long k = 0;
  for (;; ++k) {
    under_test = "making threads, allocation " + std::to_string(k);
    const pid_t child = fork();
    if (child == 0) {
      set_num_threads(4);
      const std::string signals = blocked_signals();
      std::atomic<long> sum{0}, calls{0};
      const auto add = [&] {
        calls = 0;
        parallel_for(100, 1, [&](std::int64_t begin, std::int64_t end) { sum += end - begin, ++calls; });
      };
      until_failure = k;
      try {
        add();
      } catch (const std::exception&) {
        _exit(4);
      }
      until_failure = -1;
      if (last_failed && calls == 4) _exit(5);  // none was lacking: what failed was not a thread
      add();
      _exit(sum != 200 || calls != 4 ? 2 : blocked_signals() != signals ? 3 : last_failed ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    expect(code == 0 || code == 1, "a child ended with " + std::to_string(code));
    if (code != 0) break;
  }
  return k;
}

}  // namespace

int main(int argc, char** argv) {
  std::set_terminate([] {
    std::fprintf(stderr, "std::terminate: %s\n", under_test.c_str());
    std::_Exit(3);
  });
  // In memory where that can be: each save is flushed to the disk.
  std::error_code error;
  const std::filesystem::path memory = "/dev/shm";
  std::string name = ((std::filesystem::is_directory(memory, error) ? memory : std::filesystem::temp_directory_path()) /
                      "fit-faults-XXXXXX")
                         .string();
  if (!mkdtemp(name.data())) return 2;
  folder = name;
  std::cout << "making threads: " << try_threads() << " allocations\n";  // first: there are no threads yet
  set_num_threads(1);
  set_cache_limit(0);  // each tensor and node is an allocation
  for (const Task& task : tasks())
    if (argc < 2 || task.name.find(argv[1]) != std::string::npos)
      std::cout << task.name << ": " << try_each(task, argc > 2 ? std::atol(argv[2]) : -1) << " allocations"
                << std::endl;
  std::filesystem::remove_all(folder);
  if (failures > 0) std::cout << failures << " promises are broken\n";
  return failures > 0;
}
