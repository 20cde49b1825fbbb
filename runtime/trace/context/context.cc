// SPDX-License-Identifier: Apache-2.0
#include "runtime/trace/context/context.h"

#include <fmt/core.h>
#include <algorithm>
#include <cstring>
#include <new>

#include "runtime/backend/backends.h"
#include "runtime/base/alignment.h"
#include "runtime/base/byte_size.h"
#include "runtime/base/random_bits.h"
#include "runtime/device/devices.h"
#include "runtime/ir/truths.h"

namespace plimsoll::trace {

namespace {

// What a tensor that is assigned to holds is where gradients begin from then on, whatever it was
// computed from.
void start_anew(const Tensor& holder, Node& value) {
  value.flags &= static_cast<std::uint8_t>(~kDerived);
  if (holder.is_variable) value.flags |= kVariable;
}

}  // namespace

Result<std::unique_ptr<Context>> Context::create(ContextOptions options) {
  PLIMSOLL_RETURN_IF_ERROR(device::check_device());
  const std::shared_ptr<device::Device> device = device::default_device();
  PLIMSOLL_ASSIGN_OR_RETURN(auto provider, backend::create_kernels(device));
  auto compiler =
      std::make_shared<const executor::ProgramCompiler>(std::move(provider), options.compilation);
  compiler->set_link_speeds(options.tiers);
  auto budget = memory::Budget::create(device, options.limit_bytes, options.tiers);
  return std::unique_ptr<Context>(
      new Context(std::move(options), std::move(budget), std::move(compiler)));
}

namespace {

std::int64_t participants_of(const ContextOptions& options) {
  return options.communicator == nullptr ? 0 : options.communicator->communicator->participants();
}

}  // namespace

Context::Context(ContextOptions options, std::shared_ptr<memory::Budget> budget,
                 std::shared_ptr<const executor::ProgramCompiler> compiler)
    : options_(std::move(options)),
      budget_(std::move(budget)),
      compiler_(std::move(compiler)),
      recorder_(recording_, participants_of(options_)),
      cache_(compiler_, budget_, options_.replan_drift, recorder_.participants()),
      next_pending_limit_(options_.max_pending),
      live_(budget_, worker_, options_.planning),
      worker_(budget_, options_.communicator) {
  recording_.on_discard([this](Value& value) { live_.discard(value); });
}

Context::~Context() { assignments_.clear(); }

NodeRef Context::from_host(const ir::Shape& shape, std::span<const std::byte> bytes) {
  auto value = std::make_shared<Value>();
  value->bytes = static_cast<std::int64_t>(bytes.size());
  value->on_host = true;
  value->host.assign(bytes.begin(), bytes.end());
  if (shape.dtype() == ir::DType::pred) ir::make_truths(value->host);
  return recorder_.leaf(shape, std::move(value));
}

NodeRef Context::from_device(const ir::Shape& shape, memory::Allocation allocation) {
  auto value = std::make_shared<Value>();
  value->bytes = aligned_bytes(shape.byte_size());
  value->element_bytes = ir::dtype_bytes(shape.dtype());
  value->device = std::move(allocation);
  live_.add_source(value);
  return recorder_.leaf(shape, std::move(value));
}

NodeRef Context::random_state() {
  const std::uint64_t state[2] = {mix_bits(mix_bits(options_.seed) + ++random_counter_), 0};
  return from_host(ir::Shape(ir::DType::u64, {2}), std::as_bytes(std::span(state)));
}

Tensor* Context::make_tensor(Node* node) {
  std::uint8_t size_class = 0;
  void* block = recording_.pool().allocate(sizeof(Tensor), size_class);
  auto* tensor = new (block) Tensor{this, node, 1, size_class};
  recording_.retain(node);
  ++node->handles;
  if (live_tensors_++ == 0) retain();
  return tensor;
}

void Context::release_tensor(Tensor* tensor) {
  --tensor->node->handles;
  recording_.release(tensor->node);
  recording_.pool().release(tensor, tensor->size_class);
  if (--live_tensors_ == 0) release();
}

void Context::set_name(Node* node, std::string_view name) {
  if (name.empty()) {
    node->name = 0;
    return;
  }
  const auto [it, inserted] = name_index_.emplace(name, static_cast<std::uint32_t>(names_.size()));
  if (inserted) names_.emplace_back(name);
  node->name = it->second;
}

void Context::set_variable(Tensor& tensor, bool is_variable) {
  tensor.is_variable = is_variable;
  tensor.node->flags &= static_cast<std::uint8_t>(~kVariable);
  start_anew(tensor, *tensor.node);
}

// A variable's new value usually is made from its old one (w = w - rate * g), and the old one is of
// no use afterwards. Remembering the pair lets the cut donate: the old value's memory is given to
// the program, which writes the new one into it. The reference kept here is the only one that the
// user has not asked for, and it is taken out of account when donations are looked for
// (find_donations).
Status Context::assign(Tensor& variable, Node* value) {
  PLIMSOLL_RETURN_IF_ERROR(check_outside("assign", std::span(&value, 1)));
  const NodeRef old(recording_, variable.node);
  if (old.get() == value) return ok_status();
  PLIMSOLL_RETURN_IF_ERROR(assign_recipe(variable, value));
  if (value->is_pending()) {
    const bool donates = !old->is_pending() && !old->value->on_host;
    assignments_.push_back({NodeRef(recording_, value), donates ? old : NodeRef()});
  }
  return ok_status();
}

Status Context::assign_recipe(Tensor& variable, Node* value) {
  PLIMSOLL_RETURN_IF_ERROR(check_outside("assign", std::span(&value, 1)));
  Node* old = variable.node;
  if (old == value) return ok_status();
  if (!(old->shape() == value->shape())) {
    return invalid_argument("assign: the variable is " + old->shape().to_string() + ", the value " +
                            value->shape().to_string());
  }
  if (value->name == 0) value->name = old->name;
  start_anew(variable, *value);
  recording_.retain(value);
  ++value->handles;
  variable.node = value;
  --old->handles;
  recording_.release(old);
  return ok_status();
}

Status Context::check_outside(std::string_view what, std::span<Node* const> nodes) const {
  if (recording_.depth() > 0) {
    return failed_precondition(std::string(what) +
                               ": inside a callback that records a loop or branch (its values are "
                               "known only when that runs)");
  }
  for (const Node* node : nodes) {
    if (node->scope == kEnded) {
      return failed_precondition(std::string(what) + ": " + node->shape().to_string() +
                                 " was recorded in the callback of a loop or branch, which has "
                                 "ended (return it from the callback)");
    }
  }
  return ok_status();
}

Status Context::limit_pending() {
  if (recording_.depth() > 0) return ok_status();  // what a callback records is one operation
  if (recording_.pending_count() < next_pending_limit_) return ok_status();
  std::vector<Node*> live;
  for (Node* node = recording_.oldest(); node != nullptr; node = node->next) {
    if (node->handles > 0 && node->opcode != ir::Opcode::constant) live.push_back(node);
  }
  const Status status = evaluate(live);
  // What stays pending (constants; everything after an error) must not bring the next operation
  // here again.
  next_pending_limit_ = recording_.pending_count() + options_.max_pending;
  return status.ok() ? status : status.with_context("cutting a long trace");
}

// What a cut computes beside what was asked for: the new values of all assigned variables, so that
// a training step is one program, and everything that still has a handle and needs a value that is
// about to be donated, since it could never be computed later.
std::vector<Node*> Context::pick_outputs(std::span<Node* const> wanted,
                                         std::vector<Node*>& old_leaves) {
  std::vector<Node*> candidates(wanted.begin(), wanted.end());
  for (const Assignment& assignment : assignments_) {
    if (assignment.value->handles > 0) candidates.push_back(assignment.value.get());
    if (assignment.old) old_leaves.push_back(assignment.old.get());
  }
  std::vector<Node*> given_away;
  for (Node* leaf : old_leaves) {
    if (leaf->handles == 0) given_away.push_back(leaf);
  }
  const std::vector<Node*> dependants = live_dependants(recording_, given_away, candidates);
  candidates.insert(candidates.end(), dependants.begin(), dependants.end());
  std::vector<Node*> outputs;
  const std::uint32_t epoch = recording_.new_epoch();
  for (Node* node : candidates) {
    if (!node->is_pending() || node->epoch == epoch) continue;
    node->epoch = epoch;
    outputs.push_back(node);
  }
  return outputs;
}

void Context::set_limit(std::int64_t limit_bytes) {
  if (limit_bytes < budget_->limit()) worker_.wait_for_submitted();
  budget_->set_limit(limit_bytes);
}

Status Context::upload(Node* leaf) {
  const std::span<const std::byte> bytes(leaf->value->host);
  const auto size = static_cast<std::int64_t>(bytes.size());
  const std::string what = "tensor " + leaf->shape().to_string();
  (void)live_.make_room(aligned_bytes(size));  // the allocation says what is missing
  // Under a limit nothing may be taken ahead of what has been submitted.
  if (live_.limit() != planner::kUnlimited) worker_.wait_idle();
  auto allocation = budget_->allocate(size, memory::Tag::parameters, what);
  if (!allocation.ok() && allocation.status().shortage() != nullptr) {
    // The memory may be in use only until what runs has ended.
    PLIMSOLL_RETURN_IF_ERROR(worker_.wait_all());
    allocation = budget_->admission().allocate(size, memory::Tag::parameters, what);
  }
  PLIMSOLL_RETURN_IF_ERROR(allocation.status());
  PLIMSOLL_ASSIGN_OR_RETURN(const auto stream, budget_->device().create_stream());
  PLIMSOLL_RETURN_IF_ERROR(
      stream->copy(allocation->data(), bytes.data(), size, device::CopyKind::host_to_device));
  PLIMSOLL_RETURN_IF_ERROR(stream->synchronize());
  auto value = std::make_shared<Value>();
  value->bytes = aligned_bytes(size);
  value->element_bytes = ir::dtype_bytes(leaf->shape().dtype());
  value->device = std::move(*allocation);
  live_.add_source(value);
  leaf->value = std::move(value);
  return ok_status();
}

Status Context::pin(Node* leaf) {
  live_.follow_limit();
  PLIMSOLL_RETURN_IF_ERROR(live_.recover());
  Status status = live_.pin(std::span(&leaf->value, 1));
  if (status.code() == StatusCode::resource_exhausted && status.shortage() == nullptr) {
    return refuse_pin(leaf, status);
  }
  PLIMSOLL_RETURN_IF_ERROR(status);
  status = worker_.wait(leaf->value);
  if (status.ok() && !live_.is_there(*leaf->value)) {
    // What failed before it could be made, and was thought to be there.
    unpin(leaf);
    worker_.wait_idle();
    live_.reconcile(leaf->value);
    PLIMSOLL_RETURN_IF_ERROR(live_.pin(std::span(&leaf->value, 1)));
    status = worker_.wait(leaf->value);
  }
  if (!status.ok()) unpin(leaf);
  return status;
}

void Context::unpin(Node* leaf) { live_.unpin(std::span(&leaf->value, 1)); }

Status Context::make_room(std::int64_t bytes) {
  live_.follow_limit();
  return live_.make_room(bytes);
}

Status Context::read(Node* node, std::span<std::byte> out) {
  PLIMSOLL_RETURN_IF_ERROR(check_outside("read", std::span(&node, 1)));
  const auto size = static_cast<std::size_t>(node->byte_size());
  if (out.size() != size) {
    return invalid_argument(fmt::format("read: {} bytes for {}, must be {}", out.size(),
                                        node->shape().to_string(), size));
  }
  if (node->is_pending() && node->opcode == ir::Opcode::constant) {
    std::memcpy(out.data(), node->words().data(), size);
    return ok_status();
  }
  if (node->is_pending()) PLIMSOLL_RETURN_IF_ERROR(evaluate(std::span(&node, 1)));
  PLIMSOLL_RETURN_IF_ERROR(pin(node));
  struct Pin {
    Context& context;
    Node* node;
    ~Pin() { context.unpin(node); }
  } pinned{*this, node};
  if (size == 0) return ok_status();
  if (node->value->on_host) {
    std::memcpy(out.data(), node->value->host.data(), size);
    return ok_status();
  }
  PLIMSOLL_ASSIGN_OR_RETURN(const auto stream, budget_->device().create_stream());
  PLIMSOLL_RETURN_IF_ERROR(stream->copy(out.data(), node->value->device.data(),
                                        static_cast<std::int64_t>(size),
                                        device::CopyKind::device_to_host));
  return stream->synchronize();
}

std::unique_ptr<ir::Module> Context::module_of(std::span<Node* const> wanted) {
  std::vector<Node*> outputs;
  const std::uint32_t epoch = recording_.new_epoch();
  for (Node* node : wanted) {
    if (!node->is_pending() || node->epoch == epoch) continue;
    node->epoch = epoch;
    outputs.push_back(node);
  }
  Cut cut;
  make_cut(recording_, outputs, {}, cut);
  return build_module(cut, std::vector<bool>(cut.constants.size(), false), names_,
                      recorder_.participants());
}

void Context::log(LogLevel level, std::string_view line) const {
  if (options_.log != nullptr) options_.log(level, line);
  // The caller gets errors as statuses: the process's own log need not print them by default.
  if (logs(LogLevel::info)) log_line(LogLevel::info, line);
}

void Context::log_cut() const {
  if (options_.log == nullptr && !logs(LogLevel::info)) return;
  const planner::Plan& plan = last_cut_.executable->plan();
  std::string line = "cut " + std::to_string(counts_.cuts) + ": " +
                     std::to_string(last_cut_.operations) + " ops, peak " +
                     format_bytes(plan.peak_bytes);
  line += last_cut_.limit_bytes == planner::kUnlimited
              ? ", no limit"
              : ", limit " + format_bytes(last_cut_.limit_bytes);
  line += last_cut_.hit ? ", cached" : ", compiled: " + last_cut_.miss_reason;
  log(LogLevel::info, line);
}

}  // namespace plimsoll::trace
