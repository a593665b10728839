#include "fit/graph/autocast.hpp"

#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "fit/attention/attention.hpp"
#include "fit/backward/activation_checkpoint.hpp"
#include "fit/base/memory.hpp"
#include "fit/ops/ops.hpp"
#include "fit/threads/parallel.hpp"
#include "ops/common/autocast.hpp"
#include "support/catch.hpp"
#include "support/tables/op_table.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

namespace fit::test::autocast_test {
namespace {

Tensor drawn(const Shape& shape, DType dtype = float32) {
  std::mt19937_64 random(19);
  return random_tensor(shape, domain::real, random, dtype);
}

const void* copy_of(const Tensor& x) { return x.impl()->storage->copy.load(); }

double off(const Tensor& a, const Tensor& b) {
  const Tensor wide = b.detach().to(float64);
  return norm(a.detach().to(float64) - wide).item() / norm(wide).item();
}

// Two layers with what lies between: products, norm, GELU, attention, loss.
struct Small {
  Tensor in, w1, b1, w2, scale, targets;
  explicit Small(DType dtype = float32)
      : in(drawn({2, 5, 12}, dtype)),
        w1(drawn({36, 12}, dtype).mul(0.3).requires_grad_()),
        b1(drawn({36}, dtype).requires_grad_()),
        w2(drawn({7, 12}, dtype).requires_grad_()),
        scale(full({12}, 1.1, dtype).requires_grad_()),
        targets(tensor({0, 1, 2, 3, 4, 5, 6, 0, 1, 2})) {}
  std::vector<Tensor> leaves() const { return {w1, b1, w2, scale}; }
  Tensor loss() const {
    const Tensor h = packed_self_attention(linear(layer_norm(in, scale), w1, b1), 2, AttentionOptions().causal());
    return mean(cross_entropy_rows(reshape(linear(gelu(h), w2), {10, 7}), targets));
  }
};

std::vector<Tensor> gradients(const Small& s, GraphFlags flags = {}) { return grad(s.loss(), s.leaves(), flags); }

}  // namespace

TEST_CASE("autocast: the types that may be asked for", "[autocast]") {
  CHECK(autocast_dtype() == float32);
  {
    const Autocast on(bfloat16);
    CHECK(autocast_dtype() == bfloat16);
    {
      const Autocast off(float32);
      CHECK(matmul(drawn({2, 2}), drawn({2, 2})).dtype() == float32);
    }
    CHECK(matmul(drawn({2, 2}), drawn({2, 2})).dtype() == bfloat16);
    CHECK(matmul(drawn({2, 2}, float64), drawn({2, 2}, float64)).dtype() == float64);
  }
  CHECK(autocast_dtype() == float32);
  CHECK_THROWS_WITH(Autocast(int64), "[Autocast] the type is int64: it must be bfloat16, or float32 to switch it off");
  CHECK_THROWS_AS(Autocast(float64), Error);
  CHECK(autocast_dtype() == float32);
}

TEST_CASE("autocast: what an operation gives is what the documents say", "[autocast][ops]") {
  // The operations that docs/low_precision.md lists, by the heading of their line.
  std::map<std::string, std::string> listed;
  std::ifstream page(FIT_GOLDEN_DIR "/../../docs/low_precision.md");
  REQUIRE(page);
  for (std::string line; std::getline(page, line);) {
    const bool low = line.rfind("| bfloat16 |", 0) == 0, high = line.rfind("| float32 |", 0) == 0;
    if (!low && !high) continue;
    for (std::size_t at = line.find('`'); at != std::string::npos; at = line.find('`', at)) {
      const std::size_t end = line.find('`', at + 1);
      listed[line.substr(at + 1, end - at - 1)] = low ? "bfloat16" : "float32";
      at = end + 1;
    }
  }
  REQUIRE(listed.size() > 30);
  std::map<std::string, std::string> found;
  std::set<std::string> seen;  // the first form of each counts
  const Autocast on(bfloat16);
  for (const OpRow& row : op_rows()) {
    if (!seen.insert(row.op).second) continue;
    const auto given = [&](DType dtype) {
      std::vector<Tensor> in;
      std::mt19937_64 random(17);
      for (std::size_t i = 0; i < row.shapes[0].size(); ++i)
        in.push_back(random_tensor(row.shapes[0][i], row.domain_of(i), random, dtype));
      return row.f(in)[0].dtype();
    };
    const DType of_wide = given(float32), of_narrow = given(bfloat16);
    if (of_wide == bfloat16) found[row.op] = "bfloat16";
    if (of_narrow == float32) found[row.op] = "float32";
  }
  for (const auto& [op, type] : found) {
    INFO(op << " gives " << type);
    CHECK(listed[op] == type);
  }
  for (const auto& [op, type] : listed) {
    INFO(op << " is listed under " << type);
    CHECK(found[op] == type);
  }
}

TEST_CASE("autocast: a leaf's gradient is float32, and was never rounded", "[autocast]") {
  const Tensor x = drawn({64, 33}), weight = drawn({17, 33}).requires_grad_(), bias = drawn({17}).requires_grad_();
  const Tensor seed = drawn({64, 17}, bfloat16);
  Tensor y, z, e;
  {
    const Autocast on(bfloat16);
    y = linear(x, weight, bias);
    z = matmul(x, Transpose::no, weight, Transpose::yes);
    e = einsum("bi,oi->bo", {x, weight});
  }
  const Tensor exact = matmul(seed.to(float64), Transpose::yes, x.to(bfloat16).to(float64), Transpose::no);
  for (const Tensor& result : {y, z, e}) {
    INFO(result.grad_fn());
    CHECK(result.dtype() == bfloat16);
    for (const GraphFlags flags : {GraphFlags::none, create_graph}) {
      const Tensor dw = grad(result, weight, seed, flags | retain_graph);
      CHECK(dw.dtype() == float32);
      CHECK(off(dw, exact) < 1e-6);
      CHECK(off(dw.to(bfloat16), exact) > 1e-4);  // so that the line before says something
    }
  }
  const Tensor db = grad(y, bias, seed);
  CHECK(db.dtype() == float32);
  CHECK(max_difference(db, sum(seed.to(float64), 0)) < 1e-6);
}

TEST_CASE("autocast: linear rounds once, behind the bias", "[autocast]") {
  const Tensor x = drawn({9, 33}), weight = drawn({17, 33}), bias = drawn({17});
  const Tensor exact = linear(x.to(bfloat16).to(float64), weight.to(bfloat16).to(float64), bias.to(float64));
  const Autocast on(bfloat16);
  const Tensor y = linear(x, weight, bias);
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const double e = values(exact)[static_cast<std::size_t>(i)], v = values(y)[static_cast<std::size_t>(i)];
    CHECK(std::abs(v - e) <= std::ldexp(0.5, std::ilogb(e) - 7) * 1.01 + 1e-6);
  }
}

