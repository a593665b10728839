#include "fit/nn/data/transforms.hpp"

#include <cmath>

#include "tensor/check.hpp"

namespace fit::data {
namespace {

void expect_probability(const char* op, double p) {
  if (!(p >= 0 && p <= 1)) check::fail(op, "p is ", p, ": it must be in 0 … 1");
}

void expect_sizes(const char* op, const std::vector<std::int64_t>& sizes) {
  if (sizes.empty()) check::fail(op, "no sizes are given: there must be one for each of the last axes");
  for (const std::int64_t n : sizes)
    if (n < 1) check::fail(op, "a size is ", n, ": it must be at least 1");
}

// The part of x of these sizes along the last axes; start(rest) is where it begins if `rest` elements are left out.
template <class Start>
Tensor cropped(const char* op, Tensor x, const std::vector<std::int64_t>& sizes, const Start& start) {
  check::defined(op, "x", x);
  const int axes = static_cast<int>(sizes.size());
  const Shape given = x.shape();
  for (int i = 0; i < axes; ++i) {
    const int axis = x.rank() - axes + i;
    const std::int64_t size = sizes[i], rest = axis < 0 ? -1 : x.shape()[axis] - size;
    if (rest < 0) check::fail(op, "x has shape ", given, ": its last axes must have at least the sizes ", Shape(sizes));
    const std::int64_t begin = start(rest);
    x = slice(x, axis, begin, begin + size);
  }
  return x;
}

}  // namespace

MapDataset::MapDataset(SharedDataset dataset, Transform transform, std::size_t field)
    : dataset_(std::move(dataset)), transform_(std::move(transform)), field_(field) {
  if (!transform_) check::fail("MapDataset", "the transform is empty: it must be a function");
}

Example MapDataset::get(std::int64_t i) const {
  Example e = dataset_->get(i);
  e[field_] = transform_(e[field_]);
  return e;
}

Transform compose(std::vector<Transform> transforms) {
  for (const Transform& t : transforms)
    if (!t) check::fail("compose", "a transform is empty: each must be a function");
  return [transforms = std::move(transforms)](const Tensor& x) {
    Tensor y = x;
    for (const Transform& t : transforms) y = t(y);
    return y;
  };
}

Transform normalize(std::vector<double> mean, std::vector<double> std) {
  constexpr const char* op = "normalize";
  if (mean.empty() || mean.size() != std.size())
    check::fail(op, mean.size(), " means and ", std.size(),
                " deviations are given: there must be one for each channel");
  for (const double s : std)
    if (!(s > 0 && std::isfinite(s))) check::fail(op, "a deviation is ", s, ": it must be positive and finite");
  return [mean = std::move(mean), std = std::move(std)](const Tensor& x) {
    check::floating(op, "x", x);
    const auto channels = static_cast<std::int64_t>(mean.size());
    if (channels > 1 && (x.rank() < 3 || x.shape()[-3] != channels))
      check::fail(op, "x has shape ", x.shape(), ": it must be [..., ", channels, ", H, W], as there are ", channels,
                  " means");
    const auto each = [&](const std::vector<double>& numbers) {
      return channels == 1 ? full({}, numbers[0], x.dtype()) : tensor(numbers, {channels, 1, 1}).to(x.dtype());
    };
    return (x - each(mean)) / each(std);
  };
}

Transform random_horizontal_flip(double p) {
  expect_probability("random_horizontal_flip", p);
  return [p](const Tensor& x) { return bernoulli(p, {}).item<bool>() ? flip(x, -1) : x; };
}

Transform random_crop(std::vector<std::int64_t> sizes, std::int64_t padding, Scalar value) {
  constexpr const char* op = "random_crop";
  expect_sizes(op, sizes);
  check::not_negative(op, "padding", padding);
  return [sizes = std::move(sizes), padding, value](const Tensor& x) {
    const std::vector<std::int64_t> widths(2 * sizes.size(), padding);
    const Tensor wide = padding > 0 ? fit::pad(x, widths, PadMode::constant, value) : x;
    return cropped(op, wide, sizes, [](std::int64_t rest) { return randint(0, rest + 1, {}).item<std::int64_t>(); });
  };
}

Transform center_crop(std::vector<std::int64_t> sizes) {
  expect_sizes("center_crop", sizes);
  return [sizes = std::move(sizes)](const Tensor& x) {
    return cropped("center_crop", x, sizes, [](std::int64_t rest) { return rest / 2; });
  };
}

Transform pad(std::vector<std::int64_t> widths, PadMode mode, Scalar value) {
  return [widths = std::move(widths), mode, value](const Tensor& x) { return fit::pad(x, widths, mode, value); };
}

Transform token_dropout(double p, std::int64_t token) {
  expect_probability("token_dropout", p);
  return [p, token](const Tensor& x) {
    check::dtype("token_dropout", "x", x, int64);
    return masked_fill(x, bernoulli(p, x.shape()), token);
  };
}

}  // namespace fit::data
