// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/c_api/handles.h"
#include "runtime/serve/program_run.h"
#include "runtime/serve/served_program.h"

namespace plimsoll::c_api {

using Leaf = executor::ServedProgram::Leaf;

struct Bound {
  trace::Tensor* tensor = nullptr;      // holds the node, so that no assignment takes its memory
  std::shared_ptr<trace::Value> value;  // pinned, so that it stays where it is
};

// Gives up the tensor of a bound parameter.
void unpin(trace::Context& context, const Bound& bound);
// Whether the tensor may be parameter `i`.
Status check_tensor(const plm_executable& owner, std::size_t i, const trace::Tensor* tensor);
// Of the arrays that a caller gives, and whether a list is NULL.
Status check_counts(const plm_executable& owner, size_t parameter_count, size_t result_count,
                    bool lists_missing);
// Whether it is the whole program, and not one participant's part.
Status require_alone(const plm_executable& owner);
// What the C struct says.
Result<executor::RunControl> read_control(const plm_run_options* given);
// Evaluates; on return the node is a leaf whose bytes are there, and pinned.
Status evaluate_and_pin(trace::Context& context, trace::Node* node, bool on_device);

}  // namespace plimsoll::c_api

struct plm_executable {
  plimsoll::trace::Context* context = nullptr;                      // retained
  std::shared_ptr<const plimsoll::executor::ServedProgram> served;  // with its runs
  std::size_t participant = 0, participants = 1;  // of plm_executable_create_together
  std::vector<plimsoll::c_api::Bound> bound;
  std::string summary;
  mutable std::mutex floor_mutex;
  mutable std::int64_t floor_bytes = -1;
  const plimsoll::ForkMark mark;

  ~plm_executable() {
    for (const plimsoll::c_api::Bound& one : bound) {
      if (one.tensor != nullptr) plimsoll::c_api::unpin(*context, one);
    }
    if (context != nullptr) context->release();
  }
};
