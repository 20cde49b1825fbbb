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

void Evictor::cut_off(const std::vector<TensorId>& made) {
  for (const TensorId id : made) {
    lineage_.make_source(id);
    const StorageId storage = lineage_.tensor(id).storage;
    if (lineage_.storage(storage).resident) {
      leave(storage);
      enter(storage);
    }
  }
  for (const TensorId id : made) forget(id);
}

// The storage's bytes and its copy go: nobody can want them any more.
void Evictor::throw_away(StorageId id) {
  const Lineage::Storage& storage = lineage_.storage(id);
  if (storage.resident) {
    leave(id);
    drop(id);
    if (sink_ != nullptr) sink_->drop(id);
  }
  if (storage.stored) {
    lineage_.set_unstored(id);
    if (sink_ != nullptr) sink_->discard_copy(id);
  }
}

// Forgets backwards from `id`: what has lost its last reader, and is held by nobody, goes as well.
void Evictor::forget(TensorId id) {
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
      if (storage.handles == 0 && storage.locks == 0 && output.readers.empty()) {
        throw_away(output.storage);
      }
    }
    if (lineage_.forget_unneeded(tensor, unneeded_) && sink_ != nullptr) sink_->forget(producer);
  }
}

void Evictor::discard(TensorId id) {
  lineage_.release(id);
  if (lineage_.storage_of(id).handles == 0) give_up_unheld(id);
}

void Evictor::give_up_unheld(TensorId id) {
  const StorageId at = lineage_.tensor(id).storage;
  const Lineage::Storage& storage = lineage_.storage(at);
  if (storage.locks > 0) return;  // until it is let go
  if (storage.resident || storage.stored) {
    if (lineage_.tensor(id).is_source) {
      std::vector<TensorId> made;
      // Stays until what is gone has come back, or is not wanted any more.
      if (!is_dispensable(id, made)) return;
      cut_off(made);
      // Its last reader may have taken it along.
      if (lineage_.tensor(id).producer < 0) return;
    }
    throw_away(at);
  }
  forget(id);
}

bool Evictor::can_consume(TensorId id) {
  std::vector<TensorId> made;
  return is_dispensable(id, made);
}

void Evictor::consume(TensorId id) {
  std::vector<TensorId> made;
  is_dispensable(id, made);
  lineage_.make_source(id);
  const StorageId at = lineage_.tensor(id).storage;
  lineage_.unlock(at);
  drop(at);
  cut_off(made);
  forget(id);
}

void Evictor::put_right(StorageId id, bool resident, bool stored, std::int64_t kept_bytes) {
  const Lineage::Storage& storage = lineage_.storage(id);
  lineage_.set_unstored(id);
  if (stored) lineage_.set_stored(id, kept_bytes);
  if (storage.resident && !resident) {
    leave(id);
    drop(id);
  } else if (!storage.resident && resident) {
    lineage_.load(id);
    enter(id);
  }
}

}  // namespace plimsoll::memory
