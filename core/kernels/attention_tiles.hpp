#pragma once
#include "kernels/attention_rows.hpp"
#include "kernels/simd/transpose.hpp"
#include "matmul/micro_kernel.hpp"
#if defined(__AVX512F__)
#include "matmul/micro_kernel_bf16.hpp"
#include "matmul/pack_bf16.hpp"
#endif

// The products of attention's tiles, in two ways: with sums of the operands' own type, or widened, and on the
// processor's instructions for BFloat16. For *.simd.cpp files.
//
// Both have
//   step, begin(), end(), keys_size(), pack_keys(), queries_size(), pack_queries(): see AttentionTable;
//   scaled: whether scores() multiplies by the scale;
//   transposed: whether dk and dv are added up as [filled D, N] in place of [N, filled D];
//   width(count): how many keys are computed of a block that has `count`.
// An object is for a head of queries, h, and its keys. Tiles of scores are [query_block, N], N = key_block.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// Scratch memory, handed out from front to back.
template <class W>
class Arena {
 public:
  explicit Arena(W* room) : next_(room) {}
  W* take(std::int64_t n) {
    W* const at = next_;
    next_ += n;
    return at;
  }
  BFloat16* take_bf16(std::int64_t n) { return reinterpret_cast<BFloat16*>(take(n / 2)); }

 private:
  W* next_;
};

// Rows as the formulas of W read them: where they lie, or widened.
template <class W>
struct WideRows {
  const W* data = nullptr;
  std::int64_t ld = 0;
};

template <class Operand>
class WideTiles {
 public:
  using T = Operand;
  using W = SumOf<T>;
  static constexpr std::int64_t step = 1;
  static constexpr bool scaled = true, transposed = false;
  static void begin() {}
  static void end() {}
  static std::int64_t width(std::int64_t count) { return filled_to(Vec<W>::size, count); }

  // [blocks of N keys][features, N] of the keys, and for backward of the values.
  static std::int64_t keys_size(const AttentionParams& a, AttentionPass pass) {
    return filled_to(key_block, a.Sk) * (keys_features(a) + (pass == AttentionPass::backward ? a.Dv : 0));
  }
  static void pack_keys(const Attention<T>& a, std::int64_t b, std::int64_t kv, AttentionPass pass, W* out) {
    if (!few_queries(a)) pack(a.Sk, a.D, a.k.at(b, kv, 0), a.k.row, out);
    if (pass == AttentionPass::backward) pack(a.Sk, a.Dv, a.v.at(b, kv, 0), a.v.row, values_in(a, out));
  }
  static std::int64_t queries_size(const AttentionParams&) { return 0; }
  static void pack_queries(const Attention<T>&, const HeadView<const T>&, std::int64_t, std::int64_t, W*) {}

  // queries: as packed, or null.
  WideTiles(const Attention<T>& a, std::int64_t b, std::int64_t h, const W* keys, const W*, Arena<W>& arena)
      : a_(a), b_(b), h_(h), kv_(h / (a.H / a.kv_heads)), keys_(keys), room_q_(wide_room(arena, a.D)) {}

  // Queries i0 … i0 + rows - 1 are what the products below are of.
  void take_queries(std::int64_t i0, std::int64_t rows) {
    rows_ = rows;
    q_ = widened(rows, a_.D, a_.q.at(b_, h_, i0), a_.q.row, room_q_);
    i0_ = i0;
  }
  // s = scale q k', of keys j0 … j0 + count - 1 and what fills them up.
  void scores(std::int64_t j0, std::int64_t count, W* s) const {
    const W scale = static_cast<W>(a_.scale);
    if (!few_queries(a_))
      return macro_kernel<false>(rows_, width(count), a_.D, scale, q_.data, q_.ld, keys_ + j0 * a_.D, key_block, s,
                                 key_block, false);
    for (std::int64_t i = 0; i < rows_; ++i, s += key_block) {
      row_dots(count, a_.D, a_.q.at(b_, h_, i0_ + i), std::int64_t{0}, a_.k.at(b_, kv_, j0), a_.k.row, s);
      for (std::int64_t j = 0; j < width(count); ++j) s[j] = j < count ? s[j] * scale : W(0);
    }
  }

  class Forward {
   public:
    Forward(const WideTiles& t, Arena<W>& arena) : t_(t), room_v_(wide_room(arena, t.a_.Dv)) {}
    // o = p v, or o += p v
    void contexts(std::int64_t j0, std::int64_t count, const W* p, W* o, std::int64_t o_row, bool add) const {
      const Attention<T>& a = t_.a_;
      const WideRows<W> v = widened(count, a.Dv, a.v.at(t_.b_, t_.kv_, j0), a.v.row, room_v_);
      macro_kernel<false>(t_.rows_, a.Dv, count, W(1), p, key_block, v.data, v.ld, o, o_row, add);
    }

