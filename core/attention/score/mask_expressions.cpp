// Masks as expressions: nothing of the scores' size is stored.
#include "attention/score/expression.hpp"
#include "fit/ops/ops.hpp"
#include "tensor/check.hpp"

namespace fit {
namespace {

// `place` of a table (T) or (B, T).
Symbol at_place(const Tensor& table, const At& at, const Symbol& place) {
  return table.rank() == 1 ? table[place] : table[at.batch][place];
}

void check_table(const char* op, const char* name, const Tensor& table, DType dtype) {
  check::dtype(op, name, table, dtype);
  if (table.rank() != 1 && table.rank() != 2)
    check::fail(op, name, " is ", table.shape(), ": it must be (T) or (B, T)");
}

// Ids of documents one after another, from offsets 0, …, T, which `given` made.
Tensor ids_between(const char* op, const char* name, const Tensor& given, const Tensor& offsets) {
  const auto at = offsets.data<std::int64_t>();
  const std::int64_t documents = static_cast<std::int64_t>(at.size()) - 1;
  for (std::int64_t i = 0; i < documents; ++i)
    if (at[i + 1] <= at[i])
      check::fail(op, name, " is ", given.shape(), ", document ", i, " has ", at[i + 1] - at[i],
                  " tokens: each document must have at least one");
  Tensor ids = Tensor::empty({at[documents]}, int64);
  auto* to = ids.fresh<std::int64_t>();
  for (std::int64_t i = 0; i < documents; ++i)
    for (std::int64_t t = at[i]; t < at[i + 1]; ++t) *to++ = i;
  return ids;
}

}  // namespace

AttentionMask causal_mask() {
  return [](const At& at) { return at.key <= at.query; };
}

AttentionMask sliding_window_mask(std::int64_t n) {
  if (n < 1) check::fail("sliding_window_mask", "n is ", n, ": it must be positive");
  return [=](const At& at) { return at.query - at.key < n && at.key - at.query < n; };
}

AttentionMask global_tokens(std::int64_t n) {
  check::not_negative("global_tokens", "n", n);
  return [=](const At& at) { return at.key < n || at.query < n; };
}

AttentionMask global_tokens(const Tensor& tokens) {
  check_table("global_tokens", "tokens", tokens, boolean);
  return [&](const At& at) { return at_place(tokens, at, at.key) || at_place(tokens, at, at.query); };
}

AttentionMask prefix_mask(std::int64_t length) {
  check::not_negative("prefix_mask", "length", length);
  return [=](const At& at) { return at.key < length || at.key <= at.query; };
}

AttentionMask prefix_mask(const Tensor& length) {
  check::dtype("prefix_mask", "length", length, int64);
  if (length.rank() != 1) check::fail("prefix_mask", "length is ", length.shape(), ": it must be (B)");
  for (const std::int64_t n : length.data<std::int64_t>()) check::not_negative("prefix_mask", "a length", n);
  return [&](const At& at) { return at.key < length[at.batch] || at.key <= at.query; };
}

AttentionMask document_mask(const Tensor& ids) {
  check_table("document_mask", "ids", ids, int64);
  return [&](const At& at) { return at_place(ids, at, at.query) == at_place(ids, at, at.key); };
}

AttentionMask document_mask_from_offsets(const Tensor& offsets) {
  constexpr const char* op = "document_mask_from_offsets";
  check::dtype(op, "offsets", offsets, int64);
  if (offsets.rank() != 1 || offsets.size(0) < 2)
    check::fail(op, "offsets is ", offsets.shape(), ": it must be [documents + 1], with at least one document");
  const auto at = offsets.data<std::int64_t>();
  if (at[0] != 0) check::fail(op, "the first offset is ", at[0], ": it must be 0");
  for (std::int64_t i = 1; i < at.size(); ++i)
    if (at[i] < at[i - 1])
      check::fail(op, "offset ", i, " is ", at[i], " after ", at[i - 1], ": offsets must not decrease");
  return document_mask(ids_between(op, "offsets", offsets, offsets));
}

AttentionMask document_mask_from_lengths(const Tensor& lengths) {
  constexpr const char* op = "document_mask_from_lengths";
  check::dtype(op, "lengths", lengths, int64);
  if (lengths.rank() != 1 || lengths.size(0) == 0)
    check::fail(op, "lengths is ", lengths.shape(), ": it must be [documents], with at least one document");
  const NoGrad no_grad;
  return document_mask(ids_between(op, "lengths", lengths, cat({zeros({1}, int64), cumsum(lengths, 0)})));
}

AttentionMask block_mask(const Tensor& blocks, std::int64_t block_size) {
  constexpr const char* op = "block_mask";
  check::dtype(op, "blocks", blocks, boolean);
  if (blocks.rank() != 2 && blocks.rank() != 3)
    check::fail(op, "blocks is ", blocks.shape(), ": it must be (query blocks, key blocks) or (H, …, …)");
  if (block_size < 1) check::fail(op, "block_size is ", block_size, ": it must be positive");
  return [&](const At& at) {
    const Symbol q = at.row / block_size, k = at.key / block_size;
    return blocks.rank() == 2 ? blocks[q][k] : blocks[at.head][q][k];
  };
}

void detail::check_ranges(const char* op, const Expression& e, std::int64_t B, std::int64_t H,
                          const kernels::Visibility& v, DType dtype) {
  if (B * H * v.Sq * v.Sk > 0) e.methods->check(e, op, PairBounds(v, {0, B}, {0, H}, {0, v.Sq}, {0, v.Sk}), dtype);
}

Tensor detail::evaluate_mask(const Expression& e, const Shape& pairs, const PairOrigin& origin) {
  const NoGrad no_grad;
  const Shape shape{e.reads(SymbolOp::batch) ? pairs[0] : 1, e.reads(SymbolOp::head) ? pairs[1] : 1, pairs[2],
                    pairs[3]};
  if (pairs.numel() == 0) return Tensor::empty(shape, boolean);
  return broadcast_to(e.methods->evaluate(e, {}, e.tables, {}, pairs, origin), shape);
}

Tensor to_tensor(const AttentionMask& mask, std::int64_t B, std::int64_t H, std::int64_t Sq, std::int64_t Sk) {
  constexpr const char* op = "to_tensor";
  if (!mask.defined()) check::fail(op, "mask is undefined");
  for (const std::int64_t size : {B, H, Sq, Sk})
    if (size < 0) check::fail(op, "sizes are ", B, ", ", H, ", ", Sq, ", ", Sk, ": none may be negative");
  const detail::Expression e(mask.node(), Sk - Sq);
  detail::check_ranges(op, e, B, H, kernels::Visibility{Sq, Sk});
  return detail::evaluate_mask(e, {B, H, Sq, Sk});
}

}  // namespace fit
