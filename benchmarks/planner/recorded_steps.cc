// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include "benchmarks/planner/planner_benchmark.h"
#include "benchmarks/planner/reference.h"
#include "benchmarks/recorded/joint_pack_recorded.h"
#include "benchmarks/recorded/recorded_plan.h"
#include "benchmarks/recorded/recorded_swap.h"
#include "benchmarks/replayer/replay.h"

namespace plimsoll::planner_benchmark {
namespace {

// Published figures have five digits behind the point of a factor.
constexpr double kRounding = 0.001;
// Of the link in the plans that may also copy to host memory.
constexpr std::int64_t kLinkBytesPerSecond = 25'000'000'000;

struct RecordedInstance {
  std::string name;
  replayer::Model model;
  planner::RecordedStep step;
};

Result<RecordedInstance> read_recorded_instance(const std::string& data, const std::string& name) {
  const std::string path = data + "/dtr-simrd/static/" + name + ".txt";
  PLIMSOLL_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  RecordedInstance instance;
  instance.name = name;
  PLIMSOLL_ASSIGN_OR_RETURN(instance.model, replayer::parse_model(text, path));
  PLIMSOLL_ASSIGN_OR_RETURN(instance.step, planner::parse_recorded_step(text, path));
  return instance;
}

// A plan as the replayer saw it.
struct Checked {
  std::optional<double> percent;  // nothing: no plan
  std::optional<double> bound;    // in percent
  double seconds = 0;             // of planning
};

// One limit of one instance.
struct Row {
  Cell cell;
  Checked thorough, quick;
  Checked in_addresses, with_link;
  Reference reference;
  std::optional<double> best_known;  // over all runs and the published figures
  std::optional<double> aim;
};

class RecordedTable {
 public:
  RecordedTable(const BenchOptions& options, std::map<Cell, Reference> references, BestKnown best)
      : options_(options), references_(std::move(references)), best_(std::move(best)) {
    section_.name = "recorded_steps";
  }

  Status run() {
    head();
    for (const std::string& name : model_names()) {
      if (!options_.models.empty() && std::find(options_.models.begin(), options_.models.end(),
                                                name) == options_.models.end()) {
        continue;
      }
      PLIMSOLL_ASSIGN_OR_RETURN(const RecordedInstance instance,
                                read_recorded_instance(options_.data, name));
      run_instance(instance);
    }
    certificate_means();
    return best_.save();
  }
  Section take() { return std::move(section_); }

 private:
  std::vector<int> limits_of(const std::string& name) const {
    std::vector<int> limits = {900, 800, 700, 600, 500, 400, 300, 250, 200, 150, 100, 50};
    if (options_.quick) limits = {800, 500, 300, 200};
    limits.push_back(lowest_aim_of(name));
    std::sort(limits.begin(), limits.end());
    limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
    std::erase_if(limits, [&](int limit) { return limit < impossible_below(name); });
    return limits;
  }

  void head() {
    add_line(section_, options_,
             format("%-12s %5s %8s %8s %8s %8s %8s %8s %8s %8s %8s %9s %8s %8s %8s", "recorded",
                    "limit", "ours %", "online %", "known %", "bound %", "gap", "aim %", "plan s",
                    "quick %", "quick s", "address %", "link %", "bound %", "link s"));
  }

  void run_instance(const RecordedInstance& instance) {
    std::vector<Row> rows;
    // Every plan is one for larger limits, too.
    std::vector<planner::Schedule> smaller;
    for (const int permille : limits_of(instance.name)) {
      Row row;
      row.cell = {instance.name, permille};
      row.reference = references_[row.cell];
      row.aim = aim_of(row.cell);
      const auto limit = static_cast<std::int64_t>(
          std::floor(permille * 1e-3 * static_cast<double>(instance.model.peak_bytes)));
      planner::SearchEffort effort;
      effort.without = options_.without;
      effort.level = planner::SearchEffort::Level::quick;
      row.quick = plan(instance, limit, effort, row.cell);
      effort.level = planner::SearchEffort::Level::thorough;
      effort.seconds = options_.seconds;
      effort.reorder = true;
      row.thorough = plan(instance, limit, effort, row.cell, &smaller);
      effort.reorder = false;
      if (permille == 500 || permille == 300) {
        row.in_addresses = place(instance, limit, effort, row.cell);
      }
      if (permille == 500 || permille == 300 || permille == 200) {
        row.with_link = swap(instance, limit, effort, row.cell);
      }
      keep_best(row);
      judge(instance, row, rows);
      print(row);
      rows.push_back(row);
    }
  }

