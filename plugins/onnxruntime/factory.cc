// SPDX-License-Identifier: Apache-2.0
// What ONNX Runtime looks for in a library of execution providers.
#include <plimsoll/plimsoll.h>

#include <memory>
#include <string>

#include "plugins/onnxruntime/api.h"
#include "plugins/onnxruntime/error.h"
#include "plugins/onnxruntime/options.h"
#include "plugins/onnxruntime/provider.h"

namespace plimsoll::ort {
namespace {

class Factory : public abi::EpFactory {
 public:
  explicit Factory(const Api& functions) : api(functions) {
    get_name = [](const abi::EpFactory*) { return kProviderName; };
    get_vendor = [](const abi::EpFactory*) { return "Plimsoll"; };
    get_supported_devices = [](abi::EpFactory* self, const abi::HardwareDevice* const* devices,
                               std::size_t device_count, abi::EpDevice** ep_devices,
                               std::size_t most, std::size_t* count) -> Status* {
      const Api& api = static_cast<Factory*>(self)->api;
      *count = 0;
      // Arrays are handed over in host memory, whatever device PLIMSOLL_DEVICE names.
      for (std::size_t i = 0; i < device_count && *count < most; ++i) {
        if (api.hardware_type(devices[i]) != abi::kCpu) continue;
        PLIMSOLL_ORT_RETURN_IF_ERROR(
            api.create_ep_device(self, devices[i], nullptr, nullptr, &ep_devices[*count]));
        ++*count;
      }
      return nullptr;
    };
    create_ep = [](abi::EpFactory* self, const abi::HardwareDevice* const*,
                   const abi::KeyValuePairs* const*, std::size_t,
                   const abi::SessionOptions* session, const abi::Logger* logger, abi::Ep** ep) {
      const Api& api = static_cast<Factory*>(self)->api;
      return guarded(api, [&]() -> Status* {
        ProviderOptions options;
        PLIMSOLL_ORT_RETURN_IF_ERROR(read_options(api, session, options));
        auto provider = std::make_unique<Provider>(api, logger);
        PLIMSOLL_ORT_RETURN_IF_ERROR(provider->create(options));
        *ep = provider.release();
        return nullptr;
      });
    };
    release_ep = [](abi::EpFactory*, abi::Ep* ep) { delete static_cast<Provider*>(ep); };
    get_vendor_id = [](const abi::EpFactory*) -> std::uint32_t { return 0; };
    get_version = [](const abi::EpFactory*) {
      static const std::string version = [] {
        const std::uint32_t all = plm_version();
        return std::to_string(all >> 16) + "." + std::to_string(all >> 8 & 0xff) + "." +
               std::to_string(all & 0xff);
      }();
      return version.c_str();
    };
    validate_compatibility = [](abi::EpFactory*, const abi::HardwareDevice* const*, std::size_t,
                                const char*, abi::Compatibility* compatibility) -> Status* {
      *compatibility = abi::kNotApplicable;  // nothing is compiled ahead
      return nullptr;
    };
    create_allocator = [](abi::EpFactory*, const abi::MemoryInfo*, const abi::KeyValuePairs*,
                          abi::Allocator** allocator) -> Status* {
      *allocator = nullptr;  // ONNX Runtime's own, for the arrays between programs
      return nullptr;
    };
    release_allocator = [](abi::EpFactory*, abi::Allocator*) {};
    create_data_transfer = [](abi::EpFactory*, abi::DataTransfer** transfer) -> Status* {
      *transfer = nullptr;
      return nullptr;
    };
    is_stream_aware = [](const abi::EpFactory*) { return false; };
    create_sync_stream = [](abi::EpFactory*, const abi::MemoryDevice*, const abi::KeyValuePairs*,
                            abi::SyncStream** stream) -> Status* {
      *stream = nullptr;
      return nullptr;
    };
  }

  const Api api;
};

// ONNX Runtime of any version has the first function of the table.
Status* too_old(const abi::ApiBase& base) {
  const void* const* const table = base.get_api(1);
  if (table == nullptr) return nullptr;
  const auto create_status =
      reinterpret_cast<decltype(Api::create_status)>(const_cast<void*>(table[0]));
  return create_status(
      abi::kNotImplemented,
      ("plimsoll: needs ONNX Runtime 1.23 or newer; this is " + std::string(base.get_version()))
          .c_str());
}

}  // namespace
}  // namespace plimsoll::ort

extern "C" PLM_EXPORT plimsoll::ort::Status* CreateEpFactories(
    const char* /*registered_name*/, const plimsoll::ort::abi::ApiBase* base,
    const plimsoll::ort::abi::Logger* /*logger*/, plimsoll::ort::abi::EpFactory** factories,
    std::size_t most, std::size_t* count) {
  using namespace plimsoll::ort;
  Api api;
  if (!read_api(*base, api)) return too_old(*base);
  return guarded(api, [&]() -> Status* {
    if (most < 1) return make_error(api, abi::kInvalidArgument, "no room for a factory");
    factories[0] = new Factory(api);
    *count = 1;
    return nullptr;
  });
}

extern "C" PLM_EXPORT plimsoll::ort::Status* ReleaseEpFactory(
    plimsoll::ort::abi::EpFactory* factory) {
  delete static_cast<plimsoll::ort::Factory*>(factory);
  return nullptr;
}
