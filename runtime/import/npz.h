// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/import/named_arrays.h"

namespace plimsoll::import {

// NumPy's .npz: a ZIP archive (PKWARE APPNOTE 6.3) of .npy arrays, stored or deflated; the sizes of
// ZIP64 are read, too.

bool is_npz(std::span<const std::byte> bytes);

// Adds the arrays to `out`, which keeps copies of them. INVALID_ARGUMENT, naming `source` and the
// entry: what is cut off, out of range, overlaps, is encrypted or packed in another way, has
// another checksum or size than it says, unpacks to more than deflate can have packed, is no .npy,
// or has a name that was there before.
Status parse_npz(std::span<const std::byte> bytes, std::string_view source, NamedArrays& out);

// The pieces of a file, entries stored: `made` keeps them. INVALID_ARGUMENT above 4 GiB, which is
// more than every reader takes.
Status lay_out_npz(std::span<const NamedArray> arrays, std::string_view path,
                   std::deque<std::string>& made, std::vector<std::span<const std::byte>>& pieces);

}  // namespace plimsoll::import
