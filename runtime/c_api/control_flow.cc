// SPDX-License-Identifier: Apache-2.0
// Loops and branches whose parts callbacks record.
#include <fmt/core.h>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/c_api/handles.h"
#include "runtime/trace/record/scope.h"

using namespace plimsoll;
using c_api::guarded;
using c_api::require;
using c_api::unwrap;
using trace::ControlFlow;
using trace::Node;
using trace::NodeRef;

namespace {

// Keeps the context while callbacks may do anything with it.
class Kept {
 public:
  explicit Kept(trace::Context& context) : context_(context) { context_.retain(); }
  ~Kept() { context_.release(); }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

 private:
  trace::Context& context_;
};

// Tensors that are given up at the end.
struct Tensors {
  explicit Tensors(std::size_t count) : handles(count, nullptr) {}
  ~Tensors() {
    for (plm_tensor* handle : handles) plm_tensor_release(handle);
  }
  Tensors(const Tensors&) = delete;
  Tensors& operator=(const Tensors&) = delete;
  std::vector<plm_tensor*> handles;
};

struct Callback {
  const char* what;  // "while: the condition"
  plm_record_function function;
  void* user;
};

std::string shape_text(const Node& node) { return node.shape().to_string(); }

// Runs the callback in a scope of its own on values of these shapes. `check` says what is wrong
// with the outputs.
template <typename Check>
Result<std::shared_ptr<const trace::Region>> record(trace::Context& context,
                                                    const Callback& callback,
                                                    std::span<const ir::Shape> shapes,
                                                    std::size_t output_count,
                                                    std::vector<NodeRef>& captured, Check&& check) {
  trace::Scope scope(context.recording());
  std::vector<Node*> parameters, outputs;
  for (const ir::Shape& shape : shapes) parameters.push_back(scope.parameter(shape));
  Tensors given(0), made(output_count);
  for (Node* parameter : parameters) {
    given.handles.push_back(c_api::wrap(context.make_tensor(parameter)));
  }
  plm_status* const failed = callback.function(
      callback.user, given.handles.data(), given.handles.size(), made.handles.data(), output_count);
  if (failed != nullptr) {
    const Status status(static_cast<StatusCode>(plm_status_code(failed)),
                        fmt::format("{} failed: {}", callback.what, plm_status_message(failed)));
    plm_status_free(failed);
    return status;
  }
  for (std::size_t i = 0; i < output_count; ++i) {
    const plm_tensor* const handle = made.handles[i];
    if (handle == nullptr) {
      return invalid_argument(fmt::format("{} left output {} NULL", callback.what, i));
    }
    if (unwrap(handle)->context != &context) {
      return invalid_argument(
          fmt::format("{} returned a tensor of another context as output {}", callback.what, i));
    }
    Node* node = unwrap(handle)->node;
    if (node->scope == trace::kEnded) {
      return invalid_argument(
          fmt::format("{} returned a value of another callback, which has ended, as output {}",
                      callback.what, i));
    }
    outputs.push_back(node);
  }
  PLIMSOLL_RETURN_IF_ERROR(check(outputs));
  return scope.extract(parameters, outputs, captured);
}

// That a state comes out as it went in.
auto keeps_state(const char* what, std::span<const ir::Shape> state) {
  return [what, state](std::span<Node* const> outputs) -> Status {
    for (std::size_t i = 0; i < state.size(); ++i) {
      const ir::Shape now = outputs[i]->shape();
      if (now == state[i]) continue;
      return invalid_argument(fmt::format(
          "{} makes {} of state {}, which was {} (dtype and dims of a loop's state stay)", what,
          now.to_string(), i, state[i].to_string()));
    }
    return ok_status();
  };
}

std::vector<ir::Shape> shapes_of(std::span<Node* const> nodes) {
  std::vector<ir::Shape> shapes;
  for (const Node* node : nodes) shapes.push_back(node->shape());
  return shapes;
}

std::vector<Node*> joined(std::vector<Node*> nodes, const std::vector<NodeRef>& captured) {
  for (const NodeRef& node : captured) nodes.push_back(node.get());
  return nodes;
}

// The results of a loop or branch, one tensor each.
Status give_all(trace::Context& context, const NodeRef& tuple, std::span<plm_tensor** const> out) {
  std::vector<NodeRef> elements;
  for (std::size_t i = 0; i < out.size(); ++i) {
    PLIMSOLL_ASSIGN_OR_RETURN(auto element,
                              context.recorder().element(tuple.get(), static_cast<int>(i)));
    elements.push_back(std::move(element));
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    *out[i] = c_api::wrap(context.make_tensor(elements[i].get()));
  }
  return ok_status();
}

std::vector<plm_tensor**> places(plm_tensor** first, std::size_t first_count,
                                 plm_tensor** second = nullptr, std::size_t second_count = 0) {
  std::vector<plm_tensor**> all;
  for (std::size_t i = 0; i < first_count; ++i) all.push_back(first + i);
  for (std::size_t i = 0; i < second_count; ++i) all.push_back(second + i);
  return all;
}

constexpr std::size_t kMostValues = std::size_t{1} << 20;

Status start(trace::Context& context, const char* what, std::size_t values) {
  if (values > kMostValues) {
    return invalid_argument(fmt::format("{}: more than {} values", what, kMostValues));
  }
  const Status depth = trace::Scope::check_depth(context.recording());
  if (!depth.ok()) return depth.with_context(what);
  return context.limit_pending();
}

Status record_while(plm_context* handle, plm_record_function condition, plm_record_function body,
                    void* user, const plm_tensor* const* init, std::size_t count,
                    plm_tensor** out) {
  std::vector<Node*> state;
  PLIMSOLL_RETURN_IF_ERROR(c_api::collect_nodes("while: init", handle, init, count, state));
  PLIMSOLL_RETURN_IF_ERROR(require(condition != nullptr && body != nullptr && out != nullptr,
                                   "while: a pointer is NULL"));
  PLIMSOLL_RETURN_IF_ERROR(require(count > 0, "while: there is no state"));
  trace::Context& context = *unwrap(handle);
  const Kept kept(context);
  PLIMSOLL_RETURN_IF_ERROR(start(context, "while", count));
  std::vector<NodeRef> held;
  for (Node* node : state) held.emplace_back(context.recording(), node);
  const std::vector<ir::Shape> shapes = shapes_of(state);
  std::vector<NodeRef> captured;
  ControlFlow loop;
  loop.form = ControlFlow::Form::loop;
  loop.carried = static_cast<int>(count);
  PLIMSOLL_ASSIGN_OR_RETURN(
      auto region, record(context, {"while: the condition", condition, user}, shapes, 1, captured,
                          [](std::span<Node* const> outputs) {
                            if (outputs[0]->shape() == ir::Shape(ir::DType::pred, {}))
                              return ok_status();
                            return invalid_argument("while: the condition is " +
                                                    shape_text(*outputs[0]) + ", must be pred[]");
                          }));
  loop.regions.push_back(std::move(region));
  PLIMSOLL_ASSIGN_OR_RETURN(region, record(context, {"while: the body", body, user}, shapes, count,
                                           captured, keeps_state("while: the body", shapes)));
  loop.regions.push_back(std::move(region));
  const NodeRef made =
      trace::record_control(context.recording(), std::move(loop), joined(state, captured));
  return give_all(context, made, places(out, count));
}

Status record_conditional(plm_context* handle, const plm_tensor* predicate,
                          plm_record_function then_branch, plm_record_function else_branch,
                          void* user, plm_tensor** out, std::size_t out_count) {
  std::vector<Node*> operands;
  PLIMSOLL_RETURN_IF_ERROR(
      c_api::collect_nodes("conditional: the predicate", handle, &predicate, 1, operands));
  PLIMSOLL_RETURN_IF_ERROR(
      require(then_branch != nullptr && else_branch != nullptr && out != nullptr,
              "conditional: a pointer is NULL"));
  PLIMSOLL_RETURN_IF_ERROR(require(out_count > 0, "conditional: there are no results"));
  if (!(operands[0]->shape() == ir::Shape(ir::DType::pred, {}))) {
    return invalid_argument("conditional: the predicate is " + shape_text(*operands[0]) +
                            ", must be pred[]");
  }
  trace::Context& context = *unwrap(handle);
  const Kept kept(context);
  PLIMSOLL_RETURN_IF_ERROR(start(context, "conditional", out_count));
  const NodeRef held(context.recording(), operands[0]);
  std::vector<NodeRef> captured;
  ControlFlow branches;
  branches.form = ControlFlow::Form::branches;
  PLIMSOLL_ASSIGN_OR_RETURN(auto region,
                            record(context, {"conditional: the then branch", then_branch, user}, {},
                                   out_count, captured, [](auto) { return ok_status(); }));
  branches.regions.push_back(region);
  PLIMSOLL_ASSIGN_OR_RETURN(
      region, record(context, {"conditional: the else branch", else_branch, user}, {}, out_count,
                     captured, [&](std::span<Node* const> outputs) -> Status {
                       for (std::size_t i = 0; i < out_count; ++i) {
                         const ir::Shape& other =
                             branches.regions[0]->output_shape(static_cast<int>(i));
                         if (outputs[i]->shape() == other) continue;
                         return invalid_argument(fmt::format(
                             "conditional: result {} is {} of the then branch and {} of the else "
                             "branch, must be alike",
                             i, other.to_string(), shape_text(*outputs[i])));
                       }
                       return ok_status();
                     }));
  branches.regions.push_back(region);
  const NodeRef made =
      trace::record_control(context.recording(), std::move(branches), joined(operands, captured));
  return give_all(context, made, places(out, out_count));
}

struct ScanRequest {
  plm_record_function body;
  void* user;
  std::span<const plm_tensor* const> init, xs;
  plm_scan_options options;
  plm_tensor** last;
  plm_tensor** stacked;
  std::size_t stacked_count;
};

// How many rounds there are.
Result<std::int64_t> scan_length(const ScanRequest& request, std::span<Node* const> xs) {
  std::int64_t length = request.options.length;
  if (length < 0) return invalid_argument(fmt::format("scan: length {} is negative", length));
  if (xs.empty() && length == 0) {
    return invalid_argument("scan: without arrays to go through, the options must say the length");
  }
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const Node& x = *xs[i];
    if (x.rank == 0) {
      return invalid_argument(
          fmt::format("scan: array {} is {}, must have a first dim to go along", i, shape_text(x)));
    }
    const bool is_known = i > 0 || length > 0;
    if (is_known && x.dims()[0] != length) {
      return invalid_argument(
          fmt::format("scan: array {} is {}, must have {} slices", i, shape_text(x), length));
    }
    length = x.dims()[0];
  }
  if (length > std::numeric_limits<std::int32_t>::max()) {
    return invalid_argument(fmt::format("scan: {} rounds are more than 2^31 - 1", length));
  }
  return length;
}

