// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "runtime/ir/interpreter.h"
#include "runtime/ir/text.h"
#include "runtime/ir/verifier.h"
#include "runtime/passes/passes.h"
#include "tests/cases/op_cases.h"

namespace plimsoll::passes {
namespace {

// What `change` makes of the case computes the same bits; empty when it does, else what is wrong.
template <typename Change>
std::string difference(const cases::OpCase& op_case, Change change) {
  auto module = ir::parse_module(op_case.hlo, op_case.name);
  if (!module.ok()) return module.status().message();
  const auto arguments = cases::random_arguments(**module, 7, op_case.ranges);
  const Result<ir::Literal> expected = ir::interpret(**module, arguments);
  const std::unique_ptr<ir::Module> changed = (*module)->clone();
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

TEST(Equivalence, EveryPassKeepsTheBitsOfEveryCase) {
  for (const cases::OpCase& op_case : cases::op_cases()) {
    for (const PassInfo& pass : all_passes()) {
      EXPECT_EQ(difference(op_case, [&](ir::Module& module) { return pass.run(module).status(); }),
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
