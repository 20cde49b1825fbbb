// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/import/named_arrays.h"

namespace plimsoll::import {

// The safetensors format (huggingface/safetensors, README): eight bytes of a length, so much JSON
// that says where in the bytes behind it each array lies, and these bytes.

// Adds the arrays, which refer to `bytes`, and the metadata to `out`. INVALID_ARGUMENT, naming
// `source` and the array: a header that is cut off, longer than 100 MB, no JSON or nested deeper
// than the format is; a name that stands there twice; an element type that the library has not;
// bytes that are not those of the shape, overlap, are out of range, or belong to no array; elements
// of BOOL that are neither 0 nor 1.
Status parse_safetensors(std::span<const std::byte> bytes, std::string_view source,
                         NamedArrays& out);

// The pieces of a file: `made` keeps those that are not the arrays' own. Arrays begin at multiples
// of eight bytes of the file where their sizes let them: those of wide elements come first, then
// by name, as the format's own writer has it.
Status lay_out_safetensors(std::span<const NamedArray> arrays,
                           const std::map<std::string, std::string>& metadata,
                           std::string_view path, std::deque<std::string>& made,
                           std::vector<std::span<const std::byte>>& pieces);

}  // namespace plimsoll::import
