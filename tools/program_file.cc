// SPDX-License-Identifier: Apache-2.0
#include "tools/program_file.h"

#include <fstream>
#include <iostream>
#include <iterator>
#include <utility>

#include "runtime/base/file.h"
#include "runtime/import/program_bytes.h"

namespace plimsoll::tools {

Outcome read_input(const std::string& path, InputFile& input) {
  if (path == "-") {
    input.name = "<stdin>";
    input.text.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
    return {};
  }
  auto read = read_file(path);
  PLIMSOLL_CALL_FAULT(read.status());
  input = {path, std::move(*read)};
  return {};
}

Outcome parse_program(const InputFile& input, std::unique_ptr<ir::Module>& module) {
  auto parsed = import::read_program(input.text, input.name);
  if (!parsed.ok()) return Outcome::program_fault(parsed.status());
  module = std::move(*parsed);
  return {};
}

Outcome read_program(const std::string& path, std::unique_ptr<ir::Module>& module) {
  InputFile input;
  const Outcome outcome = read_input(path, input);
  if (!outcome.ok()) return outcome;
  return parse_program(input, module);
}

Outcome write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.flush();
  if (!file) return Outcome::call_fault(unavailable(path + ": cannot be written"));
  return {};
}

}  // namespace plimsoll::tools
