#include "onnx/graph.hpp"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <unordered_set>

#include "fit/base/version.hpp"
#include "fit/ops/ops.hpp"
#include "tensor/check.hpp"

namespace fit::nn::onnx {
namespace {

// The types of tensors here and in the file.
constexpr std::pair<DType, int> types[] = {{DType::boolean, ::onnx::TensorProto::BOOL},
                                           {DType::int64, ::onnx::TensorProto::INT64},
                                           {DType::float32, ::onnx::TensorProto::FLOAT},
                                           {DType::float64, ::onnx::TensorProto::DOUBLE}};

int type_of(DType dtype) {
  for (const auto& [ours, theirs] : types)
    if (ours == dtype) return theirs;
  check::fail(save_onnx_op, "a tensor is ", dtype, ": it must be float32, float64, int64 or boolean");
}

std::pair<const void*, std::string> elements_of(const Tensor& x) {
  return {x.raw(), x.shape().str() + name_of(x.dtype())};
}

bool same(const Tensor& a, const Tensor& b) {
  return a.impl() == b.impl() || (a.dtype() == b.dtype() && a.shape() == b.shape() && equal(a, b));
}

// How a tensor computed from the inputs gets into the file.
std::string advice(const std::vector<Tensor>& inputs) {
  for (const Tensor& x : inputs)
    if (x.dtype() == boolean && !equal(x, ones(x.shape(), boolean)))
      return "if it comes from a mask with padding, give an example mask that is true everywhere; else give it as an "
             "input, or compute it by operations on floating tensors";
  return "give it as an input, or compute it by operations on floating tensors";
}

// Whether x is arange(a, b).
bool is_counted(const Tensor& x) {
  if (x.dtype() != int64 || x.rank() != 1 || x.numel() == 0) return false;
  const std::int64_t first = x.flatten().to_vector<std::int64_t>()[0];
  return equal(x, arange(first, first + x.size(0)));
}

std::string if_size(const Runs& runs, const Run& run) {
  const ONNXAxis& axis = runs.axes[*run.axis];
  return " if the axis has size " + std::to_string(run.inputs[axis.input].size(axis.axis));
}

// Whether all elements are the first one of `like`.
bool is_filled(const Tensor& x, const Tensor& like) {
  if (x.numel() == 0 || like.numel() == 0 || x.rank() != like.rank()) return false;
  return equal(x, broadcast_to(reshape(slice(flatten(like), 0, 0, 1), Shape(std::vector<std::int64_t>(x.rank(), 1))),
                               x.shape()));
}

}  // namespace

// ---- rows ----------------------------------------------------------------------------------------------------------

const Attribute& Row::attribute(const char* name) const {
  const auto found = o.attributes.find(name);
  if (found == o.attributes.end()) fail("does not say its ", name);
  return found->second;
}
const Attribute& Row::fixed(const char* name) const {
  const Attribute& here = attribute(name);
  for (const Run& run : g.runs_.all) {
    const Attribute& there = run.operations[at_].attributes.at(name);
    if (same_numbers(here, there)) continue;
    const std::string both = joined("has ", name, " = ", here.text(), ", and ", there.text());
    if (run.axis) throw FixedAxis{*run.axis, joined(o.where(), ' ', both, if_size(g.runs_, run))};
    fail(both,
         " with other inputs: a number that depends on the values of the inputs would be a constant "
         "in the file; compute it by operations on tensors");
  }
  return here;
}
bool Row::is_empty(std::size_t i) const {
  return std::all_of(g.runs_.all.begin(), g.runs_.all.end(),
                     [&](const Run& run) { return run.operations[at_].inputs[i].numel() == 0; });
}
bool Row::takes_all(int axis) const {
  const auto a = static_cast<std::size_t>(axis);
  return std::all_of(g.runs_.all.begin(), g.runs_.all.end(), [&](const Run& run) {
    const Operation& op = run.operations[at_];
    return op.attributes.at("start").integers[a] == 0 && op.attributes.at("step").integers[a] == 1 &&
           op.attributes.at("taken").integers[a] == op.inputs[0].size(axis);
  });
}
Name Row::input(std::size_t i) const {
  return g.value(at_, [i](const Operation& op) -> const Tensor& { return op.inputs[i]; });
}
Name Row::operand(std::size_t i) const {
  const Name name = input(i);
  return x(i).dtype() == y().dtype() ? name : g.cast(name, y().dtype());
}
Name Row::tensor(const char* name) const {
  attribute(name);
  return g.value(at_, [name](const Operation& op) -> const Tensor& { return op.attributes.at(name).tensor; });
}
std::vector<Size> Row::explained(const std::function<Integers(const Operation&)>& of) const {
  std::vector<Integers> in_runs;
  for (const Run& run : g.runs_.all) in_runs.push_back(of(run.operations[at_]));
  std::vector<Size> all;
  for (std::size_t i = 0; i < in_runs[0].size(); ++i) {
    Integers one;
    for (const Integers& numbers : in_runs) one.push_back(i < numbers.size() ? numbers[i] : -1);
    all.push_back(g.explained(o, one));
  }
  return all;
}
std::vector<Size> Row::shape(std::size_t output) const {
  return explained([output](const Operation& op) {
    const Shape& s = op.outputs[output].shape();
    return Integers(s.begin(), s.end());
  });
}
Size Row::size(const char* name) const {
  attribute(name);
  return explained([name](const Operation& op) { return Integers{op.attributes.at(name).integer}; })[0];
}
std::vector<Size> Row::list(const char* name) const {
  attribute(name);
  return explained([name](const Operation& op) { return op.attributes.at(name).integers; });
}

// ---- the graph -----------------------------------------------------------------------------------------------------

Graph::Graph(const Layer& model, const Runs& runs, const SaveONNXOptions& options)
    : model_(model), runs_(runs), options_(options), file_(std::make_unique<::onnx::ModelProto>()) {}
Graph::~Graph() = default;

Names Graph::nodes(const char* op, const Names& inputs, std::size_t outputs,
                   const std::map<std::string, Integers>& integers, const std::map<std::string, float>& numbers) {
  ::onnx::NodeProto& n = *file_->mutable_graph()->add_node();
  n.set_op_type(op);
  n.set_name(std::string(op) + '_' + std::to_string(made_));
  for (const Name& input : inputs) n.add_input(input);
  Names names;
  for (std::size_t i = 0; i < outputs; ++i) {
    names.push_back(fresh("value_"));
    n.add_output(names.back());
  }
  for (const auto& [name, values] : integers) {
    auto& a = *n.add_attribute();
    a.set_name(name);
    // A list of one number stands for the number, but in attributes that are lists.
    static const std::unordered_set<std::string> lists{"axes",      "perm",         "strides",       "pads",
                                                       "dilations", "kernel_shape", "output_padding"};
    if (values.size() == 1 && lists.count(name) == 0) {
      a.set_type(::onnx::AttributeProto::INT);
      a.set_i(values[0]);
      continue;
    }
    a.set_type(::onnx::AttributeProto::INTS);
    for (const std::int64_t v : values) a.add_ints(v);
  }
  for (const auto& [name, value] : numbers) {
    auto& a = *n.add_attribute();
    a.set_name(name);
    a.set_type(::onnx::AttributeProto::FLOAT);
    a.set_f(value);
  }
  return names;
}

Name Graph::node(const char* op, const Names& inputs, const std::map<std::string, Integers>& integers,
                 const std::map<std::string, float>& numbers) {
  return nodes(op, inputs, 1, integers, numbers)[0];
}

Name Graph::fresh(const std::string& kind) {
  Name name;
  do name = kind + std::to_string(made_++);
  while (used_.count(name) > 0);
  return name;
}

Name Graph::cast(const Name& x, DType to) { return node("Cast", {x}, {{"to", {type_of(to)}}}); }

Name Graph::constant(const Tensor& x, const Name& name) {
  ::onnx::TensorProto& t = *file_->mutable_graph()->add_initializer();
  t.set_name(name.empty() ? fresh("constant_") : name);
  t.set_data_type(type_of(x.dtype()));
  for (const std::int64_t size : x.shape()) t.add_dims(size);
  t.set_raw_data(x.raw(), static_cast<std::size_t>(x.numel() * size_of(x.dtype())));
  return t.name();
}

Name Graph::number(double value, DType dtype) { return constant(full({}, value, dtype)); }

Name Graph::integers(const Integers& values) {
  Name& name = lists_[values];
  if (name.empty()) name = constant(fit::tensor(values, {static_cast<std::int64_t>(values.size())}));
  return name;
}

Name Graph::reduced(const char* op, const Name& x, const Integers& axes, bool keeps) {
  const Integers kept{keeps ? 1 : 0};
  // The axes of others than ReduceSum became an input in opset 18.
  if (opset() >= 18 || op == std::string("ReduceSum")) return node(op, {x, integers(axes)}, {{"keepdims", kept}});
  return node(op, {x}, {{"axes", axes}, {"keepdims", kept}});
}

Name Graph::free_size(std::size_t axis) {
  Name& name = free_sizes_[axis];
  if (!name.empty()) return name;
  const ONNXAxis& a = runs_.axes[axis];
  const Name shape = node("Shape", {options_.input_names()[a.input]});
  return name = node("Gather", {shape, integers({a.axis})}, {{"axis", {0}}});
}

Name Graph::sizes(const std::vector<Size>& all) {
  Integers known;
  for (const Size& s : all)
    if (s.axes.empty()) known.push_back(s.coefficient);
  if (known.size() == all.size()) return integers(known);
  Names parts;
  for (const Size& s : all) {
    Name part = s.coefficient == 1 && !s.axes.empty() ? Name() : integers({s.coefficient});
    for (const std::size_t axis : s.axes) part = part.empty() ? free_size(axis) : node("Mul", {part, free_size(axis)});
    parts.push_back(part);
  }
  return parts.size() == 1 ? parts[0] : node("Concat", parts, {{"axis", {0}}});
}

Size Graph::explained(const Operation& o, const Integers& in_runs) const {
  const std::int64_t here = in_runs[0];
  const auto differs = [&](std::size_t r) { return in_runs[r] != here; };
  Size s{here, {}};
  const std::vector<std::size_t> values = runs_.of({});
  if (const auto r = std::find_if(values.begin(), values.end(), differs); r != values.end())
    o.fail("has a size or number that depends on the values of the inputs: ", here, ", and ", in_runs[*r],
           " with other inputs");
  for (std::size_t k = 0; k < runs_.axes.size(); ++k) {
    const std::vector<std::size_t> sizes = runs_.of(k);
    const auto other = std::find_if(sizes.begin(), sizes.end(), differs);
    if (other == sizes.end()) continue;
    const std::int64_t size = runs_.size(k, 0);
    const auto is_multiple = [&](std::size_t r) { return here / size * runs_.size(k, r) == in_runs[r]; };
    if (s.coefficient % size != 0 || !std::all_of(sizes.begin(), sizes.end(), is_multiple))
      throw FixedAxis{
          k, joined(o.where(), " has the number ", here, ", and ", in_runs[*other], if_size(runs_, runs_.all[*other]))};
    s.coefficient /= size;
    s.axes.push_back(k);
  }
  return s;
}

// arange(a, b), whose ends depend on free axes.
Name Graph::counted(const Operation& o, const std::vector<Tensor>& in_runs) {
  Integers begins, lengths;
  for (const Tensor& x : in_runs) {
    begins.push_back(slice(x, 0, 0, 1).to_vector<std::int64_t>()[0]);
    lengths.push_back(x.size(0));
  }
  const Name begin = node("Squeeze", {sizes({explained(o, begins)})});
  const Name length = node("Squeeze", {sizes({explained(o, lengths)})});
  return node("Range", {begin, node("Add", {begin, length}), constant(full({}, 1, int64))});
}

// A tensor of one number, whose shape depends on free axes.
Name Graph::filled(const Operation& o, const std::vector<Tensor>& in_runs) {
  std::vector<Size> shape;
  for (int a = 0; a < in_runs[0].rank(); ++a) {
    Integers lengths;
    for (const Tensor& x : in_runs) lengths.push_back(x.size(a));
    shape.push_back(explained(o, lengths));
  }
  return node("Expand", {constant(slice(flatten(in_runs[0]), 0, 0, 1)), sizes(shape)});
}

void Graph::refuse_constant(const Operation& o, const Tensor& x) const {
  o.fail("reads a tensor ", x.shape(), " of ", x.dtype(),
         " that was computed from the inputs without being recorded, and would be a constant in the file: ",
         advice(runs_.all[0].inputs));
}

Name Graph::constant_of(std::size_t at, const std::vector<Tensor>& in_runs) {
  const Operation& o = runs_.all[0].operations[at];
  const Tensor& x = in_runs[0];
  if (is_condition(runs_.all[0], x)) refuse_constant(o, x);
  for (std::size_t r = 1; r < in_runs.size(); ++r) {
    if (same(x, in_runs[r])) continue;
    const std::optional<std::size_t> axis = runs_.all[r].axis;
    if (!axis) refuse_constant(o, x);
    if (std::all_of(in_runs.begin(), in_runs.end(), is_counted)) return counted(o, in_runs);
    if (std::all_of(in_runs.begin(), in_runs.end(), [&](const Tensor& y) { return is_filled(y, x); }))
      return filled(o, in_runs);
    throw FixedAxis{*axis, joined(o.where(), " reads a constant ", x.shape(), " that depends on its size")};
  }
  const auto known = parameters_.extract(x.raw());  // its name is for one constant
  return constant(x, known.empty() ? Name() : known.mapped());
}

Name Graph::value(std::size_t at, const std::function<const Tensor&(const Operation&)>& which) {
  const Tensor& x = which(runs_.all[0].operations[at]);
  if (const auto found = names_.find(x.impl()); found != names_.end()) return found->second;
  if (const auto found = by_elements_.find(elements_of(x)); found != by_elements_.end() && x.numel() > 0)
    return found->second;
  std::vector<Tensor> in_runs;
  for (const Run& run : runs_.all) in_runs.push_back(which(run.operations[at]));
  const Name name = constant_of(at, in_runs);
  names_[x.impl()] = name;
  by_elements_[elements_of(x)] = name;
  return name;
}

void Graph::name_value(const Tensor& x, const Name& name) {
  names_[x.impl()] = name;
  by_elements_[elements_of(x)] = name;
}

std::vector<bool> Graph::needed() const {
  const Run& run = runs_.all[0];
  // The last operation that made a tensor counts: one that consists of others comes after them.
  std::unordered_map<const void*, std::size_t> made_by;
  for (std::size_t at = 0; at < run.operations.size(); ++at)
    for (const Tensor& y : run.operations[at].outputs)
      if (y.defined()) made_by[y.impl()] = at;
  std::vector<bool> needed(run.operations.size());
  const auto need = [&](const Tensor& x) {
    if (!x.defined() || names_.count(x.impl()) > 0) return;
    if (const auto found = made_by.find(x.impl()); found != made_by.end()) needed[found->second] = true;
  };
  for (const Tensor& y : run.outputs) need(y);
  for (std::size_t at = run.operations.size(); at-- > 0;) {
    if (!needed[at]) continue;
    for (const Tensor& x : run.operations[at].inputs) need(x);
    for (const auto& [name, a] : run.operations[at].attributes) need(a.tensor);
  }
  return needed;
}

void Graph::write(std::size_t at) {
  const Operation& o = runs_.all[0].operations[at];
  const Write row = find_row(o.op);
  if (!row) o.fail("has no ONNX form");
  const Names results = row(Row(*this, at));
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (o.outputs[i].version() != o.versions[i])
      o.fail("made a tensor that was changed in place later: ONNX has no such change");
    name_value(o.outputs[i], results[i]);
  }
}

