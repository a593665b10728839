#include <cmath>
#include <cstdlib>
#include <random>

#include "fit/detail/function_ref.hpp"
#include "fit/graph/graph.hpp"
#include "fit/ops/ops.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// Small random programs: operations, broadcasts, shared subexpressions and writes in place, held against the same
// program in plain loops over double, and their gradients against central differences of that. FIT_GRAPHS sets how many
// are tried; FIT_GRAPH_SEED with which one to begin.
namespace fit::test::random_graphs_test {
namespace {

std::uint64_t number_of(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

// An array without a graph.
struct Plain {
  Shape shape;
  std::vector<double> v;
};

std::int64_t stride_of(const Shape& s, int axis) {
  std::int64_t n = 1;
  for (int a = axis + 1; a < s.rank(); ++a) n *= s[a];
  return n;
}

// Where the element at place i of `to` lies in an array of shape `from` that broadcasts to it.
std::int64_t source(const Shape& from, const Shape& to, std::int64_t i) {
  std::int64_t at = 0;
  for (int a = 0; a < from.rank(); ++a) {
    const int b = a + to.rank() - from.rank();
    const std::int64_t index = i / stride_of(to, b) % to[b];
    if (from[a] != 1) at += index * stride_of(from, a);
  }
  return at;
}

bool fits(const Shape& a, const Shape& b) {
  for (int k = 1; k <= std::min(a.rank(), b.rank()); ++k)
    if (a[a.rank() - k] != b[b.rank() - k] && a[a.rank() - k] != 1 && b[b.rank() - k] != 1) return false;
  return true;
}

Shape together(const Shape& a, const Shape& b) {
  std::vector<std::int64_t> sizes;
  for (int k = std::max(a.rank(), b.rank()); k > 0; --k) {
    const std::int64_t x = k <= a.rank() ? a[a.rank() - k] : 1, y = k <= b.rank() ? b[b.rank() - k] : 1;
    sizes.push_back(x == 1 ? y : x);
  }
  return Shape(sizes);
}

Plain zip(const Plain& a, const Plain& b, FunctionRef<double(double, double)> f) {
  Plain y{together(a.shape, b.shape), {}};
  for (std::int64_t i = 0; i < y.shape.numel(); ++i)
    y.v.push_back(f(a.v[static_cast<std::size_t>(source(a.shape, y.shape, i))],
                    b.v[static_cast<std::size_t>(source(b.shape, y.shape, i))]));
  return y;
}

Plain map(const Plain& a, FunctionRef<double(double)> f) {
  Plain y = a;
  for (double& e : y.v) e = f(e);
  return y;
}

// f on each line along an axis, which gives a line of its own.
Plain lines(const Plain& a, int axis, FunctionRef<std::vector<double>(std::vector<double>)> f) {
  const std::int64_t n = a.shape[axis], inner = stride_of(a.shape, axis);
  std::vector<std::int64_t> sizes(a.shape.begin(), a.shape.end());
  Plain y;
  for (std::int64_t o = 0; o < a.shape.numel() / std::max<std::int64_t>(n * inner, 1); ++o)
    for (std::int64_t i = 0; i < inner; ++i) {
      std::vector<double> line;
      for (std::int64_t k = 0; k < n; ++k) line.push_back(a.v[static_cast<std::size_t>((o * n + k) * inner + i)]);
      line = f(std::move(line));
      const auto m = static_cast<std::int64_t>(line.size());
      if (y.v.empty()) {
        sizes[static_cast<std::size_t>(axis)] = m;
        y.shape = Shape(sizes);
        y.v.resize(static_cast<std::size_t>(y.shape.numel()));
      }
      for (std::int64_t k = 0; k < m; ++k)
        y.v[static_cast<std::size_t>((o * m + k) * inner + i)] = line[static_cast<std::size_t>(k)];
    }
  return y;
}

Plain swap_last(const Plain& a) {
  const int r = a.shape.rank();
  std::vector<std::int64_t> sizes(a.shape.begin(), a.shape.end());
  std::swap(sizes[static_cast<std::size_t>(r - 1)], sizes[static_cast<std::size_t>(r - 2)]);
  const std::int64_t n = a.shape[r - 2], m = a.shape[r - 1];
  Plain y{Shape(sizes), std::vector<double>(a.v.size())};
  for (std::size_t i = 0; i < a.v.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    y.v[static_cast<std::size_t>(at / (n * m) * n * m + at % m * n + at / m % n)] = a.v[i];
  }
  return y;
}

Plain product(const Plain& a, const Plain& b) {  // [n, k] by [k, m]
  const std::int64_t n = a.shape[0], k = a.shape[1], m = b.shape[1];
  Plain y{{n, m}, std::vector<double>(static_cast<std::size_t>(n * m))};
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < m; ++j)
      for (std::int64_t c = 0; c < k; ++c)
        y.v[static_cast<std::size_t>(i * m + j)] +=
            a.v[static_cast<std::size_t>(i * k + c)] * b.v[static_cast<std::size_t>(c * m + j)];
  return y;
}

std::vector<double> softmax_of(std::vector<double> line) {
  double sum = 0;
  for (double& e : line) sum += e = std::exp(e);
  for (double& e : line) e /= sum;
  return line;
}
std::vector<double> line_sum(const std::vector<double>& line) {
  double sum = 0;
  for (const double e : line) sum += e;
  return {sum};
}

// One step: what it does to the tensors that there are, and the same to plain arrays. All functions are smooth and
// tame, so that differences say what the derivative is.
struct Step {
  std::string text;
  Callable<void(std::vector<Tensor>&)> on_tensors;
  Callable<void(std::vector<Plain>&)> on_plain;
};

struct Program {
  std::vector<Plain> leaves;
  std::vector<Step> steps;
  std::string text;

