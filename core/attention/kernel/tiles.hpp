#pragma once
#include "attention/kernel/rows.hpp"
#include "kernels/simd/arena.hpp"
#include "kernels/simd/transpose.hpp"
#include "matmul/gemv.hpp"
#include "matmul/macro_kernel.hpp"
#if defined(__AVX512F__)
#include "matmul/micro_kernel_bf16.hpp"
#include "matmul/pack_bf16.hpp"
#endif

// The products of attention's tiles, in two ways: VectorTiles adds up in the operands' own type, or converts BFloat16
// to float; Bf16Tiles uses the processor's instructions for BFloat16. For *.simd.cpp files.
//
// Both have
//   step, begin(), end(), keys_size(), pack_keys(), queries_size(), pack_queries(): see AttentionTable;
//   scaled: whether scores() multiplies by the scale;
//   transposed: whether dk and dv are added up as [padded D, N] instead of [N, padded D];
//   width(count): how many keys of a block with `count` keys are computed.
// An object is for a head of queries and its keys. `queries` and `dout` are null in a forward pass. The products are of
// the queries of take_queries() and the first `count` keys of take_keys(). Tiles are [query_block, N], N = key_block.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// The first key of the first block that a query may attend to.
inline std::int64_t first_block(const Visibility& a) { return a.range(0).first / key_block * key_block; }

template <class Operand>
class VectorTiles {
 public:
  using T = Operand;
  using W = AccT<T>;
  static constexpr std::int64_t step = 1;
  static constexpr bool scaled = true, transposed = false;
  static void begin() {}
  static void end() {}
  static std::int64_t width(std::int64_t count) { return filled_to(Vec<W>::size, count); }

  // [blocks of N keys][features, N] of the keys, and for backward of the values.
  static std::int64_t keys_size(const Attention<>& a, AttentionPass pass) {
    return filled_to(key_block, a.Sk) * (keys_features(a) + (pass == AttentionPass::backward ? a.Dv : 0));
  }
  static void pack_keys(const Attention<T>& a, std::int64_t b, std::int64_t kv, AttentionPass pass, W* out) {
    if (!few_queries(a)) pack(a, a.D, a.k.at(b, kv, 0), a.k.row, out);
    if (pass == AttentionPass::backward) pack(a, a.Dv, a.v.at(b, kv, 0), a.v.row, values_in(a, out));
  }
  static std::int64_t queries_size(const Attention<>&) { return 0; }
  static void pack_queries(const Attention<T>&, const HeadView<const T>&, std::int64_t, std::int64_t, W*) {}

  VectorTiles(const Attention<T>& a, std::int64_t b, std::int64_t h, const W* keys, const W*,
              const HeadView<const T>* dout, Arena<W>& arena)
      : a_(a),
        b_(b),
        h_(h),
        kv_(h / a.group()),
        keys_(keys),
        dout_(dout),
        q_buffer_(buffer_for(arena, a.D)),
        kv_buffer_(buffer_for(arena, a.D > a.Dv ? a.D : a.Dv)),
        dout_buffer_(buffer_for(arena, a.Dv)) {}