void Graph::describe(::onnx::ValueInfoProto& to, const Name& name,
                     const std::function<const Tensor&(const Run&)>& which) const {
  static const Operation end{"output", "", {}, {}, {}, {}};
  const Tensor& x = which(runs_.all[0]);
  to.set_name(name);
  auto& type = *to.mutable_type()->mutable_tensor_type();
  type.set_elem_type(type_of(x.dtype()));
  type.mutable_shape();  // of a scalar, too
  for (int a = 0; a < x.rank(); ++a) {
    Integers in_runs;
    for (const Run& run : runs_.all) in_runs.push_back(which(run).size(a));
    auto& dim = *type.mutable_shape()->add_dim();
    Size size{-1, {}};
    try {
      size = explained(end, in_runs);
    } catch (const FixedAxis&) {
      continue;  // a sum of free axes has no name
    }
    if (size.axes.empty())
      dim.set_dim_value(size.coefficient);
    else if (size.axes.size() == 1 && size.coefficient == 1)
      dim.set_dim_param(runs_.axes[size.axes[0]].name);
  }
}

void Graph::build() {
  const Run& run = runs_.all[0];
  for (const auto& [name, x] : model_.state_dict())
    if (x.defined()) parameters_.emplace(x.raw(), name), used_.insert(name);
  used_.insert(options_.input_names().begin(), options_.input_names().end());
  used_.insert(options_.output_names().begin(), options_.output_names().end());
  for (std::size_t i = 0; i < run.inputs.size(); ++i) name_value(run.inputs[i], options_.input_names()[i]);
  const std::vector<bool> wanted = needed();
  for (std::size_t at = 0; at < wanted.size(); ++at)
    if (wanted[at]) write(at);
  ::onnx::GraphProto& graph = *file_->mutable_graph();
  for (std::size_t i = 0; i < run.outputs.size(); ++i) {
    const auto found = names_.find(run.outputs[i].impl());
    if (found == names_.end())
      check::fail(save_onnx_op, options_.output_names()[i], " was not computed from the inputs by recorded operations");
    ::onnx::NodeProto& last = *graph.add_node();
    last.set_op_type("Identity");
    last.set_name(options_.output_names()[i]);
    last.add_input(found->second);
    last.add_output(options_.output_names()[i]);
  }
  file_->set_ir_version(opset() >= 23 ? 11 : 8);  // the version of the format that came with these operations
  file_->set_producer_name("fit");
  file_->set_producer_version(FIT_VERSION_STRING);
  file_->add_opset_import()->set_version(opset());
  graph.set_name(model_.name());
  for (std::size_t i = 0; i < run.inputs.size(); ++i)
    describe(*graph.add_input(), options_.input_names()[i], [i](const Run& r) -> const Tensor& { return r.inputs[i]; });
  for (std::size_t i = 0; i < run.outputs.size(); ++i)
    describe(*graph.add_output(), options_.output_names()[i],
             [i](const Run& r) -> const Tensor& { return r.outputs[i]; });
}

