#pragma once
#include <algorithm>

#include "base/scratch.hpp"
#include "matmul/gemm.hpp"
#include "matmul/gemm_kernels_bf16.hpp"

// Divides a matmul among threads, for the processor's instructions for BFloat16. Each task packs its part of one
// operand.
namespace fit::kernels {

// LCOV_EXCL_START(avx512_bf16): other processors widen to float.
// A part of a packed operand: `count` rows of op(a) or columns of op(b) from `first`, with elements k0 … k0 + k - 1.
struct Bf16Part {
  std::int64_t first, count, k0, k;
};

// The rows of op(a). They are packed unless the memory layout is already right.
template <class A>
class Bf16PackedA {
 public:
  static constexpr bool panels_of_b = false;
  template <class P>
  Bf16PackedA(const GemmParams<P>& p, const A* a)
      : size(p.m),
        a_(a),
        ld_(p.lda),
        transposed_(p.transpose_a),
        lie_(std::is_same_v<A, BFloat16> && !transposed_ && p.k == bf16_filled(p.k)) {}

  std::int64_t packed_size(std::int64_t rows, std::int64_t k) const { return lie_ ? 0 : rows * step(k); }
  void pack(const Bf16Part& part, BFloat16* out) const {
    if (!lie_)
      bf16_kernels().operand<A>().pack_a(transposed_, part.count, part.k, at(part.first, part.k0), ld_, out,
                                         step(part.k));
  }
  // Points a block to its elements, from k0 on, in `packed`, which begins at part.k0.
  void use(const Bf16Part& part, const BFloat16* packed, std::int64_t k0, Bf16Block& block) const {
    block.a = lie_ ? reinterpret_cast<const BFloat16*>(at(part.first, k0)) : packed + (k0 - part.k0);
    block.lda = lie_ ? ld_ : step(part.k);
  }

  std::int64_t size;

 private:
  // Avoids row strides of a multiple of 4096 bytes: such rows would evict each other from the cache.
  static std::int64_t step(std::int64_t k) {
    const std::int64_t filled = bf16_filled(k);
    return filled % 2048 == 0 ? filled + bf16_step : filled;
  }
  const A* at(std::int64_t row, std::int64_t k) const { return a_ + (transposed_ ? k * ld_ + row : row * ld_ + k); }

  const A* a_;
  std::int64_t ld_;
  bool transposed_, lie_;
};

// The columns of op(b) in panels. kept: all of them, if they are packed already, or null.
template <class B>
class Bf16PackedB {
 public:
  static constexpr bool panels_of_b = true;
  template <class P>
  Bf16PackedB(const GemmParams<P>& p, const B* b, const BFloat16* kept)
      : size(p.n), b_(b), kept_(kept), kept_step_(step(p.k)), ld_(p.ldb), transposed_(p.transpose_b) {}

  std::int64_t packed_size(std::int64_t cols, std::int64_t k) const { return kept_ ? 0 : panels(cols) * step(k); }
  void pack(const Bf16Part& part, BFloat16* out) const {
    if (kept_) return;
    for (std::int64_t j = 0; j < part.count; j += panel_width) {
      const std::int64_t col = part.first + j;
      const B* const from = b_ + (transposed_ ? col * ld_ + part.k0 : part.k0 * ld_ + col);
      bf16_kernels().operand<B>().pack_b(transposed_, std::min(panel_width, part.count - j), part.k, from, ld_,
                                         out + j / panel_width * step(part.k));
    }
  }
  void use(const Bf16Part& part, const BFloat16* packed, std::int64_t k0, Bf16Block& block) const {
    block.panels = kept_ ? kept_ + part.first / panel_width * kept_step_ + k0 * panel_width
                         : packed + (k0 - part.k0) * panel_width;
    block.panel_step = kept_ ? kept_step_ : step(part.k);
  }

  std::int64_t size;

 private:
  static std::int64_t step(std::int64_t k) { return panel_width * bf16_filled(k); }