  void take_queries(std::int64_t i0, std::int64_t rows) {
    i0_ = i0, rows_ = rows;
    q_ = converted(rows, a_.D, a_.q.at(b_, h_, i0), a_.q.row, q_buffer_);
    if (dout_) d_ = converted(rows, a_.Dv, dout_->at(b_, h_, i0), dout_->row, dout_buffer_);
  }
  void take_keys(std::int64_t j0, std::int64_t count) {
    j0_ = j0;
    if (dout_) k_ = converted(count, a_.D, a_.k.at(b_, kv_, j0), a_.k.row, kv_buffer_);
  }
  // s = scale q k', also of padding up to the width.
  void scores(std::int64_t count, W* s) const {
    const W scale = static_cast<W>(a_.scale);
    if (!few_queries(a_))
      return macro_kernel({rows_, width(count), a_.D}, scale, q_, {keys_ + j0_ * a_.D, key_block}, {s, key_block},
                          Write::set);
    GemmParams<W> p = contiguous<W>(rows_, count, a_.D, false, true);
    p.alpha = scale, p.lda = q_.ld, p.ldb = a_.k.row, p.ldc = key_block;
    gemv_by_rows(p, q_.data, a_.k.at(b_, kv_, j0_), s);
    for (std::int64_t i = 0; i < rows_; ++i)
      for (std::int64_t j = count; j < width(count); ++j) s[i * key_block + j] = W(0);
  }
  // o = p v, or o += p v
  void contexts(std::int64_t count, const W* p, W* o, std::int64_t o_row, bool add) const {
    if (few_queries(a_)) fetch_next_keys();
    if constexpr (!std::is_same_v<T, W>)
      if (few_queries(a_)) {  // reads v without converting it first
        GemmParams<W> product = contiguous<W>(rows_, a_.Dv, count, false, false);
        product.lda = key_block, product.ldb = a_.v.row, product.ldc = o_row, product.beta = add ? 1 : 0;
        return gemv_by_rows(product, p, a_.v.at(b_, kv_, j0_), o);
      }
    const Rows v = converted(count, a_.Dv, a_.v.at(b_, kv_, j0_), a_.v.row, kv_buffer_);
    macro_kernel({rows_, a_.Dv, count}, W(1), {p, key_block}, v, {o, o_row}, adding(add));
  }
  // dp = dout v'
  void dweights(std::int64_t count, W* dp) const {
    macro_kernel({rows_, width(count), a_.Dv}, W(1), d_, {values_in(a_, keys_) + j0_ * a_.Dv, key_block},
                 {dp, key_block}, Write::set);
  }
  // dv += p' dout, dk += ds' q, dq += ds k
  void gradients(std::int64_t count, const W* p, const W* ds, W* dq, W* dk, W* dv) const {
    macro_kernel({count, a_.Dv, rows_}, W(1), transpose_of(p, key_block), d_, {dv, a_.Dv}, Write::add);
    macro_kernel({count, a_.D, rows_}, W(1), transpose_of(ds, key_block), q_, {dk, a_.D}, Write::add);
    macro_kernel({rows_, a_.D, count}, W(1), {ds, key_block}, k_, {dq, a_.D}, Write::add);
  }

 private:
  using Rows = Matrix<const W>;  // an operand itself, or converted

  static void gemv_by_rows(GemmParams<W> p, const W* a, const T* b, W* c) {
    for (std::int64_t left = p.m; left > 0; left -= p.m, a += p.m * p.lda, c += p.m * p.ldc) {
      p.m = left < gemv_max_m ? left : gemv_max_m;
      gemv_part(p, a, b, c, {}, nothing_more);
    }
  }
  // Brings the keys of the next block or head into the cache. The processor itself starts too late.
  void fetch_next_keys() const {
    const bool same_head = j0_ + key_block < a_.Sk;
    if (!same_head && h_ + 1 == a_.H) return;
    const std::int64_t j = same_head ? j0_ + key_block : first_block(a_), kv = (same_head ? h_ : h_ + 1) / a_.group();
    const T* key = a_.k.at(b_, kv, j);
    constexpr std::int64_t line = 64 / sizeof(T);
    for (std::int64_t n = a_.Sk - j < key_block ? a_.Sk - j : key_block; n > 0; --n, key += a_.k.row)
      for (std::int64_t c = 0; c < a_.D; c += line) __builtin_prefetch(key + c);
  }
  static std::int64_t keys_features(const Attention<>& a) { return few_queries(a) ? 0 : a.D; }
  template <class Packed>
  static Packed* values_in(const Attention<>& a, Packed* keys) {
    return keys + filled_to(key_block, a.Sk) * keys_features(a);
  }
  static W* buffer_for(Arena<W>& arena, std::int64_t features) {
    return std::is_same_v<T, W> ? nullptr : arena.take(query_block * filled_to(64, features));
  }
  static Rows converted(std::int64_t rows, std::int64_t cols, const T* x, std::int64_t ld, W* buffer) {
    if constexpr (std::is_same_v<T, W>) {
      return {x, ld};
    } else {
      for (std::int64_t r = 0; r < rows; ++r) copy_scaled(x + r * ld, W(1), cols, buffer + r * cols);
      return {buffer, cols};
    }
  }
  // Transposes x [Sk, cols] (stride ld) block by block. Zeros fill the last vector.
  static void pack(const Attention<>& a, std::int64_t cols, const T* x, std::int64_t ld, W* out) {
    constexpr std::int64_t part = 64;  // features that are converted at a time
    alignas(64) W buffer[std::is_same_v<T, W> ? 1 : key_block * part];
    for (std::int64_t j0 = first_block(a); j0 < a.Sk; j0 += key_block) {
      const std::int64_t count = a.Sk - j0 < key_block ? a.Sk - j0 : key_block;
      W* const block = out + j0 * cols;
      for (std::int64_t c = 0; c < cols; c += part) {
        const std::int64_t n = cols - c < part ? cols - c : part;
        const Rows y = converted(count, n, x + j0 * ld + c, ld, buffer);
        transpose(count, n, y.data, y.ld, block + c * key_block, key_block);
      }
      for (std::int64_t c = 0; c < cols; ++c)
        for (std::int64_t j = count; j < width(count); ++j) block[c * key_block + j] = W(0);
    }
  }

