// einsum: contracts operands pairwise, the cheapest pair first. A pair becomes a batch of matrix products on strided
// operands, without a copy where a leading dimension and offsets suffice: for example to split and merge attention
// heads. Other operands are permuted first.
#include <algorithm>
#include <cmath>
#include <optional>

#include "fit/ops/ops.hpp"
#include "matmul/gemm_bf16.hpp"
#include "ops/common/autocast.hpp"
#include "ops/common/precision.hpp"
#include "ops/linalg/flop_counter.hpp"
#include "tensor/check.hpp"
#include "tensor/convert.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

// The letters of one operand's axes. Trivially copyable, so that an adjoint can capture it.
struct Letters {
  char at[2 * Shape::max_rank] = {};  // those of two operands
  int count = 0;

  const char* begin() const { return at; }
  const char* end() const { return at + count; }
  bool has(char c) const { return std::find(begin(), end(), c) != end(); }
  void push(char c) { at[count++] = c; }
  std::string str() const { return std::string(begin(), end()); }
  friend bool operator==(const Letters& a, const Letters& b) { return a.str() == b.str(); }
};

template <class Keep>
Letters filter(const Letters& l, const Keep& keep) {
  Letters out;
  for (const char c : l)
    if (keep(c)) out.push(c);
  return out;
}

Letters operator+(Letters a, const Letters& b) {
  for (const char c : b) a.push(c);
  return a;
}

// Permutes the axes of x from the order `from` to the order `to` (the same letters).
Tensor arrange(const Tensor& x, const Letters& from, const Letters& to) {
  if (from == to) return x;
  std::vector<int> axes;
  for (const char c : to) axes.push_back(static_cast<int>(std::find(from.begin(), from.end(), c) - from.begin()));
  return permute(x, axes);
}

// Index of a letter in Layout's tables.
int place_of(char letter) { return static_cast<unsigned char>(letter); }

// Size and stride of each letter's axis in a contiguous tensor.
struct Layout {
  std::int64_t size[128] = {}, stride[128] = {};

  Layout(const Shape& shape, const Letters& letters) {
    std::int64_t step = 1;
    for (int i = letters.count - 1; i >= 0; --i) {
      size[place_of(letters.at[i])] = shape[i];
      stride[place_of(letters.at[i])] = step;
      step *= shape[i];
    }
  }
  std::int64_t numel(const Letters& group) const {
    std::int64_t n = 1;
    for (const char c : group) n *= size[place_of(c)];
    return n;
  }
  // The stride of the group as one axis; nullopt if its axes can't be merged.
  std::optional<std::int64_t> joined(const Letters& group) const {
    std::int64_t inner = 0, span = 0;
    for (int i = group.count - 1; i >= 0; --i) {
      const int c = place_of(group.at[i]);
      if (size[c] == 1) continue;
      if (inner == 0)
        inner = stride[c];
      else if (stride[c] != span)
        return std::nullopt;
      span = stride[c] * size[c];
    }
    return inner == 0 ? 1 : inner;
  }
};

// The memory layout of a matrix: rows `ld` apart or, if transposed, columns `ld` apart.
struct Matrix {
  bool transposed;
  std::int64_t ld;
};

std::optional<Matrix> as_matrix(const Layout& layout, const Letters& rows, const Letters& cols) {
  const auto r = layout.joined(rows), c = layout.joined(cols);
  if (!r || !c) return std::nullopt;
  const std::int64_t m = layout.numel(rows), n = layout.numel(cols);
  if (n <= 1 || *c == 1) {
    // One column: the leading dimension may be any row stride. One row: the leading dimension is not used.
    if (n <= 1 && m > 1) return Matrix{false, *r};
    return m <= 1 || *r >= n ? std::optional(Matrix{false, m <= 1 ? std::max<std::int64_t>(n, 1) : *r}) : std::nullopt;
  }
  if (m <= 1) return Matrix{true, *c};
  if (*r == 1 && *c >= m) return Matrix{true, *c};
  return std::nullopt;
}

struct Groups {
  Letters batch, m, n, k;

  Groups(const Letters& a, const Letters& b, const Letters& out) {
    batch = filter(out, [&](char c) { return a.has(c) && b.has(c); });
    m = filter(out, [&](char c) { return a.has(c) && !b.has(c); });
    n = filter(out, [&](char c) { return !a.has(c); });
    k = filter(a, [&](char c) { return b.has(c) && !out.has(c); });
  }
};

