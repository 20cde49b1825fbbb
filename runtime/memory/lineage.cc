// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/lineage.h"

#include <algorithm>

namespace plimsoll::memory {

OperationId Lineage::add(double seconds, std::span<const TensorId> arguments,
                         std::span<const Output> outputs) {
  const auto id = static_cast<OperationId>(operations_.size());
  Operation operation;
  operation.seconds = seconds;
  operation.arguments.assign(arguments.begin(), arguments.end());
  operation.first_output = tensor_count();
  operation.output_count = static_cast<std::int32_t>(outputs.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto earlier = arguments.first(i);
    if (std::find(earlier.begin(), earlier.end(), arguments[i]) == earlier.end()) {
      tensors_[index(arguments[i])].readers.push_back(id);
    }
  }
  for (const Output& output : outputs) {
    Tensor tensor;
    tensor.producer = id;
    if (output.view_of >= 0) {
      tensor.storage = tensors_[index(arguments[index(output.view_of)])].storage;
    } else {
      tensor.storage = storage_count();
      tensor.bytes = output.bytes;
      storages_.emplace_back().bytes = output.bytes;
      operation.bytes += output.bytes;
    }
    Storage& storage = storages_[index(tensor.storage)];
    const bool counted =
        std::any_of(storage.tensors.begin(), storage.tensors.end(),
                    [&](TensorId other) { return tensors_[index(other)].producer == id; });
    if (!counted) storage.seconds += seconds;
    storage.tensors.push_back(tensor_count());
    ++storage.handles;
    tensors_.push_back(std::move(tensor));
  }
  operations_.push_back(std::move(operation));
  return id;
}

void Lineage::ran(OperationId id) {
  const Operation& operation = operations_[index(id)];
  clock_ += operation.seconds;
  used_bytes_ += operation.bytes;
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
  for (std::int32_t i = 0; i < operation.output_count; ++i) {
    Tensor& tensor = tensors_[index(operation.first_output + i)];
    if (tensor.defined) {
      used_bytes_ -= tensor.bytes;
    } else {
      tensor.defined = true;
      storages_[index(tensor.storage)].resident = true;
    }
  }
}

void Lineage::drop(StorageId id) {
  Storage& storage = storages_[index(id)];
  storage.resident = false;
  used_bytes_ -= storage.bytes;
  for (const TensorId tensor : storage.tensors) tensors_[index(tensor)].defined = false;
}

void Lineage::touch(OperationId id) {
  for (const TensorId argument : operations_[index(id)].arguments) {
    storages_[index(tensors_[index(argument)].storage)].last_use = clock_;
  }
}

}  // namespace plimsoll::memory
