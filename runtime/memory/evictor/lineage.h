// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace plimsoll::memory {

using OperationId = std::int32_t;
using TensorId = std::int32_t;
using StorageId = std::int32_t;

// How buffers were made, and which of them are there: operations that read tensors and make
// others. A tensor has bytes of its own (its storage), or is a view of an argument's; evicting a
// storage undefines all tensors in it, and each is defined again by running its operation again.
// Sources can't be recomputed. Operations that nothing can need any more are erased on request,
// and their numbers used again. Bookkeeping only: no bytes are touched. Not thread-safe.
class Lineage {
 public:
  struct Output {
    std::int64_t bytes = 0;     // of a fresh storage
    std::int32_t view_of = -1;  // or the argument whose storage it shares
  };
  struct Operation {
    double seconds = 0;
    std::int64_t order = 0;  // grows from each recorded operation to the next
    std::vector<TensorId> arguments;
    std::vector<std::int32_t> places;  // of `arguments`: where this one stands in their readers
    TensorId first_output = 0;
    std::int32_t output_count = 0;
    std::int64_t bytes = 0;            // of all fresh outputs
    std::int64_t workspace_bytes = 0;  // beside arguments and outputs, while it runs
  };
  // An operation that reads a tensor, as its argument number `argument`.
  struct Reader {
    OperationId operation = 0;
    std::int32_t argument = 0;
  };
  struct Tensor {
    OperationId producer = -1;
    StorageId storage = -1;
    std::int64_t bytes = 0;  // 0 for a view
    bool defined = false;
    bool is_source = false;  // nothing can recompute it
    std::vector<Reader> readers;
  };
  struct Storage {
    std::int64_t bytes = 0;
    double seconds = 0;  // of all operations that define its tensors
    std::vector<TensorId> tensors;
    std::int32_t handles = 0;  // of users; a storage without any is wanted only to make others
    std::int32_t pins = 0;     // while it must stay
    bool resident = false;
    bool stored = false;          // a copy waits elsewhere, so that nothing needs to run
    std::int64_t kept_bytes = 0;  // of device memory that the copy takes
    double last_use = 0;          // on `clock`
  };

  // Records an operation that has not run yet. Its outputs are tensors numbered from
  // `operation(id).first_output`, undefined, each with one handle.
  OperationId add(double seconds, std::span<const TensorId> arguments,
                  std::span<const Output> outputs, std::int64_t workspace_bytes = 0);
  // A tensor with a storage of its own that is there and that nothing can recompute, with one
  // handle.
  TensorId add_source(std::int64_t bytes);
  // What made the tensor is no longer known. Precondition: it is defined, or its storage is stored.
  void make_source(TensorId id) { tensors_[index(id)].is_source = true; }
  // Releases what `id`'s producer reads if none of its outputs can be recomputed: all are sources,
  // or without a handle, a reader or bytes. Those arguments are appended to `released`. If all are
  // without, the operation is erased, its numbers are for others, and the answer is true. Only
  // for lineages without views.
  bool erase_unneeded(TensorId id, std::vector<TensorId>& released);
  void set_workspace(OperationId id, std::int64_t bytes) {
    operations_[index(id)].workspace_bytes = bytes;
  }

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
  // A pinned storage stays resident. Pins count.
  void pin(StorageId id) { ++storages_[index(id)].pins; }
  void unpin(StorageId id) { --storages_[index(id)].pins; }

  // The operation has run: its outputs are defined, their storages resident, the clock advanced by
  // its time. Storages that were resident keep their bytes; those made twice are freed at once, but
  // count towards the peak.
  void ran(OperationId id);
  // The storage's bytes are freed.
  void drop(StorageId id);
  // The operation's arguments are used now.
  void touch(OperationId id);
  void touch_storage(StorageId id) { storages_[index(id)].last_use = clock_; }
  // A copy of the storage's bytes is kept, in `kept_bytes` of device memory or elsewhere.
  void set_stored(StorageId id, std::int64_t kept_bytes = 0);
  // No longer.
  void set_unstored(StorageId id);
  // The storage's bytes came back from where they were kept.
  void load(StorageId id);

  // Calls `visit(storage)` for the storages that `id` is made of, respectively that are made of it;
  // some several times.
  template <typename Visit>
  void visit_arguments(StorageId id, Visit visit) const {
    if (storage(id).stored) return;
    for (const TensorId tensor_id : storage(id).tensors) {
      if (tensor(tensor_id).is_source) continue;
      for (const TensorId argument : operation(tensor(tensor_id).producer).arguments) {
        visit(tensor(argument).storage);
      }
    }
  }
  template <typename Visit>
  void visit_results(StorageId id, Visit visit) const {
    for (const TensorId tensor_id : storage(id).tensors) {
      for (const Reader& reader : tensor(tensor_id).readers) {
        const Operation& operation = operations_[index(reader.operation)];
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
  OperationId fresh_operation(std::size_t outputs);
  void release_arguments(OperationId id, std::vector<TensorId>& released);

  std::vector<Operation> operations_;
  std::vector<Tensor> tensors_;
  std::vector<Storage> storages_;
  std::unordered_map<std::int32_t, std::vector<OperationId>> erased_;  // by number of outputs
  std::int64_t order_ = 0;
  std::int64_t used_bytes_ = 0, peak_bytes_ = 0;
  double clock_ = 0;
};

}  // namespace plimsoll::memory
