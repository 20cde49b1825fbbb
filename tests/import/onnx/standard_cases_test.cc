// SPDX-License-Identifier: Apache-2.0
// The standard's own cases, each run without a limit and again at half of its peak (or its floor,
// where that is more). What is not expected to pass stands in expectations.txt, with the reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

#include "runtime/executor/executable.h"
#include "runtime/executor/host_run.h"
#include "tests/executor/test_provider.h"
#include "tests/import/onnx/standard_case.h"

namespace plimsoll::testing {

void PrintTo(const StandardCase& one, std::ostream* out) { *out << one.name; }

namespace {

// Lines `CASE REASON...`; `CASE` may end in `*`.
class Expectations {
 public:
  Expectations() {
    std::ifstream file(PLIMSOLL_SOURCE_DIR "/tests/import/onnx/expectations.txt");
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line[0] == '#') continue;
      const std::size_t space = line.find(' ');
      rows_.emplace_back(line.substr(0, space), line.substr(std::min(space, line.size() - 1) + 1));
    }
  }
  // Null where the case is to pass.
  const std::string* reason(const std::string& name) const {
    for (const auto& [pattern, reason] : rows_) {
      const bool is_open = pattern.ends_with('*');
      if (is_open ? name.starts_with(pattern.substr(0, pattern.size() - 1)) : name == pattern) {
        return &reason;
      }
    }
    return nullptr;
  }
  const std::vector<std::pair<std::string, std::string>>& rows() const { return rows_; }

 private:
  std::vector<std::pair<std::string, std::string>> rows_;
};

const Expectations& expectations() {
  static const Expectations all;
  return all;
}

std::string compare(const ir::Literal& got, const std::vector<ir::Literal>& want) {
  if (want.size() == 1) return difference(got, want[0]);
  if (!got.shape().is_tuple() || got.elements().size() != want.size()) {
    return "results are " + got.shape().to_string();
  }
  for (std::size_t i = 0; i < want.size(); ++i) {
    const std::string text = difference(got.elements()[i], want[i]);
    if (!text.empty()) return "output " + std::to_string(i) + ": " + text;
  }
  return {};
}

struct LimitedResult {
  ir::Literal value;
  std::int64_t peak_bytes = 0;
};

Result<LimitedResult> run_at(const std::shared_ptr<const executor::Program>& program,
                             std::span<const ir::Literal> arguments, std::int64_t limit) {
  const auto budget = memory::Budget::create(provider().device(), limit, {});
  PLIMSOLL_ASSIGN_OR_RETURN(const auto executable,
                            executor::make_executable(program, {}, {}, *budget));
  PLIMSOLL_ASSIGN_OR_RETURN(ir::Literal value,
                            executor::run_on_host(*executable, *budget, arguments));
  const std::int64_t peak = budget->statistics().peak_bytes;
  if (peak > limit) return internal_error("the peak is over the limit");
  return LimitedResult{std::move(value), peak};
}

// What goes wrong, or nothing.
std::string run_set(const StandardCase& one, const CaseData& data) {
  import::ProgramOptions options;
  options.inputs = data.inputs;
  std::vector<std::string> constants;
  options.constant_inputs = &constants;
  auto module = import::load_program(one.folder + "/model.onnx", options);
  if (!module.ok()) return module.status().to_string();
  std::vector<ir::Literal> arguments;
  for (const import::GivenInput& input : data.inputs) {
    if (std::find(constants.begin(), constants.end(), input.name) == constants.end()) {
      arguments.push_back(*input.value);
    }
  }
  auto program = executor::Program::create(std::move(*module), provider(), true);
  if (!program.ok()) return program.status().to_string();
  const auto unlimited = run_at(*program, arguments, planner::kUnlimited);
  if (!unlimited.ok()) return unlimited.status().to_string();
  if (std::string text = compare(unlimited->value, data.outputs); !text.empty()) return text;
  const auto floor = (*program)->floor({});
  if (!floor.ok()) return "floor: " + floor.status().to_string();
  const std::int64_t limit = std::max(floor->bytes, unlimited->peak_bytes / 2);
  const auto limited = run_at(*program, arguments, limit);
  if (!limited.ok()) return "at " + std::to_string(limit) + ": " + limited.status().to_string();
  if (!(limited->value == unlimited->value)) return "other bits at " + std::to_string(limit);
  return {};
}

std::string run_case(const StandardCase& one) {
  for (int set = 0;; ++set) {
    const auto data = read_case_data(one, set);
    if (!data.ok()) {
      if (data.status().code() != StatusCode::not_found) return data.status().to_string();
      return set == 0 ? "has no data" : "";
    }
    if (std::string text = run_set(one, *data); !text.empty()) return text;
  }
}

class OnnxStandard : public ::testing::TestWithParam<StandardCase> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OnnxStandard);

TEST_P(OnnxStandard, Passes) {
  const std::string failure = run_case(GetParam());
  const std::string* const reason = expectations().reason(GetParam().name);
  if (reason == nullptr) {
    EXPECT_EQ(failure, "");
    return;
  }
  EXPECT_NE(failure, "") << GetParam().name << " passes: take it out of expectations.txt";
  if (!failure.empty()) GTEST_SKIP() << *reason << " (" << failure << ")";
}

std::string name_of(const ::testing::TestParamInfo<StandardCase>& info) {
  std::string name = info.param.name;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Cases, OnnxStandard, ::testing::ValuesIn(standard_cases()), name_of);

TEST(OnnxExpectations, NameCasesThatThereAre) {
  const auto cases = standard_cases();
  if (cases.empty()) GTEST_SKIP() << "libonnx-testdata is not installed";
  for (const auto& [pattern, reason] : expectations().rows()) {
    EXPECT_GT(reason.size(), 10U) << pattern;
    const bool is_there = std::any_of(cases.begin(), cases.end(), [&](const StandardCase& one) {
      return expectations().reason(one.name) == &reason;
    });
    EXPECT_TRUE(is_there) << pattern;
  }
}

}  // namespace
}  // namespace plimsoll::testing
