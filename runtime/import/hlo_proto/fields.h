// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/import/wire/wire.h"

namespace plimsoll::hlo_proto {

using wire::Field;
using wire::Message;
using wire::Slot;
using wire::take_varint;

// As wire::read_fields; INVALID_ARGUMENT that names `what` for bytes that are no message.
Status read_fields(std::string_view message, std::string_view what,
                   std::initializer_list<Slot> slots);

// INVALID_ARGUMENT that names the part which can't be right.
Status broken(std::string_view part);

}  // namespace plimsoll::hlo_proto
