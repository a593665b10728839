#include "kernels/windows.hpp"

#include "fit/graph/observer.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/rounding.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

// Convolutions and pools: their kernels, each against its formula, and the operations with their gradients against
// sums in float64.
namespace fit::test::windows_test {
namespace {

kernels::WindowLayout layout(std::int64_t channels, std::int64_t rows, std::int64_t cols, std::int64_t height,
                             std::int64_t width, std::int64_t stride, std::int64_t dilation) {
  const auto places = [&](std::int64_t n, std::int64_t size) { return (n - dilation * (size - 1) - 1) / stride + 1; };
  return {channels,           rows, cols, height, width, stride, stride, dilation, dilation, places(rows, height),
          places(cols, width)};
}

template <class T>
void check_windows(const kernels::WindowLayout& w, const kernels::WindowBlock& b) {
  using R = Rounded<T>;
  INFO(sizeof(T) << " bytes, x " << w.channels << " x " << w.rows << " x " << w.cols << ", windows " << w.height
                 << " x " << w.width << ", stride " << w.stride_right << ", dilation " << w.dilation_right
                 << ", channels " << b.channel << " + " << b.channels << ", places " << b.place << " + " << b.places);
  constexpr std::int64_t slack = kernels::WindowLayout::slack;
  const auto& k = kernels::windows<T>();
  std::mt19937_64 random(static_cast<std::uint64_t>(w.cols));
  const Draw usual = between(-2, 2);
  const std::int64_t size = w.channels * w.plane(), rows = b.channels * w.in_window();
  GuardedBuffer<T> x = drawn<T>(size + slack, 1, usual, random), gathered(rows * b.places + slack, 3);
  // The place in x of each element of the windows, in the order of gather().
  std::vector<std::int64_t> under;
  for (std::int64_t c = b.channel; c < b.channel + b.channels; ++c)
    for (std::int64_t i = 0; i < w.in_window(); ++i)
      for (std::int64_t p = b.place; p < b.place + b.places; ++p)
        under.push_back(c * w.plane() + (p / w.right * w.stride_down + i / w.width * w.dilation_down) * w.cols +
                        p % w.right * w.stride_right + i % w.width * w.dilation_right);
  k.gather(w, b, x.data(), gathered.data());
  CHECK(gathered.guards_intact());
  for (std::int64_t i = 0; i < rows * b.places; ++i)
    if (gathered[i] != x[under[static_cast<std::size_t>(i)]]) FAIL_CHECK("element " << i << " of the windows");

  GuardedBuffer<T> back = drawn<T>(size, 5, usual, random);
  const std::vector<T> before = back.values();
  std::vector<R> wanted(before.begin(), before.end());
  for (std::int64_t i = 0; i < rows * b.places; ++i) {
    R& to = wanted[static_cast<std::size_t>(under[static_cast<std::size_t>(i)])];
    to = to + R(gathered[i]);
  }
  k.scatter(w, b, gathered.data(), back.data());
  Worst scattered;
  for (std::int64_t i = 0; i < size; ++i) scattered.add(i, back[i], wanted[static_cast<std::size_t>(i)]);
  INFO("scattered " << scattered);
  CHECK(scattered.within_bounds());
  CHECK(back.guards_intact());

  // The first channel of the block.
  GuardedBuffer<T> weight = drawn<T>(w.in_window(), 2, usual, random), y = drawn<T>(b.places, 7, usual, random);
  GuardedBuffer<double> totals = drawn<double>(w.in_window(), 1, usual, random);
  const std::vector<T> y_before = y.values();
  const std::vector<double> totals_before = totals.values();
  Worst products, multiplied;
  k.products(w, b, x.data(), y.data(), totals.data());
  for (std::int64_t i = 0; i < w.in_window(); ++i) {
    std::vector<R> terms{R(static_cast<long double>(totals_before[static_cast<std::size_t>(i)]), 0)};
    for (std::int64_t p = 0; p < b.places; ++p) terms.push_back(R(gathered[i * b.places + p]) * R(y[p]));
    const R total = sum(terms);
    products.add(i, totals[i], Rounded<double>{total.value, total.error});
  }
  k.multiply(w, b, x.data(), weight.data(), y.data());
  for (std::int64_t p = 0; p < b.places; ++p) {
    R total(y_before[static_cast<std::size_t>(p)]);
    for (std::int64_t i = 0; i < w.in_window(); ++i) total = total + R(weight[i]) * R(gathered[i * b.places + p]);
    multiplied.add(p, y[p], total);
  }
  INFO("products " << products << "; multiplied " << multiplied);
  CHECK(products.within_bounds());
  CHECK(multiplied.within_bounds());
  CHECK((y.guards_intact() && totals.guards_intact()));
}

template <class T>
void check_kernels() {
  for (const std::int64_t cols : {5, 18, 34, 67})
    for (const std::int64_t stride : {1, 2, 3})
      for (const std::int64_t dilation : {1, 2}) {
        const auto w = layout(3, 7, cols, 3, 2, stride, dilation);
        check_windows<T>(w, {0, 3, 0, w.places()});
        check_windows<T>(w, {1, 2, w.places() / 3, w.places() / 2});
        check_windows<T>(w, {2, 1, w.places() - 1, 1});
      }
  check_windows<T>(layout(2, 1, 100, 1, 4, 1, 1), {0, 2, 5, 70});
  for (const std::int64_t n : odd_sizes) {
    GuardedBuffer<T> y(n, 3);
    kernels::windows<T>().fill(y.data(), n, T(1.5));
    for (std::int64_t i = 0; i < n; ++i)
      if (y[i] != T(1.5)) FAIL_CHECK("element " << i << " of " << n);
    CHECK(y.guards_intact());
  }
}

// A convolution, its sizes and options.
struct Case {
  Shape x, weight;
  ConvOptions options;
};

// Element by element, in float64.
Tensor by_formula(const Case& c, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const ConvOptions& o = c.options;
  const std::int64_t O = weight.shape()[0], C = weight.shape()[1], K = weight.shape()[2], L = weight.shape()[3];
  const Tensor wide = pad(x, {o.padding()[1], o.padding()[1], o.padding()[0], o.padding()[0]});
  const std::int64_t down = (wide.shape()[2] - o.dilation()[0] * (K - 1) - 1) / o.stride()[0] + 1;
  const std::int64_t right = (wide.shape()[3] - o.dilation()[1] * (L - 1) - 1) / o.stride()[1] + 1;
  std::vector<Tensor> channels;
  for (std::int64_t out = 0; out < O; ++out) {
    const std::int64_t first = out / (O / o.groups()) * C;
    Tensor total = zeros({x.shape()[0], down, right}, float64) + bias[out];
    for (std::int64_t ch = 0; ch < C; ++ch)
      for (std::int64_t k = 0; k < K; ++k)
        for (std::int64_t l = 0; l < L; ++l) {
          const std::int64_t top = k * o.dilation()[0], left = l * o.dilation()[1];
          const Tensor lines = slice(wide, 2, top, top + (down - 1) * o.stride()[0] + 1, o.stride()[0]);
          const Tensor under = slice(lines, 3, left, left + (right - 1) * o.stride()[1] + 1, o.stride()[1]);
          total = total + squeeze(slice(under, 1, first + ch, first + ch + 1), 1) * weight[{out, ch, k, l}];
        }
    channels.push_back(total);
  }
  return stack(channels, 1);
}

// y and the gradients by x, weight and bias. In bfloat16, operands of float32 hold its values, under Autocast.
void check_convolution(const Case& c, DType t) {
  INFO(c.x << " by " << c.weight << ", groups " << c.options.groups() << ", " << t);
  const bool low = t == bfloat16;
  manual_seed(3);
  const auto drawn = [&](const Shape& shape) { return randn(shape).to(t).to(low ? float32 : t); };
  std::vector<Tensor> in{drawn(c.x), drawn(c.weight), drawn({c.weight[0]})}, exact;
  for (Tensor& x : in) exact.push_back(x.to(float64).requires_grad_()), x.requires_grad_();
  const auto convolved = [&] {
    const Autocast precision(low ? bfloat16 : float32);
    return conv2d(in[0], in[1], in[2], c.options);
  };
  const Tensor y = convolved(), z = by_formula(c, exact[0], exact[1], exact[2]);
  REQUIRE(y.shape() == z.shape());
  REQUIRE(y.dtype() == t);
  const Tensor seed = randn(y.shape()).to(t);
  std::vector<Tensor> got = grad({y}, in, {seed}), wanted = grad({z}, exact, {seed.to(float64)});
  got.push_back(y.detach());
  wanted.push_back(z.detach());
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO("of x, weight, bias, y: " << i);
    // Relative to the size of a sum of that many products. Under Autocast, dx and y are rounded.
    const double size = std::max(1.0, norm(wanted[i]).item() / std::sqrt(static_cast<double>(wanted[i].numel())));
    const double rounding = low && (i == 0 || i == 3) ? 0x1p-8 : 0;
    CHECK(allclose(got[i].to(float64), wanted[i], rounding, size * (t == float64 ? 1e-13 : 1e-5)));
  }
}

std::vector<Case> cases() {
  const ConvOptions same = ConvOptions().padding(1), halves = ConvOptions().padding(1).stride(2);
  return {{{3, 2, 9, 11}, {5, 2, 3, 3}, same},
          {{2, 3, 12, 10}, {70, 3, 3, 3}, same},   // many outputs beside few channels
          {{2, 20, 13, 9}, {24, 20, 3, 3}, same},  // several blocks of channels
          {{2, 20, 13, 9}, {24, 20, 3, 3}, halves},
          {{1, 5, 40, 40}, {6, 5, 3, 3}, same},  // one image in parts
          {{2, 4, 9, 9}, {6, 2, 3, 2}, ConvOptions().groups(2).dilation(2).padding({2, 3})},
          {{3, 6, 10, 17}, {6, 1, 3, 3}, ConvOptions().groups(6).padding(1)},  // depthwise
          {{3, 6, 10, 17}, {12, 1, 3, 3}, ConvOptions().groups(6).padding(1).stride(2)},
          {{2, 8, 1, 60}, {8, 1, 1, 4}, ConvOptions().groups(8).padding({0, 3})},
          {{2, 4, 8, 8}, {3, 4, 1, 1}, {}},
          {{2, 66, 30, 30}, {48, 33, 1, 1}, ConvOptions().groups(2)},  // x is its matrix of windows
          {{3, 20, 9, 11}, {45, 20, 1, 1}, {}},                        // the same, with many outputs
          {{2, 20, 9, 11}, {6, 20, 1, 1}, ConvOptions().stride({1, 2})},
          {{2, 6, 9, 20}, {12, 1, 3, 3}, ConvOptions().groups(6)},      // depthwise without zeros
          {{2, 3, 16, 16}, {10, 3, 4, 4}, ConvOptions().stride(4)},     // patches of an image
          {{2, 3, 7, 8}, {4, 3, 2, 3}, ConvOptions().padding({3, 4})},  // more zeros than a window
          {{2, 3, 11, 8}, {4, 3, 3, 2}, ConvOptions().stride({3, 1}).dilation({1, 3}).padding({0, 2})},
          {{1, 1, 30, 30}, {1, 1, 29, 29}, same},
          {{1, 40, 7, 7}, {300, 40, 3, 3}, same},  // few blocks of many outputs
          {{5, 50, 4, 4}, {3, 50, 4, 4}, {}},      // one window, the image
          {{30, 9, 6, 5}, {40, 9, 6, 5}, ConvOptions().stride(2)},
          {{1, 24, 1, 1300}, {5, 24, 1, 3}, ConvOptions().padding({0, 1})},     // one row in parts
          {{1, 8, 3, 700}, {5, 8, 3, 3}, same},                                 // rows too long to read there
          {{2, 4, 20, 20}, {1, 4, 5, 5}, ConvOptions().padding(2)},             // dx is of one channel of dy
          {{2, 6, 20, 20}, {6, 1, 9, 9}, ConvOptions().groups(6).padding(4)}};  // depthwise, by large windows
}

// ---- pools --------------------------------------------------------------------------------------------------------

// y and dx of a pool of x [N, C, H, W], element by element.
struct Pooled {
  std::vector<double> y, dx;
};
Pooled by_formula(bool maximum, const Tensor& x, const PerAxis& size, const PerAxis& stride, const PoolOptions& o,
                  const Shape& shape, const std::vector<double>& dy) {
  const std::vector<double> in = x.to(float64).to_vector<double>();
  Pooled p{{}, std::vector<double>(in.size())};
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    const std::int64_t plane = i / (shape[2] * shape[3]), row = i / shape[3] % shape[2], col = i % shape[3];
    std::vector<std::int64_t> all;  // the elements of the window
    for (std::int64_t k = 0; k < size[0]; ++k)
      for (std::int64_t l = 0; l < size[1]; ++l) {
        const std::int64_t r = row * stride[0] + k * o.dilation()[0] - o.padding()[0],
                           c = col * stride[1] + l * o.dilation()[1] - o.padding()[1];
        if (r >= 0 && r < x.shape()[2] && c >= 0 && c < x.shape()[3])
          all.push_back((plane * x.shape()[2] + r) * x.shape()[3] + c);
      }
    const auto at = [&](std::int64_t e) { return in[static_cast<std::size_t>(e)]; };
    const auto to = [&](std::int64_t e) -> double& { return p.dx[static_cast<std::size_t>(e)]; };
    const double seed = dy[static_cast<std::size_t>(i)];
    if (maximum) {
      std::int64_t best = all[0];
      for (const std::int64_t e : all)
        if (!std::isnan(at(best)) && (std::isnan(at(e)) || at(e) > at(best))) best = e;
      p.y.push_back(at(best));
      to(best) += seed;
    } else {
      const auto n = static_cast<double>(size[0] * size[1]);
      double total = 0;
      for (const std::int64_t e : all) total += at(e), to(e) += seed / n;
      p.y.push_back(total / n);
    }
  }
  return p;
}

