// SPDX-License-Identifier: Apache-2.0
#include "tools/inputs.h"

#include <fmt/core.h>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/base/philox.h"
#include "runtime/import/npy.h"
#include "runtime/import/program_bytes.h"
#include "runtime/ir/narrow.h"
#include "tools/program_file.h"

namespace plimsoll::tools {
namespace {

struct Drawing {
  std::uint64_t seed = 0, participant = 0;
};

// Mantissa bits with the implicit one: as many random bits give evenly spaced, exact values.
int float_precision(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::bf16:
      return 8;
    case ir::DType::f16:
      return 11;
    default:
      return 24;
  }
}

void draw(ir::Literal& literal, const Drawing& drawing, std::uint64_t leaf) {
  const ir::Shape& shape = literal.shape();
  const std::int64_t count = shape.element_count() * (ir::is_complex(shape.dtype()) ? 2 : 1);
  std::vector<std::uint32_t> words(at(count));
  philox::fill({drawing.seed, drawing.participant, leaf}, 4, 0, count, words.data());
  if (ir::is_narrow(shape.dtype())) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint32_t word = words[at(i)];
      const double number = ir::is_floating(shape.dtype()) ? std::ldexp(word >> 24, -7) - 1.0
                                                           : static_cast<double>(word >> 29);
      literal.set(i, number);
    }
    return;
  }
  // Of complex numbers both parts alike.
  ir::visit_dtype(ir::part_dtype(shape.dtype()), [&](auto tag) {
    using T = decltype(tag);
    T* out = literal.mutable_data<T>();
    const int precision = float_precision(shape.dtype());
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint32_t word = words[at(i)];
      if constexpr (std::is_same_v<T, bool>) {
        out[i] = (word >> 31) != 0;
      } else if constexpr (std::is_integral_v<T>) {
        out[i] = static_cast<T>(word >> 29);
      } else {
        const auto bits = static_cast<float>(word >> (32 - precision));
        out[i] = T(std::ldexp(bits, 1 - precision) - 1.0f);
      }
    }
  });
}

void draw_leaves(ir::Literal& literal, const Drawing& drawing, std::uint64_t& leaf) {
  if (literal.shape().is_tuple()) {
    for (ir::Literal& element : literal.mutable_elements()) draw_leaves(element, drawing, leaf);
    return;
  }
  if (literal.shape().is_array()) draw(literal, drawing, leaf);
  ++leaf;
}

// What a file holds, as the parameter has it: a byte for each code of a narrow dtype.
ir::Literal read_as(const ir::Shape& shape, ir::Literal read) {
  const ir::DType dtype = read.shape().dtype();
  const bool holds_codes = ir::is_narrow(shape.dtype()) && read.shape().dims() == shape.dims() &&
                           (dtype == ir::DType::u8 || dtype == ir::DType::s8);
  if (!holds_codes) return read;
  return ir::Literal::from_bytes(shape, ir::pack_codes(shape.dtype(), read.bytes()));
}

void collect(ir::Literal& literal, std::vector<ir::Literal*>& out) {
  if (!literal.shape().is_tuple()) {
    out.push_back(&literal);
    return;
  }
  for (ir::Literal& element : literal.mutable_elements()) collect(element, out);
}

// `NAME[@PARTICIPANT][#LEAF]=FILE`, taken apart.
struct InputFlag {
  std::string name, path;
  std::size_t leaf = 0;
  bool has_leaf = false;
  std::optional<std::size_t> participant;
};

// The number behind `mark`, which is cut off with it; nothing where there is no mark.
Status cut_number(std::string& name, char mark, std::optional<std::size_t>& number) {
  const auto at = name.find(mark);
  if (at == std::string::npos) return ok_status();
  const char* const end = name.data() + name.size();
  std::size_t value = 0;
  if (at + 1 == name.size() || std::from_chars(name.data() + at + 1, end, value).ptr != end) {
    return invalid_argument(fmt::format("expected a number behind '{}'", mark));
  }
  name.resize(at);
  number = value;
  return ok_status();
}

Result<InputFlag> read_flag(const std::string& argument) {
  const auto equals = argument.find('=');
  if (equals == std::string::npos || equals == 0) {
    return invalid_argument("expected NAME=FILE.npy");
  }
  InputFlag flag;
  flag.name = argument.substr(0, equals);
  flag.path = argument.substr(equals + 1);
  std::optional<std::size_t> leaf;
  PLIMSOLL_RETURN_IF_ERROR(cut_number(flag.name, '#', leaf));
  PLIMSOLL_RETURN_IF_ERROR(cut_number(flag.name, '@', flag.participant));
  flag.has_leaf = leaf.has_value();
  flag.leaf = leaf.value_or(0);
  return flag;
}

