// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>

namespace plimsoll::benchmarks {

// Which texts an argument takes; each of them, where it takes several.
struct Accepted {
  // Of a number.
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  bool positive = false;
  // Of a text: one of these, or the name of a folder that is there.
  std::set<std::string> one_of = {};
  bool folder = false;
  // What is wrong with a text; empty: nothing.
  std::function<std::string(const std::string&)> error = nullptr;
  // Of the environment, read where the command line has no such argument.
  std::string variable = {};
};

// The command line of a benchmark. Its variables outlive it.
class CommandLine {
 public:
  // `what` is measured by the program `name`.
  CommandLine(std::string what, std::string name);
  ~CommandLine();

  // An option (--rounds), or an argument without a name (workloads). What `value` holds is the
  // default. T: int, std::int64_t, std::uint64_t, double, std::string, or a vector of int,
  // std::int64_t, double or std::string, which takes any number.
  template <typename T>
  void add(const std::string& option, T& value, const std::string& what,
           const Accepted& accepted = {});
  // True where it is given.
  void add_flag(const std::string& option, bool& value, const std::string& what);
  // For what the program starts itself with: --help does not show it.
  void add_hidden(const std::string& option, std::string& value);

  // The exit status of a program that must end here: 0 after --help, 2 after arguments that it
  // can't take, of which it has told.
  std::optional<int> read(int argc, char** argv);

 private:
  class Parser;
  std::unique_ptr<Parser> parser_;
};

// The same for a benchmark without arguments.
std::optional<int> read_no_arguments(std::string name, int argc, char** argv);

}  // namespace plimsoll::benchmarks
