// SPDX-License-Identifier: Apache-2.0
#include "plugins/onnxruntime/provider.h"

#include <string>

#include "plugins/onnxruntime/capability.h"
#include "plugins/onnxruntime/error.h"
#include "plugins/onnxruntime/fused_graph.h"

namespace plimsoll::ort {

Provider::Provider(const Api& api, const abi::Logger* logger) : api_(api), logger_(logger) {
  get_name = [](const abi::Ep*) { return kProviderName; };
  get_capability = [](abi::Ep* self, const abi::Graph* graph, abi::GraphSupport* support) {
    auto* const provider = static_cast<Provider*>(self);
    return guarded(provider->api_, [&] { return provider->find_capability_in(graph, support); });
  };
  compile = [](abi::Ep* self, const abi::Graph** graphs, const abi::Node** fused, std::size_t count,
               abi::ComputeInfo** infos, abi::Node**) {
    auto* const provider = static_cast<Provider*>(self);
    return guarded(provider->api_,
                   [&] { return provider->compile_graphs(graphs, fused, count, infos); });
  };
  release_compute_infos = [](abi::Ep*, abi::ComputeInfo** infos, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) delete static_cast<FusedGraph*>(infos[i]);
  };
}

Status* Provider::create(const ProviderOptions& options) {
  const plm_context_options of_context = options.context_options();
  plm_context* context = nullptr;
  PLIMSOLL_ORT_RETURN_IF_ERROR(from_status(api_, plm_context_create(&of_context, &context)));
  context_.reset(context, plm_context_destroy);
  return nullptr;
}

Status* Provider::find_capability_in(const abi::Graph* graph, abi::GraphSupport* support) {
  Capability found;
  PLIMSOLL_ORT_RETURN_IF_ERROR(find_capability(api_, graph, found));
  if (found.nodes > 0) {
    const std::string message = "plimsoll takes " + std::to_string(found.taken) + " of " +
                                std::to_string(found.nodes) + " nodes, as " +
                                std::to_string(found.parts.size()) + " programs";
    PLIMSOLL_ORT_RETURN_IF_ERROR(
        api_.log(logger_, abi::kInfo, message.c_str(), __FILE__, __LINE__, __func__));
  }
  // Constants become part of the programs.
  abi::FusionOptions options;
  options.drop_constant_initializers = true;
  for (const auto& part : found.parts) {
    PLIMSOLL_ORT_RETURN_IF_ERROR(
        api_.add_nodes_to_fuse(support, part.data(), part.size(), &options));
  }
  return nullptr;
}

Status* Provider::compile_graphs(const abi::Graph** graphs, const abi::Node** fused,
                                 std::size_t count, abi::ComputeInfo** infos) {
  for (std::size_t i = 0; i < count; ++i) {
    const char* name = nullptr;
    PLIMSOLL_ORT_RETURN_IF_ERROR(api_.node_name(fused[i], &name));
    auto graph = std::make_unique<FusedGraph>(api_, context_, name);
    PLIMSOLL_ORT_RETURN_IF_ERROR(graph->create(graphs[i], fused[i]));
    infos[i] = graph.release();
  }
  return nullptr;
}

}  // namespace plimsoll::ort
