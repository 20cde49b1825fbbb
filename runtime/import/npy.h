// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/ir/literal.h"

namespace plimsoll::import {

// NumPy's .npy format, versions 1 to 3 (numpy/lib/format.py). Element types are those of the IR;
// bf16, which NumPy has not, is `V2`. Either byte order and Fortran order are read; little endian,
// C order is written.

// The array in `bytes`. INVALID_ARGUMENT, naming `source`, for anything else.
Result<ir::Literal> parse_npy(std::span<const std::byte> bytes, std::string_view source);
// NOT_FOUND when the file can't be opened.
Result<ir::Literal> read_npy(const std::string& path);

// Precondition: an array with values.
std::string npy_bytes(const ir::Literal& literal);
// Whole or not at all (atomic_file.h).
Status write_npy(const std::string& path, const ir::Literal& literal);

}  // namespace plimsoll::import
