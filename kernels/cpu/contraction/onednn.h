// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <initializer_list>
#include <mutex>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cpu/contraction/openmp.h"
#include "runtime/base/fork.h"
#include "runtime/base/status.h"
#include "runtime/ir/dtype.h"

// How the library is used here: every primitive is created for, and runs on, one thread, inside a
// task of our own pool, and the cut into tasks depends on shapes alone. So oneDNN's OpenMP threads
// never exist beside ours, and bits do not depend on how many threads there are.
namespace plimsoll::kernels::onednn {

// The OpenMP thread count of the calling thread is one while this lives; restored afterwards. It is
// a per-thread setting: no other thread sees it.
class SingleThreadScope {
 public:
  SingleThreadScope() : saved_(omp_get_max_threads()) {
    if (saved_ != 1) omp_set_num_threads(1);
  }
  ~SingleThreadScope() {
    if (saved_ != 1) omp_set_num_threads(saved_);
  }
  SingleThreadScope(const SingleThreadScope&) = delete;
  SingleThreadScope& operator=(const SingleThreadScope&) = delete;

 private:
  int saved_;
};

const dnnl::engine& cpu_engine();

// oneDNN's name of a dtype it can compute with; empty for the others.
std::optional<dnnl::memory::data_type> data_type(ir::DType dtype);

inline std::int64_t bytes_of(const dnnl::memory::desc& desc) {
  return static_cast<std::int64_t>(desc.get_size());
}

// Scratchpads come from the caller, so that workspaces are known before a launch.
dnnl::primitive_attr user_scratchpad();

// True when the library has nothing but its slow reference code for this primitive.
bool is_reference(const char* implementation);

// Runs `body`, single-threaded, and turns what it throws into a status that starts with `what`.
template <typename F>
Status guarded(const char* what, F&& body) {
  const SingleThreadScope one_thread;
  try {
    body();
    return ok_status();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::resource_exhausted, std::string(what) + ": out of host memory");
  } catch (const std::exception& error) {
    return internal_error(std::string(what) + ": " + error.what());
  }
}

// The same for a body that makes primitives, which oneDNN keeps in a cache of the process: a child
// forked meanwhile would find its locks taken.
template <typename F>
Status guarded_making(const char* what, F&& body) {
  const NoForkScope whole;
  return guarded(what, body);
}

struct Argument {
  int id;
  dnnl::memory::desc desc;
};

// A primitive with its memory objects, to run many times on the calling thread. May throw; make and
// use inside `guarded`. Not thread-safe: one per task.
class Execution {
 public:
  Execution(const dnnl::primitive& primitive, const std::vector<Argument>& arguments);
  // One pointer per argument, in their order.
  void run(std::initializer_list<const void*> data);

 private:
  const dnnl::primitive& primitive_;
  dnnl::stream stream_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

// Keeps the first failure of parallel tasks. Thread-safe.
class FirstFailure {
 public:
  void add(Status status) {
    if (status.ok()) return;
    const std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = std::move(status);
  }
  Status status() const { return status_; }

 private:
  std::mutex mutex_;
  Status status_;
};

}  // namespace plimsoll::kernels::onednn
