// SPDX-License-Identifier: Apache-2.0
#include "tests/jit/fusion_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/ir/fusions/in_place.h"
#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/shapes/verifier.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/compare.h"
#include "tests/cases/op_cases.h"
#include "tests/cases/random_fusion.h"
#include "tests/cases/random_module.h"

namespace plimsoll::jit::testing {
namespace {

using ir::Instruction;
using ir::Literal;
using ir::Opcode;

// A buffer with guard bytes on both sides.
class Guarded {
 public:
  Guarded(std::int64_t bytes, std::int64_t offset)
      : bytes_(static_cast<std::size_t>(bytes)), storage_(bytes_ + 256, kGuard) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    begin_ = 64 + (64 - address % 64) % 64 + static_cast<std::size_t>(offset);
  }
  std::byte* data() { return storage_.data() + begin_; }
  std::span<const std::byte> contents() const { return {storage_.data() + begin_, bytes_}; }
  bool is_intact() const {
    const auto is_guard = [](std::byte b) { return b == kGuard; };
    const auto end = storage_.begin() + static_cast<std::ptrdiff_t>(begin_ + bytes_);
    return std::all_of(storage_.begin(), storage_.begin() + static_cast<std::ptrdiff_t>(begin_),
                       is_guard) &&
           std::all_of(end, storage_.end(), is_guard);
  }

 private:
  static constexpr std::byte kGuard{0xab};
  std::size_t bytes_;
  std::vector<std::byte> storage_;
  std::size_t begin_ = 0;
};

std::vector<Literal> leaves_of(const Literal& literal) {
  if (!literal.shape().is_tuple()) return {literal};
  std::vector<Literal> result;
  for (const Literal& element : literal.elements()) {
    for (Literal& leaf : leaves_of(element)) result.push_back(std::move(leaf));
  }
  return result;
}

// True where the interpreter's order of additions differs from a kernel's.
bool sums(const Instruction& instruction) {
  if (instruction.opcode() != Opcode::reduce) return false;
  const auto& shapes = ir::leaves(instruction.shape());
  return std::any_of(shapes.begin(), shapes.end(),
                     [](const ir::Shape* s) { return ir::is_floating(s->dtype()); }) &&
         std::any_of(instruction.to_apply()->instructions().begin(),
                     instruction.to_apply()->instructions().end(), [](const auto& i) {
                       return i->opcode() == Opcode::add || i->opcode() == Opcode::multiply;
                     });
}

// Sums and products of what is moderate, so that no partial one overflows or cancels to nothing.
bool is_moderate(const std::vector<Literal>& operands) {
  for (const Literal& operand : operands) {
    for (std::int64_t i = 0; i < operand.shape().element_count(); ++i) {
      if (!(std::fabs(operand.at(i)) < 1e3)) return false;
    }
  }
  return true;
}

double dtype_tolerance(ir::DType dtype) {
  if (dtype == ir::DType::f64) return 1e-12;
  if (dtype == ir::DType::f32) return 1e-4;
  return 0.1;  // products of many 16-bit floats are rounded at each step by the interpreter
}

std::string check_instruction(const Instruction& instruction, const std::vector<Literal>& operands,
                              const std::vector<Literal>& results, double tolerance) {
  auto expected = ir::interpret(instruction, operands);
  if (!expected.ok()) return "interpreter: " + expected.status().to_string();
  const auto leaves = leaves_of(*expected);
  const bool inexact = sums(instruction);
  if (inexact && !is_moderate(operands)) return "";
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const std::string message =
        inexact ? cases::compare_close(
                      leaves[i], results[i],
                      std::max(tolerance, dtype_tolerance(leaves[i].shape().dtype())), 1)
                : cases::compare_bits(leaves[i], results[i]);
    if (!message.empty()) return "against the interpreter: " + message;
  }
  return "";
}