TEST_CASE("autocast: training reads a version of a weight without a copy, until it is read again", "[autocast]") {
  const Tensor x = drawn({40, 33}), g = drawn({40, 21}).to(bfloat16);
  const auto step = [&](const Tensor& w, bool by_matmul) {
    const Tensor y = by_matmul ? matmul(x, Transpose::no, w, Transpose::yes) : linear(x, w);
    y.backward(g);
    return y.detach();
  };
  for (const bool by_matmul : {false, true}) {
    Tensor w = drawn({21, 33}).requires_grad_();
    const Autocast on(bfloat16);
    const Tensor once = step(w, by_matmul), once_dw = w.grad().clone();
    CHECK(copy_of(w) == nullptr);
    w.zero_grad();
    const Tensor again = step(w, by_matmul);
    const void* const copy = copy_of(w);
    CHECK(copy != nullptr);
    CHECK(same_bits(again, once));
    CHECK(same_bits(w.grad(), once_dw));
    step(w, by_matmul);
    CHECK(copy_of(w) == copy);
    {
      const NoGrad no_grad;
      w.mul_(2);
    }
    step(w, by_matmul);
    CHECK(copy_of(w) == nullptr);
    const NoGrad no_grad;
    CHECK(same_bits(linear(x, w), once * 2));
    CHECK(copy_of(w) != nullptr);
  }
}

TEST_CASE("autocast: the gradient behind a weight that has no copy", "[autocast]") {
  const Tensor g = drawn({40, 21}).to(bfloat16);
  const auto dx = [&](bool copied) {
    Tensor x = drawn({40, 33}).requires_grad_(), w = drawn({21, 33}).requires_grad_();
    const Autocast on(bfloat16);
    if (copied) {
      const NoGrad no_grad;
      linear(x, w);
    }
    linear(x * 1, w).backward(g);
    CHECK((copy_of(w) != nullptr) == copied);
    return x.grad();
  };
  CHECK(same_bits(dx(false), dx(true)));
}