void check_pool(bool maximum, const Shape& shape, const PerAxis& size, const PoolOptions& o, DType t, bool special) {
  INFO((maximum ? "max " : "avg ") << shape << " by " << size.str() << ", stride " << o.stride().str() << ", padding "
                                   << o.padding().str() << ", dilation " << o.dilation().str() << ", " << t);
  manual_seed(11);
  Tensor x = round(randn(shape) * 2).to(t);  // many are equal
  if (special) x = where(rand(shape) < 0.1, std::numeric_limits<double>::quiet_NaN(), x).to(t);
  if (special) x = where(rand(shape) < 0.6, -std::numeric_limits<double>::infinity(), x).to(t);
  x.requires_grad_();
  const Tensor y = maximum ? max_pool2d(x, size, o) : avg_pool2d(x, size, o), seed = round(randn(y.shape()) * 8);
  const PerAxis stride(o.stride()[0] == 0 ? size[0] : o.stride()[0], o.stride()[1] == 0 ? size[1] : o.stride()[1]);
  const Pooled p = by_formula(maximum, x.detach(), size, stride, o, y.shape(), seed.to(float64).to_vector<double>());
  y.backward(seed.to(t));
  const double tolerance = maximum ? 0 : t == float64 ? 1e-15 : 1e-6;
  const auto near = [&](const Tensor& a, const std::vector<double>& b) {
    return all(isclose(nan_to_num(a.to(float64), -99., 1e9, -1e9), nan_to_num(tensor(b, a.shape()), -99., 1e9, -1e9),
                       tolerance, tolerance))
        .item<bool>();
  };
  CHECK(near(y.detach(), p.y));
  CHECK(near(x.grad(), p.dx));
}

}  // namespace

