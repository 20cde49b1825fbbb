// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/error.hpp"
#include "plimsoll/plimsoll.h"

namespace plimsoll {

struct CommunicatorOptions {
  std::int64_t rank = -1;       // this process, from 0 on; below zero: RANK
  std::int64_t world_size = 0;  // processes; 0: WORLD_SIZE
  std::string rendezvous{};     // tcp://HOST:PORT or file:///FOLDER; empty: the environment's
  double timeout_seconds = 0;   // of every wait; 0: PLIMSOLL_COLLECTIVE_TIMEOUT
  std::string
      communicator{};  // "gloo" or, on GPUs, "nccl"; empty: PLIMSOLL_COMMUNICATOR, else gloo
};

// A participant's way to the others (plm_communicator): a handle; copies share it. A context is
// given one when it is made (ContextOptions::communicator), and keeps it. The participant leaves
// with the last of both, or by leave(). Any thread.
class Communicator {
 public:
  // No others.
  Communicator() = default;

  // Connects to all other processes, by the variables that launchers set unless told otherwise, and
  // waits for them. Throws invalid_argument that names what is missing, deadline_exceeded that
  // names who has not come.
  static Communicator connect(const CommunicatorOptions& options = {}) {
    plm_communicator_options c = {};
    c.struct_size = sizeof c;
    c.rank = options.rank;
    c.world_size = options.world_size;
    c.rendezvous = options.rendezvous.empty() ? nullptr : options.rendezvous.c_str();
    c.timeout_seconds = options.timeout_seconds;
    c.communicator = options.communicator.empty() ? nullptr : options.communicator.c_str();
    plm_communicator* made = nullptr;
    internal::check(plm_communicator_connect(&c, &made));
    return Communicator(made);
  }
  // For so many participants in this process, each for a thread with a context of its own.
  static std::vector<Communicator> local(std::size_t participants) {
    std::vector<plm_communicator*> made(participants, nullptr);
    internal::check(plm_communicator_create_local(participants, made.data()));
    std::vector<Communicator> result;
    for (plm_communicator* one : made) result.push_back(Communicator(one));
    return result;
  }

  bool defined() const { return handle_ != nullptr; }
  plm_communicator* handle() const { return handle_.get(); }
  std::int64_t rank() const { return plm_communicator_rank(handle()); }
  std::int64_t size() const { return plm_communicator_size(handle()); }

  // Comes to no more collectives: whoever waits for this participant gets an error. With `why`, all
  // others do, wherever they wait, with that error.
  void leave() const { plm_communicator_leave(handle(), PLM_OK, nullptr); }
  void leave(const Error& why) const {
    plm_communicator_leave(handle(), static_cast<plm_code>(why.code()), why.what());
  }

 private:
  explicit Communicator(plm_communicator* owned) : handle_(owned, plm_communicator_destroy) {}

  std::shared_ptr<plm_communicator> handle_;
};

}  // namespace plimsoll