TEST_CASE("autocast: a weight's copy is made once for each version, and goes with it", "[autocast]") {
  const Tensor x = drawn({3, 8});
  Tensor w = drawn({5, 8}).requires_grad_();
  const auto base = memory_stats().live_blocks;
  {
    const Autocast on(bfloat16);
    const Tensor first = linear(x, w);
    const void* const copy = copy_of(w);
    REQUIRE(copy != nullptr);
    linear(x, w);
    sum(linear(x, w)).backward();
    CHECK(copy_of(w) == copy);
    CHECK(copy_of(w.alias({8, 5})) == copy);
    {
      const NoGrad no_grad;
      w.mul_(2);
    }
    CHECK(copy_of(w) == nullptr);
    CHECK(off(linear(x, w), first * 2) < 1e-6);
    w.zero_grad();
  }
  {
    const NoGrad no_grad;
    w.mul_(0.5);
  }
  detail::forget_copy(*x.impl()->storage);
  CHECK(memory_stats().live_blocks == base);
  {
    const Autocast on(bfloat16);
    const NoGrad no_grad;
    Tensor gone = drawn({5, 8});
    linear(x, gone);
    CHECK(copy_of(gone) != nullptr);
  }
  detail::forget_copy(*x.impl()->storage);
  CHECK(memory_stats().live_blocks == base);
}

TEST_CASE("autocast: a change in place of what backward() needs is an error", "[autocast]") {
  const Tensor x = drawn({3, 8}).requires_grad_();
  Tensor w = drawn({5, 8}).requires_grad_(), y;
  {
    const Autocast on(bfloat16);
    y = sum(linear(x, w));
  }
  {
    const NoGrad no_grad;
    w.mul_(2);
  }
  CHECK_THROWS_WITH(y.backward(), Catch::Contains("was changed in place"));
}

TEST_CASE("autocast: several threads may read one model", "[autocast]") {
  const Tensor x = drawn({3, 40}), w = drawn({50, 40}).requires_grad_();
  Tensor expected;
  {
    const Autocast on(bfloat16);
    expected = linear(x, w.detach().clone());
  }
  for (int round = 0; round < 20; ++round) {
    {
      const NoGrad no_grad;
      Tensor(w).mul_(1);  // a new version
    }
    std::vector<std::thread> threads;
    std::vector<Tensor> results(4);
    for (Tensor& result : results)
      threads.emplace_back([&] {
        const NoGrad no_grad;
        const Autocast on(bfloat16);
        for (int i = 0; i < 10; ++i) result = linear(x, w);
      });
    for (std::thread& t : threads) t.join();
    for (const Tensor& result : results) CHECK(same_bits(result, expected));
  }
}

TEST_CASE("autocast: backward() works as forward did", "[autocast]") {
  const Small s;
  std::vector<Tensor> inside, outside, plain, guarded;
  {
    const Autocast on(bfloat16);
    inside = gradients(s);
  }
  Tensor loss;
  {
    const Autocast on(bfloat16);
    loss = s.loss();
  }
  outside = grad(loss, s.leaves());
  plain = gradients(s);
  loss = s.loss();
  {
    const Autocast on(bfloat16);
    guarded = grad(loss, s.leaves());
  }
  for (std::size_t i = 0; i < inside.size(); ++i) {
    CHECK(same_bits(inside[i], outside[i]));
    CHECK(same_bits(plain[i], guarded[i]));
    CHECK_FALSE(same_bits(inside[i], plain[i]));
  }
}

TEST_CASE("autocast: gradients are near those of float64", "[autocast]") {
  const Small narrow;
  Small wide(float64);
  const std::vector<Tensor> exact = gradients(wide);
  const Autocast on(bfloat16);
  const std::vector<Tensor> g = gradients(narrow);
  for (std::size_t i = 0; i < g.size(); ++i) {
    INFO("leaf " << i);
    CHECK(g[i].dtype() == float32);
    CHECK(off(g[i], exact[i]) < 0.02);
  }
}

