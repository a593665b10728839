#include "ops/network/window_products.hpp"

#include <algorithm>
#include <optional>

#include "base/scratch.hpp"
#include "fit/matmul/reproducible.hpp"
#include "fit/threads/parallel.hpp"
#include "matmul/gemm_bf16.hpp"
#include "ops/linalg/flop_counter.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

using kernels::WindowBlock;

// One channel beside few outputs, as in a depthwise convolution: a matrix product gains nothing there.
bool is_depthwise(const WindowProducts& c) { return c.w.channels == 1 && c.outputs <= kernels::gemv_max_m; }

// Windows of one element, side by side: x is their matrix.
bool is_pointwise(const WindowProducts& c) {
  return !is_depthwise(c) && c.w.in_window() == 1 && c.w.stride_down == 1 && c.w.stride_right == 1 && c.above == 0 &&
         c.before == 0;
}

// One window, which is the image: x [n, depth] and y [n, outputs] are matrices, as in a linear layer.
bool is_whole(const WindowProducts& c) {
  return c.groups == 1 && c.w.places() == 1 && c.w.height == c.w.rows && c.w.width == c.w.cols && c.above == 0 &&
         c.before == 0;
}

// Images are the parts of x and y of one group: image i has group i % groups.
std::int64_t images(const WindowProducts& c) { return c.n * c.groups; }
std::int64_t x_plane(const WindowProducts& c) { return c.rows() * c.cols(); }
std::int64_t x_size(const WindowProducts& c) { return c.w.channels * x_plane(c); }
std::int64_t y_size(const WindowProducts& c) { return c.outputs * c.w.places(); }
std::int64_t weight_size(const WindowProducts& c) { return c.outputs * c.depth(); }

// Calls f(begin, end) for ranges of `count` tasks that share the work of the convolution.
template <class F>
void each_range(const WindowProducts& c, std::int64_t count, const F& f) {
  const double flops = 2.0 * static_cast<double>(images(c) * y_size(c)) * static_cast<double>(c.depth());
  const double each = flops / static_cast<double>(std::max<std::int64_t>(count, 1));
  parallel_for(count, 1 + static_cast<std::int64_t>(kernels::parallel_flops / (each + 1)), f);
}
// Calls f(i) for each of them.
template <class F>
void each_task(const WindowProducts& c, std::int64_t count, const F& f) {
  each_range(c, count, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) f(i);
  });
}

// Calls f(block) for all places, `most` at a time.
template <class F>
void each_block(const WindowProducts& c, WindowBlock block, std::int64_t most, const F& f) {
  for (block.place = 0; block.place < c.w.places(); block.place += most) {
    block.places = std::min(most, c.w.places() - block.place);
    f(block);
  }
}
constexpr std::int64_t places_together = 256;

// Channels of x whose windows make a matrix of about 128 rows.
struct ChannelBlocks {
  explicit ChannelBlocks(const WindowProducts& c)
      : channels(c.w.channels),
        count(parts_of(channels, std::max<std::int64_t>(128 / c.w.in_window(), 1))),
        together(parts_of(channels, count)) {}
  WindowBlock block(std::int64_t i) const { return {i * together, std::min(together, channels - i * together), 0, 0}; }
  static std::int64_t parts_of(std::int64_t n, std::int64_t part) { return (n + part - 1) / part; }
  std::int64_t channels, count, together;
};

template <class T>
kernels::GemmParams<T> product_of(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t lda, std::int64_t ldb,
                                  std::int64_t ldc) {
  auto p = kernels::contiguous<T>(m, n, k, false, false);
  p.lda = lda, p.ldb = ldb, p.ldc = ldc;
  return p;
}