  explicit Program(std::uint64_t seed) : random_(seed) {
    static const std::vector<Shape> shapes = {{},     {1},    {3},       {2, 1}, {1, 3},
                                              {2, 3}, {3, 2}, {2, 2, 3}, {3, 3}, {1, 1, 2}};
    for (std::size_t i = 0, n = 2 + below(3); i < n; ++i) {
      Plain p{shapes[below(shapes.size())], {}};
      for (std::int64_t k = 0; k < p.shape.numel(); ++k) p.v.push_back(uniform(-1.5, 1.5));
      leaves.push_back(p);
      text += "x" + std::to_string(i) + ' ' + p.shape.str() + '\n';
    }
    std::vector<Plain> now = leaves;
    for (std::size_t i = 0, n = 3 + below(8); i < n; ++i) {
      Step s = next(now);
      s.on_plain(now);
      text += s.text + '\n';
      steps.push_back(std::move(s));
    }
    for (const Plain& p : now) {
      Plain w = p;
      for (double& e : w.v) e = uniform(-1, 1);
      weights.push_back(std::move(w));
    }
  }

  /// What each array counts in the result, so that none of them is forgotten.
  std::vector<Plain> weights;

  double value(const std::vector<Plain>& x) const {
    std::vector<Plain> all = x;
    for (const Step& s : steps) s.on_plain(all);
    double sum = 0;
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t k = 0; k < all[i].v.size(); ++k) sum += all[i].v[k] * weights[i].v[k];
    return sum;
  }

  std::vector<Tensor> run(const std::vector<Tensor>& x) const {
    std::vector<Tensor> all = x;
    for (const Step& s : steps) s.on_tensors(all);
    return all;
  }

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(random_() >> 11) * 0x1p-53;
  }
  static std::string name(std::size_t i) { return "x" + std::to_string(i); }

  Step unary(std::size_t a) {
    using T = Tensor (*)(const Tensor&);
    struct Function {
      const char* name;
      T tensor;
      double (*plain)(double);
    };
    static const Function functions[] = {
        {"tanh", [](const Tensor& x) { return tanh(x); }, [](double v) { return std::tanh(v); }},
        {"sigmoid", [](const Tensor& x) { return sigmoid(x); }, [](double v) { return 1 / (1 + std::exp(-v)); }},
        {"sin", [](const Tensor& x) { return sin(x); }, [](double v) { return std::sin(v); }},
        {"exp of tanh", [](const Tensor& x) { return exp(tanh(x)); }, [](double v) { return std::exp(std::tanh(v)); }},
        {"gelu of tanh", [](const Tensor& x) { return gelu(tanh(x)); },
         [](double v) {
           const double t = std::tanh(v);
           return t / 2 * (1 + std::erf(t / std::sqrt(2)));
         }},
        {"log of 1 + square", [](const Tensor& x) { return log(square(x) + 1); },
         [](double v) { return std::log(1 + v * v); }},
        {"neg", [](const Tensor& x) { return -x; }, [](double v) { return -v; }},
    };
    const Function f = functions[below(std::size(functions))];
    return {std::string(f.name) + ' ' + name(a), [=](auto& all) { all.push_back(f.tensor(all[a])); },
            [=](auto& all) { all.push_back(map(all[a], f.plain)); }};
  }

