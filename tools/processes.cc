// SPDX-License-Identifier: Apache-2.0
#include "tools/processes.h"

#include <fmt/core.h>

#include <span>
#include <string_view>
#include <vector>

#include "collectives/connect.h"
#include "collectives/membership.h"
#include "runtime/base/environment.h"
#include "runtime/base/index.h"
#include "runtime/base/sha256.h"
#include "runtime/device/devices.h"
#include "runtime/ir/text/text.h"

namespace plimsoll::tools {
namespace {

// What another program, or the same with other replicas, does not share.
std::string name_of(const ir::Module& module) {
  const std::string text = ir::to_text(module);
  const std::string hash = sha256(std::as_bytes(std::span(text)));
  return fmt::format("the start of program '{}' ({} replicas x {} partitions, SHA-256 {})",
                     module.name(), module.replica_count, module.num_partitions,
                     std::string_view(hash).substr(0, 16));
}

}  // namespace

void Processes::leave(const Status& status) {
  if (communicator == nullptr) return;
  communicator->leave(status.with_context(fmt::format("participant {}", first)));
}

Outcome join_processes(const std::string& communicator, const ir::Module& module,
                       Processes& processes) {
  const std::int64_t participants = module.replica_count * module.num_partitions;
  processes = {0, at(participants), at(participants), nullptr};
  std::string kind = communicator;
  if (kind.empty()) {
    const auto chosen = choice_variable(Variable::communicator);
    PLIMSOLL_CALL_FAULT(chosen.status());
    kind = *chosen;
  }
  if (kind == "local") return {};
  const auto membership = collectives::read_membership();
  PLIMSOLL_CALL_FAULT(membership.status().with_context("communicator " + kind));
  if (membership->world_size != participants) {
    return Outcome::call_fault(invalid_argument(fmt::format(
        "'{}' is a program of {} replicas x {} partitions, and WORLD_SIZE says {} "
        "processes (one runs each participant; --replicas and --partitions change them)",
        module.name(), module.replica_count, module.num_partitions, membership->world_size)));
  }
  if (participants == 1) return {};
  PLIMSOLL_CALL_FAULT(device::check_device());  // default_device() passes over a bad name
  processes.first = at(membership->rank);
  processes.count = 1;
  auto connected = collectives::connect_processes(kind, *membership, device::default_device());
  PLIMSOLL_PROGRAM_FAULT(connected.status());
  processes.communicator = std::move(*connected);
  const std::string what = name_of(module);
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < participants; ++i) all.push_back(i);
  const std::vector<device::Rows> nothing(all.size());
  PLIMSOLL_PROGRAM_FAULT(
      processes.communicator->exchange({what, all, processes.first}, nothing, nothing));
  return {};
}

}  // namespace plimsoll::tools
