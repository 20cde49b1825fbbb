// SPDX-License-Identifier: Apache-2.0
// The only source of the benchmarks' programs that compiles CLI11, which takes some ten seconds.
#include "benchmarks/command_line/command_line.h"

#include <CLI/CLI.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace plimsoll::benchmarks {

class CommandLine::Parser : public CLI::App {
 public:
  using CLI::App::App;
};

CommandLine::CommandLine(std::string what, std::string name)
    : parser_(std::make_unique<Parser>(std::move(what), std::move(name))) {}

CommandLine::~CommandLine() = default;

template <typename T>
void CommandLine::add(const std::string& option, T& value, const std::string& what,
                      const Accepted& accepted) {
  CLI::Option* const added = parser_->add_option(option, value, what);
  bool has_default = true;
  if constexpr (!std::is_arithmetic_v<T>) has_default = !value.empty();
  if (has_default) added->capture_default_str();
  const Accepted anything;
  if (accepted.least != anything.least || accepted.most != anything.most) {
    added->check(CLI::Range(accepted.least, accepted.most));
  }
  if (accepted.positive) added->check(CLI::PositiveNumber);
  if (!accepted.one_of.empty()) added->check(CLI::IsMember(accepted.one_of));
  if (accepted.folder) added->check(CLI::ExistingDirectory);
  if (accepted.error != nullptr) added->check(accepted.error);
  if (!accepted.variable.empty()) added->envname(accepted.variable);
}

void CommandLine::add_flag(const std::string& option, bool& value, const std::string& what) {
  parser_->add_flag(option, value, what);
}

void CommandLine::add_hidden(const std::string& option, std::string& value) {
  parser_->add_option(option, value)->group("");
}

std::optional<int> CommandLine::read(int argc, char** argv) {
  try {
    parser_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return parser_->exit(error) == 0 ? 0 : 2;
  }
  return std::nullopt;
}

#define PLIMSOLL_ADD(T) \
  template void CommandLine::add(const std::string&, T&, const std::string&, const Accepted&);
PLIMSOLL_ADD(int)
PLIMSOLL_ADD(std::int64_t)
PLIMSOLL_ADD(std::uint64_t)
PLIMSOLL_ADD(double)
PLIMSOLL_ADD(std::string)
PLIMSOLL_ADD(std::vector<int>)
PLIMSOLL_ADD(std::vector<std::int64_t>)
PLIMSOLL_ADD(std::vector<double>)
PLIMSOLL_ADD(std::vector<std::string>)
#undef PLIMSOLL_ADD

std::optional<int> read_no_arguments(std::string name, int argc, char** argv) {
  CommandLine line("Takes no arguments (docs/benchmarks.md says what it measures).",
                   std::move(name));
  return line.read(argc, argv);
}

}  // namespace plimsoll::benchmarks
