// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace plimsoll::benchmarks {

// A function of the C library over arrays; `count` is a multiple of 16. `y` only for two arguments.
template <typename T>
using ArrayFunction = void (*)(const T* x, const T* y, T* result, std::int64_t count);

template <typename T>
struct Peer {
  const char* library = "";  // "libmvec", or "libm" where it has no vectors of the function
  ArrayFunction<T> function = nullptr;
};

// glibc's `name` in vectors of 64 bytes where libmvec has it and the CPU can (its error is up to 4
// ulp), else one number at a time.
Peer<float> peer32(std::string_view name);
Peer<double> peer64(std::string_view name);

}  // namespace plimsoll::benchmarks
