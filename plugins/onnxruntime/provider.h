// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <plimsoll/plimsoll.h>

#include <memory>

#include "plugins/onnxruntime/api.h"
#include "plugins/onnxruntime/options.h"

namespace plimsoll::ort {

// The execution provider of one session: takes the nodes that are read here, in runs, and runs each
// run of them as a program under the session's limit.
class Provider : public abi::Ep {
 public:
  Provider(const Api& api, const abi::Logger* logger);

  Status* create(const ProviderOptions& options);

 private:
  Status* find_capability_in(const abi::Graph* graph, abi::GraphSupport* support);
  Status* compile_graphs(const abi::Graph** graphs, const abi::Node** fused, std::size_t count,
                         abi::ComputeInfo** infos);

  const Api& api_;
  const abi::Logger* const logger_;  // the session's
  std::shared_ptr<plm_context> context_;
};

}  // namespace plimsoll::ort
