// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "examples/serve/batcher.h"
#include "examples/serve/infer_request.h"
#include "examples/serve/program.h"

namespace plimsoll::examples::serve {

struct InferOutput {
  std::string name;
  const TensorType* type = nullptr;
  std::vector<std::int64_t> shape;
  bool binary = false;
  std::vector<std::byte> elements;
};

// One version of a model, loaded. Any thread.
class Model {
 public:
  // Throws std::runtime_error.
  Model(const Runtime& runtime, std::string name, std::int64_t version, const std::string& path,
        ModelConfig config);

  const std::string& name() const { return name_; }
  std::int64_t version() const { return version_; }
  // The ending of its file: "hlo", "mlirbc", "pb", "onnx".
  const std::string& form() const { return form_; }
  const Program& program() const { return program_; }
  const ModelConfig& config() const { return config_; }
  ModelStatistics& statistics() { return statistics_; }

  // Throws HttpError: 400 where the request is not one for this model, 503 where it can't be served
  // now; its time counts from `start`. `lease` grows by the host memory that the outputs take.
  std::vector<InferOutput> infer(const InferRequest& request, Clock::time_point start,
                                 HostBudget::Lease& lease);

 private:
  std::vector<const void*> match_inputs(const InferRequest& request, std::int64_t& rows) const;
  std::vector<InferOutput> wanted_outputs(const InferRequest& request, std::int64_t rows,
                                          std::vector<std::size_t>& places) const;

  const std::string name_, form_;
  const std::int64_t version_;
  const ModelConfig config_;
  ModelStatistics statistics_;
  const Program program_;
  std::atomic<std::int64_t> under_way_{0};
  std::unique_ptr<Batcher> batcher_;  // null: requests run one by one; uses what stands before it
};

}  // namespace plimsoll::examples::serve
