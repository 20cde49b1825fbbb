// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/ir/interpreter/interpreter_elementwise.h"
#include "runtime/ir/interpreter/interpreter_parts.h"

namespace plimsoll::ir::interpreter {

// The dtype a reduction keeps its running value in: the sum of floats in f64, anything else of 16
// bits in f32, so that only the end result is rounded to its dtype.
enum class Widening { none, halves, all_floats };
DType widened(DType dtype, Widening widening);
// What fits the reducer: all_floats when it is a plain sum, else halves.
Widening widening_for(const Computation& reducer);

// A computation on scalars (reducers, comparators, map functions) made ready to be called once per
// element. Values pass as bytes in the dtypes of `parameters()` and `results()`.
class ScalarFunction {
 public:
  // `context` and `computation` must outlive the function.
  static Result<ScalarFunction> make(Context& context, const Computation& computation,
                                     Widening widening);

  const std::vector<DType>& parameters() const { return parameters_; }
  const std::vector<DType>& results() const { return results_; }

  // Not reentrant: uses the function's own scratch space.
  Status call(std::span<const std::byte* const> arguments, std::span<std::byte* const> results);

 private:
  struct Step {
    Opcode opcode;
    const Attributes* attributes;
    std::vector<std::size_t> operands;  // slots
    std::size_t result;
  };

  bool compile();
  Status call_through_literals(std::span<const std::byte* const> arguments,
                               std::span<std::byte* const> results);
  std::byte* slot(std::size_t i) { return reinterpret_cast<std::byte*>(&slots_[i]); }

  Context* context_ = nullptr;
  const Computation* computation_ = nullptr;
  Widening widening_ = Widening::none;
  bool compiled_ = false;
  std::vector<DType> parameters_, results_;
  std::vector<std::size_t> parameter_slots_, result_slots_;
  std::vector<DType> slot_dtypes_;
  std::vector<std::uint64_t> slots_;
  std::vector<Step> steps_;
};

}  // namespace plimsoll::ir::interpreter
