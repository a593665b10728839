#include "support/tables/op_table.hpp"

// Shapes, joining, indexing, gathering, sorting.
namespace fit::test {
namespace {

const Tensor ids2() { return tensor({{2, 0, 2}, {1, 1, 0}}); }

std::vector<OpRow> shape_rows() {
  return {
      OpRow("reshape",
            [](const auto& in) {
              return reshape(in[0], {-1, 2});
            })
          .on({{2, 3}})
          .on({{2, 1, 4}})
          .on({{0, 2}})
          .bad("x has shape [2, 3] with 6 elements, the new shape [4] has 4",
               [] {
                 reshape(zeros({2, 3}), {4});
               })
          .bad("the other sizes of the new shape make 4: no size of its axis 0 (given as -1) fits",
               [] {
                 reshape(zeros({2, 3}), {-1, 4});
               })
          .bad("make 0",
               [] {
                 reshape(zeros({2, 0}), {-1, 0});
               })
          .bad("axes 0 and 2 of the shape are both -1",
               [] {
                 reshape(zeros({2, 3}), {-1, 3, -1});
               })
          .bad("9 axes",
               [] {
                 reshape(zeros({1}), {1, 1, 1, 1, 1, 1, 1, 1, -1});
               }),
      OpRow("reshape", "of a scalar",
            [](const auto& in) {
              return reshape(in[0], {1, 1});
            })
          .on({{}}),
      OpRow("flatten", [](const auto& in) { return flatten(in[0]); })
          .on({{2, 3}})
          .on({{}})
          .on({{2, 0}})
          .bad("axis 2 is out of range for shape [2, 3]",
               [] {
                 flatten(zeros({2, 3}), 0, 2);
               })
          .bad("axis 1 comes after axis 0",
               [] {
                 flatten(zeros({2, 3}), 1, 0);
               }),
      OpRow("squeeze", [](const auto& in) { return squeeze(in[0], -2); })
          .on({{2, 1, 3}})
          .on({{1, 1}})
          .bad("axis 0 of shape [2, 3] has size 2: it must be 1",
               [] {
                 squeeze(zeros({2, 3}), 0);
               })
          .bad("axis 2 is out of range",
               [] {
                 squeeze(zeros({2, 3}), 2);
               }),
      OpRow("squeeze", "all", [](const auto& in) { return squeeze(in[0]); }).on({{1, 2, 1}}).on({{}}),
      OpRow("unsqueeze", [](const auto& in) { return unsqueeze(in[0], -1); })
          .on({{2, 3}})
          .on({{}})
          .bad("axis 3 is out of range for shape [2, 3]: it must be in -3 … 2",
               [] {
                 unsqueeze(zeros({2, 3}), 3);
               }),
      OpRow("transpose", [](const auto& in) { return transpose(in[0]); })
          .on({{2, 3}})
          .on({{2, 3, 4}})
          .on({{1, 5}})
          .on({{3, 0}})
          .large({{3, 301, 257}})
          .bad("axis -2 is out of range for shape [3]", [] { transpose(zeros({3})); }),
      OpRow("permute",
            [](const auto& in) {
              return permute(in[0], {2, 0, -2});
            })
          .on({{2, 3, 4}})
          .on({{1, 3, 1}})
          .on({{2, 0, 3}})
          .large({{65, 33, 129}})
          .bad("2 axes for shape [2, 3, 4]",
               [] {
                 permute(zeros({2, 3, 4}), {0, 1});
               })
          .bad("axis 1 is named twice",
               [] {
                 permute(zeros({2, 3, 4}), {0, 1, -2});
               }),
      OpRow("permute", "with the last axis kept",
            [](const auto& in) {
              return permute(in[0], {0, 2, 1, 3});
            })
          .on({{2, 3, 2, 4}})
          .large({{2, 64, 8, 128}}),
      OpRow("broadcast_to",
            [](const auto& in) {
              return broadcast_to(in[0], {2, 2, 3});
            })
          .on({{2, 2, 3}})
          .on({{3}})
          .on({{2, 1}})
          .on({{}})
          .bad("x has shape [2, 3]: it does not broadcast to [3]",
               [] {
                 broadcast_to(zeros({2, 3}), {3});
               })
          .bad("x has shape [2]: it does not broadcast to [2, 3]",
               [] {
                 broadcast_to(zeros({2}), {2, 3});
               }),
  };
}
const RegisterOps shapes(shape_rows);

std::vector<OpRow> join_rows() {
  return {
      OpRow("cat", [](const auto& in) { return cat(in, -2); })
          .on({{2, 3}, {1, 3}, {3, 3}})
          .on({{2, 3}, {0, 3}})
          .on({{2, 1, 2}})
          .on({{2, 2, 3}, {2, 4, 3}})
          .large({{3, 100, 200}, {3, 101, 200}})
          .bad("part 1 has shape [2, 4], part 0 [2, 3]: they must agree but for axis 0",
               [] {
                 cat({zeros({2, 3}), zeros({2, 4})});
               })
          .bad("part 1 has shape [2], part 0 [2, 3]",
               [] {
                 cat({zeros({2, 3}), zeros({2})});
               })
          .bad("axis 0 is out of range for shape []", [] { cat({zeros({})}); })
          .bad("0 parts", [] { cat({}); }),
      OpRow("stack", [](const auto& in) { return stack(in, 1); })
          .on({{2, 3}, {2, 3}})
          .on({{2}, {2}, {2}})
          .on({{0}})
          .bad("part 1 has shape [2], part 0 [3]: all must be equal",
               [] {
                 stack({zeros({3}), zeros({2})});
               })
          .bad("axis 2 is out of range for parts of shape [3]: it must be in -2 … 1", [] { stack({zeros({3})}, 2); })
          .bad("0 parts", [] { stack({}); }),
      OpRow("split", [](const auto& in) { return split(in[0], 2, 1); })
          .on({{2, 5}})
          .on({{2, 2, 3}})
          .on({{2, 0}})
          .large({{100, 301}})
          .bad("size is 0: it must be positive", [] { split(zeros({2}), 0); })
          .bad("2 sizes that leave 1 of axis 0 of shape [5]: they must add up to 5",
               [] {
                 split(zeros({5}), {1, 3});
               })
          .bad("a size is -1",
               [] {
                 split(zeros({5}), {-1, 6});
               }),
      OpRow("split", "with sizes, one piece used",
            [](const auto& in) {
              return std::vector<Tensor>{split(in[0], {1, 0, 2}, -1)[2]};
            })
          .on({{2, 3}}),
      OpRow("chunk", [](const auto& in) { return chunk(in[0], 3); })
          .on({{7}})
          .on({{2, 2}})
          .bad("count is 0: it must be positive", [] { chunk(zeros({2}), 0); }),
  };
}
const RegisterOps joins(join_rows);

// Writes in[1] into a copy of in[0].
TensorFunction putting(std::vector<Index> where) {
  return [where = std::move(where)](const std::vector<Tensor>& in) {
    Tensor x = in[0].clone();
    index_put_(x, where, in[1]);
    return std::vector<Tensor>{x};
  };
}

std::vector<OpRow> index_rows() {
  return {
      OpRow("index",
            [](const auto& in) {
              return index(in[0], {1, range(Range::none, Range::none, -2)});
            })
          .on({{2, 5}})
          .on({{3, 4, 2}})
          .on({{2, 0}})
          .bad("index 2 is out of range for axis 1 of shape [3, 2]: it must be in -2 … 1",
               [] {
                 index(zeros({3, 2}), {0, 2});
               })
          .bad("index -4 is out of range for axis 0 of shape [3]",
               [] {
                 index(zeros({3}), {{0, -4}});
               })
          .bad("3 entries for shape [3, 2]",
               [] {
                 index(zeros({3, 2}), {0, 0, 0});
               })
          .bad("2 ellipses",
               [] {
                 index(zeros({3, 2}), {ellipsis, ellipsis});
               })
          .bad("a list has 2 numbers, another 1: lists are read in pairs",
               [] {
                 index(zeros({3, 2}), {{0, 1}, {1}});
               })
          .bad("ids has shape [1, 1]: beside other entries it must be [N]",
               [] {
                 index(zeros({3, 2}), {0, zeros({1, 1}, int64)});
               })
          .bad("the step of a range is 0", [] { index(zeros({3}), {range(0, 1, 0)}); })
          .bad("more than 8 axes", [] { index(zeros({1}), std::vector<Index>(9, newaxis)); }),
      OpRow("index", "list, with repeats",
            [](const auto& in) {
              return index(in[0], {range(1), {1, 0, 1, -1}, newaxis, ellipsis});
            })
          .on({{3, 2}})
          .on({{2, 3, 2}}),
      OpRow("index", "pairs of lists",
            [](const auto& in) {
              return index(in[0], {{0, -1, 0}, {1, 0, 1}});
            })
          .on({{3, 2}})
          .on({{2, 2, 3}}),
      OpRow("index", "pairs of lists apart",
            [](const auto& in) {
              return index(in[0], {{0, 1}, range(1), tensor({1, 0})});
            })
          .on({{2, 3, 2}})
          .on({{2, 2, 2, 2}}),
      OpRow("index", "a mask of an axis",
            [](const auto& in) {
              return index(in[0], {range(), tensor({true, false, true})});
            })
          .on({{2, 3}})
          .on({{2, 3, 2}})
          .bad("a mask has shape [2]: its axis has size 3",
               [] {
                 index(zeros({1, 3}), {0, tensor({true, false})});
               }),
      OpRow("index", "rows that overlap", [](const auto& in) { return in[0][{range(1)}] * in[0][{range(0, -1)}]; })
          .on({{4, 2}}),
      OpRow("slice", [](const auto& in) { return slice(in[0], 1, -3, 100, 2); })
          .on({{2, 5}})
          .on({{2, 1, 3}})
          .bad("axis 1 is out of range for shape [2]", [] { slice(zeros({2}), 1, 0, 1); }),
      OpRow("index_put_", putting({ellipsis, range(0, 2)}))
          .on({{2, 3}, {2, 2}})
          .on({{2, 3}, {2}})
          .on({{2, 3}, {}})
          .on({{3, 1, 2}, {1, 2}})
          .bad("the value has shape [3]: it does not broadcast to [2]",
               [] {
                 Tensor x = zeros({4});
                 index_put_(x, {range(0, 2)}, zeros({3}));
               })
          .bad("names element 1 more than once",
               [] {
                 Tensor x = zeros({4});
                 index_put_(x, {{1, 2, -3}}, tensor(1));
               }),
      OpRow("index_put_", "with a list and a number", putting({{2, 0}, newaxis, -1}))
          .on({{3, 2}, {2, 1}})
          .on({{3, 2}, {1}})
          .on({{3, 3, 2}, {2, 1, 2}}),
  };
}
const RegisterOps indices(index_rows);

std::vector<OpRow> gather_rows() {
  return {
      OpRow("index_select",
            [](const auto& in) {
              return index_select(in[0], 1, tensor({2, 0, -1, 2}));
            })
          .on({{2, 3}})
          .on({{2, 3, 2}})
          .large({{200, 50, 40}})
          .bad("the id at [1] is 3: the axis has 3 of them, so it must be in -3 … 2",
               [] {
                 index_select(zeros({3}), 0, tensor({0, 3}));
               })
          .bad("ids has shape [1, 1]: it must be [N]", [] { index_select(zeros({3}), 0, tensor({{0}})); })
          .bad("ids is float32: it must be int64", [] { index_select(zeros({3}), 0, tensor({0.})); }),
      OpRow("gather", [](const auto& in) { return gather(in[0], 1, ids2()); })
          .on({{2, 3}})
          .on({{4, 3}})
          .bad("the id at [1, 0] is -1: the axis has 2 of them, so it must be in 0 … 1",
               [] {
                 gather(zeros({2, 2}), 0, tensor({{0, 1}, {-1, 0}}));
               })
          .bad("x has shape [2, 3], ids [3, 3]: they must have one rank, and beside axis 1",
               [] {
                 gather(zeros({2, 3}), 1, zeros({3, 3}, int64));
               })
          .bad("ids [3]",
               [] {
                 gather(zeros({2, 3}), 1, zeros({3}, int64));
               }),
      OpRow("gather", "along the first axis", [](const auto& in) { return gather(in[0], 0, ids2()); })
          .on({{3, 3}})
          .on({{3, 4}}),
      OpRow("scatter_add", [](const auto& in) { return scatter_add(in[0], 1, ids2(), in[1]); })
          .on({{2, 3}, {2, 3}})
          .on({{3, 4}, {2, 3}})
          .bad("src has shape [1, 3]: it must be [2, 3]",
               [] {
                 scatter_add(zeros({2, 3}), 1, ids2(), zeros({1, 3}));
               })
          .bad("the id at [0, 0] is 2",
               [] {
                 scatter_add(zeros({2, 2}), 1, tensor({{2}}), zeros({1, 1}));
               })
          .bad("x is float32, src is float64",
               [] {
                 scatter_add(zeros({2, 3}), 1, ids2(), zeros({2, 3}, float64));
               }),
      OpRow("scatter_add", "along the first axis", [](const auto& in) { return scatter_add(in[0], 0, ids2(), in[1]); })
          .on({{3, 3}, {2, 3}}),
      OpRow("embedding", [](const auto& in) { return embedding(in[0], ids2()); })
          .on({{3, 4}})
          .on({{5, 1}})
          .on({{3, 0}})
          .large({{3, 300}})
          .bad("the id at [0, 2] is 3: the table has 3 of them, so it must be in 0 … 2",
               [] {
                 embedding(zeros({3, 2}), tensor({{0, 1, 3}}));
               })
          .bad("the id at [] is -1",
               [] {
                 embedding(zeros({3, 2}), tensor(-1));
               })
          .bad("table has shape [3]: it must be [V, C]", [] { embedding(zeros({3}), tensor(0)); })
          .bad("padding_idx is 3",
               [] {
                 embedding(zeros({3, 2}), tensor(0), 3);
               }),
      OpRow("flip",
            [](const auto& in) {
              return flip(in[0], {0, -1});
            })
          .on({{2, 3}})
          .on({{2, 3, 2}})
          .on({{0, 3}})
          .bad("axis -1 is named twice for shape [2, 3]",
               [] {
                 flip(zeros({2, 3}), {1, -1});
               }),
      OpRow("flip", "one axis", [](const auto& in) { return flip(in[0], 0); })
          .on({{3}})
          .on({{}})
          .bad("a scalar has no axes", [] { flip(zeros({}), 1); }),
      OpRow("tril", [](const auto& in) { return tril(in[0]); })
          .on({{3, 3}})
          .on({{2, 2, 4}})
          .on({{3, 0}})
          .large({{5, 200, 201}})
          .bad("x has shape [3]: it must have two axes or more", [] { tril(zeros({3})); }),
      OpRow("triu", [](const auto& in) { return triu(in[0], -1); })
          .on({{4, 2}})
          .on({{2, 3, 3}})
          .bad("x has shape []", [] { triu(zeros({})); }),
  };
}
const RegisterOps gathers(gather_rows);

std::vector<Tensor> values_and_ids(const std::pair<Tensor, Tensor>& p) { return {p.first, p.second}; }

std::vector<OpRow> sort_rows() {
  return {
      OpRow("sort", [](const auto& in) { return values_and_ids(sort(in[0])); })
          .except("NaN", "it sorts as the largest, and others take its place")
          .from(domain::distinct)
          .on({{5}})
          .on({{3, 4}})
          .on({{2, 0}})
          .on({{2, 1}})
          .large({{300, 70}})
          .bad("axis 1 is out of range for shape []", [] { sort(zeros({}), 1); }),
      OpRow("sort", "descending, the first axis",
            [](const auto& in) { return values_and_ids(sort(in[0], 0, descending)); })
          .except("NaN", "it sorts as the largest, and others take its place")
          .from(domain::distinct)
          .on({{4, 3}}),
      OpRow("topk", [](const auto& in) { return values_and_ids(topk(in[0], 2)); })
          .except("NaN", "it sorts as the largest, and others take its place")
          .from(domain::distinct)
          .on({{5}})
          .on({{3, 2}})
          .bad("k is 4: axis 0 of shape [3] allows 0 … 3", [] { topk(zeros({3}), 4); })
          .bad("k is -1", [] { topk(zeros({3}), -1); }),
      OpRow("topk", "smallest, the first axis",
            [](const auto& in) { return values_and_ids(topk(in[0], 2, 0, smallest)); })
          .except("NaN", "it sorts as the largest, and others take its place")
          .from(domain::distinct)
          .on({{4, 3}}),
  };
}
const RegisterOps sorts(sort_rows);

}  // namespace
}  // namespace fit::test
