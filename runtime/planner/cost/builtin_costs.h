// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/planner.h"

namespace plimsoll::planner {

// The built-in table's times with another model's kernels (what workspaces they take and in which
// form they read): the same answers on every machine and whatever was measured.
class TableCostModel : public RooflineCostModel {
 public:
  explicit TableCostModel(const CostModel& kernels) : kernels_(kernels) {}
  std::int64_t workspace_bytes(const ir::Instruction& instruction) const override {
    return kernels_.workspace_bytes(instruction);
  }
  bool reads_encoded(const ir::Instruction& instruction, const EncodedInput& input) const override {
    return kernels_.reads_encoded(instruction, input);
  }
  bool writes_encoded(const ir::Instruction& instruction,
                      const EncodedOutput& output) const override {
    return kernels_.writes_encoded(instruction, output);
  }

 private:
  const CostModel& kernels_;
};

// `options` with links at the table's speeds, and a fixed amount of work.
PlanOptions table_options(const PlanOptions& options);

// Makes each transfer of a plan in the way that had better be taken by the links of `options`
// (time_transfer): one that was made for the table's links knows no synchronous copies.
void choose_copies(Plan& plan, const PlanOptions& options);

// True when `model` takes the table's times for everything in the module.
bool is_table(const ir::Module& module, const CostModel& model);

// What a plan takes by `model` and the links of `options`, whatever it was made for: predicted and
// unlimited seconds, of its callees too. The lower bound is the unlimited time. Kernels of the plan
// itself take what they do with the bytes that a cache of `cache_bytes` misses (cache_misses.h).
void price_plan(Plan& plan, const CostModel& model, const PlanOptions& options,
                double cache_bytes = 0);

}  // namespace plimsoll::planner