TEST_CASE("pools follow their formula, with NaN, infinities and equal elements", "[ops]") {
  for (const bool maximum : {true, false})
    for (const DType t : {float32, float64})
      for (const bool special : {false, maximum}) {
        check_pool(maximum, {2, 3, 12, 37}, 2, {}, t, special);
        check_pool(maximum, {2, 3, 12, 37}, 3, PoolOptions().stride(1).padding(1), t, special);
        check_pool(maximum, {1, 2, 9, 20}, {3, 2}, PoolOptions().stride({1, 3}).padding({1, 0}), t, special);
        check_pool(maximum, {1, 2, 11, 40}, 3, PoolOptions().stride(2).dilation({2, 3}).padding(1), t, special);
        check_pool(maximum, {3, 1, 5, 5}, 5, {}, t, special);  // one window
        check_pool(maximum, {70, 9, 2, 3}, {2, 3}, {}, t, special);
        check_pool(maximum, {3, 4, 1, 1}, 1, {}, t, special);
      }
}

TEST_CASE("what a pool gives may be changed before its gradient", "[ops]") {
  Tensor x = randn({2, 3, 6, 6}).requires_grad_(), same = x.detach().clone().requires_grad_();
  Tensor y = max_pool2d(x, 2);
  y.mul_(3);
  sum(y).backward();
  sum(max_pool2d(same, 2) * 3).backward();
  CHECK(equal(x.grad(), same.grad()));
}

