// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/text/attribute_rules.h"

#include <algorithm>
#include <array>
#include <memory>
#include <type_traits>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/ir/attribute_fields.h"
#include "runtime/ir/shape.h"
#include "runtime/ir/text/geometry_text.h"
#include "runtime/ir/text/replica_groups_text.h"

namespace plimsoll::ir {
namespace {

using Printed = AttributeRule::Printed;
using Range = AttributeRule::Range;

void append(std::string& text, std::string_view name, std::string_view value) {
  text.append(", ").append(name).append("=").append(value);
}

// The words of enumerators, in their order.
template <typename E>
constexpr auto kWords = nullptr;
template <>
constexpr std::array<std::string_view, 6> kWords<ComparisonDirection> = {"EQ", "NE", "GE",
                                                                         "GT", "LE", "LT"};
// The last two mean what the first does.
template <>
constexpr std::array<std::string_view, 4> kWords<ComparisonOrder> = {"FLOAT", "TOTALORDER",
                                                                     "SIGNED", "UNSIGNED"};
template <>
constexpr std::array<std::string_view, 4> kWords<FusionKind> = {"kLoop", "kInput", "kOutput",
                                                                "kCustom"};
template <>
constexpr std::array<std::string_view, 2> kWords<RngDistribution> = {"rng_uniform", "rng_normal"};
template <>
constexpr std::array<std::string_view, 3> kWords<RngAlgorithm> = {"rng_default", "rng_three_fry",
                                                                  "rng_philox"};

// The value of a field as text.
std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(std::int64_t value) { return std::to_string(value); }
std::string text_of(int value) { return std::to_string(value); }
std::string text_of(const std::string& value) { return quote(value); }
std::string text_of(const std::pair<std::int64_t, std::int64_t>& value) {
  return "{" + text_of(value.first) + "," + text_of(value.second) + "}";
}
template <typename T>
  requires std::is_enum_v<T>
std::string text_of(T value) {
  return std::string(kWords<T>[at(value)]);
}
template <typename T>
std::string text_of(const std::vector<T>& values) {
  std::string text = "{";
  for (const T& value : values) {
    if (text.size() > 1) text += ",";
    text += text_of(value);
  }
  return text + "}";
}

// Reads the value of a field.
template <typename T>
Status read_field(const AttributeRule& rule, Cursor& c, T& out) {
  const auto& [what, least, most] = rule.range;
  if constexpr (std::is_enum_v<T>) {
    const std::string_view word = c.peek_word();
    const auto found = std::find(kWords<T>.begin(), kWords<T>.end(), word);
    if (found == kWords<T>.end()) {
      std::string names;
      for (const auto name : kWords<T>) names += (names.empty() ? "" : ", ") + std::string(name);
      return c.expected("one of " + names);
    }
    c.take_word();
    out = static_cast<T>(found - kWords<T>.begin());
    if (std::is_same_v<T, ComparisonOrder> && word != "TOTALORDER") out = T();
  } else if constexpr (std::is_same_v<T, bool>) {
    PLIMSOLL_ASSIGN_OR_RETURN(out, c.boolean(rule.name));
  } else if constexpr (std::is_integral_v<T>) {
    PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t value, c.integer(what, least, most));
    out = static_cast<T>(value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    PLIMSOLL_ASSIGN_OR_RETURN(out, c.quoted(rule.name));
  } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
    PLIMSOLL_ASSIGN_OR_RETURN(out, c.integer_list(what, least, most));
  } else {
    return read_value(c, out);
  }
  return ok_status();
}

// What a field is a member of: Attributes or one of the groups, null where there is none.
template <typename Object>
const Object* find(const Attributes& attributes) {
  const Object* found = nullptr;
  if constexpr (std::is_same_v<Object, Attributes>) {
    found = &attributes;
  } else {
    for_each_field(attributes, [&]<typename T>(auto, const T& value) {
      if constexpr (std::is_same_v<T, std::shared_ptr<const Object>>) found = value.get();
    });
  }
  return found;
}

template <typename Object, typename T>
Object object_of(T Object::*);

// The rule of a field; a group that is one attribute (dim_labels) is read and printed as a whole.
template <auto Member>
constexpr AttributeRule rule(bool (*applies)(Opcode), Printed printed, Range range = {}) {
  using Object = decltype(object_of(Member));
  using Value = std::remove_cvref_t<decltype(std::declval<Object>().*Member)>;
  const auto read = [](const AttributeRule& rule, Cursor& c, Attributes& attributes,
                       AttributeGroups& groups) {
    if constexpr (fields::kIsShared<Value>) {
      using Group = std::remove_const_t<typename Value::element_type>;
      return read_field(rule, c, std::get<Group>(groups));
    } else if constexpr (std::is_same_v<Object, Attributes>) {
      return read_field(rule, c, attributes.*Member);
    } else {
      return read_field(rule, c, std::get<Object>(groups).*Member);
    }
  };
  const auto print = [](const AttributeRule& rule, const Attributes& attributes,
                        std::string& text) {
    const Object* object = find<Object>(attributes);
    if (object == nullptr) return;
    const Value& value = object->*Member;
    if constexpr (fields::kIsShared<Value>) {
      if (value != nullptr) append(text, rule.name, text_of(*value));
    } else {
      static const Object kUsual;
      const bool always = rule.printed == Printed::always || rule.printed == Printed::and_required;
      if (always || value != kUsual.*Member) append(text, rule.name, text_of(value));
    }
  };
  return {std::get<Field<Member>>(kFields<Object>).name, applies, printed, range, read, print};
}

constexpr AttributeRule named(std::string_view name, AttributeRule rule) {
  rule.name = name;
  return rule;
}

Status read_iota_dimension(const AttributeRule& rule, Cursor& c, Attributes& attributes,
                           AttributeGroups&) {
  attributes.dimensions.assign(1, 0);
  return read_field(rule, c, attributes.dimensions[0]);
}
void print_iota_dimension(const AttributeRule&, const Attributes& attributes, std::string& text) {
  const auto& dimensions = attributes.dimensions;
  if (dimensions.size() == 1) {
    append(text, "iota_dimension", text_of(dimensions[0]));
  } else if (!dimensions.empty()) {
    append(text, "dimensions", text_of(dimensions));
  }
}
void print_nothing(const AttributeRule&, const Attributes&, std::string&) {}

Status read_ranges(const AttributeRule&, Cursor& c, Attributes& attributes, AttributeGroups&) {
  return read_slice(c, attributes);
}
void print_ranges(const AttributeRule& rule, const Attributes& attributes, std::string& text) {
  append(text, rule.name, slice_text(attributes));
}

Status read_groups(const AttributeRule&, Cursor& c, Attributes&, AttributeGroups& groups) {
  return read_replica_groups(c, std::get<CollectiveAttributes>(groups));
}
void print_groups(const AttributeRule& rule, const Attributes& attributes, std::string& text) {
  const CollectiveAttributes* collective = attributes.collective.get();
  if (collective == nullptr) return;
  if (!collective->groups_text.empty()) {
    append(text, rule.name, collective->groups_text);
  } else if (!collective->replica_groups.empty()) {
    append(text, rule.name, text_of(collective->replica_groups));
  }
}

template <Opcode... Opcodes>
constexpr bool only(Opcode opcode) {
  return ((opcode == Opcodes) || ...);
}
template <Opcode... Opcodes>
constexpr bool all_but(Opcode opcode) {
  return !only<Opcodes...>(opcode);
}

constexpr auto make_rules() {
  using enum Opcode;
  using enum AttributeRule::Printed;
  using A = Attributes;
  using D = DotDimensions;
  using G = GatherDimensions;
  using S = ScatterDimensions;
  using C = CollectiveAttributes;
  constexpr Range kDim = {"a dimension number", 0, kMaxRank - 1};
  constexpr Range kVectorDim = {"a dimension number", 0, kMaxRank};
  constexpr Range kSize = {"a slice size"};
  constexpr Range kGroups = {"a group count"};
  constexpr auto collective = has_collective_attributes;
  // In the order in which they are printed.
  return std::array{
      rule<&A::dimensions>(only<transpose, reduce, concatenate, reverse>, and_required, kDim),
      rule<&A::dimensions>(only<broadcast>, always, kDim),
      rule<&A::dimensions>(all_but<transpose, reduce, concatenate, reverse, broadcast, iota>,
                           if_set, kDim),
      AttributeRule{"iota_dimension", only<iota>, if_set, kDim, read_iota_dimension,
                    print_iota_dimension},
      AttributeRule{"dimensions", only<iota>, if_set, kDim,
                    rule<&A::dimensions>(only<iota>, if_set).read, print_nothing},
      AttributeRule{"slice", only<slice>, and_required, {}, read_ranges, print_ranges},
      named("dynamic_slice_sizes", rule<&A::slice_sizes>(only<dynamic_slice>, and_required, kSize)),
      rule<&A::padding>(only<pad>, and_required),
      rule<&A::window>(only<reduce_window, select_and_scatter>, always),
      rule<&A::window>(only<convolution>, if_set),
      rule<&D::lhs_batch>(only<dot, ragged_dot, scaled_dot>, if_set, kDim),
      rule<&D::lhs_contracting>(only<dot, ragged_dot, scaled_dot>, always, kDim),
      rule<&D::rhs_batch>(only<dot, ragged_dot, scaled_dot>, if_set, kDim),
      rule<&D::rhs_contracting>(only<dot, ragged_dot, scaled_dot>, always, kDim),
      rule<&A::convolution>(only<convolution>, and_required),
      rule<&A::feature_group_count>(only<convolution>, if_set, kGroups),
      rule<&A::batch_group_count>(only<convolution>, if_set, kGroups),
      rule<&G::offset_dims>(only<gather>, always, kDim),
      rule<&G::collapsed_slice_dims>(only<gather>, always, kDim),
      rule<&G::start_index_map>(only<gather>, always, kDim),
      rule<&G::operand_batching_dims>(only<gather>, if_set, kDim),
      rule<&G::start_indices_batching_dims>(only<gather>, if_set, kDim),
      rule<&G::index_vector_dim>(only<gather>, always, kVectorDim),
      rule<&A::slice_sizes>(only<gather>, and_required, kSize),
      rule<&S::update_window_dims>(only<scatter>, always, kDim),
      rule<&S::inserted_window_dims>(only<scatter>, always, kDim),
      rule<&S::scatter_dims_to_operand_dims>(only<scatter>, always, kDim),
      rule<&S::input_batching_dims>(only<scatter>, if_set, kDim),
      rule<&S::scatter_indices_batching_dims>(only<scatter>, if_set, kDim),
      rule<&S::index_vector_dim>(only<scatter>, always, kVectorDim),
      rule<&A::indices_are_sorted>(only<gather, scatter>, anywhere),
      rule<&A::unique_indices>(only<scatter>, anywhere),
      rule<&C::channel_id>(collective, if_set, {"a channel id"}),
      AttributeRule{"replica_groups", collective, if_set, {}, read_groups, print_groups},
      rule<&C::source_target_pairs>(collective, if_set),
      rule<&C::use_global_device_ids>(collective, if_set),
      rule<&C::constrain_layout>(collective, if_set),
      rule<&C::is_host_transfer>(collective, if_set),
      rule<&A::comparison_direction>(only<compare>, and_required),
      rule<&A::comparison_order>(only<compare>, if_set),
      rule<&A::tuple_index>(only<get_tuple_element>, and_required, {"a tuple index", 0, 1 << 30}),
      rule<&A::exponent_bits>(only<reduce_precision>, always, {"exponent_bits", 1, 64}),
      rule<&A::mantissa_bits>(only<reduce_precision>, always, {"mantissa_bits", 0, 64}),
      rule<&A::is_stable>(only<sort>, if_set),
      rule<&A::fusion_kind>(only<fusion>, always),
      rule<&A::rng_distribution>(only<rng>, always),
      rule<&A::rng_algorithm>(only<rng_bit_generator>, always),
      rule<&A::custom_call_target>(only<custom_call>, and_required),
      rule<&A::custom_call_has_side_effect>(only<custom_call>, if_set),
  };
}

constexpr auto kRules = make_rules();

template <typename T>
constexpr bool kAreAllRead = std::apply(
    [](auto... field) {
      const auto is_read = [](std::string_view name) {
        return std::any_of(kRules.begin(), kRules.end(),
                           [&](const AttributeRule& rule) { return rule.name == name; });
      };
      return ((field.name.empty() || is_read(field.name)) && ...);
    },
    kFields<T>);
static_assert(kAreAllRead<Attributes> && kAreAllRead<DotDimensions> &&
                  kAreAllRead<GatherDimensions> && kAreAllRead<ScatterDimensions> &&
                  kAreAllRead<CollectiveAttributes>,
              "a field that has a name has no rule");

// Made as the library is loaded, not by the first thread that asks: another one may fork meanwhile,
// and its child would wait for it.
const auto* const kRulesOf = [] {
  auto* made = new std::vector<std::vector<const AttributeRule*>>;
  for (int i = 0; i < opcode_count(); ++i) {
    auto& rules = made->emplace_back();
    for (const AttributeRule& rule : kRules) {
      if (rule.printed == Printed::anywhere || rule.applies(static_cast<Opcode>(i))) {
        rules.push_back(&rule);
      }
    }
  }
  return made;
}();

}  // namespace

const std::vector<const AttributeRule*>& rules_of(Opcode opcode) { return (*kRulesOf)[at(opcode)]; }

bool has_collective_attributes(Opcode opcode) {
  switch (opcode) {
    case Opcode::all_gather_start:
    case Opcode::all_reduce_start:
    case Opcode::collective_permute_start:
    case Opcode::send_done:
    case Opcode::recv_done:
      return true;
    default:
      return op_info(opcode).op_class == OpClass::collective;
  }
}

}  // namespace plimsoll::ir
