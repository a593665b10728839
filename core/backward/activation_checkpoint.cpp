// checkpoint(): the adjoint of this operation repeats its forward pass.
#include "fit/backward/activation_checkpoint.hpp"

#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <unordered_set>

#include "fit/matmul/reproducible.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/random.hpp"
#include "graph/node.hpp"
#include "ops/linalg/batch_rows.hpp"
#include "tensor/check.hpp"

namespace fit {
namespace {

constexpr const char* op = "checkpoint";

thread_local bool again = false;

constexpr const char* same_each_time =
    ": it must do the same each time. Call backward() before train(), eval(), the end of hooks and edits, and changes "
    "of what f reads";

using detail::Node;

// The keys of the random numbers drawn by f.
class Tape final : public detail::DrawTape {
 public:
  enum class Mode { write, read };
  // The tape, which then writes the keys, or repeats them from the start.
  DrawTape* start(Mode mode) {
    mode_ = mode;
    outer_ = detail::draw_tape;
    at_ = 0;
    return this;
  }

  detail::RandomKey next(Generator& g) override {
    if (mode_ == Mode::write) {
      const detail::Scoped drawing(detail::draw_tape, outer_);  // the outer tape may be in read mode
      draws_.push_back(g.next());
      return draws_.back();
    }
    if (at_ == draws_.size()) fail();
    return draws_[at_++];
  }
  // The tape has the numbers: f seeds no generator a second time.
  bool set_state(Generator& g, const detail::RandomKey& state) override {
    if (mode_ == Mode::read) return true;
    return outer_ && outer_->set_state(g, state);
  }
  // After a call of f in read mode.
  void check_end() const {
    if (at_ != draws_.size()) fail();
  }

 private:
  [[noreturn]] static void fail() {
    check::fail(op, "f drew more or fewer random numbers when it was computed again", same_each_time);
  }
  std::vector<detail::RandomKey> draws_;
  std::size_t at_ = 0;
  Mode mode_ = Mode::write;
  DrawTape* outer_ = nullptr;
};

// A number that depends on each bit of x and on its place: the sum of the words, with odd factors.
std::uint64_t fingerprint(const Tensor& x) {
  const std::int64_t bytes = x.numel() * size_of(x.dtype()), words = bytes / 4;
  const auto* const from = static_cast<const char*>(x.raw());
  const auto word = [&](std::int64_t at, std::int64_t size) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, from + 4 * at, static_cast<std::size_t>(size));
    return static_cast<std::uint64_t>(bits) * static_cast<std::uint32_t>(2 * at + 1);
  };
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < words; ++i) sum += word(i, 4);
  return bytes % 4 == 0 ? sum : sum + word(words, bytes % 4);
}

using Place = std::pair<Node*, std::uint32_t>;  // a node and one of its outputs
using Detour = std::map<Place, Place>;

// An empty tensor for an output of a node. record() and grad() use only its node.
Tensor placeholder(const Place& place) {
  Tensor t = Tensor::empty({0}, place.first->outputs[place.second].dtype);
  detail::hold(place.first->refs);
  t.impl()->node = place.first;
  t.impl()->output = static_cast<std::uint16_t>(place.second);
  return t;
}
Place place_of(const Tensor& t) { return {t.impl()->node, t.impl()->output}; }

// Calls visit(edge) for each edge that leaves the part of the graph behind `roots` recorded in a region.
template <class Visit>
void each_entry(const std::vector<Tensor>& roots, std::uint64_t region, const Visit& visit) {
  std::unordered_set<Node*> seen;
  std::vector<Node*> inside;
  const auto enter = [&](Node* n) {
    if (n->leaf() || n->region < region) return false;
    if (seen.insert(n).second) inside.push_back(n);
    return true;
  };
  for (const Tensor& root : roots)
    if (root.requires_grad()) enter(root.impl()->node);
  while (!inside.empty()) {
    Node* const n = inside.back();
    inside.pop_back();
    for (int i = 0; i < n->input_count; ++i)
      if (n->edges[i].node && !enter(n->edges[i].node)) visit(n->edges[i]);
  }
}

// With `all`, only leaves may have no detour.
void redirect(const std::vector<Tensor>& roots, std::uint64_t region, const Detour& detour, bool all) {
  each_entry(roots, region, [&](detail::Edge& edge) {
    const auto to = detour.find({edge.node, edge.output});
    if (to == detour.end()) {
      if (all && !edge.node->leaf())
        check::fail(op, "f used a tensor of shape ", edge.node->outputs[edge.output].shape,
                    " that it did not use before, when it was computed again: it must do the same each time");
      return;
    }
    detail::hold(to->second.first->refs);
    detail::drop_node(edge.node);
    edge = {to->second.first, to->second.second};
  });
}

