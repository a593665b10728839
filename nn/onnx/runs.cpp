// The runs of a model from which save_onnx() learns what depends on values and sizes.
#include "onnx/runs.hpp"

#include <algorithm>

#include "attention/keep_padding.hpp"
#include "fit/ops/ops.hpp"
#include "tensor/check.hpp"

namespace fit::nn::onnx {
namespace {

using Inputs = std::vector<Tensor>;

// Other values of the same kind: in the opposite order, and smaller.
Tensor changed(const Tensor& x) {
  const Tensor back = x.rank() > 0 && x.numel() > 0 ? flip(x, Axes()) : x;
  return is_floating(x.dtype()) ? back * 0.75 : back;
}

// Random values of the same kind: of both signs, and integers from 0, or the least one, to 1, or the largest one.
Tensor random_like(const Tensor& x, Generator& g) {
  if (x.numel() == 0) return x;
  if (x.dtype() == boolean) return bernoulli(0.5, x.shape(), g);
  if (!is_floating(x.dtype())) {
    const auto low = std::min<std::int64_t>(0, min(x).item<std::int64_t>()),
               high = std::max<std::int64_t>(1, max(x).item<std::int64_t>());
    return randint(low, high + 1, x.shape(), g).to(x.dtype());
  }
  return randn(x.shape(), x.dtype(), g) * (1 + max(abs(x)));
}

// x with another size of an axis: repeated or cut.
Tensor resized(const Tensor& x, int axis, std::int64_t size) {
  Inputs copies;
  for (std::int64_t had = 0; had < size; had += x.size(axis)) copies.push_back(x);
  return slice(cat(copies, axis), axis, 0, size);
}

// An axis that may be free, and the axes of each input that have its size.
struct Candidate {
  ONNXAxis axis;
  std::vector<std::vector<int>> of;
};

// The axes of a sequence: the second one of what has rank 2 or 3. A mask, [B, …, T] or [B, …, T, T], has it at its end.
std::vector<int> sequence_axes(const Tensor& x, std::int64_t length) {
  if (length < 0 || x.dtype() != boolean || x.rank() < 3 || x.rank() > 4)
    return x.rank() == 2 || x.rank() == 3 ? std::vector<int>{1} : std::vector<int>();
  std::vector<int> axes;
  for (int axis = x.rank() - 2; axis < x.rank(); ++axis)
    if (x.size(axis) == length) axes.push_back(axis);
  return axes;
}

// The size of the sequence of the first input that is no mask; -1 if there is none.
std::int64_t sequence_length(const Inputs& inputs) {
  for (const Tensor& x : inputs)
    if (x.rank() == 2 || (x.rank() == 3 && x.dtype() != boolean)) return x.size(1);
  return -1;
}

std::vector<Candidate> candidates(const Inputs& inputs, const std::vector<ONNXAxis>& more) {
  std::vector<Candidate> all;
  const auto add = [&](ONNXAxis axis, const auto& axes_of) {
    Candidate c{std::move(axis), {}};
    std::int64_t size = -1;
    bool equal = true;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      c.of.push_back(axes_of(inputs[i]));
      if (c.of[i].empty()) continue;
      if (size < 0) c.axis.input = i, c.axis.axis = c.of[i][0], size = inputs[i].size(c.axis.axis);
      for (const int one : c.of[i]) equal = equal && size == inputs[i].size(one);
    }
    if (equal && size > 0) all.push_back(std::move(c));
  };
  using Axes = std::vector<int>;
  const auto is_scalar = [](const Tensor& x) { return x.rank() == 0; };  // it has no batch
  if (std::none_of(inputs.begin(), inputs.end(), is_scalar))
    add({"batch", 0, 0}, [](const Tensor&) { return Axes{0}; });
  add({"sequence", 0, 1}, [length = sequence_length(inputs)](const Tensor& x) { return sequence_axes(x, length); });
  for (const ONNXAxis& axis : more) {
    if (axis.input >= inputs.size() || axis.axis < 0 || axis.axis >= inputs[axis.input].rank())
      check::fail(save_onnx_op, "the axis ", axis.name, " is axis ", axis.axis, " of input ", axis.input,
                  ": there is none such");
    add(axis, [rank = inputs[axis.input].rank(), axis = axis.axis](const Tensor& x) {
      return x.rank() == rank ? Axes{axis} : Axes();
    });
  }
  return all;
}

// A model, and how it is called.
struct Caller {
  const Layer& model;
  const Runs::Call& call;
  Run operator()(const Inputs& inputs) const { return record_run(model, inputs, call); }
};

// A run with other values, which has to do the same.
void add_values(Runs& runs, Run run) {
  if (!alike(run, runs.all[0]))
    check::fail(save_onnx_op,
                "the model does other operations with other values: a file has those of one run; give a condition "
                "that is computed from the inputs as an input, and a mask of padding as a boolean input that is true "
                "everywhere");
  runs.all.push_back(std::move(run));
}

// A run with values that the model may refuse.
std::optional<Run> tried(const Inputs& values, const Run& first, const Caller& run) {
  try {
    Run plain = run(values);
    if (alike(plain, first)) return plain;
    // An encoder computes without the padding of a mask, by other operations. But the mask must vary, so that what is
    // computed from it is no constant.
    const KeepPadding same_operations;
    return run(values);
  } catch (const Error&) {
    return {};
  }
}

// The runs with other values: what is the same in all is a constant of the file.
void run_with_other_values(Runs& runs, const Caller& run) {
  const Inputs inputs = runs.all[0].inputs;
  Inputs mild, random, known, unmasked;  // known: no other integers; unmasked: a mask that is true everywhere stays so
  Generator g(1);
  for (const Tensor& x : inputs) {
    mild.push_back(changed(x)), random.push_back(random_like(x, g));
    known.push_back(x.dtype() == int64 ? mild.back() : random.back());
    unmasked.push_back(x.dtype() == boolean ? mild.back() : random.back());
  }
  add_values(runs, run(mild));
  for (const Inputs& values : {random, known, unmasked})
    if (std::optional<Run> wild = tried(values, runs.all[0], run)) return add_values(runs, std::move(*wild));
}

// The runs with two other sizes of an axis. Two sizes alone don't tell n from a length that ends at n.
std::vector<Run> run_with_other_sizes(const Candidate& c, const Run& first, const Caller& run) {
  const auto with_size = [&](std::int64_t size) {
    Inputs other = first.inputs;
    for (std::size_t i = 0; i < other.size(); ++i)
      for (const int axis : c.of[i]) other[i] = resized(other[i], axis, size);
    return run(other);
  };
  const std::int64_t n = first.inputs[c.axis.input].size(c.axis.axis), near = n > 1 ? n - 1 : 2;
  std::vector<Run> runs{with_size(near)};
  std::optional<Error> refused;  // such as beyond the context of a model
  for (const std::int64_t size : {2 * n + 3, n / 2, n + 1}) try {
      if (runs.size() == 1 && size > 0 && size != near && size != n) runs.push_back(with_size(size));
    } catch (const Error& error) {
      if (!refused) refused = error;
    }
  if (runs.size() == 1) throw Error(*refused);
  for (const Run& other : runs)
    if (!alike(other, first)) throw Error("the model does other operations with another size");
  return runs;
}

// An axis with which the model does something else is fixed.
void run_with_other_sizes(Runs& runs, const std::vector<ONNXAxis>& more, const Caller& run) {
  for (const Candidate& c : candidates(runs.all[0].inputs, more)) try {
      for (Run& other : run_with_other_sizes(c, runs.all[0], run)) {
        other.axis = runs.axes.size();
        runs.all.push_back(std::move(other));
      }
      runs.axes.push_back(c.axis);
    } catch (const Error& error) {
      runs.fixed.push_back(c.axis.name + ": " + error.what());
    }
}

}  // namespace

Runs::Runs(const Layer& model, const Inputs& inputs, const std::vector<ONNXAxis>& more, const Call& call) {
  const Caller run{model, call};
  all.push_back(run(inputs));
  run_with_other_values(*this, run);
  run_with_other_sizes(*this, more, run);
}

std::vector<std::size_t> Runs::of(std::optional<std::size_t> axis) const {
  std::vector<std::size_t> numbers;
  for (std::size_t r = 1; r < all.size(); ++r)
    if (all[r].axis == axis) numbers.push_back(r);
  return numbers;
}

void Runs::fix(std::size_t axis, const std::string& why) {
  fixed.push_back(axes[axis].name + ": " + why);
  axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(axis));
  all.erase(std::remove_if(all.begin(), all.end(), [&](const Run& run) { return run.axis == axis; }), all.end());
  for (Run& run : all)
    if (run.axis > axis) --*run.axis;
}

}  // namespace fit::nn::onnx
