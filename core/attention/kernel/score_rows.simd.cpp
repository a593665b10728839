#include "attention/kernel/score_rows.hpp"

#include <type_traits>

#include "attention/kernel/rows.hpp"
#include "kernels/simd/math.hpp"
#include "kernels/simd/pow.hpp"

namespace fit::kernels {
namespace {

// Pairs in a line: number x is the query at place + by_place x, with the key + by_key x.
struct Line {
  std::int64_t place, key, by_place, by_key;
};

// Elements of a table for the numbers of a line: first + step x for from <= x < to. Others have none: causality or the
// window masks them.
struct Stretch {
  std::int64_t first = 0, step = 0, from = 0, to = 0;
};

// a / b rounded down, for b > 0.
inline std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

// What the columns of FIT_SCORE_OPERATIONS use.
using xsimd::select;
template <class V, class Bool>
V truth(const Bool& b) {
  return select(b, V(1), V(0));
}
// The gradient of one of the arguments of y = min(a, b) or max(a, b). Equal arguments share d.
template <class V>
V share(const V& d, const V& mine, const V& other, const V& y) {
  return select(mine == other, V(0.5) * d, select((mine == y) | (mine != mine), d, V(0)));
}
struct None {};
constexpr None none;

template <int i>
None pick() {
  return none;
}
template <int i, class First, class... Rest>
auto pick(const First& first, const Rest&... rest) {
  if constexpr (i == 0)
    return first;
  else
    return pick<i - 1>(rest...);
}

// The columns of the kernel.
namespace rows {
#define SKIP(...)
#define ROW(name, arity_of_row, notation, kind, bounds, value_of_row, gradients, operation)                       \
  struct name {                                                                                                   \
    static constexpr int arity = arity_of_row;                                                                    \
    template <class V>                                                                                            \
    static V value(const V& a, [[maybe_unused]] const V& b, [[maybe_unused]] const V& c,                          \
                   [[maybe_unused]] const V& e) {                                                                 \
      return value_of_row;                                                                                        \
    }                                                                                                             \
    template <int i, class V>                                                                                     \
    static auto gradient([[maybe_unused]] const V& d, [[maybe_unused]] const V& a, [[maybe_unused]] const V& b,   \
                         [[maybe_unused]] const V& c, [[maybe_unused]] const V& e, [[maybe_unused]] const V& y) { \
      return pick<i> gradients;                                                                                   \
    }                                                                                                             \
  };
FIT_SCORE_OPERATIONS(SKIP, ROW, ROW, SKIP)
#undef ROW
}  // namespace rows

// See ScoreKernels.
template <class W>
class HeadScores {
  using V = Vec<W>;
  using Op = detail::SymbolOp;
  using Step = ScoreStep<W>;
  using Level = ScoreLevel;
  static constexpr Level levels_of_tile[] = {Level::key, Level::query, Level::distance};

  // Rows of numbers in memory.
  struct View {
    W* first;
    std::int64_t row;
    W* at(std::int64_t r) const { return first + r * row; }
  };

 public:
  HeadScores(const AttentionScores<W>& a, std::int64_t b, std::int64_t h, W* workspace)
      : program_(a.score), b_(b), h_(h), workspace_(workspace) {
    enter(Level::head);
    compute();
    clear_gradients();
  }

  void take_tile(const AttentionScores<W>& a, const TilePlace& tile) {
    tile_ = tile, place_ = a.place(tile.i0), j0_ = tile.j0;
    for (auto& bits : attended_) bits[0] = bits[1] = 0;
    for (const Level level : levels_of_tile) {
      enter(level);
      compute();
      clear_gradients();
    }
  }

  ScoreBlock<W> forward(const AttentionScores<W>& a, std::int64_t first, W* s, W* out) {
    first_ = first, rows_ = tile_.rows - first < score_block ? tile_.rows - first : score_block;
    if (tile_.factor != 1 || a.bias.data || a.alibi)
      for (std::int64_t r = 0; r < rows_; ++r) biased_scores(Row<W>(a, tile_, first + r, 0), s + r * N);
    scores_ = s, out_ = out;
    enter(Level::pair);
    compute();
    return {rows_, value(program_->count - 1)};
  }

