// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/calls/call.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <charconv>

namespace plimsoll::kernels {
namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

// What stands before `mark`, and takes both away.
std::string_view take_until(std::string_view& text, char mark) {
  const std::size_t at = text.find(mark);
  const std::string_view before = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return trimmed(before);
}

}  // namespace

void add_arrays(const ir::Shape& shape, std::vector<ir::Shape>& arrays) {
  if (!shape.is_tuple()) {
    arrays.push_back(shape);
    return;
  }
  for (const ir::Shape& element : shape.elements()) add_arrays(element, arrays);
}

std::vector<std::pair<std::string, std::int64_t>> parse_call_options(std::string_view text) {
  std::vector<std::pair<std::string, std::int64_t>> options;
  text = trimmed(text);
  if (text.size() < 2 || text.front() != '{' || text.back() != '}') return options;
  text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    std::string_view value = take_until(text, ',');
    const std::string name(take_until(value, '='));
    value = take_until(value, ':');  // a type follows
    std::int64_t number = value == "true" ? 1 : 0;
    (void)std::from_chars(value.data(), value.data() + value.size(), number);
    if (!name.empty()) options.emplace_back(name, number);
  }
  return options;
}

LibraryCall::LibraryCall(const ir::Instruction& instruction)
    : instruction_(instruction),
      options_(parse_call_options(instruction.attributes().find_extra("backend_config"))) {
  for (const ir::Instruction* const operand : instruction.operands()) {
    add_arrays(operand->shape(), operands_);
  }
  add_arrays(instruction.shape(), results_);
}

Status LibraryCall::error(std::string_view what) const {
  return invalid_argument(fmt::format("custom-call {} ({}): {}", instruction_.name(),
                                      instruction_.attributes().custom_call_target, what));
}

Status LibraryCall::expect_counts(std::size_t operands, std::size_t results) const {
  if (operands_.size() == operands && results_.size() == results) return ok_status();
  return error(fmt::format("{} operands and {} results, must be {} and {}", operands_.size(),
                           results_.size(), operands, results));
}

Result<LibraryCall::Dims> LibraryCall::dims(std::string_view kind, const Arrays& arrays,
                                            std::size_t i, ir::DType dtype, bool is_complex,
                                            std::size_t rank) const {
  const auto wanted = [&] {
    return fmt::format("{} numbers of {} dims or more", is_complex ? "complex" : "real", rank);
  };
  if (i >= arrays.size()) return error(fmt::format("{} {} is missing", kind, i));
  const ir::Shape& shape = arrays[i];
  const bool fits = shape.is_array() && shape.dtype() == dtype &&
                    (!is_complex || (shape.rank() > 0 && shape.dim(shape.rank() - 1) == 2)) &&
                    shape.rank() - (is_complex ? 1 : 0) >= static_cast<int>(rank);
  if (!fits) {
    return error(fmt::format("{} {} is {}, must be {} of {}", kind, i, shape.to_string(), wanted(),
                             ir::to_string(dtype)));
  }
  Dims made = shape.dims().to_vector();
  if (is_complex) made.pop_back();
  return made;
}

Status LibraryCall::expect(std::string_view kind, const Arrays& arrays, std::size_t i,
                           ir::DType dtype, bool is_complex, const Dims& wanted) const {
  PLIMSOLL_ASSIGN_OR_RETURN(const Dims found,
                            dims(kind, arrays, i, dtype, is_complex, wanted.size()));
  if (found == wanted) return ok_status();
  return error(fmt::format("{} {} has the dims [{}], must have [{}]", kind, i,
                           fmt::join(found, ","), fmt::join(wanted, ",")));
}

Result<char> LibraryCall::letter(std::string_view name, std::string_view allowed) const {
  const auto found = static_cast<char>(number(name, allowed.front()));
  if (allowed.find(found) != std::string_view::npos) return found;
  return error(fmt::format("{} is {}, must be a letter of {}", name, number(name, 0), allowed));
}

std::int64_t LibraryCall::number(std::string_view name, std::int64_t otherwise) const {
  for (const auto& [key, value] : options_) {
    if (key == name) return value;
  }
  return otherwise;
}

std::string_view LibraryCall::text(std::string_view name) const {
  return instruction_.attributes().find_extra(name);
}

}  // namespace plimsoll::kernels
