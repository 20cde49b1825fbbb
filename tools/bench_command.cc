// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/planner/planner_benchmark.h"
#include "benchmarks/planner/reference.h"
#include "tools/command.h"
#include "tools/names.h"

namespace plimsoll::tools {
namespace {

using planner_benchmark::BenchOptions;
using planner_benchmark::Section;

struct Part {
  const char* name;
  const char* description;
  Result<Section> (*run)(const BenchOptions&);
  bool needs_data;
};

constexpr Part kParts[] = {
    {"recorded", "recorded training steps at falling limits", planner_benchmark::recorded_steps,
     true},
    {"chains", "unit chains against their exact optimum", planner_benchmark::unit_chains, true},
    {"packing", "published packing instances and a large made-up one", planner_benchmark::packing,
     true},
    {"remedies", "generated training steps with codecs and a 25 GB/s link",
     planner_benchmark::remedies, false},
    {"growth", "planning time over the size of generated training steps", planner_benchmark::growth,
     false},
    {"shapes", "time of passes and first plans over shapes and sizes of programs",
     planner_benchmark::shapes, false},
};

struct BenchFlags {
  BenchOptions options;
  std::vector<std::string> parts, models;  // as given: lists of names
  std::optional<std::string> without;
};

void list_lines(std::string& text, const char* title, const std::vector<std::string>& lines) {
  text +=
      std::string(title) + ": " + (lines.empty() ? "none" : std::to_string(lines.size())) + "\n";
  for (const std::string& line : lines) text += "  " + line + "\n";
}

// INVALID_ARGUMENT where a name is none of those known.
Result<std::vector<std::string>> known_names(const char* flag,
                                             const std::vector<std::string>& lists,
                                             const std::vector<std::string>& known) {
  PLIMSOLL_ASSIGN_OR_RETURN(std::vector<std::string> names, split_names(flag, lists));
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string list;
    for (const std::string& other : known) list += (list.empty() ? "" : ", ") + other;
    return invalid_argument(std::string(flag) + ": '" + name + "' is none of " + list);
  }
  return names;
}

Outcome bench_planner(const BenchFlags& flags, Output& output) {
  std::vector<std::string> part_names;
  for (const Part& part : kParts) part_names.emplace_back(part.name);
  const auto parts = known_names("--only", flags.parts, part_names);
  PLIMSOLL_CALL_FAULT(parts.status());
  const auto models = known_names("--models", flags.models, planner_benchmark::model_names());
  PLIMSOLL_CALL_FAULT(models.status());
  BenchOptions options = flags.options;
  options.models = *models;
  if (flags.without) {
    const auto without = planner::parse_techniques(*flags.without, "--without");
    PLIMSOLL_CALL_FAULT(without.status());
    options.without = *without;
  }
  std::vector<std::string> missed, broken;
  for (const Part& part : kParts) {
    const bool chosen =
        parts->empty() || std::find(parts->begin(), parts->end(), part.name) != parts->end();
    if (!chosen) continue;
    if (part.needs_data && options.data.empty()) {
      return Outcome::call_fault(
          invalid_argument(std::string(part.name) +
                           ": --data or PLIMSOLL_BENCH_DATA must name the folder of instances"));
    }
    const auto section = part.run(options);
    PLIMSOLL_CALL_FAULT(section.status());
    output.json[section->name] = section->rows;
    missed.insert(missed.end(), section->missed.begin(), section->missed.end());
    broken.insert(broken.end(), section->broken.begin(), section->broken.end());
  }
  list_lines(output.text, "missed aims", missed);
  list_lines(output.text, "broken claims", broken);
  output.json["missed"] = missed;
  output.json["broken"] = broken;
  if (broken.empty()) return {};
  std::fwrite(output.text.data(), 1, output.text.size(), stderr);
  return Outcome::program_fault(internal_error(broken.front()));
}

}  // namespace

void add_bench(Commands& commands) {
  CLI::App* bench = commands.app.add_subcommand("bench", "Measure against published figures");
  bench->require_subcommand(1);
  const auto flags = std::make_shared<BenchFlags>();
  CLI::App* command = bench->add_subcommand(
      "planner", "The planner on published instances: overhead, bounds, packing, planning time");
  command->add_flag("--json", commands.json, "Print one JSON object");
  command
      ->add_option("--data", flags->options.data,
                   "Folder with the instances: dtr-simrd, minimalloc, idealloc-dsa, "
                   "dtr-remat-packing")
      ->envname("PLIMSOLL_BENCH_DATA")
      ->check(CLI::ExistingDirectory);
  std::string names;
  for (const Part& part : kParts) {
    names += std::string(names.empty() ? "" : ", ") + part.name + " (" + part.description + ")";
  }
  command->add_option("--only", flags->parts, "Parts: " + names)->allow_extra_args(false);
  std::string models;
  for (const std::string& name : planner_benchmark::model_names()) {
    models += (models.empty() ? "" : ", ") + name;
  }
  command->add_option("--models", flags->models, "Recorded steps: " + models + "; all by default")
      ->allow_extra_args(false);
  command
      ->add_option("--seconds", flags->options.seconds,
                   "To look for each plan in; 0: a fixed amount of work")
      ->check(CLI::NonNegativeNumber);
  std::string techniques;
  for (const planner::TechniqueInfo& each : planner::all_techniques()) {
    techniques += (techniques.empty() ? "" : ", ") + std::string(each.name) + " (" +
                  std::string(each.description) + ")";
  }
  command->add_option("--without", flags->without,
                      "Techniques of the planner to leave out: " + techniques);
  command->add_flag("--quick", flags->options.quick, "Fewer limits and sizes");
  command->add_option("--best-known", flags->options.best_known,
                      "File that keeps the least overhead ever seen per limit");
  command->callback([&commands, flags] {
    commands.action = [&commands, flags](Output& output) {
      // Minutes of work: lines are shown as they come.
      std::FILE* const stream = commands.json ? stderr : stdout;
      flags->options.progress = [stream](const std::string& line) {
        std::fwrite(line.data(), 1, line.size(), stream);
        std::fflush(stream);
      };
      return bench_planner(*flags, output);
    };
  });
}

}  // namespace plimsoll::tools