  Step binary(std::size_t a, std::size_t b) {
    switch (below(4)) {
      case 0:
        return {name(a) + " + " + name(b), [=](auto& all) { all.push_back(all[a] + all[b]); },
                [=](auto& all) { all.push_back(zip(all[a], all[b], [](double x, double y) { return x + y; })); }};
      case 1:
        return {name(a) + " - " + name(b), [=](auto& all) { all.push_back(all[a] - all[b]); },
                [=](auto& all) { all.push_back(zip(all[a], all[b], [](double x, double y) { return x - y; })); }};
      case 2:
        return {"tanh(" + name(a) + " * " + name(b) + ")", [=](auto& all) { all.push_back(tanh(all[a] * all[b])); },
                [=](auto& all) {
                  all.push_back(zip(all[a], all[b], [](double x, double y) { return std::tanh(x * y); }));
                }};
      default:
        return {"tanh(" + name(a) + ") / (1 + square " + name(b) + ")",
                [=](auto& all) { all.push_back(tanh(all[a]) / (square(all[b]) + 1)); },
                [=](auto& all) {
                  all.push_back(zip(all[a], all[b], [](double x, double y) { return std::tanh(x) / (1 + y * y); }));
                }};
    }
  }

  // What moves elements or runs along an axis.
  Step shaping(const std::vector<Plain>& now, std::size_t a) {
    const Shape s = now[a].shape;
    const int axis = static_cast<int>(below(static_cast<std::size_t>(s.rank())));
    const std::string at = ' ' + name(a) + " along " + std::to_string(axis);
    switch (below(s.rank() >= 2 ? 7 : 6)) {
      case 0:
        return {"softmax" + at, [=](auto& all) { all.push_back(softmax(all[a], axis)); },
                [=](auto& all) { all.push_back(lines(all[a], axis, &softmax_of)); }};
      case 1:
        return {"sum" + at, [=](auto& all) { all.push_back(tanh(sum(all[a], {axis}, keepdims))); },
                [=](auto& all) {
                  all.push_back(map(lines(all[a], axis, &line_sum), [](double v) { return std::tanh(v); }));
                }};
      case 2:
        return {"log_softmax" + at, [=](auto& all) { all.push_back(tanh(log_softmax(all[a], axis))); },
                [=](auto& all) {
                  all.push_back(map(lines(all[a], axis, &softmax_of), [](double v) { return std::tanh(std::log(v)); }));
                }};
      case 3:
        return {"reshape of " + name(a), [=](auto& all) { all.push_back(reshape(all[a], Shape{s.numel()})); },
                [=](auto& all) {
                  all.push_back(Plain{Shape{s.numel()}, all[a].v});
                }};
      case 4:
        return {"cat with itself" + at,
                [=](auto& all) {
                  all.push_back(cat({all[a], all[a]}, axis));
                },
                [=](auto& all) {
                  all.push_back(lines(all[a], axis, [](std::vector<double> line) {
                    const std::size_t n = line.size();
                    for (std::size_t i = 0; i < n; ++i) line.push_back(line[i]);
                    return line;
                  }));
                }};
      case 5:
        return {"first element" + at, [=](auto& all) { all.push_back(slice(all[a], axis, 0, 1)); },
                [=](auto& all) {
                  all.push_back(lines(all[a], axis,
                                      [](const std::vector<double>& line) { return std::vector<double>{line[0]}; }));
                }};
      default:
        return {"transpose " + name(a), [=](auto& all) { all.push_back(transpose(all[a])); },
                [=](auto& all) { all.push_back(swap_last(all[a])); }};
    }
  }

