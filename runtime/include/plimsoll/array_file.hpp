// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/tensor.hpp"

namespace plimsoll {

// A file of arrays with names, safetensors or .npz, open for reading (plm_array_file). Copies share
// it. Any thread; load() as the current context.
class ArrayFile {
 public:
  // Throws not_found or invalid_argument, which names the path and the array.
  explicit ArrayFile(const std::string& path) {
    plm_array_file* made = nullptr;
    internal::check(plm_array_file_open(path.c_str(), &made));
    handle_.reset(made, &plm_array_file_close);
  }

  // Valid as long as the file is open. Elements are dense and row-major, at any address.
  struct Array {
    std::string name;
    DType dtype = DType::f32;
    std::span<const std::int64_t> dims;
    std::span<const std::byte> bytes;
  };

  std::size_t size() const { return plm_array_file_count(handle_.get()); }
  // In the file's order.
  Array operator[](std::size_t index) const {
    plm_array array = {};
    internal::check(plm_array_file_get(handle_.get(), index, &array));
    return described(array);
  }
  // Throws not_found.
  Array at(const std::string& name) const {
    plm_array array = {};
    internal::check(plm_array_file_find(handle_.get(), name.c_str(), &array));
    return described(array);
  }
  std::optional<std::string> metadata(const std::string& key) const {
    const char* value = plm_array_file_metadata(handle_.get(), key.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  }
  // A copy, as a tensor of the current context. Throws not_found, and invalid_argument for dtypes
  // that are in no tensor.
  Tensor load(const std::string& name) const {
    const Array array = at(name);
    plm_tensor* out = nullptr;
    internal::check(plm_tensor_from_host(Context::current().handle(),
                                         static_cast<plm_dtype>(array.dtype), array.dims.data(),
                                         array.dims.size(), array.bytes.data(), &out));
    return Tensor(out);
  }

 private:
  static Array described(const plm_array& array) {
    return {array.name,
            static_cast<DType>(array.dtype),
            {array.dims, array.rank},
            {static_cast<const std::byte*>(array.data), array.byte_size}};
  }

  std::shared_ptr<plm_array_file> handle_;
};

namespace internal {

// An array in host memory with a name, dense and row-major.
struct HostArray {
  std::string name;
  DType dtype = DType::f32;
  Dims dims;
  std::vector<std::byte> bytes;
};

// The tensor's value, evaluated first.
inline HostArray read_array(const std::string& name, const Tensor& tensor) {
  HostArray array{name, tensor.dtype(), Dims(tensor.dims().begin(), tensor.dims().end()),
                  std::vector<std::byte>(static_cast<std::size_t>(tensor.byte_size()))};
  tensor.read_bytes(array.bytes.data(), array.bytes.size());
  return array;
}

// As save_arrays.
inline void write_arrays(const std::string& path, std::span<const HostArray> from,
                         const std::map<std::string, std::string>& metadata) {
  std::vector<plm_array> arrays;
  for (const HostArray& array : from) {
    arrays.push_back({array.name.c_str(), static_cast<plm_dtype>(array.dtype), array.dims.size(),
                      array.dims.data(), array.bytes.size(), array.bytes.data()});
  }
  std::vector<const char*> keys, values;
  for (const auto& [key, value] : metadata) {
    keys.push_back(key.c_str());
    values.push_back(value.c_str());
  }
  check(plm_write_arrays(path.c_str(), arrays.data(), arrays.size(), keys.data(), values.data(),
                         keys.size()));
}

}  // namespace internal

// Writes the tensors, evaluated first, to a file: .npz where the path ends so, else safetensors,
// with the metadata. The file is there as a whole or as it was before, also where the process ends
// meanwhile. Takes host memory for all of them at once.
inline void save_arrays(const std::string& path,
                        std::span<const std::pair<std::string, Tensor>> tensors,
                        const std::map<std::string, std::string>& metadata = {}) {
  std::vector<internal::HostArray> arrays;
  for (const auto& [name, tensor] : tensors) arrays.push_back(internal::read_array(name, tensor));
  internal::write_arrays(path, arrays, metadata);
}

}  // namespace plimsoll
