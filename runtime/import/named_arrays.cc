// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/named_arrays.h"

#include <deque>
#include <set>
#include <string_view>
#include <utility>

#include "runtime/base/atomic_file.h"
#include "runtime/import/npz.h"
#include "runtime/import/safetensors.h"

namespace plimsoll::import {

Result<NamedArrays> read_named_arrays(const std::string& path) {
  NamedArrays made;
  PLIMSOLL_ASSIGN_OR_RETURN(made.file, MappedFile::open(path));
  const std::span<const std::byte> bytes = std::as_bytes(std::span(made.file->bytes()));
  if (is_npz(bytes)) {
    PLIMSOLL_RETURN_IF_ERROR(parse_npz(bytes, path, made));
  } else {
    PLIMSOLL_RETURN_IF_ERROR(parse_safetensors(bytes, path, made));
  }
  return made;
}

Status write_named_arrays(const std::string& path, std::span<const NamedArray> arrays,
                          const std::map<std::string, std::string>& metadata) {
  std::set<std::string_view> names;
  for (const NamedArray& array : arrays) {
    if (!names.insert(array.name).second) {
      return invalid_argument(path + ": two arrays are named '" + array.name + "'");
    }
  }
  std::deque<std::string> made;  // what stands between the arrays' own bytes
  std::vector<std::span<const std::byte>> pieces;
  if (path.ends_with(".npz")) {
    if (!metadata.empty()) {
      return invalid_argument(path + ": .npz has no metadata (write safetensors)");
    }
    PLIMSOLL_RETURN_IF_ERROR(lay_out_npz(arrays, path, made, pieces));
  } else {
    PLIMSOLL_RETURN_IF_ERROR(lay_out_safetensors(arrays, metadata, path, made, pieces));
  }
  return write_atomically(path, pieces);
}

}  // namespace plimsoll::import