   private:
    const WideTiles& t_;
    W* room_v_;
  };

  // Of keys j0 … j0 + count - 1.
  class Backward {
   public:
    Backward(const WideTiles& t, const HeadView<const T>& dout, std::int64_t j0, std::int64_t count, Arena<W>& arena)
        : t_(t),
          dout_(dout),
          values_(values_in(t.a_, t.keys_) + j0 * t.a_.Dv),
          room_dout_(wide_room(arena, t.a_.Dv)),
          k_(widened(count, t.a_.D, t.a_.k.at(t.b_, t.kv_, j0), t.a_.k.row, wide_room(arena, t.a_.D))) {}
    // dp = dout v'
    void dweights(std::int64_t count, W* dp) {
      const std::int64_t Dv = t_.a_.Dv;
      d_ = widened(t_.rows_, Dv, dout_.at(t_.b_, t_.h_, t_.i0_), dout_.row, room_dout_);
      macro_kernel<false>(t_.rows_, width(count), Dv, W(1), d_.data, d_.ld, values_, key_block, dp, key_block, false);
    }
    // dv += p' dout, dk += ds' q, dq += ds k
    void gradients(std::int64_t count, const W* p, const W* ds, W* dq, W* dk, W* dv) const {
      const std::int64_t D = t_.a_.D, Dv = t_.a_.Dv, M = t_.rows_;
      macro_kernel<true>(count, Dv, M, W(1), p, key_block, d_.data, d_.ld, dv, Dv, true);
      macro_kernel<true>(count, D, M, W(1), ds, key_block, t_.q_.data, t_.q_.ld, dk, D, true);
      macro_kernel<false>(M, D, count, W(1), ds, key_block, k_.data, k_.ld, dq, D, true);
    }

   private:
    const WideTiles& t_;
    HeadView<const T> dout_;
    const W* values_;
    W* room_dout_;
    WideRows<W> k_, d_;
  };

 private:
  static std::int64_t keys_features(const AttentionParams& a) { return few_queries(a) ? 0 : a.D; }
  template <class Packed>
  static Packed* values_in(const AttentionParams& a, Packed* keys) {
    return keys + filled_to(key_block, a.Sk) * keys_features(a);
  }
  static W* wide_room(Arena<W>& arena, std::int64_t features) {
    return std::is_same_v<T, W> ? nullptr : arena.take(query_block * filled_to(64, features));
  }
  static WideRows<W> widened(std::int64_t rows, std::int64_t cols, const T* x, std::int64_t ld, W* room) {
    if constexpr (std::is_same_v<T, W>) {
      return {x, ld};
    } else {
      for (std::int64_t r = 0; r < rows; ++r) copy_scaled(x + r * ld, W(1), cols, room + r * cols);
      return {room, cols};
    }
  }
  // x [rows, cols] (stride ld), transposed block by block, with zeros up to a whole vector.
  static void pack(std::int64_t rows, std::int64_t cols, const T* x, std::int64_t ld, W* out) {
    constexpr std::int64_t part = 64;  // features that are widened at a time
    alignas(64) W room[std::is_same_v<T, W> ? 1 : key_block * part];
    for (std::int64_t j0 = 0; j0 < rows; j0 += key_block, out += cols * key_block) {
      const std::int64_t count = rows - j0 < key_block ? rows - j0 : key_block;
      for (std::int64_t c = 0; c < cols; c += part) {
        const std::int64_t n = cols - c < part ? cols - c : part;
        const WideRows<W> y = widened(count, n, x + j0 * ld + c, ld, room);
        transpose(count, n, y.data, y.ld, out + c * key_block, key_block);
      }
      for (std::int64_t c = 0; c < cols; ++c)
        for (std::int64_t j = count; j < width(count); ++j) out[c * key_block + j] = W(0);
    }
  }

  const Attention<T>& a_;
  std::int64_t b_, h_, kv_;
  const W* keys_;
  W* room_q_;
  WideRows<W> q_;
  std::int64_t i0_ = 0, rows_ = 0;
};

#if defined(__AVX512F__)
// Way: Amx or Avx512Bf16. Packed are
//   of the keys: the columns of k', [blocks of N keys][filled D / 2, N, 2], and then
//     forward: the rows of v, [panels of Dv][filled Sk / 2, panel_width, 2];
//     backward: the columns of v', and the rows of k;
//   of the queries: q and dout [filled Sq, filled D], each with its transpose.
// dk' = q' dS and dv' = dout' P take their tiles of scores by pairs of rows, which are put together faster than tiles
// are transposed.
template <class Way>
class Bf16Tiles {
 public:
  using T = BFloat16;
  using W = float;
  static constexpr std::int64_t step = bf16_step;
  static constexpr bool scaled = false, transposed = true;
  static void begin() { Way::begin(Way::rows); }
  static void end() { Way::end(); }
  static std::int64_t width(std::int64_t count) { return bf16_filled(count); }