// The entry as one fusion of a module of its own; null where the compiler does not take it.
std::unique_ptr<ir::Module> fused(const ir::Module& module, Compiler& compiler) {
  auto copy = module.clone();
  ir::Computation* body = copy->entry();
  ir::Computation* entry = copy->add_computation("fused_entry");
  std::vector<Instruction*> operands;
  for (std::size_t i = 0; i < body->parameters().size(); ++i) {
    operands.push_back(
        entry->add_parameter(static_cast<std::int64_t>(i), body->parameters()[i]->shape()));
  }
  Instruction* fusion = entry->add(Opcode::fusion, body->root()->shape(), operands);
  fusion->set_called_computations({body});
  copy->set_entry(entry);
  return compiler.supports(*fusion) ? std::move(copy) : nullptr;
}

std::string describe(const Launch& how) {
  return std::to_string(how.threads) + " threads" + (how.misaligned ? ", misaligned" : "") +
         (how.reuse >= 0 ? ", in place of operand " + std::to_string(how.reuse) : "");
}

bool is_fusible(const ir::Module& module, Compiler& compiler) {
  for (const auto& instruction : module.entry()->instructions()) {
    if (instruction->opcode() == Opcode::parameter) continue;
    if (instruction.get() == module.entry()->root() && instruction->opcode() == Opcode::tuple) {
      continue;
    }
    if (!instruction->shape().is_array() || !compiler.supports(*instruction)) return false;
  }
  return true;
}

// What a quick check can hold several times over.
constexpr std::int64_t kMostElements = std::int64_t{1} << 20;

std::int64_t largest_array(const ir::Module& module) {
  std::int64_t largest = 0;
  for (const auto& instruction : module.entry()->instructions()) {
    for (const ir::Shape* leaf : ir::leaves(instruction->shape())) {
      largest = std::max(largest, leaf->element_count());
    }
  }
  return largest;
}

}  // namespace

Result<std::vector<Literal>> launch(const Instruction& instruction,
                                    const std::vector<Literal>& operands, Compiler& compiler,
                                    const Launch& how) {
  PLIMSOLL_ASSIGN_OR_RETURN(const auto kernel, compiler.compile(instruction));
  const auto offset = [&](const ir::Shape& shape) -> std::int64_t {
    return how.misaligned ? ir::dtype_bytes(shape.dtype()) : 0;
  };
  std::vector<Guarded> inputs, outputs;
  for (const Literal& operand : operands) {
    inputs.emplace_back(operand.shape().byte_size(), offset(operand.shape()));
    const auto bytes = operand.bytes();
    if (!bytes.empty()) std::memcpy(inputs.back().data(), bytes.data(), bytes.size());
  }
  const auto leaves = ir::leaves(instruction.shape());
  for (const ir::Shape* leaf : leaves) outputs.emplace_back(leaf->byte_size(), offset(*leaf));
  std::vector<const void*> input_pointers;
  std::vector<void*> output_pointers;
  for (Guarded& input : inputs) input_pointers.push_back(input.data());
  for (Guarded& output : outputs) output_pointers.push_back(output.data());
  const auto reused = static_cast<std::size_t>(how.reuse);
  if (how.reuse >= 0) output_pointers[0] = inputs[reused].data();
  Guarded workspace(kernel->workspace_bytes(), 0);

  static const auto device = device::cpu_device();
  static const auto stream = std::move(device->create_stream()).value();
  const int threads_before = device::thread_count();
  device::set_thread_count(how.threads);
  const Status done = kernel->launch(*stream, {input_pointers, output_pointers, workspace.data()});
  device::set_thread_count(threads_before);
  PLIMSOLL_RETURN_IF_ERROR(done);

  if (!workspace.is_intact()) return internal_error("the kernel wrote outside its workspace");
  std::vector<Literal> results;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const bool in_input = i == 0 && how.reuse >= 0;
    if (!outputs[i].is_intact()) return internal_error("the kernel wrote outside a result");
    results.push_back(Literal::from_bytes(
        *leaves[i], in_input ? inputs[reused].contents() : outputs[i].contents()));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto before = operands[i].bytes();
    const bool is_same = std::equal(before.begin(), before.end(), inputs[i].contents().begin());
    if (!inputs[i].is_intact() || (!is_same && how.reuse != static_cast<int>(i))) {
      return internal_error("the kernel wrote into or beside an operand");
    }
  }
  return results;
}

