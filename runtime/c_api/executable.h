// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/c_api/handles.h"
#include "runtime/serve/shared_plans.h"

namespace plimsoll::c_api {

// An array of the parameters or results.
struct Leaf {
  ir::Shape shape;
  std::string name;
};

struct Bound {
  trace::Tensor* tensor = nullptr;      // holds the node, so that no assignment takes its memory
  std::shared_ptr<trace::Value> value;  // pinned, so that it stays where it is
};

// Gives up the tensor of a bound parameter.
void unpin(trace::Context& context, const Bound& bound);
// Whether the tensor may be parameter `i`.
Status check_tensor(const plm_executable& owner, std::size_t i, const trace::Tensor* tensor);
// Evaluates; on return the node is a leaf whose bytes are there, and pinned.
Status evaluate_and_pin(trace::Context& context, trace::Node* node, bool on_device);

}  // namespace plimsoll::c_api

struct plm_executable {
  plimsoll::trace::Context* context = nullptr;  // retained
  std::shared_ptr<plimsoll::memory::Budget> budget;
  std::shared_ptr<const plimsoll::executor::ProgramCompiler> compiler;
  std::shared_ptr<const plimsoll::executor::Program> program;
  std::shared_ptr<plimsoll::executor::SharedPlans> plans;
  plimsoll::planner::PlanPolicy policy;
  plimsoll::planner::Question question;
  std::vector<plimsoll::c_api::Leaf> parameters, results;
  std::vector<plimsoll::c_api::Bound> bound;
  std::string summary;
  mutable std::mutex floor_mutex;
  mutable std::int64_t floor_bytes = -1;

  ~plm_executable() {
    for (const plimsoll::c_api::Bound& one : bound) {
      if (one.tensor != nullptr) plimsoll::c_api::unpin(*context, one);
    }
    if (context != nullptr) context->release();
  }
};