// out = op(a) op(b) + beta out. Of a and b, one may be BFloat16.
template <class T, class A, class B>
void multiply(const kernels::GemmParams<T>& p, const A* a, const B* b, T* out) {
  if constexpr (std::is_same_v<A, B>) {
    kernels::gemm(p, a, b, out);
  } else {
    auto narrow = kernels::contiguous<BFloat16>(p.m, p.n, p.k, p.transpose_a, p.transpose_b);
    narrow.lda = p.lda, narrow.ldb = p.ldb, narrow.ldc = p.ldc, narrow.beta = p.beta;
    kernels::gemm(narrow, a, b, out);
  }
}

// Whether windows are read from a copy of the image, for the zeros around it, or because gather() reads beyond it.
bool copies_image(const WindowProducts& c) {
  return c.above > 0 || c.before > 0 || (c.w.stride_right == 1 && !is_depthwise(c) && !is_pointwise(c));
}

/// Some channels of one image with zeros around them.
template <class T>
class PaddedImage {
 public:
  PaddedImage(const WindowProducts& c, const WindowBlock& channels, bool copies = true)
      : c_(c), channels_(copies ? channels.channels : 0), memory_(channels_ * c.w.plane() + kernels::panel_width) {}
  T* get() const { return memory_.get(); }

  void clear() const { std::fill_n(get(), channels_ * c_.w.plane(), T(0)); }
  /// Returns x itself if it needs no copy.
  const T* read(const T* x) const {
    if (!copies_image(c_)) return x;
    clear();
    each_row([&](T* own, std::int64_t row) { std::copy_n(x + row * c_.cols(), c_.cols(), own); });
    return get();
  }
  void write(T* x) const {
    each_row([&](const T* own, std::int64_t row) { std::copy_n(own, c_.cols(), x + row * c_.cols()); });
  }

 private:
  template <class F>
  void each_row(const F& f) const {
    for (std::int64_t row = 0; row < channels_ * c_.rows(); ++row) {
      const std::int64_t own = row / c_.rows() * c_.w.rows + row % c_.rows() + c_.above;
      f(get() + own * c_.w.cols + c_.before, row);
    }
  }

  const WindowProducts& c_;
  std::int64_t channels_;
  kernels::Scratch<T> memory_;
};

// The matrix of windows of a block: [channels height width, places].
template <class T>
kernels::Scratch<T> window_memory(std::int64_t rows, std::int64_t places) {
  return kernels::Scratch<T>(rows * places + kernels::WindowLayout::slack);
}

// ---- forward ------------------------------------------------------------------------------------------------------

// Windows of stride 1 can be read where they lie, from the rows of the image with its zeros. Such a row has `right`
// places; what is computed between two rows, and up to a whole line of the micro-kernel, is in vain. A block has whole
// rows, or a part of the only row.
template <class T>
struct RowBlocks {
  explicit RowBlocks(const WindowProducts& c) : c(c), line(FIT_KERNELS(kernels::gemm_table, T).slice_width) {
    // Columns that stay in the caches; few images are cut into more blocks, for several threads.
    const std::int64_t most = images(c) < 4 ? 128 : 512;
    const std::int64_t right = c.w.right, all = c.w.places(), first = c.w.down == 1 ? std::min(right, most) : right;
    std::int64_t least = 2 * all;
    for (std::int64_t n = first; n <= all && width(n) <= most; n += right) {
      const std::int64_t rest = all % n, columns = all / n * width(n) + (rest ? width(rest) : 0);
      if (columns <= least) least = columns, places = n;
    }
    // Sums of few products take no longer than copying them to their places.
    gains = c.w.stride_right == 1 && c.w.stride_down == 1 && c.depth() >= 64 && 3 * least <= 4 * all;
  }
  std::int64_t rows(std::int64_t n) const { return std::max<std::int64_t>(n / c.w.right, 1); }
  // The columns of n places.
  std::int64_t width(std::int64_t n) const {
    const std::int64_t columns = (rows(n) - 1) * c.w.cols + std::min(n, c.w.right);
    return (columns + line - 1) / line * line;
  }

  const WindowProducts& c;
  std::int64_t line, places = 1;  // of a block
  bool gains;
};