  void backward(const std::uint64_t* attends, W* ds, W* tables) {
    attends_ = attends, ds_ = ds;
    note_attended();
    pass_down([&](const Step& s) {
      for (std::int64_t r = 0; r < rows_; ++r) scatter(s, r, tile_.width, tables);
    });
    const int k = program_->score;
    const W* const g = k < 0 || !program_->steps[k].differentiable ? nullptr : gradients(program_->steps[k]).first;
    for (std::int64_t r = 0; r < rows_; ++r) {  // 0 times infinity is NaN: masked pairs have no gradient
      if (full(r) && g == ds) continue;
      for (std::int64_t j = 0; j < tile_.width; j += V::size)
        attended(r, j, g ? load<V>(g + r * N + j) : V(W(0))).store_unaligned(ds + r * N + j);
    }
  }
  void leave_tile(W* tables) {
    for (const Level level : levels_of_tile) {
      enter(level);
      attends_ = attended_[static_cast<int>(level)];
      pass_down([&](const Step& s) { scatter(s, 0, size_, tables); });
    }
  }
  void leave_head(W* tables) {
    if (!any_) return;
    enter(Level::head);
    for (int k = 0; k < program_->count; ++k) {  // the sums of lanes go to the first
      const Step& s = program_->steps[k];
      if (s.level != Level::head || !s.differentiable) continue;
      W* const g = gradients(s).first;
      RowLanes<W> sum(W(0));
      each_register<W>(size_, [&](std::int64_t x, int of_pack) { sum[of_pack] += load<V>(g + x); });
      const W all = sum.sum();
      V(W(0)).store_unaligned(g);
      g[0] = all;
    }
    const std::uint64_t one = 1;
    size_ = V::size, attends_ = &one;
    pass_down([&](const Step& s) { scatter(s, 0, 1, tables); });
  }

 private:
  // Selects the steps of this level: they have `lines_` lines of `size_` numbers.
  void enter(Level level) {
    level_ = level;
    lines_ = level == Level::pair ? rows_ : 1;
    size_ = level == Level::head       ? 2 * N
            : level == Level::query    ? filled_to(V::size, tile_.rows)
            : level == Level::distance ? filled_to(V::size, tile_.width + tile_.rows - 1)
                                       : tile_.width;
  }
  Line line(std::int64_t r) const {
    switch (level_) {
      case Level::head:
        return {0, 0, 0, 0};
      case Level::key:
        return {0, j0_, 0, 1};
      case Level::query:
        return {place_, 0, 1, 0};
      case Level::distance:  // the last query is the farthest behind the first key
        return {0, j0_ - place_ - (tile_.rows - 1), 0, 1};
      default:
        return {place_ + first_ + r, j0_, 0, 1};
    }
  }
  // The numbers of a step, as the lines of this level read them.
  View view(const Step& s, W* at) const {
    if (level_ != Level::pair) return {at, 0};
    if (s.level == Level::pair) return {at, N};
    if (s.level == Level::distance) return {at + tile_.rows - 1 - first_, -1};
    return {at, 0};
  }
  W* value(int k) const {
    if (k == program_->score) return scores_;
    return out_ && k == program_->count - 1 ? out_ : workspace_ + program_->steps[k].value;
  }
  View values(int k) const { return view(program_->steps[k], value(k)); }
  View gradients(const Step& s) const { return view(s, s.gradient < 0 ? ds_ : workspace_ + s.gradient); }

  // Whether all pairs of a row attend.
  bool full(std::int64_t r) const {
    return level_ == Level::pair && (~attends_[r] & Visibility::bits_below(tile_.width)) == 0;
  }
  // Number x of line r, or 0 if no pair that it stands for attends.
  V attended(std::int64_t r, std::int64_t j, const V& x) const {
    return xsimd::select(mask_of_bits<V>(attends_[r + j / N] >> j % N), x, V(W(0)));
  }
  // The keys, queries and distances of the tile with a pair that attends.
  void note_attended() {
    for (std::int64_t r = 0; r < rows_; ++r) {
      const std::uint64_t bits = attends_[r];
      const std::int64_t i = first_ + r, shift = tile_.rows - 1 - i;
      attended_[static_cast<int>(Level::key)][0] |= bits;
      attended_[static_cast<int>(Level::query)][0] |= std::uint64_t{bits != 0} << i;
      std::uint64_t* const distances = attended_[static_cast<int>(Level::distance)];
      distances[0] |= bits << shift;
      distances[1] |= shift > 0 ? bits >> (N - shift) : 0;
      any_ = any_ || bits != 0;
    }
  }

