// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "jit/jit.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/module.h"
#include "runtime/ir/text/text.h"

namespace plimsoll::jit::testing {

inline Compiler& compiler() {
  static const std::unique_ptr<Compiler> instance = [] {
    Options options;
    if (const char* directory = std::getenv("PLIMSOLL_JIT_TEST_DUMP")) {
      options.dump = {.llvm = true, .assembly = true, .hlo = true, .folder = directory};
    }
    auto created = Compiler::create(options);
    return std::move(created).value();
  }();
  return *instance;
}

// Stores past the caches whatever the size.
inline Compiler& streaming_compiler() {
  static const std::unique_ptr<Compiler> instance = [] {
    Options options;
    options.streaming_bytes = 1;
    return std::move(Compiler::create(options)).value();
  }();
  return *instance;
}

// Buffers as a device would hand them out: aligned, or `shift` bytes further, and with guard bytes
// behind.
class Buffer {
 public:
  explicit Buffer(std::int64_t bytes, std::size_t shift = 0)
      : bytes_(bytes), storage_(static_cast<std::size_t>(bytes) + 192, std::byte{0xab}) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    offset_ = (64 - address % 64) % 64 + shift;
  }
  std::byte* data() { return storage_.data() + offset_; }
  bool guard_is_intact() const {
    for (std::size_t i = offset_ + static_cast<std::size_t>(bytes_); i < storage_.size(); ++i) {
      if (storage_[i] != std::byte{0xab}) return false;
    }
    return true;
  }

 private:
  std::int64_t bytes_;
  std::vector<std::byte> storage_;
  std::size_t offset_ = 0;
};

// Runs `instruction` on `operands` and returns its leaves; where `reuse` >= 0, output leaf 0 is
// written into the buffer of that operand. Buffers lie `shift` bytes behind an aligned address.
inline Result<std::vector<ir::Literal>> run(const ir::Instruction& instruction,
                                            const std::vector<ir::Literal>& operands,
                                            int reuse = -1, Compiler& with = compiler(),
                                            std::size_t shift = 0) {
  PLIMSOLL_ASSIGN_OR_RETURN(auto kernel, with.compile(instruction));
  std::vector<Buffer> inputs, outputs;
  std::vector<const void*> input_pointers;
  std::vector<void*> output_pointers;
  for (const ir::Literal& operand : operands) {
    const auto bytes = operand.bytes();
    inputs.emplace_back(static_cast<std::int64_t>(bytes.size()), shift);
    if (!bytes.empty()) std::memcpy(inputs.back().data(), bytes.data(), bytes.size());
  }
  for (Buffer& input : inputs) input_pointers.push_back(input.data());
  const auto leaves = ir::leaves(instruction.shape());
  for (const ir::Shape* leaf : leaves) outputs.emplace_back(leaf->byte_size(), shift);
  for (Buffer& output : outputs) output_pointers.push_back(output.data());
  if (reuse >= 0) output_pointers[0] = inputs[static_cast<std::size_t>(reuse)].data();
  Buffer workspace(kernel->workspace_bytes());
  static const auto device = device::cpu_device();
  static const auto stream = std::move(device->create_stream()).value();
  device::KernelArguments arguments{input_pointers, output_pointers, workspace.data()};
  PLIMSOLL_RETURN_IF_ERROR(kernel->launch(*stream, arguments));
  EXPECT_TRUE(workspace.guard_is_intact());
  std::vector<ir::Literal> results;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    EXPECT_TRUE(outputs[i].guard_is_intact());
    const auto* data = static_cast<const std::byte*>(output_pointers[i]);
    results.push_back(ir::Literal::from_bytes(
        *leaves[i], {data, static_cast<std::size_t>(leaves[i]->byte_size())}));
  }
  for (const Buffer& input : inputs) EXPECT_TRUE(input.guard_is_intact());
  return results;
}

inline std::vector<ir::Literal> flatten(const ir::Literal& literal) {
  if (!literal.shape().is_tuple()) return {literal};
  std::vector<ir::Literal> result;
  for (const ir::Literal& element : literal.elements()) {
    for (ir::Literal& leaf : flatten(element)) result.push_back(std::move(leaf));
  }
  return result;
}

