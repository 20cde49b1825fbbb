// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "runtime/base/status.h"

namespace plimsoll::tools {

// The whole command: parses the call, runs it, prints, and returns the exit code. Once a process.
int run_command(int argc, char** argv);

using Json = nlohmann::ordered_json;

// What a subcommand ends with: a status, and whose fault a failure is.
class Outcome {
 public:
  Outcome() = default;
  // The program or the data is at fault: exit code 1.
  static Outcome program_fault(Status status) { return Outcome(std::move(status), 1); }
  // The call (a flag, a variable, a path) is at fault: exit code 2.
  static Outcome call_fault(Status status) { return Outcome(std::move(status), 2); }

  // What was run has failed by itself, with a code of its own.
  static Outcome with_code(Status status, int code) { return Outcome(std::move(status), code); }

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  int exit_code() const { return ok() ? 0 : exit_code_; }

 private:
  Outcome(Status status, int exit_code) : status_(std::move(status)), exit_code_(exit_code) {}
  Status status_;
  int exit_code_ = 0;
};

// What a subcommand has to say: `json` for --json, `text` otherwise.
struct Output {
  Json json = Json::object();
  std::string text;
};

// Where subcommands are registered. The chosen one's `action` is run after parsing.
struct Commands {
  CLI::App& app;
  bool json = false;
  std::function<Outcome(Output&)> action;

  CLI::App* add(const std::string& name, const std::string& description,
                CLI::App* group = nullptr) {
    CLI::App* command = (group == nullptr ? &app : group)->add_subcommand(name, description);
    command->add_flag("--json", json, "Print one JSON object");
    return command;
  }
  // A command that only has commands of its own.
  CLI::App* add_group(const std::string& name, const std::string& description) {
    CLI::App* group = app.add_subcommand(name, description);
    group->require_subcommand(1);
    return group;
  }
};

void add_info(Commands& commands);
void add_run(Commands& commands);
void add_plan(Commands& commands);
void add_opt(Commands& commands);
void add_bench(Commands& commands);
void add_pack(Commands& commands);
void add_cache(Commands& commands);
void add_replay(Commands& commands);
void add_launch(Commands& commands);

}  // namespace plimsoll::tools

// Returns from the enclosing function, which returns an Outcome, when `expression` has failed.
#define PLIMSOLL_CALL_FAULT(expression)                                           \
  do {                                                                            \
    ::plimsoll::Status plimsoll_status_ = (expression);                           \
    if (!plimsoll_status_.ok())                                                   \
      return ::plimsoll::tools::Outcome::call_fault(std::move(plimsoll_status_)); \
  } while (false)
#define PLIMSOLL_PROGRAM_FAULT(expression)                                           \
  do {                                                                               \
    ::plimsoll::Status plimsoll_status_ = (expression);                              \
    if (!plimsoll_status_.ok())                                                      \
      return ::plimsoll::tools::Outcome::program_fault(std::move(plimsoll_status_)); \
  } while (false)