  void compute() const {
    for (int k = 0; k < program_->count; ++k)
      if (program_->steps[k].level == level_ && k != program_->score) compute(k);
  }
  void clear_gradients() const {
    for (int k = 0; k < program_->count; ++k) {
      const Step& s = program_->steps[k];
      if (s.level != level_ || !s.differentiable) continue;
      W* const g = gradients(s).first;
      for (std::int64_t x = 0; x < size_; x += V::size) V(W(0)).store_unaligned(g + x);
    }
  }
  // The steps of the level, from the last on, give gradients to their arguments; lookups call each().
  template <class Lookup>
  void pass_down(const Lookup& each) const {
    for (int k = program_->count - 1; k >= 0; --k) {
      const Step& s = program_->steps[k];
      if (s.level != level_ || !s.differentiable || k == program_->score) continue;
      if (s.op == Op::lookup)
        each(s);
      else
        pass(k);
    }
  }

  // y = f(x...), line by line.
  template <class F, class... X>
  void map(const View& y, const F& f, const X&... x) const {
    for (std::int64_t r = 0; r < lines_; ++r) {
      W* const to = y.at(r);
      for (std::int64_t j = 0; j < size_; j += V::size) f(load<V>(x.at(r) + j)...).store_unaligned(to + j);
    }
  }
  // The gradient of argument i of a step: f(x...).
  template <class F, class... X>
  void give(const Step& s, int i, const F& f, const X&... x) const {
    const Step& to = program_->steps[s.args[i]];
    if (!to.differentiable) return;
    const View y = gradients(to);
    if (s.overwrites[i]) return map(y, f, x...);
    const auto add = [&](const V& old, const auto&... v) { return old + f(v...); };
    if (level_ == to.level) return map(y, add, y, x...);
    for (std::int64_t r = 0; r < lines_; ++r) {  // 0 times infinity is NaN: pairs that do not attend are left out
      W* const sum = y.at(r);
      if (full(r))
        for (std::int64_t j = 0; j < size_; j += V::size)
          add(load<V>(sum + j), load<V>(x.at(r) + j)...).store_unaligned(sum + j);
      else
        for (std::int64_t j = 0; j < size_; j += V::size)
          (load<V>(sum + j) + attended(r, j, f(load<V>(x.at(r) + j)...))).store_unaligned(sum + j);
    }
  }
  // Calls each(offset, n) for the runs of numbers of a step of this level.
  template <class Each>
  void each_run(const Each& each) const {
    if (size_ == N) return each(std::int64_t{0}, lines_ * N);
    for (std::int64_t r = 0; r < lines_; ++r) each(r * N, size_);
  }
  void compute(int k) const {
    const Step& s = program_->steps[k];
    const View y = values(k), a = values(s.args[0]);
    if (s.spread) return spread(s, y);
    if (s.linear) {
      for (std::int64_t r = 0; r < lines_; ++r) fill_linear(s.form, line(r), y.at(r));
      return;
    }
    if (s.forward)
      return each_run([&](std::int64_t at, std::int64_t n) { s.forward(y.first + at, a.first + at, n, 0); });
    if (s.op == Op::lookup) {
      for (std::int64_t r = 0; r < lines_; ++r) gather(s, r, y.at(r));
      return;
    }
    if (s.op == Op::number) return map(y, [n = V(s.number)] { return n; });
    operation(s).compute(*this, s, y);
  }

  // The kernels of a row of the table.
  using Gradient = void (*)(const HeadScores&, const Step&, const View& dy, const View& y);
  struct Operation {
    void (*compute)(const HeadScores&, const Step&, const View& y);
    Gradient give[3];  // to each argument; null: none
  };
  static const Operation& operation(const Step& s) {
#define NONE(...) Operation{},
#define ROW(name, ...) operation_of<rows::name>(),
    static constexpr Operation all[] = {FIT_SCORE_OPERATIONS(NONE, ROW, ROW, NONE)};
#undef NONE
#undef ROW
    return all[static_cast<int>(s.op)];
  }
  template <class Row>
  static constexpr Operation operation_of() {
    return {compute_row<Row>, {gradient_of<Row, 0>(), gradient_of<Row, 1>(), gradient_of<Row, 2>()}};
  }
  template <class Row, int i>
  static constexpr Gradient gradient_of() {
    constexpr V (*any)() = nullptr;
    using Result = decltype(Row::template gradient<i>(any(), any(), any(), any(), any(), any()));
    if constexpr (i < Row::arity && !std::is_same_v<Result, None>)
      return pass_row<Row, i>;
    else
      return nullptr;
  }
  template <class Row>
  static void compute_row(const HeadScores& h, const Step& s, const View& y) {
    const auto f = [e = V(s.number)](const V& a, const V& b, const V& c) { return Row::value(a, b, c, e); };
    h.map(y, f, h.template argument<Row>(s, 0), h.template argument<Row>(s, 1), h.template argument<Row>(s, 2));
  }
  template <class Row>
  View argument(const Step& s, int i) const {
    return values(s.args[i < Row::arity ? i : 0]);
  }

