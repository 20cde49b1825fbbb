// SPDX-License-Identifier: Apache-2.0
#include "tools/program_file.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string_view>
#include <utility>

#include "runtime/base/file.h"
#include "runtime/import/npy.h"
#include "runtime/import/program_bytes.h"

namespace plimsoll::tools {

namespace {

constexpr const char* kStandardInput = "<stdin>";

}  // namespace

Outcome read_input(const std::string& path, InputFile& input) {
  if (path == "-") {
    input.name = kStandardInput;
    input.text.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
    return {};
  }
  auto read = read_file(path);
  PLIMSOLL_CALL_FAULT(read.status());
  input = {path, std::move(*read)};
  return {};
}

namespace {

Result<std::vector<std::int64_t>> read_sizes(std::string_view text) {
  std::vector<std::int64_t> sizes;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    std::int64_t size = 0;
    const auto [stop, error] = std::from_chars(one.data(), one.data() + one.size(), size);
    if (error != std::errc() || stop != one.data() + one.size() || size < 0) {
      return invalid_argument("'" + std::string(one) + "' is no size");
    }
    sizes.push_back(size);
    text.remove_prefix(std::min(text.size(), one.size() + 1));
  }
  return sizes;
}

// Of arrays of a tuple, and of one participant alone, nothing is known to the model.
bool is_whole(std::string_view name) { return name.find_first_of("@#") == std::string_view::npos; }

Outcome read_given(const ModelFlags& flags, import::ProgramOptions& options) {
  for (const std::string& flag : flags.shapes) {
    const std::size_t equals = flag.rfind('=');
    if (equals == std::string::npos || equals == 0) {
      return Outcome::call_fault(
          invalid_argument("--input-shape " + flag + ": expected NAME=SIZE,SIZE,..."));
    }
    auto sizes = read_sizes(std::string_view(flag).substr(equals + 1));
    PLIMSOLL_CALL_FAULT(sizes.status().with_context("--input-shape " + flag));
    options.inputs.push_back({flag.substr(0, equals), std::move(*sizes), {}});
  }
  for (const std::string& flag : flags.values) {
    const std::size_t equals = flag.find('=');
    if (equals == std::string::npos || !is_whole(flag.substr(0, equals))) continue;
    auto value = import::read_npy(flag.substr(equals + 1));
    if (!value.ok()) continue;  // said where arguments are read
    options.inputs.push_back({flag.substr(0, equals), {}, std::move(*value)});
  }
  return {};
}

}  // namespace

void add_model_flags(CLI::App* command, ModelFlags& flags) {
  command
      ->add_option("--input-shape", flags.shapes,
                   "NAME=SIZE,SIZE,...: of an input whose sizes a model in ONNX leaves open")
      ->allow_extra_args(false);
}

void add_value_flag(CLI::App* command, ModelFlags& flags) {
  flags.values_are_for_models = true;
  command
      ->add_option("--input", flags.values,
                   "NAME=FILE.npy: of an input of a model in ONNX on which shapes depend")
      ->allow_extra_args(false);
}

Outcome parse_program(const InputFile& input, ModelFlags& flags,
                      std::unique_ptr<ir::Module>& module) {
  import::ProgramOptions options;
  const bool is_model = import::takes_inputs(input.text);
  if (!flags.values.empty() && flags.values_are_for_models && !is_model) {
    return Outcome::call_fault(invalid_argument(
        "--input is for models in ONNX whose shapes depend on it; nothing is run here"));
  }
  if (!flags.shapes.empty() && !is_model) {
    return Outcome::call_fault(invalid_argument(
        "--input-shape is for models in ONNX; this program says the shapes of its parameters"));
  }
  if (is_model) {
    Outcome outcome = read_given(flags, options);
    if (!outcome.ok()) return outcome;
  }
  options.constant_inputs = &flags.used;
  auto parsed = is_model && input.name != kStandardInput
                    ? import::load_program(input.name, std::move(options))
                    : import::read_program(input.text, input.name, options);
  if (!parsed.ok()) return Outcome::program_fault(parsed.status());
  module = std::move(*parsed);
  return {};
}

Outcome read_program(const std::string& path, ModelFlags& flags,
                     std::unique_ptr<ir::Module>& module) {
  InputFile input;
  const Outcome outcome = read_input(path, input);
  if (!outcome.ok()) return outcome;
  return parse_program(input, flags, module);
}

Outcome write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.flush();
  if (!file) return Outcome::call_fault(unavailable(path + ": cannot be written"));
  return {};
}

std::string parameter_names(const ir::Computation& entry) {
  std::string names;
  for (const ir::Instruction* parameter : entry.parameters()) {
    names += (names.empty() ? "" : ", ") + parameter->name();
  }
  return names.empty() ? "none" : names;
}

}  // namespace plimsoll::tools
