// SPDX-License-Identifier: Apache-2.0
#include "plimsoll/dlpack.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/c_api/buffer.h"
#include "runtime/c_api/dlpack_layout.h"
#include "runtime/c_api/handles.h"

using namespace plimsoll;
using c_api::guarded;
using c_api::require;

namespace {

// DLPack's codes: signed and unsigned integers, floats, bfloat, complex, bool, and the 8-bit
// floats.
struct Row {
  plm_dtype dtype;
  std::uint8_t code, bits;
};
constexpr Row kRows[] = {
    {PLM_PRED, 6, 8},        {PLM_S8, 0, 8},          {PLM_S16, 0, 16},
    {PLM_S32, 0, 32},        {PLM_S64, 0, 64},        {PLM_U8, 1, 8},
    {PLM_U16, 1, 16},        {PLM_U32, 1, 32},        {PLM_U64, 1, 64},
    {PLM_F16, 2, 16},        {PLM_F32, 2, 32},        {PLM_F64, 2, 64},
    {PLM_BF16, 4, 16},       {PLM_C64, 5, 64},        {PLM_C128, 5, 128},
    {PLM_F8E3M4, 7, 8},      {PLM_F8E4M3, 8, 8},      {PLM_F8E4M3B11FNUZ, 9, 8},
    {PLM_F8E4M3FN, 10, 8},   {PLM_F8E4M3FNUZ, 11, 8}, {PLM_F8E5M2, 12, 8},
    {PLM_F8E5M2FNUZ, 13, 8}, {PLM_F8E8M0FNU, 14, 8},
};

// What the two structs are asked for in the same words.
DLTensor& tensor_of(DLManagedTensor& managed) { return managed.tensor; }
DLTensor& tensor_of(DLManagedTensorVersioned& managed) { return managed.tensor; }

Status check_version(const DLManagedTensor&) { return ok_status(); }
Status check_version(const DLManagedTensorVersioned& managed) {
  if (managed.version.major <= c_api::kDlpackMajor) return ok_status();
  return invalid_argument(fmt::format("dlpack: a tensor of version {}.{} (at most {})",
                                      managed.version.major, managed.version.minor,
                                      c_api::kDlpackMajor));
}

Result<plm_dtype> dtype_of(const DLDataType& type) {
  if (type.lanes != 1) {
    return invalid_argument(fmt::format("dlpack: {} lanes (must be 1)", type.lanes));
  }
  for (const Row& row : kRows) {
    if (row.code == type.code && row.bits == type.bits) return row.dtype;
  }
  return Status(StatusCode::unimplemented,
                fmt::format("dlpack: no dtype is of code {} and {} bits", type.code, type.bits));
}

// The strides in bytes, or nothing where the tensor is dense and row-major.
Result<std::optional<std::vector<std::int64_t>>> sparse_strides(const DLTensor& tensor,
                                                                const ir::Shape& shape) {
  std::optional<std::vector<std::int64_t>> strides;
  if (tensor.strides == nullptr || shape.element_count() == 0) return strides;
  const std::int64_t element = ir::dtype_bytes(shape.dtype());
  strides.emplace(at(shape.rank()), 0);  // of dims of one they do not matter
  bool is_dense = true;
  std::int64_t expected = 1;
  for (int d = shape.rank(); d-- > 0;) {
    if (shape.dim(d) == 1) continue;
    is_dense = is_dense && tensor.strides[d] == expected;
    expected *= shape.dim(d);
    if (__builtin_mul_overflow(tensor.strides[d], element, &(*strides)[at(d)])) {
      return invalid_argument(fmt::format("dlpack: a stride of {} elements along dim {} of {}",
                                          tensor.strides[d], d, shape.to_string()));
    }
  }
  if (is_dense) strides.reset();
  return strides;
}

// Where a context's arrays are; nothing where DLPack has no word for it.
std::optional<DLDevice> device_of(const plm_context* context) {
  if (plm_context_is_host_memory(context) != 0) return DLDevice{c_api::kDlpackCpu, 0};
  const std::string_view name = plm_context_device(context);
  constexpr std::string_view kGpu = "cuda:";
  std::int32_t number = 0;
  const char* const end = name.data() + name.size();
  if (!name.starts_with(kGpu) ||
      std::from_chars(name.data() + kGpu.size(), end, number).ptr != end) {
    return std::nullopt;
  }
  return DLDevice{c_api::kDlpackCuda, number};
}

template <typename Managed>
void give_back(void* user) {
  auto* const managed = static_cast<Managed*>(user);
  if (managed->deleter != nullptr) managed->deleter(managed);
}

template <typename Managed>
plm_status* from_dlpack(plm_context* context, Managed* managed, plm_buffer** out) {
  plm_status* inner = nullptr;
  plm_status* const checked = guarded([&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(require(context != nullptr && managed != nullptr && out != nullptr,
                                     "dlpack: a pointer is NULL"));
    PLIMSOLL_RETURN_IF_ERROR(check_version(*managed));
    const DLTensor& tensor = tensor_of(*managed);
    const bool is_on_host =
        tensor.device.type == c_api::kDlpackCpu || tensor.device.type == c_api::kDlpackPinned;
    const std::optional<DLDevice> own = device_of(context);
    if (!is_on_host &&
        (!own || own->type != tensor.device.type || own->number != tensor.device.number)) {
      return Status(
          StatusCode::unimplemented,
          fmt::format("dlpack: a tensor on device {}:{} (only host memory and the "
                      "context's device, {}, are taken)",
                      tensor.device.type, tensor.device.number, plm_context_device(context)));
    }
    PLIMSOLL_RETURN_IF_ERROR(require(tensor.rank >= 0, "dlpack: the rank is below zero"));
    PLIMSOLL_RETURN_IF_ERROR(
        require(tensor.rank == 0 || tensor.shape != nullptr, "dlpack: the shape is NULL"));
    PLIMSOLL_ASSIGN_OR_RETURN(const plm_dtype dtype, dtype_of(tensor.dtype));
    const auto rank = static_cast<size_t>(tensor.rank);
    PLIMSOLL_ASSIGN_OR_RETURN(const ir::Shape shape,
                              c_api::make_shape("dlpack", dtype, tensor.shape, rank));
    constexpr std::uint64_t kMost = std::uint64_t{1} << 56;  // as ir::fits_address_space
    if (tensor.byte_offset > kMost) {
      return invalid_argument(
          fmt::format("dlpack: a byte offset of {} (at most {})", tensor.byte_offset, kMost));
    }
    auto* const data = static_cast<std::byte*>(tensor.data);
    void* const first = data == nullptr ? nullptr : data + tensor.byte_offset;
    PLIMSOLL_ASSIGN_OR_RETURN(const auto strides, sparse_strides(tensor, shape));
    if (!is_on_host) {
      inner = plm_buffer_borrow_device(context, dtype, tensor.shape, rank, first,
                                       strides ? strides->data() : nullptr, give_back<Managed>,
                                       managed, out);
      return ok_status();
    }
    if (!strides) {
      inner = plm_buffer_borrow(context, dtype, tensor.shape, rank, first, give_back<Managed>,
                                managed, out);
      return ok_status();
    }
    inner = plm_buffer_from_host(context, dtype, tensor.shape, rank, first, strides->data(), out);
    if (inner == nullptr) give_back<Managed>(managed);
    return ok_status();
  });
  return checked != nullptr ? checked : inner;
}

// What an exported tensor points to.
template <typename Managed>
struct Exported {
  Managed managed = {};
  std::vector<std::int64_t> shape, strides;
  plm_hold* hold = nullptr;