// What is stacked is an array of one dim more.
Status check_stacks(std::span<Node* const> slices, std::int64_t length) {
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const Node& slice = *slices[i];
    if (slice.rank == ir::kMaxRank) {
      return invalid_argument(fmt::format("scan: output {} to stack is {}, rank must be under {}",
                                          i, shape_text(slice), ir::kMaxRank));
    }
    ir::Dims dims = {length};
    for (const std::int64_t dim : slice.dims()) dims.push_back(dim);
    if (!ir::fits_address_space(slice.dtype, dims)) {
      return invalid_argument(
          fmt::format("scan: {} slices of {} are too large", length, shape_text(slice)));
    }
  }
  return ok_status();
}

// No round: the state as it is, and stacks without slices.
Status give_nothing(trace::Context& context, std::span<Node* const> init,
                    const trace::Region& region, std::span<plm_tensor** const> out) {
  std::vector<NodeRef> results;
  for (Node* node : init) results.emplace_back(context.recording(), node);
  for (std::size_t i = init.size(); i < out.size(); ++i) {
    const ir::Shape& slice = region.output_shape(static_cast<int>(i));
    ir::Dims dims = {0};
    for (const std::int64_t dim : slice.dims()) dims.push_back(dim);
    const NodeRef zero = context.recorder().scalar(slice.dtype(), 0, true);
    Node* const operand = zero.get();
    const ir::Shape shape(slice.dtype(), dims);
    PLIMSOLL_ASSIGN_OR_RETURN(
        auto stack,
        context.recorder().record(ir::Opcode::broadcast, {&operand, 1}, nullptr, &shape));
    results.push_back(std::move(stack));
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    *out[i] = c_api::wrap(context.make_tensor(results[i].get()));
  }
  return ok_status();
}

