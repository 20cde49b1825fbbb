// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/buffer.h"

#include <cstring>
#include <string>

#include "plugins/pjrt/api.h"
#include "plugins/pjrt/element_type.h"
#include "plugins/pjrt/event.h"

plimsoll::pjrt::abi::Buffer::Buffer(Device* owner, plm_buffer* made)
    : device(owner), handle(made), minor_to_major(plm_buffer_rank(made)) {
  const std::size_t rank = minor_to_major.size();
  for (std::size_t i = 0; i < rank; ++i) {
    minor_to_major[i] = static_cast<std::int64_t>(rank - 1 - i);
  }
}

namespace plimsoll::pjrt {
namespace {

using namespace abi;

// UNIMPLEMENTED unless the layout is NULL or dense and row-major.
Error* check_layout(const MemoryLayout* layout, std::size_t rank) {
  if (layout == nullptr) return nullptr;
  if (layout->type == kStrides) {
    return unimplemented("a layout by strides (pass none: arrays are dense and row-major)");
  }
  bool is_default = layout->tiled.num_tiles == 0 && layout->tiled.minor_to_major_size == rank;
  for (std::size_t i = 0; is_default && i < rank; ++i) {
    is_default = layout->tiled.minor_to_major[i] == static_cast<std::int64_t>(rank - 1 - i);
  }
  return is_default ? nullptr
                    : unimplemented(
                          "a layout that is not the default (arrays are dense and "
                          "row-major)");
}

// What a caller lent: ended when it gets it back.
struct Lent {
  std::shared_ptr<Moment> moment;
  void (*on_delete)(void* pointer, void* user) = nullptr;
  void* pointer = nullptr;
  void* user = nullptr;

  static void end(void* user) {
    const std::unique_ptr<Lent> lent(static_cast<Lent*>(user));
    if (lent->on_delete != nullptr) lent->on_delete(lent->pointer, lent->user);
    if (lent->moment != nullptr) lent->moment->end(nullptr);
  }
};

// On the host an element of less than a byte has a byte of its own.
std::size_t host_bytes(const plm_buffer* buffer) {
  const plm_dtype dtype = plm_buffer_dtype(buffer);
  const std::size_t bytes = plm_buffer_byte_size(buffer);
  if (plm_dtype_bits(dtype) >= 8 || bytes == 0) return bytes;
  std::size_t count = 1;
  const std::int64_t* const dims = plm_buffer_dims(buffer);
  for (std::size_t i = 0; i < plm_buffer_rank(buffer); ++i) {
    count *= static_cast<std::size_t>(dims[i]);
  }
  return count;
}

// A copy of a part of a buffer's bytes to the host, or of all its elements, when they are there.
struct Transfer {
  plm_buffer* buffer = nullptr;  // retained
  std::byte* destination = nullptr;
  std::size_t offset = 0, size = 0;
  bool unpacks = false;
  std::shared_ptr<Moment> moment;

  ~Transfer() { plm_buffer_release(buffer); }

  Error* copy() const {
    const std::size_t all = plm_buffer_byte_size(buffer);
    if (offset == 0 && size == all && !unpacks) {
      return from_status(plm_buffer_read(buffer, destination, size));
    }
    std::vector<std::byte> whole(all);
    PLIMSOLL_PJRT_RETURN_IF_ERROR(from_status(plm_buffer_read(buffer, whole.data(), all)));
    if (!unpacks) {
      std::memcpy(destination, whole.data() + offset, size);
      return nullptr;
    }
    const std::size_t bits = plm_dtype_bits(plm_buffer_dtype(buffer));
    const std::byte mask = static_cast<std::byte>((1U << bits) - 1);
    for (std::size_t i = 0; i < size; ++i) {
      destination[i] = whole[i * bits / 8] >> (i * bits % 8) & mask;
    }
    return nullptr;
  }