  static std::int64_t keys_size(const AttentionParams& a, AttentionPass pass) {
    const std::int64_t row = pass == AttentionPass::forward ? bf16_filled(a.D) + panel_columns(a.Dv)
                                                            : bf16_filled(a.D) + bf16_filled(a.Dv) + panel_columns(a.D);
    return filled_keys(a) * row / 2;
  }
  static void pack_keys(const Attention<T>& a, std::int64_t b, std::int64_t kv, AttentionPass pass, W* out) {
    const BFloat16 *const k = a.k.at(b, kv, 0), *const v = a.v.at(b, kv, 0);
    BFloat16* const columns = reinterpret_cast<BFloat16*>(out);
    BFloat16* const more = columns + filled_keys(a) * bf16_filled(a.D);
    pack_columns(a, a.D, k, a.k.row, columns);
    if (pass == AttentionPass::forward) return pack_rows(a, a.Dv, v, a.v.row, more);
    pack_columns(a, a.Dv, v, a.v.row, more);
    pack_rows(a, a.D, k, a.k.row, more + filled_keys(a) * bf16_filled(a.Dv));
  }
  static std::int64_t queries_size(const AttentionParams& a) {
    return (bf16_filled(a.D) + bf16_filled(a.Dv)) * (bf16_filled(a.Sq) + transposed_row(a)) / 2;
  }
  static void pack_queries(const Attention<T>& a, const HeadView<const T>& dout, std::int64_t b, std::int64_t h,
                           W* out) {
    const Queries<BFloat16> to(a, reinterpret_cast<BFloat16*>(out));
    pack_a_bf16(false, a.Sq, a.D, a.q.at(b, h, 0), a.q.row, to.q, bf16_filled(a.D));
    pack_a_bf16(true, a.D, a.Sq, a.q.at(b, h, 0), a.q.row, to.transposed_q, transposed_row(a));
    pack_a_bf16(false, a.Sq, a.Dv, dout.at(b, h, 0), dout.row, to.dout, bf16_filled(a.Dv));
    pack_a_bf16(true, a.Dv, a.Sq, dout.at(b, h, 0), dout.row, to.transposed_dout, transposed_row(a));
  }

  Bf16Tiles(const Attention<T>& a, std::int64_t b, std::int64_t h, const W* keys, const W* queries, Arena<W>& arena)
      : a_(a),
        b_(b),
        h_(h),
        keys_(reinterpret_cast<const BFloat16*>(keys)),
        packed_q_(reinterpret_cast<const BFloat16*>(queries)),
        room_q_(queries ? nullptr : arena.take_bf16(query_block * bf16_filled(a.D))) {}

  void take_queries(std::int64_t i0, std::int64_t rows) {
    i0_ = i0;
    rows_ = rows;
    q_row_ = bf16_filled(a_.D);
    const BFloat16* const q = a_.q.at(b_, h_, i0);
    if (!room_q_) {
      q_ = packed_q_ + i0 * q_row_;
    } else if (a_.D == q_row_ && rows % 16 == 0) {  // they can be read as they lie
      q_ = q;
      q_row_ = a_.q.row;
    } else {
      pack_a_bf16(false, rows, a_.D, q, a_.q.row, room_q_, q_row_);
      q_ = room_q_;
    }
  }
  // s = q k'
  void scores(std::int64_t j0, std::int64_t count, W* s) const {
    Way::macro_kernel(rows_, width(count), bf16_filled(a_.D), q_, q_row_, keys_ + j0 * bf16_filled(a_.D), s, key_block,
                      false);
  }

  class Forward {
   public:
    Forward(const Bf16Tiles& t, Arena<W>& arena) : t_(t), p_(arena.take_bf16(query_block * key_block)) {}
    void contexts(std::int64_t j0, std::int64_t count, const W* p, W* o, std::int64_t o_row, bool add) const {
      bf16_copy(t_.rows_, width(count), width(count), p, key_block, p_, key_block);
      const BFloat16* const v = t_.keys_ + filled_keys(t_.a_) * bf16_filled(t_.a_.D);
      t_.multiply_rows(t_.a_.Dv, width(count), p_, v + j0 * panel_width, o, o_row, add);
    }

   private:
    const Bf16Tiles& t_;
    BFloat16* p_;
  };

