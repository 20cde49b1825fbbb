// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>

#include "runtime/base/status.h"
#include "runtime/device/kernel.h"

namespace plimsoll::ir {
class Shape;
}

namespace plimsoll::device {

// What the function of a custom call gets: the launch's arguments, the arrays' shapes in their
// order, and the instruction's backend_config text, without quotes.
struct CustomCallArguments {
  const KernelArguments& memory;
  std::span<const ir::Shape> inputs, outputs;
  const std::string& config;
};
// Called by any thread, at once by several; gives the same bits for the same inputs.
using CustomCall = std::function<Status(const CustomCallArguments&)>;

}  // namespace plimsoll::device