  static void when_ready(void* user, const plm_status* status) {
    const std::unique_ptr<Transfer> transfer(static_cast<Transfer*>(user));
    transfer->moment->end(status != nullptr ? from_borrowed(status)
                                            : guarded([&] { return transfer->copy(); }));
  }
};

Error* start_transfer(const Buffer& buffer, void* destination, std::size_t offset, std::size_t size,
                      bool unpacks, Event** event) {
  auto transfer = std::make_unique<Transfer>();
  plm_buffer_retain(buffer.handle.get());
  transfer->buffer = buffer.handle.get();
  transfer->destination = static_cast<std::byte*>(destination);
  transfer->offset = offset;
  transfer->size = size;
  transfer->unpacks = unpacks;
  transfer->moment = make_moment();
  auto moment = transfer->moment;
  plm_status* const status =
      plm_buffer_when_ready(buffer.handle.get(), Transfer::when_ready, transfer.get());
  if (status != nullptr) return from_status(status);
  (void)transfer.release();
  *event = make_event(std::move(moment));
  return nullptr;
}

// To where the memory is; NULL: the device's own.
plm_memory kind_of(const Memory* memory) {
  return memory == nullptr ? PLM_MEMORY_DEVICE : memory->kind;
}

Error* copy_to(Device& device, plm_memory memory, const Buffer& buffer, Buffer** out) {
  const std::size_t bytes = plm_buffer_byte_size(buffer.handle.get());
  std::vector<std::byte> data(bytes);
  PLIMSOLL_PJRT_RETURN_IF_ERROR(
      from_status(plm_buffer_read(buffer.handle.get(), data.data(), bytes)));
  plm_buffer* made = nullptr;
  PLIMSOLL_PJRT_RETURN_IF_ERROR(from_status(
      plm_buffer_from_host_in(device.context.get(), memory, plm_buffer_dtype(buffer.handle.get()),
                              plm_buffer_dims(buffer.handle.get()),
                              plm_buffer_rank(buffer.handle.get()), data.data(), nullptr, &made)));
  *out = new Buffer(&device, made);
  return nullptr;
}

bool is_dense(const Client_BufferFromHostBuffer_Args& args, std::size_t element_bytes) {
  if (args.num_byte_strides == 0) return true;
  auto expected = static_cast<std::int64_t>(element_bytes);
  for (std::size_t d = args.num_dims; d-- > 0;) {
    if (args.dims[d] != 1 && args.byte_strides[d] != expected) return false;
    expected *= args.dims[d];
  }
  return true;
}

}  // namespace

Error* Client_BufferFromHostBuffer(Client_BufferFromHostBuffer_Args* args) {
  return guarded([&]() -> Error* {
    Device* device = nullptr;
    PLIMSOLL_PJRT_RETURN_IF_ERROR(find_device(*args->client, args->device, args->memory, device));
    PLIMSOLL_PJRT_RETURN_IF_ERROR(check_layout(args->device_layout, args->num_dims));
    plm_dtype dtype = PLM_F32;
    PLIMSOLL_PJRT_RETURN_IF_ERROR(find_dtype(args->type, dtype));
    if (args->num_byte_strides != 0 && args->num_byte_strides != args->num_dims) {
      return invalid_argument(std::to_string(args->num_byte_strides) + " strides of " +
                              std::to_string(args->num_dims) + " dims");
    }
    const plm_memory memory = kind_of(args->memory);
    const bool lends = memory == PLM_MEMORY_DEVICE &&
                       (args->host_buffer_semantics == kImmutableZeroCopy ||
                        args->host_buffer_semantics == kMutableZeroCopy) &&
                       plm_dtype_bits(dtype) >= 8 && is_dense(*args, plm_dtype_size(dtype));
    plm_buffer* made = nullptr;
    if (lends) {
      auto lent = std::make_unique<Lent>();
      lent->moment = make_moment();
      const auto moment = lent->moment;
      PLIMSOLL_PJRT_RETURN_IF_ERROR(from_status(
          plm_buffer_borrow(device->context.get(), dtype, args->dims, args->num_dims,
                            const_cast<void*>(args->data), Lent::end, lent.get(), &made)));
      (void)lent.release();
      args->buffer = new Buffer(device, made);
      args->done_with_host_buffer = make_event(moment);
      return nullptr;
    }
    // Given strides, the library takes a byte for each element, however narrow.
    std::vector<std::int64_t> dense;
    const std::int64_t* strides = args->num_byte_strides == 0 ? nullptr : args->byte_strides;
    if (strides == nullptr && plm_dtype_bits(dtype) < 8) {
      dense.assign(args->num_dims + 1, 1);
      for (std::size_t d = args->num_dims; d-- > 0;) dense[d] = dense[d + 1] * args->dims[d];
      dense.erase(dense.begin());
      strides = dense.data();
    }
    PLIMSOLL_PJRT_RETURN_IF_ERROR(
        from_status(plm_buffer_from_host_in(device->context.get(), memory, dtype, args->dims,
                                            args->num_dims, args->data, strides, &made)));
    args->buffer = new Buffer(device, made);
    args->done_with_host_buffer = make_ended_event(nullptr);
    return nullptr;
  });
}

Error* Client_CreateViewOfDeviceBuffer(Client_CreateViewOfDeviceBuffer_Args* args) {
  return guarded([&]() -> Error* {
    Device* device = nullptr;
    PLIMSOLL_PJRT_RETURN_IF_ERROR(
        find_device(*args->client, args->device,
                    PLIMSOLL_PJRT_KNOWS(args, memory) ? args->memory : nullptr, device));
    PLIMSOLL_PJRT_RETURN_IF_ERROR(check_layout(args->layout, args->num_dims));
    plm_dtype dtype = PLM_F32;
    PLIMSOLL_PJRT_RETURN_IF_ERROR(find_dtype(args->element_type, dtype));
    auto lent = std::make_unique<Lent>();
    lent->on_delete = args->on_delete_callback;
    lent->pointer = args->device_buffer_ptr;
    lent->user = args->on_delete_callback_user;
    plm_buffer* made = nullptr;
    PLIMSOLL_PJRT_RETURN_IF_ERROR(from_status(
        plm_buffer_borrow_device(device->context.get(), dtype, args->dims, args->num_dims,
                                 args->device_buffer_ptr, nullptr, Lent::end, lent.get(), &made)));
    (void)lent.release();
    args->buffer = new Buffer(device, made);
    return nullptr;
  });
}

// Zeros: nobody sees what was there before.
Error* Client_CreateUninitializedBuffer(Client_CreateUninitializedBuffer_Args* args) {
  return guarded([&]() -> Error* {
    Device* device = nullptr;
    PLIMSOLL_PJRT_RETURN_IF_ERROR(find_device(*args->client, args->device, args->memory, device));
    PLIMSOLL_PJRT_RETURN_IF_ERROR(check_layout(args->layout, args->num_dims));
    plm_dtype dtype = PLM_F32;
    PLIMSOLL_PJRT_RETURN_IF_ERROR(find_dtype(args->element_type, dtype));
    const std::uint64_t zero[2] = {};
    const std::vector<std::int64_t> strides(args->num_dims, 0);
    plm_buffer* made = nullptr;
    PLIMSOLL_PJRT_RETURN_IF_ERROR(from_status(
        plm_buffer_from_host_in(device->context.get(), kind_of(args->memory), dtype, args->dims,
                                args->num_dims, zero, strides.data(), &made)));
    args->buffer = new Buffer(device, made);
    return nullptr;
  });
}

Error* Buffer_Destroy(Buffer_Destroy_Args* args) {
  delete args->buffer;
  return nullptr;
}

Error* Buffer_ElementType(Buffer_ElementType_Args* args) {
  args->type = element_type(plm_buffer_dtype(args->buffer->handle.get()));
  return nullptr;
}

Error* Buffer_Dimensions(Buffer_Dimensions_Args* args) {
  args->dims = plm_buffer_dims(args->buffer->handle.get());
  args->num_dims = plm_buffer_rank(args->buffer->handle.get());
  return nullptr;
}

Error* Buffer_UnpaddedDimensions(Buffer_UnpaddedDimensions_Args* args) {
  return Buffer_Dimensions(args);
}

Error* Buffer_DynamicDimensionIndices(Buffer_DynamicDimensionIndices_Args* args) {
  args->dynamic_dim_indices = nullptr;
  args->num_dynamic_dims = 0;
  return nullptr;
}

Error* Buffer_GetMemoryLayout(Buffer_GetMemoryLayout_Args* args) {
  MemoryLayout& layout = args->layout;
  layout = {};
  layout.struct_size = sizeof layout;
  layout.type = kTiled;
  layout.tiled.struct_size = sizeof layout.tiled;
  layout.tiled.minor_to_major = args->buffer->minor_to_major.data();
  layout.tiled.minor_to_major_size = args->buffer->minor_to_major.size();
  return nullptr;
}

Error* Buffer_OnDeviceSizeInBytes(Buffer_OnDeviceSizeInBytes_Args* args) {
  args->size_in_bytes = plm_buffer_byte_size(args->buffer->handle.get());
  return nullptr;
}

Error* Buffer_Device(Buffer_Device_Args* args) {
  args->device = args->buffer->device;
  return nullptr;
}

Error* Buffer_Memory(Buffer_Memory_Args* args) {
  args->memory = &args->buffer->device->memory_of(plm_buffer_memory(args->buffer->handle.get()));
  return nullptr;
}

Error* Buffer_Delete(Buffer_Delete_Args* args) {
  plm_buffer_delete(args->buffer->handle.get());
  return nullptr;
}

Error* Buffer_IsDeleted(Buffer_IsDeleted_Args* args) {
  args->is_deleted = plm_buffer_is_deleted(args->buffer->handle.get()) != 0;
  return nullptr;
}

Error* Buffer_CopyToDevice(Buffer_CopyToDevice_Args* args) {
  return guarded([&]() -> Error* {
    Device* device = nullptr;
    PLIMSOLL_PJRT_RETURN_IF_ERROR(
        find_device(*args->buffer->device->client, args->device, nullptr, device));
    return copy_to(*device, plm_buffer_memory(args->buffer->handle.get()), *args->buffer,
                   &args->copy);
  });
}

Error* Buffer_CopyToMemory(Buffer_CopyToMemory_Args* args) {
  return guarded([&]() -> Error* {
    Device* device = nullptr;
    PLIMSOLL_PJRT_RETURN_IF_ERROR(
        find_device(*args->buffer->device->client, nullptr, args->memory, device));
    return copy_to(*device, kind_of(args->memory), *args->buffer, &args->copy);
  });
}

Error* Buffer_ToHostBuffer(Buffer_ToHostBuffer_Args* args) {
  return guarded([&]() -> Error* {
    const Buffer& buffer = *args->buffer;
    const std::size_t size = host_bytes(buffer.handle.get());
    const bool unpacks = plm_dtype_bits(plm_buffer_dtype(buffer.handle.get())) < 8;
    PLIMSOLL_PJRT_RETURN_IF_ERROR(
        check_layout(args->host_layout, plm_buffer_rank(buffer.handle.get())));
    if (args->destination == nullptr) {
      args->destination_size = size;
      return nullptr;
    }
    if (args->destination_size < size) {
      return invalid_argument("there is room for " + std::to_string(args->destination_size) +
                              " bytes of " + std::to_string(size));
    }
    return start_transfer(buffer, args->destination, 0, size, unpacks, &args->event);
  });
}

Error* Buffer_CopyRawToHost(Buffer_CopyRawToHost_Args* args) {
  return guarded([&]() -> Error* {
    const Buffer& buffer = *args->buffer;
    const auto size = static_cast<std::int64_t>(plm_buffer_byte_size(buffer.handle.get()));
    if (args->offset < 0 || args->transfer_size < 0 || args->offset > size ||
        args->transfer_size > size - args->offset) {
      return invalid_argument("bytes " + std::to_string(args->offset) + " + " +
                              std::to_string(args->transfer_size) + " of a buffer of " +
                              std::to_string(size));
    }
    return start_transfer(buffer, args->destination, static_cast<std::size_t>(args->offset),
                          static_cast<std::size_t>(args->transfer_size), false, &args->event);
  });
}

Error* Buffer_IsOnCpu(Buffer_IsOnCpu_Args* args) {
  args->is_on_cpu = args->buffer->device->client->is_host_memory;
  return nullptr;
}

Error* Buffer_ReadyEvent(Buffer_ReadyEvent_Args* args) {
  return guarded([&]() -> Error* {
    plm_buffer* const handle = args->buffer->handle.get();
    auto moment = make_moment();
    auto user = std::make_unique<std::shared_ptr<Moment>>(moment);
    if (plm_status* const status = plm_buffer_when_ready(handle, end_moment, user.get());
        status != nullptr) {
      moment->end(from_status(status));
    } else {
      (void)user.release();
    }
    args->event = make_event(std::move(moment));
    return nullptr;
  });
}

Error* Buffer_UnsafePointer(Buffer_UnsafePointer_Args* args) {
  return guarded([&]() -> Error* {
    void* data = nullptr;
    plm_hold* hold = nullptr;
    PLIMSOLL_PJRT_RETURN_IF_ERROR(
        from_status(plm_buffer_hold(args->buffer->handle.get(), &data, &hold)));
    plm_hold_release(hold);
    args->pointer = reinterpret_cast<std::uintptr_t>(data);
    return nullptr;
  });
}

Error* Buffer_OpaqueDeviceMemoryDataPointer(Buffer_OpaqueDeviceMemoryDataPointer_Args* args) {
  return guarded([&]() -> Error* {
    plm_hold* hold = nullptr;
    PLIMSOLL_PJRT_RETURN_IF_ERROR(
        from_status(plm_buffer_hold(args->buffer->handle.get(), &args->pointer, &hold)));
    plm_hold_release(hold);
    return nullptr;
  });
}

Error* Buffer_IncreaseExternalReferenceCount(Buffer_IncreaseExternalReferenceCount_Args* args) {
  return guarded([&]() -> Error* {
    Buffer& buffer = *args->buffer;
    const std::lock_guard lock(buffer.mutex);
    if (buffer.external_references == 0) {
      plm_hold* hold = nullptr;
      PLIMSOLL_PJRT_RETURN_IF_ERROR(
          from_status(plm_buffer_hold(buffer.handle.get(), nullptr, &hold)));
      buffer.hold.reset(hold);
    }
    ++buffer.external_references;
    return nullptr;
  });
}

Error* Buffer_DecreaseExternalReferenceCount(Buffer_DecreaseExternalReferenceCount_Args* args) {
  return guarded([&]() -> Error* {
    Buffer& buffer = *args->buffer;
    const std::lock_guard lock(buffer.mutex);
    if (buffer.external_references <= 0) {
      return invalid_argument("the buffer has no external references");
    }
    if (--buffer.external_references == 0) buffer.hold.reset();
    return nullptr;
  });
}

}  // namespace plimsoll::pjrt
