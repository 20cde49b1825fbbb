// SPDX-License-Identifier: Apache-2.0
#include "kernels/spill_codec.h"

#include <fmt/core.h>
#include <string>

#include "kernels/cpu/codecs/spill_codecs.h"

namespace plimsoll::kernels {

Result<std::unique_ptr<const SpillCodec>> make_spill_codec(SpillCodecKind kind, int element_bytes) {
  if (element_bytes != 1 && element_bytes != 2 && element_bytes != 4 && element_bytes != 8) {
    return invalid_argument(fmt::format(
        "spill codec: elements of {} bytes (1, 2, 4 and 8 are supported)", element_bytes));
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
    return invalid_argument(fmt::format("encode.{}: {} bytes are not whole elements of {}", name,
                                        from.size(), element_bytes));
  }
  if (static_cast<std::int64_t>(to.size()) < bound) {
    return invalid_argument(
        fmt::format("encode.{}: room for {} bytes (the code of {} takes up to {})", name, to.size(),
                    from.size(), bound));
  }
  return ok_status();
}

Status damaged(std::string_view name, std::string_view what) {
  return data_loss("decode." + std::string(name) + ": damaged code: " + std::string(what));
}

}  // namespace plimsoll::kernels
