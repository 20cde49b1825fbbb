// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/device/cuda/recorded_sums.h"
#include "tests/device/cuda/recording_driver_impl.h"
#include "tests/device/cuda/recording_nccl.h"

namespace plimsoll::device::cuda {

enum class NcclWork { all_reduce, reduce_scatter, all_gather, send, receive };

struct NcclCall {
  NcclWork work = NcclWork::all_reduce;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;  // as the caller has it
  NcclType type = NcclType::u8;
  NcclOperation operation = NcclOperation::sum;
  int peer = -1;
  std::size_t number = 0;  // among those that it is matched with

  bool is_message() const { return work == NcclWork::send || work == NcclWork::receive; }
  std::int64_t bytes() const { return static_cast<std::int64_t>(count * recorded_bytes(type)); }
};

// One meeting of all members, or one message.
struct NcclMeeting {
  std::optional<NcclCall> call;
  std::vector<std::optional<std::vector<std::byte>>> sent;  // by rank
  int finished = 0;
};
struct NcclMessage {
  std::optional<std::vector<std::byte>> sent;
  std::optional<std::int64_t> expected;
  int finished = 0;
};

struct NcclClique {
  int ranks = 0, joined = 0;
  std::map<std::size_t, NcclMeeting> meetings;
  std::map<std::pair<int, int>, std::map<std::size_t, NcclMessage>> messages;  // from, to
};

struct NcclObject {
  RecordingDriver::Impl* driver = nullptr;
  const ContextObject* context = nullptr;
  std::shared_ptr<NcclClique> clique;
  int rank = 0;
  bool is_live = true, is_aborted = false;
  bool is_made = false;
  int busy = 0;  // questions until what goes on in the background is done
  std::int64_t bytes = 0, pending = 0;
  std::size_t meetings = 0;
  std::map<std::pair<int, int>, std::size_t> messages;
  std::vector<NcclCall> calls;  // of the group
  StreamHandle stream = nullptr;
};

// The state of a recording NCCL, and the table's functions as methods of it; what they begin is
// done in recorded_collectives.cc.
struct RecordingNccl::Impl {
  explicit Impl(std::int64_t of_communicator) : communicator_bytes(of_communicator) {}

  NcclResult violate(RecordingDriver::Impl& driver, const std::string& what) {
    driver.violations.push_back(what);
    return NcclResult::invalid_usage;
  }
  // The driver whose context is current; null: none is.
  RecordingDriver::Impl* current_driver() const {
    if (current_contexts.empty()) return nullptr;
    for (RecordingDriver::Impl* driver : drivers) {
      for (const auto& context : driver->contexts) {
        if (context.get() == current_contexts.back()) return driver;
      }
    }
    return nullptr;
  }
  // Counts the call; the driver is locked by then. Success: it goes on.
  NcclResult begin(RecordingDriver::Impl& driver, const char* symbol) {
    if (is_in_host_function) violate(driver, std::string(symbol) + ": by a function on the host");
    return driver.count(symbol, true, false) == success ? NcclResult::success
                                                        : NcclResult::unhandled_cuda_error;
  }
  NcclResult enqueue(NcclHandle handle, const NcclCall& call, StreamHandle stream,
                     const char* symbol);
  void launch(NcclObject& communicator);
  bool has_begun(NcclObject& communicator, std::vector<NcclCall>& calls, bool& is_first);
  bool is_complete(const NcclObject& communicator, const NcclCall& call);
  void finish(NcclObject& communicator, const NcclCall& call);

#define PLIMSOLL_NCCL_CALL(result, member, symbol, parameters) result member parameters;
#include "runtime/device/cuda/libraries/nccl.def"
#undef PLIMSOLL_NCCL_CALL

  const std::int64_t communicator_bytes;
  std::recursive_mutex mutex;  // taken after a driver's
  std::vector<RecordingDriver::Impl*> drivers;
  std::vector<std::unique_ptr<NcclObject>> communicators;
  std::map<std::string, std::shared_ptr<NcclClique>> cliques;  // by id
  std::map<const RecordingDriver::Impl*, int> fails_in;
  std::atomic<bool> hangs{false};
  std::atomic<int> ids{0};
};

using NcclImpl = RecordingNccl::Impl;

}  // namespace plimsoll::device::cuda
