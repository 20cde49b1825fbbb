// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "examples/serve/host_budget.h"

namespace plimsoll::examples::serve {

// Compressed as Content-Encoding "gzip" is. Throws std::bad_alloc.
std::string gzip(std::string_view text);
// The most bytes that makes of `bytes`.
std::size_t most_gzip_bytes(std::size_t bytes);

// A body that came encoded ("gzip", "deflate", "br"), unpacked; `lease` grows by its bytes. Throws
// HttpError: 400 where it is not encoded so, 413 where more than `most_bytes` would come out, of
// which no more is unpacked, 503 where there is no room.
std::string decode(std::string_view body, const std::string& encoding, std::size_t most_bytes,
                   HostBudget::Lease& lease);

}  // namespace plimsoll::examples::serve
