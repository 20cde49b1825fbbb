// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/cases/random_steps.h"

// Random choices that are written as HLO text; only random_*.cc include this.
namespace plimsoll::cases {

// What stands for `$` and a letter in a text.
using Letters = std::vector<std::pair<char, std::string>>;
std::string text_of(std::int64_t number);
std::string text_of(ir::DType dtype);
std::string text_of(const ir::Dims& dims);  // [2,3]
std::string filled(const std::string& text, const Letters& letters);

// The result of the program `text` whose parameters are `operands`: by a call, or by its
// instructions where the builder is. A text that does not fit them throws std::logic_error.
ir::Instruction* written(Builder& b, const std::string& text,
                         const std::vector<ir::Instruction*>& operands);
// The same for an element of a result that is a tuple of so many.
std::vector<ir::Instruction*> written_parts(Builder& b, const std::string& text,
                                            const std::vector<ir::Instruction*>& operands);

// Integers in about [-limit / 2, 3 * limit / 2], which follow from what every implementation
// computes with the same bits; of unsigned dtypes none is below 0.
ir::Instruction* places(Builder& b, const ir::Dims& dims, std::int64_t limit, ir::DType dtype);

}  // namespace plimsoll::cases
