// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/text/attribute_text.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include "runtime/ir/text/geometry_text.h"
#include "runtime/ir/text/replica_groups_text.h"

namespace plimsoll::ir {

// One reading function per attribute name.
struct AttributeRules {
  using Reader = AttributeReader;
  using Read = Status (*)(Reader&);
  using Applies = bool (*)(Opcode);
  struct Rule {
    Applies applies;
    Read read;
  };

  static Attributes& attributes(Reader& r) { return r.instruction_.attributes; }

  static Status list(Reader& r, std::vector<std::int64_t>& out, std::string_view what,
                     std::int64_t most) {
    PLIMSOLL_ASSIGN_OR_RETURN(out, r.cursor_.integer_list(what, 0, most));
    return ok_status();
  }
  static Status dims(Reader& r, std::vector<std::int64_t>& out) {
    return list(r, out, "a dimension number", kMaxRank - 1);
  }
  static Status integer(Reader& r, std::int64_t& out, std::string_view what,
                        std::int64_t most = kMaxInteger) {
    PLIMSOLL_ASSIGN_OR_RETURN(out, r.cursor_.integer(what, 0, most));
    return ok_status();
  }
  static Status boolean(Reader& r, bool& out, std::string_view what) {
    PLIMSOLL_ASSIGN_OR_RETURN(out, r.cursor_.boolean(what));
    return ok_status();
  }
  template <typename E>
  static Status choice(Reader& r, E& out,
                       std::initializer_list<std::pair<std::string_view, E>> choices) {
    const std::string_view word = r.cursor_.peek_word();
    std::string names;
    for (const auto& [name, value] : choices) {
      if (name == word) {
        out = value;
        r.cursor_.take_word();
        return ok_status();
      }
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
    return r.cursor_.expected("one of " + names);
  }

  static Status iota_dimension(Reader& r) {
    auto& out = attributes(r).dimensions;
    out.assign(1, 0);
    return integer(r, out[0], "a dimension number", kMaxRank - 1);
  }

  static Status compare_type(Reader& r) {
    return choice(r, attributes(r).comparison_order,
                  {{"FLOAT", ComparisonOrder::natural},
                   {"TOTALORDER", ComparisonOrder::total},
                   {"SIGNED", ComparisonOrder::natural},
                   {"UNSIGNED", ComparisonOrder::natural}});
  }

  static bool is_start(Opcode opcode) {
    return opcode == Opcode::all_gather_start || opcode == Opcode::all_reduce_start ||
           opcode == Opcode::collective_permute_start;
  }

  static const std::unordered_map<std::string_view, Rule>& rules();
};

bool has_collective_attributes(Opcode opcode) {
  return op_info(opcode).op_class == OpClass::collective || AttributeRules::is_start(opcode) ||
         opcode == Opcode::send_done || opcode == Opcode::recv_done;
}

const std::unordered_map<std::string_view, AttributeRules::Rule>& AttributeRules::rules() {
  using R = Reader;
  constexpr auto any = [](Opcode) { return true; };
  constexpr Applies collective = has_collective_attributes;
#define PLIMSOLL_ONLY(opcode) [](Opcode o) { return o == Opcode::opcode; }
  static const auto* const table = new std::unordered_map<std::string_view, Rule>{
      {"dimensions", {any, [](R& r) { return dims(r, attributes(r).dimensions); }}},
      {"iota_dimension", {PLIMSOLL_ONLY(iota), iota_dimension}},
      {"slice", {PLIMSOLL_ONLY(slice), [](R& r) { return read_slice(r.cursor_, attributes(r)); }}},
      {"dynamic_slice_sizes",
       {PLIMSOLL_ONLY(dynamic_slice),
        [](R& r) { return list(r, attributes(r).slice_sizes, "a slice size", kMaxInteger); }}},
      {"slice_sizes",
       {PLIMSOLL_ONLY(gather),
        [](R& r) { return list(r, attributes(r).slice_sizes, "a slice size", kMaxInteger); }}},
      {"padding",
       {PLIMSOLL_ONLY(pad), [](R& r) { return read_padding(r.cursor_, attributes(r).padding); }}},
      {"window",
       {[](Opcode o) {
          return o == Opcode::convolution || o == Opcode::reduce_window ||
                 o == Opcode::select_and_scatter;
        },
        [](R& r) { return read_window(r.cursor_, attributes(r).window); }}},
      {"dim_labels",
       {PLIMSOLL_ONLY(convolution),
        [](R& r) { return read_dim_labels(r.cursor_, r.convolution_); }}},
      {"feature_group_count",
       {PLIMSOLL_ONLY(convolution),
        [](R& r) { return integer(r, attributes(r).feature_group_count, "a group count"); }}},
      {"batch_group_count",
       {PLIMSOLL_ONLY(convolution),
        [](R& r) { return integer(r, attributes(r).batch_group_count, "a group count"); }}},
      {"lhs_contracting_dims",
       {PLIMSOLL_ONLY(dot), [](R& r) { return dims(r, r.dot_.lhs_contracting); }}},
      {"rhs_contracting_dims",
       {PLIMSOLL_ONLY(dot), [](R& r) { return dims(r, r.dot_.rhs_contracting); }}},
      {"lhs_batch_dims", {PLIMSOLL_ONLY(dot), [](R& r) { return dims(r, r.dot_.lhs_batch); }}},
      {"rhs_batch_dims", {PLIMSOLL_ONLY(dot), [](R& r) { return dims(r, r.dot_.rhs_batch); }}},
      {"offset_dims", {PLIMSOLL_ONLY(gather), [](R& r) { return dims(r, r.gather_.offset_dims); }}},
      {"collapsed_slice_dims",
       {PLIMSOLL_ONLY(gather), [](R& r) { return dims(r, r.gather_.collapsed_slice_dims); }}},
      {"start_index_map",
       {PLIMSOLL_ONLY(gather), [](R& r) { return dims(r, r.gather_.start_index_map); }}},
      {"operand_batching_dims",
       {PLIMSOLL_ONLY(gather), [](R& r) { return dims(r, r.gather_.operand_batching_dims); }}},
      {"start_indices_batching_dims",
       {PLIMSOLL_ONLY(gather),
        [](R& r) { return dims(r, r.gather_.start_indices_batching_dims); }}},
      {"update_window_dims",
       {PLIMSOLL_ONLY(scatter), [](R& r) { return dims(r, r.scatter_.update_window_dims); }}},
      {"inserted_window_dims",
       {PLIMSOLL_ONLY(scatter), [](R& r) { return dims(r, r.scatter_.inserted_window_dims); }}},
      {"scatter_dims_to_operand_dims",
       {PLIMSOLL_ONLY(scatter),
        [](R& r) { return dims(r, r.scatter_.scatter_dims_to_operand_dims); }}},
      {"input_batching_dims",
       {PLIMSOLL_ONLY(scatter), [](R& r) { return dims(r, r.scatter_.input_batching_dims); }}},
      {"scatter_indices_batching_dims",
       {PLIMSOLL_ONLY(scatter),
        [](R& r) { return dims(r, r.scatter_.scatter_indices_batching_dims); }}},
      {"index_vector_dim",
       {[](Opcode o) { return o == Opcode::gather || o == Opcode::scatter; },
        [](R& r) {
          return integer(r,
                         r.instruction_.opcode == Opcode::gather ? r.gather_.index_vector_dim
                                                                 : r.scatter_.index_vector_dim,
                         "a dimension number", kMaxRank);
        }}},
      {"indices_are_sorted",
       {[](Opcode o) { return o == Opcode::gather || o == Opcode::scatter; },
        [](R& r) { return boolean(r, attributes(r).indices_are_sorted, "indices_are_sorted"); }}},
      {"unique_indices",
       {PLIMSOLL_ONLY(scatter),
        [](R& r) { return boolean(r, attributes(r).unique_indices, "unique_indices"); }}},
      {"direction",
       {PLIMSOLL_ONLY(compare),
        [](R& r) {
          using enum ComparisonDirection;
          return choice(r, attributes(r).comparison_direction,
                        {{"EQ", eq}, {"NE", ne}, {"GE", ge}, {"GT", gt}, {"LE", le}, {"LT", lt}});
        }}},
      {"type", {PLIMSOLL_ONLY(compare), compare_type}},
      {"index",
       {PLIMSOLL_ONLY(get_tuple_element),
        [](R& r) { return integer(r, attributes(r).tuple_index, "a tuple index", 1 << 30); }}},
      {"exponent_bits",
       {PLIMSOLL_ONLY(reduce_precision),
        [](R& r) -> Status {
          PLIMSOLL_ASSIGN_OR_RETURN(const auto bits, r.cursor_.integer("exponent_bits", 1, 64));
          attributes(r).exponent_bits = static_cast<int>(bits);
          return ok_status();
        }}},
      {"mantissa_bits",
       {PLIMSOLL_ONLY(reduce_precision),
        [](R& r) -> Status {
          PLIMSOLL_ASSIGN_OR_RETURN(const auto bits, r.cursor_.integer("mantissa_bits", 0, 64));
          attributes(r).mantissa_bits = static_cast<int>(bits);
          return ok_status();
        }}},
      {"is_stable",
       {PLIMSOLL_ONLY(sort),
        [](R& r) { return boolean(r, attributes(r).is_stable, "is_stable"); }}},
      {"kind",
       {PLIMSOLL_ONLY(fusion),
        [](R& r) {
          return choice(r, attributes(r).fusion_kind,
                        {{"kLoop", FusionKind::loop},
                         {"kInput", FusionKind::input},
                         {"kOutput", FusionKind::output},
                         {"kCustom", FusionKind::custom}});
        }}},
      {"distribution",
       {PLIMSOLL_ONLY(rng),
        [](R& r) {
          return choice(
              r, attributes(r).rng_distribution,
              {{"rng_uniform", RngDistribution::uniform}, {"rng_normal", RngDistribution::normal}});
        }}},
      {"algorithm",
       {PLIMSOLL_ONLY(rng_bit_generator),
        [](R& r) {
          return choice(r, attributes(r).rng_algorithm,
                        {{"rng_default", RngAlgorithm::default_},
                         {"rng_three_fry", RngAlgorithm::three_fry},
                         {"rng_philox", RngAlgorithm::philox}});
        }}},
      {"custom_call_target",
       {PLIMSOLL_ONLY(custom_call),
        [](R& r) -> Status {
          PLIMSOLL_ASSIGN_OR_RETURN(attributes(r).custom_call_target,
                                    r.cursor_.quoted("custom_call_target"));
          return ok_status();
        }}},
      {"custom_call_has_side_effect",
       {PLIMSOLL_ONLY(custom_call),
        [](R& r) {
          return boolean(r, attributes(r).custom_call_has_side_effect,
                         "custom_call_has_side_effect");
        }}},
      {"replica_groups",
       {collective, [](R& r) { return read_replica_groups(r.cursor_, r.collective_); }}},
      {"channel_id",
       {collective, [](R& r) { return integer(r, r.collective_.channel_id, "a channel id"); }}},
      {"use_global_device_ids",
       {collective,
        [](R& r) {
          return boolean(r, r.collective_.use_global_device_ids, "use_global_device_ids");
        }}},
      {"constrain_layout",
       {collective,
        [](R& r) { return boolean(r, r.collective_.constrain_layout, "constrain_layout"); }}},
      {"is_host_transfer",
       {collective,
        [](R& r) { return boolean(r, r.collective_.is_host_transfer, "is_host_transfer"); }}},
      {"source_target_pairs",
       {collective, [](R& r) { return read_source_target_pairs(r.cursor_, r.collective_); }}},
  };
#undef PLIMSOLL_ONLY
  return *table;
}

namespace {

// Attributes without which an opcode makes no sense.
std::string_view required_attribute(Opcode opcode) {
  switch (opcode) {
    case Opcode::transpose:
    case Opcode::reduce:
    case Opcode::concatenate:
    case Opcode::reverse:
      return "dimensions";
    case Opcode::slice:
      return "slice";
    case Opcode::pad:
      return "padding";
    case Opcode::compare:
      return "direction";
    case Opcode::get_tuple_element:
      return "index";
    case Opcode::convolution:
      return "dim_labels";
    case Opcode::gather:
      return "slice_sizes";
    case Opcode::dynamic_slice:
      return "dynamic_slice_sizes";
    case Opcode::custom_call:
      return "custom_call_target";
    default:
      return {};
  }
}

}  // namespace

Status AttributeReader::note(std::string_view name, std::size_t offset) {
  if (std::find(seen_.begin(), seen_.end(), name) != seen_.end()) {
    return cursor_.error_at(offset, "attribute '" + std::string(name) + "' is given twice");
  }
  seen_.push_back(name);
  return ok_status();
}

Status AttributeReader::read(std::string_view name, std::size_t offset) {
  if (name == "all_reduce_id") name = "channel_id";
  PLIMSOLL_RETURN_IF_ERROR(note(name, offset));
  const auto& rules = AttributeRules::rules();
  const auto rule = rules.find(name);
  if (rule != rules.end() && rule->second.applies(instruction_.opcode)) {
    return rule->second.read(*this);
  }
  const std::string what = "the value of " + std::string(name);
  PLIMSOLL_ASSIGN_OR_RETURN(const std::string_view value, cursor_.verbatim(what));
  instruction_.attributes.extra.emplace_back(name, value);
  if (name == "literal" && cursor_.peek_raw() == ' ') {
    // `s32[2]{0} {1, 2}`: a shape and, behind a blank, what it holds.
    PLIMSOLL_ASSIGN_OR_RETURN(const std::string_view held, cursor_.verbatim(what));
    instruction_.attributes.extra.back().second += " " + std::string(held);
  }
  return ok_status();
}

Status AttributeReader::finish() {
  const Opcode opcode = instruction_.opcode;
  const std::string_view required = required_attribute(opcode);
  if (!required.empty() && std::find(seen_.begin(), seen_.end(), required) == seen_.end()) {
    return cursor_.error_at(instruction_.offset, "expected attribute '" + std::string(required) +
                                                     "' of " + std::string(to_string(opcode)));
  }
  Attributes& attributes = instruction_.attributes;
  if (opcode == Opcode::iota && attributes.dimensions.empty()) attributes.dimensions.push_back(0);
  if (opcode == Opcode::dot) attributes.dot = std::make_shared<const DotDimensions>(dot_);
  if (opcode == Opcode::convolution) {
    attributes.convolution = std::make_shared<const ConvolutionDimensions>(convolution_);
  }
  if (opcode == Opcode::gather) {
    attributes.gather = std::make_shared<const GatherDimensions>(gather_);
  }
  if (opcode == Opcode::scatter) {
    attributes.scatter = std::make_shared<const ScatterDimensions>(scatter_);
  }
  if (has_collective_attributes(opcode)) {
    attributes.collective = std::make_shared<const CollectiveAttributes>(collective_);
  }
  return ok_status();
}

}  // namespace plimsoll::ir