// T: type of the operands. C: type of the result; T, or float for BFloat16.
template <class T, class C>
void multiply(const Tensor& a, const Letters& la, const Tensor& b, const Letters& lb, Tensor& out, const Letters& lo,
              const Groups& g, Matrix ma, Matrix mb, Matrix mo) {
  const Layout A(a.shape(), la), B(b.shape(), lb), O(out.shape(), lo);
  kernels::GemmParams<T> p;
  p.m = A.numel(g.m);
  p.n = B.numel(g.n);
  p.k = A.numel(g.k);
  p.transpose_a = ma.transposed;
  p.transpose_b = mb.transposed;
  p.lda = ma.ld;
  p.ldb = mb.ld;
  p.ldc = mo.ld;
  const auto* const pa = static_cast<const T*>(a.raw());
  const auto* const pb = static_cast<const T*>(b.raw());
  C* const po = out.fresh<C>();
  if (mo.transposed) {  // O' = B' A'
    std::swap(p.m, p.n);
    p.transpose_a = !mb.transposed;
    p.transpose_b = !ma.transposed;
    std::swap(p.lda, p.ldb);
  }
  detail::count_product(p.m, p.n, p.k, A.numel(g.batch));
  kernels::gemm_batched<T, T, C>(p, A.numel(g.batch), [&](std::int64_t i, const T*& x, const T*& y, C*& z) {
    std::int64_t at_a = 0, at_b = 0, at_o = 0;
    for (int l = g.batch.count - 1; l >= 0; --l) {
      const int c = place_of(g.batch.at[l]);
      const std::int64_t index = i % A.size[c];
      i /= A.size[c];
      at_a += index * A.stride[c];
      at_b += index * B.stride[c];
      at_o += index * O.stride[c];
    }
    x = mo.transposed ? pb + at_b : pa + at_a;
    y = mo.transposed ? pa + at_a : pb + at_b;
    z = po + at_o;
  });
}

// x as a matrix [rows, cols]. Permutes its axes to batch, rows, cols if its memory layout is no matrix.
Matrix to_matrix(Tensor& x, Letters& letters, const Letters& batch, const Letters& rows, const Letters& cols) {
  if (const auto m = as_matrix(Layout(x.shape(), letters), rows, cols)) return *m;
  const Letters order = batch + rows + cols;
  x = arrange(x, letters, order);
  letters = order;
  return *as_matrix(Layout(x.shape(), letters), rows, cols);
}

// Sums a times b over the letters that are not in lo. Each letter of a (or b) is also in b (or a), or in lo. The result
// has type t: the operands' type, or float32 for bfloat16.
Tensor contract(const Tensor& a, const Letters& la, const Tensor& b, const Letters& lb, const Letters& lo, DType t);

Tensor contract_forward(Tensor a, Letters la, Tensor b, Letters lb, const Letters& lo, DType t) {
  const Groups g(la, lb, lo);
  std::int64_t sizes[Shape::max_rank];
  for (int i = 0; i < lo.count; ++i) {
    const Letters& from = la.has(lo.at[i]) ? la : lb;
    const Shape& shape = la.has(lo.at[i]) ? a.shape() : b.shape();
    sizes[i] = shape[static_cast<int>(std::find(from.begin(), from.end(), lo.at[i]) - from.begin())];
  }
  Shape shape(sizes, lo.count);
  const Matrix ma = to_matrix(a, la, g.batch, g.m, g.k), mb = to_matrix(b, lb, g.batch, g.k, g.n);
  Letters order = lo;
  auto mo = as_matrix(Layout(shape, order), g.m, g.n);
  if (!mo) {
    order = g.batch + g.m + g.n;
    for (int i = 0; i < order.count; ++i)
      sizes[i] = shape[static_cast<int>(std::find(lo.begin(), lo.end(), order.at[i]) - lo.begin())];
    shape = Shape(sizes, order.count);
    mo = as_matrix(Layout(shape, order), g.m, g.n);
  }
  Tensor out = Tensor::empty(shape, t);
  dispatch_floating(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (t == a.dtype())
      multiply<T, T>(a, la, b, lb, out, order, g, ma, mb, *mo);
    else
      multiply<T, AccT<T>>(a, la, b, lb, out, order, g, ma, mb, *mo);
  });
  return arrange(out, order, lo);
}

