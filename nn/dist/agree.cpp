#include "dist/agree.hpp"

#include <cstring>
#include <sstream>

#include "fit/graph/graph.hpp"
#include "fit/tensor/tensor.hpp"

namespace fit::dist {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// The lowest rank on which `differs` is true, or -1.
int first_rank(bool differs, World& w) {
  std::vector<double> who(static_cast<std::size_t>(w.size()));
  who[w.rank()] = differs;
  who = sum(who, w);
  for (int r = 0; r < w.size(); ++r)
    if (who[r] != 0) return r;
  return -1;
}

// Throws the message of `rank` on all ranks.
[[noreturn]] void fail_as(int rank, std::string message, World& w) {
  std::uint64_t size = message.size();
  w.broadcast(&size, sizeof size, rank);
  message.resize(size);
  w.broadcast(message.data(), size, rank);
  throw AgreedError(message);
}

}  // namespace

void check_agree(const char* op, const std::string& what, const StateDict& state, World& w) {
  if (w.size() == 1) return;
  std::ostringstream text;
  for (const auto& [name, x] : state) {
    text << name << ' ';
    if (x.defined())
      text << x.shape() << ' ' << x.dtype() << '\n';
    else
      text << "undefined\n";
  }
  std::string first = text.str();
  broadcast(first, w);
  const std::vector<std::string> mine = lines_of(text.str()), theirs = lines_of(first);
  std::size_t at = 0;
  while (at < mine.size() && at < theirs.size() && mine[at] == theirs[at]) ++at;
  const int rank = first_rank(at < mine.size() || at < theirs.size(), w);
  if (rank < 0) return;
  const auto line = [&](const std::vector<std::string>& lines) {
    return at < lines.size() ? lines[at] : "nothing more";
  };
  fail_as(rank,
          std::string("[") + op + "] the ranks have different " + what + ": rank 0 has " + line(theirs) +
              ", where rank " + std::to_string(rank) + " has " + line(mine),
          w);
}

void check_same(const char* op, const StateDict& state, const std::string& cure, World& w) {
  if (w.size() == 1) return;
  StateDict first = state;
  broadcast(first, w);
  std::size_t at = 0;
  const auto same = [](const auto& a, const auto& b) {
    const auto bytes = static_cast<std::size_t>(a.second.numel() * size_of(a.second.dtype()));
    return a.first == b.first && a.second.shape() == b.second.shape() && a.second.dtype() == b.second.dtype() &&
           (bytes == 0 || std::memcmp(a.second.raw(), b.second.raw(), bytes) == 0);
  };
  while (at < state.size() && at < first.size() && same(state[at], first[at])) ++at;
  const int rank = first_rank(at < state.size() || at < first.size(), w);
  if (rank < 0) return;
  const std::string name = at < state.size() ? state[at].first : at < first.size() ? first[at].first : "";
  fail_as(rank,
          std::string("[") + op + "] rank " + std::to_string(rank) + " has another " + name + " than rank 0: " + cure,
          w);
}

void broadcast_values(const char* op, const StateDict& state, World& w) {
  if (w.size() == 1) return;
  const NoGrad no_grad;
  for (const auto& [name, x] : state) {
    if (!x.defined()) continue;
    Tensor to = x;
    if (w.rank() != 0) to.before_write(op);
    w.broadcast(const_cast<void*>(to.raw()), static_cast<std::size_t>(to.numel()) * size_of(to.dtype()));
  }
}

}  // namespace fit::dist
