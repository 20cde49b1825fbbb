// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/interpreter/interpreter_elementwise.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// A computation on scalars (reducer, comparator, combiner, map function) as a flat list of
// elementwise steps over short arrays, so that it can be applied to many elements at once. The
// steps are the interpreter's own, so the meaning is too. Immutable; keeps nothing of the module.
class ScalarProgram {
 public:
  // Most elements of one evaluation.
  static constexpr std::int64_t kLanes = 128;

  // With `widen_halves`, f16 and bf16 values are computed in f32, and parameters and results are
  // f32. UNIMPLEMENTED when the computation holds more than elementwise operations on scalars.
  static Result<ScalarProgram> compile(const ir::Computation& computation, bool widen_halves);

  const std::vector<ir::DType>& parameters() const { return parameters_; }
  const std::vector<ir::DType>& results() const { return results_; }

  // Registers for evaluations by one thread. The program must outlive it.
  class Evaluator {
   public:
    explicit Evaluator(const ScalarProgram& program);
    // Where the caller writes parameter `i`, and reads result `i`: kLanes elements each.
    std::byte* parameter(std::size_t i) { return slot(program_.parameter_slots_[i]); }
    std::byte* result(std::size_t i) { return slot(program_.result_slots_[i]); }
    void run(std::int64_t count);

   private:
    std::byte* slot(std::size_t i) {
      return reinterpret_cast<std::byte*>(registers_.data() + i * kLanes);
    }
    const ScalarProgram& program_;
    std::vector<std::uint64_t> registers_;
  };

 private:
  struct Step {
    ir::Opcode opcode;
    ir::Attributes attributes;
    std::vector<std::size_t> operands;
    std::size_t result;
  };
  struct Constant {
    std::size_t slot;
    ir::DType dtype;
    std::uint64_t bits;
  };

  Status add(const ir::Computation& computation, const std::vector<std::size_t>& arguments,
             bool widen_halves, std::vector<std::size_t>& roots);

  std::vector<ir::DType> parameters_, results_, slots_;
  std::vector<std::size_t> parameter_slots_, result_slots_;
  std::vector<Constant> constants_;
  std::vector<Step> steps_;
};

// Binary computations that have loops of their own. `second` is `(a, b) -> b`.
enum class Combiner : std::uint8_t { none, add, multiply, maximum, minimum, and_, or_, second };
Combiner recognize_combiner(const ir::Computation& computation);

// `(..., a_k, b_k, ...) -> a_k < b_k` and its kin: which pair of parameters is compared, and how.
struct PlainComparison {
  std::size_t key = 0;
  ir::ComparisonDirection direction;
  ir::ComparisonOrder order;
};
std::optional<PlainComparison> recognize_comparison(const ir::Computation& computation);

}  // namespace plimsoll::kernels
