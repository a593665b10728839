#include "support/tables/op_table.hpp"

// Elements read again, moved, taken and written by lists and masks.
namespace fit::test {

static const Tensor mask23() { return tensor({{true, false, true}, {false, false, true}}); }

// Two elements share an id, one is named once, one by none.
static OpRow scatter_reduce_row(const char* form, Reduce reduce, IncludeSelf include_self) {
  return OpRow("scatter_reduce", form,
               [=](const auto& in) {
                 return scatter_reduce(in[0], 1, tensor({{2, 0, 2}, {1, 0, 0}}), in[1], reduce, include_self);
               })
      .from(domain::distinct)
      .on({{2, 4}, {2, 3}})
      .on({{3, 3}, {2, 3}});
}

// The same for whole slices.
static OpRow index_reduce_row(const char* form, Reduce reduce, IncludeSelf include_self) {
  const Tensor ids = tensor({2, 0, 2});
  return OpRow("index_reduce", form,
               [=](const auto& in) { return index_reduce(in[0], 1, ids, in[1], reduce, include_self); })
      .equals([=](const auto& in) {
        return scatter_reduce(in[0], 1, broadcast_to(ids, in[1].shape()), in[1], reduce, include_self);
      })
      .from(domain::distinct)
      .on({{2, 4}, {2, 3}})
      .on({{1, 3}, {1, 3}});
}

static std::vector<OpRow> rearranging() {
  const auto padded = [](PadMode mode, const std::vector<std::int64_t>& widths) {
    return [=](const auto& in) { return pad(in[0], widths, mode, mode == PadMode::constant ? 1.5 : 0); };
  };
  return {
      OpRow("repeat",
            [](const auto& in) {
              return repeat(in[0], {2, 1, 3});
            })
          .on({{2, 3}})
          .on({{1, 2, 1}})
          .on({{0}})
          .on({{}})
          .bad("1 counts for shape [2, 3]: each axis must have one",
               [] {
                 repeat(zeros({2, 3}), {2});
               })
          .bad("a count is -1", [] { repeat(zeros({2}), {-1}); })
          .bad("too many elements", [] { repeat(zeros({2}), {INT64_MAX}); })
          .bad("too many elements",
               [] {
                 repeat(zeros({1, 1}), {std::int64_t{1} << 40, std::int64_t{1} << 40});
               }),
      OpRow("tile", [](const auto& in) { return tile(in[0], {2}); }).on({{2, 3}}).on({{}}).on({{2, 0}}),
      OpRow("repeat_interleave", [](const auto& in) { return repeat_interleave(in[0], 2, 1); })
          .on({{2, 3}})
          .on({{2, 3, 2}})
          .on({{2, 0}})
          .bad("axis 1 is out of range", [] { repeat_interleave(zeros({2}), 2, 1); }),
      OpRow("repeat_interleave", "counts",
            [](const auto& in) {
              return repeat_interleave(in[0], tensor({2, 0, 1}), 1);
            })
          .on({{2, 3}})
          .on({{1, 3, 2}})
          .bad("a count is -1: it must not be negative",
               [] {
                 repeat_interleave(zeros({2}), tensor({1, -1}), 0);
               })
          .bad("counts has shape [3]: it must be [2]",
               [] {
                 repeat_interleave(zeros({2}), tensor({1, 1, 1}), 0);
               })
          .bad("counts is float32: it must be int64", [] { repeat_interleave(zeros({2}), zeros({2}), 0); }),
      OpRow("roll", [](const auto& in) { return roll(in[0], -4, 0); })
          .on({{3, 2}})
          .on({{0}})
          .on({{}})
          .bad("axis 1 is out of range", [] { roll(zeros({}), 1, 1); }),
      OpRow("roll", "several axes",
            [](const auto& in) {
              return roll(in[0], {1, -2}, {0, 1});
            })
          .on({{3, 4}})
          .on({{2, 0}})
          .bad("2 shifts and 1 axes",
               [] {
                 roll(zeros({2}), {1, 2}, std::vector<int>{0});
               }),
      OpRow("pad", padded(PadMode::constant, {1, 2, 0, -1}))
          .on({{2, 3}})
          .on({{2, 2, 1}})
          .bad("3 widths for shape [2]",
               [] {
                 pad(zeros({2}), {1, 1, 1});
               })
          .bad("at most all of its elements can be taken away",
               [] {
                 pad(zeros({2}), {-2, -1});
               })
          .bad("the number 0.5 is not whole",
               [] {
                 pad(zeros({2}, int64), {1, 1}, PadMode::constant, 0.5);
               }),
      OpRow("pad", "taken away on one side, added on the other", padded(PadMode::constant, {3, -3, -1, 2}))
          .on({{2, 2}})
          .on({{1, 4}}),
      OpRow("pad", "reflected", padded(PadMode::reflect, {2, 1, 1, 0}))
          .on({{2, 3}})
          .bad("the widths are 3 and 0, axis 0 of shape [3]: a mirror shows one less than there are",
               [] {
                 pad(zeros({3}), {3, 0}, PadMode::reflect);
               }),
      OpRow("pad", "replicated", padded(PadMode::replicate, {2, 1, -1, 3})).on({{2, 3}}).on({{3, 1}}),
      OpRow("movedim", [](const auto& in) { return movedim(in[0], 0, -1); })
          .on({{2, 3, 4}})
          .on({{3}})
          .bad("axis 3 is out of range",
               [] {
                 movedim(zeros({2, 2}), 0, 3);
               }),
      OpRow("unbind", [](const auto& in) { return unbind(in[0], 1); }).on({{2, 3}}).on({{1, 2, 2}}),
      OpRow("diagonal", [](const auto& in) { return diagonal(in[0], 1, 0, 2); })
          .on({{2, 3, 4}})
          .on({{1, 2, 1}})
          .on({{3, 0, 2}})
          .bad("both axes are 1",
               [] {
                 diagonal(zeros({2, 2}), 0, 1, -1);
               }),
      OpRow("diagonal", "below", [](const auto& in) { return diagonal(in[0], -1); }).on({{3, 2}}),
      OpRow("diag", [](const auto& in) { return diag(in[0], -1); })
          .on({{3}})
          .on({{3, 2}})
          .on({{0}})
          .bad("it must be a vector [N] or a matrix [M, N]", [] { diag(zeros({})); }),
      OpRow("meshgrid", [](const auto& in) { return meshgrid(in); })
          .on({{2}, {3}})
          .on({{2}, {1}, {2}})
          .bad("0 vectors", [] { meshgrid({}); })
          .bad("vector 1 has shape [2, 2]: it must be [N]",
               [] {
                 meshgrid({zeros({2}), zeros({2, 2})});
               }),
      OpRow("unfold", [](const auto& in) { return unfold(in[0], 1, 3, 2); })
          .on({{2, 6}})
          .on({{2, 3, 2}})
          .bad("the windows' size is 3, the axis has 2", [] { unfold(zeros({2}), 0, 3); })
          .bad("step is 0", [] { unfold(zeros({2}), 0, 1, 0); }),
      OpRow("fold", [](const auto& in) { return fold(in[0], 1, 6, 2); })
          .on({{2, 2, 3}})
          .on({{1, 2, 2, 4}})
          .bad("axis 1 must be 2, the windows of size 3 of 6 elements",
               [] {
                 fold(zeros({2, 3, 3}), 1, 6, 2);
               })
          .bad("it must have at least two axes", [] { fold(zeros({3}), 0, 3); }),
      OpRow("scatter",
            [](const auto& in) {
              return scatter(in[0], 1, tensor({{2, 0}, {1, 2}}), in[1]);
            })
          .on({{2, 3}, {2, 2}})
          .on({{3, 3}, {2, 2}})
          .bad("src has shape [1, 1]: it must be [1, 2]",
               [] {
                 scatter(zeros({1, 3}), 1, tensor({{0, 1}}), zeros({1, 1}));
               })
          .bad("more than once along axis 1",
               [] {
                 scatter(zeros({1, 3}), 1, tensor({{1, 1}}), zeros({1, 2}));
               }),
      OpRow("segment_softmax",
            [](const auto& in) {
              return segment_softmax(in[0], tensor({1, 0, 1, 3, 1}));
            })
          .equals([](const auto& in) {
            const Tensor x = in[0], of_1 = softmax(index_select(x, 0, tensor({0, 2, 4})), 0);
            const Tensor one = ones_like(x[0]);  // ids 0 and 3 occur once
            return stack({of_1[0], one, of_1[1], one, of_1[2]});
          })
          .on({{5}})
          .on({{5, 2}})
          .on({{5, 0}})
          .bad("ids has shape [2]: it must be [3]",
               [] {
                 segment_softmax(zeros({3}), tensor({0, 1}));
               })
          .bad("an id is -1: it must not be negative",
               [] {
                 segment_softmax(zeros({2}), tensor({0, -1}));
               })
          .bad("x is int64", [] { segment_softmax(tensor({1}), tensor({0})); }),
      OpRow("segment_softmax", "along the last axis",
            [](const auto& in) {
              return segment_softmax(in[0], tensor({2, 0, 2}), -1);
            })
          .on({{2, 3}})
          .on({{2, 2, 3}}),
      scatter_reduce_row("sum", Reduce::sum, IncludeSelf::yes)
          .bad("src has shape [1, 1]: it must be [1, 2]",
               [] {
                 scatter_reduce(zeros({1, 3}), 1, tensor({{0, 1}}), zeros({1, 1}), Reduce::sum);
               })
          .bad("the id at [0, 1] is 3: the axis has 3 of them",
               [] {
                 scatter_reduce(zeros({1, 3}), 1, tensor({{0, 3}}), zeros({1, 2}), Reduce::amax);
               })
          .bad("x is int64: it must be bfloat16, float32 or float64",
               [] { scatter_reduce(tensor({1}), 0, tensor({0}), tensor({2}), Reduce::mean); }),
      scatter_reduce_row("sum, replaced", Reduce::sum, IncludeSelf::no),
      scatter_reduce_row("mean", Reduce::mean, IncludeSelf::yes),
      scatter_reduce_row("mean, replaced", Reduce::mean, IncludeSelf::no),
      scatter_reduce_row("amax", Reduce::amax, IncludeSelf::yes),
      scatter_reduce_row("amax, replaced", Reduce::amax, IncludeSelf::no),
      scatter_reduce_row("amin", Reduce::amin, IncludeSelf::yes),
      scatter_reduce_row("amin, replaced", Reduce::amin, IncludeSelf::no),
      index_reduce_row("sum", Reduce::sum, IncludeSelf::yes)
          .bad("src has shape [2, 2]: it must be [3, 2]",
               [] {
                 index_reduce(zeros({3, 2}), 0, tensor({0, 1, 1}), zeros({2, 2}), Reduce::amax);
               })
          .bad("the id at [0] is 3", [] { index_reduce(zeros({3}), 0, tensor({3}), zeros({1}), Reduce::amin); })
          .bad("x is int64: it must be bfloat16, float32 or float64",
               [] { index_reduce(tensor({1}), 0, tensor({0}), tensor({2}), Reduce::mean); }),
      index_reduce_row("mean", Reduce::mean, IncludeSelf::yes),
      index_reduce_row("mean, replaced", Reduce::mean, IncludeSelf::no),
      index_reduce_row("amax, replaced", Reduce::amax, IncludeSelf::no),
      index_reduce_row("amin", Reduce::amin, IncludeSelf::yes),
      OpRow("index_add",
            [](const auto& in) {
              return index_add(in[0], 0, tensor({2, 0, 2}), in[1]);
            })
          .on({{3, 2}, {3, 2}})
          .on({{4}, {3}})
          .bad("src has shape [2, 2]: it must be [3, 2]",
               [] {
                 index_add(zeros({3, 2}), 0, tensor({0, 1, 1}), zeros({2, 2}));
               })
          .bad("the id at [0] is 3", [] { index_add(zeros({3}), 0, tensor({3}), zeros({1})); }),
      OpRow("take_along",
            [](const auto& in) {
              return take_along(in[0], 1, tensor({{2, 0}}));
            })
          .on({{2, 3}})
          .on({{1, 3}})
          .bad("they must have one rank",
               [] {
                 take_along(zeros({2, 3}), 1, tensor({0}));
               })
          .bad("the id at [0, 0] is 3",
               [] {
                 take_along(zeros({2, 3}), 1, tensor({{3}}));
               }),
      OpRow("masked_select", [](const auto& in) { return masked_select(in[0], mask23()); })
          .on({{2, 3}})
          .on({{2, 2, 3}})
          .bad("the mask must broadcast to the shape of x", [] { masked_select(zeros({3}), mask23()); }),
      OpRow("take", "by a mask", [](const auto& in) { return in[0][mask23()]; })
          .on({{2, 3}})
          .on({{2, 3, 2}})
          .bad("the mask's sizes must be those of the first axes", [] { zeros({3})[mask23()]; }),
      OpRow("take", "by ids",
            [](const auto& in) {
              return in[0][tensor({{1, -1}, {0, 1}})];
            })
          .on({{2, 3}})
          .on({{2}})
          .bad("the id at [0] is 2", [] { take(zeros({2}), tensor({2})); })
          .bad("where is float32: it must be int64 (ids) or boolean (a mask)", [] { take(zeros({2}), zeros({2})); }),
  };
}
static const RegisterOps rearranging_rows(rearranging);

}  // namespace fit::test
