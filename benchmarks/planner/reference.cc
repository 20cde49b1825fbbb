// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/planner/reference.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>

#include "benchmarks/planner/section.h"

namespace plimsoll::planner_benchmark {
namespace {

struct Aim {
  const char* model;
  int permille;
  double percent;
};

constexpr Aim kAims[] = {
    {"unet", 800, 2.51},       {"unet", 500, 9.6},        {"unet", 300, 27},
    {"resnet32", 800, 2.4},    {"resnet32", 500, 8.7},    {"resnet32", 300, 15.5},
    {"resnet32", 200, 22},     {"inceptionv4", 800, 1.5}, {"inceptionv4", 500, 7.5},
    {"inceptionv4", 300, 12},  {"inceptionv4", 200, 19},  {"transformer", 800, 1.2},
    {"transformer", 500, 4.4}, {"transformer", 300, 6.9}, {"transformer", 200, 11},
    {"treelstm", 800, 0},      {"treelstm", 500, 8.5},    {"treelstm", 300, 18},
    {"treelstm", 200, 23},
};

struct Lowest {
  const char* model;
  int aim, impossible;
};
constexpr Lowest kLowest[] = {{"unet", 270, 242},
                              {"resnet32", 80, 57},
                              {"inceptionv4", 150, 119},
                              {"transformer", 120, 95},
                              {"treelstm", 50, 31}};

const Lowest* lowest(const std::string& model) {
  const auto* const found = std::find_if(std::begin(kLowest), std::end(kLowest),
                                         [&](const Lowest& entry) { return model == entry.model; });
  return found == std::end(kLowest) ? nullptr : found;
}

std::optional<double> number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

int permille(double ratio) { return static_cast<int>(std::lround(1000 * ratio)); }

double percent(double factor) { return 100 * (factor - 1); }

void keep_least(std::optional<double>& best, double value) {
  if (!best || value < *best) best = value;
}

Result<std::vector<int>> columns(const Csv& csv, const std::string& path,
                                 std::initializer_list<const char*> names) {
  std::vector<int> found;
  for (const char* name : names) {
    found.push_back(csv.column(name));
    if (found.back() < 0) return invalid_argument(path + ": there is no column " + name);
  }
  return found;
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return not_found("cannot open " + path);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

int Csv::column(std::string_view name) const {
  const auto found = std::find(columns.begin(), columns.end(), name);
  return found == columns.end() ? -1 : static_cast<int>(found - columns.begin());
}

Result<Csv> read_csv(const std::string& path) {
  PLIMSOLL_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  Csv csv;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    std::vector<std::string> fields(1);
    for (const char c : line) {
      if (c == ',') {
        fields.emplace_back();
      } else {
        fields.back() += c;
      }
    }
    if (csv.columns.empty()) {
      csv.columns = std::move(fields);
    } else if (fields.size() == csv.columns.size()) {
      csv.rows.push_back(std::move(fields));
    } else {
      return invalid_argument(path + ": a row of " + std::to_string(fields.size()) +
                              " fields (expected " + std::to_string(csv.columns.size()) + ")");
    }
  }
  return csv;
}

Result<std::map<Cell, Reference>> read_references(const std::string& data) {
  const std::string folder = data + "/dtr-simrd/reference/";
  std::map<Cell, Reference> references;
  {
    const std::string path = folder + "simrd_overheads.csv";
    PLIMSOLL_ASSIGN_OR_RETURN(const Csv csv, read_csv(path));
    PLIMSOLL_ASSIGN_OR_RETURN(
        const auto at,
        columns(csv, path, {"model", "heuristic", "ratio", "status", "overhead_factor"}));
    for (const auto& row : csv.rows) {
      const auto field = [&](std::size_t i) { return row[static_cast<std::size_t>(at[i])]; };
      const auto ratio = number(field(2)), factor = number(field(4));
      if (!ratio) continue;
      Reference& reference = references[{field(0), permille(*ratio)}];
      reference.has_online = true;
      if (field(3) != "ok" || !factor) continue;
      if (!reference.best_online || percent(*factor) < *reference.best_online) {
        reference.best_online = percent(*factor);
        reference.best_online_name = field(1);
      }
    }
  }
  const std::string path = folder + "bounds_and_best_known.csv";
  PLIMSOLL_ASSIGN_OR_RETURN(const Csv csv, read_csv(path));
  PLIMSOLL_ASSIGN_OR_RETURN(const auto at, columns(csv, path,
                                                   {"model", "ratio", "lp_lower_bound",
                                                    "milp_lower_bound", "best_known_overhead"}));
  for (const auto& row : csv.rows) {
    const auto field = [&](std::size_t i) { return number(row[static_cast<std::size_t>(at[i])]); };
    const auto ratio = field(1);
    if (!ratio) continue;
    Reference& reference = references[{row[static_cast<std::size_t>(at[0])], permille(*ratio)}];
    if (const auto best = field(4)) keep_least(reference.best_known, percent(*best));
    for (const std::size_t i : {std::size_t{2}, std::size_t{3}}) {
      const auto bound = field(i);
      if (bound && (!reference.bound || percent(*bound) > *reference.bound)) {
        reference.bound = percent(*bound);
      }
    }
  }
  return references;
}

Result<BestKnown> BestKnown::open(const std::string& path) {
  BestKnown best;
  best.path_ = path;
  if (path.empty() || !std::ifstream(path)) return best;
  PLIMSOLL_ASSIGN_OR_RETURN(const Csv csv, read_csv(path));
  PLIMSOLL_ASSIGN_OR_RETURN(const auto at, columns(csv, path, {"model", "permille", "percent"}));
  for (const auto& row : csv.rows) {
    const auto limit = number(row[static_cast<std::size_t>(at[1])]);
    const auto value = number(row[static_cast<std::size_t>(at[2])]);
    if (!limit || !value) return invalid_argument(path + ": a field is no number");
    best.offer({row[static_cast<std::size_t>(at[0])], static_cast<int>(*limit)}, *value);
  }
  return best;
}

std::optional<double> BestKnown::at(const Cell& cell) const {
  const auto found = best_.find(cell);
  return found == best_.end() ? std::nullopt : std::optional<double>(found->second);
}

void BestKnown::offer(const Cell& cell, double percent) {
  const auto [entry, is_new] = best_.emplace(cell, percent);
  if (!is_new) entry->second = std::min(entry->second, percent);
}

Status BestKnown::save() const {
  if (path_.empty()) return ok_status();
  std::string text = "model,permille,percent\n";
  for (const auto& [cell, value] : best_) {
    text += format("%s,%d,%.6f\n", cell.first.c_str(), cell.second, value);
  }
  std::ofstream stream(path_, std::ios::binary);
  if (!(stream << text).flush()) return unavailable("cannot write " + path_);
  return ok_status();
}

std::optional<double> aim_of(const Cell& cell) {
  for (const Aim& aim : kAims) {
    if (cell.first == aim.model && cell.second == aim.permille) return aim.percent;
  }
  return std::nullopt;
}

int lowest_aim_of(const std::string& model) {
  const Lowest* entry = lowest(model);
  return entry == nullptr ? 1000 : entry->aim;
}

int impossible_below(const std::string& model) {
  const Lowest* entry = lowest(model);
  return entry == nullptr ? 0 : entry->impossible;
}

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names = {"unet", "resnet32", "inceptionv4", "transformer",
                                                 "treelstm"};
  return names;
}

}  // namespace plimsoll::planner_benchmark