// Deterministic values: small for floats, the whole range for narrow integers.
inline ir::Literal numbers(const ir::Shape& shape, std::uint64_t seed, double low = -4,
                           double high = 4) {
  ir::Literal literal(shape);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (std::int64_t i = 0; i < shape.element_count(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double unit = static_cast<double>(state >> 11) * 0x1p-53;
    double value = low + unit * (high - low);
    if (shape.dtype() == ir::DType::pred) {
      value = unit < 0.5 ? 0 : 1;
    } else if (!ir::is_floating(shape.dtype())) {
      value = ir::dtype_class(shape.dtype()) == ir::DTypeClass::signed_int
                  ? std::floor(unit * 200) - 100
                  : std::floor(unit * 200);
    }
    literal.set(i, value);
  }
  return literal;
}

// Equal bits, all NaNs being equal; the message names the first difference.
inline ::testing::AssertionResult same_bits(const ir::Literal& a, const ir::Literal& b) {
  if (!(a.shape() == b.shape())) return ::testing::AssertionFailure() << "shapes differ";
  const auto size = static_cast<std::size_t>(ir::dtype_bytes(a.shape().dtype()));
  for (std::int64_t i = 0; i < a.shape().element_count(); ++i) {
    const auto at = static_cast<std::size_t>(i) * size;
    if (std::memcmp(a.bytes().data() + at, b.bytes().data() + at, size) == 0) continue;
    if (ir::is_floating(a.shape().dtype()) && std::isnan(a.at(i)) && std::isnan(b.at(i))) continue;
    return ::testing::AssertionFailure()
           << a.shape().to_string() << " differs at " << i << ": " << a.at(i) << " and " << b.at(i);
  }
  return ::testing::AssertionSuccess();
}

// All finite values within a relative or absolute distance.
inline ::testing::AssertionResult close(const ir::Literal& a, const ir::Literal& b,
                                        double tolerance) {
  if (!(a.shape() == b.shape())) return ::testing::AssertionFailure() << "shapes differ";
  for (std::int64_t i = 0; i < a.shape().element_count(); ++i) {
    const double x = a.at(i), y = b.at(i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    if (std::abs(x - y) <= tolerance * std::max({1.0, std::abs(x), std::abs(y)})) continue;
    return ::testing::AssertionFailure()
           << a.shape().to_string() << " differs at " << i << ": " << x << " and " << y;
  }
  return ::testing::AssertionSuccess();
}

// A module from text; the test fails when it does not parse.
inline std::unique_ptr<ir::Module> parse(std::string_view text) {
  auto module = ir::parse_module(text);
  EXPECT_TRUE(module.ok()) << module.status().to_string();
  return module.ok() ? std::move(module).value() : nullptr;
}

inline std::vector<ir::Literal> arguments_for(const ir::Computation& computation,
                                              std::uint64_t seed = 1) {
  std::vector<ir::Literal> arguments;
  for (const ir::Instruction* parameter : computation.parameters()) {
    arguments.push_back(numbers(parameter->shape(), seed++));
  }
  return arguments;
}

// Compiles the root of the entry (a fusion, or one instruction on parameters) and compares it with
// the interpreter: bit for bit, or within `tolerance` where that is positive. Returns the results.
inline std::vector<ir::Literal> check(const ir::Module& module,
                                      const std::vector<ir::Literal>& arguments,
                                      double tolerance = 0) {
  const ir::Instruction& root = *module.entry()->root();
  auto expected = ir::interpret(module, arguments);
  EXPECT_TRUE(expected.ok()) << expected.status().to_string();
  std::vector<ir::Literal> operands;
  for (const ir::Instruction* operand : root.operands()) {
    EXPECT_EQ(operand->opcode(), ir::Opcode::parameter) << "the root's operands must be parameters";
    operands.push_back(arguments[static_cast<std::size_t>(operand->attributes().parameter_number)]);
  }
  auto results = run(root, operands);
  EXPECT_TRUE(results.ok()) << results.status().to_string();
  if (!expected.ok() || !results.ok()) return {};
  const auto leaves = flatten(*expected);
  EXPECT_EQ(leaves.size(), results->size());
  for (std::size_t i = 0; i < std::min(leaves.size(), results->size()); ++i) {
    if (tolerance > 0) {
      EXPECT_TRUE(close(leaves[i], (*results)[i], tolerance)) << "output " << i;
    } else {
      EXPECT_TRUE(same_bits(leaves[i], (*results)[i])) << "output " << i;
    }
  }
  return *results;
}

inline std::vector<ir::Literal> check(std::string_view text, double tolerance = 0,
                                      std::uint64_t seed = 1) {
  const auto module = parse(text);
  if (module == nullptr) return {};
  return check(*module, arguments_for(*module->entry(), seed), tolerance);
}

}  // namespace plimsoll::jit::testing
