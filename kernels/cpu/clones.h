// SPDX-License-Identifier: Apache-2.0
#pragma once

// Put before a function: it is compiled for several instruction sets, and the program picks one
// when it starts. Sanitized programs may not run the resolvers that pick.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__clang__)
#define PLIMSOLL_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define PLIMSOLL_CLONES
#endif