TEST_CASE("pools have the same bits on every instruction set and with any number of threads", "[ops]") {
  for (const std::int64_t stride : {1, 2, 3}) {
    const auto both = [&] {
      manual_seed(3);
      Tensor x = randn({40, 5, 20, 30}).requires_grad_();
      const auto o = PoolOptions().stride(stride).padding(1);
      const Tensor y = max_pool2d(x, 3, o) + avg_pool2d(x, 3, o);
      y.backward(randn(y.shape()));
      return cat({flatten(y.detach()), flatten(x.grad())});
    };
    check_threads(both);
    const Tensor here = both();
    each_isa([&] { CHECK(same_bits(both(), here)); });
  }
}

TEST_CASE("a mean of windows keeps nothing, and has derivatives of every order", "[ops]") {
  for (const std::int64_t size : {2, 6}) {
    Tensor x = randn({2, 3, 6, 6}).requires_grad_(), dy = randn({2, 3, 6 / size, 6 / size}).requires_grad_();
    const Tensor y = avg_pool2d(x, size);
    {
      const NoGrad no_grad;
      x.mul_(2);  // is not read again
    }
    const Tensor dx = grad(std::vector<Tensor>{y}, {x}, {dy}, create_graph)[0], v = randn(x.shape());
    CHECK(same_bits(grad(sum(dx * v), dy), avg_pool2d(v, size)));
  }
}

