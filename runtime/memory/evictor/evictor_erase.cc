// SPDX-License-Identifier: Apache-2.0
// What an Evictor does about storages that nobody holds any more, or that are lost.
#include <unordered_set>
#include <vector>

#include "runtime/memory/evictor/evictor.h"

namespace plimsoll::memory {

// Whether anything that is gone would need `id` to come back. From `id` forwards over all that was
// made of it: what is there (or has a copy) stops the walk, and would have to become a source if
// `id` is lost; what is gone and held by somebody is the proof that `id` is needed; what is gone
// and held by nobody is looked through.
bool Evictor::is_dispensable(TensorId id, std::vector<TensorId>& made) const {
  std::vector<TensorId> open{id};
  std::unordered_set<OperationId> seen;
  while (!open.empty()) {
    const Lineage::Tensor& read = lineage_.tensor(open.back());
    open.pop_back();
    for (const Lineage::Reader& reader : read.readers) {
      if (!seen.insert(reader.operation).second) continue;
      const Lineage::Operation& operation = lineage_.operation(reader.operation);
      for (std::int32_t i = 0; i < operation.output_count; ++i) {
        const TensorId output = operation.first_output + i;
        const Lineage::Storage& storage = lineage_.storage_of(output);
        if (storage.resident || storage.stored) {
          made.push_back(output);
        } else if (storage.handles > 0 && !lineage_.tensor(output).is_source) {
          return false;
        } else {
          open.push_back(output);
        }
      }
    }
  }
  return true;
}

void Evictor::make_sources(const std::vector<TensorId>& made) {
  for (const TensorId id : made) {
    lineage_.make_source(id);
    const StorageId storage = lineage_.tensor(id).storage;
    if (lineage_.storage(storage).resident) {
      leave_queue(storage);
      enter(storage);
    }
  }
  for (const TensorId id : made) erase_unneeded(id);
}

// The storage's bytes and its copy go: nobody can want them any more.
void Evictor::discard_storage(StorageId id) {
  const Lineage::Storage& storage = lineage_.storage(id);
  if (storage.resident) {
    leave_queue(id);
    drop(id);
    if (sink_ != nullptr) sink_->drop(id);
  }
  if (storage.stored) {
    lineage_.set_unstored(id);
    if (sink_ != nullptr) sink_->discard_copy(id);
  }
}

// Erases backwards from `id`: what has lost its last reader, and is held by nobody, goes as well.
void Evictor::erase_unneeded(TensorId id) {
  unneeded_.assign(1, id);
  while (!unneeded_.empty()) {
    const TensorId tensor = unneeded_.back();
    unneeded_.pop_back();
    const OperationId producer = lineage_.tensor(tensor).producer;
    if (producer < 0) continue;
    const Lineage::Operation& operation = lineage_.operation(producer);
    for (std::int32_t i = 0; i < operation.output_count; ++i) {
      const Lineage::Tensor& output = lineage_.tensor(operation.first_output + i);
      const Lineage::Storage& storage = lineage_.storage(output.storage);
      if (storage.handles == 0 && storage.pins == 0 && output.readers.empty()) {
        discard_storage(output.storage);
      }
    }
    if (lineage_.erase_unneeded(tensor, unneeded_) && sink_ != nullptr) sink_->erase(producer);
  }
}

void Evictor::discard(TensorId id) {
  lineage_.release(id);
  if (lineage_.storage_of(id).handles == 0) discard_unreferenced(id);
}

void Evictor::discard_unreferenced(TensorId id) {
  const StorageId at = lineage_.tensor(id).storage;
  const Lineage::Storage& storage = lineage_.storage(at);
  if (storage.pins > 0) return;  // until it is unpinned
  if (storage.resident || storage.stored) {
    if (lineage_.tensor(id).is_source) {
      std::vector<TensorId> made;
      // Stays until what is gone has come back, or is not wanted any more.
      if (!is_dispensable(id, made)) return;
      make_sources(made);
      // Its last reader may have taken it along.
      if (lineage_.tensor(id).producer < 0) return;
    }
    discard_storage(at);
  }
  erase_unneeded(id);
}

bool Evictor::can_donate(TensorId id) {
  std::vector<TensorId> made;
  return is_dispensable(id, made);
}

void Evictor::donate(TensorId id) {
  std::vector<TensorId> made;
  is_dispensable(id, made);
  lineage_.make_source(id);
  const StorageId at = lineage_.tensor(id).storage;
  lineage_.unpin(at);
  drop(at);
  make_sources(made);
  erase_unneeded(id);
}

void Evictor::reconcile(StorageId id, bool resident, bool stored, std::int64_t kept_bytes) {
  const Lineage::Storage& storage = lineage_.storage(id);
  lineage_.set_unstored(id);
  if (stored) lineage_.set_stored(id, kept_bytes);
  if (storage.resident && !resident) {
    leave_queue(id);
    drop(id);
  } else if (!storage.resident && resident) {
    lineage_.load(id);
    enter(id);
  }
}

}  // namespace plimsoll::memory