Outcome read_into(const std::string& path, const std::string& name, ir::Literal& array) {
  auto read = import::read_npy(path);
  if (!read.ok()) {
    const bool unreadable = read.status().code() == StatusCode::not_found ||
                            read.status().code() == StatusCode::data_loss;
    return unreadable ? Outcome::call_fault(read.status()) : Outcome::program_fault(read.status());
  }
  *read = read_as(array.shape(), std::move(*read));
  if (!(read->shape() == array.shape())) {
    return Outcome::program_fault(invalid_argument(path + ": holds " + read->shape().to_string() +
                                                   ", parameter '" + name + "' is " +
                                                   array.shape().to_string()));
  }
  array = std::move(*read);
  return {};
}

// The first of the participants that have the same argument as the one at `place` of the range, by
// what the program says.
std::size_t draws_as(const ir::Instruction& parameter, const ParticipantRange& participants,
                     std::size_t place) {
  const std::size_t number = participants.first + place;
  if (parameter.attributes().find_extra("sharding") == "{replicated}") return 0;
  const std::string_view replication = parameter.attributes().find_extra("parameter_replication");
  const bool is_same = replication.find("true") != std::string_view::npos &&
                       replication.find("false") == std::string_view::npos;
  return is_same ? number % participants.partitions : number;
}

}  // namespace

Outcome make_inputs(const ir::Computation& entry, const std::vector<std::string>& files,
                    std::uint64_t seed, const ParticipantRange& participants,
                    std::vector<std::vector<ir::Literal>>& out) {
  out.resize(participants.count);
  for (std::size_t p = 0; p < participants.count; ++p) {
    std::uint64_t leaf = 0;
    for (const ir::Instruction* parameter : entry.parameters()) {
      out[p].emplace_back(parameter->shape());
      draw_leaves(out[p].back(), {seed, draws_as(*parameter, participants, p)}, leaf);
    }
  }
  // By parameter, leaf and participant, for all of which the first stands.
  constexpr std::size_t kAll = ~std::size_t{0};
  std::map<std::tuple<std::size_t, std::size_t, std::size_t>, std::string> given;
  std::vector<std::pair<const std::string*, InputFlag>> flags;
  for (const std::string& argument : files) {
    auto flag = read_flag(argument);
    PLIMSOLL_CALL_FAULT(flag.status().with_context("--input " + argument));
    flags.emplace_back(&argument, std::move(*flag));
  }
  // What is for one participant comes in the place of what is for all.
  std::stable_partition(flags.begin(), flags.end(),
                        [](const auto& one) { return !one.second.participant; });
  for (const auto& [argument, flag] : flags) {
    const auto call_fault = [&](const std::string& what) {
      return Outcome::call_fault(invalid_argument("--input " + *argument + ": " + what));
    };
    const auto& parameters = entry.parameters();
    std::size_t parameter = parameters.size();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      // A model's inputs have names that HLO text has not.
      const std::string& name = parameters[i]->name();
      if (name == flag.name || std::to_string(i) == flag.name) parameter = i;
      if (parameter == parameters.size() && name == import::input_name(flag.name)) parameter = i;
    }
    if (parameter == parameters.size()) {
      return call_fault("the program has no parameter '" + flag.name +
                        "' (it has: " + parameter_names(entry) + ")");
    }
    const ir::Shape& shape = parameters[parameter]->shape();
    if (!flag.has_leaf && shape.is_tuple()) {
      return call_fault("'" + flag.name + "' is a tuple; name one of its arrays as '" + flag.name +
                        "#0'");
    }
    if (flag.leaf >= at(ir::leaf_count(shape))) return call_fault("there is no such array");
    if (flag.participant && *flag.participant >= participants.total) {
      return call_fault(fmt::format("the program runs with {} participants, numbered from 0",
                                    participants.total));
    }
    const auto [earlier, is_new] =
        given.emplace(std::tuple(parameter, flag.leaf, flag.participant.value_or(kAll)), *argument);
    if (!is_new) {
      return call_fault("'" + flag.name + "' is given by --input " + earlier->second +
                        " already; give every parameter once");
    }
    // What is for a participant that runs elsewhere is none of this process's.
    if (flag.participant && (*flag.participant < participants.first ||
                             *flag.participant - participants.first >= participants.count)) {
      continue;
    }
    const std::size_t first = flag.participant ? *flag.participant - participants.first : 0;
    const auto array_of = [&](std::size_t p) {
      std::vector<ir::Literal*> arrays;
      collect(out[p][parameter], arrays);
      return arrays[flag.leaf];
    };
    Outcome outcome = read_into(flag.path, flag.name, *array_of(first));
    if (!outcome.ok()) return outcome;
    for (std::size_t p = first + 1; !flag.participant && p < participants.count; ++p) {
      *array_of(p) = *array_of(first);
    }
  }
  return {};
}

std::vector<const ir::Literal*> literal_leaves(const ir::Literal& literal) {
  if (!literal.shape().is_tuple()) return {&literal};
  std::vector<const ir::Literal*> found;
  for (const ir::Literal& element : literal.elements()) {
    const auto inner = literal_leaves(element);
    found.insert(found.end(), inner.begin(), inner.end());
  }
  return found;
}

}  // namespace plimsoll::tools