  // Adds the gradients of the arguments of step k, from its own.
  void pass(int k) const {
    const Step& s = program_->steps[k];
    const View dy = gradients(s), a = values(s.args[0]);
    if (s.spread) return spread_gradient(s, dy);
    if (s.backward) return pass_function(s, dy, s.from_output ? values(k) : a);
    const Operation& o = operation(s);
    for (int n = 0; n < s.arity; ++n) {
      const int i = s.reversed ? s.arity - 1 - n : n;
      if (o.give[i]) o.give[i](*this, s, dy, values(k));
    }
  }
  template <class Row, int i>
  static void pass_row(const HeadScores& h, const Step& s, const View& dy, const View& y) {
    const auto f = [e = V(s.number)](const V& d, const V& a, const V& b, const V& c, const V& of_y) {
      return Row::template gradient<i>(d, a, b, c, e, of_y);
    };
    h.give(s, i, f, dy, h.template argument<Row>(s, 0), h.template argument<Row>(s, 1), h.template argument<Row>(s, 2),
           y);
  }

  // The same for a function with kernels of its own; `from` is what its derivative is computed from.
  void pass_function(const Step& s, const View& dy, const View& from) const {
    const View dx = gradients(program_->steps[s.args[0]]);
    each_run([&](std::int64_t at, std::int64_t n) {
      if (s.overwrites[0]) return s.backward(dx.first + at, dy.first + at, from.first + at, n, 0);
      alignas(64) W d[score_block * N];
      s.backward(d, dy.first + at, from.first + at, n, 0);
      for (std::int64_t x = 0; x < n; x += V::size)
        (load<V>(dx.first + at + x) + load<V>(d + x)).store_unaligned(dx.first + at + x);
    });
  }

  // The values of the argument, for all pairs.
  FIT_ONE_COPY void spread(const Step& s, const View& y) const {
    const View x = values(s.args[0]);
    if (program_->steps[s.args[0]].level != Level::query)
      return map(
          y, [](const V& v) { return v; }, x);
    for (std::int64_t r = 0; r < lines_; ++r)
      for (std::int64_t j = 0; j < size_; j += V::size) V(x.first[first_ + r]).store_unaligned(y.at(r) + j);
  }
  FIT_ONE_COPY void spread_gradient(const Step& s, const View& dy) const {
    const Step& to = program_->steps[s.args[0]];
    if (to.level != Level::query)
      return give(
          s, 0, [](const V& d) { return d; }, dy);
    for (std::int64_t r = 0; r < lines_; ++r) {
      RowLanes<W> sum(W(0));
      each_register<W>(size_,
                       [&](std::int64_t j, int of_pack) { sum[of_pack] += attended(r, j, load<V>(dy.at(r) + j)); });
      gradients(to).first[first_ + r] += sum.sum();
    }
  }

  FIT_ONE_COPY void fill_linear(const PairForm& f, const Line& at, W* y) const {
    const std::int64_t start = f.at(b_, h_, at.place, at.key), step = f.query * at.by_place + f.key * at.by_key;
    for (std::int64_t x = 0; x < size_; ++x) y[x] = static_cast<W>(start + step * x);
  }

  // For indices that are forms.
  FIT_ONE_COPY Stretch stretch(const Step& s, const Line& at) const {
    Stretch all{0, 0, 0, size_};
    for (int axis = 0; axis < s.axes; ++axis) {
      const ScoreIndex& index = s.index[axis];
      const PairForm& f = index.form;
      const std::int64_t start = f.at(b_, h_, at.place, at.key), step = f.query * at.by_place + f.key * at.by_key;
      std::int64_t from = 0, to = size_;
      if (step == 0) {
        if (start < 0 || start >= index.size) to = 0;
      } else {  // the numbers with 0 <= start + step x < size, along the axis from the end if it runs backwards
        const std::int64_t x = step > 0 ? start : index.size - 1 - start, by = step > 0 ? step : -step;
        from = -floor_div(x, by), to = floor_div(index.size - 1 - x, by) + 1;
      }
      all.from = from > all.from ? from : all.from;
      all.to = to < all.to ? to : all.to;
      all.first += start * index.stride, all.step += step * index.stride;
    }
    if (all.to < all.from) all.from = all.to = 0;
    return all;
  }

