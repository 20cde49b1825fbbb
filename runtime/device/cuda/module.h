// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/cuda/context.h"

namespace plimsoll::device::cuda {

// A module of code for one GPU, loaded. Goes with the last kernel that uses it.
class Module {
 public:
  // `image`: PTX text, which the driver compiles, or a cubin. INTERNAL, with what the driver's
  // compiler says of it, where it is wrong; UNIMPLEMENTED where the GPU does not know it.
  static Result<std::shared_ptr<Module>> load(std::shared_ptr<const Context> context,
                                              const std::string& image);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // An entry of it, ready for launches with so much shared memory. For one thread at a time.
  Result<FunctionHandle> function(const std::string& entry, std::uint32_t shared_bytes);
  // What the GPU's memory had less after it and its entries were loaded (an entry may only be when
  // it is asked for).
  std::int64_t device_bytes() const { return device_bytes_; }

 private:
  explicit Module(std::shared_ptr<const Context> context) : context_(std::move(context)) {}

  const std::shared_ptr<const Context> context_;
  ModuleHandle handle_ = nullptr;
  std::int64_t device_bytes_ = 0;
  std::size_t text_bytes_ = 0;
};

}  // namespace plimsoll::device::cuda
