// SPDX-License-Identifier: Apache-2.0
#pragma once

// The two functions that are called of the OpenMP runtime that oneDNN runs on, GCC's libgomp. They
// are declared here because <omp.h> belongs to the compiler, and Clang's to another runtime, whose
// counts oneDNN would never see.
extern "C" {
int omp_get_max_threads() noexcept;              // of the calling thread's next parallel region
void omp_set_num_threads(int threads) noexcept;  // likewise; no other thread sees it
}
