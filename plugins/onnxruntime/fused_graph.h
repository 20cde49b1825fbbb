// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <plimsoll/plimsoll.h>

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plugins/onnxruntime/api.h"
#include "plugins/onnxruntime/model_bytes.h"

namespace plimsoll::ort {

// What runs in place of nodes: a model, and executables of it by the sizes of its inputs and the
// values of those that decide shapes. The ones that were used last are kept, up to
// kMostExecutables. Any thread may run it, at once as many as like: all runs together keep within
// the context's limit.
class FusedGraph : public abi::ComputeInfo {
 public:
  FusedGraph(const Api& api, std::shared_ptr<plm_context> context, std::string name);

  // Reads the graph; compiles it where the sizes of all inputs are known.
  Status* create(const abi::Graph* graph, const abi::Node* fused);
  Status* run(abi::KernelContext* context);

 private:
  static constexpr std::size_t kMostExecutables = 32;

  struct Input {
    std::vector<std::int64_t> dims;
    const void* data = nullptr;
  };
  struct Executable {
    std::vector<std::vector<std::int64_t>> dims;  // of the inputs
    std::vector<std::size_t> parameters;          // the input of each
    struct Known {
      std::size_t input;
      std::string bytes;
    };
    std::vector<Known> known;  // inputs whose values are part of it
    std::vector<std::vector<std::int64_t>> result_dims;
    std::shared_ptr<plm_executable> handle;
  };

  Status* read_inputs(abi::KernelContext* context, std::vector<Input>& out) const;
  Status* executable_for(const std::vector<Input>& inputs, std::shared_ptr<const Executable>& out);
  Status* compile(const std::vector<Input>& inputs, Executable& out) const;
  bool serves(const Executable& executable, const std::vector<Input>& inputs) const;
  std::size_t input_bytes(std::size_t i, const std::vector<std::int64_t>& dims) const;

  const Api& api_;
  const std::shared_ptr<plm_context> context_;
  const std::string name_;
  Part part_;          // without nodes once it was read
  std::string bytes_;  // of the model; empty once nothing else can be compiled of it
  std::mutex mutex_;
  std::list<std::shared_ptr<const Executable>> executables_;  // used last first
};

}  // namespace plimsoll::ort
