// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/status.h"

namespace plimsoll::planner_benchmark {

Result<std::string> read_file(const std::string& path);

// A CSV without quotes; the first line names the columns.
struct Csv {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
  // -1 where there is none.
  int column(std::string_view name) const;
};
Result<Csv> read_csv(const std::string& path);

// A model under a limit in thousandths of its recorded peak.
using Cell = std::pair<std::string, int>;

// What others reached, in percent over the plain step.
struct Reference {
  std::optional<double> best_online;  // nothing: all of them failed, or there is no entry
  bool has_online = false;
  std::string best_online_name;
  std::optional<double> best_known, bound;
};

// From the folder's dtr-simrd/reference/.
Result<std::map<Cell, Reference>> read_references(const std::string& data);

// The least overhead ever seen per cell, in a file that is made when missing.
class BestKnown {
 public:
  // An empty path: kept in memory only.
  static Result<BestKnown> open(const std::string& path);
  std::optional<double> at(const Cell& cell) const;
  void offer(const Cell& cell, double percent);
  Status save() const;

 private:
  std::string path_;
  std::map<Cell, double> best_;
};

// The overhead that is aimed at; nothing where no aim is set.
std::optional<double> aim_of(const Cell& cell);
// The lowest limit at which a plan must be found, in thousandths of the peak.
int lowest_aim_of(const std::string& model);
// Below it there is no schedule.
int impossible_below(const std::string& model);
const std::vector<std::string>& model_names();

}  // namespace plimsoll::planner_benchmark
