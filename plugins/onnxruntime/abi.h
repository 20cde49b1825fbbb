// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// The part of ONNX Runtime's C API that a plugin execution provider meets, as of its version 23
// (ONNX Runtime 1.23), declared here: what is opaque, what a provider fills in, and numbers. Later
// versions only add at the end.
namespace plimsoll::ort::abi {

constexpr std::uint32_t kApiVersion = 23;

// Opaque: made by ONNX Runtime.
struct Status;
struct Graph;
struct Node;
struct OpAttribute;
struct ValueInfo;
struct TypeInfo;
struct TensorInfo;
struct Value;
struct KernelContext;
struct ComputeContext;
struct GraphSupport;
struct SessionOptions;
struct RunOptions;
struct KeyValuePairs;
struct HardwareDevice;
struct EpDevice;
struct Logger;
struct Allocator;
struct MemoryInfo;
struct MemoryDevice;
struct DataTransfer;
struct SyncStream;

// The functions of one version, in the order of functions.def's numbers.
struct ApiBase {
  const void* const* (*get_api)(std::uint32_t version);
  const char* (*get_version)();
};

enum ErrorCode : int {
  kFail = 1,
  kInvalidArgument = 2,
  kRuntimeException = 6,
  kNotImplemented = 9,
};

enum AttributeType : int {
  kAttributeInt = 1,
  kAttributeInts = 2,
  kAttributeFloat = 3,
  kAttributeFloats = 4,
  kAttributeString = 5,
  kAttributeStrings = 6,
  kAttributeGraph = 7,
  kAttributeTensor = 8,
};

enum DeviceType : int { kCpu = 0 };
enum ValueKind : int { kTensor = 1 };
enum LogLevel : int { kInfo = 1 };
enum Compatibility : int { kNotApplicable = 0 };

struct FusionOptions {
  std::uint32_t version = kApiVersion;
  bool drop_constant_initializers = false;
};

// How one fused graph is run.
struct ComputeInfo {
  std::uint32_t version = kApiVersion;
  Status* (*create_state)(ComputeInfo* self, ComputeContext* context, void** state) = nullptr;
  Status* (*compute)(ComputeInfo* self, void* state, KernelContext* context) = nullptr;
  void (*release_state)(ComputeInfo* self, void* state) = nullptr;
};

// An execution provider of one session. Null: ONNX Runtime's default.
struct Ep {
  std::uint32_t version = kApiVersion;
  const char* (*get_name)(const Ep* self) = nullptr;
  Status* (*get_capability)(Ep* self, const Graph* graph, GraphSupport* support) = nullptr;
  Status* (*compile)(Ep* self, const Graph** graphs, const Node** fused_nodes, std::size_t count,
                     ComputeInfo** infos, Node** context_nodes) = nullptr;
  void (*release_compute_infos)(Ep* self, ComputeInfo** infos, std::size_t count) = nullptr;
  Status* (*get_preferred_layout)(Ep* self, int* layout) = nullptr;
  Status* (*should_convert_layout)(Ep* self, const char* domain, const char* type, int layout,
                                   int* should) = nullptr;
  Status* (*set_dynamic_options)(Ep* self, const char* const* keys, const char* const* values,
                                 std::size_t count) = nullptr;
  Status* (*on_run_start)(Ep* self, const RunOptions* options) = nullptr;
  Status* (*on_run_end)(Ep* self, const RunOptions* options, bool synchronize) = nullptr;
  Status* (*create_allocator)(Ep* self, const MemoryInfo* info, Allocator** allocator) = nullptr;
  Status* (*create_sync_stream)(Ep* self, const MemoryDevice* device,
                                SyncStream** stream) = nullptr;
  const char* (*get_compatibility)(Ep* self, const Graph* graph) = nullptr;
};

// Makes providers. The last five are called without being looked at first.
struct EpFactory {
  std::uint32_t version = kApiVersion;
  const char* (*get_name)(const EpFactory* self) = nullptr;
  const char* (*get_vendor)(const EpFactory* self) = nullptr;
  Status* (*get_supported_devices)(EpFactory* self, const HardwareDevice* const* devices,
                                   std::size_t device_count, EpDevice** ep_devices,
                                   std::size_t most, std::size_t* count) = nullptr;
  Status* (*create_ep)(EpFactory* self, const HardwareDevice* const* devices,
                       const KeyValuePairs* const* metadata, std::size_t device_count,
                       const SessionOptions* options, const Logger* logger, Ep** ep) = nullptr;
  void (*release_ep)(EpFactory* self, Ep* ep) = nullptr;
  std::uint32_t (*get_vendor_id)(const EpFactory* self) = nullptr;
  const char* (*get_version)(const EpFactory* self) = nullptr;
  Status* (*validate_compatibility)(EpFactory* self, const HardwareDevice* const* devices,
                                    std::size_t device_count, const char* info,
                                    Compatibility* compatibility) = nullptr;
  Status* (*create_allocator)(EpFactory* self, const MemoryInfo* info, const KeyValuePairs* options,
                              Allocator** allocator) = nullptr;
  void (*release_allocator)(EpFactory* self, Allocator* allocator) = nullptr;
  Status* (*create_data_transfer)(EpFactory* self, DataTransfer** transfer) = nullptr;
  bool (*is_stream_aware)(const EpFactory* self) = nullptr;
  Status* (*create_sync_stream)(EpFactory* self, const MemoryDevice* device,
                                const KeyValuePairs* options, SyncStream** stream) = nullptr;
};

}  // namespace plimsoll::ort::abi
