// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/options.h"

#include "runtime/base/environment.h"

namespace plimsoll::planner {
namespace {

constexpr std::string_view kLossyBy = "lossy:";

// What the environment says of a variable: words of a room below, which can't see tables above it.
constexpr std::string_view help_of(Variable of) {
#define PLIMSOLL_ENVIRONMENT(variable, name, kind, default_text, help) \
  if (of == Variable::variable) return help;
#include "runtime/base/environment.def"
#undef PLIMSOLL_ENVIRONMENT
  return {};
}
// Whether `before` and `word` stand together as one of the choices that it lists.
constexpr bool is_listed(Variable of, std::string_view before, std::string_view word) {
  std::string_view rest = help_of(of);
  for (rest.remove_prefix(rest.find('[') + 1);;) {
    const auto end = rest.find_first_of("|]");
    std::string_view choice = rest.substr(0, end);
    if (choice.starts_with(before) && choice.substr(before.size()) == word) return true;
    if (rest[end] == ']') return false;
    rest.remove_prefix(end + 1);
  }
}
#define PLIMSOLL_CODEC(kind, name, proof, dtypes, layout, rounding, error_bound, sample)      \
  static_assert(                                                                              \
      std::string_view(error_bound).empty() || is_listed(Variable::remedies, kLossyBy, name), \
      "runtime/base/environment.def: no word lossy:" name);
#include "runtime/ir/codec/codecs.def"
#undef PLIMSOLL_CODEC
#define PLIMSOLL_POLICY(enumerator, name, schedule)     \
  static_assert(is_listed(Variable::planner, "", name), \
                "runtime/base/environment.def: no planner " name);
#include "runtime/planner/policies.def"
#undef PLIMSOLL_POLICY

// The names of the codecs that change bits, `before` in front of each, with commas between them.
std::string lossy_names(std::string_view before = "") {
  std::string names;
  for (const ir::CodecInfo& row : ir::all_codecs()) {
    if (row.rounding == ir::CodecRounding::exact) continue;
    if (!names.empty()) names += ", ";
    names += before;
    names += row.name;
  }
  return names;
}

}  // namespace

Result<Remedies> parse_remedies(std::string_view text, std::string_view what) {
  Remedies remedies{false, false, false, false};
  for (std::string_view rest = text;;) {
    const auto comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    if (word == "recompute") {
      remedies.recompute = true;
    } else if (word == "compress") {
      remedies.compress = true;
    } else if (word == "swap") {
      remedies.swap = true;
    } else if (word == "lossy" || word.starts_with(kLossyBy)) {
      // Codecs that change bits are codecs.
      remedies.compress = remedies.lossy = true;
      if (word != "lossy") {
        const std::string_view name = word.substr(kLossyBy.size());
        const auto codec = ir::parse_lossy(name);
        if (!codec) {
          return invalid_argument(std::string(what) + ": lossy codec '" + std::string(name) +
                                  "' is not one of " + lossy_names());
        }
        remedies.lossy_codec = *codec;
      }
    } else if (word == "all" && rest.size() == text.size() && comma == std::string_view::npos) {
      return Remedies{true, true, true, true};
    } else if (word == "none" && rest.size() == text.size() && comma == std::string_view::npos) {
      return remedies;
    } else {
      return invalid_argument(std::string(what) + ": '" + std::string(word) +
                              "' is not one of recompute, compress, swap, lossy, " +
                              lossy_names(kLossyBy) + " (nor is the whole all or none)");
    }
    if (comma == std::string_view::npos) return remedies;
    rest.remove_prefix(comma + 1);
  }
}

std::string to_string(const Remedies& remedies) {
  std::string text;
  const auto add = [&](bool on, std::string_view word) {
    if (!on) return;
    if (!text.empty()) text += ",";
    text += word;
  };
  add(remedies.recompute, "recompute");
  add(remedies.compress, "compress");
  add(remedies.swap, "swap");
  const std::string by = std::string(kLossyBy) + std::string(to_string(remedies.lossy_codec));
  add(remedies.lossy, remedies.lossy_codec == Remedies().lossy_codec ? "lossy" : by);
  return text.empty() ? "none" : text;
}

Result<PlanPolicy> policy_from_environment() {
  PlanPolicy made;
  PLIMSOLL_ASSIGN_OR_RETURN(const std::string policy, choice_variable(Variable::planner));
  PLIMSOLL_ASSIGN_OR_RETURN(made.policy,
                            parse_policy(policy, variable_info(Variable::planner).name));
  PLIMSOLL_ASSIGN_OR_RETURN(made.remedies, parse_remedies(variable_text(Variable::remedies).text,
                                                          variable_info(Variable::remedies).name));
  PLIMSOLL_ASSIGN_OR_RETURN(made.min_bytes, size_variable(Variable::min_size, 0));
  PLIMSOLL_ASSIGN_OR_RETURN(made.planning_seconds, number_variable(Variable::planning_seconds));
  PLIMSOLL_ASSIGN_OR_RETURN(const std::string planning, choice_variable(Variable::planning));
  PLIMSOLL_ASSIGN_OR_RETURN(made.effort,
                            parse_effort(planning, variable_info(Variable::planning).name));
  return made;
}

}  // namespace plimsoll::planner
