// SPDX-License-Identifier: Apache-2.0
#include "examples/training/training_run.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "examples/training/text_format.h"
#include "runtime/base/sha256.h"

namespace plimsoll::examples {
namespace {

std::int64_t number(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number() ? found->get<std::int64_t>() : 0;
}

ContextOptions context_options(const TrainingOptions& options, const Communicator& communicator) {
  ContextOptions result;
  result.communicator = communicator;
  if (const auto limit = chosen_limit(options.memory_limit)) {
    // A share of the peak is found at the first step; until then there is none.
    result.memory_limit_bytes =
        limit->kind == MemoryLimit::Kind::bytes ? limit->bytes : PLM_NO_LIMIT;
  }
  result.planner = options.planner;
  result.remedies = options.remedies;
  result.seed = options.seed;
  return result;
}

}  // namespace

TrainingRun::TrainingRun(std::string program, const TrainingOptions& options,
                         const Communicator& communicator)
    : limit_(chosen_limit(options.memory_limit)),
      wants_floor_(limited_by_peak() || options.json || !options.report.empty()),
      context_(context_options(options, communicator)),
      scope_(context_) {
  report_.program = std::move(program);
  report_.planner = options.planner.empty() ? "default" : options.planner;
  report_.seed = options.seed;
  report_.batch = options.batch;
}

void TrainingRun::find_limit() {
  limit_found_ = true;
  if (wants_floor_) {
    const MemoryNeeds memory = context_.measure_step();
    report_.floor_bytes = memory.floor_bytes;
    report_.unlimited_peak_bytes = memory.unlimited_peak_bytes;
    if (limited_by_peak()) context_.set_limit(limit_->resolve({}, memory.unlimited_peak_bytes));
  }
  report_.limit_bytes = context_.memory().limit_bytes.value_or(0);
}

void TrainingRun::step(const Tensor& loss, optim::Optimizer& optimizer, double max_gradient_norm) {
  if (report_.steps.empty() && !pending_loss_.defined()) last_read_ = Clock::now();
  loss.backward();
  if (max_gradient_norm > 0) optim::clip_grad_norm(optimizer.parameters(), max_gradient_norm);
  optimizer.record_step();
  // This step was recorded while the one before ran. Its loss is released before the cut: at the
  // floor there is no room for it.
  read_pending_loss();
  if (!limit_found_) find_limit();
  context_.step();
  pending_loss_ = loss;
}

void TrainingRun::read_pending_loss() {
  if (!pending_loss_.defined()) return;
  StepRecord record;
  record.loss = pending_loss_.item<float>();
  pending_loss_ = Tensor();
  const Clock::time_point now = Clock::now();
  record.seconds = std::chrono::duration<double>(now - last_read_).count();
  last_read_ = now;
  report_.training_seconds += record.seconds;
  report_.steps.push_back(record);
}

void TrainingRun::finish_steps() {
  read_pending_loss();
  const nlohmann::json json = nlohmann::json::parse(context_.report());
  report_.planned_peak_bytes = number(json, "peak_bytes");
  report_.recomputed_bytes_per_step = number(json, "recomputed_bytes");
  for (const nlohmann::json& use : json.at("lossy")) {  // at most one: options name one codec
    report_.lossy_codec = use.at("codec");
    report_.lossy_encodes_per_step += number(use, "encodes");
  }
}

std::string TrainingRun::progress_text(const std::string& unit) const {
  if (report_.steps.empty()) return "compiling";
  const StepRecord& last = report_.steps.back();
  std::string text(160, '\0');
  const int size = std::snprintf(text.data(), text.size(), "loss %.4f  %.0f %s/s  peak %s",
                                 static_cast<double>(last.loss),
                                 static_cast<double>(report_.batch) / last.seconds, unit.c_str(),
                                 format_bytes(context_.memory().peak_bytes).c_str());
  text.resize(static_cast<std::size_t>(size));
  if (report_.limit_bytes > 0) text += "/" + format_bytes(report_.limit_bytes);
  return text;
}

RunReport& TrainingRun::finish(const nn::Module& model) {
  report_.parameters = model.parameter_count();
  report_.weights_sha256 = hash_of_weights(model);
  report_.measured_peak_bytes = context_.memory().peak_bytes;
  return report_;
}

std::string hash_of_weights(const nn::Module& model) {
  Sha256 hash;
  std::vector<std::byte> bytes;
  const auto add = [&](const std::vector<Tensor>& tensors) {
    for (const Tensor& tensor : tensors) {
      bytes.resize(static_cast<std::size_t>(tensor.byte_size()));
      tensor.read_bytes(bytes.data(), bytes.size());
      hash.update(bytes);
    }
  };
  add(model.parameters());
  add(model.buffers());
  return hash.finish();
}

}  // namespace plimsoll::examples