Status record_scan(plm_context* handle, const ScanRequest& request) {
  std::vector<Node*> operands, xs;
  PLIMSOLL_RETURN_IF_ERROR(c_api::collect_nodes("scan: init", handle, request.init.data(),
                                                request.init.size(), operands));
  PLIMSOLL_RETURN_IF_ERROR(
      c_api::collect_nodes("scan: xs", handle, request.xs.data(), request.xs.size(), xs));
  const std::size_t carried = operands.size();
  PLIMSOLL_RETURN_IF_ERROR(require(request.body != nullptr &&
                                       (request.last != nullptr || carried == 0) &&
                                       (request.stacked != nullptr || request.stacked_count == 0),
                                   "scan: a pointer is NULL"));
  PLIMSOLL_RETURN_IF_ERROR(
      require(carried + request.stacked_count > 0, "scan: there is neither a state nor a result"));
  PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t length, scan_length(request, xs));
  trace::Context& context = *unwrap(handle);
  const Kept kept(context);
  PLIMSOLL_RETURN_IF_ERROR(start(context, "scan", carried + xs.size() + request.stacked_count));
  const std::vector<ir::Shape> state = shapes_of(operands);
  std::vector<ir::Shape> shapes = state;
  for (const Node* x : xs) {
    shapes.emplace_back(x->dtype, ir::Dims(x->dims().begin() + 1, x->dims().end()));
  }
  operands.insert(operands.end(), xs.begin(), xs.end());
  std::vector<NodeRef> held;
  for (Node* node : operands) held.emplace_back(context.recording(), node);
  std::vector<NodeRef> captured;
  PLIMSOLL_ASSIGN_OR_RETURN(
      const auto region,
      record(context, {"scan: the body", request.body, request.user}, shapes,
             carried + request.stacked_count, captured,
             [&](std::span<Node* const> outputs) -> Status {
               PLIMSOLL_RETURN_IF_ERROR(keeps_state("scan: the body", state)(outputs));
               return check_stacks(outputs.subspan(carried), length);
             }));
  const std::vector<plm_tensor**> out =
      places(request.last, carried, request.stacked, request.stacked_count);
  if (length == 0) {
    return give_nothing(context, std::span(operands).first(carried), *region, out);
  }
  ControlFlow scan;
  scan.form = ControlFlow::Form::scan;
  scan.reversed = request.options.reverse != 0;
  scan.carried = static_cast<int>(carried);
  scan.scanned = static_cast<int>(xs.size());
  scan.stacked = static_cast<int>(request.stacked_count);
  scan.length = length;
  scan.regions = {region};
  const NodeRef made =
      trace::record_control(context.recording(), std::move(scan), joined(operands, captured));
  return give_all(context, made, out);
}

}  // namespace

