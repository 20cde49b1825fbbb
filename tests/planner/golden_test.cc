// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/ir/text.h"
#include "runtime/planner/cost_model.h"
#include "runtime/planner/planner.h"

namespace plimsoll::planner {
namespace {

// One comment line: `// [policy: P] limit: L expect: A, B, ...`
//   L: unlimited, floor, floor-1, a number of bytes, or N%gap: the floor plus N % of what lies
//      between it and the unlimited peak.
//   expectations: RESOURCE_EXHAUSTED; peak or recompute, a comparison, and a number or `limit`;
//      `step NAME` or `no step NAME`: that instruction is (not) recomputed.
struct Expectation {
  std::string text, policy = "default", limit;
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
    std::istringstream list(line.substr(at + 7));
    for (std::string item; std::getline(list, item, ',');) e.wanted.push_back(trimmed(item));
    found.push_back(e);
  }
  return found;
}

void compare(std::int64_t value, const std::string& relation, std::int64_t other) {
  if (relation == "=") {
    EXPECT_EQ(value, other);
  } else if (relation == "<=") {
    EXPECT_LE(value, other);
  } else if (relation == ">") {
    EXPECT_GT(value, other);
  } else {
    ADD_FAILURE() << "unknown relation " << relation;
  }
}

void check(const ir::Module& module, const Expectation& e) {
  SCOPED_TRACE(e.text);
  const RooflineCostModel cost_model;
  PlanOptions options;
  const auto floor = find_floor(module, cost_model, options);
  const auto unlimited = make_plan(module, cost_model, options);
  ASSERT_TRUE(floor.ok() && unlimited.ok());
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
  const auto policy = parse_policy(e.policy);
  ASSERT_TRUE(policy.has_value());
  options.policy = *policy;
  const auto plan = make_plan(module, cost_model, options);
  if (e.wanted == std::vector<std::string>{"RESOURCE_EXHAUSTED"}) {
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.status().code(), StatusCode::resource_exhausted);
    return;
  }
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  const Status proof = check_plan(module, *plan);
  EXPECT_TRUE(proof.ok()) << proof.to_string();
  for (const std::string& wanted : e.wanted) {
    SCOPED_TRACE(wanted);
    std::istringstream words(wanted);
    std::string what, relation, number;
    words >> what >> relation >> number;
    if (what == "peak" || what == "recompute") {
      const std::int64_t value = what == "peak" ? plan->peak_bytes : plan->counts.recompute;
      compare(value, relation, number == "limit" ? options.limit_bytes : std::stoll(number));
      continue;
    }
    const std::string name = what == "no" ? number : relation;
    const bool found = std::any_of(plan->steps.begin(), plan->steps.end(), [&](const Step& s) {
      return s.kind == StepKind::recompute && s.instruction->name() == name;
    });
    EXPECT_EQ(found, what != "no");
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
  EXPECT_GE(checked, 12);
}

}  // namespace
}  // namespace plimsoll::planner
