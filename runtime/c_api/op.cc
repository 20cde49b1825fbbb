// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "runtime/base/index.h"
#include "runtime/c_api/op_attributes.h"

using namespace plimsoll;
using c_api::guarded;
using c_api::unwrap;

namespace {

Status give_results(trace::Context& context, const trace::NodeRef& node, plm_tensor** out,
                    std::size_t out_count) {
  const bool tuple = (node->flags & trace::kTupleResult) != 0;
  const std::size_t count = tuple ? at(trace::element_count(*node.get())) : 1;
  if (out_count != count) {
    return invalid_argument(std::string(ir::to_string(node->opcode)) + ": has " +
                            std::to_string(count) + " results, out_count is " +
                            std::to_string(out_count));
  }
  if (!tuple) {
    out[0] = c_api::wrap(context.make_tensor(node.get()));
    return ok_status();
  }
  std::vector<trace::NodeRef> elements;
  for (std::size_t i = 0; i < count; ++i) {
    PLIMSOLL_ASSIGN_OR_RETURN(auto element,
                              context.recorder().element(node.get(), static_cast<int>(i)));
    elements.push_back(std::move(element));
  }
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = c_api::wrap(context.make_tensor(elements[i].get()));
  }
  return ok_status();
}

Status record_general(trace::Context& context, ir::Opcode opcode, const plm_tensor* const* operands,
                      std::size_t operand_count, const plm_op_attributes* attributes,
                      plm_tensor** out, std::size_t out_count) {
  c_api::OpRequest request;
  request.opcode = opcode;
  for (std::size_t i = 0; i < operand_count; ++i) {
    request.operands.push_back(unwrap(operands[i])->node);
  }
  trace::Recorder& recorder = context.recorder();
  PLIMSOLL_ASSIGN_OR_RETURN(const plm_op_attributes known, c_api::read_options(attributes));
  PLIMSOLL_RETURN_IF_ERROR(c_api::read_attributes(known, recorder, request));
  PLIMSOLL_ASSIGN_OR_RETURN(trace::NodeRef node,
                            recorder.record(opcode, request.operands, &request.op,
                                            request.given ? &*request.given : nullptr));
  if (request.accumulation && *request.accumulation != node->dtype) {
    const ir::Shape wanted(*request.accumulation, ir::Dims(node->dims()));
    PLIMSOLL_ASSIGN_OR_RETURN(node,
                              recorder.record(opcode, request.operands, &request.op, &wanted));
  }
  return give_results(context, node, out, out_count);
}

Status record(plm_context* handle, plm_opcode opcode, const plm_tensor* const* operands,
              std::size_t operand_count, const plm_op_attributes* attributes, plm_tensor** out,
              std::size_t out_count) {
  if (handle == nullptr || out == nullptr || (operands == nullptr && operand_count > 0)) {
    return invalid_argument("op: a pointer is NULL");
  }
  const int number = static_cast<int>(opcode);
  if (number < 0 || number >= ir::opcode_count()) {
    return invalid_argument("op: there is no operation " + std::to_string(number));
  }
  const auto code = static_cast<ir::Opcode>(number);
  trace::Context& context = *unwrap(handle);
  for (std::size_t i = 0; i < operand_count; ++i) {
    if (operands[i] == nullptr || unwrap(operands[i])->context != &context) {
      return invalid_argument(std::string(ir::to_string(code)) + ": operand " + std::to_string(i) +
                              (operands[i] == nullptr ? " is NULL" : " is of another context"));
    }
    const trace::Node& node = *unwrap(operands[i])->node;
    if (node.scope == trace::kEnded) {
      return c_api::check_recordable(plm_opcode_name(opcode), i, node);
    }
  }
  PLIMSOLL_RETURN_IF_ERROR(context.limit_pending());
  if (attributes != nullptr || !ir::is_elementwise(code) || operand_count > 3 || out_count != 1 ||
      code == ir::Opcode::convert || code == ir::Opcode::bitcast_convert ||
      code == ir::Opcode::reduce_precision) {
    return record_general(context, code, operands, operand_count, attributes, out, out_count);
  }
  trace::Node* nodes[3] = {};
  for (std::size_t i = 0; i < operand_count; ++i) nodes[i] = unwrap(operands[i])->node;
  PLIMSOLL_ASSIGN_OR_RETURN(const trace::NodeRef node,
                            context.recorder().record(code, std::span(nodes, operand_count)));
  out[0] = c_api::wrap(context.make_tensor(node.get()));
  return ok_status();
}

}  // namespace

extern "C" plm_status* plm_op(plm_context* context, plm_opcode opcode,
                              const plm_tensor* const* operands, size_t operand_count,
                              const plm_op_attributes* attributes, plm_tensor** out,
                              size_t out_count) {
  return guarded(context, [&] {
    return record(context, opcode, operands, operand_count, attributes, out, out_count);
  });
}
