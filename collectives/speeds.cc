// SPDX-License-Identifier: Apache-2.0
#include "collectives/speeds.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "runtime/base/index.h"

namespace plimsoll::collectives {
namespace {

using device::Communicator;
using device::Rows;

// The larger one of two.
class LargestDouble final : public device::Reduction {
 public:
  std::int64_t element_bytes() const override { return sizeof(double); }
  void reduce(std::span<const void* const> members, void* out, std::int64_t count) const override {
    auto* const to = static_cast<double*>(out);
    for (std::int64_t i = 0; i < count; ++i) {
      double largest = static_cast<const double*>(members[0])[i];
      for (const void* member : members)
        largest = std::max(largest, static_cast<const double*>(member)[i]);
      to[i] = largest;
    }
  }
};

}  // namespace

std::int64_t large_message(std::int64_t participants, std::int64_t least, std::int64_t most,
                           std::int64_t of_all) {
  const std::int64_t others = std::max<std::int64_t>(participants - 1, 1);
  return std::clamp(of_all / others / 64 * 64, least, most);
}

// The least of several times each: what else the machines do only adds to them.
Result<Communicator::Speeds> measure_speeds(Communicator& over, Communicator& host,
                                            const MessageMemory& memory) {
  constexpr int kSmall = 12, kLarge = 4;
  constexpr std::int64_t kSmallBytes = 8;
  const std::int64_t participants = over.participants(), others = participants - 1;
  std::vector<std::int64_t> group;
  for (std::int64_t i = 0; i < participants; ++i) group.push_back(i);
  const Communicator::Call call{"the measurement of messages", group, at(over.participant())};
  const auto least_seconds = [&](int rounds, std::int64_t bytes) -> Result<double> {
    std::vector<Rows> sends, receives;
    for (std::int64_t m = 0; m < participants; ++m) {
      sends.push_back({memory.out, 1, bytes, bytes});
      receives.push_back({memory.in + m * bytes, 1, bytes, bytes});
    }
    double least = 0;
    for (int i = 0; i < rounds; ++i) {
      const auto start = std::chrono::steady_clock::now();
      PLIMSOLL_RETURN_IF_ERROR(over.exchange(call, sends, receives));
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      least = i == 0 ? took.count() : std::min(least, took.count());
    }
    return least;
  };
  PLIMSOLL_ASSIGN_OR_RETURN(const double small, least_seconds(kSmall, kSmallBytes));
  PLIMSOLL_ASSIGN_OR_RETURN(const double longer, least_seconds(kLarge, memory.large));
  constexpr double kFastest = 1e-12;  // a byte, where both took as long
  const double mine[] = {
      std::max(small / static_cast<double>(others), 1e-9),
      std::max((longer - small) / static_cast<double>(others * memory.large), kFastest)};
  double all[2] = {};
  const LargestDouble largest;
  const Communicator::Reduce array{mine, all, 1, 2, &largest};
  PLIMSOLL_RETURN_IF_ERROR(host.all_reduce(call, std::span(&array, 1)));
  return Communicator::Speeds{all[0], 1 / all[1]};
}

}  // namespace plimsoll::collectives
