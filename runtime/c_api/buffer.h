// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "runtime/base/fork.h"
#include "runtime/buffers/buffer.h"

struct plm_buffer {
  explicit plm_buffer(std::shared_ptr<plimsoll::buffers::Buffer> made) : buffer(std::move(made)) {}

  const std::shared_ptr<plimsoll::buffers::Buffer> buffer;
  std::atomic<std::int64_t> references{1};
  const plimsoll::ForkMark mark;
};

struct plm_hold {
  plimsoll::buffers::ContentRef content;
  // Whose work, by whoever has the address, is waited for before the memory goes.
  std::shared_ptr<plimsoll::device::Device> device;
  plimsoll::ForkMark mark = {};
};
