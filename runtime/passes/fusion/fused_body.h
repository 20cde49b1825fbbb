// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/pointer_map.h"
#include "runtime/ir/module.h"

namespace plimsoll::passes {

// Whether the list holds the instruction.
inline bool contains(const std::vector<ir::Instruction*>& list, const ir::Instruction* value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// A fused computation while it is put together from instructions and fusions of one computation. It
// goes again unless it is released, for a fusion to call.
class FusedBody {
 public:
  explicit FusedBody(ir::Module& module)
      : computation_(module.add_computation("fused_computation")) {}
  FusedBody(FusedBody&& other) noexcept
      : computation_(std::exchange(other.computation_, nullptr)),
        inputs_(std::move(other.inputs_)),
        values_(std::move(other.values_)) {}
  FusedBody& operator=(FusedBody&&) = delete;
  ~FusedBody();

  // The inner value of an outer one; a new parameter when nothing was added for it.
  ir::Instruction* value(ir::Instruction* outer);
  // Copies an instruction, or the body of a fusion; its results stand for the outer value(s) then.
  void add(ir::Instruction& outer);
  // Makes these inner values the results (a tuple when there are several).
  void finish(const std::vector<ir::Instruction*>& results);

  // The computation, which stays; there is none here any more.
  ir::Computation* release() { return std::exchange(computation_, nullptr); }

  ir::Computation* computation() const { return computation_; }
  // The outer values of the parameters, in order.
  const std::vector<ir::Instruction*>& inputs() const { return inputs_; }

 private:
  void add_body_of(ir::Instruction& fusion);

  ir::Computation* computation_;
  std::vector<ir::Instruction*> inputs_;
  PointerMap<ir::Instruction, ir::Instruction*> values_;
};

// "add_fusion" for a body whose (first) result is an add.
std::string fusion_name(const ir::Computation& body);

}  // namespace plimsoll::passes
