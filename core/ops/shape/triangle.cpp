// tril and triu.
#include <algorithm>
#include <cstring>
#include <utility>

#include "fit/ops/ops.hpp"
#include "fit/threads/parallel.hpp"
#include "tensor/check.hpp"

namespace fit {
namespace {

// Copies one side of a diagonal of the last two axes; the other side is 0.
Tensor triangle(const char* op, const Tensor& x, std::int64_t diagonal, bool lower) {
  check::defined(op, "x", x);
  if (x.rank() < 2) check::fail(op, "x has shape ", x.shape(), ": it must have two axes or more");
  const std::int64_t height = x.shape()[-2], width = x.shape()[-1], size = size_of(x.dtype());
  diagonal = std::clamp(diagonal, -height, width);
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  char* const to = y.fresh<char>();
  const char* const from = static_cast<const char*>(x.raw());
  const std::int64_t rows = x.numel() == 0 ? 0 : x.numel() / width;
  parallel_for(rows, std::max<std::int64_t>(1, (1 << 15) / std::max<std::int64_t>(1, width)),
               [&](std::int64_t row, std::int64_t end) {
                 for (; row < end; ++row) {
                   // tril keeps columns up to row + diagonal, triu keeps columns from there
                   const std::int64_t edge = row % height + diagonal + (lower ? 1 : 0);
                   const std::int64_t split = std::clamp(edge, std::int64_t{0}, width) * size, all = width * size;
                   char* const t = to + row * all;
                   const char* const f = from + row * all;
                   const auto kept = lower ? std::pair(std::int64_t{0}, split) : std::pair(split, all);
                   std::memset(t, 0, static_cast<std::size_t>(all));
                   std::memcpy(t + kept.first, f + kept.first, static_cast<std::size_t>(kept.second - kept.first));
                 }
               });
  return record(op, {x}, std::move(y), keep::nothing,
                [op, diagonal, lower](Backward& b) { b.give(0, triangle(op, b.dy(), diagonal, lower)); });
}

}  // namespace

Tensor tril(const Tensor& x, std::int64_t diagonal) { return triangle("tril", x, diagonal, true); }
Tensor triu(const Tensor& x, std::int64_t diagonal) { return triangle("triu", x, diagonal, false); }

}  // namespace fit
