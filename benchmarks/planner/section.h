// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "runtime/planner/techniques.h"

namespace plimsoll::planner_benchmark {

using Json = nlohmann::ordered_json;

// What one part of the benchmark found.
struct Section {
  std::string name;
  Json rows = Json::array();
  std::string text;                 // a table
  std::vector<std::string> missed;  // aims, by how much
  std::vector<std::string> broken;  // claims that turned out to be false: bugs
};

struct BenchOptions {
  std::string data;                 // folder of the published instances
  bool quick = false;               // fewer limits and sizes
  double seconds = 0;               // to look for each plan in; 0: a fixed amount of work
  planner::TechniqueSet without;    // left out of all plans
  std::vector<std::string> models;  // recorded steps to plan; none: all
  std::string best_known;           // file with a running minimum; empty: none is kept
  std::function<void(const std::string&)> progress;  // one line as soon as it is known
};

// Processor time of this process since it was made: what other programs do counts little.
class Stopwatch {
 public:
  double seconds() const { return now() - start_; }

 private:
  static double now() {
    timespec time = {};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  double start_ = now();
};

// snprintf to a string.
template <typename... Arguments>
std::string format(const char* form, Arguments... arguments) {
  std::string text(static_cast<std::size_t>(std::snprintf(nullptr, 0, form, arguments...)), '\0');
  std::snprintf(text.data(), text.size() + 1, form, arguments...);
  return text;
}

// Adds a line to the table and tells it at once.
inline void add_line(Section& section, const BenchOptions& options, std::string line) {
  line += '\n';
  if (options.progress) options.progress(line);
  section.text += line;
}

}  // namespace plimsoll::planner_benchmark
