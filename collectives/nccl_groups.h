// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/communicator.h"
#include "runtime/device/cuda/context.h"
#include "runtime/device/cuda/libraries/nccl.h"

namespace plimsoll::collectives {

// What NCCL takes memory for when it is called for the first time.
enum class NcclKind : std::uint8_t { reduces, scatters, gathers, trades };

// NCCL's communicators of one participant, one for each group that has met: made by an id that the
// group's first member gives the others, never by splitting one of all, to which all would have to
// come. They never block: what goes on in the background is waited for by `Await`.
//
// What NCCL takes of the GPU's memory for a communicator, and with the first call of each kind,
// counts as the device's overhead until it is gone. For one thread at a time.
class NcclGroups {
 public:
  using Call = device::Communicator::Call;
  // Until the condition is true, asked again and again; its error, or why waiting has ended.
  using Condition = std::function<Result<bool>()>;
  using Await = std::function<Status(const Condition& condition)>;

  NcclGroups(const device::cuda::Nccl& library,
             std::shared_ptr<const device::cuda::Context> context)
      : library_(library), context_(std::move(context)) {}
  // Aborts what is left.
  ~NcclGroups() { abort(); }
  NcclGroups(const NcclGroups&) = delete;
  NcclGroups& operator=(const NcclGroups&) = delete;

  // The call's group's, in which this participant's number is its position; made by all members
  // together at the first call, who tell each other the id by `host`.
  Result<device::cuda::NcclHandle> of(const Call& call, device::Communicator& host,
                                      const Await& await);
  // What `work` calls, as one group of calls, until NCCL has given it to the stream.
  Status run(device::cuda::NcclHandle handle, NcclKind kind, const std::function<Status()>& work,
             const Await& await);
  // Whether nothing goes on in the background; the error of what has failed there, or on the GPU.
  Result<bool> is_settled(device::cuda::NcclHandle handle) const;

  // Ends what is under way at once, here alone, and lets all go.
  void abort();
  // Lets all go, once nobody needs anything of it any more, for which `await` waits; else as abort.
  void finish(const Await& await);

  const device::cuda::Nccl& library() const { return library_; }

 private:
  Status measured(const std::function<Status()>& work);
  void forget();

  const device::cuda::Nccl& library_;
  const std::shared_ptr<const device::cuda::Context> context_;
  std::map<std::vector<std::int64_t>, device::cuda::NcclHandle> handles_;
  std::set<std::pair<device::cuda::NcclHandle, NcclKind>> seen_;
  std::int64_t counted_bytes_ = 0;
};

}  // namespace plimsoll::collectives
