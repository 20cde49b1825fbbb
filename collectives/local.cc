// SPDX-License-Identifier: Apache-2.0
#include "collectives/local.h"

#include <fmt/core.h>
#include <algorithm>
#include <cstring>

#include "runtime/base/index.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::collectives {
namespace {

using device::Communicator;
using device::Rows;

// Reduced at a time, so that what has been added up so far stays near the processor: in bytes of
// running values.
constexpr std::int64_t kBlockBytes = 8 << 10;
// Of blocks, and of rows of bytes, for a thread of its own.
constexpr std::int64_t kGrainBytes = 256 << 10;

// What a member shows of a reduction and of an exchange.
using Arrays = std::span<const Communicator::Reduce>;
struct Pieces {
  std::span<const Rows> sends;
};

void copy_rows(const Rows& from, const Rows& to) {
  if (from.data == to.data && from.stride == to.stride) return;
  if (from.stride == from.bytes && to.stride == to.bytes) {
    device::parallel_for(
        from.count * from.bytes, kGrainBytes, [&](std::int64_t begin, std::int64_t end) {
          std::memcpy(to.data + begin, from.data + begin, static_cast<std::size_t>(end - begin));
        });
    return;
  }
  const std::int64_t grain =
      std::max<std::int64_t>(1, kGrainBytes / std::max<std::int64_t>(1, from.bytes));
  device::parallel_for(from.count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::memcpy(to.data + row * to.stride, from.data + row * from.stride,
                  static_cast<std::size_t>(from.bytes));
    }
  });
}

// Reduces `count` elements, the first of which is number `first` in every member's array, block by
// block, and copies each block's result to all of `out`, where they begin at element `to`.
void reduce_run(std::span<const void* const> in, std::int64_t first, std::int64_t count,
                const device::Reduction& reduction, std::span<void* const> out, std::int64_t to) {
  const std::int64_t bytes = reduction.element_bytes();
  const std::int64_t block = kBlockBytes / reduction.running_bytes();
  device::parallel_for((count + block - 1) / block, kGrainBytes / kBlockBytes,
                       [&](std::int64_t begin, std::int64_t end) {
                         alignas(64) std::byte running[kBlockBytes];
                         for (std::int64_t done = begin * block;
                              done < std::min(end * block, count); done += block) {
                           const std::int64_t size = std::min(block, count - done);
                           const auto member = [&](std::size_t m) {
                             return static_cast<const std::byte*>(in[m]) + (first + done) * bytes;
                           };
                           reduction.begin(running, member(0), size);
                           for (std::size_t m = 1; m < in.size(); ++m)
                             reduction.add(running, member(m), size);
                           std::byte* const result =
                               static_cast<std::byte*>(out[0]) + (to + done) * bytes;
                           reduction.end(result, running, size);
                           for (std::size_t i = 1; i < out.size(); ++i) {
                             std::memcpy(static_cast<std::byte*>(out[i]) + (to + done) * bytes,
                                         result, static_cast<std::size_t>(size * bytes));
                           }
                         }
                       });
}

}  // namespace

class LocalGroup::Member final : public Communicator {
 public:
  Member(LocalGroup& local, std::int64_t participant) : local_(local), participant_(participant) {}

  std::int64_t participant() const override { return participant_; }
  std::int64_t participants() const override {
    return static_cast<std::int64_t>(local_.members_.size());
  }

  // Every member reduces an equal share of the elements and writes it to all: a share is read and
  // written by nobody else, so that results may lie where the operands do.
  Status all_reduce(const Call& call, Arrays arrays) override {
    return meet(call, &arrays, [&](std::span<const void* const> shown) {
      const auto members = static_cast<std::int64_t>(shown.size());
      const auto self = static_cast<std::int64_t>(call.self);
      std::vector<const void*> in(shown.size());
      std::vector<void*> out(shown.size());
      for (std::size_t i = 0; i < arrays.size(); ++i) {
        for (std::size_t m = 0; m < shown.size(); ++m) {
          const Reduce& other = (*static_cast<const Arrays*>(shown[m]))[i];
          in[m] = other.in;
          out[m] = other.out;
        }
        const std::int64_t count = arrays[i].rows * arrays[i].row;
        const std::int64_t first = count * self / members;
        reduce_run(in, first, count * (self + 1) / members - first, *arrays[i].reduction, out,
                   first);
      }
      return ok_status();
    });
  }

  Status reduce_scatter(const Call& call, Arrays arrays) override {
    return meet(call, &arrays, [&](std::span<const void* const> shown) {
      const auto members = static_cast<std::int64_t>(shown.size());
      std::vector<const void*> in(shown.size());
      for (std::size_t i = 0; i < arrays.size(); ++i) {
        const Reduce& array = arrays[i];
        for (std::size_t m = 0; m < shown.size(); ++m) {
          in[m] = (*static_cast<const Arrays*>(shown[m]))[i].in;
        }
        for (std::int64_t row = 0; row < array.rows; ++row) {
          const std::int64_t piece = row * members + static_cast<std::int64_t>(call.self);
          reduce_run(in, piece * array.row, array.row, *array.reduction, std::span(&array.out, 1),
                     row * array.row);
        }
      }
      return ok_status();
    });
  }

  Status exchange(const Call& call, std::span<const Rows> sends,
                  std::span<const Rows> receives) override {
    const Pieces pieces{sends};
    return meet(call, &pieces, [&](std::span<const void* const> shown) -> Status {
      const std::size_t members = shown.size();
      for (std::size_t i = 0; i < receives.size(); ++i) {
        const std::size_t sender = i % members;
        const Rows& from = static_cast<const Pieces*>(shown[sender])->sends[i - sender + call.self];
        const Rows& to = receives[i];
        if (from.count != to.count || (from.count != 0 && from.bytes != to.bytes)) {
          return failed_precondition(fmt::format(
              "{}: participant {} sends {} bytes, participant {} takes {}", call.what,
              call.group[sender], from.count * from.bytes, participant_, to.count * to.bytes));
        }
        copy_rows(from, to);
      }
      return ok_status();
    });
  }

 private:
  Status meet(const Call& call, const void* shown, const MeetingPlace::Work& work) {
    return local_.place_.meet({call.group, call.self, call.what}, shown, work);
  }

  LocalGroup& local_;
  const std::int64_t participant_;
};

LocalGroup::LocalGroup(std::int64_t participants) : place_(participants) {
  for (std::int64_t i = 0; i < participants; ++i) {
    members_.push_back(std::make_unique<Member>(*this, i));
  }
}

LocalGroup::~LocalGroup() = default;

Communicator& LocalGroup::communicator(std::int64_t participant) {
  return *members_[at(participant)];
}

void LocalGroup::leave(std::int64_t participant, const Status& status) {
  place_.leave(participant, status);
}

}  // namespace plimsoll::collectives
