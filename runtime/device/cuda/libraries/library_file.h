// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "runtime/base/status.h"

namespace plimsoll::device::cuda {

// A shared library that stays open for as long as the process runs.
struct LibraryFile {
  void* handle = nullptr;
  std::string name;  // as it was opened: with its folder where that was given
};

// The first of `names` that there is: each in each of `folders` (with colons between them, none
// where it is empty), then where the loader looks by itself, which takes what is loaded already.
// NOT_FOUND, with what the loader says of the first name.
Result<LibraryFile> open_library(std::span<const char* const> names, const std::string& folders);

// Fills a table of pointers to functions, `symbols` in order. NOT_FOUND for the first one that the
// library has not.
Status read_symbols(const LibraryFile& library, std::span<const char* const> symbols, void* table);

}  // namespace plimsoll::device::cuda