std::string check_fusion(const ir::Module& module, std::span<const Literal> arguments,
                         Compiler& compiler, double tolerance, FusionCheck& totals) {
  const auto fusion = is_fusible(module, compiler) ? fused(module, compiler) : nullptr;
  if (fusion == nullptr) {
    ++totals.not_fusible;
    return "";
  }
  ++totals.fusions;
  // Instruction by instruction.
  std::unordered_map<const Instruction*, Literal> values;
  std::vector<Literal> expected;
  for (const auto& instruction : module.entry()->instructions()) {
    if (instruction->opcode() == Opcode::parameter) {
      values.emplace(
          instruction.get(),
          arguments[static_cast<std::size_t>(instruction->attributes().parameter_number)]);
      continue;
    }
    if (instruction->opcode() == Opcode::tuple) continue;
    ++totals.instructions;
    std::vector<Literal> operands;
    for (const Instruction* operand : instruction->operands()) {
      operands.push_back(values.at(operand));
    }
    auto results = launch(*instruction, operands, compiler, {});
    if (!results.ok()) return instruction->name() + ": " + results.status().to_string();
    const std::string message = check_instruction(*instruction, operands, *results, tolerance);
    if (!message.empty()) return instruction->name() + " " + message;
    values.emplace(instruction.get(), std::move((*results)[0]));
  }
  const Instruction& root = *module.entry()->root();
  const auto roots = root.opcode() == Opcode::tuple
                         ? root.operands()
                         : std::vector<Instruction*>{module.entry()->root()};
  for (const Instruction* value : roots) expected.push_back(values.at(value));

  // As one kernel.
  const std::vector<Literal> operands(arguments.begin(), arguments.end());
  const Instruction& kernel = *fusion->entry()->root();
  std::vector<Launch> launches = {{1, false}, {2, false}, {5, false}, {1, true}, {5, true}};
  for (int i = 0; i < kernel.operand_count(); ++i) {
    if (!ir::may_reuse_operand(kernel, i, 0)) continue;
    launches.push_back({1, false, i});
    launches.push_back({5, true, i});
    ++totals.in_place;
    break;
  }
  for (const Launch& how : launches) {
    auto results = launch(kernel, operands, compiler, how);
    ++totals.launches;
    if (!results.ok()) return "fused, " + describe(how) + ": " + results.status().to_string();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::string message = cases::compare_bits(expected[i], (*results)[i]);
      if (!message.empty()) {
        return "fused, " + describe(how) + ", result " + std::to_string(i) + ": " + message;
      }
    }
  }
  return "";
}

std::string check_random_fusion(std::size_t op_case, std::int64_t extent, std::uint64_t seed,
                                Compiler& compiler, FusionCheck& totals) {
  const cases::OpCase& row = cases::op_cases()[op_case];
  auto program = ir::parse_module(extent > 0 ? cases::resized(row, extent) : row.hlo, row.name);
  if (!program.ok()) return row.name + ": " + program.status().to_string();
  const auto module = cases::random_fusion(**program, seed);
  if (module == nullptr) {
    ++totals.not_fusible;
    return "";
  }
  if (const Status valid = ir::verify(*module); !valid.ok()) {
    return row.name + ": the generator's module is invalid: " + valid.to_string();
  }
  if (largest_array(*module) > kMostElements) {
    ++totals.not_fusible;
    return "";
  }
  const auto arguments_of = [&](const ir::Module& m) {
    std::vector<cases::InputRange> ranges(m.entry()->parameters().size(), {-4, 4, seed % 3 == 0});
    return cases::random_arguments(m, seed, ranges);
  };
  const auto check = [&](const ir::Module& m, FusionCheck& counts) {
    return check_fusion(m, arguments_of(m), compiler, row.tolerance, counts);
  };
  const std::string message = check(*module, totals);
  if (message.empty()) return "";
  FusionCheck ignored;
  const auto shrunk =
      cases::shrink(*module, [&](const ir::Module& m) { return !check(m, ignored).empty(); });
  return row.name + (extent > 0 ? " of extent " + std::to_string(extent) : "") + ", seed " +
         std::to_string(seed) + ": " + message + "\nshrunk: " + check(*shrunk, ignored) + "\n" +
         ir::to_text(*shrunk);
}

}  // namespace plimsoll::jit::testing
