// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "runtime/c_api/handles.h"
#include "runtime/import/named_arrays.h"

using namespace plimsoll;
using c_api::guarded;
using c_api::require;

struct plm_array_file {
  import::NamedArrays arrays;
};

namespace {

plm_array describe(const import::NamedArray& array) {
  plm_array made;
  made.name = array.name.c_str();
  made.dtype = static_cast<plm_dtype>(array.shape.dtype());
  made.rank = static_cast<size_t>(array.shape.rank());
  made.dims = array.shape.dims().begin();
  made.byte_size = array.bytes.size();
  made.data = array.bytes.data();
  return made;
}

Result<import::NamedArray> named_array(const plm_array& array) {
  PLIMSOLL_RETURN_IF_ERROR(require(array.name != nullptr, "write_arrays: a name is NULL"));
  const std::string what = std::string("write_arrays: '") + array.name + "'";
  PLIMSOLL_ASSIGN_OR_RETURN(ir::Shape shape,
                            c_api::make_shape(what.c_str(), array.dtype, array.dims, array.rank));
  const auto bytes = static_cast<size_t>(shape.byte_size());
  if (array.byte_size != bytes) {
    return invalid_argument(what + " has " + std::to_string(array.byte_size) + " bytes, " +
                            shape.to_string() + " takes " + std::to_string(bytes));
  }
  PLIMSOLL_RETURN_IF_ERROR(
      require(array.data != nullptr || bytes == 0, "write_arrays: an array's data are NULL"));
  return import::NamedArray{
      array.name, std::move(shape), {static_cast<const std::byte*>(array.data), bytes}};
}

}  // namespace

extern "C" {

plm_status* plm_array_file_open(const char* path, plm_array_file** out) {
  return guarded([&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(
        require(path != nullptr && out != nullptr, "array_file: a pointer is NULL"));
    PLIMSOLL_ASSIGN_OR_RETURN(import::NamedArrays arrays, import::read_named_arrays(path));
    *out = new plm_array_file{std::move(arrays)};
    return ok_status();
  });
}

void plm_array_file_close(plm_array_file* file) { delete file; }

size_t plm_array_file_count(const plm_array_file* file) {
  return file == nullptr ? 0 : file->arrays.arrays.size();
}

plm_status* plm_array_file_get(const plm_array_file* file, size_t index, plm_array* out) {
  return guarded([&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(
        require(file != nullptr && out != nullptr, "array_file: a pointer is NULL"));
    const auto& arrays = file->arrays.arrays;
    if (index >= arrays.size()) {
      return out_of_range("array_file: no array " + std::to_string(index) + " of " +
                          std::to_string(arrays.size()));
    }
    *out = describe(arrays[index]);
    return ok_status();
  });
}

plm_status* plm_array_file_find(const plm_array_file* file, const char* name, plm_array* out) {
  return guarded([&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(require(file != nullptr && name != nullptr && out != nullptr,
                                     "array_file: a pointer is NULL"));
    const auto& arrays = file->arrays.arrays;
    const auto found = std::find_if(arrays.begin(), arrays.end(),
                                    [&](const auto& array) { return array.name == name; });
    if (found == arrays.end()) {
      return not_found(std::string("array_file: no array is named '") + name + "'");
    }
    *out = describe(*found);
    return ok_status();
  });
}

const char* plm_array_file_metadata(const plm_array_file* file, const char* key) {
  if (file == nullptr || key == nullptr) return nullptr;
  const auto found = file->arrays.metadata.find(key);
  return found == file->arrays.metadata.end() ? nullptr : found->second.c_str();
}

plm_status* plm_write_arrays(const char* path, const plm_array* arrays, size_t count,
                             const char* const* keys, const char* const* values,
                             size_t metadata_count) {
  return guarded([&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(
        require(path != nullptr && (arrays != nullptr || count == 0) &&
                    ((keys != nullptr && values != nullptr) || metadata_count == 0),
                "write_arrays: a pointer is NULL"));
    std::vector<import::NamedArray> list;
    for (size_t i = 0; i < count; ++i) {
      PLIMSOLL_ASSIGN_OR_RETURN(import::NamedArray array, named_array(arrays[i]));
      list.push_back(std::move(array));
    }
    std::map<std::string, std::string> metadata;
    for (size_t i = 0; i < metadata_count; ++i) {
      PLIMSOLL_RETURN_IF_ERROR(require(keys[i] != nullptr && values[i] != nullptr,
                                       "write_arrays: a key or value is NULL"));
      if (!metadata.emplace(keys[i], values[i]).second) {
        return invalid_argument(std::string("write_arrays: the key '") + keys[i] +
                                "' is there twice");
      }
    }
    return import::write_named_arrays(path, list, metadata);
  });
}

}  // extern "C"
