// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/evictor/lineage.h"

#include <algorithm>
#include <utility>

namespace plimsoll::memory {

// A new number, or that of an erased operation with as many outputs: tensors and storages are
// numbered like those before.
OperationId Lineage::fresh_operation(std::size_t outputs) {
  const auto found = erased_.find(static_cast<std::int32_t>(outputs));
  if (found != erased_.end() && !found->second.empty()) {
    const OperationId id = found->second.back();
    found->second.pop_back();
    return id;
  }
  operations_.emplace_back().first_output = tensor_count();
  operations_.back().output_count = static_cast<std::int32_t>(outputs);
  tensors_.resize(tensors_.size() + outputs);
  return static_cast<OperationId>(operations_.size()) - 1;
}

OperationId Lineage::add(double seconds, std::span<const TensorId> arguments,
                         std::span<const Output> outputs, std::int64_t workspace_bytes) {
  const OperationId id = fresh_operation(outputs.size());
  Operation& operation = operations_[index(id)];
  operation.seconds = seconds;
  operation.order = ++order_;
  operation.arguments.assign(arguments.begin(), arguments.end());
  operation.places.clear();
  operation.bytes = 0;
  operation.workspace_bytes = workspace_bytes;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto earlier = arguments.first(i);
    const bool repeated = std::find(earlier.begin(), earlier.end(), arguments[i]) != earlier.end();
    std::vector<Reader>& readers = tensors_[index(arguments[i])].readers;
    operation.places.push_back(repeated ? -1 : static_cast<std::int32_t>(readers.size()));
    if (!repeated) readers.push_back({id, static_cast<std::int32_t>(i)});
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const TensorId tensor_id = operation.first_output + static_cast<TensorId>(i);
    Tensor& tensor = tensors_[index(tensor_id)];
    tensor.producer = id;
    tensor.defined = tensor.is_source = false;
    if (outputs[i].view_of >= 0) {
      tensor.storage = tensors_[index(arguments[index(outputs[i].view_of)])].storage;
      tensor.bytes = 0;
    } else {
      // That of an erased tensor is its own, empty.
      if (tensor.storage < 0) {
        tensor.storage = storage_count();
        storages_.emplace_back();
      }
      storages_[index(tensor.storage)] = Storage();
      storages_[index(tensor.storage)].bytes = tensor.bytes = outputs[i].bytes;
      operation.bytes += outputs[i].bytes;
    }
    Storage& storage = storages_[index(tensor.storage)];
    const bool counted =
        std::any_of(storage.tensors.begin(), storage.tensors.end(),
                    [&](TensorId other) { return tensors_[index(other)].producer == id; });
    if (!counted) storage.seconds += seconds;
    storage.tensors.push_back(tensor_id);
    ++storage.handles;
  }
  return id;
}

TensorId Lineage::add_source(std::int64_t bytes) {
  const Output output[] = {{bytes, -1}};
  const OperationId id = add(0, {}, output);
  const TensorId tensor = operations_[index(id)].first_output;
  ran(id);
  make_source(tensor);
  touch_storage(tensors_[index(tensor)].storage);
  return tensor;
}

// Readers are removed in constant time: the last of the list takes the place of the one that goes,
// and is told its new place (`places`).
void Lineage::release_arguments(OperationId id, std::vector<TensorId>& released) {
  Operation& operation = operations_[index(id)];
  for (std::size_t i = 0; i < operation.arguments.size(); ++i) {
    const std::int32_t at = operation.places[i];
    if (at < 0) continue;
    std::vector<Reader>& readers = tensors_[index(operation.arguments[i])].readers;
    const Reader moved = readers.back();
    readers[index(at)] = moved;
    readers.pop_back();
    operations_[index(moved.operation)].places[index(moved.argument)] = at;
    released.push_back(operation.arguments[i]);
  }
  operation.arguments.clear();
  operation.places.clear();
}

bool Lineage::erase_unneeded(TensorId id, std::vector<TensorId>& released) {
  const OperationId producer = tensors_[index(id)].producer;
  if (producer < 0) return false;  // erased by way of another output
  const Operation& operation = operations_[index(producer)];
  bool needed = false;
  for (std::int32_t i = 0; i < operation.output_count; ++i) {
    const Tensor& tensor = tensors_[index(operation.first_output + i)];
    const Storage& storage = storages_[index(tensor.storage)];
    const bool unused =
        storage.handles == 0 && tensor.readers.empty() && !storage.resident && !storage.stored;
    if (!unused && !tensor.is_source) return false;
    needed |= !unused;
  }
  release_arguments(producer, released);
  if (needed) return false;
  for (std::int32_t i = 0; i < operation.output_count; ++i) {
    tensors_[index(operation.first_output + i)].producer = -1;
  }
  erased_[operation.output_count].push_back(producer);
  return true;
}

void Lineage::ran(OperationId id) {
  const Operation& operation = operations_[index(id)];
  clock_ += operation.seconds;
  used_bytes_ += operation.bytes;
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
  for (std::int32_t i = 0; i < operation.output_count; ++i) {
    Tensor& tensor = tensors_[index(operation.first_output + i)];
    if (tensor.defined || storages_[index(tensor.storage)].stored) {
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

void Lineage::load(StorageId id) {
  Storage& storage = storages_[index(id)];
  storage.resident = true;
  used_bytes_ += storage.bytes;
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
  for (const TensorId tensor : storage.tensors) tensors_[index(tensor)].defined = true;
}

void Lineage::set_stored(StorageId id, std::int64_t kept_bytes) {
  set_unstored(id);
  Storage& storage = storages_[index(id)];
  storage.stored = true;
  storage.kept_bytes = kept_bytes;
  used_bytes_ += kept_bytes;
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
}

void Lineage::set_unstored(StorageId id) {
  Storage& storage = storages_[index(id)];
  storage.stored = false;
  used_bytes_ -= std::exchange(storage.kept_bytes, 0);
}

void Lineage::touch(OperationId id) {
  for (const TensorId argument : operations_[index(id)].arguments) {
    storages_[index(tensors_[index(argument)].storage)].last_use = clock_;
  }
}

}  // namespace plimsoll::memory
