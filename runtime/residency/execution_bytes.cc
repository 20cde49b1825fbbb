// SPDX-License-Identifier: Apache-2.0
// What device memory an Execution takes.
#include <algorithm>

#include "runtime/base/alignment.h"
#include "runtime/residency/execution.h"

namespace plimsoll::trace {

bool Execution::donates() const {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (executable->residency(static_cast<int>(i)) == planner::ParameterResidency::donated) {
      return true;
    }
  }
  return false;
}

std::int64_t Execution::needed_bytes() const {
  std::int64_t bytes = executable->plan().peak_bytes;
  for (const auto& value : parameters) {
    if (!value->on_host) bytes -= value->bytes;
  }
  return std::max<std::int64_t>(0, bytes);
}

std::int64_t Execution::kept_bytes() const {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (executable->residency(static_cast<int>(i)) == planner::ParameterResidency::donated) {
      bytes -= parameters[i]->bytes;
    }
  }
  for (const std::int64_t output : output_bytes) bytes += aligned_bytes(output);
  return bytes;
}

std::int64_t Execution::workspace_bytes() const {
  std::int64_t bytes = executable->plan().peak_bytes;
  for (const auto& value : parameters) {
    if (!value->on_host) bytes -= value->bytes;
  }
  for (std::size_t i = 0; i < output_bytes.size(); ++i) {
    if (executable->output_parameter(static_cast<int>(i)) < 0) {
      bytes -= aligned_bytes(output_bytes[i]);
    }
  }
  return std::max<std::int64_t>(0, bytes);
}

std::int64_t Execution::unbooked_bytes() const {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (executable->residency(static_cast<int>(i)) == planner::ParameterResidency::donated) {
      bytes += parameters[i]->bytes;
    }
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto value = outputs[i].lock();
    const bool booked = value != nullptr && value->tensor >= 0;
    const bool takes = executable->output_parameter(static_cast<int>(i)) >= 0;
    if (takes && booked) bytes -= aligned_bytes(output_bytes[i]);
    if (!takes && !booked) bytes += aligned_bytes(output_bytes[i]);
  }
  return bytes;
}

}  // namespace plimsoll::trace
