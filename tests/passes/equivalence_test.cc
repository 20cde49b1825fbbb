// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/shapes/verifier.h"
#include "runtime/ir/text/text.h"
#include "runtime/passes/passes.h"
#include "tests/cases/op_cases.h"
#include "tests/cases/random_module.h"

namespace plimsoll::passes {
namespace {

// What `change` makes of the module computes the same bits; empty when it does, else what is wrong.
template <typename Change>
std::string difference(const ir::Module& module, const std::vector<ir::Literal>& arguments,
                       Change change) {
  const Result<ir::Literal> expected = ir::interpret(module, arguments);
  const std::unique_ptr<ir::Module> changed = module.clone();
  const Status status = change(*changed);
  if (!status.ok()) return status.message();
  const Status valid = ir::verify(*changed);
  if (!valid.ok()) return valid.message();
  const Result<ir::Literal> actual = ir::interpret(*changed, arguments);
  if (!expected.ok() || !actual.ok()) {
    // A case the interpreter refuses (a custom call, say) is refused after the passes too.
    return expected.ok() ? actual.status().message() : "";
  }
  const std::string found = cases::compare_bits(*expected, *actual);
  return found.empty() ? "" : found + "\n" + ir::to_text(*changed);
}

template <typename Change>
std::string difference(const cases::OpCase& op_case, Change change) {
  auto module = ir::parse_module(op_case.hlo, op_case.name);
  if (!module.ok()) return module.status().message();
  // Signed zeros, NaNs, infinities and integer limits are what identities fail on.
  std::vector<cases::InputRange> special = op_case.ranges;
  special.resize((*module)->entry()->parameters().size());
  for (cases::InputRange& range : special) range.specials = true;
  for (const auto& ranges : {op_case.ranges, special}) {
    const std::string found =
        difference(**module, cases::random_arguments(**module, 7, ranges), change);
    if (!found.empty()) return found;
  }
  return "";
}

TEST(Equivalence, EveryPassKeepsTheBitsOfEveryCase) {
  for (const cases::OpCase& op_case : cases::op_cases()) {
    for (const PassInfo& pass : all_passes()) {
      EXPECT_EQ(
          difference(op_case, [&](ir::Module& module) { return pass.run(module, {}).status(); }),
          "")
          << op_case.name << " after " << pass.name;
    }
  }
}

TEST(Equivalence, ThePipelineKeepsTheBitsOfEveryCase) {
  for (const cases::OpCase& op_case : cases::op_cases()) {
    EXPECT_EQ(difference(op_case, [](ir::Module& module) { return optimize(module); }), "")
        << op_case.name;
  }
}

TEST(Equivalence, ThePipelineKeepsTheBitsOfRandomModules) {
  cases::RandomModuleOptions small;
  small.smallest_bytes = 64;
  small.largest_bytes = 4 << 10;
  const auto optimized = [](ir::Module& module) { return optimize(module); };
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto module = cases::random_module(seed, small);
    const std::vector<cases::InputRange> ranges(
        module->entry()->parameters().size(),
        cases::InputRange{.low = -2, .high = 2, .specials = seed % 2 == 1});
    const auto wrong = [&](const ir::Module& candidate) {
      return difference(candidate, cases::random_arguments(candidate, seed, ranges), optimized);
    };
    if (wrong(*module).empty()) continue;
    const auto shrunk =
        cases::shrink(*module, [&](const ir::Module& m) { return !wrong(m).empty(); });
    ADD_FAILURE() << "seed " << seed << ": " << wrong(*shrunk) << "\nbefore\n"
                  << ir::to_text(*shrunk);
  }
}

// What few programs have, as expansions make it; functions of libraries, which the interpreter has
// not, are refused before and after.
TEST(Equivalence, ThePipelineKeepsTheBitsOfRareOperations) {
  cases::RandomModuleOptions rare;
  rare.smallest_bytes = 64;
  rare.largest_bytes = 4 << 10;
  rare.rare = true;
  rare.training_step = false;
  const auto optimized = [](ir::Module& module) { return optimize(module); };
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    auto module = cases::random_module(seed, rare);
    ASSERT_TRUE(expand(*module).ok());
    auto real = expand_complex(std::move(module));
    ASSERT_TRUE(real.ok()) << real.status().to_string();
    auto wide = expand_narrow(std::move(real).value());
    ASSERT_TRUE(wide.ok()) << wide.status().to_string();
    const auto wrong = [&](const ir::Module& candidate) {
      return difference(candidate, cases::random_arguments(candidate, seed), optimized);
    };
    if (ir::interpret(**wide, cases::random_arguments(**wide, seed)).ok()) ++compared;
    if (wrong(**wide).empty()) continue;
    const auto shrunk =
        cases::shrink(**wide, [&](const ir::Module& m) { return !wrong(m).empty(); });
    ADD_FAILURE() << "seed " << seed << ": " << wrong(*shrunk) << "\nbefore\n"
                  << ir::to_text(*shrunk);
  }
  EXPECT_GT(compared, 30);
}

TEST(Equivalence, ThePipelineComesToRest) {
  for (const cases::OpCase& op_case : cases::op_cases()) {
    auto module = ir::parse_module(op_case.hlo, op_case.name);
    ASSERT_TRUE(module.ok()) << module.status().message();
    std::int64_t previous = -1;
    int rounds = 0;
    while ((*module)->instruction_count() != previous && rounds < 5) {
      previous = (*module)->instruction_count();
      ASSERT_TRUE(optimize(**module).ok());
      ++rounds;
    }
    EXPECT_LT(rounds, 5) << op_case.name;
  }
}

}  // namespace
}  // namespace plimsoll::passes