  Checked plan(const RecordedInstance& instance, std::int64_t limit,
               const planner::SearchEffort& effort, const Cell& cell,
               std::vector<planner::Schedule>* smaller = nullptr) {
    Checked checked;
    const Stopwatch watch;
    const auto plan = planner::plan_recorded_step(
        instance.step, limit, effort, planner::Policy::default_,
        smaller == nullptr ? std::span<const planner::Schedule>() : *smaller);
    checked.seconds = watch.seconds();
    if (!plan.ok()) return checked;
    if (smaller != nullptr) smaller->assign(1, plan->schedule);
    const auto replay = replayer::replay(
        instance.model, planner::schedule_text(instance.step, plan->schedule), {limit, false});
    const std::string name = format("%s at %.3f", cell.first.c_str(), cell.second * 1e-3);
    if (!replay.ok()) {
      section_.broken.push_back(name + ": the replayer refuses: " + replay.status().message());
      return checked;
    }
    checked.percent = replay->overhead_percent;
    if (std::abs(replay->overhead_percent - plan->overhead) > 1e-6) {
      section_.broken.push_back(format("%s: %.6f %% is claimed, %.6f %% replayed", name.c_str(),
                                       plan->overhead, replay->overhead_percent));
    }
    if (plan->unlimited_seconds > 0) {
      checked.bound = 100 * (plan->lower_bound_seconds / plan->unlimited_seconds - 1);
    }
    return checked;
  }

  Checked place(const RecordedInstance& instance, std::int64_t limit,
                const planner::SearchEffort& effort, const Cell& cell) {
    Checked checked;
    const Stopwatch watch;
    const auto placed = planner::plan_recorded_step_in_addresses(instance.step, limit, effort);
    checked.seconds = watch.seconds();
    if (!placed.ok()) return checked;
    check(instance, planner::addressed_schedule_text(instance.step, *placed), {limit, true},
          placed->plan.overhead, cell, checked);
    return checked;
  }

  Checked swap(const RecordedInstance& instance, std::int64_t limit,
               const planner::SearchEffort& effort, const Cell& cell) {
    Checked checked;
    planner::Tier host;
    host.bytes = planner::kUnlimited;
    host.out_bytes_per_second = host.in_bytes_per_second = static_cast<double>(kLinkBytesPerSecond);
    const Stopwatch watch;
    const auto plan = planner::plan_recorded_swaps(instance.step, limit, effort, host);
    checked.seconds = watch.seconds();
    if (!plan.ok()) return checked;
    check(instance, plan->actions, {limit, false, kLinkBytesPerSecond}, plan->plan.overhead, cell,
          checked);
    if (plan->plan.unlimited_seconds > 0) {
      checked.bound = 100 * (plan->plan.lower_bound_seconds / plan->plan.unlimited_seconds - 1);
    }
    return checked;
  }

  void check(const RecordedInstance& instance, const std::string& schedule,
             const replayer::ReplayOptions& options, double claimed, const Cell& cell,
             Checked& checked) {
    const auto replay = replayer::replay(instance.model, schedule, options);
    const std::string name = format("%s at %.3f", cell.first.c_str(), cell.second * 1e-3);
    if (!replay.ok()) {
      section_.broken.push_back(name + ": the replayer refuses: " + replay.status().message());
      return;
    }
    checked.percent = replay->overhead_percent;
    if (std::abs(replay->overhead_percent - claimed) > 1e-6) {
      section_.broken.push_back(format("%s: %.6f %% is claimed, %.6f %% replayed", name.c_str(),
                                       claimed, replay->overhead_percent));
    }
  }

