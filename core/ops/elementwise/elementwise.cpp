// The loops of elementwise operations over broadcast operands. Compiled once for all operations and types.
#include "ops/elementwise/elementwise.hpp"

#include "kernels/copy.hpp"
#include "ops/elementwise/broadcast.hpp"

namespace fit {
namespace {

constexpr std::int64_t short_row = 64;  // elements: shorter rows are not worth a call

const char* advanced(const void* x, std::int64_t bytes) { return static_cast<const char*>(x) + bytes; }
char* advanced(void* x, std::int64_t bytes) { return static_cast<char*>(x) + bytes; }

// Copies short rows of an operand into one contiguous buffer: rows of `size` elements, `step` (0 or 1) apart. The rows
// begin `stride` apart.
class JoinedRows {
 public:
  static constexpr std::int64_t capacity = 16 * short_row;  // elements at a time

  JoinedRows(const Broadcast<2>& walk, int k, std::int64_t bytes)
      : size_(walk.inner()),
        step_(static_cast<int>(walk.inner_stride(k))),
        stride_(walk.stride[walk.rank - 2][k]),
        bytes_(bytes) {}

  const void* operator()(const void* x, std::int64_t count) {
    if (step_ == 1 && stride_ == size_) return x;
    if (stride_ == 0 && x == last_ && count <= count_) return rows_;
    kernels::with_word(bytes_, [&](auto word) {
      using T = decltype(word);
      const auto* const from = static_cast<const T*>(x);
      auto* const to = reinterpret_cast<T*>(rows_);
      for (std::int64_t r = 0; r < count; ++r) copy_run(to + r * size_, from + r * stride_, size_, step_);
    });
    last_ = x;
    count_ = count;
    return rows_;
  }

 private:
  const std::int64_t size_;
  const int step_;
  const std::int64_t stride_, bytes_;
  const void* last_ = nullptr;
  std::int64_t count_ = 0;
  alignas(64) char rows_[capacity * 8];
};

}  // namespace

template <int K>
void each_run(const Shape& out, const Shape* const (&operands)[K],
              FunctionRef<void(std::int64_t, const std::int64_t*, const int*, std::int64_t)> body, std::int64_t grain) {
  const std::int64_t count = out.numel();
  if (count == 0) return;
  const Broadcast<K> plan(out, operands);
  const std::int64_t inner = plan.inner();
  int stride[K];
  for (int k = 0; k < K; ++k) stride[k] = static_cast<int>(plan.inner_stride(k));
  parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    plan.each_row(begin / inner, (end + inner - 1) / inner, [&](std::int64_t row, const std::int64_t* row_at) {
      const std::int64_t first = std::max(begin, row * inner), last = std::min(end, (row + 1) * inner);
      std::int64_t at[K];
      for (int k = 0; k < K; ++k) at[k] = row_at[k] + stride[k] * (first - row * inner);
      body(first, at, stride, last - first);
    });
  });
}
template void each_run<2>(const Shape&, const Shape* const (&)[2],
                          FunctionRef<void(std::int64_t, const std::int64_t*, const int*, std::int64_t)>, std::int64_t);
template void each_run<3>(const Shape&, const Shape* const (&)[3],
                          FunctionRef<void(std::int64_t, const std::int64_t*, const int*, std::int64_t)>, std::int64_t);

void run_binary_raw(Tensor& z, const Tensor& a, const Tensor& b,
                    FunctionRef<void(void*, const void*, const void*, std::int64_t, int, int)> f, std::int64_t grain) {
  const std::int64_t bz = size_of(z.dtype()), bx = size_of(a.dtype()), by = size_of(b.dtype());
  void* const pz = z.fresh<char>();
  const void *const px = a.raw(), *const py = b.raw();
  if (a.shape() == b.shape()) {
    parallel_for(z.numel(), grain, [&](std::int64_t i, std::int64_t end) {
      f(advanced(pz, i * bz), advanced(px, i * bx), advanced(py, i * by), end - i, 1, 1);
    });
    return;
  }
  if (z.numel() > JoinedRows::capacity) {
    const Broadcast<2> walk(z.shape(), {&a.shape(), &b.shape()});
    const std::int64_t size = walk.inner();
    if (walk.rank > 1 && size < short_row) {
      const std::int64_t axis = walk.size[walk.rank - 2];
      parallel_for(walk.rows(), grain / size + 1, [&](std::int64_t row, std::int64_t end) {
        JoinedRows rows_of_x(walk, 0, bx), rows_of_y(walk, 1, by);
        while (row < end) {
          std::int64_t index[Shape::max_rank], at[2];
          walk.locate(row, index, at);
          const std::int64_t n = std::min({end - row, axis - index[walk.rank - 2], JoinedRows::capacity / size});
          f(advanced(pz, row * size * bz), rows_of_x(advanced(px, at[0] * bx), n),
            rows_of_y(advanced(py, at[1] * by), n), n * size, 1, 1);
          row += n;
        }
      });
      return;
    }
  }
  each_run<2>(
      z.shape(), {&a.shape(), &b.shape()},
      [&](std::int64_t i, const std::int64_t* at, const int* stride, std::int64_t n) {
        f(advanced(pz, i * bz), advanced(px, at[0] * bx), advanced(py, at[1] * by), n, stride[0], stride[1]);
      },
      grain);
}

}  // namespace fit
