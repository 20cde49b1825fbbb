// SPDX-License-Identifier: Apache-2.0
#include "runtime/autograd/attention.h"

#include "runtime/c_api/handles.h"

using namespace plimsoll;
using c_api::guarded;
using c_api::unwrap;

extern "C" plm_status* plm_attention(plm_context* context, const plm_tensor* query,
                                     const plm_tensor* key, const plm_tensor* value,
                                     const plm_attention_options* options, plm_tensor** out) {
  return guarded(context, query, key, value, [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(
        c_api::require(out != nullptr, "attention: the output pointer is NULL"));
    PLIMSOLL_ASSIGN_OR_RETURN(const plm_attention_options known, c_api::read_options(options));
    std::vector<const plm_tensor*> tensors = {query, key, value};
    if (known.mask != nullptr) tensors.push_back(known.mask);
    if (known.bias != nullptr) tensors.push_back(known.bias);
    std::vector<trace::Node*> nodes;
    PLIMSOLL_RETURN_IF_ERROR(
        c_api::collect_nodes("attention", context, tensors.data(), tensors.size(), nodes));
    trace::Context& target = *unwrap(context);
    PLIMSOLL_RETURN_IF_ERROR(target.limit_pending());
    autograd::AttentionRequest request;
    request.query = nodes[0];
    request.key = nodes[1];
    request.value = nodes[2];
    if (known.mask != nullptr) request.mask = nodes[3];
    if (known.bias != nullptr) request.bias = nodes.back();
    request.scale = known.scale;
    request.causal = known.causal != 0;
    PLIMSOLL_ASSIGN_OR_RETURN(const trace::NodeRef result,
                              autograd::record_attention(target.recorder(), request));
    *out = c_api::wrap(target.make_tensor(result.get()));
    return ok_status();
  });
}
