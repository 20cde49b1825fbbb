// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace plimsoll::device {

// A non-owning reference to a callable `void(int64 begin, int64 end)`.
class RangeBody {
 public:
  template <typename F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, RangeBody>)
  RangeBody(F&& body)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(body)))),
        call_([](void* object, std::int64_t begin, std::int64_t end) {
          (*static_cast<std::remove_reference_t<F>*>(object))(begin, end);
        }) {}
  void operator()(std::int64_t begin, std::int64_t end) const { call_(object_, begin, end); }

 private:
  void* object_;
  void (*call_)(void*, std::int64_t, std::int64_t);
};

// Runs `body` over [0, count) in pieces of at least `grain` on the shared pool (oneTBB), the
// calling thread included; serial when count <= grain and on a thread with a OneThread. Which
// thread gets which piece is unspecified: bodies must write disjoint results that do not depend on
// the cut. `body` must not throw.
void parallel_for(std::int64_t count, std::int64_t grain, RangeBody body);

// Threads parallel_for may use (PLIMSOLL_NUM_THREADS, else the CPUs this process may run on).
int thread_count();
// For tests and the context's options; takes effect at the next parallel_for. Thread-safe.
void set_thread_count(int threads);

}  // namespace plimsoll::device
