#pragma once
#include <cstdint>
#include <vector>

#include "fit/detail/function.hpp"
#include "fit/nn/data/data.hpp"
#include "fit/ops/ops.hpp"

/// Changes of examples while they are loaded, with the names of torchvision.transforms. Images are [..., C, H, W],
/// sequences of ids [..., T].
///
///     data::MapDataset augmented(images, data::compose({data::random_crop({32, 32}, 4),
///                                                       data::random_horizontal_flip(),
///                                                       data::normalize({0.5, 0.5, 0.5}, {0.2, 0.2, 0.2})}));
///     data::DataLoader loader(augmented, data::LoaderOptions().batch_size(64).shuffle().workers(4));
///
/// They draw from the default generator, so a DataLoader gives the same batches for any number of workers (Dataset).
/// Your own transform is any function from a tensor to a tensor.
namespace fit::data {

/// Makes a tensor of an example's field.
using Transform = std::function<Tensor(const Tensor&)>;

/// A dataset whose examples have one field transformed.
class MapDataset final : public Dataset {
 public:
  /// Throws Error if the transform is empty.
  MapDataset(SharedDataset dataset, Transform transform, std::size_t field = 0);
  std::int64_t size() const override { return dataset_->size(); }
  Example get(std::int64_t i) const override;

 private:
  SharedDataset dataset_;
  Transform transform_;
  std::size_t field_;
};

/// The transforms one after the other.
Transform compose(std::vector<Transform> transforms);
/// (x - mean) / std, one number for each of the C channels, or one number for all.
Transform normalize(std::vector<double> mean, std::vector<double> std);
/// Reverses the last axis with probability p.
Transform random_horizontal_flip(double p = 0.5);
/// Cuts out a random part of the given sizes along the last axes: {H, W} of an image, {T} of a sequence. Before, it
/// adds `padding` elements of `value` on each side of these axes. Throws Error if the result would be smaller.
Transform random_crop(std::vector<std::int64_t> sizes, std::int64_t padding = 0, Scalar value = 0);
/// Same, but the part in the middle.
Transform center_crop(std::vector<std::int64_t> sizes);
/// Adds elements before and after axes, as fit::pad() does.
Transform pad(std::vector<std::int64_t> widths, PadMode mode = PadMode::constant, Scalar value = 0);
/// Replaces each id by `token` (unknown or masked) with probability p.
Transform token_dropout(double p, std::int64_t token);

}  // namespace fit::data