  void keep_best(Row& row) {
    if (row.reference.best_known) best_.offer(row.cell, *row.reference.best_known);
    if (row.reference.best_online) best_.offer(row.cell, *row.reference.best_online);
    if (row.quick.percent) best_.offer(row.cell, *row.quick.percent);
    if (row.thorough.percent) best_.offer(row.cell, *row.thorough.percent);
    row.best_known = best_.at(row.cell);
  }

  void miss(const Row& row, const std::string& what) {
    section_.missed.push_back(
        format("%s at %.3f: ", row.cell.first.c_str(), row.cell.second * 1e-3) + what);
  }

  void judge(const RecordedInstance& instance, const Row& row, const std::vector<Row>& smaller) {
    const auto& ours = row.thorough.percent;
    if (row.thorough.bound && row.best_known && *row.thorough.bound > *row.best_known + kRounding) {
      section_.broken.push_back(format("%s at %.3f: bound %.4f %% above the best known %.4f %%",
                                       row.cell.first.c_str(), row.cell.second * 1e-3,
                                       *row.thorough.bound, *row.best_known));
    }
    if (!ours) {
      if (std::any_of(smaller.begin(), smaller.end(),
                      [](const Row& other) { return other.thorough.percent.has_value(); })) {
        miss(row, "not monotone: a smaller limit has a plan");
      }
      if (row.cell.second >= lowest_aim_of(instance.name)) miss(row, "no plan is found");
      return;
    }
    const auto compare = [&](const std::optional<double>& other, const char* name) {
      if (!other || *ours <= *other + kRounding) return;
      std::string text =
          format("%.3f %%, %.3f points above %s (%.3f %%)", *ours, *ours - *other, name, *other);
      if (row.thorough.bound && *row.thorough.bound > *other + kRounding) {
        text += format("; in its order no schedule is below %.3f %%", *row.thorough.bound);
      }
      miss(row, text);
    };
    compare(row.aim, "the aim");
    compare(row.reference.best_known, "the best known schedule");
    compare(row.reference.best_online, "the best online heuristic");
    for (const Row& other : smaller) {
      if (other.thorough.percent && *other.thorough.percent < *ours - 1e-9) {
        miss(row, format("not monotone: %.4f %% here, %.4f %% at %.3f", *ours,
                         *other.thorough.percent, other.cell.second * 1e-3));
      }
    }
    judge_quick(instance, row);
    judge_addresses(row);
    judge_link(row);
  }

  void judge_link(const Row& row) {
    const auto& linked = row.with_link.percent;
    if (linked && *linked > *row.thorough.percent + 1e-9) {
      miss(row, format("%.3f %% with a link, worse than recomputing alone", *linked));
    }
    if (row.cell.second != 300) return;
    if (!linked) {
      miss(row, "no plan with a link");
      return;
    }
    const double third = *row.thorough.percent / 3;
    if (*linked <= third + kRounding) return;
    std::string text = format("%.3f %% with a link, %.3f points above a third of recomputing alone",
                              *linked, *linked - third);
    if (row.with_link.bound && *row.with_link.bound > third + kRounding) {
      text += format("; in this order no schedule is below %.3f %%", *row.with_link.bound);
    }
    miss(row, text);
  }

  void judge_addresses(const Row& row) {
    const double most = row.cell.second == 500 ? 1 : row.cell.second == 300 ? 3 : 0;
    if (most == 0) return;
    if (!row.in_addresses.percent) {
      miss(row, "no plan in addresses");
      return;
    }
    const double more = *row.in_addresses.percent - *row.thorough.percent;
    if (more > most) {
      miss(row, format("%.3f points more in addresses, %.3f above the aim", more, more - most));
    }
  }

  void judge_quick(const RecordedInstance& instance, const Row& row) {
    const std::size_t ops = instance.model.operations.size();
    const double most_seconds = ops <= 1000 ? 0.02 : ops <= 10000 ? 0.3 : 4;
    if (row.quick.seconds > most_seconds) {
      miss(row,
           format("the quick plan takes %.3f s (aim %.2f s)", row.quick.seconds, most_seconds));
    }
    if (row.reference.best_online && !row.quick.percent) {
      miss(row, "no quick plan, though an online heuristic runs");
    } else if (row.reference.best_online &&
               *row.quick.percent > *row.reference.best_online + kRounding) {
      miss(row, format("the quick plan's %.3f %% is %.3f points above the best online heuristic",
                       *row.quick.percent, *row.quick.percent - *row.reference.best_online));
    }
  }