Tensor contract(const Tensor& given_a, const Letters& la, const Tensor& given_b, const Letters& lb, const Letters& lo,
                DType t) {
  const Groups g(la, lb, lo);
  const bool low = product_dtype(given_a.dtype(), given_b.dtype()) == bfloat16;
  const Tensor a = low ? lowered(given_a) : given_a, b = low ? lowered(given_b) : given_b;
  if (g.m.count + g.n.count + g.k.count == 0) return mul(arrange(a, la, lo), arrange(b, lb, lo)).to(t);
  Tensor y;
  {
    const NoGrad no_grad;
    y = contract_forward(low ? rounded(a) : a, la, low ? rounded(b) : b, lb, lo, t);
  }
  return record("einsum", {a, b}, std::move(y), keep::inputs, [la, lb, lo](Backward& g) {
    // The gradient of a factor: dy times the other factor, summed over the letters that this factor lacks.
    if (g.wants(0)) g.give(0, contract(g.dy(), lo, g.x(1), lb, la, g.dtype(0)));
    if (g.wants(1)) g.give(1, contract(g.x(0), la, g.dy(), lo, lb, g.dtype(1)));
  });
}

struct Formula {
  std::vector<Letters> operands;
  Letters out;
};

[[noreturn]] void bad(const std::string& formula, const std::string& what) {
  check::fail("einsum", "\"", formula, "\": ", what);
}

// Letters for the axes of "...", counted from the last: characters below 'A', which can't occur in a formula.
char ellipsis_letter(int from_the_right) { return static_cast<char>(1 + from_the_right); }

// Reads the letters of one operand or of the result. `dots` is the number of axes of "..." here.
Letters read(const std::string& formula, const std::string& part, int dots) {
  Letters out;
  for (std::size_t i = 0; i < part.size(); ++i) {
    const char c = part[i];
    if (c == '.') {
      if (part.compare(i, 3, "...") != 0) bad(formula, "a dot that is not part of \"...\"");
      if (part.find('.') != i) bad(formula, "\"...\" stands twice in one operand or in the result");
      for (int d = dots; d > 0; --d) out.push(ellipsis_letter(d - 1));
      i += 2;
      continue;
    }
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')))
      bad(formula, std::string("the character '") + c + "' is no letter");
    if (out.has(c)) bad(formula, std::string("the letter '") + c + "' stands twice in the result");
    out.push(c);
  }
  return out;
}

int written(const std::string& part) {
  return static_cast<int>(std::count_if(part.begin(), part.end(), [](char c) { return c != '.'; }));
}

// Replaces two axes with the same letter by their diagonal, as the last axis, until each letter is unique.
void take_diagonals(const std::string& formula, std::string& part, Tensor& x) {
  const std::size_t dots = part.find('.');
  const auto axis = [&](std::size_t i) {
    const int at = static_cast<int>(i);
    return dots == std::string::npos || i < dots ? at : x.rank() - static_cast<int>(part.size()) + at;
  };
  for (std::size_t i = 0; i < part.size(); ++i) {
    const char c = part[i];
    const std::size_t k = part.find(c, i + 1);
    if (c == '.' || k == std::string::npos) continue;
    if (x.shape()[axis(i)] != x.shape()[axis(k)])
      bad(formula,
          std::string("the letter '") + c + "' stands for two sizes of an operand of shape " + x.shape().str());
    x = diagonal(x, 0, axis(i), axis(k));
    part.erase(k, 1);
    part.erase(i, 1);
    part += c;
    return take_diagonals(formula, part, x);
  }
}

