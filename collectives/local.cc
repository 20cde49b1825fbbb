// SPDX-License-Identifier: Apache-2.0
#include "collectives/local.h"

#include <fmt/core.h>

#include <vector>

#include "collectives/reduce_run.h"
#include "runtime/base/index.h"

namespace plimsoll::collectives {
namespace {

using device::Communicator;
using device::Rows;

// What a member shows of a reduction and of an exchange.
using Arrays = std::span<const Communicator::Reduce>;
struct Pieces {
  std::span<const Rows> sends;
};

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

  Status begin_send(const Passage& passage, const void* data, std::int64_t) override {
    return local_.place_.begin_send(way_of(passage), data);
  }
  Status begin_receive(const Passage& passage, void* data, std::int64_t bytes) override {
    const auto take = [data, bytes](const void* shown) {
      auto* const from = static_cast<std::byte*>(const_cast<void*>(shown));
      copy_rows({from, 1, bytes, bytes}, {static_cast<std::byte*>(data), 1, bytes, bytes});
      return ok_status();
    };
    return local_.place_.begin_receive(way_of(passage), take);
  }
  Status end_send(const Passage& passage) override {
    return local_.place_.end_send(way_of(passage), stop());
  }
  Status end_receive(const Passage& passage) override {
    return local_.place_.end_receive(way_of(passage), stop());
  }
  void forget() override { local_.place_.forget(participant_); }

  void leave(const Status& status) override { local_.leave(participant_, status); }

 private:
  static MeetingPlace::Passage way_of(const Passage& passage) {
    return {passage.from, passage.to, passage.what};
  }
  Status meet(const Call& call, const void* shown, const MeetingPlace::Work& work) {
    return local_.place_.meet({call.group, call.self, call.what, stop()}, shown, work);
  }

  LocalGroup& local_;
  const std::int64_t participant_;
};

LocalGroup::LocalGroup(std::int64_t participants, std::chrono::duration<double> timeout)
    : place_(participants, timeout) {
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
