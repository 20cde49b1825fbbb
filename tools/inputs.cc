// SPDX-License-Identifier: Apache-2.0
#include "tools/inputs.h"

#include <fmt/core.h>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/base/philox.h"
#include "runtime/import/npy.h"
#include "runtime/ir/narrow.h"

namespace plimsoll::tools {
namespace {

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

void draw(ir::Literal& literal, std::uint64_t seed, std::uint64_t leaf) {
  const ir::Shape& shape = literal.shape();
  const std::int64_t count = shape.element_count() * (ir::is_complex(shape.dtype()) ? 2 : 1);
  std::vector<std::uint32_t> words(at(count));
  philox::fill({seed, 0, leaf}, 4, 0, count, words.data());
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

void draw_leaves(ir::Literal& literal, std::uint64_t seed, std::uint64_t& leaf) {
  if (literal.shape().is_tuple()) {
    for (ir::Literal& element : literal.mutable_elements()) draw_leaves(element, seed, leaf);
    return;
  }
  if (literal.shape().is_array()) draw(literal, seed, leaf);
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

std::string parameter_names(const ir::Computation& entry) {
  std::string names;
  for (const ir::Instruction* parameter : entry.parameters()) {
    names += (names.empty() ? "" : ", ") + parameter->name();
  }
  return names.empty() ? "none" : names;
}

}  // namespace

Outcome make_inputs(const ir::Computation& entry, const std::vector<std::string>& files,
                    std::uint64_t seed, std::vector<ir::Literal>& out) {
  std::uint64_t leaf = 0;
  for (const ir::Instruction* parameter : entry.parameters()) {
    out.emplace_back(parameter->shape());
    draw_leaves(out.back(), seed, leaf);
  }
  std::map<std::pair<std::size_t, std::size_t>, std::string> given;  // by parameter and leaf
  for (const std::string& argument : files) {
    const auto call_fault = [&](const std::string& what) {
      return Outcome::call_fault(invalid_argument("--input " + argument + ": " + what));
    };
    const auto equals = argument.find('=');
    if (equals == std::string::npos || equals == 0) return call_fault("expected NAME=FILE.npy");
    std::string name = argument.substr(0, equals);
    const std::string path = argument.substr(equals + 1);
    std::size_t wanted_leaf = 0;
    const auto hash = name.find('#');
    if (hash != std::string::npos) {
      const char* const end = name.data() + name.size();
      if (std::from_chars(name.data() + hash + 1, end, wanted_leaf).ptr != end ||
          hash + 1 == name.size()) {
        return call_fault("expected a number behind '#'");
      }
      name.resize(hash);
    }
    ir::Literal* literal = nullptr;
    std::size_t parameter = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (entry.parameters()[i]->name() != name && std::to_string(i) != name) continue;
      literal = &out[i];
      parameter = i;
    }
    if (literal == nullptr) {
      return call_fault("the program has no parameter '" + name +
                        "' (it has: " + parameter_names(entry) + ")");
    }
    std::vector<ir::Literal*> arrays;
    collect(*literal, arrays);
    if (hash == std::string::npos && literal->shape().is_tuple()) {
      return call_fault("'" + name + "' is a tuple; name one of its arrays as '" + name + "#0'");
    }
    if (wanted_leaf >= arrays.size()) return call_fault("there is no such array");
    const auto [earlier, is_new] = given.emplace(std::pair(parameter, wanted_leaf), argument);
    if (!is_new) {
      return call_fault("'" + name + "' is given by --input " + earlier->second +
                        " already; give every parameter once");
    }
    auto read = import::read_npy(path);
    if (!read.ok()) {
      const bool unreadable = read.status().code() == StatusCode::not_found ||
                              read.status().code() == StatusCode::data_loss;
      return unreadable ? Outcome::call_fault(read.status())
                        : Outcome::program_fault(read.status());
    }
    *read = read_as(arrays[wanted_leaf]->shape(), std::move(*read));
    if (!(read->shape() == arrays[wanted_leaf]->shape())) {
      return Outcome::program_fault(invalid_argument(path + ": holds " + read->shape().to_string() +
                                                     ", parameter '" + name + "' is " +
                                                     arrays[wanted_leaf]->shape().to_string()));
    }
    *arrays[wanted_leaf] = std::move(*read);
  }
  return {};
}

std::vector<std::string> output_names(const ir::Computation& entry) {
  const ir::Instruction& root = *entry.root();
  std::vector<std::string> names;
  const auto add = [&](const ir::Instruction& instruction) {
    const int count = ir::leaf_count(instruction.shape());
    for (int leaf = 0; leaf < count; ++leaf) {
      names.push_back(instruction.name() +
                      (instruction.shape().is_tuple() ? fmt::format("#{}", leaf) : ""));
    }
  };
  if (root.opcode() == ir::Opcode::tuple) {
    for (const ir::Instruction* element : root.operands()) add(*element);
  } else {
    add(root);
  }
  std::set<std::string> taken;
  for (std::string& name : names) {
    std::string unique = name;
    for (int i = 1; !taken.insert(unique).second; ++i) unique = fmt::format("{}.{}", name, i);
    name = unique;
  }
  return names;
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