std::vector<std::string> at_commas(const std::string& left) {
  std::vector<std::string> parts(1);
  for (const char c : left) {
    if (c == ',')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

// The result as written behind the arrow. dots: the axes of "...".
Letters written_result(const std::string& formula, const std::string& right, const Formula& f, int dots) {
  if (written(right) + (right.find('.') != std::string::npos ? dots : 0) > Shape::max_rank)
    bad(formula, "the result has more axes than a tensor can have");
  const Letters out = read(formula, right, dots);
  for (const char c : out)
    if (std::none_of(f.operands.begin(), f.operands.end(), [c](const Letters& l) { return l.has(c); }))
      bad(formula, std::string("the result's letter '") + c + "' stands in no operand");
  return out;
}

// The result without an arrow: the axes of "...", and the letters that stand once, in the order of the alphabet.
Letters implied_result(const std::string& formula, const std::string& left, int dots) {
  Letters out;
  for (int d = dots; d > 0; --d) out.push(ellipsis_letter(d - 1));
  std::string once;
  for (char c = 'A'; c <= 'z'; ++c)
    if (std::count(left.begin(), left.end(), c) == 1) once += c;
  if (once.size() + static_cast<std::size_t>(dots) > Shape::max_rank)
    bad(formula, "the result has more axes than a tensor can have");
  for (const char c : once) out.push(c);
  return out;
}

// Also replaces operands with a repeated letter by their diagonals.
Formula parse(const std::string& spaced, std::vector<Tensor>& operands) {
  std::string formula;
  for (const char c : spaced)
    if (c != ' ') formula += c;
  const auto arrow = formula.find("->");
  const std::string left = formula.substr(0, arrow);
  std::vector<std::string> parts = at_commas(left);
  if (parts.size() != operands.size())
    bad(formula, std::to_string(parts.size()) + " operands are written, " + std::to_string(operands.size()) + " given");
  Formula f;
  int most_dots = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool has_dots = parts[i].find('.') != std::string::npos;
    const int dots = operands[i].rank() - written(parts[i]);
    if (dots < 0 || (dots > 0 && !has_dots))
      bad(formula, "operand " + std::to_string(i) + " has shape " + operands[i].shape().str() + ", \"" + parts[i] +
                       "\" has " + std::to_string(written(parts[i])) + " letters");
    if (has_dots) most_dots = std::max(most_dots, dots);
    take_diagonals(formula, parts[i], operands[i]);
    f.operands.push_back(read(formula, parts[i], has_dots ? dots : 0));
  }
  f.out = arrow == std::string::npos ? implied_result(formula, left, most_dots)
                                     : written_result(formula, formula.substr(arrow + 2), f, most_dots);
  return f;
}

// Checks that sizes of equal letters agree or are 1. Removes axes of size 1 where another operand has another size.
void agree(const std::string& formula, Formula& f, std::vector<Tensor>& operands) {
  std::int64_t size[128];
  std::fill(std::begin(size), std::end(size), 1);
  for (std::size_t i = 0; i < operands.size(); ++i)
    for (int a = 0; a < f.operands[i].count; ++a) {
      const char c = f.operands[i].at[a];
      std::int64_t& known = size[place_of(c)];
      const std::int64_t n = operands[i].shape()[a];
      if (n != known && n != 1 && known != 1)
        bad(formula, "operand " + std::to_string(i) + " of shape " + operands[i].shape().str() + " has size " +
                         std::to_string(n) +
                         (c < 'A' ? std::string(" at an axis of \"...\"") : std::string(" at '") + c + "'") +
                         ", another operand " + std::to_string(known));
      if (known == 1) known = n;
    }
  for (std::size_t i = 0; i < operands.size(); ++i)
    for (int a = f.operands[i].count - 1; a >= 0; --a) {
      const char c = f.operands[i].at[a];
      if (operands[i].shape()[a] == size[place_of(c)]) continue;
      operands[i] = squeeze(operands[i], a);
      f.operands[i] = filter(f.operands[i], [c](char l) { return l != c; });
    }
}

// Sums x over its letters that are not in `keep`.
Tensor sum_others(const Tensor& x, Letters& letters, const Letters& keep) {
  std::vector<int> axes;
  for (int a = 0; a < letters.count; ++a)
    if (!keep.has(letters.at[a])) axes.push_back(a);
  if (axes.empty()) return x;
  letters = filter(letters, [&](char c) { return keep.has(c); });
  return sum(x, axes);
}

// An operand, or a product on the way.
struct Operand {
  Tensor x;
  Letters letters;
};

// Letters of a and b that the result or another operand uses.
Letters kept(const Letters& out, const std::vector<Operand>& left, std::size_t a, std::size_t b) {
  const auto used = [&](char c) {
    bool yes = out.has(c);
    for (std::size_t i = 0; i < left.size(); ++i) yes |= i != a && i != b && left[i].letters.has(c);
    return yes;
  };
  const Letters& la = left[a].letters;
  return filter(la, used) + filter(left[b].letters, [&](char c) { return used(c) && !la.has(c); });
}

// The pair to contract next, by the rule of opt_einsum's greedy order: that whose product has the fewest elements more
// than its two operands. The first of equal pairs.
std::pair<std::size_t, std::size_t> cheapest(const Letters& out, const std::vector<Operand>& left) {
  if (left.size() == 2) return {0, 1};
  std::pair<std::size_t, std::size_t> best{0, 1};
  double least = INFINITY;
  for (std::size_t a = 0; a < left.size(); ++a)
    for (std::size_t b = a + 1; b < left.size(); ++b) {
      const Layout A(left[a].x.shape(), left[a].letters), B(left[b].x.shape(), left[b].letters);
      double size = 1;
      const Letters letters = kept(out, left, a, b);
      for (const char c : letters) size *= static_cast<double>(std::max(A.size[place_of(c)], B.size[place_of(c)]));
      const double more = size - static_cast<double>(left[a].x.numel()) - static_cast<double>(left[b].x.numel());
      if (more < least && letters.count <= Shape::max_rank) least = more, best = {a, b};
    }
  return best;
}

// Replaces two operands by their product, in the place of the first.
void contract_pair(const std::string& formula, const Letters& out, std::vector<Operand>& left, DType computed) {
  const auto [a, b] = cheapest(out, left);
  const Letters &la = left[a].letters, &lb = left[b].letters, common = kept(out, left, a, b);
  const bool last = left.size() == 2;
  if (!last && common.count > Shape::max_rank)
    bad(formula, "a product on the way has more axes than a tensor can have");
  Letters ly = la, lx = lb;
  const Tensor y = sum_others(left[a].x, ly, filter(la, [&](char c) { return common.has(c) || lb.has(c); }));
  const Tensor x = sum_others(left[b].x, lx, filter(lb, [&](char c) { return common.has(c) || la.has(c); }));
  const Letters to = last ? out : common;
  left[a] = {contract(y, ly, x, lx, to, computed), to};
  left.erase(left.begin() + static_cast<std::ptrdiff_t>(b));
}

// Whether there are intermediate results, which would be rounded.
bool several_steps(const Formula& f) {
  if (f.operands.size() != 2) return f.operands.size() > 2;
  const auto lone = [&f](const Letters& a, const Letters& b) {
    return std::any_of(a.begin(), a.end(), [&](char c) { return !b.has(c) && !f.out.has(c); });
  };
  return lone(f.operands[0], f.operands[1]) || lone(f.operands[1], f.operands[0]);
}

}  // namespace

