#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/node.hpp"

namespace fit::detail {

/// Looks at each result and each gradient of a thread whose thread_state points to it.
class Anomalies {
 public:
  /// Where the program is at this moment, for the message about a backward pass to come; may be empty.
  virtual std::string place() const { return {}; }

  /// Throws Error if an output has a NaN or an infinity that no input has.
  virtual void look_at_forward(const char* op, const Inputs& in, const Tensor* outputs, int count);

  /// Around a node's adjoint, which is not looked at itself.
  class Around {
   public:
    explicit Around(const Node& n);
    /// Throws Error if a gradient got a NaN or an infinity that neither it nor what came back had before.
    void check() const;
    ~Around() { thread_state.anomalies = all_; }
    Around(const Around&) = delete;
    Around& operator=(const Around&) = delete;

   private:
    Anomalies* all_;
    const Node& node_;
    bool clean_ = false;             // until now
    std::vector<Tensor> came_back_;  // of which the adjoint may let go
  };

 protected:
  ~Anomalies() = default;

 private:
  struct Made {
    std::uint64_t sequence;  // of the node: its address may be another one's later
    std::string place;
  };
  std::unordered_map<const Node*, Made> made_;
};

}  // namespace fit::detail
