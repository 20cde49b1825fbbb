// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/cases/op_cases.h"

// The parts of the table; only op_cases*.cc include this.
namespace plimsoll::cases {

// `computations` before, then an entry whose parameters p0, p1, ... have the given shapes and whose
// instructions are `body` (one per line, the last one marked ROOT).
std::string module_text(const std::vector<std::string>& parameters, std::string_view body,
                        std::string_view computations = {});

// The text with every `T[` as `dtype[`.
std::string with_dtype(std::string text, const std::string& dtype);

// "add" -> a computation `add_f32` of `opcode` on two scalars.
std::string reducer(std::string_view opcode, std::string_view dtype);
std::string reducer_name(std::string_view opcode, std::string_view dtype);

void add_elementwise_cases(std::vector<OpCase>& table);
void add_integer_cases(std::vector<OpCase>& table);
void add_movement_cases(std::vector<OpCase>& table);
void add_contraction_cases(std::vector<OpCase>& table);
void add_reduction_cases(std::vector<OpCase>& table);
void add_irregular_cases(std::vector<OpCase>& table);
void add_control_cases(std::vector<OpCase>& table);

}  // namespace plimsoll::cases
