// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/device/communicator.h"

namespace plimsoll::collectives {

// What is sent as one message: parts of arrays, each from an element to another one.
struct Chunk {
  struct Part {
    std::size_t array = 0;
    std::int64_t begin = 0, end = 0;  // bytes of the array without what lies between its rows
    std::int64_t place = 0;           // in the message; a multiple of 64
  };
  std::vector<Part> parts;
  std::int64_t bytes = 0;
};

// Cuts arrays, of which bytes and bytes of an element are known, into messages of about `most`
// bytes. Both ends of a message cut alike. Small arrays share messages, large ones have their own.
struct Extent {
  std::int64_t bytes = 0, element = 1;
};
std::vector<Chunk> cut_chunks(std::span<const Extent> arrays, std::int64_t most);

// The part's memory where it lies in one piece in its array; else null.
std::byte* one_piece(const Chunk::Part& part, const device::Rows& rows);
// The whole chunk's, likewise.
std::byte* one_piece(const Chunk& chunk, std::span<const device::Rows> arrays);
// Between arrays and a message.
void pack_part(const Chunk::Part& part, const device::Rows& rows, std::byte* message);
void pack(const Chunk& chunk, std::span<const device::Rows> arrays, std::byte* message);
void unpack(const Chunk& chunk, const std::byte* message, std::span<const device::Rows> arrays);

}  // namespace plimsoll::collectives