/// The products of windows where they lie.
template <class T>
class RowProducts {
 public:
  RowProducts(const RowBlocks<T>& blocks, std::int64_t outputs)
      : blocks_(blocks), begins_(blocks.c.depth()), sums_(outputs * blocks.width(blocks.places)) {
    const kernels::WindowLayout& w = blocks.c.w;
    std::int64_t* at = begins_.get();
    for (std::int64_t channel = 0; channel < w.channels; ++channel)
      for (std::int64_t k = 0; k < w.height; ++k)
        for (std::int64_t l = 0; l < w.width; ++l) *at++ = channel * w.plane() + w.at(0, 0, k, l);
  }
  // y = bias + weight windows; bias may be null.
  void multiply(const WindowBlock& b, std::int64_t outputs, const T* image, const T* weight, const T* bias,
                T* y) const {
    const WindowProducts& c = blocks_.c;
    const std::int64_t n = blocks_.width(b.places), depth = c.depth(), right = c.w.right;
    for (std::int64_t o = 0; o < outputs; ++o)
      kernels::windows<T>().fill(sums_.get() + o * n, n, bias ? bias[o] : T(0));
    const T* const from = image + b.place / right * c.w.cols + b.place % right;
    FIT_KERNELS(kernels::gemm_table, T)
        .gemm_rows(product_of<T>(outputs, n, depth, depth, 0, n), weight, from, begins_.get(), sums_.get());
    for (std::int64_t o = 0; o < outputs; ++o)
      for (std::int64_t row = 0; row < blocks_.rows(b.places); ++row)
        std::copy_n(sums_.get() + o * n + row * c.w.cols, std::min(b.places, right),
                    y + o * c.w.places() + b.place + row * right);
  }

 private:
  const RowBlocks<T>& blocks_;
  kernels::Scratch<std::int64_t> begins_;
  kernels::Scratch<T> sums_;
};

// Some places and outputs of one image: y += weight windows.
template <class T, class W>
void multiply_block(const WindowProducts& c, const WindowBlock& b, std::int64_t outputs, const T* image,
                    const W* weight, const T* windows, T* y) {
  const std::int64_t depth = c.depth(), places = c.w.places();
  if constexpr (std::is_same_v<T, W>)
    if (is_depthwise(c)) {
      for (std::int64_t o = 0; o < outputs; ++o)
        kernels::windows<T>().multiply(c.w, b, image, weight + o * depth, y + o * places + b.place);
      return;
    }
  auto p = product_of<T>(outputs, b.places, depth, depth, b.places, places);
  p.beta = 1;
  if (is_pointwise(c)) {
    p.ldb = places;
    return multiply(p, weight, image + b.place, y + b.place);
  }
  if constexpr (std::is_same_v<T, W>)
    FIT_KERNELS(kernels::gemm_table, T).gemm_unpacked(p, weight, windows, y + b.place, nullptr);
  else
    multiply(p, weight, windows, y + b.place);
}

// The places of a block of windows that are copied: about 2^14 elements, and whole lines of the micro-kernel. More
// where they are packed.
std::int64_t gathered_places(const WindowProducts& c, bool packed) {
  constexpr std::int64_t line = kernels::panel_width;
  return std::clamp((std::int64_t{1} << (packed ? 17 : 14)) / c.depth() / line * line, line, 8 * line);
}