Tensor einsum(const std::string& formula, const std::vector<Tensor>& given) {
  if (given.empty()) check::fail("einsum", "\"", formula, "\": no operands were given");
  check::each_defined("einsum", "operand", given);
  std::vector<Tensor> operands = given;
  Formula f = parse(formula, operands);
  DType t = given[0].dtype();
  for (const Tensor& x : given) t = promote(t, x.dtype());
  if (!is_floating(t))
    check::fail("einsum", "the operands are ", t, ": one must be ", check::floating_types,
                "; convert with .to(float32)");
  agree(formula, f, operands);
  // A single product rounds once by itself. With several steps, each step would round.
  const Precision p = several_steps(f) ? Precision::rounded_or_native : Precision::native;
  t = compute_dtype(p, t);
  const DType computed = product_dtype(t, t);  // type of the matrix products
  return with_precision(p, operands, [&](std::vector<Tensor> operands) {
    for (Tensor& x : operands)
      if (computed == t || !is_floating(x.dtype())) x = x.to(t);
    std::vector<Operand> left;
    for (std::size_t i = 0; i < operands.size(); ++i) left.push_back({operands[i], f.operands[i]});
    while (left.size() > 1) contract_pair(formula, f.out, left, computed);
    Tensor y = left[0].x;
    Letters ly = left[0].letters;
    y = arrange(sum_others(y, ly, f.out), ly, f.out);
    return y.impl() == given[0].impl() ? y.clone() : y;
  });
}

}  // namespace fit