  static void end(Managed* self) {
    auto* const exported = static_cast<Exported*>(self->manager);
    plm_hold_release(exported->hold);
    delete exported;
  }
};

void describe(DLManagedTensor&) {}
void describe(DLManagedTensorVersioned& managed) {
  managed.version = {c_api::kDlpackMajor, 0};
  managed.flags = c_api::kDlpackReadOnly;
}

template <typename Managed>
plm_status* to_dlpack(plm_context* context, plm_buffer* buffer, Managed** out) {
  plm_status* inner = nullptr;
  plm_status* const checked = guarded([&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(require(context != nullptr && buffer != nullptr && out != nullptr,
                                     "dlpack: a pointer is NULL"));
    const auto device = plm_buffer_memory(buffer) == PLM_MEMORY_DEVICE
                            ? device_of(context)
                            : DLDevice{c_api::kDlpackCpu, 0};
    if (!device) {
      return Status(StatusCode::unimplemented,
                    fmt::format("dlpack: the memory of {} is neither the host's nor a GPU's (read "
                                "the buffer, plm_buffer_read)",
                                plm_context_device(context)));
    }
    const plm_dtype dtype = plm_buffer_dtype(buffer);
    const Row* found = nullptr;
    for (const Row& row : kRows) {
      if (row.dtype == dtype) found = &row;
    }
    if (found == nullptr) {
      return Status(
          StatusCode::unimplemented,
          fmt::format("dlpack: {} has no code there, or lies packed", plm_dtype_name(dtype)));
    }
    auto exported = std::make_unique<Exported<Managed>>();
    const size_t rank = plm_buffer_rank(buffer);
    const int64_t* const dims = plm_buffer_dims(buffer);
    exported->shape.assign(dims, dims + rank);
    exported->strides.resize(rank);
    std::int64_t stride = 1;
    for (size_t d = rank; d-- > 0;) {
      exported->strides[d] = stride;
      stride *= std::max<std::int64_t>(dims[d], 1);
    }
    DLTensor& tensor = tensor_of(exported->managed);
    inner = plm_buffer_hold(buffer, &tensor.data, &exported->hold);
    if (inner != nullptr) return ok_status();
    tensor.device = *device;
    tensor.rank = static_cast<std::int32_t>(rank);
    tensor.dtype = {found->code, found->bits, 1};
    tensor.shape = exported->shape.data();
    tensor.strides = exported->strides.data();
    describe(exported->managed);
    exported->managed.manager = exported.get();
    exported->managed.deleter = Exported<Managed>::end;
    *out = &exported.release()->managed;
    return ok_status();
  });
  return checked != nullptr ? checked : inner;
}

}  // namespace

extern "C" {

plm_status* plm_buffer_from_dlpack(plm_context* context, DLManagedTensor* tensor,
                                   plm_buffer** out) {
  return from_dlpack(context, tensor, out);
}

plm_status* plm_buffer_from_dlpack_versioned(plm_context* context, DLManagedTensorVersioned* tensor,
                                             plm_buffer** out) {
  return from_dlpack(context, tensor, out);
}

plm_status* plm_buffer_to_dlpack(plm_context* context, plm_buffer* buffer, DLManagedTensor** out) {
  return to_dlpack(context, buffer, out);
}

plm_status* plm_buffer_to_dlpack_versioned(plm_context* context, plm_buffer* buffer,
                                           DLManagedTensorVersioned** out) {
  return to_dlpack(context, buffer, out);
}
}