TEST_CASE("autocast: second derivatives", "[autocast]") {
  const auto curvature = [](const Small& s) {
    Tensor total;
    for (const Tensor& g : gradients(s, create_graph)) {
      const Tensor part = sum(g * g);
      total = total.defined() ? total + part : part;
    }
    return grad(total, s.leaves());
  };
  const std::vector<Tensor> exact = curvature(Small(float64));
  // On the way are rounded, by half a unit of 2^-7 at most: forward the norm, both weights, what both layers give, the
  // context and the GELU (7); in a first derivative what enters each of these but the norm and the weights (4). A
  // second one goes through all of them twice. The first layer alone makes up .055 of the .059 that its weight is off
  // by.
  constexpr double bound = 2 * (7 + 4) * 0x1p-8;
  const Autocast on(bfloat16);
  const std::vector<Tensor> g = curvature(Small());
  for (std::size_t i = 0; i < g.size(); ++i) {
    INFO("leaf " << i);
    CHECK(g[i].dtype() == float32);
    CHECK(off(g[i], exact[i]) < bound);
  }
}

TEST_CASE("autocast: a checkpoint computes again under what it was computed under", "[autocast]") {
  const Tensor x = drawn({6, 8}).requires_grad_(), w = drawn({8, 8}).requires_grad_();
  const auto f = [&](const Tensor& t) { return linear(gelu(linear(t, w)), w); };
  Tensor plain, again;
  {
    const Autocast on(bfloat16);
    plain = f(x);
    again = checkpoint(f, x);
  }
  CHECK(same_bits(plain, again));
  const Tensor seed = drawn({6, 8}, bfloat16);
  const std::vector<Tensor> a = grad({plain}, {x, w}, {seed}), b = grad({again}, {x, w}, {seed});
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(b[i].dtype() == float32);
    CHECK(off(b[i], a[i]) < 1e-6);
  }
}

TEST_CASE("autocast: tasks of parallel_for work as who started them", "[autocast]") {
  std::vector<DType> seen(64, float64);
  {
    const Autocast on(bfloat16);
    parallel_for(64, 1, [&](std::int64_t i, std::int64_t end) {
      for (; i < end; ++i) seen[static_cast<std::size_t>(i)] = autocast_dtype();
    });
  }
  for (const DType t : seen) CHECK(t == bfloat16);
  parallel_for(64, 1, [&](std::int64_t i, std::int64_t end) {
    for (; i < end; ++i) seen[static_cast<std::size_t>(i)] = autocast_dtype();
  });
  for (const DType t : seen) CHECK(t == float32);
}

TEST_CASE("autocast: the number of threads changes no bit", "[autocast]") {
  const Small s;
  const Autocast on(bfloat16);
  check_threads([&] { return cat({reshape(gradients(s)[0], {-1}), reshape(gradients(s)[2], {-1})}); });
}

TEST_CASE("autocast: a hidden NaN stays hidden", "[autocast]") {
  Tensor q = drawn({1, 2, 6, 8}), k = drawn({1, 2, 6, 8}), v = drawn({1, 2, 6, 8});
  const auto o = AttentionOptions().mask(tensor({{true, true, true, true, true, false}}));  // nobody sees the last key
  const Autocast on(bfloat16);
  const Tensor clean = scaled_dot_product_attention(q, k, v, o);
  k[{0, 0, 5, 0}] = NAN;
  v[{0, 1, 5, 3}] = INFINITY;
  for (Tensor* const t : {&q, &k, &v}) t->requires_grad_();
  const Tensor y = scaled_dot_product_attention(q, k, v, o);
  CHECK(same_bits(y.detach(), clean));
  for (const GraphFlags flags : {retain_graph, create_graph}) {
    const std::vector<Tensor> gradients = grad(sum(y * y), {q, k, v}, flags | retain_graph);
    for (const Tensor& g : gradients) CHECK(all(isfinite(g.detach())).item<bool>());
  }
}

TEST_CASE("autocast: what is kept for backward() is bfloat16", "[autocast]") {
  const Tensor w = drawn({256, 256}).requires_grad_();
  const auto kept = [&] {
    const std::int64_t before = memory_stats().live_bytes;
    Tensor h = drawn({512, 256});
    for (int i = 0; i < 4; ++i) h = gelu(linear(h, w));
    return memory_stats().live_bytes - before;
  };
  const std::int64_t plain = kept();
  const Autocast on(bfloat16);
  kept();
  CHECK(static_cast<double>(kept()) < 0.65 * static_cast<double>(plain));
}

}  // namespace fit::test::autocast_test