  // Where a head of queries is packed.
  template <class B>
  struct Queries {
    B *q, *transposed_q, *dout, *transposed_dout;
    Queries(const AttentionParams& a, B* room)
        : q(room),
          transposed_q(q + bf16_filled(a.Sq) * bf16_filled(a.D)),
          dout(transposed_q + bf16_filled(a.D) * transposed_row(a)),
          transposed_dout(dout + bf16_filled(a.Sq) * bf16_filled(a.Dv)) {}
  };

  class Backward {
   public:
    Backward(const Bf16Tiles& t, const HeadView<const T>&, std::int64_t j0, std::int64_t, Arena<W>& arena)
        : t_(t),
          queries_(t.a_, t.packed_q_),
          values_(t.keys_ + filled_keys(t.a_) * bf16_filled(t.a_.D) + j0 * bf16_filled(t.a_.Dv)),
          k_(t.keys_ + filled_keys(t.a_) * (bf16_filled(t.a_.D) + bf16_filled(t.a_.Dv)) + j0 * panel_width),
          ds_(arena.take_bf16(query_block * key_block)),
          pairs_(reinterpret_cast<Bf16Pair*>(arena.take_bf16(query_block * key_block))) {}
    void dweights(std::int64_t count, W* dp) const {
      const std::int64_t row = bf16_filled(t_.a_.Dv);
      Way::macro_kernel(t_.rows_, width(count), row, queries_.dout + t_.i0_ * row, row, values_, dp, key_block, false);
    }
    void gradients(std::int64_t count, const W* p, const W* ds, W* dq, W* dk, W* dv) const {
      const std::int64_t ld = transposed_row(t_.a_), M = t_.rows_, keys = width(count);
      bf16_zip(M, keys, bf16_filled(M), p, key_block, pairs_, panel_width);
      Way::macro_kernel(t_.a_.Dv, keys, bf16_filled(M), queries_.transposed_dout + t_.i0_, ld, &pairs_->even, dv,
                        key_block, true);
      bf16_zip(M, keys, bf16_filled(M), ds, key_block, pairs_, panel_width);
      Way::macro_kernel(t_.a_.D, keys, bf16_filled(M), queries_.transposed_q + t_.i0_, ld, &pairs_->even, dk, key_block,
                        true);
      bf16_copy(M, keys, keys, ds, key_block, ds_, key_block);
      t_.multiply_rows(t_.a_.D, keys, ds_, k_, dq, bf16_filled(t_.a_.D), true);
    }

   private:
    const Bf16Tiles& t_;
    Queries<const BFloat16> queries_;
    const BFloat16 *values_, *k_;
    BFloat16* ds_;
    Bf16Pair* pairs_;
  };

 private:
  static std::int64_t filled_keys(const AttentionParams& a) { return filled_to(key_block, a.Sk); }
  static std::int64_t panel_columns(std::int64_t features) { return panels(features) * panel_width; }
  // An odd number of cache lines from row to row: they don't drive each other out of the cache.
  static std::int64_t transposed_row(const AttentionParams& a) { return filled_to(2 * bf16_step, a.Sq) + bf16_step; }

  static void pack_columns(const Attention<T>& a, std::int64_t features, const BFloat16* x, std::int64_t ld,
                           BFloat16* out) {
    for (std::int64_t j0 = 0; j0 < a.Sk; j0 += key_block)
      pack_b_bf16(true, a.Sk - j0 < key_block ? a.Sk - j0 : key_block, features, x + j0 * ld, ld,
                  out + j0 * bf16_filled(features));
  }
  static void pack_rows(const Attention<T>& a, std::int64_t features, const BFloat16* x, std::int64_t ld,
                        BFloat16* out) {
    for (std::int64_t c = 0; c < features; c += panel_width)
      pack_b_bf16(false, features - c < panel_width ? features - c : panel_width, a.Sk, x + c, ld,
                  out + c * filled_keys(a));
  }

  // sums (+)= a tile of weights times `features` columns of packed rows.
  void multiply_rows(std::int64_t features, std::int64_t k, const BFloat16* tile, const BFloat16* packed, W* sums,
                     std::int64_t ld, bool add) const {
    for (std::int64_t c = 0; c < features; c += panel_width)
      Way::macro_kernel(rows_, features - c < panel_width ? features - c : panel_width, k, tile, key_block,
                        packed + c * filled_keys(a_), sums + c, ld, add);
  }

  const Attention<T>& a_;
  std::int64_t b_, h_;
  const BFloat16* keys_;
  const BFloat16* packed_q_;
  BFloat16* room_q_;
  const BFloat16* q_ = nullptr;
  std::int64_t q_row_ = 0, i0_ = 0, rows_ = 0;
};
#endif

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
