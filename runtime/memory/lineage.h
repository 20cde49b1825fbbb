// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll::memory {

using OperationId = std::int32_t;
using TensorId = std::int32_t;
using StorageId = std::int32_t;

// How buffers were made, and which of them are there: operations that read tensors and make
// others. A tensor has bytes of its own (its storage), or is a view of an argument's; giving up a
// storage undefines all tensors in it, and each is defined again by running its operation again.
// Bookkeeping only: no bytes are touched. Not thread-safe.
class Lineage {
 public:
  struct Output {
    std::int64_t bytes = 0;     // of a fresh storage
    std::int32_t view_of = -1;  // or the argument whose storage it shares
  };
  struct Operation {
    double seconds = 0;
    std::vector<TensorId> arguments;
    TensorId first_output = 0;
    std::int32_t output_count = 0;
    std::int64_t bytes = 0;  // of all fresh outputs
  };
  struct Tensor {
    OperationId producer = -1;
    StorageId storage = -1;
    std::int64_t bytes = 0;  // 0 for a view
    bool defined = false;
    std::vector<OperationId> readers;
  };
  struct Storage {
    std::int64_t bytes = 0;
    double seconds = 0;  // of all operations that define its tensors
    std::vector<TensorId> tensors;
    std::int32_t handles = 0;  // of users; a storage without any is wanted only to make others
    std::int32_t locks = 0;    // while it must stay
    bool resident = false;
    double last_use = 0;  // on `clock`
  };

  // Records an operation that has not run yet. Its outputs are tensors numbered from
  // `operation(id).first_output`, undefined, each with one handle.
  OperationId add(double seconds, std::span<const TensorId> arguments,
                  std::span<const Output> outputs);

  const Operation& operation(OperationId id) const { return operations_[index(id)]; }
  const Tensor& tensor(TensorId id) const { return tensors_[index(id)]; }
  const Storage& storage(StorageId id) const { return storages_[index(id)]; }
  std::int32_t operation_count() const { return static_cast<std::int32_t>(operations_.size()); }
  std::int32_t tensor_count() const { return static_cast<std::int32_t>(tensors_.size()); }
  std::int32_t storage_count() const { return static_cast<std::int32_t>(storages_.size()); }
  const Storage& storage_of(TensorId id) const { return storage(tensor(id).storage); }

  // One handle more or less on the tensor's storage.
  void retain(TensorId id) { ++storages_[index(tensor(id).storage)].handles; }
  void release(TensorId id) { --storages_[index(tensor(id).storage)].handles; }
  // A locked storage stays resident. Locks count.
  void lock(StorageId id) { ++storages_[index(id)].locks; }
  void unlock(StorageId id) { --storages_[index(id)].locks; }

  // The operation has run: its outputs are defined, their storages resident, the clock advanced by
  // its time. Storages that were resident keep their bytes; those made twice are freed at once, but
  // count towards the peak.
  void ran(OperationId id);
  // The storage's bytes are given up.
  void drop(StorageId id);
  // The operation's arguments are used now.
  void touch(OperationId id);
  void touch_storage(StorageId id) { storages_[index(id)].last_use = clock_; }

  // Calls `visit(storage)` for the storages that `id` is made of, respectively that are made of it;
  // some several times.
  template <typename Visit>
  void visit_arguments(StorageId id, Visit visit) const {
    for (const TensorId tensor_id : storage(id).tensors) {
      for (const TensorId argument : operation(tensor(tensor_id).producer).arguments) {
        visit(tensor(argument).storage);
      }
    }
  }
  template <typename Visit>
  void visit_results(StorageId id, Visit visit) const {
    for (const TensorId tensor_id : storage(id).tensors) {
      for (const OperationId reader : tensor(tensor_id).readers) {
        const Operation& operation = operations_[index(reader)];
        for (std::int32_t i = 0; i < operation.output_count; ++i) {
          visit(tensor(operation.first_output + i).storage);
        }
      }
    }
  }

  std::int64_t used_bytes() const { return used_bytes_; }
  std::int64_t peak_bytes() const { return peak_bytes_; }
  double clock() const { return clock_; }  // seconds of all operations so far

 private:
  static std::size_t index(std::int32_t id) { return static_cast<std::size_t>(id); }

  std::vector<Operation> operations_;
  std::vector<Tensor> tensors_;
  std::vector<Storage> storages_;
  std::int64_t used_bytes_ = 0, peak_bytes_ = 0;
  double clock_ = 0;
};

}  // namespace plimsoll::memory