struct Checkpoint {
  std::function<Tensor(const Tensor&)> f;
  Tensor x;
  Tape tape;
  BatchRows rows = batch_rows;                    // at the first call of f
  const bool reproducibly = fit::reproducible();  // the same; record() keeps Autocast
  std::vector<Tensor> entries;                    // placeholders for x and captured tensors that require gradients
  detail::ReadLog used;                           // x, and what operations of f read
  std::uint64_t bits = 0;                         // of the result: its fingerprint

  Tensor compute(Tape::Mode mode) {
    const detail::Scoped drawing(detail::draw_tape, tape.start(mode));
    const detail::Scoped first_rows(batch_rows, rows);
    const detail::Scoped first_mode(detail::thread_state.reproducible, reproducibly);
    const detail::Scoped repeating(again, again || mode == Tape::Mode::read);
    const detail::Scoped reading(detail::read_log, mode == Tape::Mode::write ? &used : nullptr);
    Tensor y = f(x);
    if (mode == Tape::Mode::read) tape.check_end();
    return y;
  }

  Tensor first() {
    const detail::Scoped recorded_in(detail::thread_state.region, used.region);
    return compute(Tape::Mode::write);
  }

  void find_entries(const Tensor& y) {
    std::set<Place> places;
    each_entry({y}, used.region, [&](const detail::Edge& edge) {
      if (places.insert({edge.node, edge.output}).second) entries.push_back(placeholder({edge.node, edge.output}));
    });
  }

  // Forgets the tensors that only f had, when its graph is freed, and its result.
  void find_used(const Tensor& result) {
    used.reads.erase(result.impl()->storage);
    for (auto at = used.reads.begin(); at != used.reads.end();)
      at = at->second.tensor.unique() ? used.reads.erase(at) : std::next(at);
    used.note(*x.impl());
    if (detail::read_log) detail::read_log->reads.insert(used.reads.begin(), used.reads.end());
  }

  void backward(Backward& b) {
    for (const auto& [storage, read] : used.reads)
      if (read.tensor.version() != read.version)
        check::fail(op, "a tensor of shape ", read.tensor.shape(),
                    " that f uses was changed in place before backward(): f would compute something else");
    const bool recording = b.recording();
    const EnableGrad recorded;
    const detail::Scoped recorded_in(detail::thread_state.region, detail::new_region());
    const Tensor y = compute(Tape::Mode::read), dy = b.dy();
    if (!y.defined() || y.shape() != dy.shape() || !y.requires_grad())
      check::fail(op, "f gave something else when it was computed again", same_each_time);
    // The enclosing graph is being traversed. So leaves temporarily replace its tensors.
    std::vector<Tensor> leaves, wanted;
    std::vector<int> numbers;
    Detour there, back;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const Place place = place_of(entries[i]);
      const detail::Output& output = place.first->outputs[place.second];
      leaves.push_back(Tensor::empty({0}, output.dtype));
      Node* const leaf = leaves.back().impl()->node = detail::new_leaf(output.shape, output.dtype);
      there[place] = {leaf, 0};
      back[{leaf, 0}] = place;
      if (!b.wants(static_cast<int>(i))) continue;
      wanted.push_back(leaves.back());
      numbers.push_back(static_cast<int>(i));
    }
    redirect({y}, detail::thread_state.region, there, true);
    if (fingerprint(y) != bits) check::fail(op, "f gave other numbers when it was computed again", same_each_time);
    const std::vector<Tensor> gradients =
        grad({y}, wanted, {dy}, recording ? allow_unused | create_graph : allow_unused);
    if (recording) redirect(gradients, detail::thread_state.region, back, false);
    for (std::size_t k = 0; k < gradients.size(); ++k) b.give(numbers[k], gradients[k]);
  }
};

}  // namespace

bool detail::computing_again() noexcept { return again; }

Tensor checkpoint(std::function<Tensor(const Tensor&)> f, const Tensor& x) {
  check::defined(op, "x", x);
  if (!f) check::fail(op, "f is empty: it must be a function");
  if (!grad_enabled()) return f(x);
  const auto c = std::make_shared<Checkpoint>();
  c->f = std::move(f);
  c->x = x;
  c->used.region = detail::new_region();
  Tensor y = c->first();
  check::defined(op, "what f gave", y);
  if (!y.requires_grad() || y.is_leaf() || y.impl()->node->region < c->used.region) return y;  // nothing was recorded
  c->find_entries(y);
  c->bits = fingerprint(y);
  y = y.detach();  // frees the graph of f
  c->find_used(y);
  Tensor result =
      record(op, c->entries, std::move(y), keep::nothing, [state = c.get()](Backward& b) { state->backward(b); });
  result.impl()->node->owned = c;
  return result;
}

}  // namespace fit
