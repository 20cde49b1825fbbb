// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace plimsoll::benchmarks {

enum class TriadStores : std::uint8_t { plain, streaming };

// STREAM's triad, c[i] = a[i] + 3 * b[i], over `count` floats on the shared pool, in the widest
// vectors of the machine. Streaming stores bypass the caches; plain ones first read the line they
// write. The arrays must be aligned to 64 bytes.
void run_triad(float* c, const float* a, const float* b, std::int64_t count, TriadStores stores);

// What a triad is said to move: three arrays. What plain stores read besides is not counted, here
// and for the kernels compared with it.
inline double triad_bytes(std::int64_t count) { return 12.0 * static_cast<double>(count); }

}  // namespace plimsoll::benchmarks