  void print(const Row& row) {
    const auto cell = [](const std::optional<double>& value) {
      return value ? format("%8.3f", *value) : std::string("       -");
    };
    std::optional<double> gap;
    if (row.thorough.percent && row.thorough.bound)
      gap = *row.thorough.percent - *row.thorough.bound;
    add_line(
        section_, options_,
        format("%-12s %5.3f %s %s %s %s %s %s %8.3f %s %8.4f  %s %s %s %8.3f",
               row.cell.first.c_str(), row.cell.second * 1e-3, cell(row.thorough.percent).c_str(),
               cell(row.reference.best_online).c_str(), cell(row.reference.best_known).c_str(),
               cell(row.thorough.bound).c_str(), cell(gap).c_str(), cell(row.aim).c_str(),
               row.thorough.seconds, cell(row.quick.percent).c_str(), row.quick.seconds,
               cell(row.in_addresses.percent).c_str(), cell(row.with_link.percent).c_str(),
               cell(row.with_link.bound).c_str(), row.with_link.seconds));
    Json json = {{"model", row.cell.first}, {"ratio", row.cell.second * 1e-3}};
    const auto put = [&](const char* name, const std::optional<double>& value) {
      json[name] = value ? Json(*value) : Json(nullptr);
    };
    put("overhead", row.thorough.percent);
    put("best_online", row.reference.best_online);
    if (row.reference.best_online) json["best_online_name"] = row.reference.best_online_name;
    put("best_known_published", row.reference.best_known);
    put("best_known", row.best_known);
    put("bound", row.thorough.bound);
    put("bound_published", row.reference.bound);
    put("gap", gap);
    put("aim", row.aim);
    json["planning_seconds"] = row.thorough.seconds;
    put("quick_overhead", row.quick.percent);
    json["quick_planning_seconds"] = row.quick.seconds;
    put("overhead_in_addresses", row.in_addresses.percent);
    json["planning_seconds_in_addresses"] = row.in_addresses.seconds;
    put("overhead_with_link", row.with_link.percent);
    put("bound_with_link", row.with_link.bound);
    json["planning_seconds_with_link"] = row.with_link.seconds;
    section_.rows.push_back(std::move(json));
    if (gap) gaps_[row.cell.second].push_back(*gap);
  }

  void certificate_means() {
    struct {
      int permille;
      double aim;
    } const aims[] = {{800, 0.2}, {500, 2}, {300, 6}};
    for (const auto& [permille, aim] : aims) {
      const std::vector<double>& gaps = gaps_[permille];
      if (gaps.empty()) continue;
      double mean = 0;
      for (const double gap : gaps) mean += gap / static_cast<double>(gaps.size());
      add_line(section_, options_,
               format("mean gap to the bound at %.1f: %.3f points (aim %.1f)", permille * 1e-3,
                      mean, aim));
      section_.rows.push_back({{"ratio", permille * 1e-3}, {"mean_gap", mean}, {"aim", aim}});
      if (mean > aim) {
        section_.missed.push_back(format("mean gap at %.1f: %.3f points, %.3f above the aim",
                                         permille * 1e-3, mean, mean - aim));
      }
    }
  }

  const BenchOptions& options_;
  std::map<Cell, Reference> references_;
  BestKnown best_;
  std::map<int, std::vector<double>> gaps_;
  Section section_;
};

}  // namespace

Result<Section> recorded_steps(const BenchOptions& options) {
  PLIMSOLL_ASSIGN_OR_RETURN(auto references, read_references(options.data));
  PLIMSOLL_ASSIGN_OR_RETURN(BestKnown best, BestKnown::open(options.best_known));
  RecordedTable table(options, std::move(references), std::move(best));
  PLIMSOLL_RETURN_IF_ERROR(table.run());
  return table.take();
}

}  // namespace plimsoll::planner_benchmark
