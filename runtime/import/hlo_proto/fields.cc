// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/hlo_proto/fields.h"

#include <string>

namespace plimsoll::hlo_proto {

Status read_fields(std::string_view message, std::string_view what,
                   std::initializer_list<Slot> slots) {
  return wire::read_fields(message, slots) ? ok_status() : broken(what);
}

Status broken(std::string_view part) {
  return invalid_argument("HLO proto: " + std::string(part) + " makes no sense");
}

}  // namespace plimsoll::hlo_proto
