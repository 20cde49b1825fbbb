// SPDX-License-Identifier: Apache-2.0
#include "collectives/chunk_stream.h"

#include "runtime/base/index.h"

namespace plimsoll::collectives {

Waited ChunkStream::post(std::size_t k) {
  if (k >= chunks_.size()) return Waited::done;
  const Chunk& chunk = chunks_[k];
  std::byte* data = in_array(k);
  if (data == nullptr) {
    std::optional<std::size_t>& last = in_scratch_[k % 2];
    if (last) {
      if (const Waited how = wait(*last); how != Waited::done) return how;
    }
    last = k;
    std::vector<std::byte>& memory = scratch_[k % 2];
    if (memory.size() < at(chunk.bytes)) memory.resize(at(chunk.bytes));
    data = memory.data();
    if (direction_ == Direction::out) pack(chunk, arrays_, data);
  }
  transfers_[k] = direction_ == Direction::out
                      ? peers_.send(peer_, slot_, data, at(chunk.bytes))
                      : peers_.receive(peer_, slot_, data, at(chunk.bytes));
  return Waited::done;
}

Waited ChunkStream::wait(std::size_t k) {
  if (k >= chunks_.size() || transfers_[k] == nullptr) return Waited::done;
  const Waited how = peers_.wait(*transfers_[k]);
  transfers_[k].reset();
  if (how == Waited::done && direction_ == Direction::in && !arrays_.empty() &&
      in_array(k) == nullptr) {
    unpack(chunks_[k], data(k), arrays_);
  }
  return how;
}

Waited ChunkStream::finish() {
  for (std::size_t k = 0; k < transfers_.size(); ++k) {
    if (const Waited how = wait(k); how != Waited::done) return how;
  }
  return Waited::done;
}

}  // namespace plimsoll::collectives
