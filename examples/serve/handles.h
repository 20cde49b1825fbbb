// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "plimsoll/plimsoll.h"

namespace plimsoll::examples::serve {

struct Release {
  void operator()(plm_context* context) const { plm_context_destroy(context); }
  void operator()(plm_executable* executable) const { plm_executable_destroy(executable); }
  void operator()(plm_tensor* tensor) const { plm_tensor_release(tensor); }
  void operator()(plm_array_file* file) const { plm_array_file_close(file); }
  void operator()(plm_cancellation* cancellation) const { plm_cancellation_destroy(cancellation); }
};

using ContextHandle = std::unique_ptr<plm_context, Release>;
using ExecutableHandle = std::unique_ptr<plm_executable, Release>;
using TensorHandle = std::unique_ptr<plm_tensor, Release>;
using ArrayFileHandle = std::unique_ptr<plm_array_file, Release>;
using CancellationHandle = std::unique_ptr<plm_cancellation, Release>;

}  // namespace plimsoll::examples::serve
