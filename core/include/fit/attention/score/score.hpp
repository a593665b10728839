#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "fit/detail/score_operations.hpp"

/// Scores and masks of attention as expressions. You write a lambda of one line. fit calls it once, with symbols, which
/// record an expression. Attention evaluates the expression in its tiles: nothing of size Sq x Sk is stored, and masked
/// tiles are not computed.
///
///     const Tensor y = scaled_dot_product_attention(q, k, v, AttentionOptions().causal().score(
///         [&](Score s, At at) { return 30 * tanh(s / 30) + table[at.head][at.key - at.query + 128]; }));
///     const Tensor z = scaled_dot_product_attention(q, k, v, AttentionOptions().attends(
///         [&](At at) { return at.query - at.key < 64 || at.key % 64 == 0; }));
namespace fit {

class Tensor;

namespace detail {
struct SymbolNode;
enum class SymbolKind { number, integer, condition };
}  // namespace detail

/// A part of an expression: a floating number, an integer or a condition. A C++ number and a tensor without axes
/// convert to one. Integers with a floating number give a floating number. Throws Error for a kind that does not fit: a
/// condition is no number (use where()), and an index is an integer; and for more than 5000 operations one inside
/// another.
class Symbol {
 public:
  template <class N, class = std::enable_if_t<std::is_arithmetic_v<N>>>
  Symbol(N n)
      : Symbol(std::is_same_v<N, bool> ? detail::SymbolKind::condition
               : std::is_integral_v<N> ? detail::SymbolKind::integer
                                       : detail::SymbolKind::number,
               static_cast<double>(n), std::is_integral_v<N> ? static_cast<std::int64_t>(n) : 0) {}
  /// The only element of a tensor. It may want a gradient.
  Symbol(const Tensor& number);
  /// table[i][j]: the next axis of a captured tensor. Each axis needs an index; int64 and boolean tensors give integers
  /// and conditions. The range of each index is checked before attention runs, over all pairs that causality and the
  /// window allow.
  Symbol operator[](const Symbol& index) const;
  /// As it is written, such as "30 * tanh(s / 30)"; of more than 1000 characters, the beginning.
  std::string str() const;

  friend Symbol operator+(const Symbol& a, const Symbol& b) { return of(Op::add, a, b); }
  friend Symbol operator-(const Symbol& a, const Symbol& b) { return of(Op::subtract, a, b); }
  friend Symbol operator*(const Symbol& a, const Symbol& b) { return of(Op::multiply, a, b); }
  /// For integers, a / b is floor(a / b), as Python's //. a % b has the sign of b, and a == a / b * b + a % b.
  friend Symbol operator/(const Symbol& a, const Symbol& b) { return of(Op::divide, a, b); }
  friend Symbol operator%(const Symbol& a, const Symbol& b) { return of(Op::remainder, a, b); }
  friend Symbol operator-(const Symbol& a) { return of(Op::negative, a); }
  friend Symbol operator<(const Symbol& a, const Symbol& b) { return of(Op::less, a, b); }
  friend Symbol operator<=(const Symbol& a, const Symbol& b) { return of(Op::less_equal, a, b); }
  friend Symbol operator>(const Symbol& a, const Symbol& b) { return of(Op::less, b, a); }
  friend Symbol operator>=(const Symbol& a, const Symbol& b) { return of(Op::less_equal, b, a); }
  friend Symbol operator==(const Symbol& a, const Symbol& b) { return of(Op::equal, a, b); }
  friend Symbol operator!=(const Symbol& a, const Symbol& b) { return of(Op::not_equal, a, b); }
  /// Both sides are evaluated.
  friend Symbol operator&&(const Symbol& a, const Symbol& b) { return of(Op::logical_and, a, b); }
  friend Symbol operator||(const Symbol& a, const Symbol& b) { return of(Op::logical_or, a, b); }
  friend Symbol operator!(const Symbol& a) { return of(Op::logical_not, a); }

  /// x^e for a number e.
  friend Symbol pow(const Symbol& x, double e) { return power(x, e); }
  /// Functions of the names of operations on tensors, such as exp(x), min(a, b) and where(condition, a, b). floor(x) is
  /// an integer, so that it may be an index. fit/detail/score_operations.hpp lists them.
  FIT_SYMBOL_FUNCTIONS

 private:
  friend struct At;
  friend class ScoreFunction;
  friend class AttentionMask;
  friend class Tensor;
  using Op = detail::SymbolOp;
  using Node = std::shared_ptr<const detail::SymbolNode>;

  explicit Symbol(Node node) : node_(std::move(node)) {}
  explicit Symbol(Op leaf);
  Symbol(detail::SymbolKind kind, double value, std::int64_t integer_value);
  static Symbol of(Op op, const Symbol& a);
  static Symbol of(Op op, const Symbol& a, const Symbol& b);
  static Symbol of(Op op, const Symbol& a, const Symbol& b, const Symbol& c);
  static Symbol power(const Symbol& x, double e);
  static Symbol lookup(const Tensor& table, const Symbol& index);

