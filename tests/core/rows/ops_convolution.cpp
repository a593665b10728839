#include "support/tables/op_table.hpp"

// Convolutions, pools and norms of channels.
namespace fit::test {

static std::vector<OpRow> windows() {
  const auto o = ConvOptions().stride(2).padding(1).dilation(2).groups(2);
  const auto uneven = ConvOptions().stride({2, 1}).padding({0, 2}).dilation({1, 2});
  const auto wide = PoolOptions().stride({1, 2}).padding({1, 0}).dilation({2, 1});
  const auto p = PoolOptions().stride(1).padding(1);
  const auto conv1 = [](const ConvOptions& options) {
    return [options](const auto& in) { return conv1d(in[0], in[1], in.size() > 2 ? in[2] : Tensor(), options); };
  };
  const auto conv2 = [](const ConvOptions& options) {
    return [options](const auto& in) { return conv2d(in[0], in[1], in.size() > 2 ? in[2] : Tensor(), options); };
  };
  const auto transposed1 = [](const ConvOptions& options) {
    return
        [options](const auto& in) { return conv_transpose1d(in[0], in[1], in.size() > 2 ? in[2] : Tensor(), options); };
  };
  const auto transposed2 = [](const ConvOptions& options) {
    return
        [options](const auto& in) { return conv_transpose2d(in[0], in[1], in.size() > 2 ? in[2] : Tensor(), options); };
  };
  const auto line = InterpolateOptions().mode(Interpolation::linear);
  const auto spread = ConvOptions().stride(2).padding(1).output_padding(1).dilation(2).groups(2);
  return {
      OpRow("conv1d", conv1({}))
          .on({{2, 2, 5}, {3, 2, 3}, {3}})
          .on({{1, 1, 2}, {1, 1, 2}, {1}})
          .optional(2)
          .bad("the window is wider than axis 2",
               [] {
                 conv1d(zeros({1, 1, 2}), zeros({1, 1, 3}));
               })
          .bad("they must be x [N, C, L]",
               [] {
                 conv1d(zeros({1, 2, 3}), zeros({1, 1, 3}));
               })
          .bad("stride is (1, 2): the windows slide along one axis",
               [] {
                 conv1d(zeros({1, 1, 3}), zeros({1, 1, 3}), {}, ConvOptions().stride({1, 2}));
               })
          .bad("bias has shape [2]: it must be [1]",
               [] {
                 conv1d(zeros({1, 1, 3}), zeros({1, 1, 3}), zeros({2}));
               }),
      OpRow("conv1d", "strided, padded, dilated, in groups", conv1(o)).on({{2, 4, 5}, {2, 2, 3}}),
      OpRow("conv2d", conv2({}))
          .on({{1, 2, 4, 3}, {2, 2, 2, 3}, {2}})
          .large({{2, 3, 20, 20}, {4, 3, 5, 5}})
          .optional(2)
          .bad("padding can't be negative",
               [] {
                 const auto bad = ConvOptions().padding(-1);
                 conv2d(zeros({1, 1, 3, 3}), zeros({1, 1, 2, 2}), {}, bad);
               })
          .bad("output_padding is 1: only transposed convolutions have it",
               [] {
                 conv2d(zeros({1, 1, 3, 3}), zeros({1, 1, 2, 2}), {}, ConvOptions().output_padding(1));
               })
          .bad("the window is wider than axis 3",
               [] {
                 conv2d(zeros({1, 1, 3, 3}), zeros({1, 1, 2, 4}));
               }),
      OpRow("conv2d", "strided, padded, dilated, in groups", conv2(o)).on({{1, 2, 4, 5}, {2, 1, 2, 3}}),
      OpRow("conv2d", "unequal along its axes", conv2(uneven)).on({{1, 2, 5, 7}, {2, 2, 2, 3}, {2}}).optional(2),
      OpRow("conv_transpose1d", transposed1({}))
          .on({{2, 2, 5}, {2, 3, 3}, {3}})
          .on({{1, 1, 1}, {1, 1, 2}, {1}})
          .optional(2)
          .bad("they must be x [N, C, L] and weight [C, O / groups, K]",
               [] {
                 conv_transpose1d(zeros({1, 2, 3}), zeros({1, 1, 3}));
               })
          .bad("nothing is left of axis 2",
               [] {
                 conv_transpose1d(zeros({1, 1, 2}), zeros({1, 1, 1}), {}, ConvOptions().padding(1));
               })
          .bad("output_padding is 1, stride 1: output_padding must be in 0 … stride - 1",
               [] {
                 conv_transpose1d(zeros({1, 1, 3}), zeros({1, 1, 3}), {}, ConvOptions().output_padding(1));
               })
          .bad("bias has shape [2]: it must be [1]",
               [] {
                 conv_transpose1d(zeros({1, 1, 3}), zeros({1, 1, 3}), zeros({2}));
               }),
      OpRow("conv_transpose1d", "strided, padded, dilated, in groups", transposed1(spread)).on({{2, 4, 4}, {4, 2, 3}}),
      OpRow("conv_transpose2d", transposed2({}))
          .on({{1, 2, 4, 3}, {2, 2, 2, 3}, {2}})
          .large({{2, 4, 17, 17}, {4, 3, 5, 5}})
          .optional(2)
          .bad("x has shape [1, 3, 3]",
               [] {
                 conv_transpose2d(zeros({1, 3, 3}), zeros({1, 1, 2, 2}));
               })
          .bad("groups is 2",
               [] {
                 conv_transpose2d(zeros({1, 3, 3, 3}), zeros({3, 1, 2, 2}), {}, ConvOptions().groups(2));
               }),
      OpRow("conv_transpose2d", "strided, padded, dilated, in groups", transposed2(spread))
          .on({{1, 4, 3, 2}, {4, 1, 3, 2}, {2}})
          .optional(2),
      OpRow("conv_transpose2d", "unequal along its axes",
            transposed2(ConvOptions().stride({2, 3}).padding({0, 2}).dilation({1, 2}).output_padding({1, 0})))
          .on({{1, 2, 3, 3}, {2, 2, 2, 3}}),
      OpRow("interpolate", [](const auto& in) { return interpolate(in[0], InterpolateOptions().scale_factor(2)); })
          .on({{2, 1, 3}})
          .on({{1, 2, 2, 3}})
          .large({{2, 3, 40, 40}})
          .bad("x has shape [2, 3]: it must be [N, C, L] or [N, C, H, W]",
               [] {
                 interpolate(zeros({2, 3}), InterpolateOptions().scale_factor(2));
               })
          .bad("size 0, scale_factor 0 for an axis of 3",
               [] {
                 interpolate(zeros({1, 1, 3}), {});
               })
          .bad("size is 4, scale_factor 2: give one of them",
               [] {
                 interpolate(zeros({1, 1, 3}), InterpolateOptions().scale_factor(2).size(4));
               })
          .bad("size is (4, 5), x has shape [1, 1, 3]: one axis changes",
               [] {
                 interpolate(zeros({1, 1, 3}), InterpolateOptions().size({4, 5}));
               })
          .bad("scale_factor is -1",
               [] {
                 interpolate(zeros({1, 1, 3}), InterpolateOptions().scale_factor(-1));
               })
          .bad("align_corners is set, mode is nearest",
               [] {
                 interpolate(zeros({1, 1, 3}), InterpolateOptions().size(4).align_corners());
               }),
      OpRow("interpolate", "linear",
            [line](const auto& in) {
              return interpolate(in[0], InterpolateOptions(line).size({5, 2}));
            })
          .on({{1, 2, 2, 3}})
          .on({{2, 1, 1, 1}}),
      OpRow("interpolate", "linear, with aligned corners",
            [line](const auto& in) { return interpolate(in[0], InterpolateOptions(line).size(4).align_corners()); })
          .on({{2, 1, 3}})
          .on({{1, 2, 6, 4}}),
      OpRow("pixel_shuffle", [](const auto& in) { return pixel_shuffle(in[0], 2); })
          .on({{2, 8, 3, 2}})
          .bad("9 must divide the channels",
               [] {
                 pixel_shuffle(zeros({1, 8, 2, 2}), 3);
               })
          .bad("x has shape [8, 2, 2]",
               [] {
                 pixel_shuffle(zeros({8, 2, 2}), 2);
               })
          .bad("the factor is 0",
               [] {
                 pixel_shuffle(zeros({1, 8, 2, 2}), 0);
               }),
      OpRow("pixel_unshuffle", [](const auto& in) { return pixel_unshuffle(in[0], 2); })
          .on({{1, 2, 4, 6}})
          .bad("it must divide the height and the width",
               [] {
                 pixel_unshuffle(zeros({1, 8, 2, 3}), 2);
               }),
      OpRow("max_pool2d", "unequal along its axes",
            [wide](const auto& in) {
              return max_pool2d(in[0], {3, 2}, wide);
            })
          .from(domain::distinct)
          .on({{1, 2, 6, 5}}),
      OpRow("avg_pool2d", "unequal along its axes",
            [wide](const auto& in) {
              return avg_pool2d(in[0], {3, 2}, wide);
            })
          .on({{1, 2, 6, 5}}),
      OpRow("max_pool1d", [p](const auto& in) { return max_pool1d(in[0], 2, p); })
          .from(domain::distinct)
          .on({{2, 1, 5}})
          .bad("size is 0",
               [] {
                 max_pool1d(zeros({1, 1, 3}), 0);
               })
          .bad("[N, C, L]",
               [] {
                 max_pool1d(zeros({1, 3}), 1);
               }),
      OpRow("max_pool2d", [](const auto& in) { return max_pool2d(in[0], 2); })
          .from(domain::distinct)
          .on({{1, 2, 4, 5}})
          .bad("padding is 2: it must be in 0 … 1",
               [] {
                 const auto bad = PoolOptions().padding(2);
                 max_pool2d(zeros({1, 1, 3, 3}), 2, bad);
               }),
      OpRow("avg_pool1d", [p](const auto& in) { return avg_pool1d(in[0], 3, p); })
          .on({{2, 1, 5}})
          .bad("the window 4: it is wider than axis 2",
               [] {
                 avg_pool1d(zeros({1, 1, 3}), 4);
               }),
      OpRow("avg_pool2d", [](const auto& in) { return avg_pool2d(in[0], 2); })
          .on({{1, 2, 4, 5}})
          .bad("[N, C, H, W]",
               [] {
                 avg_pool2d(zeros({1, 3, 3}), 1);
               }),
      OpRow("group_norm", [](const auto& in) { return group_norm(in[0], 2, in[1], in[2]); })
          .on({{2, 4, 3}, {4}, {4}})
          .on({{3, 4}, {4}, {4}})
          .optional(1, 2)
          .within(1e-4)
          .except("zeros", "rows of one number have no scale")
          .except("equal numbers", "rows of one number have no scale")
          .except("equal rows", "rows of one number have no scale")
          .bad("groups is 3: it must divide the 4 channels",
               [] {
                 group_norm(zeros({2, 4}), 3);
               })
          .bad("weight has shape [3]: it must be [4]",
               [] {
                 group_norm(zeros({2, 4}), 2, zeros({3}));
               }),
      OpRow("batch_norm", [](const auto& in) { return batch_norm(in[0], {}, {}, in[1], in[2]); })
          .on({{3, 2, 4}, {2}, {2}})
          .on({{5, 2}, {2}, {2}})
          .optional(1, 2)
          .within(1e-4)
          .except("zeros", "channels of one number have no scale")
          .except("equal numbers", "channels of one number have no scale")
          .except("equal rows", "channels of one number have no scale")
          .bad("x has shape [3]: it must be [N, C, ...]", [] { batch_norm(zeros({3}), {}, {}); })
          .bad("var is undefined: give it",
               [] {
                 batch_norm(zeros({3, 2}), zeros({2}), {});
               }),
      OpRow("group_norm", "without eps", [](const auto& in) { return group_norm(in[0], 2, in[1], in[2], 0); })
          .on({{2, 4, 3}, {4}, {4}})
          .within(1e-4)
          .optional(1, 2)
          .homogeneous(0)
          .except("zeros", "rows of one number have no scale")
          .except("equal numbers", "rows of one number have no scale")
          .except("equal rows", "rows of one number have no scale"),
      OpRow("batch_norm", "without eps", [](const auto& in) { return batch_norm(in[0], {}, {}, in[1], in[2], 0); })
          .on({{3, 2, 4}, {2}, {2}})
          .within(1e-4)
          .optional(1, 2)
          .homogeneous(0)
          .except("zeros", "channels of one number have no scale")
          .except("equal numbers", "channels of one number have no scale")
          .except("equal rows", "channels of one number have no scale"),
      OpRow("batch_norm", "statistics given",
            [](const auto& in) { return batch_norm(in[0], in[1], in[2] * in[2] + 0.5); })
          .on({{3, 2, 2}, {2}, {2}}),
  };
}
static const RegisterOps window_rows(windows);

}  // namespace fit::test
