#include "fit/ops/ops.hpp"
#include "kernels/rows/reduce.hpp"
#include "kernels/rows/rotary.hpp"
#include "kernels/rows/rows_norm.hpp"
#include "kernels/rows/rows_softmax.hpp"
#include "kernels/rows/sum_of_squares.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/rounding.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

// Kernels that work on rows, each against its reference: reduce.hpp, rows_softmax.hpp, rows_norm.hpp, rotary.hpp, and
// sum_of_squares.hpp.
namespace fit::test::row_kernels_test {
namespace {

// ---- reduce -----------------------------------------------------------------------------------------------------

using Wide = Rounded<double>;

template <class T>
struct FoldRow {
  const char* name;
  kernels::Fold<T> kernel;
  Wide (*plain)(const Wide& a, const Wide* x, std::int64_t n, const Wide& c);
  Draw from, start;
};

template <class T>
std::vector<FoldRow<T>> folds() {
  namespace plain = kernels::reference;
  const auto& k = kernels::reduce<T>();
  const Draw usual = between(-2, 2), positive = between(0, 2);
  const Draw with_nan = sometimes({nan}, sometimes({-inf, inf, 0}, usual, 20), 200);
  return {{"sum", k.sum, plain::sum<Wide>, usual, usual},
          {"squares", k.squares, plain::squares<Wide>, usual, positive},
          {"exps", k.exps, plain::exps<Wide>, between(-30, 30), positive},
          {"prod", k.prod, plain::prod<Wide>, sometimes({0}, between(0.5, 2), 1000), usual},
          {"max", k.max, plain::max<Wide>, with_nan, sometimes({-inf, nan}, usual)},
          {"min", k.min, plain::min<Wide>, with_nan, sometimes({inf, nan}, usual)}};
}

template <class T>
void check_fold(const FoldRow<T>& row, std::int64_t kept, std::int64_t ks, std::int64_t reduced, std::int64_t rs,
                bool centred) {
  INFO(row.name << ", " << sizeof(T) << " bytes, kept " << kept << " step " << ks << ", reduced " << reduced << " step "
                << rs << ", centred " << centred);
  std::mt19937_64 random(static_cast<std::uint64_t>(kept * 1000 + reduced));
  GuardedBuffer<T> x((kept - 1) * ks + std::max<std::int64_t>(reduced - 1, 0) * rs + 1);  // what lies between is NaN
  for (std::int64_t k = 0; k < kept; ++k)
    for (std::int64_t r = 0; r < reduced; ++r) x[k * ks + r * rs] = static_cast<T>(row.from(random));
  GuardedBuffer<double> acc = drawn<double>(kept, 1, row.start, random),
                        centre = drawn<double>(kept, 3, between(0, 3), random);
  const std::vector<double> before = acc.values();
  row.kernel(acc.data(), x.data(), centred ? centre.data() : nullptr, kept, ks, reduced, rs);
  Worst worst;
  const InChains chains(4);
  for (std::int64_t k = 0; k < kept; ++k) {
    std::vector<Wide> numbers;
    for (std::int64_t r = 0; r < reduced; ++r) numbers.emplace_back(static_cast<double>(x[k * ks + r * rs]));
    worst.add(
        k, acc[k],
        row.plain(Wide(before[static_cast<std::size_t>(k)]), numbers.data(), reduced, Wide(centred ? centre[k] : 0.0)));
  }
  INFO(worst);
  CHECK(worst.within_bounds());
  CHECK(acc.guards_intact());
}

template <class T>
void check_folds() {
  for (const FoldRow<T>& row : folds<T>())
    for (const bool centred : {false, true})
      for (const std::int64_t gap : {0, 3}) {
        for (const std::int64_t kept : {1, 3, 33, 257})
          for (const std::int64_t reduced : {0, 1, 3, 7, 16, 33, 63, 257})
            check_fold(row, kept, reduced + gap, reduced, 1, centred);  // rows
        for (const std::int64_t kept : {1, 3, 7, 16, 33, 257})
          for (const std::int64_t reduced : {1, 2, 3, 4, 5, 7, 9, 33})
            check_fold(row, kept, 1, reduced, kept + gap, centred);  // columns
      }
}

template <class T>
void check_find() {
  std::mt19937_64 random(1);
  for (const std::int64_t n : odd_sizes)
    for (std::int64_t at = 0; at <= n; at += std::max<std::int64_t>(1, n / 40))
      for (const double hit : {0.5, nan}) {
        INFO("find " << hit << " at " << at << " of " << n);
        GuardedBuffer<T> x = drawn<T>(n, 1, between(1, 2), random);
        if (at < n) x[at] = static_cast<T>(hit);
        if (at + 1 < n) x[n - 1] = static_cast<T>(0.5);  // another, later
        CHECK(kernels::reference::find(x.data(), n, static_cast<T>(0.5)) == at);
        CHECK(kernels::reduce<T>().find(x.data(), n, static_cast<T>(0.5)) == at);
        if (at > 0) {  // and no further
          CHECK(kernels::reference::find(x.data(), at - 1, static_cast<T>(0.5)) == at - 1);
          CHECK(kernels::reduce<T>().find(x.data(), at - 1, static_cast<T>(0.5)) == at - 1);
        }
      }
}

template <class T>
void check_squares() {
  std::mt19937_64 random(2);
  for (const std::int64_t n : odd_sizes) {
    GuardedBuffer<T> x = drawn<T>(n, 1, between(-2, 2), random);
    std::vector<Wide> numbers;
    for (std::int64_t i = 0; i < n; ++i) numbers.emplace_back(static_cast<double>(x[i]));
    Worst worst;
    const InChains chains(16);
    worst.add(n, kernels::sum_of_squares<T>()(x.data(), n),
              kernels::reference::squares(Wide(0.0), numbers.data(), n, Wide(0.0)));
    INFO("squares of " << n << ", " << worst);
    CHECK(worst.within_bounds());
  }
}

// ---- softmax ----------------------------------------------------------------------------------------------------

// Lines in memory: element r of line l is at l + r stride, or at l n + r if the stride is 1.
struct Lines {
  std::int64_t count, n, stride;
  bool nontemporal;
  std::int64_t at(std::int64_t l, std::int64_t r) const { return stride == 1 ? l * n + r : l + r * stride; }
  std::int64_t room() const { return stride == 1 ? count * n : (n - 1) * stride + count; }
  friend std::ostream& operator<<(std::ostream& out, const Lines& l) {
    return out << l.count << " lines of " << l.n << ", stride " << l.stride << (l.nontemporal ? ", non-temporal" : "");
  }
};

template <class T>
GuardedBuffer<T> drawn_lines(const Lines& lines, std::int64_t offset, const Draw& from, std::mt19937_64& random) {
  GuardedBuffer<T> room(lines.room(), offset);
  for (std::int64_t l = 0; l < lines.count; ++l)
    for (std::int64_t r = 0; r < lines.n; ++r) room[lines.at(l, r)] = static_cast<T>(from(random));
  return room;
}

// y against plain(line l's elements), and that what lies between and around the lines is left alone.
template <class T, class Plain>
void check_lines(const char* name, const Lines& lines, GuardedBuffer<T>& y, const Plain& plain) {
  INFO(name << ", " << sizeof(T) << " bytes, " << lines);
  Worst worst;
  std::vector<bool> written(static_cast<std::size_t>(lines.room()));
  for (std::int64_t l = 0; l < lines.count; ++l) {
    const std::vector<Rounded<T>> expected = plain(l);
    for (std::int64_t r = 0; r < lines.n; ++r) {
      worst.add(lines.at(l, r), y[lines.at(l, r)], expected[static_cast<std::size_t>(r)]);
      written[static_cast<std::size_t>(lines.at(l, r))] = true;
    }
  }
  bool gaps_kept = y.guards_intact();
  for (std::int64_t i = 0; i < lines.room(); ++i)
    gaps_kept = gaps_kept && (written[static_cast<std::size_t>(i)] || y.untouched(i));
  INFO(worst);
  CHECK(worst.within_bounds());
  CHECK(gaps_kept);
}

// The elements of line l as numbers with bounds.
template <class T>
std::vector<Rounded<T>> line(GuardedBuffer<T>& x, const Lines& lines, std::int64_t l) {
  std::vector<Rounded<T>> v;
  for (std::int64_t r = 0; r < lines.n; ++r) v.emplace_back(x[lines.at(l, r)]);
  return v;
}

template <class T>
void check_softmax(const Lines& lines, std::int64_t offset) {
  using R = Rounded<T>;
  const auto& k = kernels::softmax_rows<T>();
  std::mt19937_64 random(static_cast<std::uint64_t>(lines.n));
  // Not of -inf alone: a line's first element is finite.
  GuardedBuffer<T> x = drawn_lines<T>(lines, offset, sometimes({-inf, -200}, between(-30, 30), 30), random);
  for (std::int64_t l = 0; l < lines.count; ++l) x[lines.at(l, 0)] = T(0.5);
  GuardedBuffer<T> y(lines.room(), offset), log_y(lines.room(), offset), dx(lines.room(), offset),
      log_dx(lines.room(), offset);
  k.softmax(y.data(), x.data(), lines.count, lines.n, lines.stride, lines.nontemporal);
  k.log_softmax(log_y.data(), x.data(), lines.count, lines.n, lines.stride, lines.nontemporal);
  namespace plain = kernels::reference;
  std::vector<R> expected(static_cast<std::size_t>(lines.n));
  const auto of_one = [&](GuardedBuffer<T>& from, void (*form)(R*, const R*, std::int64_t)) {
    return [&, form](std::int64_t l) {
      const InChains chains(lines.stride == 1 ? 2 : 1);
      form(expected.data(), line(from, lines, l).data(), lines.n);
      return expected;
    };
  };
  check_lines("softmax", lines, y, of_one(x, plain::softmax<R>));
  check_lines("log_softmax", lines, log_y, of_one(x, plain::log_softmax<R>));

  GuardedBuffer<T> dy = drawn_lines<T>(lines, offset, between(-2, 2), random);
  k.softmax_backward(dx.data(), y.data(), dy.data(), lines.count, lines.n, lines.stride, lines.nontemporal);
  k.log_softmax_backward(log_dx.data(), log_y.data(), dy.data(), lines.count, lines.n, lines.stride, lines.nontemporal);
  const auto of_two = [&](GuardedBuffer<T>& from, void (*form)(R*, const R*, const R*, std::int64_t)) {
    return [&, form](std::int64_t l) {
      const InChains chains(lines.stride == 1 ? 8 : 1);
      form(expected.data(), line(from, lines, l).data(), line(dy, lines, l).data(), lines.n);
      return expected;
    };
  };
  check_lines("softmax_backward", lines, dx, of_two(y, plain::softmax_backward<R>));
  check_lines("log_softmax_backward", lines, log_dx, of_two(log_y, plain::log_softmax_backward<R>));
  if (lines.stride != 1 || lines.count != 1) return;

  const InChains chains(2);
  const std::vector<R> numbers = line(x, lines, 0);
  const R largest = plain::largest_of(numbers.data(), lines.n);
  T max = 0, rest = 0;
  k.max_and_rest(x.data(), lines.n, max, rest);
  CHECK(max == largest.value);
  Worst worst;
  worst.add(0, rest, plain::rest_of_exps(numbers.data(), lines.n, largest));
  if constexpr (sizeof(T) == 4) {  // the operation that is made of max_and_rest()
    const std::int64_t target = lines.n / 3;
    const Tensor rows = tensor(std::vector<T>(x.data(), x.data() + lines.n), {1, lines.n});
    worst.add(target, cross_entropy_rows(rows, tensor({target})).template item<T>(),
              plain::cross_entropy(numbers.data(), lines.n, target));
  }
  INFO("max_and_rest, " << sizeof(T) << " bytes, " << lines << ", " << worst);
  CHECK(worst.within_bounds());
  GuardedBuffer<T> scaled(lines.n, offset);
  k.scaled_exp(scaled.data(), x.data(), lines.n, max, T(0.3), lines.nontemporal);
  check_lines("scaled_exp", lines, scaled, [&](std::int64_t) {
    for (std::size_t i = 0; i < numbers.size(); ++i) expected[i] = exp(numbers[i] - largest) * R(T(0.3));
    return expected;
  });
}

template <class T>
void check_softmaxes() {
  for (const std::int64_t count : {1, 3})
    for (const std::int64_t n : {1, 3, 7, 33, 257, 2049, 4101})
      for (const std::int64_t offset : {0, 1}) check_softmax<T>({count, n, 1, false}, offset);
  for (const std::int64_t n : {16, 64, 4096, 4160}) check_softmax<T>({2, n, 1, true}, 0);
  for (const std::int64_t count : {1, 3})  // rows that begin and end within a line of the cache
    for (const std::int64_t n : {3, 17, 4091, 9001})
      for (const std::int64_t offset : {0, 3}) check_softmax<T>({count, n, 1, true}, offset);
  for (const std::int64_t count : {1, 3, 7, 33, 257, 600})
    for (const std::int64_t n : {1, 3, 7, 33}) check_softmax<T>({count, n, count + 2, false}, 1);
}

// ---- norms ------------------------------------------------------------------------------------------------------

template <class T>
struct NormRow {
  std::vector<Rounded<T>> h;
  Rounded<T> mean, rstd;
};

template <class T>
NormRow<T> normalised(const T* x, std::int64_t n, bool layer, double eps) {
  using R = Rounded<T>;
  NormRow<T> row;
  long double middle = 0;
  if (layer)
    for (std::int64_t i = 0; i < n; ++i) middle += static_cast<long double>(x[i]) / static_cast<long double>(n);
  const R k(static_cast<T>(middle)), size(static_cast<T>(n));
  std::vector<R> first, second;
  for (std::int64_t i = 0; i < n; ++i) {
    const R d = layer ? R(x[i]) - k : R(x[i]);
    first.push_back(d);
    second.push_back(d * d);
  }
  const R off = layer ? sum(first, 8) / size : R(), variance = sum(second, 8) / size - off * off;
  row.mean = layer ? k + off : R();
  row.mean.value = middle;
  long double exact = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const long double d = x[i] - middle;
    exact += d * d / static_cast<long double>(n);
  }
  row.rstd = R(T(1)) / sqrt(R{exact + static_cast<long double>(eps), variance.error});
  for (std::int64_t i = 0; i < n; ++i) row.h.push_back((R(x[i]) - row.mean) * row.rstd);
  return row;
}

template <class T>
void check_norm(bool layer, std::int64_t rows, std::int64_t n, bool weighted, bool biased, bool nontemporal,
                double shift) {
  using R = Rounded<T>;
  INFO((layer ? "layer" : "rms") << ", " << sizeof(T) << " bytes, " << rows << " rows of " << n << ", weight "
                                 << weighted << ", bias " << biased << ", nontemporal " << nontemporal << ", around "
                                 << shift);
  const auto& k = kernels::norm_rows<T>();
  constexpr std::int64_t offset = 1;
  const double eps = 1e-3;
  std::mt19937_64 random(static_cast<std::uint64_t>(n));
  GuardedBuffer<T> x = drawn<T>(rows * n, offset, between(shift - 2, shift + 2), random), y(rows * n, offset);
  GuardedBuffer<T> weight = drawn<T>(n, 3, between(-2, 2), random), bias = drawn<T>(n, 5, between(-2, 2), random);
  GuardedBuffer<double> mean(rows), rstd(rows);
  const T* const w = weighted ? weight.data() : nullptr;
  (layer ? k.layer : k.rms)(y.data(), layer ? mean.data() : nullptr, rstd.data(), x.data(), w,
                            biased ? bias.data() : nullptr, rows, n, eps, nontemporal);
  Worst forward, moments;
  std::vector<NormRow<T>> plain;
  for (std::int64_t r = 0; r < rows; ++r) {
    plain.push_back(normalised(x.data() + r * n, n, layer, eps));
    const NormRow<T>& row = plain.back();
    using L = long double;
    const auto wide_of = [n](const T* p) { return p ? std::vector<L>(p, p + n) : std::vector<L>(); };
    const std::vector<L> in = wide_of(x.data() + r * n), scale = wide_of(w),
                         shift_by = wide_of(biased ? bias.data() : nullptr);
    std::vector<L> exact(static_cast<std::size_t>(n));
    (layer ? kernels::reference::layer_norm<L>
           : kernels::reference::rms_norm<L>)(exact.data(), in.data(), w ? scale.data() : nullptr,
                                              biased ? shift_by.data() : nullptr, n, static_cast<L>(eps));
    const auto wide = [](const R& v) { return Wide{v.value, v.error}; };
    if (layer) moments.add(r, mean[r], wide(row.mean));
    moments.add(r, rstd[r], wide(row.rstd));
    for (std::int64_t i = 0; i < n; ++i) {
      R v = row.h[static_cast<std::size_t>(i)];
      if (weighted) v = v * R(weight[i]);
      if (biased) v = v + R(bias[i]);
      v.value = exact[static_cast<std::size_t>(i)];
      forward.add(r * n + i, y[r * n + i], v);
    }
  }
  INFO("forward " << forward << "; moments " << moments);
  CHECK(forward.within_bounds());
  CHECK(moments.within_bounds());
  CHECK((y.guards_intact() && mean.guards_intact() && rstd.guards_intact()));

  // The gradients, from the mean and 1/std that were left.
  GuardedBuffer<T> dy = drawn<T>(rows * n, offset, between(-2, 2), random), dx(rows * n, offset);
  GuardedBuffer<T> dweight = drawn<T>(n, 3, between(-2, 2), random), dbias = drawn<T>(n, 5, between(-2, 2), random);
  const std::vector<T> dweight_before = dweight.values(), dbias_before = dbias.values();
  (layer ? k.layer_backward : k.rms_backward)(dx.data(), weighted ? dweight.data() : nullptr,
                                              biased ? dbias.data() : nullptr, x.data(), dy.data(), w,
                                              layer ? mean.data() : nullptr, rstd.data(), rows, n, nontemporal);
  Worst backward, sums;
  std::vector<R> to_weight(dweight_before.begin(), dweight_before.end()),
      to_bias(dbias_before.begin(), dbias_before.end());
  for (std::int64_t r = 0; r < rows; ++r) {
    const R middle = layer ? R::of(mean[r], 0, 0) : R(), scale(static_cast<T>(rstd[r]));
    std::vector<R> h, d, by, out(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) {
      h.push_back((R(x[r * n + i]) - middle) * scale);
      d.emplace_back(dy[r * n + i]);
      by.emplace_back(weight[i]);
    }
    const InChains chains(8);
    kernels::reference::norm_backward<R>(layer, out.data(), weighted ? to_weight.data() : nullptr,
                                         biased ? to_bias.data() : nullptr, h.data(), scale, d.data(),
                                         weighted ? by.data() : nullptr, n);
    for (std::int64_t i = 0; i < n; ++i) backward.add(r * n + i, dx[r * n + i], out[static_cast<std::size_t>(i)]);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    sums.add(i, dweight[i], to_weight[at]);
    sums.add(i, dbias[i], to_bias[at]);
  }
  INFO("backward " << backward << "; sums " << sums);
  CHECK(backward.within_bounds());
  CHECK(sums.within_bounds());
  CHECK((dx.guards_intact() && dweight.guards_intact() && dbias.guards_intact()));

  // Without the gradient of x the sums are the same.
  if (!weighted || !biased) return;
  GuardedBuffer<T> again = drawn<T>(n, 3, between(0, 0), random);
  for (std::int64_t i = 0; i < n; ++i) again[i] = dweight_before[static_cast<std::size_t>(i)];
  (layer ? k.layer_backward : k.rms_backward)(nullptr, again.data(), nullptr, x.data(), dy.data(), w,
                                              layer ? mean.data() : nullptr, rstd.data(), rows, n, nontemporal);
  CHECK(again.values() == dweight.values());
}

template <class T>
void check_norms() {
  for (const bool layer : {false, true})
    for (const bool weighted : {false, true})
      for (const bool biased : {false, true}) {
        for (const std::int64_t rows : {1, 3})
          for (const std::int64_t n : {1, 3, 7, 33, 257, 1025})
            for (const double shift : {0., 100.}) check_norm<T>(layer, rows, n, weighted, biased, false, shift);
        for (const std::int64_t n : {16, 64, 272}) check_norm<T>(layer, 3, n, weighted, biased, true, 1);
      }
}

// ---- rotary -----------------------------------------------------------------------------------------------------

template <class T>
void check_rotary(bool half, std::int64_t pairs, std::int64_t heads) {
  using R = Rounded<T>;
  INFO("rotary, half " << half << ", " << pairs << " pairs, " << heads << " heads, " << sizeof(T) << " bytes");
  std::mt19937_64 random(3);
  const Draw usual = between(-2, 2);
  // What is turned lies before more of the same, which is not.
  GuardedBuffer<T> from = drawn<T>(2 * pairs * heads + 2, 1, usual, random), to(2 * pairs * heads, 3);
  GuardedBuffer<T> cosine = drawn<T>(pairs + 1, 1, usual, random), sine = drawn<T>(pairs + 1, 5, usual, random);
  const auto& k = kernels::rotary<T>();
  (half ? k.half_split : k.interleaved)(to.data(), from.data(), cosine.data(), sine.data(), pairs, heads);
  Worst worst;
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t i = 0; i < pairs; ++i) {
      const std::int64_t u = 2 * pairs * h + (half ? i : 2 * i), v = half ? u + pairs : u + 1;
      const auto [x, y] = kernels::reference::rotate(R(from[u]), R(from[v]), R(cosine[i]), R(sine[i]));
      worst.add(u, to[u], x);
      worst.add(v, to[v], y);
    }
  INFO(worst);
  CHECK(worst.within_bounds());
  CHECK(to.guards_intact());
}

}  // namespace