  // The element of each number of a line, or -1.
  FIT_ONE_COPY void elements(const Step& s, std::int64_t r, std::int64_t* at) const {
    for (std::int64_t x = 0; x < size_; ++x) at[x] = 0;
    for (int axis = 0; axis < s.axes; ++axis) {
      const ScoreIndex& index = s.index[axis];
      const auto add = [&](std::int64_t x, bool inside, std::int64_t i) {
        at[x] = inside && at[x] >= 0 ? at[x] + i * index.stride : -1;
      };
      if (index.linear) {
        const Line of = line(r);
        const PairForm& f = index.form;
        const std::int64_t start = f.at(b_, h_, of.place, of.key), step = f.query * of.by_place + f.key * of.by_key;
        for (std::int64_t x = 0; x < size_; ++x) {
          const std::int64_t i = start + step * x;
          add(x, i >= 0 && i < index.size, i);
        }
        continue;
      }
      const W* const i = values(index.step).at(r);
      const W size = static_cast<W>(index.size);
      for (std::int64_t x = 0; x < size_; ++x) {
        const bool inside = i[x] >= W(0) && i[x] < size;
        add(x, inside, static_cast<std::int64_t>(inside ? i[x] : W(0)));
      }
    }
  }

  FIT_ONE_COPY void gather(const Step& s, std::int64_t r, W* y) const {
    if (!s.linear_indices) {
      alignas(64) std::int64_t at[2 * N];
      elements(s, r, at);
      for (std::int64_t x = 0; x < size_; ++x) y[x] = at[x] >= 0 ? s.table[at[x]] : W(0);
      return;
    }
    const Stretch t = stretch(s, line(r));
    for (std::int64_t x = 0; x < t.from; ++x) y[x] = W(0);
    for (std::int64_t x = t.to; x < size_; ++x) y[x] = W(0);
    for (std::int64_t x = t.from; x < t.to; ++x) y[x] = s.table[t.first + t.step * x];
  }

  // Adds the first n numbers of the gradient of a line to that of the table.
  FIT_ONE_COPY void scatter(const Step& s, std::int64_t r, std::int64_t n, W* tables) const {
    const W* const g = gradients(s).at(r);
    W* const to = tables + s.table_gradient;
    const auto attends = [&](std::int64_t x) { return attends_[r + x / N] >> x % N & 1; };
    if (!s.linear_indices) {
      alignas(64) std::int64_t at[2 * N];
      elements(s, r, at);
      for (std::int64_t x = 0; x < n; ++x)
        if (at[x] >= 0 && attends(x)) to[at[x]] += g[x];
      return;
    }
    const Stretch t = stretch(s, line(r));
    for (std::int64_t x = t.from; x < t.to && x < n; ++x)
      if (attends(x)) to[t.first + t.step * x] += g[x];
  }

  const ScoreProgram<W>* program_;
  std::int64_t b_, h_;
  W *workspace_, *scores_ = nullptr, *out_ = nullptr, *ds_ = nullptr;
  // The tile, the block of rows in it, and what is computed.
  TilePlace tile_{};
  std::int64_t place_ = 0, j0_ = 0, first_ = 0, rows_ = 0;
  Level level_ = Level::head;
  std::int64_t lines_ = 0, size_ = 0;
  // Bit x % N of word r + x / N: number x of line r, at this level, belongs to a pair that attends.
  const std::uint64_t* attends_ = nullptr;
  std::uint64_t attended_[3 + 1][2] = {};  // of the tile: attends_ for a level
  bool any_ = false;                       // whether a pair of the head attends
};

}  // namespace

template <class IsaTag, class W>
const ScoreKernels<W>& score_kernels() {
  using Head = HeadScores<W>;
  static_assert(sizeof(Head) <= sizeof(ScoreState) && std::is_trivially_destructible_v<Head>);
  static constexpr ScoreKernels<W> kernels{
      [](ScoreState& s, const AttentionScores<W>& a, std::int64_t b, std::int64_t h, W* workspace) {
        new (s.bytes) Head(a, b, h, workspace);
      },
      [](ScoreState& s, const AttentionScores<W>& a, const TilePlace& tile) { s.as<Head>().take_tile(a, tile); },
      [](ScoreState& s, const AttentionScores<W>& a, std::int64_t first, W* x, W* out) {
        return s.as<Head>().forward(a, first, x, out);
      },
      [](ScoreState& s, const std::uint64_t* attends, W* ds, W* tables) { s.as<Head>().backward(attends, ds, tables); },
      [](ScoreState& s, W* tables) { s.as<Head>().leave_tile(tables); },
      [](ScoreState& s, W* tables) { s.as<Head>().leave_head(tables); }};
  return kernels;
}

template const ScoreKernels<float>& score_kernels<FIT_ISA, float>();
template const ScoreKernels<double>& score_kernels<FIT_ISA, double>();

}  // namespace fit::kernels
