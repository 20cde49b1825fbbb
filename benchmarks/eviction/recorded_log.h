// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace plimsoll::import {

// A program recorded operation by operation as it ran, in the form of simrd's logs (Kirisame et
// al., "Dynamic Tensor Rematerialization", ICLR 2021): one JSON object a line, numbers as strings,
// all before the line `ANNOTATE START` skipped. An operation in place is one that makes fresh
// tensors and evicts the old ones.
struct RecordedLog {
  struct Output {
    std::int64_t bytes = 0;
    std::int32_t view_of = -1;  // the argument whose bytes it shares, which has no bytes of its own
  };
  struct Call {
    std::int64_t nanoseconds = 0;
    std::vector<std::int32_t> arguments;  // tensors
    std::vector<Output> outputs;          // tensors first_output, first_output + 1, ...
    std::int32_t first_output = 0;
  };
  enum class Act : std::uint8_t {
    call,     // run call `index`; each output starts with one reference
    retain,   // one reference more to tensor `index`
    release,  // one less
    pin,  // tensor `index` stays from here on: constants when made, what is referenced at the end
  };
  struct Event {
    Act act = Act::call;
    std::int32_t index = 0;
  };
  std::vector<Call> calls;
  std::vector<Event> events;
  std::int32_t tensor_count = 0;
  std::int64_t nanoseconds = 0;     // of all calls
  std::int64_t peak_bytes = 0;      // of a run that frees bytes at the last reference
  std::int64_t constant_bytes = 0;  // part of it
};

// INVALID_ARGUMENT with `name:line:` where the text is not a recorded log.
Result<RecordedLog> parse_recorded_log(std::string_view text, std::string_view name);

}  // namespace plimsoll::import
