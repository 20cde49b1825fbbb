// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/device/device.h"

namespace plimsoll::device {

// Who made a kernel; profiles group time by it.
enum class KernelOrigin : std::uint8_t { jit, library, own };

constexpr std::string_view to_string(KernelOrigin origin) {
  switch (origin) {
    case KernelOrigin::jit:
      return "jit";
    case KernelOrigin::library:
      return "library";
    case KernelOrigin::own:
      break;
  }
  return "own";
}

// Device pointers, one per array leaf (ir::leaves) of each operand in operand order, then of the
// result. Tokens have null pointers. `workspace` has workspace_bytes() bytes, contents undefined.
// Inputs and outputs do not overlap, except that an output may be the very buffer of an input where
// ir/fusions/in_place.h allows it.
struct KernelArguments {
  std::span<const void* const> inputs;
  std::span<void* const> outputs;
  void* workspace = nullptr;
};

class InputPreparation;

// An instruction made runnable on one device. Immutable and thread-safe; the same inputs give the
// same bits at every launch, whatever the number of threads.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // What Stream::launch does with it: `stream` is one of its device.
  virtual Status launch(Stream& stream, const KernelArguments& arguments) const = 0;
  virtual std::int64_t workspace_bytes() const { return 0; }
  virtual KernelOrigin origin() const = 0;
  // Says what it does, e.g. "fusion.exponential.add", "onednn.convolution.forward".
  virtual const std::string& name() const = 0;
  // Whether it may share a launch with others (joint_launch.h) that gives it so many pointers.
  virtual bool may_join(std::size_t /*inputs*/, std::size_t /*outputs*/) const { return false; }
  // How an input that never changes is brought into another form once (input_preparation.h); null:
  // none is. The kernel owns it.
  virtual const InputPreparation* input_preparation() const { return nullptr; }
};

}  // namespace plimsoll::device
