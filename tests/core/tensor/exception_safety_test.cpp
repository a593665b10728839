#include "support/exception_safety.hpp"

#include <memory>

#include "fit/base/memory.hpp"
#include "fit/graph/graph.hpp"
#include "fit/io/npy.hpp"
#include "fit/io/safetensors.hpp"
#include "fit/ops/ops.hpp"
#include "fit/threads/parallel.hpp"
#include "support/callable.hpp"
#include "support/files.hpp"

// Every call of core that changes something, met by an Error: see support/exception_safety.hpp.
namespace fit::test::exception_safety_test {
namespace {

using Make = Callable<Tensor()>;
using Call = Callable<void(Tensor&)>;

Tensor floats() { return tensor({{1., 2., 3.}, {4., 5., 6.}}); }
Tensor whole() { return tensor({{1, 2, 3}, {4, 5, 6}}); }
Tensor leaf() { return floats().requires_grad_(); }

// A call on a tensor, which is written to afterwards.
ChangingCall on(const char* name, const Make& make, const Call& bad) {
  return {name, [=] {
            auto x = std::make_shared<Tensor>(make());
            return Trial{[=] { return State()(*x); }, [=] { bad(*x); },
                         [=] {
                           const NoGrad no_grad;
                           x->add_(1);
                         }};
          }};
}

// A call that leaves gradients in x and w.
struct Leaves {
  Tensor x = leaf(), w = tensor({1., -1., 2.}).requires_grad_();
  Leaves() { sum(x * w).backward(); }
};

ChangingCall on_gradients(const char* name, const Callable<void(Leaves&)>& bad) {
  return {name, [=] {
            auto l = std::make_shared<Leaves>();
            return Trial{[=] { return State()(l->x)(l->w); }, [=] { bad(*l); }, [=] { sum(l->x * l->w).backward(); }};
          }};
}

ChangingCall drawing(const char* name, const Callable<void(Generator&)>& bad) {
  return {name, [=] {
            auto g = std::make_shared<Generator>(7);
            return Trial{[=] { return State()(*g); }, [=] { bad(*g); }, [=] { (void)rand({2}, float32, *g); }};
          }};
}

// A file that a bad call must leave, and a good one replaces.
ChangingCall writing(const char* name, const Callable<void(const std::string&)>& bad,
                     const Callable<void(const std::string&, const Tensor&)>& good) {
  return {name, [=] {
            auto d = std::make_shared<Directory>();
            good(d->file("f"), ones({3}));
            return Trial{[=] {
                           State s;
                           s(get(d->file("f")));
                           std::size_t files = 0;
                           for ([[maybe_unused]] const auto& f : std::filesystem::directory_iterator(d->path)) ++files;
                           return s(files);
                         },
                         [=] { bad(d->file("f")); }, [=] { good(d->file("f"), zeros({3})); }};
          }};
}

const std::vector<ChangingCall>& calls() {
  static const std::vector<ChangingCall> all = {
      on("add_ of a shape", floats, [](Tensor& x) { x.add_(ones({4})); }),
      on("add_ to a leaf", leaf, [](Tensor& x) { x.add_(1); }),
      on("add_ undefined", floats, [](Tensor& x) { x.add_(Tensor()); }),
      on("sub_ of a shape", floats, [](Tensor& x) { x.sub_(ones({4})); }),
      on("mul_ of a shape", floats, [](Tensor& x) { x.mul_(ones({4})); }),
      on("mul_ by a fraction", whole, [](Tensor& x) { x.mul_(0.5); }),
      on("div_ of a shape", floats, [](Tensor& x) { x.div_(ones({4})); }),
      on("div_ of whole numbers", whole,
         [](Tensor& x) {
           x.div_(tensor({1, 2, 0}));
         }),
      on("fill_ with a fraction", whole, [](Tensor& x) { x.fill_(0.5); }),
      on("zero_ of a leaf", leaf, [](Tensor& x) { x.zero_(); }),
      on("copy_ of a shape", floats,
         [](Tensor& x) {
           x.copy_(ones({2, 4}));
         }),
      on("x[i] = v past the end", floats, [](Tensor& x) { x[5] = 1; }),
      on("x[{...}] = v of a shape", floats, [](Tensor& x) { x[{0}] = ones({4}); }),
      on("x[{list}] = v past the end", floats,
         [](Tensor& x) {
           x[{std::vector<std::int64_t>{0, 7}}] = 1.;
         }),
      on("x[{...}] += v of a shape", floats, [](Tensor& x) { x[{0}] += ones({4}); }),
      on("x[{...}] = fraction", whole, [](Tensor& x) { x[{0}] = 0.5; }),
      on("x[{...}] of a leaf", leaf, [](Tensor& x) { x[{0}] = 0.5; }),
      on("index_put_ past the end", floats,
         [](Tensor& x) {
           index_put_(x, {range(), std::vector<std::int64_t>{0, 1, 3}}, 0 * x);
         }),
      on("edit of another type", floats, [](Tensor& x) { x.edit<double>()[0] = 7; }),
      on("requires_grad_ of whole numbers", whole, [](Tensor& x) { x.requires_grad_(); }),
      on("set_grad of a shape", leaf, [](Tensor& x) { x.set_grad(ones({3})); }),
      on("set_grad of a type", leaf,
         [](Tensor& x) {
           x.set_grad(ones({2, 3}, float64));
         }),
      on("set_grad where none is wanted", floats,
         [](Tensor& x) {
           x.set_grad(ones({2, 3}));
         }),
      on("retain_grad where none is wanted", floats, [](Tensor& x) { x.retain_grad(); }),

      on_gradients("backward of several numbers", [](Leaves& l) { (l.x * l.w).backward(); }),
      on_gradients("backward with a seed of a shape", [](Leaves& l) { (l.x * l.w).backward(ones({3})); }),
      on_gradients("backward a second time",
                   [](Leaves& l) {
                     const Tensor gradient = l.x.grad().clone(), other = l.w.grad().clone();
                     const Tensor y = sum(l.x * l.w);
                     y.backward();
                     l.x.set_grad(gradient);
                     l.w.set_grad(other);
                     y.backward();
                   }),

      drawing("rand", [](Generator& g) { rand({-1}, float32, g); }),
      drawing("rand of whole numbers", [](Generator& g) { rand({2}, int64, g); }),
      drawing("randn",
              [](Generator& g) {
                randn({2, -1}, float64, g);
              }),
      drawing("randint", [](Generator& g) { randint(3, 3, {2}, g); }),
      drawing("bernoulli", [](Generator& g) { bernoulli(1.5, {2}, g); }),
      drawing("randperm", [](Generator& g) { randperm(-1, g); }),
      {"dropout",
       [] {
         return Trial{[] { return State()(default_generator()); }, [] { dropout(ones({3}), 1.5); },
                      [] { dropout(ones({3}), 0.5); }};
       }},

      writing(
          "save_npy of nothing", [](const std::string& path) { save_npy(path, Tensor()); },
          [](const std::string& path, const Tensor& x) { save_npy(path, x); }),
      writing(
          "save_npy where there is no folder", [](const std::string& path) { save_npy(path + "/no/f", ones({2})); },
          [](const std::string& path, const Tensor& x) { save_npy(path, x); }),
      writing(
          "save_safetensors with a name twice",
          [](const std::string& path) {
            save_safetensors(path, {{"a", ones({2})}, {"a", ones({3})}});
          },
          [](const std::string& path, const Tensor& x) {
            save_safetensors(path, {{"x", x}});
          }),
      writing(
          "save_safetensors of nothing",
          [](const std::string& path) {
            save_safetensors(path, {{"a", ones({2})}, {"b", Tensor()}});
          },
          [](const std::string& path, const Tensor& x) {
            save_safetensors(path, {{"x", x}});
          }),

      {"set_num_threads",
       [threads = num_threads()] {
         set_num_threads(threads);
         return Trial{[] { return State()(num_threads()); }, [] { set_num_threads(0); },
                      [=] { set_num_threads(threads + 1); }};
       }},
  };
  return all;
}

}  // namespace

TEST_CASE("nothing has changed when an Error is thrown: core", "[exception_safety]") {
  const int threads = num_threads();
  for (const ChangingCall& call : calls()) check_unchanged(call);
  set_num_threads(threads);
}

}  // namespace fit::test::exception_safety_test
