// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace plimsoll::jit {

// The SHA-256 of all sources that decide what code a kernel gets; made by the build.
const char* generator_version();

}  // namespace plimsoll::jit