template <class T, class W>
void forward(const WindowProducts& c, const T* x, const W* weight, const T* bias, T* y) {
  if constexpr (std::is_same_v<T, W>)
    if (is_whole(c))
      return kernels::gemm_parallel(kernels::contiguous<T>(c.n, c.outputs, c.depth(), false, true), x, weight, y, bias);
  const std::int64_t depth = c.depth(), places = c.w.places();
  const RowBlocks<T> rows(c);
  const bool gathers = !is_depthwise(c) && !is_pointwise(c), reads_rows = std::is_same_v<T, W> && gathers && rows.gains;
  const std::int64_t most = reads_rows        ? rows.places
                            : is_depthwise(c) ? places
                                              : gathered_places(c, !std::is_same_v<T, W>);
  const std::int64_t blocks = (places + most - 1) / most, all = std::max<std::int64_t>(images(c) * blocks, 1);
  // Few blocks are divided by their outputs, for many threads.
  const std::int64_t parts = std::clamp<std::int64_t>(16 / all, 1, std::max<std::int64_t>(c.outputs / 64, 1));
  each_range(c, images(c) * blocks * parts, [&](std::int64_t begin, std::int64_t end) {
    const PaddedImage<T> padded(c, {0, c.w.channels, 0, 0}, copies_image(c));
    std::optional<RowProducts<T>> in_rows;
    if (reads_rows) in_rows.emplace(rows, c.outputs);
    const auto windows = window_memory<T>(gathers && !reads_rows ? depth : 0, most);
    const T* image = nullptr;
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t part = task % parts, block = task / parts, i = block / blocks, g = i % c.groups;
      const std::int64_t place = block % blocks * most, first = c.outputs * part / parts;
      const std::int64_t outputs = c.outputs * (part + 1) / parts - first;
      const WindowBlock b{0, c.w.channels, place, std::min(most, places - place)};
      T* const to = y + i * y_size(c) + first * places;
      const W* const w = weight + g * weight_size(c) + first * depth;
      const T* const own_bias = bias ? bias + g * c.outputs + first : nullptr;
      if (task == begin || (place == 0 && part == 0)) image = padded.read(x + i * x_size(c));
      if constexpr (std::is_same_v<T, W>)
        if (reads_rows) {
          in_rows->multiply(b, outputs, image, w, own_bias, to);
          continue;
        }
      if (gathers && (task == begin || part == 0)) kernels::windows<T>().gather(c.w, b, image, windows.get());
      for (std::int64_t o = 0; o < outputs; ++o)
        kernels::windows<T>().fill(to + o * places + place, b.places, own_bias ? own_bias[o] : T(0));
      multiply_block(c, b, outputs, image, w, windows.get(), to);
    }
  });
}

// ---- gradients ----------------------------------------------------------------------------------------------------

// Windows of stride 1 slide over dy, too, to give dx: the outputs are its channels then, and the weight is turned. Many
// outputs beside few channels would make many windows of it, and a weight that meets few places is not worth turning.
bool slides_over_dy(const WindowProducts& c) {
  if (is_pointwise(c)) return true;
  return (reproducible() || c.n * c.w.places() >= 256) && c.outputs <= 2 * c.w.channels && c.w.stride_down == 1 &&
         c.w.stride_right == 1 && c.above <= c.w.dilation_down * (c.w.height - 1) &&
         c.before <= c.w.dilation_right * (c.w.width - 1);
}
WindowProducts over_dy(const WindowProducts& c) {
  WindowProducts d = c;
  d.above = c.w.dilation_down * (c.w.height - 1) - c.above;
  d.before = c.w.dilation_right * (c.w.width - 1) - c.before;
  d.w.channels = c.outputs, d.outputs = c.w.channels;
  d.w.rows = c.w.down + 2 * d.above, d.w.cols = c.w.right + 2 * d.before;
  d.w.down = c.rows(), d.w.right = c.cols();
  return d;
}
// [groups outputs, channels, height, width] as [groups channels, outputs, height, width], from the last element of a
// window to the first.
template <class W>
void turn(const WindowProducts& c, const W* weight, W* out) {
  for (std::int64_t g = 0; g < c.groups; ++g, weight += weight_size(c))
    for (std::int64_t channel = 0; channel < c.w.channels; ++channel)
      for (std::int64_t o = 0; o < c.outputs; ++o, out += c.w.in_window()) {
        const W* const window = weight + (o * c.w.channels + channel) * c.w.in_window();
        std::reverse_copy(window, window + c.w.in_window(), out);
      }
}

