// SPDX-License-Identifier: Apache-2.0
#include "kernels/spill_codec.h"

#include <string>

#include "kernels/cpu/codecs/spill_codecs.h"

namespace plimsoll::kernels {

Result<std::unique_ptr<const SpillCodec>> make_spill_codec(SpillCodecKind kind, int element_bytes) {
  if (element_bytes != 1 && element_bytes != 2 && element_bytes != 4 && element_bytes != 8) {
    return invalid_argument("spill codec: elements of " + std::to_string(element_bytes) +
                            " bytes (1, 2, 4 and 8 are supported)");
  }
  switch (kind) {
    case SpillCodecKind::sparse:
      return make_sparse(element_bytes);
    case SpillCodecKind::byte_planes:
      return make_byte_planes(element_bytes);
  }
  return invalid_argument("spill codec: unknown kind");
}

Status check_spill(std::string_view name, int element_bytes, std::int64_t bound,
                   std::span<const std::byte> from, std::span<std::byte> to) {
  if (from.size() % static_cast<std::size_t>(element_bytes) != 0) {
    return invalid_argument("encode." + std::string(name) + ": " + std::to_string(from.size()) +
                            " bytes are not whole elements of " + std::to_string(element_bytes));
  }
  if (static_cast<std::int64_t>(to.size()) < bound) {
    return invalid_argument("encode." + std::string(name) + ": room for " +
                            std::to_string(to.size()) + " bytes (the code of " +
                            std::to_string(from.size()) + " takes up to " + std::to_string(bound) +
                            ")");
  }
  return ok_status();
}

Status damaged(std::string_view name, std::string_view what) {
  return data_loss("decode." + std::string(name) + ": damaged code: " + std::string(what));
}

}  // namespace plimsoll::kernels
