// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace plimsoll::examples::serve {

// The text in gzip's form, at the level that costs the least time. Throws std::bad_alloc.
std::string gzip(std::string_view text);

}  // namespace plimsoll::examples::serve
