// SPDX-License-Identifier: Apache-2.0
#include "tests/device/cuda/recording_cudnn.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <set>
#include <utility>

#include "tests/device/cuda/recorded_convolutions.h"
#include "tests/device/cuda/recording_driver_impl.h"

namespace plimsoll::device::cuda {

struct DnnObject {
  bool is_live = true;
  const ContextObject* context = nullptr;
  StreamHandle stream = nullptr;
};
struct DnnTensorObject {
  bool is_live = true;
  RecordedTensor tensor;
};
struct DnnFilterObject {
  bool is_live = true;
  bool is_channels_last = false;
  RecordedTensor tensor;
};
struct DnnConvolutionObject {
  bool is_live = true;
  RecordedConvolution convolution;
  DnnMath math = DnnMath::as_it_likes;
};

namespace {

// Strides of a dense array of (N, channels, places...).
std::vector<std::int64_t> dense(const std::vector<std::int64_t>& dims, bool is_channels_last) {
  std::vector<std::int64_t> strides(dims.size());
  std::int64_t stride = 1;
  if (is_channels_last) strides[1] = std::exchange(stride, dims[1]);
  for (std::size_t d = dims.size(); d-- > 2;) strides[d] = std::exchange(stride, stride * dims[d]);
  if (!is_channels_last) strides[1] = std::exchange(stride, stride * dims[1]);
  strides[0] = stride;
  return strides;
}

std::int64_t bytes_of(const RecordedTensor& tensor) {
  return tensor.elements() * (tensor.type == DnnType::f32 ? 4 : 2);
}

constexpr std::size_t kWorkspaceBytes = 48;

}  // namespace

struct RecordingCudnn::Impl {
  Impl(RecordingDriver& with, std::int64_t of_handle, std::int64_t of_code)
      : driver(with.impl()), handle_bytes(of_handle), code_bytes(of_code) {}

  DnnResult violate(DnnResult result, const std::string& what) {
    driver.violations.push_back(what);
    return result;
  }
  template <typename Object>
  DnnResult make(std::vector<std::unique_ptr<Object>>& all, Object** made) {
    all.push_back(std::make_unique<Object>());
    handles.insert(all.back().get());
    *made = all.back().get();
    return DnnResult::success;
  }
  template <typename Object>
  bool is_live(const Object* handle) const {
    return handle != nullptr && handles.contains(handle) && handle->is_live;
  }
  template <typename Object>
  DnnResult destroy_one(Object* handle) {
    if (!is_live(handle)) return violate(DnnResult::bad_parameter, "cuDNN: destroyed twice");
    handle->is_live = false;
    return DnnResult::success;
  }
  bool has_context(DnnHandle handle, const char* call) {
    const ContextObject* const current = driver.context(call);
    if (current != nullptr && is_live(handle) && current == handle->context) {
      driver.device = current->device;
      return true;
    }
    driver.violations.push_back(std::string(call) + ": no such handle, or not its context");
    return false;
  }
  // Algorithms for descriptors that belong together; none, with a note, else.
  DnnResult offer(DnnHandle handle, DnnTensor x, DnnFilter w, DnnConvolution convolution,
                  DnnTensor y, int algorithm, int most, int* count, DnnChoice* choices);
  DnnResult workspace(DnnHandle handle, DnnTensor x, DnnFilter w, DnnConvolution convolution,
                      DnnTensor y, int algorithm, std::size_t* bytes);
  DnnResult convolve(DnnHandle handle, RecordedDirection direction, const void* one, DnnTensor x,
                     const void* at_x, DnnFilter w, const void* at_w, DnnConvolution convolution,
                     int algorithm, void* workspace, std::size_t bytes, const void* zero,
                     DnnTensor y, const void* at_y);
  bool fits(DnnTensor x, DnnFilter w, DnnConvolution convolution, DnnTensor y,
            RecordedConvolution* made);

#define PLIMSOLL_CUDNN_CALL(result, member, symbol, parameters) result member parameters;
#include "runtime/device/cuda/libraries/cudnn.def"
#undef PLIMSOLL_CUDNN_CALL

