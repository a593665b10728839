// What the interface promises to whoever calls it: names that read, wrong arguments that don't compile, silent mistakes
// that are errors.
#include <fstream>
#include <map>
#include <set>

#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"
#include "support/text.hpp"

namespace fit::test::interface_test {
namespace {

using Catch::Contains;

// ---- what doesn't compile: each pair is the call as it must be written, and one like it that must not compile -------

#define FIT_COMPILES(name, ...)     \
  template <class T, class = void>  \
  struct name : std::false_type {}; \
  template <class T>                \
  struct name<T, std::void_t<decltype(std::declval<const T&>(), __VA_ARGS__)>> : std::true_type {}

FIT_COMPILES(SumKeeps, sum(std::declval<const T&>(), 0, keepdims));
FIT_COMPILES(SumOfBool, sum(std::declval<const T&>(), true));
FIT_COMPILES(SumOfBools, sum(std::declval<const T&>(), {true}));
FIT_COMPILES(SumOfNumber, std::declval<const T&>().sum(0, 1));
FIT_COMPILES(SumThenBool, sum(std::declval<const T&>(), 0, true));
FIT_COMPILES(SumOfFraction, sum(std::declval<const T&>(), 0.5));
FIT_COMPILES(VarCorrected, var(std::declval<const T&>(), -1, Correction{0}, keepdims));
FIT_COMPILES(VarKeeps, var(std::declval<const T&>(), -1, keepdims));
FIT_COMPILES(VarOfBool, var(std::declval<const T&>(), -1, true));
FIT_COMPILES(VarOfNumber, var(std::declval<const T&>(), -1, 0));
FIT_COMPILES(ArgmaxKeeps, argmax(std::declval<const T&>(), 0, keepdims));
FIT_COMPILES(ArgmaxOfBool, argmax(std::declval<const T&>(), 0, true));
FIT_COMPILES(SortDescending, sort(std::declval<const T&>(), -1, descending));
FIT_COMPILES(SortOfBool, sort(std::declval<const T&>(), -1, true));
FIT_COMPILES(TopkSmallest, topk(std::declval<const T&>(), 1, -1, smallest));
FIT_COMPILES(TopkOfBool, topk(std::declval<const T&>(), 1, -1, false));
FIT_COMPILES(BackwardRetains, std::declval<const T&>().backward(retain_graph));
FIT_COMPILES(BackwardOfBool, std::declval<const T&>().backward({}, true));
FIT_COMPILES(GradOfFlags, grad(std::declval<const T&>(), std::declval<const T&>(), create_graph | allow_unused));
FIT_COMPILES(GradOfBool, grad(std::declval<const T&>(), std::declval<const T&>(), true));
FIT_COMPILES(GradOfBools, grad({std::declval<const T&>()}, {std::declval<const T&>()}, {}, false, true));
FIT_COMPILES(MatmulTransposed,
             matmul(std::declval<const T&>(), Transpose::no, std::declval<const T&>(), Transpose::yes));
FIT_COMPILES(MatmulOfBools, matmul(std::declval<const T&>(), false, std::declval<const T&>(), true));
FIT_COMPILES(IndexOfRange, std::declval<const T&>()[{range(), 0}]);
FIT_COMPILES(IndexOfBraces, std::declval<const T&>()[{{}, 0}]);
FIT_COMPILES(IndexOfTensor, std::declval<const T&>()[std::declval<const T&>() > 0]);
FIT_COMPILES(IndexOfBool, std::declval<const T&>()[{true, 0}]);
FIT_COMPILES(BatchNormOfEps, batch_norm(std::declval<const T&>(), {}, {}, {}, {}, 0));
FIT_COMPILES(BatchNormOfBool, batch_norm(std::declval<const T&>(), {}, {}, {}, {}, true));
#undef FIT_COMPILES

}  // namespace

TEST_CASE("Calls read, and wrong ones don't compile", "[interface]") {
  CHECK((SumKeeps<Tensor>::value && VarCorrected<Tensor>::value && VarKeeps<Tensor>::value &&
         ArgmaxKeeps<Tensor>::value));
  CHECK((SortDescending<Tensor>::value && TopkSmallest<Tensor>::value && MatmulTransposed<Tensor>::value));
  CHECK((BackwardRetains<Tensor>::value && GradOfFlags<Tensor>::value && IndexOfRange<Tensor>::value));
  CHECK((IndexOfTensor<Tensor>::value && BatchNormOfEps<Tensor>::value));
  CHECK_FALSE(SumOfBool<Tensor>::value);
  CHECK_FALSE(SumOfBools<Tensor>::value);
  CHECK_FALSE(SumOfNumber<Tensor>::value);
  CHECK_FALSE(SumThenBool<Tensor>::value);
  CHECK_FALSE(SumOfFraction<Tensor>::value);
  CHECK_FALSE(VarOfBool<Tensor>::value);
  CHECK_FALSE(VarOfNumber<Tensor>::value);
  CHECK_FALSE(ArgmaxOfBool<Tensor>::value);
  CHECK_FALSE(SortOfBool<Tensor>::value);
  CHECK_FALSE(TopkOfBool<Tensor>::value);
  CHECK_FALSE(BackwardOfBool<Tensor>::value);
  CHECK_FALSE(GradOfBool<Tensor>::value);
  CHECK_FALSE(GradOfBools<Tensor>::value);
  CHECK_FALSE(MatmulOfBools<Tensor>::value);
  CHECK_FALSE(IndexOfBraces<Tensor>::value);
  CHECK_FALSE(IndexOfBool<Tensor>::value);
  CHECK_FALSE(BatchNormOfBool<Tensor>::value);  // PyTorch's `training`, not an eps of 1
}

TEST_CASE("A list of no axes reduces none, and no list reduces all", "[interface]") {
  const Tensor x = tensor({{1., 2.}, {3., 4.}});
  CHECK(equal(sum(x, std::vector<int>{}), x));
  CHECK(equal(max(x, std::vector<int>{}), x));
  CHECK(sum(x).item() == 10);
  CHECK(sum(x, {}).item() == 10);
}

TEST_CASE("Members and functions are one list", "[interface]") {
  // Functions whose first argument is one tensor and that are no member: a layer's mathematics, or, as in PyTorch,
  // functions of several tensors of equal standing.
  const std::set<std::string> free_only{"leaky_relu",
                                        "elu",
                                        "gelu",
                                        "silu",
                                        "softplus",
                                        "softsign",
                                        "mish",
                                        "selu",
                                        "celu",
                                        "prelu",
                                        "relu6",
                                        "hardtanh",
                                        "hardsigmoid",
                                        "hardswish",
                                        "copysign",
                                        "logaddexp",
                                        "maximum",
                                        "minimum",
                                        "where",
                                        "eq",
                                        "ne",
                                        "lt",
                                        "le",
                                        "gt",
                                        "ge",
                                        "logical_and",
                                        "logical_or",
                                        "logical_xor",
                                        "dropout",
                                        "layer_norm",
                                        "rms_norm",
                                        "rotary",
                                        "cross_entropy_rows",
                                        "embedding",
                                        "index",
                                        "slice",
                                        "linear",
                                        "outer",
                                        "log_sigmoid",
                                        "atan2",
                                        "group_norm",
                                        "batch_norm",
                                        "normalize",
                                        "cosine_similarity",
                                        "cdist",
                                        "searchsorted",
                                        "pad",
                                        "fold",
                                        "addmm",
                                        "solve",
                                        "solve_triangular",
                                        "slogdet",
                                        "cholesky",
                                        "eigh",
                                        "qr",
                                        "glu",
                                        "gumbel_softmax",
                                        "segment_softmax",
                                        "lstsq"};
  const auto names = [](const char* path, const char* begin, const char* end, const std::string& pattern) {
    std::ifstream header(path);
    REQUIRE(header);
    std::set<std::string> all;
    std::string line;
    while (std::getline(header, line) && line.find(begin) == std::string::npos) continue;
    while (std::getline(header, line) && line.find(end) == std::string::npos)
      for (const std::string& name : matches(line, pattern)) all.insert(name);
    return all;
  };
  const std::string type = "(?:Tensor|bool|std::vector<Tensor>|std::pair<Tensor, Tensor>)";
  const std::set<std::string> functions =
      names(FIT_OPS_HEADER, "namespace fit", "}  // namespace fit", "^" + type + " (\\w+)\\(const Tensor& \\w+[,)]");
  const std::set<std::string> members = names(FIT_TENSOR_HEADER, "---- operations as members", "---- for the library",
                                              "^  " + type + " (\\w+)\\(.*(?:const;|,)$");
  CHECK(functions.size() > 80);
  CHECK(members.size() > 50);
  for (const std::string& name : functions)
    if (!members.count(name) && !free_only.count(name)) FAIL_CHECK(name << " is a function, but no member");
  for (const std::string& name : members)
    if (!functions.count(name)) FAIL_CHECK(name << " is a member, but no function");
  for (const std::string& name : free_only) {
    INFO(name);
    CHECK(functions.count(name));
    CHECK_FALSE(members.count(name));
  }
}

TEST_CASE("Members give what the functions give", "[interface]") {
  const Tensor x = tensor({{1., -2., 3.}, {4., 0.5, -6.}}), y = tensor({{1., 2., 3.}, {4., 5., 6.}});
  CHECK(equal(x.reshape(y.flatten().shape()), flatten(x)));
  CHECK(equal(x.clamp(-1, 2), clamp(x, -1, 2)));
  CHECK(equal(x.max(1), max(x, 1)));
  CHECK(equal(x.max(-1, keepdims), max(x, -1, keepdims)));
  CHECK(equal(x.var(-1, Correction{0}), var(x, -1, Correction{0})));
  CHECK(equal(x.std(), fit::std(x)));
  CHECK(equal(x.std(0, Correction{0}, keepdims), fit::std(x, 0, Correction{0}, keepdims)));
  CHECK(equal(x.sub(y), x - y));
  const Tensor mask = x > 0;
  CHECK(equal(x[mask], masked_select(x, mask)));
  CHECK(equal(x[{0}], x[tensor(0)]));
  CHECK(equal(x % 2, x.remainder(2)));
  CHECK(equal(x.median(0).first, median(x, 0).first));
  const Tensor ids = zeros({2, 1}, int64), one = ones({2, 1});
  CHECK(equal(x.gather(1, ids), gather(x, 1, ids)));
  CHECK(equal(x.scatter_reduce(1, ids, one, Reduce::mean, IncludeSelf::no),
              scatter_reduce(x, 1, ids, one, Reduce::mean, IncludeSelf::no)));
}

TEST_CASE("Assigning operators refuse a leaf that wants a gradient", "[interface]") {
  Tensor w = ones({2}).requires_grad_();
  const Tensor before = w;
  sum(w * w).backward();
  CHECK_THROWS_WITH(w -= 0.1 * w.grad(), Contains("[-=]") && Contains("leaf") && Contains("sub_("));
  CHECK_THROWS_WITH(w += 1, Contains("[+=]") && Contains("add_("));
  CHECK_THROWS_WITH(w *= 2, Contains("[*=]") && Contains("mul_("));
  {
    const NoGrad no_grad;
    CHECK_THROWS_WITH(w /= w.grad(), Contains("[/=]") && Contains("div_("));
    w.sub_(0.5 * w.grad());
  }
  CHECK(values(before) == std::vector<double>{0, 0});  // the leaf itself, under each of its names
  Tensor total = zeros({});
  total += sum(w);  // what is computed may be given a new value
  total.backward();
}

TEST_CASE("backward() says where the graph was cut", "[interface]") {
  Tensor w = ones({3}).requires_grad_();
  const Tensor x = ones({3});
  SECTION("never was one") {
    CHECK_THROWS_WITH(sum(x * x).backward(), Contains("was not computed from any that wants a gradient"));
  }
  SECTION("NoGrad") {
    Tensor hidden;
    {
      const NoGrad no_grad;
      hidden = exp(w * x);
    }
    CHECK_THROWS_WITH(sum(hidden + x).backward(), Contains("cut at mul") && Contains("NoGrad"));
  }
  SECTION("a leaf that was replaced") {
    sum(w * w).backward();
    {
      const NoGrad no_grad;
      w = w - 0.1 * w.grad();
    }
    CHECK_THROWS_WITH(sum(w * w).backward(), Contains("cut at sub") && Contains("w.sub_("));
  }
  SECTION("detach") {
    CHECK_THROWS_WITH(sum(w.detach() * x).backward(), Contains("detach()ed before mul"));
    CHECK_THROWS_WITH(grad(sum((w * w).detach() * x), w), Contains("[grad]") && Contains("detach()ed before mul"));
  }
  SECTION("frozen") {
    w.requires_grad_(false);
    CHECK_THROWS_WITH(sum(w * x).backward(), Contains("frozen") && Contains("used by mul"));
    w.requires_grad_();
    sum(w * x).backward();
  }
  SECTION("one way that is left is enough") {
    Tensor u = ones({3}).requires_grad_();
    sum(w.detach() * u).backward();
    CHECK(u.has_grad());
  }
}

TEST_CASE("grad() takes one output and one input without braces", "[interface]") {
  Tensor x = tensor({1., 2.}).requires_grad_(), y = tensor({3., 4.}).requires_grad_();
  CHECK(values(grad(sum(x * x), x)) == std::vector<double>{2, 4});
  const Tensor dx = grad(sum(x * x * x), x, create_graph);
  CHECK(values(grad(sum(dx), x)) == std::vector<double>{6, 12});
  CHECK(values(grad(x * y, x, tensor({1., 10.}))) == std::vector<double>{3, 40});
  const std::vector<Tensor> both = grad(sum(x * y), {x, y});
  CHECK((both.size() == 2 && equal(both[0], y) && equal(both[1], x)));
  const std::vector<Tensor> listed = grad({sum(x * y)}, {x});  // braces stand for a list
  CHECK(listed.size() == 1);
}

TEST_CASE("An adjoint that gives a gradient of a wrong shape is named", "[interface]") {
  const auto wrong = [](const Tensor& x, const Shape& shape) {
    return record("halve", {ones({2}), x}, x.detach().clone(), keep::nothing,
                  [shape](Backward& b) { b.give(1, ones(shape)); });
  };
  Tensor x = ones({2, 3}).requires_grad_();
  CHECK_THROWS_WITH(sum(wrong(x, {2})).backward(),
                    Contains("[halve]") && Contains("input 1 of shape [2, 3]") && Contains("gradient of shape [2]"));
  CHECK_THROWS_WITH(sum(wrong(x, {3, 2})).backward(), Contains("[halve]") && Contains("[3, 2]"));
  sum(wrong(x, {4, 2, 3})).backward();  // the input broadcasts to it: it is summed
  CHECK(values(x.grad())[0] == 4);
}

}  // namespace fit::test::interface_test