std::string Graph::bytes() const {
  constexpr std::size_t limit = INT32_MAX;  // of ONNX's messages
  const std::size_t size = file_->ByteSizeLong();
  if (size > limit)
    check::fail(save_onnx_op, "the file would have ", size, " bytes: an ONNX file holds at most ", limit);
  return file_->SerializeAsString();
}

ONNXInfo Graph::info() const {
  ONNXInfo info;
  info.opset = opset();
  info.free_axes = runs_.axes;
  const auto text = [](const ::onnx::ValueInfoProto& v) {
    const auto& type = v.type().tensor_type();
    std::string s = v.name() + ": ";
    for (const auto& [ours, theirs] : types)
      if (theirs == type.elem_type()) s += name_of(ours);
    s += " [";
    for (int i = 0; i < type.shape().dim_size(); ++i) {
      const auto& d = type.shape().dim(i);
      s += (i > 0 ? ", " : "") + (d.has_dim_value()   ? std::to_string(d.dim_value())
                                  : d.has_dim_param() ? d.dim_param()
                                                      : "?");
    }
    return s + "]";
  };
  for (const auto& v : file_->graph().input()) info.inputs.push_back(text(v));
  for (const auto& v : file_->graph().output()) info.outputs.push_back(text(v));
  return info;
}

}  // namespace fit::nn::onnx
