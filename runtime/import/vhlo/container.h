// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/import/vhlo/bytes.h"

namespace plimsoll::vhlo {

// What MLIR bytecode begins with.
inline constexpr std::string_view kBytecodeMagic = "ML\xefR";

// The tables of an MLIR bytecode file, which its operations refer to by number. Views into the
// bytes, which must outlive it.
struct Container {
  // An attribute or type, not read yet.
  struct Entry {
    std::size_t dialect = 0;
    bool is_encoded = false;  // by its dialect; else as text
    std::string_view bytes;
  };

  std::string_view producer;  // who wrote it: "StableHLO_v1.13.0"
  std::vector<std::string_view> strings, dialects;
  std::vector<std::string> operations;  // "vhlo.add_v1"
  std::vector<Entry> attributes, types;
  std::vector<std::string_view> properties;  // of operations
  std::string_view operations_section;       // the top-level block
};

// A section within others.
struct Section {
  int id = 0;
  std::string_view bytes;
};
inline constexpr int kOperationsSection = 4;
// `cursor` becomes bad at one that makes no sense.
Section read_section(Cursor& cursor);

// INVALID_ARGUMENT that names the part which can't be right.
Status broken(std::string_view part);

// INVALID_ARGUMENT for bytes that are no MLIR bytecode, and for what its versions before 6 have
// another form of.
Result<Container> read_container(std::string_view bytes);

}  // namespace plimsoll::vhlo