  const B* b_;
  const BFloat16* kept_;
  std::int64_t kept_step_, ld_;
  bool transposed_;
};

// Distributes over threads, or runs on this thread.
enum class Bf16Loop { here, threads };
template <class Body>
void bf16_loop(Bf16Loop loop, std::int64_t n, std::int64_t grain, const Body& body) {
  loop == Bf16Loop::threads ? parallel_for(n, grain, dynamic_schedule, body) : body(std::int64_t{0}, n);
}

// Packs all rows or columns of an operand.
template <class Operand>
void pack_bf16(const Operand& x, Bf16Loop loop, std::int64_t k, BFloat16* out) {
  if (x.packed_size(x.size, k) == 0) return;
  bf16_loop(loop, panels(x.size), (1 << 13) / (panel_width * k) + 1, [&](std::int64_t i, std::int64_t end) {
    const std::int64_t first = i * panel_width, last = std::min(end * panel_width, x.size);
    x.pack({first, last - first, 0, k}, out + x.packed_size(first, k));
  });
}

// Calls multiply(block, first) for the parts of a product. The smaller operand is shared: it is packed once for all
// tasks. The other operand is split: each task packs its own part, which then is in the task's cache.
template <class P, class Cut, class Shared>
void gemm_bf16_tasks(const GemmParams<P>& p, Bf16Loop loop, const Cut& cut, const Shared& shared,
                     FunctionRef<void(Bf16Block& block, std::int64_t first, std::int64_t count)> multiply) {
  const Bf16Part all{0, shared.size, 0, p.k};
  const Scratch<BFloat16> packed(shared.packed_size(shared.size, p.k));
  pack_bf16(shared, loop, p.k, packed.get());
  // A task takes at least about five microseconds. More than 256 rows or columns would not reuse the shared operand
  // more.
  const auto wanted = static_cast<std::int64_t>(std::clamp(p.flops() / (5 * parallel_flops), 1.0, 16.0));
  const std::int64_t width = std::max<std::int64_t>((cut.size + wanted * panel_width / 2) / (wanted * panel_width), 1);
  const std::int64_t step = std::min<std::int64_t>(width * panel_width, 256);
  const std::int64_t count = std::min(step, cut.size), kc = std::min(p.k, bf16_kc);
  bf16_loop(loop, (cut.size + step - 1) / step, 1, [&](std::int64_t task, std::int64_t end) {
    const Scratch<BFloat16> own(cut.packed_size(count, kc));
    const Scratch<float> sums(p.k > kc ? panels(count) * panel_width * panels(shared.size) * panel_width : 0);
    const bool packs_panels = Cut::panels_of_b && cut.packed_size(count, kc) > 0;
    // Points a block to its operands.
    const auto use = [&](std::int64_t first, std::int64_t k0, Bf16Block& block) {
      const Bf16Part part{first, std::min(step, cut.size - first), k0, std::min(kc, p.k - k0)};
      cut.use(part, own.get(), k0, block);
      shared.use(all, packed.get(), k0, block);
      return part;
    };
    for (; task < end; ++task)
      for (std::int64_t k0 = 0; k0 < p.k; k0 += kc) {
        Bf16Block block, next;
        const Bf16Part part = use(task * step, k0, block);
        cut.pack(part, own.get());
        const std::int64_t next_k0 = k0 + kc < p.k ? k0 + kc : 0, next_first = (task + (next_k0 == 0)) * step;
        use(next_first < cut.size ? next_first : part.first, next_k0, next);
        if (!packs_panels) block.next = next.panels;
        block.k = bf16_filled(part.k);
        block.sums = p.k > kc ? sums.get() : nullptr;
        block.first = k0 == 0;
        block.last = k0 + kc >= p.k;
        multiply(block, part.first, part.count);
      }
  });
}

// Calls multiply(block, row, col) for the parts of a product of packed operands. row and col: where the block of c
// begins.
template <class P, class Rows, class Cols>
void gemm_bf16_parts(const GemmParams<P>& p, Bf16Loop loop, const Rows& rows, const Cols& cols,
                     FunctionRef<void(Bf16Block& block, std::int64_t row, std::int64_t col)> multiply) {
  const auto part = [&](Bf16Block& block, std::int64_t row, std::int64_t m, std::int64_t col, std::int64_t n) {
    block.m = m;
    block.n = n;
    block.alpha = p.alpha;
    block.beta = p.beta;
    block.ldc = p.ldc;
    multiply(block, row, col);
  };
  if (p.m >= p.n)
    gemm_bf16_tasks(p, loop, rows, cols, [&](Bf16Block& block, std::int64_t row, std::int64_t count) {
      part(block, row, count, std::int64_t{0}, p.n);
    });
  else
    gemm_bf16_tasks(p, loop, cols, rows, [&](Bf16Block& block, std::int64_t col, std::int64_t count) {
      part(block, std::int64_t{0}, p.m, col, count);
    });
}

// LCOV_EXCL_STOP

}  // namespace fit::kernels
