// SPDX-License-Identifier: Apache-2.0
//
// The part of the PJRT C API that this plugin takes part in: what a framework and a plugin pass to
// each other, byte for byte, as of version 0.112 of the interface (OpenXLA, "PJRT C API"). Names
// are those of the interface without its prefix. Structs grow at their ends: a caller says by
// `struct_size` how much of one it knows, and what lies behind that must not be touched (`knows`).
#pragma once

#include <cstddef>
#include <cstdint>

namespace plimsoll::pjrt::abi {

inline constexpr int kMajor = 0;
inline constexpr int kMinor = 112;

struct Error;
struct Event;
struct Client;
struct Device;
struct DeviceDescription;
struct Memory;
struct TopologyDescription;
struct Executable;
struct LoadedExecutable;
struct Buffer;
struct ExecuteContext;

// What every struct begins with.
struct Header {
  std::size_t struct_size;
  void* extension_start;
};

// Whether the caller's struct has the field that ends `end` bytes behind its start.
inline bool knows(const Header& header, std::size_t end) { return header.struct_size >= end; }
#define PLIMSOLL_PJRT_KNOWS(args, field)                                                    \
  plimsoll::pjrt::abi::knows(                                                               \
      *(args), static_cast<std::size_t>(reinterpret_cast<const char*>(&(args)->field + 1) - \
                                        reinterpret_cast<const char*>(args)))

enum Code : int {
  kOk = 0,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kUnimplemented = 12,
  kInternal = 13,
};

// Errors and memories begin with a table of functions, by which a framework reaches them without
// the plugin's own table.
using PayloadVisitor = void (*)(const char* key, std::size_t key_size, const char* value,
                                std::size_t value_size, void* user);
struct ErrorTable {
  std::size_t struct_size;
  std::size_t instance_size;
  void* extension_start;
  void (*destroy)(Error* error);
  void (*message)(const Error* error, const char** message, std::size_t* message_size);
  Code (*get_code)(const Error* error);
  void (*for_each_payload)(const Error* error, PayloadVisitor visitor, void* user);
};
struct MemoryTable {
  std::size_t struct_size;
  void* extension_start;
  std::size_t instance_size;
  void* (*get_user_data)(Memory* memory, const void* key);
  void (*set_user_data)(Memory* memory, const void* key, void* data, void (*destroy)(void*));
};

enum NamedValueType : int { kString = 0, kInt64 = 1, kInt64List = 2, kFloat = 3, kBool = 4 };
struct NamedValue : Header {
  const char* name;
  std::size_t name_size;
  NamedValueType type;
  union {
    const char* string_value;
    std::int64_t int64_value;
    const std::int64_t* int64_list_value;
    float float_value;
    bool bool_value;
  };
  std::size_t value_size;  // of texts and lists; else 1
};

enum ElementType : int {
  kInvalid = 0,
  kTypePred,
  kTypeS8,
  kTypeS16,
  kTypeS32,
  kTypeS64,
  kTypeU8,
  kTypeU16,
  kTypeU32,
  kTypeU64,
  kTypeF16,
  kTypeF32,
  kTypeF64,
  kTypeBF16,
  kTypeC64,
  kTypeC128,
  kTypeF8E5M2,
  kTypeF8E4M3FN,
  kTypeF8E4M3B11FNUZ,
  kTypeF8E5M2FNUZ,
  kTypeF8E4M3FNUZ,
  kTypeS4,
  kTypeU4,
  kTypeToken,
  kTypeS2,
  kTypeU2,
  kTypeF8E4M3,
  kTypeF8E3M4,
  kTypeF8E8M0FNU,
  kTypeF4E2M1FN,
};

enum LayoutType : int { kTiled = 0, kStrides = 1 };
struct TiledLayout : Header {
  const std::int64_t* minor_to_major;
  std::size_t minor_to_major_size;
  const std::int64_t* tile_dims;
  const std::size_t* tile_dim_sizes;
  std::size_t num_tiles;
};
struct StridedLayout : Header {
  const std::int64_t* byte_strides;
  std::size_t num_byte_strides;
};
struct MemoryLayout : Header {
  union {
    TiledLayout tiled;
    StridedLayout strides;
  };
  LayoutType type;
};

// Arguments. "out" fields are the plugin's to fill.

struct Api_Version : Header {
  int major_version;
  int minor_version;
};

struct Error_Destroy_Args : Header {
  Error* error;
};
struct Error_Message_Args : Header {
  const Error* error;
  const char* message;       // out
  std::size_t message_size;  // out
};
struct Error_GetCode_Args : Header {
  const Error* error;
  Code code;  // out
};
struct Error_ForEachPayload_Args : Header {
  const Error* error;
  PayloadVisitor visitor;
  void* user;
};

struct Plugin_Initialize_Args : Header {};
struct Plugin_Attributes_Args : Header {
  const NamedValue* attributes;  // out
  std::size_t num_attributes;    // out
};

struct Event_Destroy_Args : Header {
  Event* event;
};
struct Event_IsReady_Args : Header {
  Event* event;
  bool is_ready;  // out
};
struct Event_Error_Args : Header {
  Event* event;
};
struct Event_Await_Args : Header {
  Event* event;
};
struct Event_OnReady_Args : Header {
  Event* event;
  void (*callback)(Error* error, void* user);  // owns the error
  void* user;
};
struct Event_Create_Args : Header {
  Event* event;  // out
};
struct Event_Set_Args : Header {
  Event* event;
  Code error_code;
  const char* error_message;
  std::size_t error_message_size;
};

// A framework's store of short texts, in which processes find each other.
using MakeCallbackError = Error* (*)(Code code, const char* message, std::size_t size);
struct KeyValueGet_Args : Header {
  const char* key;
  std::size_t key_size;
  int timeout_milliseconds;
  MakeCallbackError make_error;
  void* user;
  char* value;                        // out
  std::size_t value_size;             // out
  void (*delete_value)(char* value);  // out
};
using KeyValueGet = Error* (*)(KeyValueGet_Args* args);
struct KeyValuePut_Args : Header {
  const char* key;
  std::size_t key_size;
  const char* value;
  std::size_t value_size;
  MakeCallbackError make_error;
  void* user;
};
using KeyValuePut = Error* (*)(KeyValuePut_Args* args);

struct Client_Create_Args : Header {
  const NamedValue* create_options;
  std::size_t num_options;
  KeyValueGet kv_get_callback;
  void* kv_get_user;
  KeyValuePut kv_put_callback;
  void* kv_put_user;
  Client* client;  // out
};
struct Client_UpdateGlobalProcessInfo_Args : Header {
  Client* client;
  const void* process_infos;
  std::size_t num_process_infos;
};
struct Client_Destroy_Args : Header {
  Client* client;
};
struct Client_PlatformName_Args : Header {
  Client* client;
  const char* platform_name;       // out
  std::size_t platform_name_size;  // out
};
struct Client_ProcessIndex_Args : Header {
  Client* client;
  int process_index;  // out
};
struct Client_PlatformVersion_Args : Header {
  Client* client;
  const char* platform_version;       // out
  std::size_t platform_version_size;  // out
};
struct Client_TopologyDescription_Args : Header {
  Client* client;
  TopologyDescription* topology;  // out, the client's
};
struct Client_Devices_Args : Header {
  Client* client;
  Device* const* devices;   // out
  std::size_t num_devices;  // out
};
struct Client_AddressableDevices_Args : Client_Devices_Args {};
struct Client_LookupDevice_Args : Header {
  Client* client;
  int id;
  Device* device;  // out
};
struct Client_LookupAddressableDevice_Args : Client_LookupDevice_Args {};
struct Client_AddressableMemories_Args : Header {
  Client* client;
  Memory* const* memories;   // out
  std::size_t num_memories;  // out
};
struct Program : Header {
  char* code;
  std::size_t code_size;
  const char* format;
  std::size_t format_size;
};
struct Client_Compile_Args : Header {
  Client* client;
  const Program* program;
  const char* compile_options;
  std::size_t compile_options_size;
  LoadedExecutable* executable;  // out
};
struct Client_DefaultDeviceAssignment_Args : Header {
  Client* client;
  int num_replicas;
  int num_partitions;
  std::size_t default_assignment_size;
  int* default_assignment;  // filled
};
enum HostBufferSemantics : int {
  kImmutableOnlyDuringCall = 0,
  kImmutableUntilTransferCompletes = 1,
  kImmutableZeroCopy = 2,
  kMutableZeroCopy = 3,
};
struct Client_BufferFromHostBuffer_Args : Header {
  Client* client;
  const void* data;
  ElementType type;
  const std::int64_t* dims;
  std::size_t num_dims;
  const std::int64_t* byte_strides;
  std::size_t num_byte_strides;
  HostBufferSemantics host_buffer_semantics;
  Device* device;
  Memory* memory;
  MemoryLayout* device_layout;
  Event* done_with_host_buffer;  // out
  Buffer* buffer;                // out
};
struct Client_CreateViewOfDeviceBuffer_Args : Header {
  Client* client;
  void* device_buffer_ptr;
  const std::int64_t* dims;
  std::size_t num_dims;
  ElementType element_type;
  MemoryLayout* layout;
  Device* device;
  void (*on_delete_callback)(void* device_buffer_ptr, void* user);
  void* on_delete_callback_user;
  std::intptr_t stream;
  Buffer* buffer;  // out
  Memory* memory;
};
struct Client_CreateUninitializedBuffer_Args : Header {
  Client* client;
  const std::int64_t* dims;
  std::size_t num_dims;
  ElementType element_type;
  MemoryLayout* layout;
  Device* device;
  Memory* memory;
  Buffer* buffer;  // out
};

struct DeviceDescription_Id_Args : Header {
  DeviceDescription* description;
  int id;  // out
};
struct DeviceDescription_ProcessIndex_Args : Header {
  DeviceDescription* description;
  int process_index;  // out
};
struct DeviceDescription_Attributes_Args : Header {
  DeviceDescription* description;
  std::size_t num_attributes;    // out
  const NamedValue* attributes;  // out
};
struct DeviceDescription_Text_Args : Header {
  DeviceDescription* description;
  const char* text;       // out
  std::size_t text_size;  // out
};
struct DeviceDescription_Kind_Args : DeviceDescription_Text_Args {};
struct DeviceDescription_DebugString_Args : DeviceDescription_Text_Args {};
struct DeviceDescription_ToString_Args : DeviceDescription_Text_Args {};

struct Device_GetDescription_Args : Header {
  Device* device;
  DeviceDescription* description;  // out
};
struct Device_IsAddressable_Args : Header {
  Device* device;
  bool is_addressable;  // out
};
struct Device_LocalHardwareId_Args : Header {
  Device* device;
  int local_hardware_id;  // out
};
struct Device_AddressableMemories_Args : Header {
  Device* device;
  Memory* const* memories;   // out
  std::size_t num_memories;  // out
};
struct Device_DefaultMemory_Args : Header {
  Device* device;
  Memory* memory;  // out
};
struct Device_MemoryStats_Args : Header {
  Device* device;
  struct Figure {
    std::int64_t value;
    bool is_set;
  };
  std::int64_t bytes_in_use;  // out, all of them
  Figure peak_bytes_in_use, num_allocs, largest_alloc_size, bytes_limit, bytes_reserved,
      peak_bytes_reserved, bytes_reservable_limit, largest_free_block_bytes, pool_bytes,
      peak_pool_bytes;
};
struct Device_ClearMemoryStats_Args : Header {
  Device* device;
};
struct DeviceAttributes;
struct Device_GetAttributes_Args : Header {
  Device* device;
  const NamedValue* attributes;                              // out
  std::size_t num_attributes;                                // out
  DeviceAttributes* device_attributes;                       // out, the caller's until deleted
  void (*attributes_deleter)(DeviceAttributes* attributes);  // out
};

struct Memory_Id_Args : Header {
  Memory* memory;
  int id;  // out
};
struct Memory_Text_Args : Header {
  Memory* memory;
  const char* text;       // out
  std::size_t text_size;  // out
};
struct Memory_Kind_Args : Memory_Text_Args {};
struct Memory_DebugString_Args : Memory_Text_Args {};
struct Memory_ToString_Args : Memory_Text_Args {};
struct Memory_Kind_Id_Args : Header {
  Memory* memory;
  int kind_id;  // out
};
struct Memory_AddressableByDevices_Args : Header {
  Memory* memory;
  Device* const* devices;   // out
  std::size_t num_devices;  // out
};

struct Executable_Destroy_Args : Header {
  Executable* executable;
};
struct Executable_Name_Args : Header {
  Executable* executable;
  const char* name;       // out
  std::size_t name_size;  // out
};
struct Executable_OptimizedProgram_Args : Header {
  Executable* executable;
  Program* program;  // its code is filled where it is not NULL, its code_size and format always
};
struct Executable_Count_Args : Header {
  Executable* executable;
  std::size_t count;  // out
};
struct Executable_NumReplicas_Args : Executable_Count_Args {};
struct Executable_NumPartitions_Args : Executable_Count_Args {};
struct Executable_NumOutputs_Args : Executable_Count_Args {};
struct Executable_SizeOfGeneratedCodeInBytes_Args : Header {
  Executable* executable;
  std::int64_t size_in_bytes;  // out
};
struct Executable_GetCostAnalysis_Args : Header {
  Executable* executable;
  std::size_t num_properties;    // out
  const NamedValue* properties;  // out
};
struct Executable_MemoryKinds_Args : Header {
  Executable* executable;
  std::size_t count;                     // out
  const char* const* memory_kinds;       // out
  const std::size_t* memory_kind_sizes;  // out
};
struct Executable_OutputMemoryKinds_Args : Executable_MemoryKinds_Args {};
struct Executable_ParameterMemoryKinds_Args : Executable_MemoryKinds_Args {};
struct Executable_OutputElementTypes_Args : Header {
  Executable* executable;
  ElementType* output_types;     // out
  std::size_t num_output_types;  // out
};
struct Executable_OutputDimensions_Args : Header {
  Executable* executable;
  std::size_t num_outputs;
  const std::int64_t* dims;      // out, of all outputs
  const std::size_t* dim_sizes;  // out, ranks
};
struct Executable_Fingerprint_Args : Header {
  Executable* executable;
  const char* fingerprint;       // out
  std::size_t fingerprint_size;  // out
};
struct Executable_GetCompiledMemoryStats_Args : Header {
  Executable* executable;
  std::int64_t generated_code_size_in_bytes;  // out, all of them
  std::int64_t argument_size_in_bytes;
  std::int64_t output_size_in_bytes;
  std::int64_t alias_size_in_bytes;
  std::int64_t temp_size_in_bytes;
  std::int64_t host_generated_code_size_in_bytes;
  std::int64_t host_argument_size_in_bytes;
  std::int64_t host_output_size_in_bytes;
  std::int64_t host_alias_size_in_bytes;
  std::int64_t host_temp_size_in_bytes;
  std::int64_t peak_memory_in_bytes;
};
// Bytes that belong to an object of their own, which the caller deletes by the function beside it.
struct Serialized;
struct Executable_Serialize_Args : Header {
  const Executable* executable;
  const char* serialized_bytes;       // out
  std::size_t serialized_bytes_size;  // out
  Serialized* serialized;             // out
  void (*deleter)(Serialized*);       // out
};
struct Executable_GetCompileOptions_Args : Header {
  Executable* executable;
  const char* serialized_bytes;       // out
  std::size_t serialized_bytes_size;  // out
  Serialized* serialized;             // out
  void (*deleter)(Serialized*);       // out
};
struct Executable_DeserializeAndLoad_Args : Header {
  Client* client;
  const char* serialized_executable;
  std::size_t serialized_executable_size;
  LoadedExecutable* loaded_executable;  // out
};

struct LoadedExecutable_Destroy_Args : Header {
  LoadedExecutable* executable;
};
struct LoadedExecutable_GetExecutable_Args : Header {
  LoadedExecutable* loaded_executable;
  Executable* executable;  // out
};
struct LoadedExecutable_AddressableDevices_Args : Header {
  LoadedExecutable* executable;
  Device* const* devices;   // out
  std::size_t num_devices;  // out
};
struct LogicalDeviceIds {
  int replica;
  int partition;
};
struct LoadedExecutable_AddressableDeviceLogicalIds_Args : Header {
  LoadedExecutable* executable;
  LogicalDeviceIds* ids;  // out
  std::size_t num_ids;    // out
};
struct LoadedExecutable_GetDeviceAssignment_Args : Header {
  LoadedExecutable* executable;
  const char* serialized_bytes;       // out
  std::size_t serialized_bytes_size;  // out
  Serialized* serialized;             // out
  void (*deleter)(Serialized*);       // out
};
struct LoadedExecutable_Delete_Args : Header {
  LoadedExecutable* executable;
};
struct LoadedExecutable_IsDeleted_Args : Header {
  LoadedExecutable* executable;
  bool is_deleted;  // out
};
struct LoadedExecutable_Fingerprint_Args : Header {
  LoadedExecutable* executable;
  const char* fingerprint;       // out
  std::size_t fingerprint_size;  // out
};
struct ExecuteOptions : Header {
  void* send_callbacks;
  void* recv_callbacks;
  std::size_t num_send_ops;
  std::size_t num_recv_ops;
  int launch_id;
  const std::int64_t* non_donatable_input_indices;
  std::size_t num_non_donatable_input_indices;
};
struct LoadedExecutable_Execute_Args : Header {
  LoadedExecutable* executable;
  ExecuteOptions* options;
  Buffer* const* const* argument_lists;  // [device][argument]
  std::size_t num_devices;
  std::size_t num_args;
  Buffer** const* output_lists;    // [device][output], filled
  Event** device_complete_events;  // [device], filled unless NULL
  Device* execute_device;
};

struct Buffer_Destroy_Args : Header {
  Buffer* buffer;
};
struct Buffer_ElementType_Args : Header {
  Buffer* buffer;
  ElementType type;  // out
};
struct Buffer_Dimensions_Args : Header {
  Buffer* buffer;
  const std::int64_t* dims;  // out
  std::size_t num_dims;      // out
};
struct Buffer_UnpaddedDimensions_Args : Buffer_Dimensions_Args {};
struct Buffer_DynamicDimensionIndices_Args : Header {
  Buffer* buffer;
  const std::size_t* dynamic_dim_indices;  // out
  std::size_t num_dynamic_dims;            // out
};
struct Buffer_GetMemoryLayout_Args : Header {
  Buffer* buffer;
  MemoryLayout layout;  // out
};
struct Buffer_OnDeviceSizeInBytes_Args : Header {
  Buffer* buffer;
  std::size_t size_in_bytes;  // out
};
struct Buffer_Device_Args : Header {
  Buffer* buffer;
  Device* device;  // out
};
struct Buffer_Memory_Args : Header {
  Buffer* buffer;
  Memory* memory;  // out
};
struct Buffer_Delete_Args : Header {
  Buffer* buffer;
};
struct Buffer_IsDeleted_Args : Header {
  Buffer* buffer;
  bool is_deleted;  // out
};
struct Buffer_CopyToDevice_Args : Header {
  Buffer* buffer;
  Device* device;
  Buffer* copy;  // out
};
struct Buffer_CopyToMemory_Args : Header {
  Buffer* buffer;
  Memory* memory;
  Buffer* copy;  // out
};
struct Buffer_ToHostBuffer_Args : Header {
  Buffer* buffer;
  MemoryLayout* host_layout;
  void* destination;             // NULL: only the size is asked for
  std::size_t destination_size;  // in, or out when it is asked for
  Event* event;                  // out
};
struct Buffer_CopyRawToHost_Args : Header {
  Buffer* buffer;
  void* destination;
  std::int64_t offset;
  std::int64_t transfer_size;
  Event* event;  // out
};
struct Buffer_IsOnCpu_Args : Header {
  Buffer* buffer;
  bool is_on_cpu;  // out
};
struct Buffer_ReadyEvent_Args : Header {
  Buffer* buffer;
  Event* event;  // out
};
struct Buffer_UnsafePointer_Args : Header {
  Buffer* buffer;
  std::uintptr_t pointer;  // out
};
struct Buffer_IncreaseExternalReferenceCount_Args : Header {
  Buffer* buffer;
};
struct Buffer_DecreaseExternalReferenceCount_Args : Header {
  Buffer* buffer;
};
struct Buffer_OpaqueDeviceMemoryDataPointer_Args : Header {
  Buffer* buffer;
  void* pointer;  // out
};

struct TopologyDescription_Destroy_Args : Header {
  TopologyDescription* topology;
};
struct TopologyDescription_PlatformName_Args : Header {
  const TopologyDescription* topology;
  const char* platform_name;       // out
  std::size_t platform_name_size;  // out
};
struct TopologyDescription_PlatformVersion_Args : Header {
  TopologyDescription* topology;
  const char* platform_version;       // out
  std::size_t platform_version_size;  // out
};
struct TopologyDescription_GetDeviceDescriptions_Args : Header {
  const TopologyDescription* topology;
  DeviceDescription* const* descriptions;  // out
  std::size_t num_descriptions;            // out
};
struct TopologyDescription_Attributes_Args : Header {
  TopologyDescription* topology;
  const NamedValue* attributes;  // out
  std::size_t num_attributes;    // out
};
struct TopologyDescription_Fingerprint_Args : Header {
  const TopologyDescription* topology;
  std::uint64_t fingerprint;  // out
};

struct ExecuteContext_Create_Args : Header {
  ExecuteContext* context;  // out
};
struct ExecuteContext_Destroy_Args : Header {
  ExecuteContext* context;
};

// The table that a plugin gives out: a function per entry, each `Error* (Args*)`, but for two.
struct Api : Header {
  Api_Version version;
#define PLIMSOLL_PJRT(name) void* name;
#define PLIMSOLL_PJRT_VOID(name) void* name;
#define PLIMSOLL_PJRT_MISSING(name) void* name;
#include "plugins/pjrt/functions.def"
#undef PLIMSOLL_PJRT
#undef PLIMSOLL_PJRT_VOID
#undef PLIMSOLL_PJRT_MISSING
};

}  // namespace plimsoll::pjrt::abi
