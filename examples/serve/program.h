// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "examples/serve/handles.h"
#include "examples/serve/host_budget.h"
#include "examples/serve/model_config.h"
#include "examples/serve/statistics.h"
#include "examples/serve/tensor_types.h"

namespace plimsoll::examples::serve {

// What all models of a server share. Outlives them.
struct Runtime {
  plm_context* context = nullptr;            // whose limit all runs are under
  plm_cancellation* cancellation = nullptr;  // of all runs; null: none
  HostBudget* host = nullptr;
  std::mutex* turn = nullptr;  // of what one thread at a time may do with the context: its tensors
};

// An input or output of a program.
struct TensorSpec {
  std::string name;
  const TensorType* type = nullptr;
  std::vector<std::int64_t> shape;
  std::size_t bytes = 0;
  bool has_rows = false;  // the leading dim is that of requests which share a run
};

// A compiled model: runs once on whole arrays. Immutable; any thread.
class Program {
 public:
  // With a file weights.safetensors beside the program, its arrays are the parameters of these
  // names: in device memory for as long as the program is there, and no inputs. Throws
  // std::runtime_error: the library's message, or what the protocol can't say of it.
  Program(const Runtime& runtime, const std::string& path, const ModelConfig& config);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  const std::vector<TensorSpec>& inputs() const { return inputs_; }
  const std::vector<TensorSpec>& outputs() const { return outputs_; }
  std::int64_t peak_bytes() const { return plm_executable_peak(executable_.get()); }

  // One pointer per input and per output (null: not wanted), dense and row-major. Waits for memory
  // until the deadline; throws HttpError, and has then written nothing.
  void run(std::span<const void* const> inputs, std::span<void* const> outputs,
           Clock::time_point deadline) const;

 private:
  void open(const std::string& path, const ModelConfig& config);
  void release();
  void load(const std::string& path, const plm_executable_options& options);
  void bind_weights(const std::string& path, const std::string& weights,
                    plm_executable_options options);

  const Runtime runtime_;
  ExecutableHandle executable_;
  std::vector<bool> is_bound_;       // per parameter
  std::vector<std::size_t> places_;  // of the inputs among the parameters
  std::vector<TensorSpec> inputs_, outputs_;
};

// Runs the program on rows of numbers to see whether a row's results depend on where it stands and
// on what the others hold: kernels are chosen by shapes alone, so an order of sums that differs
// between rows shows on any numbers. Throws std::runtime_error, which names output and row.
void check_rows(const Program& program, std::int64_t rows, Clock::time_point deadline);

}  // namespace plimsoll::examples::serve
