// SPDX-License-Identifier: Apache-2.0
#include "runtime/c_api/op_attributes.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <string>

#include "runtime/base/index.h"
#include "runtime/ir/participants.h"

namespace plimsoll::c_api {
namespace {

using ir::Opcode;
using Ints = std::vector<std::int64_t>;

// Lists longer than this mean nothing; the recorder says so with the operation's name.
constexpr std::size_t kLongest = ir::kMaxRank + 1;

constexpr std::size_t kMostMembers = ir::kMostParticipants + 1;

Ints list(const plm_ints& in, std::size_t most = kLongest) {
  if (in.data == nullptr) return {};
  return Ints(in.data, in.data + std::min(in.size, most));
}

struct NamedList {
  const char* name;
  plm_ints list;
};

class Converter {
 public:
  Converter(const plm_op_attributes& in, trace::Recorder& recorder, OpRequest& request)
      : in_(in), recorder_(recorder), request_(request), out_(request.op.attributes) {}

  Status run();

 private:
  std::string name() const { return std::string(ir::to_string(request_.opcode)); }
  Status error(const std::string& what) const { return invalid_argument(name() + ": " + what); }
  const trace::Node& operand(std::size_t i) const { return *request_.operands[i]; }
  Status need(std::size_t count) const {
    if (request_.operands.size() >= count) return ok_status();
    return error(std::to_string(request_.operands.size()) + " operands, must have " +
                 std::to_string(count));
  }
  // A list without data is empty; one that says otherwise is a mistake.
  Status check(std::span<const NamedList> lists) const;
  Status check_lists() const;
  Status take_shape(int dtype) {
    PLIMSOLL_ASSIGN_OR_RETURN(
        request_.given, make_tensor_shape(name().c_str(), dtype, in_.shape.data, in_.shape.size));
    return ok_status();
  }
  void append_scalar(ir::DType dtype, double value) {
    request_.added.push_back(recorder_.scalar(dtype, value, true));
    request_.operands.push_back(request_.added.back().get());
  }
  Result<Opcode> combiner() const;
  Status take_reduction(std::size_t given_operands);
  Status take_window(std::size_t spatial, const Ints& sizes);
  Status pad();
  Status bitcast_convert();
  Status dot();
  Status convolution();
  Status gather();
  Status scatter();
  Status row_dimension(std::int64_t& dim) const;
  Status sum_over_participants();
  Status broadcast_from_root();
  Result<ir::Groups> groups() const;
  Status set_groups(ir::Groups groups);
  Status take_groups();

