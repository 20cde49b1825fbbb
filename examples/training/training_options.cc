// SPDX-License-Identifier: Apache-2.0
#include "examples/training/training_options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <system_error>

#include "examples/training/memory_limit.h"
#include "plimsoll/error.hpp"

namespace plimsoll::examples {
namespace {

bool is_number(const std::string& text, double& value) {
  char* end = nullptr;
  value = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0' && value == value;
}

}  // namespace

std::string check_above_zero(const std::string& text) {
  double value = 0;
  return is_number(text, value) && value > 0 ? "" : "'" + text + "' is no number above zero";
}

std::string check_not_negative(const std::string& text) {
  double value = 0;
  return is_number(text, value) && value >= 0 ? "" : "'" + text + "' is no number, zero or above";
}

std::string check_writable(const std::string& text) {
  namespace fs = std::filesystem;
  const fs::path path(text);
  std::error_code error;
  if (fs::exists(path, error)) {
    if (fs::is_directory(path, error)) return "'" + text + "' is a folder";
    return ::access(path.c_str(), W_OK) == 0 ? "" : "'" + text + "' can't be written";
  }
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, error)) return "there is no folder '" + folder.string() + "'";
  return ::access(folder.c_str(), W_OK | X_OK) == 0
             ? ""
             : "the folder '" + folder.string() + "' can't be written";
}

void TrainingOptions::add_to(CLI::App& app) {
  app.add_option("--batch", batch, "Examples per step")
      ->capture_default_str()
      ->check(check_above_zero);
  app.add_option("--seed", seed, "Of weights, batches and dropout")
      ->check(check_not_negative)
      ->capture_default_str();
  app.add_option(
         "--memory-limit", memory_limit,
         "Device memory: 512MiB, 80% of the device's, 50%peak of the unlimited peak, or none "
         "[PLIMSOLL_MEMORY_LIMIT, else none]")
      ->check([](const std::string& text) -> std::string {
        try {
          chosen_limit(text);
        } catch (const Error& error) {
          return error.message();
        }
        return {};
      });
  app.add_option("--planner", planner, "default, greedy, sqrt or none")
      ->check(CLI::IsMember({"default", "greedy", "sqrt", "none"}));
  app.add_option("--remedies", remedies,
                 "What may be done instead of keeping a value: some of recompute,compress,swap,"
                 "lossy (or lossy:CODEC), or all or none [PLIMSOLL_REMEDIES]");
  app.add_option("--report", report, "Write the run to this file (.json or .html)")
      ->check(check_writable);
  app.add_flag("--no-progress", no_progress, "No progress bar");
  app.add_flag("--json", json, "The result as one JSON object on standard output");
}

void TrainingOptions::add_checkpoint_to(CLI::App& app) {
  app.add_option("--checkpoint", checkpoint, "Save the run to this file (safetensors)")
      ->check(check_writable);
  app.add_option("--checkpoint-interval", checkpoint_interval,
                 "Save after so many steps, and after the last")
      ->capture_default_str()
      ->check(check_above_zero);
  app.add_flag("--resume", resume, "Go on from the checkpoint, where there is one");
}

int run_program(CLI::App& app, int argc, char** argv, const std::function<void()>& body) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    body();
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return 0;
    std::fprintf(stderr, "%s: standard output cannot be written\n", app.get_name().c_str());
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), error.what());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: unexpected: %s\n", app.get_name().c_str(), error.what());
  }
  return 1;
}

}  // namespace plimsoll::examples
