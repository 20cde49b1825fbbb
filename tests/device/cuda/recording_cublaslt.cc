// SPDX-License-Identifier: Apache-2.0
#include "tests/device/cuda/recording_cublaslt.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tests/device/cuda/recorded_products.h"
#include "tests/device/cuda/recording_driver_impl.h"

namespace plimsoll::device::cuda {

struct BlasObject {
  bool is_live = true;
  const ContextObject* context = nullptr;
};
struct BlasOperationObject {
  bool is_live = true;
  BlasCompute compute = BlasCompute::f32;
  BlasType scale = BlasType::f32;
  std::array<bool, 2> is_transposed{};  // a, b
};
struct BlasLayoutObject {
  bool is_live = true;
  RecordedMatrix matrix;
};
struct BlasPreferenceObject {
  bool is_live = true;
  std::map<BlasPreferenceAttribute, std::uint64_t> values;
};

namespace {

// In the words of an algorithm.
enum Word : std::size_t { kMark, kN, kM, kK, kBatch, kParts, kAlignments, kTypes };
constexpr std::uint64_t kMagic = 0x91a57ab1e;

std::size_t bytes_of(BlasType type) {
  switch (type) {
    case BlasType::f64:
      return 8;
    case BlasType::f16:
    case BlasType::bf16:
      return 2;
    case BlasType::s8:
      return 1;
    default:
      return 4;
  }
}

}  // namespace

struct RecordingCublaslt::Impl {
  Impl(RecordingDriver& with, std::int64_t of_handle, std::int64_t of_code)
      : driver(with.impl()), handle_bytes(of_handle), code_bytes(of_code) {}

  BlasResult violate(BlasResult result, const std::string& what) {
    driver.violations.push_back(what);
    return result;
  }
  template <typename Object>
  Object* make(std::vector<std::unique_ptr<Object>>& all) {
    all.push_back(std::make_unique<Object>());
    handles.insert(all.back().get());
    return all.back().get();
  }
  template <typename Object>
  bool is_live(const Object* handle) const {
    return handle != nullptr && handles.contains(handle) && handle->is_live;
  }
  template <typename Object>
  BlasResult destroy_one(Object* handle, const char* call) {
    if (!is_live(handle)) return violate(BlasResult::invalid_value, std::string(call));
    handle->is_live = false;
    return BlasResult::success;
  }
  // Null where the handle's context is not current.
  const ContextObject* context_of(BlasHandle handle, const char* call) {
    const ContextObject* const current = driver.context(call);
    if (!is_live(handle) || current != handle->context) {
      driver.violations.push_back(std::string(call) + ": no such handle, or not its context");
      return nullptr;
    }
    return current;
  }
  // The product that the descriptors say; nothing, with a note, where they do not belong together.
  std::optional<RecordedProduct> product(BlasOperation operation, BlasLayout a, BlasLayout b,
                                         BlasLayout d, const char* call);

#define PLIMSOLL_CUBLASLT_CALL(result, member, symbol, parameters) result member parameters;
#include "runtime/device/cuda/libraries/cublaslt.def"
#undef PLIMSOLL_CUBLASLT_CALL

