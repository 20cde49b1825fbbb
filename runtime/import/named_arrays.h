// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/mapped_file.h"
#include "runtime/base/status.h"
#include "runtime/ir/literal.h"

namespace plimsoll::import {

// An array in host memory that is somebody else's: dense and row-major, at any address.
struct NamedArray {
  std::string name;
  ir::Shape shape;
  std::span<const std::byte> bytes;
};

// The arrays of a file, each under a name of its own, in the file's order. Movable; keeps what they
// refer to.
struct NamedArrays {
  std::vector<NamedArray> arrays;
  std::map<std::string, std::string> metadata;  // of safetensors; npz has none

  std::shared_ptr<const MappedFile> file;
  std::vector<ir::Literal> unpacked;  // what the file has in another form
};

// A safetensors or .npz file, told apart by their bytes. INVALID_ARGUMENT, naming the path and the
// array, for what is neither.
Result<NamedArrays> read_named_arrays(const std::string& path);

// Writes atomically (base/atomic_file.h), as .npz where the path ends so, else as safetensors.
// INVALID_ARGUMENT for names that are there twice, dtypes that the format has not, and metadata in
// .npz.
Status write_named_arrays(const std::string& path, std::span<const NamedArray> arrays,
                          const std::map<std::string, std::string>& metadata = {});

}  // namespace plimsoll::import