TEST_CASE("kernels of windows follow their formulas", "[kernels]") {
  each_isa([] {
    check_kernels<float>();
    check_kernels<double>();
  });
}

TEST_CASE("convolutions and their gradients are sums of products", "[ops]") {
  for (const Case& c : cases())
    for (const DType t : {float32, float64}) check_convolution(c, t);
  each_bfloat16_isa([] {
    for (const Case& c : cases()) check_convolution(c, bfloat16);
  });
}

TEST_CASE("convolutions have the same bits on every instruction set and with any number of threads", "[ops]") {
  for (const Case& c : cases()) {
    INFO(c.x << " by " << c.weight);
    const auto all = [&] {
      manual_seed(3);
      Tensor x = randn(c.x).requires_grad_(), w = randn(c.weight).requires_grad_();
      const Tensor y = conv2d(x, w, {}, c.options);
      y.backward(randn(y.shape()));
      return cat({flatten(y.detach()), flatten(x.grad()), flatten(w.grad())});
    };
    check_threads(all);
    const Tensor here = all();
    each_isa([&] { CHECK(same_bits(all(), here)); });
  }
}

TEST_CASE("a convolution of no images has a gradient of 0", "[ops]") {
  for (const std::int64_t size : {3, 5}) {
    Tensor x = zeros({0, 2, 5, 5}).requires_grad_(), w = randn({3, 2, size, size}).requires_grad_();
    const Tensor y = conv2d(x, w);
    CHECK(y.shape() == Shape{0, 3, 6 - size, 6 - size});
    y.sum().backward();
    CHECK(equal(w.grad(), zeros(w.shape())));
    CHECK(x.grad().shape() == x.shape());
  }
}

