// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "examples/serve/connection.h"
#include "examples/serve/host_budget.h"
#include "examples/serve/service.h"
#include "examples/serve/statistics.h"

namespace plimsoll::examples::serve {

// The response to a whole request of the connection with that number.
struct Answer {
  std::uint64_t client = 0;
  ServiceReply reply;
  HostBudget::Lease lease;         // of the reply's body
  const char* encoding = nullptr;  // of it; null: plain
};

// Unpacks the body, of at most `most_body_bytes`, asks the service, and compresses the response
// where the client takes that. `arrived`: when the request was whole. Any thread; throws nothing.
Answer answer_request(Service& service, std::uint64_t client, Connection::Request request,
                      Clock::time_point arrived, std::size_t most_body_bytes);

}  // namespace plimsoll::examples::serve