TEST_CASE("reductions are within the rounding of plain sums, in rows and in columns", "[kernels]") {
  each_isa([] {
    check_folds<float>();
    check_folds<double>();
    check_find<float>();
    check_find<double>();
    check_squares<float>();
    check_squares<double>();
  });
}

TEST_CASE("softmax of lines in every layout is within the rounding of its reference", "[kernels]") {
  each_isa([] {
    check_softmaxes<float>();
    check_softmaxes<double>();
  });
}

TEST_CASE("norms of rows and their gradients are within the rounding of their reference", "[kernels]") {
  each_isa([] {
    check_norms<float>();
    check_norms<double>();
  });
}

TEST_CASE("results go past the caches where they are large and their rows are long or whole lines", "[kernels]") {
  const auto at = [](std::uintptr_t address) { return reinterpret_cast<const float*>(address); };  // is not read
  const std::int64_t rows = 1 << 10, n = 1 << 11;                                                  // 8 MB
  CHECK(kernels::stores_nontemporal(at(4096), rows, n));
  CHECK(kernels::stores_nontemporal(at(4096 + 64), rows, n + 16));
  CHECK(kernels::stores_nontemporal(at(4096 + 32), rows, n));
  CHECK(kernels::stores_nontemporal(at(4096), rows, n + 8));
  CHECK_FALSE(kernels::stores_nontemporal(at(4096), rows - 1, n));
  CHECK(kernels::stores_nontemporal(at(4096), 4 * rows, n / 4));
  CHECK_FALSE(kernels::stores_nontemporal(at(4096 + 32), 4 * rows, n / 4));
  CHECK_FALSE(kernels::stores_nontemporal(at(4096), 4 * rows, n / 4 + 8));
}

TEST_CASE("an instruction set is chosen where this machine has it", "[kernels]") {
  using kernels::Isa;
  const Isa now = kernels::isa();
  CHECK(kernels::set_isa(now));
#if defined(__x86_64__)
  CHECK_FALSE(kernels::set_isa(Isa::neon));
#if !defined(FIT_ONLY_ISA)  // a processor has all that are narrower than the widest it has
  for (const Isa i : {Isa::base, Isa::avx2, Isa::avx512, Isa::avx512_vnni, Isa::avx512_bf16})
    if (i <= now) CHECK(kernels::set_isa(i));
  CHECK(kernels::set_isa(now));
#endif
#else
  CHECK_FALSE(kernels::set_isa(Isa::avx2));
#endif
  CHECK(kernels::isa() == now);
}

TEST_CASE("rotary turns are within the rounding of their reference", "[kernels]") {
  each_isa([] {
    for (const bool half : {false, true})
      for (const std::int64_t pairs : odd_sizes)
        for (const std::int64_t heads : {1, 3}) {
          check_rotary<float>(half, pairs, heads);
          check_rotary<double>(half, pairs, heads);
        }
  });
}

}  // namespace fit::test::row_kernels_test