TEST_CASE("a transposed convolution is the gradient of its convolution", "[ops]") {
  for (const Case& c : cases()) {
    INFO(c.x << " by " << c.weight);
    const Tensor z = zeros(c.x).requires_grad_(), w = randn(c.weight), y = conv2d(z, w, {}, c.options);
    const ConvOptions& o = c.options;
    const auto left = [&](int a) {  // rows that no window reaches
      const std::int64_t last = (y.size(a + 2) - 1) * o.stride()[a] + o.dilation()[a] * (w.size(a + 2) - 1) + 1;
      return c.x[a + 2] + 2 * o.padding()[a] - last;
    };
    const Tensor x = randn(y.shape());
    const auto options = ConvOptions(o).output_padding({left(0), left(1)});
    CHECK(same_bits(conv_transpose2d(x, w, {}, options), grad(y, z, x)));
  }
}

TEST_CASE("a transposed convolution does not depend on the batch in the mode Reproducible", "[ops]") {
  const Reproducible mode;
  const NoGrad no_grad;
  for (const std::int64_t size : {1, 8}) {
    const Tensor x = randn({20, 12, size, size}), w = randn({12, 10, 3, 3});
    CHECK(same_bits(conv_transpose2d(slice(x, 0, 0, 1), w), slice(conv_transpose2d(x, w), 0, 0, 1)));
  }
}

TEST_CASE("a convolution and its gradients count the operations of their products", "[ops]") {
  struct Flops : Observer {
    std::int64_t count = 0;
    void flops_counted(std::int64_t n) override { count += n; }
  };
  Tensor x = randn({2, 4, 8, 8}).requires_grad_(), w = randn({6, 4, 3, 3}).requires_grad_();
  for (const std::int64_t padding : {0, 1}) {
    Flops flops;
    const Observe watching(flops);
    const Tensor y = conv2d(x, w, {}, ConvOptions().padding(padding));
    const std::int64_t each = 2 * y.numel() * 4 * 3 * 3;
    CHECK(flops.count == each);
    y.sum().backward();
    CHECK(flops.count == 3 * each);
  }
}

TEST_CASE("a convolution keeps its input for the gradient, not its windows", "[ops]") {
  Tensor x = randn({8, 16, 32, 32}), w = randn({16, 16, 3, 3}).requires_grad_();
  const auto before = memory_stats().live_bytes;
  const Tensor y = conv2d(x, w, {}, ConvOptions().padding(1));
  CHECK(memory_stats().live_bytes - before < 2 * y.numel() * 4);

  const Autocast low(bfloat16);
  const auto then = memory_stats().live_bytes;
  const Tensor z = conv2d(x, w, {}, ConvOptions().padding(1));
  CHECK(memory_stats().live_bytes - then < 3 * z.numel() * 2);  // z and x in bfloat16
}

}  // namespace fit::test::windows_test