  // A write into a copy that nothing else shares.
  Step in_place(const std::vector<Plain>& now, std::size_t a, std::size_t b) {
    const bool whole = together(now[a].shape, now[b].shape) == now[a].shape;
    if (!whole) return unary(a);
    const bool times = below(2) == 0;
    return {name(a) + " * 1, then " + (times ? "mul_ " : "add_ ") + name(b),
            [=](auto& all) {
              Tensor y = all[a] * 1;
              times ? y.mul_(tanh(all[b])) : y.add_(all[b]);
              all.push_back(y);
            },
            [=](auto& all) {
              all.push_back(zip(all[a], all[b], [=](double x, double y) { return times ? x * std::tanh(y) : x + y; }));
            }};
  }

  Step next(const std::vector<Plain>& now) {
    const std::size_t a = below(now.size());
    for (int tries = 0; tries < 20; ++tries) {
      const std::size_t b = below(now.size());
      switch (below(5)) {
        case 0:
          return unary(a);
        case 1:
          if (now[a].shape.rank() > 0) return shaping(now, a);
          break;
        case 2:
          if (now[a].shape.rank() == 2 && now[b].shape.rank() == 2 && now[a].shape[1] == now[b].shape[0])
            return {
                "tanh(matmul(" + name(a) + ", " + name(b) + "))",
                [=](auto& all) { all.push_back(tanh(matmul(all[a], all[b]))); },
                [=](auto& all) { all.push_back(map(product(all[a], all[b]), [](double v) { return std::tanh(v); })); }};
          break;
        case 3:
          if (fits(now[a].shape, now[b].shape)) return in_place(now, a, b);
          break;
        default:
          if (fits(now[a].shape, now[b].shape)) return binary(a, b);
      }
    }
    return unary(a);
  }

  std::mt19937_64 random_;
};

Tensor tensor_of(const Plain& p) {
  Tensor x = Tensor::empty(p.shape, float64);
  std::copy(p.v.begin(), p.v.end(), x.fresh<double>());
  return x;
}

}  // namespace

TEST_CASE("random programs: values are those of plain loops, gradients those of differences", "[random_graphs]") {
  const std::uint64_t first = number_of("FIT_GRAPH_SEED", 1), count = number_of("FIT_GRAPHS", 300);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const Program program(seed);
    INFO("FIT_GRAPH_SEED=" << seed << " FIT_GRAPHS=1\n" << program.text);
    std::vector<Tensor> leaves;
    for (const Plain& p : program.leaves) leaves.push_back(tensor_of(p).requires_grad_());
    const std::vector<Tensor> all = program.run(leaves);
    std::vector<Plain> plain = program.leaves;
    for (const Step& s : program.steps) s.on_plain(plain);
    REQUIRE(all.size() == plain.size());
    Tensor loss = zeros({}, float64);
    for (std::size_t i = 0; i < all.size(); ++i) {
      REQUIRE(all[i].shape() == plain[i].shape);
      REQUIRE(max_difference(all[i], tensor_of(plain[i])) < 1e-12);
      loss = loss + sum(all[i] * tensor_of(program.weights[i]));
    }
    // By backward(), and by grad() with a graph of its own, which must agree to the bit.
    const std::vector<Tensor> recorded = grad(loss, leaves, create_graph);
    loss.backward();
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const Tensor g = leaves[i].grad();
      REQUIRE(g.shape() == leaves[i].shape());
      REQUIRE(max_difference(recorded[i], g) < 1e-12);
      for (std::size_t k = 0; k < program.leaves[i].v.size(); ++k) {
        constexpr double step = 1e-5;
        std::vector<Plain> up = program.leaves, down = program.leaves;
        up[i].v[k] += step;
        down[i].v[k] -= step;
        const double slope = (program.value(up) - program.value(down)) / (2 * step);
        INFO("element " << k << " of x" << i);
        REQUIRE(g.data<double>()[static_cast<std::int64_t>(k)] == Approx(slope).epsilon(1e-5).margin(1e-6));
      }
    }
  }
}

}  // namespace fit::test::random_graphs_test
