// SPDX-License-Identifier: Apache-2.0
// Counts the bytes that a process has allocated, for frontier.py: loaded before everything else
// (LD_PRELOAD), it stands in front of glibc's allocator. The file that ALLOCATIONS_FILE names
// is mapped and holds two 64-bit integers: the bytes that live now and the most that ever lived at
// once. The second may be set back from outside while the process waits. Processes that this one
// starts count for themselves, into nothing.
//
// Bytes are those that the allocator hands out (malloc_usable_size). What is mapped without it
// (stacks, code, Python's small objects) is not counted.
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>

extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* block);
}

namespace {

struct Counters {
  std::atomic<std::int64_t> live, peak;
};

Counters unseen;
std::atomic<Counters*> counters = &unseen;

void add(std::int64_t bytes) {
  Counters& now = *counters.load(std::memory_order_relaxed);
  const std::int64_t live = now.live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::int64_t peak = now.peak.load(std::memory_order_relaxed);
  while (live > peak && !now.peak.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
  }
}

std::int64_t size_of(void* block) { return static_cast<std::int64_t>(malloc_usable_size(block)); }

void* counted(void* block) {
  if (block != nullptr) add(size_of(block));
  return block;
}

__attribute__((constructor)) void map_counters() {
  const char* const file = getenv("ALLOCATIONS_FILE");
  if (file == nullptr) return;
  const int opened = open(file, O_RDWR | O_CLOEXEC);
  unsetenv("ALLOCATIONS_FILE");
  unsetenv("LD_PRELOAD");
  if (opened < 0) return;
  void* const mapped =
      mmap(nullptr, sizeof(Counters), PROT_READ | PROT_WRITE, MAP_SHARED, opened, 0);
  close(opened);
  if (mapped == MAP_FAILED) return;
  counters.store(static_cast<Counters*>(mapped));
  add(unseen.live.load());
  pthread_atfork(nullptr, nullptr, [] { counters.store(&unseen); });
}

}  // namespace

extern "C" {

void* malloc(size_t size) { return counted(__libc_malloc(size)); }

void* calloc(size_t count, size_t size) { return counted(__libc_calloc(count, size)); }

void* realloc(void* block, size_t size) {
  const std::int64_t before = block == nullptr ? 0 : size_of(block);
  void* const grown = __libc_realloc(block, size);
  if (grown != nullptr) {
    add(size_of(grown) - before);
  } else if (size == 0) {
    add(-before);
  }
  return grown;
}

void* memalign(size_t alignment, size_t size) { return counted(__libc_memalign(alignment, size)); }

void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void** block, size_t alignment, size_t size) {
  if (alignment % sizeof(void*) != 0 || (alignment & (alignment - 1)) != 0) return EINVAL;
  void* const made = memalign(alignment, size);
  if (made == nullptr) return ENOMEM;
  *block = made;
  return 0;
}

void* valloc(size_t size) { return memalign(static_cast<size_t>(getpagesize()), size); }

void free(void* block) {
  if (block == nullptr) return;
  add(-size_of(block));
  __libc_free(block);
}

}  // extern "C"
