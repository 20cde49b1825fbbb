// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/c_api/handles.h"
#include "runtime/trace/record/attribute_words.h"

namespace plimsoll::c_api {

// An operation as the recorder takes it.
struct OpRequest {
  ir::Opcode opcode = ir::Opcode::add;
  std::vector<trace::Node*> operands;
  std::vector<trace::NodeRef> added;  // operands the caller left out, kept alive
  trace::OpAttributes op;
  std::optional<ir::Shape> given;
  std::optional<ir::DType> accumulation;  // dot, convolution: result dtype asked for
};

// Fills `op`, `given` and the operands that have defaults from the ABI's flat struct.
Status read_attributes(const plm_op_attributes& in, trace::Recorder& recorder, OpRequest& request);

}  // namespace plimsoll::c_api