  const Attention<T>& a_;
  std::int64_t b_, h_, kv_;
  const W* keys_;
  const HeadView<const T>* dout_;
  W *q_buffer_, *kv_buffer_, *dout_buffer_;
  Rows q_, k_, d_;
  std::int64_t i0_ = 0, rows_ = 0, j0_ = 0;
};

#if defined(__AVX512F__)
// Way: Amx or Avx512Bf16. Packed are
//   for the keys: the columns of k', [blocks of N keys][padded D / 2, N, 2], and then
//     forward: the rows of v, [panels of Dv][padded Sk / 2, panel_width, 2];
//     backward: the columns of v', and the rows of k;
//   for the queries: q and dout [padded Sq, padded D], each followed by its transpose.
// dk' = q' dS and dv' = dout' P read tiles of scores as pairs of rows. Joining pairs is faster than transposing tiles.
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

  static std::int64_t keys_size(const Attention<>& a, AttentionPass pass) {
    const std::int64_t row = pass == AttentionPass::forward ? bf16_filled(a.D) + panel_columns(a.Dv)
                                                            : bf16_filled(a.D) + bf16_filled(a.Dv) + panel_columns(a.D);
    return padded_keys(a) * row / 2;
  }
  static void pack_keys(const Attention<T>& a, std::int64_t b, std::int64_t kv, AttentionPass pass, W* out) {
    const BFloat16 *const k = a.k.at(b, kv, 0), *const v = a.v.at(b, kv, 0);
    BFloat16* const columns = reinterpret_cast<BFloat16*>(out);
    BFloat16* const more = columns + padded_keys(a) * bf16_filled(a.D);
    pack_columns(a, a.D, k, a.k.row, columns);
    if (pass == AttentionPass::forward) return pack_rows(a, a.Dv, v, a.v.row, more);
    pack_columns(a, a.Dv, v, a.v.row, more);
    pack_rows(a, a.D, k, a.k.row, more + padded_keys(a) * bf16_filled(a.Dv));
  }
  static std::int64_t queries_size(const Attention<>& a) {
    return (bf16_filled(a.D) + bf16_filled(a.Dv)) * (bf16_filled(a.Sq) + transposed_row(a)) / 2;
  }
  static void pack_queries(const Attention<T>& a, const HeadView<const T>& dout, std::int64_t b, std::int64_t h,
                           W* out) {
    BFloat16* to = reinterpret_cast<BFloat16*>(out);
    const auto pack = [&](std::int64_t features, const HeadView<const T>& x) {
      pack_a_bf16(false, a.Sq, features, x.at(b, h, 0), x.row, to, bf16_filled(features));
      to = transposed_in(a, features, to);
      pack_a_bf16(true, features, a.Sq, x.at(b, h, 0), x.row, to, transposed_row(a));
      to += bf16_filled(features) * transposed_row(a);
    };
    pack(a.D, a.q), pack(a.Dv, dout);
  }

  Bf16Tiles(const Attention<T>& a, std::int64_t b, std::int64_t h, const W* keys, const W* queries,
            const HeadView<const T>*, Arena<W>& arena)
      : a_(a),
        b_(b),
        h_(h),
        keys_(reinterpret_cast<const BFloat16*>(keys)),
        queries_(reinterpret_cast<const BFloat16*>(queries)),
        q_buffer_(queries ? nullptr : arena.take_bf16(query_block * bf16_filled(a.D))),
        tile_(arena.take_bf16(query_block * key_block)),
        pairs_(queries ? reinterpret_cast<Bf16Pair*>(arena.take_bf16(query_block * key_block)) : nullptr) {}

  void take_queries(std::int64_t i0, std::int64_t rows) {
    i0_ = i0, rows_ = rows;
    q_row_ = bf16_filled(a_.D);
    const BFloat16* const q = a_.q.at(b_, h_, i0);
    if (!q_buffer_) {
      q_ = queries_ + i0 * q_row_;
    } else if (a_.D == q_row_ && rows % 16 == 0) {  // no copy is needed
      q_ = q;
      q_row_ = a_.q.row;
    } else {
      pack_a_bf16(false, rows, a_.D, q, a_.q.row, q_buffer_, q_row_);
      q_ = q_buffer_;
    }
  }
  void take_keys(std::int64_t j0, std::int64_t) { j0_ = j0; }
  // s = q k'
  void scores(std::int64_t count, W* s) const {
    Way::macro_kernel(rows_, width(count), bf16_filled(a_.D), q_, q_row_, keys_ + j0_ * bf16_filled(a_.D), s, key_block,
                      false);
  }
  void contexts(std::int64_t count, const W* p, W* o, std::int64_t o_row, bool add) const {
    bf16_copy(rows_, width(count), width(count), p, key_block, tile_, key_block);
    multiply_rows(a_.Dv, width(count), after_keys() + j0_ * panel_width, o, o_row, add);
  }
  void dweights(std::int64_t count, W* dp) const {
    const std::int64_t row = bf16_filled(a_.Dv);
    Way::macro_kernel(rows_, width(count), row, packed_dout() + i0_ * row, row, after_keys() + j0_ * row, dp, key_block,
                      false);
  }
  void gradients(std::int64_t count, const W* p, const W* ds, W* dq, W* dk, W* dv) const {
    const std::int64_t ld = transposed_row(a_), rows = bf16_filled(rows_), keys = width(count);
    bf16_zip(rows_, keys, rows, p, key_block, pairs_, panel_width);
    Way::macro_kernel(a_.Dv, keys, rows, transposed_in(a_, a_.Dv, packed_dout()) + i0_, ld, &pairs_->even, dv,
                      key_block, true);
    bf16_zip(rows_, keys, rows, ds, key_block, pairs_, panel_width);
    Way::macro_kernel(a_.D, keys, rows, transposed_in(a_, a_.D, queries_) + i0_, ld, &pairs_->even, dk, key_block,
                      true);
    bf16_copy(rows_, keys, keys, ds, key_block, tile_, key_block);
    const BFloat16* const k = after_keys() + padded_keys(a_) * bf16_filled(a_.Dv) + j0_ * panel_width;
    multiply_rows(a_.D, keys, k, dq, bf16_filled(a_.D), true);
  }

 private:
  static std::int64_t padded_keys(const Attention<>& a) { return filled_to(key_block, a.Sk); }
  static std::int64_t panel_columns(std::int64_t features) { return panels(features) * panel_width; }
  // An odd number of cache lines from row to row: rows do not evict each other from the cache.
  static std::int64_t transposed_row(const Attention<>& a) { return filled_to(2 * bf16_step, a.Sq) + bf16_step; }
  // The transpose behind packed rows of q or dout.
  template <class B>
  static B* transposed_in(const Attention<>& a, std::int64_t features, B* rows) {
    return rows + bf16_filled(a.Sq) * bf16_filled(features);
  }
  const BFloat16* packed_dout() const {
    return transposed_in(a_, a_.D, queries_) + bf16_filled(a_.D) * transposed_row(a_);
  }
  const BFloat16* after_keys() const { return keys_ + padded_keys(a_) * bf16_filled(a_.D); }

  static void pack_columns(const Attention<T>& a, std::int64_t features, const BFloat16* x, std::int64_t ld,
                           BFloat16* out) {
    for (std::int64_t j0 = first_block(a); j0 < a.Sk; j0 += key_block)
      pack_b_bf16(true, a.Sk - j0 < key_block ? a.Sk - j0 : key_block, features, x + j0 * ld, ld,
                  out + j0 * bf16_filled(features));
  }
  static void pack_rows(const Attention<T>& a, std::int64_t features, const BFloat16* x, std::int64_t ld,
                        BFloat16* out) {
    const std::int64_t first = first_block(a);
    for (std::int64_t c = 0; c < features; c += panel_width)
      pack_b_bf16(false, features - c < panel_width ? features - c : panel_width, a.Sk - first, x + first * ld + c, ld,
                  out + c * padded_keys(a) + first * panel_width);
  }

  // sums (+)= the tile times `features` columns of packed rows.
  void multiply_rows(std::int64_t features, std::int64_t k, const BFloat16* packed, W* sums, std::int64_t ld,
                     bool add) const {
    for (std::int64_t c = 0; c < features; c += panel_width)
      Way::macro_kernel(rows_, features - c < panel_width ? features - c : panel_width, k, tile_, key_block,
                        packed + c * padded_keys(a_), sums + c, ld, add);
  }

  const Attention<T>& a_;
  std::int64_t b_, h_;
  const BFloat16 *keys_, *queries_;
  BFloat16 *q_buffer_, *tile_;
  Bf16Pair* pairs_;
  const BFloat16* q_ = nullptr;
  std::int64_t q_row_ = 0, i0_ = 0, rows_ = 0, j0_ = 0;
};
#endif

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
