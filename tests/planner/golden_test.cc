// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/ir/text/text.h"
#include "runtime/planner/check/check.h"
#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/options.h"
#include "runtime/planner/planner.h"

namespace plimsoll::planner {
namespace {

// One comment line: `// [FIELD: VALUE ...] limit: L expect: A, B, ...`
//   L: unlimited, floor, floor-1, a number of bytes, or N%gap: the floor plus N % of what lies
//      between it and the unlimited peak, both those of recomputing alone.
//   fields: `policy: P`; `remedies: R` (options.h); `min: N` bytes; `host: N` and `disk: N` bytes;
//      `link: N` bytes per second, each way, of both.
//   expectations: RESOURCE_EXHAUSTED;
//      peak, recompute, encode, decode, lossy, swap_out, swap_in, host_bytes or disk_bytes, a
//      comparison, and a number or `limit`; overhead, a comparison, and a number of per cent;
//      `step NAME`, `encode NAME CODEC`, `swap NAME`, each maybe after `no`: that instruction is
//      recomputed, encoded by a codec whose text begins so, or swapped out.
struct Expectation {
  std::string text, policy = "default", remedies = "all", limit;
  std::int64_t min_bytes = 0, host = 0, disk = 0;
  double link = 0;
  std::vector<std::string> wanted;
};

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t");
  const std::size_t last = text.find_last_not_of(" \t");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

std::string field(const std::string& line, const std::string& key) {
  const std::size_t at = line.find(key + ":");
  if (at == std::string::npos) return "";
  std::istringstream rest(line.substr(at + key.size() + 1));
  std::string word;
  rest >> word;
  return word;
}

std::vector<Expectation> expectations(const std::string& hlo) {
  std::vector<Expectation> found;
  std::istringstream lines(hlo);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find("expect:");
    if (line.rfind("//", 0) != 0 || at == std::string::npos) continue;
    Expectation e;
    e.text = line;
    e.limit = field(line, "limit");
    if (const std::string policy = field(line, "policy"); !policy.empty()) e.policy = policy;
    e.remedies = "recompute,compress,swap";
    if (const std::string words = field(line, "remedies"); !words.empty()) e.remedies = words;
    const auto number = [&](const char* key) {
      const std::string digits = field(line, key);
      return digits.empty() ? 0.0 : std::stod(digits);
    };
    e.min_bytes = static_cast<std::int64_t>(number("min"));
    e.host = static_cast<std::int64_t>(number("host"));
    e.disk = static_cast<std::int64_t>(number("disk"));
    e.link = number("link");
    std::istringstream list(line.substr(at + 7));
    for (std::string item; std::getline(list, item, ',');) e.wanted.push_back(trimmed(item));
    found.push_back(e);
  }
  return found;
}

void compare(double value, const std::string& relation, double other) {
  if (relation == "=") {
    EXPECT_EQ(value, other);
  } else if (relation == "<=") {
    EXPECT_LE(value, other);
  } else if (relation == ">=") {
    EXPECT_GE(value, other);
  } else if (relation == ">") {
    EXPECT_GT(value, other);
  } else {
    ADD_FAILURE() << "unknown relation " << relation;
  }
}

PlanOptions options_of(const Expectation& e) {
  PlanOptions options;
  const auto remedies = parse_remedies(e.remedies, "remedies");
  EXPECT_TRUE(remedies.ok());
  if (remedies.ok()) options.remedies = *remedies;
  const auto policy = parse_policy(e.policy, "policy");
  EXPECT_TRUE(policy.ok());
  if (policy.ok()) options.policy = *policy;
  options.min_bytes = e.min_bytes;
  options.host.bytes = e.host;
  options.disk.bytes = e.disk;
  if (e.link > 0) {
    for (Tier* tier : {&options.host, &options.disk}) {
      tier->out_bytes_per_second = tier->in_bytes_per_second = e.link;
    }
  }
  return options;
}

double measure(const Plan& plan, const std::string& what) {
  const std::map<std::string, std::int64_t> numbers = {
      {"peak", plan.peak_bytes},
      {"recompute", plan.counts.recompute},
      {"encode", plan.counts.encode},
      {"decode", plan.counts.decode},
      {"lossy", plan.counts.lossy},
      {"swap_out", plan.counts.swap_out},
      {"swap_in", plan.counts.swap_in},
      {"host_bytes", plan.tier_bytes.host},
      {"disk_bytes", plan.tier_bytes.disk},
  };
  if (what == "overhead") return 100 * (plan.predicted_seconds / plan.unlimited_seconds - 1);
  const auto found = numbers.find(what);
  EXPECT_NE(found, numbers.end()) << "unknown expectation " << what;
  return found == numbers.end() ? 0 : static_cast<double>(found->second);
}

bool has_step(const Plan& plan, const std::string& what, const std::string& name,
              const std::string& codec) {
  return std::any_of(plan.steps.begin(), plan.steps.end(), [&](const Step& s) {
    if (s.instruction == nullptr || s.instruction->name() != name) return false;
    if (what == "step") return s.kind == StepKind::recompute;
    if (what == "swap") return s.kind == StepKind::swap_out;
    return s.kind == StepKind::encode && to_string(s.codec).starts_with(codec);
  });
}

void check(const ir::Module& module, const Expectation& e) {
  SCOPED_TRACE(e.text);
  const RooflineCostModel cost_model;
  PlanOptions alone;
  alone.remedies.compress = alone.remedies.swap = false;
  const auto floor = find_floor(module, cost_model, alone);
  const auto unlimited = make_plan(module, cost_model, alone);
  ASSERT_TRUE(floor.ok() && unlimited.ok());
  PlanOptions options = options_of(e);
  if (e.limit == "floor") {
    options.limit_bytes = floor->bytes;
  } else if (e.limit == "floor-1") {
    options.limit_bytes = floor->bytes - 1;
  } else if (e.limit.ends_with("%gap")) {
    options.limit_bytes =
        floor->bytes + (unlimited->peak_bytes - floor->bytes) * std::stoll(e.limit) / 100;
  } else if (e.limit != "unlimited") {
    options.limit_bytes = std::stoll(e.limit);
  }
  const auto plan = make_plan(module, cost_model, options);
  if (e.wanted == std::vector<std::string>{"RESOURCE_EXHAUSTED"}) {
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.status().code(), StatusCode::resource_exhausted);
    return;
  }
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  const Status proof = check_plan(module, *plan);
  EXPECT_TRUE(proof.ok()) << proof.to_string();
  EXPECT_LE(plan->tier_bytes.host, options.host.bytes);
  EXPECT_LE(plan->tier_bytes.disk, options.disk.bytes);
  for (const std::string& wanted : e.wanted) {
    SCOPED_TRACE(wanted);
    std::istringstream words(wanted);
    std::string what, second, third;
    words >> what;
    const bool no = what == "no";
    if (no) words >> what;
    words >> second >> third;
    if (what == "step" || what == "swap" ||
        (what == "encode" && !third.empty() && (third[0] < '0' || third[0] > '9'))) {
      EXPECT_EQ(has_step(*plan, what, second, third), !no);
      continue;
    }
    compare(measure(*plan, what), second,
            third == "limit" ? static_cast<double>(options.limit_bytes) : std::stod(third));
  }
}

TEST(PlannerGolden, EveryFileMeetsItsExpectations) {
  int checked = 0;
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(PLIMSOLL_SOURCE_DIR) + "/tests/golden")) {
    if (entry.path().extension() == ".hlo") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& path : files) {
    SCOPED_TRACE(path.filename().string());
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    const auto module = ir::parse_module(text.str(), path.filename().string());
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    for (const Expectation& e : expectations(text.str())) {
      check(**module, e);
      ++checked;
    }
  }
  EXPECT_GE(checked, 40);
}

}  // namespace
}  // namespace plimsoll::planner
