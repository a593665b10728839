#include "support/tables/op_table.hpp"

namespace fit::test {
namespace {

OpRow product(bool transpose_a, bool transpose_b) {
  const std::string form = std::string(transpose_a ? "a transposed" : "a") + (transpose_b ? ", b transposed" : ", b");
  const auto shape = [](bool transposed, std::vector<std::int64_t> s) {
    if (transposed) std::swap(s[s.size() - 1], s[s.size() - 2]);
    return Shape(s);
  };
  const auto a = [=](std::vector<std::int64_t> s) { return shape(transpose_a, std::move(s)); };
  const auto b = [=](std::vector<std::int64_t> s) { return shape(transpose_b, std::move(s)); };
  return OpRow("matmul", form,
               [=](const auto& in) { return matmul(in[0], Transpose{transpose_a}, in[1], Transpose{transpose_b}); })
      .on({a({2, 3}), b({3, 4})})
      .on({a({3, 3}), b({3, 3})})
      .on({a({3, 3, 3}), b({3, 3, 3})})
      .on({a({2, 2, 3}), b({3, 2})})
      .on({a({2, 3}), b({2, 3, 2})})
      .on({a({2, 1, 2, 3}), b({3, 3, 2})})
      .on({a({2, 3, 3}), b({2, 3, 3})})
      .on({a({2, 0}), b({0, 3})})
      .on({a({0, 2}), b({2, 3})})
      .on({a({0, 2, 2}), b({2, 3})})
      .on({a({1, 1}), b({1, 1})})
      .within(4e-5)
      .large({a({130, 70}), b({70, 90})})
      .large({a({3, 33, 65}), b({65, 257})})
      .large({a({5, 40, 33}), b({5, 33, 41})});
}

// einsum of as many operands as there are shapes.
OpRow summed(const std::string& formula, std::vector<Shape> shapes) {
  return OpRow("einsum", formula, [formula](const auto& in) { return einsum(formula, in); }).on(std::move(shapes));
}

}  // namespace

static std::vector<OpRow> matmul_rows() {
  const char* const of_three = "float32 does not hold the product of three such numbers";
  return {
      product(false, false),
      product(false, true),
      product(true, false),
      product(true, true),
      OpRow("matmul", "vectors and matrices", [](const auto& in) { return matmul(in[0], in[1]); })
          .on({{3}, {3}})
          .on({{3}, {3, 2}})
          .on({{2, 3}, {3}})
          .on({{3}, {2, 3, 2}})
          .on({{2, 2, 3}, {3}})
          .on({{0}, {0}})
          .on({{1}, {1}})
          .on({{2, 3}, {3, 2}})
          .on({{2, 1, 2, 3}, {3, 2}})
          .bad("a is [2, 3], b is [4, 5]: the last of a (3) must equal the last but one of b (4)",
               [] {
                 matmul(zeros({2, 3}), zeros({4, 5}));
               })
          .bad("a is [3], b is [4]", [] { matmul(zeros({3}), zeros({4})); })
          .bad("neither may be a scalar",
               [] {
                 matmul(zeros({}), zeros({2, 2}));
               })
          .bad("the leading axes [2] and [3] must broadcast",
               [] {
                 matmul(zeros({2, 4, 4}), zeros({3, 4, 4}));
               })
          .bad("one must be bfloat16, float32 or float64",
               [] {
                 matmul(zeros({2, 2}, int64), zeros({2, 2}, int64));
               })
          .bad("at least two axes",
               [] {
                 matmul(zeros({2}), Transpose::yes, zeros({2, 2}), Transpose::no);
               }),
      OpRow("linear", [](const auto& in) { return linear(in[0], in[1], in[2]); })
          .optional(2)
          .on({{4, 3}, {2, 3}, {2}})
          .on({{3}, {2, 3}, {2}})
          .on({{2, 2, 3}, {5, 3}, {5}})
          .on({{3, 3}, {3, 3}, {3}})
          .on({{0, 3}, {2, 3}, {2}})
          .on({{2, 0}, {3, 0}, {3}})
          .on({{1, 1}, {1, 1}, {1}})
          .within(4e-5)
          .large({{300, 257}, {65, 257}, {65}})
          .bad("x is [2, 4], weight is [2, 3]",
               [] {
                 linear(zeros({2, 4}), zeros({2, 3}));
               })
          .bad("bias has shape [3]: it must be [2]",
               [] {
                 linear(zeros({2, 4}), zeros({2, 4}), zeros({3}));
               })
          .bad("float64",
               [] {
                 linear(zeros({2, 4}), zeros({2, 4}, float64));
               }),
      OpRow("linear", "without bias", [](const auto& in) { return linear(in[0], in[1]); })
          .on({{4, 3}, {2, 3}})
          .on({{3}, {2, 3}})
          .on({{3, 3}, {3, 3}}),
      OpRow("outer", [](const auto& in) { return outer(in[0], in[1]); })
          .on({{3}, {2}})
          .on({{3}, {3}})
          .on({{0}, {2}})
          .on({{1}, {1}})
          .bad("a is [2, 2], b is [3]: both must have one axis",
               [] {
                 outer(zeros({2, 2}), zeros({3}));
               }),
      summed("bqhd,bkhd->bhqk", {{2, 3, 2, 4}, {2, 5, 2, 4}}).large({{2, 40, 3, 33}, {2, 41, 3, 33}}),
      summed("bhqk,bkhd->bqhd", {{2, 2, 3, 5}, {2, 5, 2, 4}}),
      summed("ii", {{3, 3}}),
      summed("i...i->...i", {{2, 3, 2}}),
      summed("iji,j->i", {{2, 3, 2}, {3}}),
      summed("ij,jk", {{2, 3}, {3, 4}})
          .on({{3, 3}, {3, 3}})
          .on({{2, 0}, {0, 3}})
          .on({{1, 1}, {1, 1}})
          .bad("size 4 at 'j', another operand 3",
               [] {
                 einsum("ij,jk", {zeros({2, 3}), zeros({4, 5})});
               })
          .bad("1 operands are written, 2 given",
               [] {
                 einsum("ij", {zeros({2, 3}), zeros({4, 5})});
               })
          .bad("operand 0 has shape [2, 3], \"i\" has 1 letters",
               [] {
                 einsum("i", {zeros({2, 3})});
               })
          .bad("the letter 'i' stands twice in the result",
               [] {
                 einsum("ij->ii", {zeros({2, 2})});
               })
          .bad("the letter 'i' stands for two sizes of an operand of shape [2, 3]",
               [] {
                 einsum("ii", {zeros({2, 3})});
               })
          .bad("'k' stands in no operand",
               [] {
                 einsum("ij->k", {zeros({2, 2})});
               })
          .bad("the character '1' is no letter",
               [] {
                 einsum("1j", {zeros({2, 2})});
               })
          .bad("a dot that is not part of",
               [] {
                 einsum(".j", {zeros({2, 2})});
               })
          .bad("\"...\" stands twice",
               [] {
                 einsum("......->...", {zeros({1, 1, 1, 1, 1, 1, 1, 1})});
               })
          .bad("\"...\" stands twice",
               [] {
                 einsum("...->......", {zeros({1, 1, 1, 1, 1, 1, 1, 1})});
               })
          .bad("no operands", [] { einsum("", {}); })
          .bad("one must be bfloat16, float32 or float64", [] { einsum("i->i", {zeros({2}, int64)}); }),
      summed("pq,qr->pr", {{2, 1}, {4, 3}}).on({{2, 4}, {1, 3}}).on({{2, 1}, {0, 3}}),
      summed("bij,bj->ij", {{1, 2, 3}, {4, 1}}),
      summed("pq,pq->pq", {{1, 3}, {2, 1}}).on({{1, 1}, {2, 3}}),
      summed("pq,qr,rp->", {{2, 1}, {3, 1}, {4, 2}}),
      summed("p...,...p->p", {{1, 2, 1}, {3, 4}}),
      summed("ij,kj->ki", {{2, 3}, {4, 3}}),
      summed("ij,ij->ij", {{2, 3}, {2, 3}}),
      summed("ij,ij->", {{2, 3}, {2, 3}}),
      summed("i,j->ji", {{2}, {3}}),
      summed("ijk->ki", {{2, 3, 4}}),
      summed("ij->", {{2, 3}}).on({{0, 3}}),
      summed("ij->ij", {{2, 3}}),
      summed("...ij,...jk->...ik", {{2, 1, 2, 3}, {3, 3, 2}}).on({{2, 3}, {4, 3, 2}}),
      summed("ij,jk,kl->il", {{2, 3}, {3, 4}, {4, 2}}).on({{3, 3}, {3, 3}, {3, 3}}).except("huge numbers", of_three),
      summed("a,b,ab->", {{2}, {3}, {2, 3}}).except("huge numbers", of_three),
  };
}
static const RegisterOps matmul_family(matmul_rows);

}  // namespace fit::test
