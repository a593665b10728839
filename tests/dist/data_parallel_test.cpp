#include "fit/nn/training/data_parallel.hpp"

#include <optional>

#include "dist/agree.hpp"
#include "dist/training.hpp"

// Several ranks train as one: by a loop of one's own.
namespace fit::test {
namespace {

using Catch::Matchers::Contains;

struct Case {
  DType dtype = float64;
  int steps = 1;
  std::int64_t batch = 12;
  int parts = 1;
  double dropout = 0.1;
  dist::DataParallelOptions options = {};
};

// The parameters after some steps on batches that every rank draws alike.
std::vector<double> trained(const Case& c, dist::World& world) {
  manual_seed(5);
  nn::GPT model(small_gpt(c.dropout));
  model.to(c.dtype);
  if (world.rank() > 0)
    for (Tensor p : model.parameters()) p.detach().mul_(1.5);  // rank 0's values count
  dist::DataParallel parallel(model, c.options, world);
  optim::SGD optimizer(model.named_parameters(), optim::SGDOptions().lr(0.1).momentum(0.9).weight_decay(0.01));
  Generator data(7);
  for (int step = 0; step < c.steps; ++step) {
    optimizer.zero_grad();
    for (int part = 0; part < c.parts; ++part) {
      const Tensor ids = randint(0, 11, {c.batch, 9}, data);
      const Tensor own = parallel.rows(ids);
      std::optional<dist::DataParallel::NoSync> quiet;
      if (part + 1 < c.parts) quiet.emplace(parallel);
      parallel.backward(model.loss(own[{range(), range(0, 8)}], own[{range(), range(1, 9)}]));
    }
    optim::clip_grad_norm_(model.parameters(), 0.5);
    optimizer.step();
  }
  return numbers_of(model);
}

std::vector<double> alone(const Case& c) {
  dist::World one;
  return trained(c, one);
}

}  // namespace

TEST_CASE("what ranks say to each other", "[dist]") {
  dist::World& w = dist::world();
  const double rank = w.rank(), size = w.size();
  CHECK(dist::sum({1, rank})[0] == size);
  CHECK(dist::sum({1, rank})[1] == size * (size - 1) / 2);
  CHECK(dist::mean(rank, rank == 0 ? 0 : 1) == (size == 1 ? 0 : size / 2));
  double number = rank + 4;
  dist::broadcast(number);
  CHECK(number == 4);
  std::string text = w.rank() == 0 ? std::string(1000, 'x') : "else";
  dist::broadcast(text);
  CHECK(text == std::string(1000, 'x'));
  StateDict state{{"a", full({2, 3}, rank, float64)}, {"n", full({}, w.rank(), int64)}, {"none", zeros({0, 2})}};
  if (w.rank() > 0) state.resize(1);
  dist::broadcast(state);
  REQUIRE(state.size() == 3);
  CHECK(state[0].second.equal(zeros({2, 3}, float64)));
  CHECK(state[1].second.dtype() == int64);
  CHECK(state[2].second.shape() == Shape{0, 2});
  // Numbers whose sum depends on the order: it is that of ranks.
  std::vector<double> hard{w.rank() % 2 == 0 ? 1e16 : 1 + rank};
  double expected = 0;
  for (int r = 0; r < w.size(); ++r) expected += r % 2 == 0 ? 1e16 : 1. + r;
  CHECK(dist::sum(hard)[0] == expected);
}

TEST_CASE("rows are divided among the ranks without rest", "[dist]") {
  for (const std::int64_t of : {1, 2, 3, 7, 12, 13})
    for (const int size : {1, 2, 4, 5}) {
      std::int64_t next = 0;
      for (int r = 0; r < size; ++r) {
        const dist::Rows rows(of, r, size);
        CHECK(rows.first == next);
        CHECK(rows.count >= of / size);
        CHECK(rows.count <= of / size + 1);
        next += rows.count;
      }
      CHECK(next == of);
    }
}

TEST_CASE("ranks are as good as one process", "[dist]") {
  Case c;
  SECTION("even batches") {}
  SECTION("uneven batches") { c.batch = 7; }
  SECTION("fewer rows than ranks") { c.batch = 3; }
  SECTION("one row") { c.batch = 1; }
  SECTION("accumulated") { c.parts = 3; }
  SECTION("accumulated, uneven") { c.parts = 2, c.batch = 5; }
  SECTION("without dropout") { c.dropout = 0; }
  SECTION("nothing overlaps") { c.options.overlap(dist::Overlap::no); }
  SECTION("a bucket for each") { c.options.bucket_bytes(1); }
  for (const auto& [dtype, steps, tolerance] :
       {std::tuple(float64, 1, 1e-12), {float64, 20, 1e-9}, {float32, 1, 1e-6}, {float32, 20, 1e-4}}) {
    c.dtype = dtype, c.steps = steps;
    const std::vector<double> together = trained(c, dist::world()), single = alone(c);
    CHECK(distance(together, single) <= tolerance);
    CHECK(same_on_all_ranks(together));
    Case none = c;
    none.steps = 0;
    CHECK(distance(together, alone(none)) > 1e-4);  // it has trained
  }
}

TEST_CASE("repeats have the same bits, whatever the buckets", "[dist]") {
  Case c;
  c.dtype = float32, c.steps = 10, c.batch = 10;
  const std::vector<double> first = trained(c, dist::world());
  CHECK(trained(c, dist::world()) == first);
  for (const std::size_t bytes : {1, 500, 3000, 1 << 24}) {
    c.options.bucket_bytes(bytes).overlap(bytes == 500 ? dist::Overlap::no : dist::Overlap::yes);
    CHECK(trained(c, dist::world()) == first);
  }
}

TEST_CASE("losses are weighted by what they are the mean of", "[dist]") {
  const auto run = [](dist::World& world) {
    manual_seed(2);
    nn::Linear model(5, 3);
    model.to(float64);
    dist::DataParallel parallel(model, {}, world);
    const Tensor x = randn({8, 5}, float64);
    Tensor y = randint(0, 3, {8});
    y[{range(4, 7)}] = full({3}, -1, int64);  // ranks have different numbers of targets, one of four has just one
    const auto o = nn::CrossEntropyOptions().ignore_index(-1);
    const Tensor mine = parallel.rows(y);
    const double loss = parallel.backward(nn::cross_entropy(model(parallel.rows(x)), mine, o));
    std::vector<double> all = model.weight.grad().to_vector<double>();
    all.push_back(loss);
    return all;
  };
  dist::World one;
  CHECK(distance(run(dist::world()), run(one)) < 1e-14);
}

TEST_CASE("parameters that got no gradient", "[dist]") {
  dist::World& w = dist::world();
  manual_seed(2);
  const Tensor a = randn({3}, float64).requires_grad_(), b = randn({4}, float64).requires_grad_(),
               c = randn({2}, float64).requires_grad_();
  dist::DataParallelOptions options;
  const auto backward = [&] {
    dist::DataParallel parallel(optim::Parameters(StateDict{{"a", a}, {"b", b}, {"c", c}}), options);
    for (int step = 0; step < 3; ++step) {
      Tensor(a).zero_grad(), Tensor(b).zero_grad(), Tensor(c).zero_grad();
      parallel.backward(w.rank() == 0 ? sum(a) + sum(2 * b) : sum(a));
      parallel.world().barrier();
    }
  };
  SECTION("count as zero") {
    backward();
    CHECK(a.grad().allclose(ones({3}, float64)));
    CHECK(b.grad().allclose(full({4}, 2. / w.size(), float64)));
    CHECK_FALSE(c.has_grad());  // nobody has one
  }
  SECTION("or are named") {
    if (w.size() == 1) return;
    options.missing(dist::Missing::error);
    CHECK_THROWS_WITH(backward(), Contains("the parameter b got a gradient on 1 of " + std::to_string(w.size())));
    CHECK_THROWS_AS(backward(), dist::AgreedError);
  }
}

TEST_CASE("models that differ are named before anything is trained", "[dist]") {
  dist::World& w = dist::world();
  if (w.size() == 1) return;
  const int last = w.size() - 1;
  nn::Sequential model(nn::Linear(4, 3), nn::Linear(3, w.rank() == last ? 5 : 2));
  CHECK_THROWS_WITH(dist::DataParallel(model),
                    Contains("[DataParallel]") && Contains("rank 0 has 1.weight") && Contains("[2, 3]") &&
                        Contains("rank " + std::to_string(last) + " has 1.weight") && Contains("[5, 3]"));
  nn::Linear deep(2, 2);
  if (w.rank() == 1) deep.to(float64);
  CHECK_THROWS_WITH(dist::DataParallel(deep), Contains("rank 1 has weight") && Contains("float64"));
  nn::Linear bare(2, 2, w.rank() != 1);
  CHECK_THROWS_WITH(dist::DataParallel(bare), Contains("rank 0 has bias") && Contains("rank 1 has nothing more"));
}

TEST_CASE("states that differ are named on all ranks", "[dist]") {
  dist::World& w = dist::world();
  if (w.size() == 1) return;
  const int last = w.size() - 1;
  const std::string who = "rank " + std::to_string(last) + " has ";
  const Tensor x = ones({2}), none = zeros({0});
  // The last rank has the second state.
  const auto differ = [&](const StateDict& all, const StateDict& other, const std::string& same, const char* agree) {
    const StateDict& mine = w.rank() == last ? other : all;
    CHECK_THROWS_WITH(dist::check_same("op", mine, "the cure", w),
                      Contains(who + "another " + same + " than rank 0: the cure"));
    if (agree)
      CHECK_THROWS_WITH(dist::check_agree("op", "states", mine, w), Contains(who + agree));
    else
      CHECK_NOTHROW(dist::check_agree("op", "states", mine, w));
  };
  differ({{"a", x}}, {{"b", x}}, "b", "b [2] float32");
  differ({{"a", x}}, {{"a", ones({3})}}, "a", "a [3] float32");
  differ({{"a", x}}, {{"a", ones({2}, float64)}}, "a", "a [2] float64");
  differ({{"a", x}}, {{"a", x + 1}}, "a", nullptr);
  differ({{"none", none}}, {{"none", none}, {"b", x}}, "b", "b [2] float32");
  differ({{"none", none}, {"b", x}}, {{"none", none}}, "b", "nothing more");
  const StateDict undefined{{"a", Tensor()}}, defined{{"a", x}};
  CHECK_THROWS_WITH(dist::check_agree("op", "states", w.rank() == last ? undefined : defined, w),
                    Contains(who + "a undefined"));
  const StateDict values{{"none", Tensor()}, {"rank", full({2}, w.rank() + 5.)}};
  dist::broadcast_values("op", values, w);
  CHECK(equal(values[1].second, full({2}, 5)));
}

TEST_CASE("what can't be done in parallel", "[dist]") {
  nn::Linear model(4, 3);
  dist::DataParallel parallel(model);
  const Tensor x = ones({8, 4});
  CHECK_THROWS_WITH(parallel.rows(ones({})), Contains("without axes"));
  CHECK_THROWS_WITH(parallel.rows(ones({0, 4})), Contains("no rows"));
  (void)parallel.rows(x);
  CHECK_THROWS_WITH(parallel.rows(ones({9, 4})), Contains("9 rows, and before of 8"));
  CHECK_THROWS_WITH(parallel.backward(model(x)), Contains("must be one number"));
  CHECK_THROWS_WITH(parallel.backward(sum(model(x)), -1), Contains("weight is -1"));
  const auto none = dist::DataParallelOptions().bucket_bytes(0);
  CHECK_THROWS_WITH(dist::DataParallel(optim::Parameters{x}, none), Contains("bucket_bytes"));
  CHECK(parallel.backward(sum(model(x)), 0) == 0);  // nothing counts
}

TEST_CASE("a second backward before the sum has come is refused", "[dist]") {
  if (dist::world().size() == 1) return;
  manual_seed(1);
  nn::Linear model(4, 3);
  const Tensor x = ones({2, 4});
  dist::DataParallel parallel(model);
  sum(model(x)).backward();
  CHECK_THROWS_WITH(sum(model(x)).backward(), Contains("hold no_sync()"));
  parallel.finish();
}

TEST_CASE("gradients travel while backward goes on", "[dist]") {
  if (dist::world().size() == 1) return;
  manual_seed(1);
  nn::Sequential model(nn::Linear(8, 8), nn::Linear(8, 8), nn::Linear(8, 8));
  auto each = dist::DataParallelOptions().bucket_bytes(1);
  const auto early = [&] {
    dist::DataParallel parallel(model, each);
    for (int step = 0; step < 3; ++step) parallel.backward(sum(model(ones({2, 8}))));
    CHECK(parallel.traffic().buckets == 6);
    CHECK(parallel.traffic().steps == 3);
    return parallel.traffic().sent_early;
  };
  CHECK(early() == 18);
  each.overlap(dist::Overlap::no);
  CHECK(early() == 0);
}

TEST_CASE("a parameter has one DataParallel", "[dist]") {
  if (dist::world().size() == 1) return;
  nn::Linear model(2, 2);
  {
    const dist::DataParallel parallel(model);
    CHECK_THROWS_WITH(dist::DataParallel(model), Contains("the parameter weight is in another DataParallel"));
  }
  CHECK_NOTHROW(dist::DataParallel(model));
}

TEST_CASE("bytes sent are counted", "[dist]") {
  dist::World& w = dist::world();
  nn::Linear model(64, 64);
  dist::DataParallel parallel(model);
  const double before = w.bytes_sent();
  sum(model(ones({2, 64}))).backward();
  parallel.finish();
  const double sent = w.bytes_sent() - before;
  const double gradients = 4 * (64 * 64 + 64), ideal = 2. * (w.size() - 1) / w.size() * gradients;
  CHECK(sent >= ideal);
  CHECK(sent <= ideal + 2 * 64 * w.size() + 16);
  CHECK(parallel.traffic().steps == (w.size() > 1));
}

}  // namespace fit::test