  RecordingDriver::Impl& driver;
  const std::int64_t handle_bytes, code_bytes;
  bool knows_nothing = false;
  std::set<const void*> handles;
  std::vector<std::unique_ptr<BlasObject>> libraries;
  std::vector<std::unique_ptr<BlasOperationObject>> operations;
  std::vector<std::unique_ptr<BlasLayoutObject>> layouts;
  std::vector<std::unique_ptr<BlasPreferenceObject>> preferences;
  std::set<std::array<std::uint64_t, 8>> loaded;  // algorithms whose code is there
};

using Impl = RecordingCublaslt::Impl;

// Versions and errors.

BlasResult Impl::get_property(BlasProperty which, int* value) {
  *value = which == BlasProperty::major_version ? 13 : 1;
  return BlasResult::success;
}

std::size_t Impl::get_runtime_version() { return 13000; }

const char* Impl::get_status_name(BlasResult result) {
  switch (result) {
    case BlasResult::alloc_failed:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case BlasResult::execution_failed:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case BlasResult::not_supported:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "an error of the library";
  }
}

const char* Impl::get_status_string(BlasResult) { return "as the recording library has it"; }

// Handles and descriptors.

BlasResult Impl::create(BlasHandle* made) {
  const ContextObject* const current = driver.context("cublasLtCreate");
  if (current == nullptr) return BlasResult::not_initialized;
  driver.device = current->device;
  if (!driver.memory().take(handle_bytes)) return BlasResult::alloc_failed;
  *made = make(libraries);
  (*made)->context = current;
  return BlasResult::success;
}

BlasResult Impl::destroy(BlasHandle handle) {
  const ContextObject* const context = context_of(handle, "cublasLtDestroy");
  if (context == nullptr) return BlasResult::not_initialized;
  driver.device = context->device;
  driver.memory().give_back(handle_bytes + code_bytes * std::ssize(loaded));
  loaded.clear();
  return destroy_one(handle, "cublasLtDestroy");
}

BlasResult Impl::operation_create(BlasOperation* made, BlasCompute compute, BlasType scale) {
  *made = make(operations);
  (*made)->compute = compute;
  (*made)->scale = scale;
  return BlasResult::success;
}

BlasResult Impl::operation_destroy(BlasOperation operation) {
  return destroy_one(operation, "cublasLtMatmulDescDestroy");
}

BlasResult Impl::operation_set(BlasOperation operation, BlasOperationAttribute which,
                               const void* value, std::size_t bytes) {
  std::int32_t transpose = -1;
  if (!is_live(operation) || bytes != sizeof(transpose)) {
    return violate(BlasResult::invalid_value, "cublasLtMatmulDescSetAttribute");
  }
  std::memcpy(&transpose, value, bytes);
  if (transpose < 0 || transpose > 1) {
    return violate(BlasResult::invalid_value, "cublasLtMatmulDescSetAttribute: transpose");
  }
  operation->is_transposed[which == BlasOperationAttribute::transpose_a ? 0 : 1] = transpose == 1;
  return BlasResult::success;
}

BlasResult Impl::layout_create(BlasLayout* made, BlasType type, std::uint64_t rows,
                               std::uint64_t columns, std::int64_t leading) {
  if (rows == 0 || columns == 0 || leading < static_cast<std::int64_t>(rows)) {
    return violate(BlasResult::invalid_value, "cublasLtMatrixLayoutCreate: sizes");
  }
  *made = make(layouts);
  (*made)->matrix = {.type = type,
                     .rows = static_cast<std::int64_t>(rows),
                     .columns = static_cast<std::int64_t>(columns),
                     .leading = leading};
  return BlasResult::success;
}

BlasResult Impl::layout_destroy(BlasLayout layout) {
  return destroy_one(layout, "cublasLtMatrixLayoutDestroy");
}

BlasResult Impl::layout_set(BlasLayout layout, BlasLayoutAttribute which, const void* value,
                            std::size_t bytes) {
  const bool is_count = which == BlasLayoutAttribute::batch_count;
  if (!is_live(layout) || bytes != (is_count ? sizeof(std::int32_t) : sizeof(std::int64_t))) {
    return violate(BlasResult::invalid_value, "cublasLtMatrixLayoutSetAttribute");
  }
  std::int64_t number = 0;
  std::memcpy(&number, value, bytes);
  (is_count ? layout->matrix.batch : layout->matrix.batch_stride) = number;
  return BlasResult::success;
}

BlasResult Impl::preference_create(BlasPreference* made) {
  *made = make(preferences);
  return BlasResult::success;
}

BlasResult Impl::preference_destroy(BlasPreference preference) {
  return destroy_one(preference, "cublasLtMatmulPreferenceDestroy");
}

BlasResult Impl::preference_set(BlasPreference preference, BlasPreferenceAttribute which,
                                const void* value, std::size_t bytes) {
  const bool is_long = which == BlasPreferenceAttribute::most_workspace_bytes ||
                       which == BlasPreferenceAttribute::implementations;
  if (!is_live(preference) || bytes != (is_long ? 8 : 4)) {
    return violate(BlasResult::invalid_value, "cublasLtMatmulPreferenceSetAttribute");
  }
  std::uint64_t number = 0;
  std::memcpy(&number, value, bytes);
  preference->values[which] = number;
  return BlasResult::success;
}

// Products.

std::optional<RecordedProduct> Impl::product(BlasOperation operation, BlasLayout a, BlasLayout b,
                                             BlasLayout d, const char* call) {
  const auto refuse = [&](const std::string& what) {
    driver.violations.push_back(std::string(call) + ": " + what);
    return std::nullopt;
  };
  if (!is_live(operation) || !is_live(a) || !is_live(b) || !is_live(d)) {
    return refuse("a descriptor that is not there");
  }
  RecordedProduct made{a->matrix, b->matrix, d->matrix, operation->is_transposed[0],
                       operation->is_transposed[1]};
  if (made.rows_of_a() != d->matrix.rows || made.columns_of_b() != d->matrix.columns ||
      made.depth() != (made.is_b_transposed ? b->matrix.columns : b->matrix.rows)) {
    return refuse("matrices of other sizes");
  }
  if (a->matrix.batch != d->matrix.batch || b->matrix.batch != d->matrix.batch) {
    return refuse("a batch of one matrix alone");
  }
  if (a->matrix.type != b->matrix.type) return refuse("operands of different types");
  const BlasType type = a->matrix.type;
  const bool is_f32 = operation->compute == BlasCompute::f32 && operation->scale == BlasType::f32;
  const bool is_tf32 =
      operation->compute == BlasCompute::f32_by_tf32 && operation->scale == BlasType::f32;
  const bool fits = type == BlasType::f64 ? operation->compute == BlasCompute::f64 &&
                                                operation->scale == BlasType::f64
                    : type == BlasType::s8 ? operation->compute == BlasCompute::s32 &&
                                                 operation->scale == BlasType::s32
                    : type == BlasType::f32 ? is_f32 || is_tf32
                                            : is_f32;
  if (!fits) return refuse("what it is to be computed in");
  return made;
}

BlasResult Impl::choose(BlasHandle handle, BlasOperation operation, BlasLayout a, BlasLayout b,
                        BlasLayout c, BlasLayout d, BlasPreference preference, int most,
                        BlasChoice* choices, int* count) {
  constexpr const char* kCall = "cublasLtMatmulAlgoGetHeuristic";
  if (context_of(handle, kCall) == nullptr) return BlasResult::not_initialized;
  const auto asked = product(operation, a, b, d, kCall);
  if (!asked || c != d || !is_live(preference) || most < 1) {
    return violate(BlasResult::invalid_value, kCall);
  }
  using enum BlasPreferenceAttribute;
  auto& values = preference->values;
  const std::uint64_t numbers = values.contains(implementations) ? values[implementations] : 0;
  std::uint64_t refused = kBlasImplementationAccumulatesF16;
  if (asked->a.type == BlasType::f32 && operation->compute == BlasCompute::f32) {
    refused |=
        kBlasImplementationReadsF16 | kBlasImplementationReadsBf16 | kBlasImplementationReadsTf32;
  }
  if (values[reduction_schemes] != kBlasReductionInComputeType || numbers == 0 ||
      (numbers & refused) != 0) {
    return violate(BlasResult::invalid_value, std::string(kCall) + ": leaves bits to the library");
  }
  *count = 0;
  // As it is for integers: whole words.
  const std::int64_t depth = asked->depth();
  if (knows_nothing || (asked->a.type == BlasType::s8 && depth % 4 != 0)) {
    return BlasResult::not_supported;
  }
  const std::int64_t parts_bytes = asked->parts_bytes(2);
  const bool in_parts =
      depth >= 8 && parts_bytes <= static_cast<std::int64_t>(values[most_workspace_bytes]);
  BlasChoice& choice = choices[(*count)++];
  choice = {};
  auto& words = choice.algorithm.data;
  const auto word = [](auto value) { return static_cast<std::uint64_t>(value); };
  words[kMark] = kMagic;
  words[kN] = word(asked->d.rows);
  words[kM] = word(asked->d.columns);
  words[kK] = word(depth);
  words[kBatch] = word(asked->d.batch);
  words[kParts] = in_parts ? 2 : 1;
  words[kAlignments] = values[alignment_a] | values[alignment_b] << 16 | values[alignment_d] << 32;
  words[kTypes] = word(asked->a.type) | word(asked->d.type) << 8;
  choice.workspace_bytes = in_parts ? static_cast<std::size_t>(parts_bytes) : 0;
  choice.state = BlasResult::success;
  return BlasResult::success;
}

BlasResult Impl::multiply(BlasHandle handle, BlasOperation operation, const void* alpha,
                          const void* a, BlasLayout a_layout, const void* b, BlasLayout b_layout,
                          const void* beta, const void* c, BlasLayout c_layout, void* d,
                          BlasLayout d_layout, const BlasAlgorithm* algorithm, void* workspace,
                          std::size_t workspace_bytes, StreamHandle stream) {
  constexpr const char* kCall = "cublasLtMatmul";
  const ContextObject* const context = context_of(handle, kCall);
  if (context == nullptr) return BlasResult::not_initialized;
  driver.device = context->device;
  if (!driver.is_live(driver.streams, stream)) {
    return violate(BlasResult::invalid_value, "cublasLtMatmul: no such stream");
  }
  const auto asked = product(operation, a_layout, b_layout, d_layout, kCall);
  if (!asked || c != d || c_layout != d_layout || algorithm == nullptr) {
    return violate(BlasResult::invalid_value, "cublasLtMatmul: operands");
  }
  const auto word = [&](Word which) { return static_cast<std::int64_t>(algorithm->data[which]); };
  if (algorithm->data[kMark] != kMagic || word(kN) != asked->d.rows ||
      word(kM) != asked->d.columns || word(kK) != asked->depth() ||
      word(kBatch) != asked->d.batch || (word(kTypes) & 255) != static_cast<int>(asked->a.type) ||
      word(kTypes) >> 8 != static_cast<int>(asked->d.type)) {
    return violate(BlasResult::invalid_value, "cublasLtMatmul: another product's algorithm");
  }
  const int parts = static_cast<int>(word(kParts));
  const std::int64_t needed = parts > 1 ? asked->parts_bytes(parts) : 0;
  if (static_cast<std::int64_t>(workspace_bytes) < needed || (needed > 0 && workspace == nullptr) ||
      reinterpret_cast<Address>(workspace) % 256 != 0) {
    return violate(BlasResult::invalid_value, "cublasLtMatmul: its workspace");
  }
  const std::pair<const void*, std::uint64_t> aligned[] = {
      {a, algorithm->data[kAlignments] & 0xffff},
      {b, algorithm->data[kAlignments] >> 16 & 0xffff},
      {d, algorithm->data[kAlignments] >> 32 & 0xffff}};
  for (const auto& [pointer, alignment] : aligned) {
    if (alignment == 0 || alignment > 16 || reinterpret_cast<Address>(pointer) % alignment != 0) {
      return violate(BlasResult::invalid_value, "cublasLtMatmul: alignment");
    }
  }
  if (!is_number(alpha, operation->scale, 1) || !is_number(beta, operation->scale, 0)) {
    return violate(BlasResult::invalid_value, "cublasLtMatmul: factors");
  }
  const auto code = std::to_array(algorithm->data);
  if (!loaded.contains(code)) {
    if (!driver.memory().take(code_bytes)) return BlasResult::alloc_failed;
    loaded.insert(code);
  }
  const auto bytes = [](const RecordedMatrix& matrix) {
    return matrix.elements() * static_cast<std::int64_t>(bytes_of(matrix.type));
  };
  Piece piece{.what = "multiply"};
  piece.touches = {
      {a, bytes(asked->a), true}, {b, bytes(asked->b), true}, {d, bytes(asked->d), true}};
  if (needed > 0) piece.touches.push_back({workspace, needed, true});
  piece.run = [this, product = *asked, a, b, d, workspace, parts, needed] {
    compute_product(product, parts, driver.translated(a), driver.translated(b),
                    driver.translated(d), needed > 0 ? driver.translated(workspace) : nullptr);
  };
  return driver.enqueue(*stream, std::move(piece)) == success ? BlasResult::success
                                                              : BlasResult::execution_failed;
}

// The table.

namespace {

std::array<std::atomic<Impl*>, RecordingDriver::kMostDrivers> recording_libraries{};

template <int kSlot, auto kMethod>
struct ForwardBlas;
template <int kSlot, typename R, typename... Parameters, R (Impl::*kMethod)(Parameters...)>
struct ForwardBlas<kSlot, kMethod> {
  static inline const char* symbol = nullptr;
  static R call(Parameters... parameters) {
    Impl* const library = recording_libraries[kSlot].load();
    const std::lock_guard lock(library->driver.mutex);
    if constexpr (std::is_same_v<R, BlasResult>) {
      const std::string_view name = symbol;
      const bool may_fail =
          name.find("Destroy") == std::string_view::npos && name != "cublasLtGetProperty";
      const bool makes = name.find("Create") != std::string_view::npos;
      switch (library->driver.count(name, may_fail, makes)) {
        case success:
          break;
        case out_of_memory:
          return BlasResult::alloc_failed;
        default:
          return BlasResult::execution_failed;
      }
    }
    return (library->*kMethod)(parameters...);
  }
};

template <int kSlot>
Cublaslt make_blas_table() {
  Cublaslt table;
#define PLIMSOLL_CUBLASLT_CALL(result, member, symbol_, parameters) \
  ForwardBlas<kSlot, &Impl::member>::symbol = #symbol_;             \
  table.member = ForwardBlas<kSlot, &Impl::member>::call;
#include "runtime/device/cuda/libraries/cublaslt.def"
#undef PLIMSOLL_CUBLASLT_CALL
  return table;
}

template <int... kSlots>
const std::array<Cublaslt, sizeof...(kSlots)>& make_blas_tables(
    std::integer_sequence<int, kSlots...> /*slots*/) {
  static const std::array<Cublaslt, sizeof...(kSlots)> tables{make_blas_table<kSlots>()...};
  return tables;
}

}  // namespace

RecordingCublaslt::RecordingCublaslt(RecordingDriver& driver, std::int64_t handle_bytes,
                                     std::int64_t code_bytes)
    : impl_(std::make_unique<Impl>(driver, handle_bytes, code_bytes)) {
  (void)table();
  recording_libraries[static_cast<std::size_t>(impl_->driver.slot)] = impl_.get();
}

RecordingCublaslt::~RecordingCublaslt() {
  recording_libraries[static_cast<std::size_t>(impl_->driver.slot)] = nullptr;
}

const Cublaslt& RecordingCublaslt::table() const {
  return make_blas_tables(
      std::make_integer_sequence<int, RecordingDriver::kMostDrivers>())[static_cast<std::size_t>(
      impl_->driver.slot)];
}

void RecordingCublaslt::know_nothing() {
  const std::lock_guard lock(impl_->driver.mutex);
  impl_->knows_nothing = true;
}

std::string RecordingCublaslt::leaks() const {
  const std::lock_guard lock(impl_->driver.mutex);
  std::string found;
  const auto count = [&](const auto& objects, const char* what) {
    const auto live = std::count_if(objects.begin(), objects.end(),
                                    [](const auto& object) { return object->is_live; });
    if (live > 0) found += (found.empty() ? "" : ", ") + std::to_string(live) + " " + what;
  };
  count(impl_->libraries, "handles");
  count(impl_->operations, "operations");
  count(impl_->layouts, "layouts");
  count(impl_->preferences, "preferences");
  return found;
}

}  // namespace plimsoll::device::cuda
