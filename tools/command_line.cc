// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/unknown_variables.h"
#include "tools/command.h"

namespace plimsoll::tools {
namespace {

void print(const Json& json) {
  std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace);
  text += "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
}

int fail(const Status& status, int exit_code, bool as_json) {
  std::fprintf(stderr, "plimsoll: %s\n", status.to_string().c_str());
  if (!as_json) return exit_code;
  Json error = {{"code", std::string(to_string(status.code()))}, {"message", status.message()}};
  if (const MemoryShortage* shortage = status.shortage()) {
    error["limit_bytes"] = shortage->limit_bytes;
    error["floor_bytes"] = shortage->floor_bytes;
    error["culprit"] = shortage->culprit;
  }
  print({{"error", std::move(error)}});
  return exit_code;
}

// Before any command does anything.
Outcome check_variables() {
  PLIMSOLL_CALL_FAULT(check_environment());
  PLIMSOLL_CALL_FAULT(check_unknown_variables());
  return {};
}

std::string command_names(const CLI::App& app) {
  std::string names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  return names;
}

// CLI11 would take what comes next for the value of a flag that ends in '=', be it another flag.
Status check_values(int argc, char** argv) {
  for (int i = 1; i < argc && std::strcmp(argv[i], "--") != 0; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with("--") || argument.find('=') != argument.size() - 1) continue;
    const std::string flag(argument.substr(0, argument.size() - 1));
    return invalid_argument(flag + "=: there is no value behind '='; write " + flag + "=VALUE or " +
                            flag + " VALUE");
  }
  return ok_status();
}

// The arguments without the `--` between the flags of `launch` and the command that it runs, which
// CLI11 would take for the end of all commands' flags.
std::vector<char*> without_mark(int argc, char** argv) {
  std::vector<char*> arguments(argv, argv + argc);
  if (argc < 3 || std::strcmp(argv[1], "launch") != 0) return arguments;
  for (std::size_t i = 2; i < arguments.size() && arguments[i][0] == '-'; ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--") {
      arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
    if (argument == "-n" || argument == "--processes" || argument == "--communicator") ++i;
  }
  return arguments;
}

int run(int argc, char** argv) {
  CLI::App app("Runs tensor programs under a hard memory limit.", "plimsoll");
  app.set_version_flag("--version", PLIMSOLL_VERSION);
  app.require_subcommand(1);
  app.footer("Exit codes: 0; 1: the program or the data is at fault; 2: the call is.");
  Commands commands{app, false, {}};
  add_info(commands);
  add_plan(commands);
  add_run(commands);
  add_launch(commands);
  add_opt(commands);
  add_bench(commands);
  add_pack(commands);
  add_replay(commands);
  add_cache(commands);
  // A call that can't be parsed still gets its error in the form it asked for.
  bool wants_json = false;
  for (int i = 1; i < argc; ++i) wants_json |= std::strcmp(argv[i], "--json") == 0;
  const Status values = check_values(argc, argv);
  if (!values.ok()) return fail(values, 2, wants_json);
  try {
    const std::vector<char*> arguments = without_mark(argc, argv);
    app.parse(static_cast<int>(arguments.size()), arguments.data());
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
    std::string message = error.what();
    // Of the innermost command that was recognized, where it has commands of its own.
    const CLI::App* of = &app;
    int next = 1;
    while (!of->get_subcommands().empty()) {
      of = of->get_subcommands().front();
      ++next;
    }
    if (of->get_require_subcommand_min() > 0) {
      if (argc > next && argv[next][0] != '-')
        message = std::string("'") + argv[next] + "' is no command";
      message += " (commands: " + command_names(*of) + ")";
    }
    return fail(invalid_argument(std::move(message)), 2, wants_json);
  }
  Output output;
  Outcome outcome;
  try {
    outcome = check_variables();
    if (outcome.ok()) outcome = commands.action(output);
  } catch (const std::bad_alloc&) {
    outcome = Outcome::program_fault(
        Status(StatusCode::resource_exhausted, "the host has no memory left"));
  }
  if (!outcome.ok()) return fail(outcome.status(), outcome.exit_code(), commands.json);
  if (commands.json) {
    print(output.json);
  } else {
    std::fwrite(output.text.data(), 1, output.text.size(), stdout);
  }
  // A long text is written before it is flushed.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    return fail(unavailable("standard output cannot be written"), 2, false);
  }
  return 0;
}

}  // namespace

int run_command(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    // Only memory for the command's own data is left to fail here.
    std::fprintf(stderr, "plimsoll: %s\n", error.what());
    return 1;
  }
}

}  // namespace plimsoll::tools