extern "C" {

plm_status* plm_while(plm_context* context, plm_record_function condition, plm_record_function body,
                      void* user, const plm_tensor* const* init, size_t count, plm_tensor** out) {
  return guarded(context,
                 [&] { return record_while(context, condition, body, user, init, count, out); });
}

plm_status* plm_conditional(plm_context* context, const plm_tensor* predicate,
                            plm_record_function then_branch, plm_record_function else_branch,
                            void* user, plm_tensor** out, size_t out_count) {
  return guarded(context, predicate, [&] {
    return record_conditional(context, predicate, then_branch, else_branch, user, out, out_count);
  });
}

plm_status* plm_scan(plm_context* context, plm_record_function body, void* user,
                     const plm_tensor* const* init, size_t init_count, const plm_tensor* const* xs,
                     size_t xs_count, const plm_scan_options* options, plm_tensor** last,
                     plm_tensor** stacked, size_t stacked_count) {
  return guarded(context, [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(
        require((init != nullptr || init_count == 0) && (xs != nullptr || xs_count == 0),
                "scan: a list of tensors is NULL"));
    PLIMSOLL_ASSIGN_OR_RETURN(const plm_scan_options known, c_api::read_options(options));
    return record_scan(
        context,
        {body, user, {init, init_count}, {xs, xs_count}, known, last, stacked, stacked_count});
  });
}

}  // extern "C"
