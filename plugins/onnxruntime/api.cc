// SPDX-License-Identifier: Apache-2.0
#include "plugins/onnxruntime/api.h"

namespace plimsoll::ort {
namespace {

template <typename Function>
void take(const void* const* table, std::size_t place, Function& out) {
  out = reinterpret_cast<Function>(const_cast<void*>(table[place]));
}

}  // namespace

bool read_api(const abi::ApiBase& base, Api& out) {
  const void* const* const table = base.get_api(abi::kApiVersion);
  if (table == nullptr) return false;
#define PLIMSOLL_ORT(place, result, member, parameters) take(table, place, out.member);
#include "plugins/onnxruntime/functions.def"
#undef PLIMSOLL_ORT
  const void* const* const of_providers = out.ep_api();
  if (of_providers == nullptr) return false;
  take(of_providers, 0, out.create_ep_device);
  take(of_providers, 2, out.add_nodes_to_fuse);
  return true;
}

}  // namespace plimsoll::ort