  Node node_;
};

/// The place of a pair of query and key: integers.
struct At {
  At();
  const Symbol batch, head;
  const Symbol query;  ///< the query's place among the keys, as for causality: i + Sk - Sq
  const Symbol key;
  const Symbol row;  ///< the query's number i
};

/// The score of a pair of query and key, with the scale, bias and alibi.
using Score = Symbol;

/// A function of the scores, before the softmax: made of a lambda of (Score, At) that returns a number. The lambda is
/// called once, here. Tensors that it indexes are captured: of at most 4 axes; floating ones may want gradients. An
/// axis whose index is at.batch alone has at most the size of the batch.
class ScoreFunction {
 public:
  ScoreFunction() {}
  template <class F, class = std::enable_if_t<std::is_invocable_r_v<Symbol, const F&, Score, At>>>
  ScoreFunction(const F& f) : ScoreFunction(static_cast<Symbol>(f(Symbol(detail::SymbolOp::score), At()))) {}
  bool defined() const { return node_ != nullptr; }
  std::string str() const { return Symbol(node_).str(); }
  const std::shared_ptr<const detail::SymbolNode>& node() const { return node_; }

 private:
  explicit ScoreFunction(const Symbol& s);
  std::shared_ptr<const detail::SymbolNode> node_;
};

/// Which query attends to which key, as an expression: made of a lambda of (At) that returns a condition, or of other
/// masks by & | ~. Nothing of size Sq x Sk is stored. document_mask() and others below make such masks.
class AttentionMask {
 public:
  AttentionMask() {}
  template <class F, class = std::enable_if_t<std::is_invocable_r_v<Symbol, const F&, At>>>
  AttentionMask(const F& f) : AttentionMask(static_cast<Symbol>(f(At()))) {}
  bool defined() const { return node_ != nullptr; }
  std::string str() const { return Symbol(node_).str(); }
  const std::shared_ptr<const detail::SymbolNode>& node() const { return node_; }

  /// Pairs that both masks allow, that one of them allows, and that the mask does not allow. An undefined mask allows
  /// all pairs.
  friend AttentionMask operator&(const AttentionMask& a, const AttentionMask& b) {
    return combined(detail::SymbolOp::logical_and, a, b);
  }
  friend AttentionMask operator|(const AttentionMask& a, const AttentionMask& b) {
    return combined(detail::SymbolOp::logical_or, a, b);
  }
  friend AttentionMask operator~(const AttentionMask& a) { return negated(a); }

 private:
  explicit AttentionMask(const Symbol& s);
  static AttentionMask negated(const AttentionMask& a);
  static AttentionMask combined(detail::SymbolOp op, const AttentionMask& a, const AttentionMask& b);
  std::shared_ptr<const detail::SymbolNode> node_;
};

/// Keys up to the query.
AttentionMask causal_mask();
/// The n keys up to the query's place and the n behind it: |query - key| < n. With causal, a window of n keys.
AttentionMask sliding_window_mask(std::int64_t n);
/// The first n positions attend to all, and all attend to them.
AttentionMask global_tokens(std::int64_t n);
/// Positions where `tokens`, boolean (T) or (B, T), is true attend to all, and all attend to them.
AttentionMask global_tokens(const Tensor& tokens);
/// Keys before `length`, and keys up to the query. length: a number, or int64 (B).
AttentionMask prefix_mask(std::int64_t length);
AttentionMask prefix_mask(const Tensor& length);
/// Keys of the query's document: ids (T) or (B, T), int64, have the document of each position.
AttentionMask document_mask(const Tensor& ids);
/// The same for documents one after another: document i has the places offsets[i] … offsets[i + 1] - 1. offsets: int64
/// [documents + 1], 0, …, T, as flash-attention's cu_seqlens. Throws Error if the first is not 0, if they decrease, and
/// for an empty document.
AttentionMask document_mask_from_offsets(const Tensor& offsets);
/// The same from the lengths of the documents, int64 [documents].
AttentionMask document_mask_from_lengths(const Tensor& lengths);
/// Blocks of `block_size` queries and keys: blocks (nq, nk) or (H, nq, nk), boolean, says which attend. Queries count
/// from 0.
AttentionMask block_mask(const Tensor& blocks, std::int64_t block_size);

/// The pairs that a mask allows, as a boolean tensor (B|1, H|1, Sq, Sk).
Tensor to_tensor(const AttentionMask& mask, std::int64_t B, std::int64_t H, std::int64_t Sq, std::int64_t Sk);

}  // namespace fit