  RecordingDriver::Impl& driver;
  const std::int64_t handle_bytes, code_bytes;
  std::set<const void*> handles;
  std::vector<std::unique_ptr<DnnObject>> libraries;
  std::vector<std::unique_ptr<DnnTensorObject>> tensors;
  std::vector<std::unique_ptr<DnnFilterObject>> filters;
  std::vector<std::unique_ptr<DnnConvolutionObject>> convolutions;
  std::set<RecordedDirection> loaded;  // whose code is there
};

using DnnImpl = RecordingCudnn::Impl;

// Versions, errors, handles.

std::size_t DnnImpl::get_version() { return 91400; }
std::size_t DnnImpl::get_runtime_version() { return 13000; }
const char* DnnImpl::get_error_string(DnnResult) { return "as the recording library has it"; }

DnnResult DnnImpl::create(DnnHandle* made) {
  const ContextObject* const current = driver.context("cudnnCreate");
  if (current == nullptr) return DnnResult::not_initialized;
  driver.device = current->device;
  if (!driver.memory().take(handle_bytes)) return DnnResult::device_allocation_failed;
  (void)make(libraries, made);
  (*made)->context = current;
  return DnnResult::success;
}

DnnResult DnnImpl::destroy(DnnHandle handle) {
  if (!has_context(handle, "cudnnDestroy")) return DnnResult::bad_parameter;
  driver.memory().give_back(handle_bytes + code_bytes * std::ssize(loaded));
  loaded.clear();
  return destroy_one(handle);
}

DnnResult DnnImpl::set_stream(DnnHandle handle, StreamHandle stream) {
  if (!has_context(handle, "cudnnSetStream") || !driver.is_live(driver.streams, stream)) {
    return violate(DnnResult::bad_parameter, "cudnnSetStream");
  }
  handle->stream = stream;
  return DnnResult::success;
}

// Descriptors.

DnnResult DnnImpl::tensor_create(DnnTensor* made) { return make(tensors, made); }
DnnResult DnnImpl::tensor_destroy(DnnTensor tensor) { return destroy_one(tensor); }
DnnResult DnnImpl::tensor_set(DnnTensor tensor, DnnType type, int rank, const int* dims,
                              const int* strides) {
  if (!is_live(tensor) || rank < 4 || rank > 5) {
    return violate(DnnResult::bad_parameter, "cudnnSetTensorNdDescriptor");
  }
  tensor->tensor = {type, {dims, dims + rank}, {strides, strides + rank}};
  return DnnResult::success;
}
DnnResult DnnImpl::filter_create(DnnFilter* made) { return make(filters, made); }
DnnResult DnnImpl::filter_destroy(DnnFilter filter) { return destroy_one(filter); }
DnnResult DnnImpl::filter_set(DnnFilter filter, DnnType type, DnnFormat format, int rank,
                              const int* dims) {
  if (!is_live(filter) || rank < 4 || rank > 5) {
    return violate(DnnResult::bad_parameter, "cudnnSetFilterNdDescriptor");
  }
  filter->is_channels_last = format == DnnFormat::channels_last;
  filter->tensor = {type, {dims, dims + rank}, {}};
  filter->tensor.strides = dense(filter->tensor.dims, filter->is_channels_last);
  return DnnResult::success;
}
DnnResult DnnImpl::convolution_create(DnnConvolution* made) { return make(convolutions, made); }
DnnResult DnnImpl::convolution_destroy(DnnConvolution convolution) {
  return destroy_one(convolution);
}
DnnResult DnnImpl::convolution_set(DnnConvolution convolution, int rank, const int* padding,
                                   const int* strides, const int* dilations, DnnMode mode,
                                   DnnType compute) {
  if (!is_live(convolution) || rank < 2 || rank > 3 || compute != DnnType::f32) {
    return violate(DnnResult::bad_parameter, "cudnnSetConvolutionNdDescriptor");
  }
  RecordedConvolution& set = convolution->convolution;
  set.padding.assign(padding, padding + rank);
  set.strides.assign(strides, strides + rank);
  set.dilations.assign(dilations, dilations + rank);
  set.is_flipped = mode == DnnMode::convolution;
  return DnnResult::success;
}
DnnResult DnnImpl::convolution_set_math(DnnConvolution convolution, DnnMath math) {
  if (!is_live(convolution)) return violate(DnnResult::bad_parameter, "cudnnSetConvolutionMath");
  convolution->math = math;
  return DnnResult::success;
}
DnnResult DnnImpl::convolution_set_groups(DnnConvolution convolution, int groups) {
  if (!is_live(convolution)) return violate(DnnResult::bad_parameter, "cudnnSetConvolutionGroup");
  convolution->convolution.groups = groups;
  return DnnResult::success;
}

// Convolutions.

bool DnnImpl::fits(DnnTensor x, DnnFilter w, DnnConvolution convolution, DnnTensor y,
                   RecordedConvolution* made) {
  if (!is_live(x) || !is_live(w) || !is_live(y) || !is_live(convolution)) {
    driver.violations.push_back("cuDNN: a descriptor that is not there");
    return false;
  }
  *made = convolution->convolution;
  made->x = x->tensor;
  made->w = w->tensor;
  made->y = y->tensor;
  const bool is_dense = x->tensor.strides == dense(x->tensor.dims, w->is_channels_last) &&
                        y->tensor.strides == dense(y->tensor.dims, w->is_channels_last);
  if (is_dense && is_convolution(*made)) return true;
  driver.violations.push_back("cuDNN: tensors that do not belong together");
  return false;
}

DnnResult DnnImpl::offer(DnnHandle handle, DnnTensor x, DnnFilter w, DnnConvolution convolution,
                         DnnTensor y, int algorithm, int most, int* count, DnnChoice* choices) {
  RecordedConvolution made;
  if (!has_context(handle, "cudnnGetConvolution...Algorithm") || most < 5 ||
      !fits(x, w, convolution, y, &made)) {
    return DnnResult::bad_parameter;
  }
  const bool is_f32 = made.x.type == DnnType::f32;
  const auto one = [&](int which, int determinism, DnnMath math) {
    choices[(*count)++] = {which, DnnResult::success, 1, kWorkspaceBytes, determinism, math, {}};
  };
  *count = 0;
  one(algorithm, 0, convolution->math);
  one(6, 1, convolution->math);
  if (algorithm == kDnnForwardPrecomputedGemm) one(kDnnForwardGemm, 1, convolution->math);
  one(algorithm, 1, is_f32 ? DnnMath::as_it_likes : convolution->math);
  return DnnResult::success;
}

DnnResult DnnImpl::workspace(DnnHandle handle, DnnTensor x, DnnFilter w, DnnConvolution convolution,
                             DnnTensor y, int algorithm, std::size_t* bytes) {
  RecordedConvolution made;
  if (!has_context(handle, "cudnnGetConvolution...WorkspaceSize") ||
      !fits(x, w, convolution, y, &made)) {
    return DnnResult::bad_parameter;
  }
  *bytes = algorithm == 1 ? kWorkspaceBytes : std::size_t{1} << 40;
  return DnnResult::success;
}

DnnResult DnnImpl::forward_workspace(DnnHandle handle, DnnTensor x, DnnFilter w,
                                     DnnConvolution convolution, DnnTensor y, int algorithm,
                                     std::size_t* bytes) {
  return workspace(handle, x, w, convolution, y, algorithm, bytes);
}
DnnResult DnnImpl::backward_data_workspace(DnnHandle handle, DnnFilter w, DnnTensor y,
                                           DnnConvolution convolution, DnnTensor x, int algorithm,
                                           std::size_t* bytes) {
  return workspace(handle, x, w, convolution, y, algorithm, bytes);
}
DnnResult DnnImpl::backward_filter_workspace(DnnHandle handle, DnnTensor x, DnnTensor y,
                                             DnnConvolution convolution, DnnFilter w, int algorithm,
                                             std::size_t* bytes) {
  return workspace(handle, x, w, convolution, y, algorithm, bytes);
}

DnnResult DnnImpl::choose_forward(DnnHandle handle, DnnTensor x, DnnFilter w,
                                  DnnConvolution convolution, DnnTensor y, int most, int* count,
                                  DnnChoice* choices) {
  return offer(handle, x, w, convolution, y, kDnnForwardPrecomputedGemm, most, count, choices);
}
DnnResult DnnImpl::choose_backward_data(DnnHandle handle, DnnFilter w, DnnTensor y,
                                        DnnConvolution convolution, DnnTensor x, int most,
                                        int* count, DnnChoice* choices) {
  return offer(handle, x, w, convolution, y, kDnnBackwardData1, most, count, choices);
}
DnnResult DnnImpl::choose_backward_filter(DnnHandle handle, DnnTensor x, DnnTensor y,
                                          DnnConvolution convolution, DnnFilter w, int most,
                                          int* count, DnnChoice* choices) {
  return offer(handle, x, w, convolution, y, kDnnBackwardFilter1, most, count, choices);
}

DnnResult DnnImpl::convolve(DnnHandle handle, RecordedDirection direction, const void* one,
                            DnnTensor x, const void* at_x, DnnFilter w, const void* at_w,
                            DnnConvolution convolution, int algorithm, void* workspace,
                            std::size_t bytes, const void* zero, DnnTensor y, const void* at_y) {
  RecordedConvolution made;
  if (!has_context(handle, "cudnnConvolution...") || !fits(x, w, convolution, y, &made)) {
    return DnnResult::bad_parameter;
  }
  if (!driver.is_live(driver.streams, handle->stream)) {
    return violate(DnnResult::bad_parameter, "cudnnConvolution...: no stream");
  }
  const auto number = [](const void* factor) { return *static_cast<const float*>(factor); };
  if (number(one) != 1 || number(zero) != 0) {
    return violate(DnnResult::bad_parameter, "cudnnConvolution...: factors");
  }
  const bool is_half = made.x.type != DnnType::f32;
  const DnnMath math = is_half ? DnnMath::tensor_cores : DnnMath::no_tensor_cores;
  if (algorithm != 1 || bytes < kWorkspaceBytes || workspace == nullptr ||
      convolution->math != math) {
    return violate(DnnResult::bad_parameter, "cudnnConvolution...: algorithm, workspace or math");
  }
  for (const void* const pointer : {at_x, at_w, at_y}) {
    if (reinterpret_cast<Address>(pointer) % 16 == 0) continue;
    return violate(DnnResult::bad_parameter, "cudnnConvolution...: alignment");
  }
  if (reinterpret_cast<Address>(workspace) % 256 != 0) {
    return violate(DnnResult::bad_parameter, "cudnnConvolution...: its workspace");
  }
  if (!loaded.contains(direction)) {
    if (!driver.memory().take(code_bytes)) return DnnResult::device_allocation_failed;
    loaded.insert(direction);
  }
  Piece piece{.what = "convolve"};
  piece.touches = {{at_x, bytes_of(made.x), true},
                   {at_w, bytes_of(made.w), true},
                   {at_y, bytes_of(made.y), true},
                   {workspace, static_cast<std::int64_t>(kWorkspaceBytes), true}};
  piece.run = [this, made, direction, at_x, at_w, at_y, workspace] {
    std::fill_n(static_cast<std::byte*>(driver.translated(workspace)), kWorkspaceBytes,
                std::byte{0x5A});
    compute_convolution(
        made, direction,
        {driver.translated(at_x), driver.translated(at_w), driver.translated(at_y)});
  };
  return driver.enqueue(*handle->stream, std::move(piece)) == success ? DnnResult::success
                                                                      : DnnResult::execution_failed;
}

DnnResult DnnImpl::forward(DnnHandle handle, const void* one, DnnTensor x, const void* at_x,
                           DnnFilter w, const void* at_w, DnnConvolution convolution, int algorithm,
                           void* workspace, std::size_t bytes, const void* zero, DnnTensor y,
                           void* at_y) {
  return convolve(handle, RecordedDirection::forward, one, x, at_x, w, at_w, convolution, algorithm,
                  workspace, bytes, zero, y, at_y);
}
DnnResult DnnImpl::backward_data(DnnHandle handle, const void* one, DnnFilter w, const void* at_w,
                                 DnnTensor y, const void* at_y, DnnConvolution convolution,
                                 int algorithm, void* workspace, std::size_t bytes,
                                 const void* zero, DnnTensor x, void* at_x) {
  return convolve(handle, RecordedDirection::backward_data, one, x, at_x, w, at_w, convolution,
                  algorithm, workspace, bytes, zero, y, at_y);
}
DnnResult DnnImpl::backward_filter(DnnHandle handle, const void* one, DnnTensor x, const void* at_x,
                                   DnnTensor y, const void* at_y, DnnConvolution convolution,
                                   int algorithm, void* workspace, std::size_t bytes,
                                   const void* zero, DnnFilter w, void* at_w) {
  return convolve(handle, RecordedDirection::backward_filter, one, x, at_x, w, at_w, convolution,
                  algorithm, workspace, bytes, zero, y, at_y);
}

// The table.

namespace {

std::array<std::atomic<DnnImpl*>, RecordingDriver::kMostDrivers> recording_dnns{};

template <int kSlot, auto kMethod>
struct ForwardDnn;
template <int kSlot, typename R, typename... Parameters, R (DnnImpl::*kMethod)(Parameters...)>
struct ForwardDnn<kSlot, kMethod> {
  static inline const char* symbol = nullptr;
  static R call(Parameters... parameters) {
    DnnImpl* const library = recording_dnns[kSlot].load();
    const std::lock_guard lock(library->driver.mutex);
    if constexpr (std::is_same_v<R, DnnResult>) {
      const std::string_view name = symbol;
      switch (library->driver.count(name, name.find("Destroy") == std::string_view::npos,
                                    name.find("Create") != std::string_view::npos)) {
        case success:
          break;
        case out_of_memory:
          return DnnResult::device_allocation_failed;
        default:
          return DnnResult::execution_failed;
      }
    }
    return (library->*kMethod)(parameters...);
  }
};

template <int kSlot>
Cudnn make_dnn_table() {
  Cudnn table;
#define PLIMSOLL_CUDNN_CALL(result, member, symbol_, parameters) \
  ForwardDnn<kSlot, &DnnImpl::member>::symbol = #symbol_;        \
  table.member = ForwardDnn<kSlot, &DnnImpl::member>::call;
#include "runtime/device/cuda/libraries/cudnn.def"
#undef PLIMSOLL_CUDNN_CALL
  return table;
}

template <int... kSlots>
const std::array<Cudnn, sizeof...(kSlots)>& make_dnn_tables(
    std::integer_sequence<int, kSlots...> /*slots*/) {
  static const std::array<Cudnn, sizeof...(kSlots)> tables{make_dnn_table<kSlots>()...};
  return tables;
}

}  // namespace

RecordingCudnn::RecordingCudnn(RecordingDriver& driver, std::int64_t handle_bytes,
                               std::int64_t code_bytes)
    : impl_(std::make_unique<Impl>(driver, handle_bytes, code_bytes)) {
  (void)table();
  recording_dnns[static_cast<std::size_t>(impl_->driver.slot)] = impl_.get();
}

RecordingCudnn::~RecordingCudnn() {
  recording_dnns[static_cast<std::size_t>(impl_->driver.slot)] = nullptr;
}

const Cudnn& RecordingCudnn::table() const {
  return make_dnn_tables(
      std::make_integer_sequence<int, RecordingDriver::kMostDrivers>())[static_cast<std::size_t>(
      impl_->driver.slot)];
}

std::string RecordingCudnn::leaks() const {
  const std::lock_guard lock(impl_->driver.mutex);
  std::string found;
  const auto count = [&](const auto& objects, const char* what) {
    const auto live = std::count_if(objects.begin(), objects.end(),
                                    [](const auto& object) { return object->is_live; });
    if (live > 0) found += (found.empty() ? "" : ", ") + std::to_string(live) + " " + what;
  };
  count(impl_->libraries, "handles");
  count(impl_->tensors, "tensors");
  count(impl_->filters, "filters");
  count(impl_->convolutions, "convolutions");
  return found;
}

}  // namespace plimsoll::device::cuda