template <class T, class W>
void backward_x(const WindowProducts& c, const T* dy, const W* weight, T* dx) {
  if constexpr (std::is_same_v<T, W>)
    if (is_whole(c))
      return kernels::gemm_parallel(kernels::contiguous<T>(c.n, c.depth(), c.outputs, false, false), dy, weight, dx);
  if (slides_over_dy(c)) {
    const kernels::Scratch<W> turned(c.groups * weight_size(c));
    turn(c, weight, turned.get());
    return forward<T, W>(over_dy(c), dy, turned.get(), nullptr, dx);
  }
  const ChannelBlocks channels(c);
  const std::int64_t depth = c.depth(), places = c.w.places(), lines = c.w.in_window();
  each_task(c, images(c) * channels.count, [&](std::int64_t task) {
    const std::int64_t i = task / channels.count, g = i % c.groups;
    WindowBlock all = channels.block(task % channels.count);
    const T* const from = dy + i * y_size(c);
    const W* const w = weight + g * weight_size(c) + all.channel * lines;
    T* const to = dx + i * x_size(c) + all.channel * x_plane(c);
    const std::int64_t rows = all.channels * lines;
    const PaddedImage<T> image(c, all);
    const auto windows = window_memory<T>(rows, places_together);
    image.clear();
    all.channel = 0;
    each_block(c, all, places_together, [&](const WindowBlock& b) {
      auto p = product_of<T>(rows, b.places, c.outputs, depth, places, b.places);
      p.transpose_a = true;
      multiply(p, w, from + b.place, windows.get());
      kernels::windows<T>().scatter(c.w, b, windows.get(), image.get());
    });
    image.write(to);
  });
}

template <class T>
void depthwise_weight(const WindowProducts& c, const T* x, const T* dy, T* dweight) {
  each_task(c, c.groups, [&](std::int64_t g) {
    const std::int64_t size = weight_size(c);
    const WindowBlock all{0, 1, 0, c.w.places()};
    const PaddedImage<T> padded(c, all, copies_image(c));
    const kernels::Scratch<double> totals(size);
    std::fill_n(totals.get(), size, 0.0);
    for (std::int64_t i = g; i < images(c); i += c.groups) {
      const T* const image = padded.read(x + i * x_size(c));
      for (std::int64_t o = 0; o < c.outputs; ++o)
        kernels::windows<T>().products(c.w, all, image, dy + i * y_size(c) + o * c.w.places(),
                                       totals.get() + o * c.depth());
    }
    std::transform(totals.get(), totals.get() + size, dweight + g * size,
                   [](double total) { return static_cast<T>(total); });
  });
}

