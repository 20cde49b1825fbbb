// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/api.h"

#include <string>

#include "plugins/pjrt/error.h"

namespace plimsoll::pjrt {
namespace {

using namespace abi;

// One function per name, so that the error can say which was called.
struct Missing {
#define PLIMSOLL_PJRT(name)
#define PLIMSOLL_PJRT_VOID(name)
#define PLIMSOLL_PJRT_MISSING(name)                                                                \
  static Error* name(void*) {                                                                      \
    return guarded(                                                                                \
        [] { return unimplemented("PJRT_" #name " is not implemented by the plimsoll plugin"); }); \
  }
#include "plugins/pjrt/functions.def"
#undef PLIMSOLL_PJRT
#undef PLIMSOLL_PJRT_VOID
#undef PLIMSOLL_PJRT_MISSING
};

template <typename Function>
void* entry(Function* function) {
  return reinterpret_cast<void*>(function);
}

Api make_api() {
  Api api = {};
  api.struct_size = sizeof api;
  api.version.struct_size = sizeof api.version;
  api.version.major_version = kMajor;
  api.version.minor_version = kMinor;
#define PLIMSOLL_PJRT(name) api.name = entry(pjrt::name);
#define PLIMSOLL_PJRT_VOID(name) api.name = entry(pjrt::name);
#define PLIMSOLL_PJRT_MISSING(name) api.name = entry(Missing::name);
#include "plugins/pjrt/functions.def"
#undef PLIMSOLL_PJRT
#undef PLIMSOLL_PJRT_VOID
#undef PLIMSOLL_PJRT_MISSING
  return api;
}

// The newest that was tried, so that frameworks write no newer form.
constexpr std::int64_t kStableHloVersion[3] = {1, 17, 0};

}  // namespace

Error* Plugin_Initialize(Plugin_Initialize_Args*) { return nullptr; }

Error* Plugin_Attributes(Plugin_Attributes_Args* args) {
  static const NamedValue attributes[] = {[] {
    NamedValue value = {};
    value.struct_size = sizeof value;
    value.name = "stablehlo_current_version";
    value.name_size = std::char_traits<char>::length(value.name);
    value.type = kInt64List;
    value.int64_list_value = kStableHloVersion;
    value.value_size = 3;
    return value;
  }()};
  args->attributes = attributes;
  args->num_attributes = 1;
  return nullptr;
}

}  // namespace plimsoll::pjrt

// What frameworks look for in the library.
extern "C" __attribute__((visibility("default"))) const void* GetPjrtApi() {
  static const plimsoll::pjrt::abi::Api api = plimsoll::pjrt::make_api();
  return &api;
}
