// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plugins/onnxruntime/abi.h"

namespace plimsoll::ort::abi {

// The functions of ONNX Runtime that the plugin calls.
struct Api {
#define PLIMSOLL_ORT(place, result, member, parameters) result(*member) parameters = nullptr;
#include "plugins/onnxruntime/functions.def"
#undef PLIMSOLL_ORT
  Status* (*create_ep_device)(EpFactory* factory, const HardwareDevice* hardware,
                              const KeyValuePairs* metadata, const KeyValuePairs* options,
                              EpDevice** device) = nullptr;
  Status* (*add_nodes_to_fuse)(GraphSupport* support, const Node* const* nodes, std::size_t count,
                               const FusionOptions* options) = nullptr;
};

}  // namespace plimsoll::ort::abi

namespace plimsoll::ort {

using abi::Api;
using abi::Status;

// False where ONNX Runtime is older than 1.23.
bool read_api(const abi::ApiBase& base, Api& out);

// What functions of the table list by a count and the items.
template <typename Of, typename Item>
Status* list(Status* (*count)(const Of*, std::size_t*),
             Status* (*items)(const Of*, const Item**, std::size_t), const Of* of,
             std::vector<const Item*>& out) {
  std::size_t size = 0;
  if (Status* const failed = count(of, &size)) return failed;
  out.assign(size, nullptr);
  return size == 0 ? nullptr : items(of, out.data(), size);
}

#define PLIMSOLL_ORT_RETURN_IF_ERROR(expression)                                   \
  do {                                                                             \
    if (::plimsoll::ort::Status* const failed = (expression); failed != nullptr) { \
      return failed;                                                               \
    }                                                                              \
  } while (false)

}  // namespace plimsoll::ort