// The transpose [depth, outputs] of each group, because the windows are the taller matrix. Of few groups and channels,
// the images are divided into parts, whose sums are added.
template <class T, class Y>
void backward_weight(const WindowProducts& c, const T* x, const Y* dy, T* dweight) {
  if constexpr (std::is_same_v<T, Y>) {
    if (is_whole(c))
      return kernels::gemm_parallel(kernels::contiguous<T>(c.outputs, c.depth(), c.n, true, false), dy, x, dweight);
    if (is_depthwise(c)) return depthwise_weight(c, x, dy, dweight);
  }
  const ChannelBlocks channels(c);
  const std::int64_t depth = c.depth(), places = c.w.places(), lines = c.w.in_window();
  const std::int64_t pieces = c.groups * channels.count, size = c.groups * weight_size(c);
  const std::int64_t parts = std::clamp<std::int64_t>(16 / pieces, 1, std::max<std::int64_t>(c.n, 1));
  const kernels::Scratch<T> sums(parts * size);
  std::fill_n(sums.get(), parts * size, T(0));
  each_task(c, pieces * parts, [&](std::int64_t task) {
    const std::int64_t part = task / pieces, g = task % pieces / channels.count;
    WindowBlock all = channels.block(task % channels.count);
    const std::int64_t rows = all.channels * lines, first = all.channel;
    T* const to = sums.get() + part * size + g * weight_size(c) + first * lines * c.outputs;
    const bool gathers = !is_pointwise(c);
    const PaddedImage<T> padded(c, all, copies_image(c));
    const auto gathered = window_memory<T>(gathers ? rows : 0, places_together);
    all.channel = 0;
    for (std::int64_t image = c.n * part / parts; image < c.n * (part + 1) / parts; ++image) {
      const std::int64_t i = image * c.groups + g;
      const T* const read = padded.read(x + i * x_size(c) + first * x_plane(c));
      each_block(c, all, places_together, [&](const WindowBlock& b) {
        if (gathers) kernels::windows<T>().gather(c.w, b, read, gathered.get());
        auto p = product_of<T>(rows, c.outputs, b.places, gathers ? b.places : places, places, c.outputs);
        p.transpose_b = true;
        p.beta = 1;
        multiply(p, gathers ? gathered.get() : read + b.place, dy + i * y_size(c) + b.place, to);
      });
    }
  });
  const auto transpose = FIT_KERNELS(kernels::gemm_table, T).transpose;
  parallel_for(c.groups * depth, 1 + (1 << 14) / c.outputs, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = 1; part < parts; ++part)
      for (std::int64_t i = begin * c.outputs; i < end * c.outputs; ++i) sums.get()[i] += sums.get()[part * size + i];
    for (std::int64_t rows; begin < end; begin += rows) {  // of one group at a time
      const std::int64_t g = begin / depth, row = begin % depth;
      rows = std::min(end - begin, depth - row);
      transpose(rows, c.outputs, sums.get() + begin * c.outputs, c.outputs, dweight + g * weight_size(c) + row, depth);
    }
  });
}

// The result of a convolution, or a gradient of it: each has the same number of operations. Calls f(result, numbers of
// `wide`, which has its type, numbers of `factor`).
template <class F>
Tensor filled(const WindowProducts& c, const Shape& shape, const Tensor& wide, const Tensor& factor, const F& f) {
  detail::count_product(c.outputs, c.w.places(), c.depth(), images(c));
  Tensor y = Tensor::empty(shape, wide.dtype());
  if (y.numel() > 0)
    dispatch_compute_floating(wide.dtype(), [&](auto zero) {
      using T = decltype(zero);
      T* const to = y.fresh<T>();
      const T* const from = wide.data<T>().data();
      if constexpr (std::is_same_v<T, float>)
        if (factor.dtype() == bfloat16) return f(to, from, factor.data<BFloat16>().data());
      f(to, from, factor.data<T>().data());
    });
  return y;
}

}  // namespace

// Instructions for bfloat16 multiply 32 elements of a window together, and gain nothing for small windows. Neither x
// nor dy may have one channel: see is_depthwise().
DType factor_dtype(const WindowProducts& c) {
  const bool gains = c.depth() >= 64 && c.w.channels > 1 && c.outputs > 1 && !is_whole(c);
  return gains && kernels::multiplies_bf16() ? bfloat16 : float32;
}

Tensor window_products(const WindowProducts& c, const Shape& shape, const Tensor& x, const Tensor& weight,
                       const Tensor& bias) {
  return filled(c, shape, x, weight, [&](auto* y, const auto* x, const auto* weight) {
    using T = std::remove_pointer_t<decltype(y)>;
    forward(c, x, weight, bias.defined() ? bias.data<T>().data() : nullptr, y);
  });
}

Tensor window_products_dx(const WindowProducts& c, const Shape& shape, const Tensor& dy, const Tensor& weight) {
  return filled(c, shape, dy, weight,
                [&](auto* dx, const auto* dy, const auto* weight) { backward_x(c, dy, weight, dx); });
}

Tensor window_products_dweight(const WindowProducts& c, const Shape& shape, const Tensor& x, const Tensor& dy) {
  return filled(c, shape, x, dy,
                [&](auto* dweight, const auto* x, const auto* dy) { backward_weight(c, x, dy, dweight); });
}

}  // namespace fit