  const plm_op_attributes& in_;
  trace::Recorder& recorder_;
  OpRequest& request_;
  ir::Attributes& out_;
};

Result<Opcode> Converter::combiner() const {
  switch (static_cast<int>(in_.reduction)) {
    case PLM_REDUCE_SUM:
      return Opcode::add;
    case PLM_REDUCE_PRODUCT:
      return Opcode::multiply;
    case PLM_REDUCE_MAX:
      return Opcode::maximum;
    case PLM_REDUCE_MIN:
      return Opcode::minimum;
    case PLM_REDUCE_AND:
      return Opcode::and_;
    case PLM_REDUCE_OR:
      return Opcode::or_;
    default:
      return error("reduction " + std::to_string(in_.reduction) + " is not possible here");
  }
}

double identity(Opcode combiner, ir::DType dtype) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (combiner) {
    case Opcode::multiply:
      return 1;
    case Opcode::maximum:
      return dtype == ir::DType::pred ? 0 : -kInfinity;
    case Opcode::minimum:
      return kInfinity;
    case Opcode::and_:
      // All bits set.
      return ir::dtype_class(dtype) == ir::DTypeClass::signed_int ? -1 : kInfinity;
    default:
      return 0;
  }
}

Status Converter::take_reduction(std::size_t given_operands) {
  PLIMSOLL_RETURN_IF_ERROR(need(given_operands));
  PLIMSOLL_ASSIGN_OR_RETURN(const Opcode combiner_opcode, combiner());
  request_.op.callee.kind = trace::Callee::Kind::combine;
  request_.op.callee.combiner = combiner_opcode;
  if (request_.operands.size() == given_operands) {
    const ir::DType dtype = operand(0).dtype;
    append_scalar(dtype, identity(combiner_opcode, dtype));
  }
  return ok_status();
}

Status Converter::take_window(std::size_t spatial, const Ints& sizes) {
  const struct {
    const char* what;
    Ints values;
    std::int64_t ir::WindowDimension::* field;
  } lists[] = {
      {"window_size", sizes, &ir::WindowDimension::size},
      {"window_strides", list(in_.window_strides), &ir::WindowDimension::stride},
      {"padding_low", list(in_.padding_low), &ir::WindowDimension::padding_low},
      {"padding_high", list(in_.padding_high), &ir::WindowDimension::padding_high},
      {"base_dilation", list(in_.base_dilation), &ir::WindowDimension::base_dilation},
      {"window_dilation", list(in_.window_dilation), &ir::WindowDimension::window_dilation},
  };
  out_.window.resize(spatial);
  for (const auto& row : lists) {
    if (row.values.empty()) continue;
    if (row.values.size() != spatial) {
      return error(std::string(row.what) + " has " + std::to_string(row.values.size()) +
                   " numbers, must have " + std::to_string(spatial));
    }
    for (std::size_t i = 0; i < spatial; ++i) out_.window[i].*row.field = row.values[i];
  }
  const Ints reversal = list(in_.window_reversal);
  for (std::size_t i = 0; i < std::min(spatial, reversal.size()); ++i) {
    out_.window[i].reversal = reversal[i] != 0;
  }
  return ok_status();
}

Status Converter::pad() {
  PLIMSOLL_RETURN_IF_ERROR(need(1));
  const std::size_t rank = operand(0).rank;
  out_.padding.resize(rank);
  const struct {
    const char* what;
    Ints values;
    std::int64_t ir::PaddingDimension::* field;
  } lists[] = {{"padding_low", list(in_.padding_low), &ir::PaddingDimension::low},
               {"padding_high", list(in_.padding_high), &ir::PaddingDimension::high},
               {"padding_interior", list(in_.padding_interior), &ir::PaddingDimension::interior}};
  for (const auto& row : lists) {
    if (row.values.empty()) continue;
    if (row.values.size() != rank) {
      return error(std::string(row.what) + " has " + std::to_string(row.values.size()) +
                   " numbers, must have " + std::to_string(rank));
    }
    for (std::size_t i = 0; i < rank; ++i) out_.padding[i].*row.field = row.values[i];
  }
  if (request_.operands.size() == 1) append_scalar(operand(0).dtype, 0);
  return ok_status();
}

Status Converter::bitcast_convert() {
  PLIMSOLL_RETURN_IF_ERROR(need(1));
  PLIMSOLL_RETURN_IF_ERROR(check_tensor_dtype(name(), in_.dtype));
  const auto to = static_cast<ir::DType>(in_.dtype);
  Ints dims(operand(0).dims().begin(), operand(0).dims().end());
  const int from_bytes = ir::dtype_bytes(operand(0).dtype);
  const int to_bytes = ir::dtype_bytes(to);
  if (from_bytes > to_bytes) dims.push_back(from_bytes / to_bytes);
  if (from_bytes < to_bytes && !dims.empty()) dims.pop_back();
  if (dims.size() > static_cast<std::size_t>(ir::kMaxRank)) return error("rank is too high");
  request_.given = ir::Shape(to, ir::Dims(dims));
  return ok_status();
}

Status Converter::dot() {
  PLIMSOLL_RETURN_IF_ERROR(need(2));
  auto d = std::make_shared<ir::DotDimensions>();
  d->lhs_contracting = list(in_.lhs_contracting);
  d->rhs_contracting = list(in_.rhs_contracting);
  d->lhs_batch = list(in_.lhs_batch);
  d->rhs_batch = list(in_.rhs_batch);
  const bool by_default = d->lhs_contracting.empty() && d->rhs_contracting.empty() &&
                          d->lhs_batch.empty() && d->rhs_batch.empty();
  const int left = operand(0).rank;
  const int right = operand(1).rank;
  if (by_default && left > 0 && right > 0) {
    d->lhs_contracting = {left - 1};
    d->rhs_contracting = {std::max(0, right - 2)};
    for (int i = 0; i < std::min(left, right) - 2 && left == right; ++i) {
      d->lhs_batch.push_back(i);
      d->rhs_batch.push_back(i);
    }
  }
  out_.dot = std::move(d);
  return ok_status();
}

Status Converter::convolution() {
  PLIMSOLL_RETURN_IF_ERROR(need(2));
  auto d = std::make_shared<ir::ConvolutionDimensions>();
  if (in_.convolution != nullptr) {
    const plm_convolution_dims& c = *in_.convolution;
    d->input_batch = c.input_batch;
    d->input_feature = c.input_feature;
    d->kernel_input_feature = c.kernel_input_feature;
    d->kernel_output_feature = c.kernel_output_feature;
    d->output_batch = c.output_batch;
    d->output_feature = c.output_feature;
    d->input_spatial = list(c.input_spatial);
    d->kernel_spatial = list(c.kernel_spatial);
    d->output_spatial = list(c.output_spatial);
  } else {
    const std::int64_t rank = operand(0).rank;
    if (rank < 2 || operand(1).rank != rank) {
      return error("the input has rank " + std::to_string(rank) + ", the kernel " +
                   std::to_string(operand(1).rank) + "; both must be spatial + 2");
    }
    d->input_feature = d->output_feature = d->kernel_output_feature = rank - 1;
    d->kernel_input_feature = rank - 2;
    for (std::int64_t i = 0; i < rank - 2; ++i) {
      d->input_spatial.push_back(i + 1);
      d->kernel_spatial.push_back(i);
      d->output_spatial.push_back(i + 1);
    }
  }
  Ints sizes;
  for (const std::int64_t dim : d->kernel_spatial) {
    if (dim < 0 || dim >= operand(1).rank) {
      return error("kernel_spatial names dim " + std::to_string(dim) + " of a kernel of rank " +
                   std::to_string(operand(1).rank));
    }
    sizes.push_back(operand(1).dims()[at(dim)]);
  }
  out_.convolution = std::move(d);
  out_.feature_group_count = in_.feature_group_count == 0 ? 1 : in_.feature_group_count;
  out_.batch_group_count = in_.batch_group_count == 0 ? 1 : in_.batch_group_count;
  return take_window(sizes.size(), sizes);
}

Status Converter::row_dimension(std::int64_t& dim) const {
  const Ints dims = list(in_.dimensions);
  dim = dims.empty() ? 0 : dims[0];
  if (dims.size() > 1 || dim < 0 || dim >= operand(0).rank) {
    return error("dimensions must name one dim of " + operand(0).shape().to_string());
  }
  return ok_status();
}

Status Converter::gather() {
  PLIMSOLL_RETURN_IF_ERROR(need(2));
  auto g = std::make_shared<ir::GatherDimensions>();
  if (in_.gather != nullptr) {
    g->offset_dims = list(in_.gather->offset_dims);
    g->collapsed_slice_dims = list(in_.gather->collapsed_slice_dims);
    g->start_index_map = list(in_.gather->start_index_map);
    g->operand_batching_dims = list(in_.gather->operand_batching_dims);
    g->start_indices_batching_dims = list(in_.gather->start_indices_batching_dims);
    g->index_vector_dim = in_.gather->index_vector_dim;
    out_.slice_sizes = list(in_.slice_sizes);
  } else {
    std::int64_t row = 0;
    PLIMSOLL_RETURN_IF_ERROR(row_dimension(row));
    const trace::Node& array = operand(0);
    const std::int64_t added = operand(1).rank;
    out_.slice_sizes.assign(array.dims().begin(), array.dims().end());
    out_.slice_sizes[at(row)] = 1;
    g->collapsed_slice_dims = g->start_index_map = {row};
    for (std::int64_t i = 0; i < array.rank; ++i) {
      if (i != row) g->offset_dims.push_back(i < row ? i : i - 1 + added);
    }
    g->index_vector_dim = added;
  }
  out_.gather = std::move(g);
  return ok_status();
}

Status Converter::scatter() {
  PLIMSOLL_RETURN_IF_ERROR(need(3));
  auto s = std::make_shared<ir::ScatterDimensions>();
  if (in_.scatter != nullptr) {
    s->update_window_dims = list(in_.scatter->update_window_dims);
    s->inserted_window_dims = list(in_.scatter->inserted_window_dims);
    s->scatter_dims_to_operand_dims = list(in_.scatter->scatter_dims_to_operand_dims);
    s->input_batching_dims = list(in_.scatter->input_batching_dims);
    s->scatter_indices_batching_dims = list(in_.scatter->scatter_indices_batching_dims);
    s->index_vector_dim = in_.scatter->index_vector_dim;
  } else {
    std::int64_t row = 0;
    PLIMSOLL_RETURN_IF_ERROR(row_dimension(row));
    const std::int64_t added = operand(1).rank;
    s->inserted_window_dims = s->scatter_dims_to_operand_dims = {row};
    for (std::int64_t i = 0; i < operand(0).rank; ++i) {
      if (i != row) s->update_window_dims.push_back(i < row ? i : i - 1 + added);
    }
    s->index_vector_dim = added;
  }
  out_.scatter = std::move(s);
  if (in_.reduction == PLM_REDUCE_REPLACE) {
    request_.op.callee.kind = trace::Callee::Kind::replace;
    return ok_status();
  }
  PLIMSOLL_ASSIGN_OR_RETURN(request_.op.callee.combiner, combiner());
  request_.op.callee.kind = trace::Callee::Kind::combine;
  return ok_status();
}

Status Converter::check(std::span<const NamedList> lists) const {
  for (const NamedList& each : lists) {
    if (each.list.data != nullptr || each.list.size == 0) continue;
    return error(std::string(each.name) + " is NULL with a size of " +
                 std::to_string(each.list.size));
  }
  return ok_status();
}

Status Converter::check_lists() const {
  const NamedList own[] = {{"dimensions", in_.dimensions},
                           {"shape", in_.shape},
                           {"starts", in_.starts},
                           {"limits", in_.limits},
                           {"strides", in_.strides},
                           {"slice_sizes", in_.slice_sizes},
                           {"padding_low", in_.padding_low},
                           {"padding_high", in_.padding_high},
                           {"padding_interior", in_.padding_interior},
                           {"window_size", in_.window_size},
                           {"window_strides", in_.window_strides},
                           {"base_dilation", in_.base_dilation},
                           {"window_dilation", in_.window_dilation},
                           {"window_reversal", in_.window_reversal},
                           {"lhs_contracting", in_.lhs_contracting},
                           {"rhs_contracting", in_.rhs_contracting},
                           {"lhs_batch", in_.lhs_batch},
                           {"rhs_batch", in_.rhs_batch},
                           {"groups", in_.groups},
                           {"group_sizes", in_.group_sizes}};
  PLIMSOLL_RETURN_IF_ERROR(check(own));
  if (const plm_convolution_dims* dims = in_.convolution) {
    const NamedList lists[] = {{"input_spatial", dims->input_spatial},
                               {"kernel_spatial", dims->kernel_spatial},
                               {"output_spatial", dims->output_spatial}};
    PLIMSOLL_RETURN_IF_ERROR(check(lists));
  }
  if (const plm_gather_dims* dims = in_.gather) {
    const NamedList lists[] = {{"offset_dims", dims->offset_dims},
                               {"collapsed_slice_dims", dims->collapsed_slice_dims},
                               {"start_index_map", dims->start_index_map},
                               {"operand_batching_dims", dims->operand_batching_dims},
                               {"start_indices_batching_dims", dims->start_indices_batching_dims}};
    PLIMSOLL_RETURN_IF_ERROR(check(lists));
  }
  if (const plm_scatter_dims* dims = in_.scatter) {
    const NamedList lists[] = {
        {"update_window_dims", dims->update_window_dims},
        {"inserted_window_dims", dims->inserted_window_dims},
        {"scatter_dims_to_operand_dims", dims->scatter_dims_to_operand_dims},
        {"input_batching_dims", dims->input_batching_dims},
        {"scatter_indices_batching_dims", dims->scatter_indices_batching_dims}};
    PLIMSOLL_RETURN_IF_ERROR(check(lists));
  }
  return ok_status();
}

// Empty where all meet.
Result<ir::Groups> Converter::groups() const {
  const Ints members = list(in_.groups, kMostMembers);
  Ints sizes = list(in_.group_sizes, kMostMembers);
  if (members.empty()) {
    if (!sizes.empty()) return error("group_sizes without groups");
    return ir::Groups();
  }
  if (sizes.empty()) sizes = {std::ssize(members)};
  ir::Groups groups;
  auto next = members.begin();
  for (const std::int64_t size : sizes) {
    if (size < 1 || size > members.end() - next) {
      return error("group_sizes: a group of " + std::to_string(size) + " participants, of " +
                   std::to_string(members.end() - next) + " that groups still lists");
    }
    groups.emplace_back(next, next + size);
    next += size;
  }
  if (next != members.end()) {
    return error("groups lists " + std::to_string(members.size()) +
                 " participants, more than group_sizes has room for");
  }
  return groups;
}

// Everybody is in one of them: who is in none would record an operation that it has no part in.
Status Converter::set_groups(ir::Groups groups) {
  // Without others the recorder says so.
  if (groups.empty() || recorder_.participants() == 0) return ok_status();
  std::vector<bool> seen(at(recorder_.participants()), false);
  for (const auto& group : groups) {
    for (const std::int64_t member : group) {
      if (member < 0 || member >= std::ssize(seen)) {
        return error("groups: there is no participant " + std::to_string(member) + " of " +
                     std::to_string(seen.size()));
      }
      if (seen[at(member)]) {
        return error("groups: participant " + std::to_string(member) + " is named twice");
      }
      seen[at(member)] = true;
    }
  }
  const auto left = std::find(seen.begin(), seen.end(), false);
  if (left != seen.end()) {
    return error("groups: participant " + std::to_string(left - seen.begin()) +
                 " is in none (a group of its own keeps it out)");
  }
  auto collective = std::make_shared<ir::CollectiveAttributes>();
  collective->replica_groups = std::move(groups);
  out_.collective = std::move(collective);
  return ok_status();
}

Status Converter::take_groups() {
  PLIMSOLL_ASSIGN_OR_RETURN(ir::Groups given, groups());
  return set_groups(std::move(given));
}

Status Converter::sum_over_participants() {
  PLIMSOLL_ASSIGN_OR_RETURN(request_.op.callee.combiner, combiner());
  request_.op.callee.kind = trace::Callee::Kind::combine;
  return take_groups();
}

// The first of a group is the one whose value it is.
Status Converter::broadcast_from_root() {
  PLIMSOLL_ASSIGN_OR_RETURN(ir::Groups given, groups());
  const bool in_groups = !given.empty();
  if (!in_groups) {
    std::vector<std::int64_t>& all = given.emplace_back(at(recorder_.participants()));
    std::iota(all.begin(), all.end(), 0);
  }
  for (auto& group : given) {
    if (in_.root < 0 || in_.root >= std::max<std::int64_t>(std::ssize(group), 1)) {
      return error("there is no participant " + std::to_string(in_.root) + " of " +
                   std::to_string(group.size()) + (in_groups ? " in a group" : ""));
    }
    std::rotate(group.begin(), group.begin() + in_.root,
                group.begin() + std::min(in_.root + 1, std::ssize(group)));
  }
  if (!in_groups && in_.root == 0) return ok_status();
  return set_groups(std::move(given));
}

Status Converter::run() {
  PLIMSOLL_RETURN_IF_ERROR(check_lists());
  out_.indices_are_sorted = in_.indices_are_sorted != 0;
  out_.unique_indices = in_.unique_indices != 0;
  if (static_cast<int>(in_.comparison) < PLM_EQ || static_cast<int>(in_.comparison) > PLM_LT) {
    return error("comparison " + std::to_string(in_.comparison) + " does not exist");
  }
  switch (request_.opcode) {
    case Opcode::broadcast:
    case Opcode::reshape:
      PLIMSOLL_RETURN_IF_ERROR(need(1));
      if (request_.opcode == Opcode::broadcast) out_.dimensions = list(in_.dimensions);
      return take_shape(static_cast<int>(operand(0).dtype));
    case Opcode::iota:
      out_.dimensions = in_.dimensions.size == 0 ? Ints{0} : list(in_.dimensions);
      return take_shape(in_.dtype);
    case Opcode::transpose:
    case Opcode::reverse:
    case Opcode::concatenate:
      out_.dimensions = list(in_.dimensions);
      return ok_status();
    case Opcode::convert:
      PLIMSOLL_RETURN_IF_ERROR(need(1));
      PLIMSOLL_RETURN_IF_ERROR(check_tensor_dtype(name(), in_.dtype));
      request_.given = ir::Shape(static_cast<ir::DType>(in_.dtype), ir::Dims(operand(0).dims()));
      return ok_status();
    case Opcode::bitcast_convert:
      return bitcast_convert();
    case Opcode::slice:
      out_.slice_starts = list(in_.starts);
      out_.slice_limits = list(in_.limits);
      out_.slice_strides = list(in_.strides);
      if (out_.slice_strides.empty()) out_.slice_strides.assign(out_.slice_starts.size(), 1);
      return ok_status();
    case Opcode::dynamic_slice:
      out_.slice_sizes = list(in_.slice_sizes);
      return ok_status();
    case Opcode::pad:
      return pad();
    case Opcode::gather:
      return gather();
    case Opcode::scatter:
      return scatter();
    case Opcode::compare:
      out_.comparison_direction = static_cast<ir::ComparisonDirection>(in_.comparison);
      if (in_.total_order != 0) out_.comparison_order = ir::ComparisonOrder::total;
      return ok_status();
    case Opcode::reduce_precision:
      out_.exponent_bits = in_.exponent_bits;
      out_.mantissa_bits = in_.mantissa_bits;
      return ok_status();
    case Opcode::dot:
      if (in_.use_dtype != 0) request_.accumulation = static_cast<ir::DType>(in_.dtype);
      return dot();
    case Opcode::convolution:
      if (in_.use_dtype != 0) request_.accumulation = static_cast<ir::DType>(in_.dtype);
      return convolution();
    case Opcode::reduce:
      out_.dimensions = list(in_.dimensions);
      return take_reduction(1);
    case Opcode::reduce_window:
      PLIMSOLL_RETURN_IF_ERROR(take_reduction(1));
      return take_window(operand(0).rank, list(in_.window_size));
    case Opcode::select_and_scatter:
      PLIMSOLL_RETURN_IF_ERROR(take_reduction(2));
      request_.op.callee.kind = trace::Callee::Kind::select_combine;
      request_.op.callee.direction = in_.comparison == PLM_EQ
                                         ? ir::ComparisonDirection::ge
                                         : static_cast<ir::ComparisonDirection>(in_.comparison);
      return take_window(operand(0).rank, list(in_.window_size));
    case Opcode::sort:
      out_.dimensions = list(in_.dimensions);
      out_.is_stable = true;
      request_.op.callee.kind = trace::Callee::Kind::order;
      request_.op.callee.direction =
          in_.descending != 0 ? ir::ComparisonDirection::gt : ir::ComparisonDirection::lt;
      return ok_status();
    case Opcode::all_reduce:
      return sum_over_participants();
    case Opcode::reduce_scatter:
      out_.dimensions = in_.dimensions.size == 0 ? Ints{0} : list(in_.dimensions);
      return sum_over_participants();
    case Opcode::all_gather:
      out_.dimensions = in_.dimensions.size == 0 ? Ints{0} : list(in_.dimensions);
      return take_groups();
    case Opcode::collective_broadcast:
      return broadcast_from_root();
    case Opcode::rng_bit_generator:
      out_.rng_algorithm = ir::RngAlgorithm::philox;
      return take_shape(in_.dtype);
    default:
      return ok_status();
  }
}

}  // namespace

Status read_attributes(const plm_op_attributes& in, trace::Recorder& recorder, OpRequest& request) {
  if (in.use_dtype != 0) {
    PLIMSOLL_RETURN_IF_ERROR(check_tensor_dtype(ir::to_string(request.opcode), in.dtype));
  }
  return Converter(in, recorder, request).run();
}

}  // namespace plimsoll::c_api
