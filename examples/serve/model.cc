// SPDX-License-Identifier: Apache-2.0
#include "examples/serve/model.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "examples/serve/http_error.h"

namespace plimsoll::examples::serve {
namespace {

// What a request for the model must look like: `FP32[-1,8]`.
std::string array_text(const TensorSpec& spec) {
  std::vector<std::int64_t> shape = spec.shape;
  if (spec.has_rows) shape.front() = -1;
  return std::string(spec.type->name) + shape_text(shape);
}

class UnderWay {
 public:
  UnderWay(std::atomic<std::int64_t>& count, std::int64_t most, const std::string& model)
      : count_(count) {
    if (++count_ > most) {
      --count_;
      throw busy("model " + in_quotes(model) + " has " + std::to_string(most) +
                 " requests under way already ('queue' of its config.json)");
    }
  }
  ~UnderWay() { --count_; }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;

 private:
  std::atomic<std::int64_t>& count_;
};

}  // namespace

Model::Model(const Runtime& runtime, std::string name, std::int64_t version,
             const std::string& path, ModelConfig config)
    : name_(std::move(name)),
      form_(std::filesystem::path(path).extension().string().substr(1)),
      version_(version),
      config_(std::move(config)),
      program_(runtime, path, config_) {
  if (!config_.batching) return;
  if (config_.batching->check_rows) {
    check_rows(program_, config_.batching->rows,
               Clock::now() + std::chrono::milliseconds(config_.timeout_milliseconds));
  }
  batcher_ = std::make_unique<Batcher>(program_, *config_.batching, statistics_);
}

std::vector<const void*> Model::match_inputs(const InferRequest& request,
                                             std::int64_t& rows) const {
  const std::vector<TensorSpec>& specs = program_.inputs();
  std::vector<const InferInput*> matched(specs.size(), nullptr);
  rows = 0;
  for (const InferInput& input : request.inputs) {
    const auto spec = std::find_if(specs.begin(), specs.end(), [&](const TensorSpec& candidate) {
      return candidate.name == input.name;
    });
    if (spec == specs.end()) {
      throw bad_request("model " + in_quotes(name_) + " has no input " + in_quotes(input.name));
    }
    const InferInput*& place = matched[static_cast<std::size_t>(spec - specs.begin())];
    if (place != nullptr) throw bad_request("input " + in_quotes(input.name) + " is given twice");
    place = &input;
    std::vector<std::int64_t> expected = spec->shape;
    if (spec->has_rows && !input.shape.empty()) expected.front() = input.shape.front();
    if (input.type != spec->type || input.shape != expected) {
      throw bad_request("input " + in_quotes(input.name) + " is " + std::string(input.type->name) +
                        shape_text(input.shape) + ", must be " + array_text(*spec));
    }
    if (!spec->has_rows) continue;
    const std::int64_t its_rows = input.shape.front();
    if (its_rows < 1 || its_rows > spec->shape.front()) {
      throw bad_request("input " + in_quotes(input.name) + " has " + std::to_string(its_rows) +
                        " rows, must have 1 to " + std::to_string(spec->shape.front()));
    }
    if (rows != 0 && its_rows != rows) {
      throw bad_request("input " + in_quotes(input.name) + " has " + std::to_string(its_rows) +
                        " rows, another " + std::to_string(rows));
    }
    rows = its_rows;
  }
  std::vector<const void*> pointers;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (matched[i] == nullptr) {
      throw bad_request("no input " + in_quotes(specs[i].name) + ", which model " +
                        in_quotes(name_) + " needs as " + array_text(specs[i]));
    }
    // An array without elements may have no address.
    static constexpr std::byte kNone{};
    pointers.push_back(matched[i]->bytes == 0 ? &kNone : matched[i]->data);
  }
  return pointers;
}

std::vector<InferOutput> Model::wanted_outputs(const InferRequest& request, std::int64_t rows,
                                               std::vector<std::size_t>& places) const {
  const std::vector<TensorSpec>& specs = program_.outputs();
  std::vector<InferOutput> wanted;
  const auto want = [&](std::size_t i, bool binary) {
    const TensorSpec& spec = specs[i];
    if (!binary && !spec.type->in_json) {
      throw bad_request("output " + in_quotes(spec.name) + " is " + std::string(spec.type->name) +
                        ", which has no form in JSON (ask for binary_data)");
    }
    InferOutput output{spec.name, spec.type, spec.shape, binary, {}};
    if (spec.has_rows) output.shape.front() = rows;
    wanted.push_back(std::move(output));
    places.push_back(i);
  };
  if (request.outputs.empty()) {
    for (std::size_t i = 0; i < specs.size(); ++i) want(i, request.binary_outputs);
  }
  for (const RequestedOutput& output : request.outputs) {
    const auto spec = std::find_if(specs.begin(), specs.end(), [&](const TensorSpec& candidate) {
      return candidate.name == output.name;
    });
    if (spec == specs.end()) {
      throw bad_request("model " + in_quotes(name_) + " has no output " + in_quotes(output.name));
    }
    const auto i = static_cast<std::size_t>(spec - specs.begin());
    if (std::find(places.begin(), places.end(), i) != places.end()) {
      throw bad_request("output " + in_quotes(output.name) + " is asked for twice");
    }
    want(i, output.binary.value_or(request.binary_outputs));
  }
  return wanted;
}

std::vector<InferOutput> Model::infer(const InferRequest& request, Clock::time_point start,
                                      HostBudget::Lease& lease) {
  const auto deadline = start + std::chrono::milliseconds(config_.timeout_milliseconds);
  std::int64_t rows = 0;
  const std::vector<const void*> inputs = match_inputs(request, rows);
  std::vector<std::size_t> places;
  std::vector<InferOutput> outputs = wanted_outputs(request, rows, places);
  const UnderWay under_way(under_way_, config_.queue, name_);
  std::vector<void*> pointers(program_.outputs().size(), nullptr);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const TensorSpec& spec = program_.outputs()[places[i]];
    const std::size_t bytes = spec.has_rows
                                  ? spec.bytes / static_cast<std::size_t>(spec.shape.front()) *
                                        static_cast<std::size_t>(rows)
                                  : spec.bytes;
    if (!lease.grow(bytes)) throw busy("no host memory for the response now");
    outputs[i].elements.resize(std::max<std::size_t>(bytes, 1));
    pointers[places[i]] = outputs[i].elements.data();
    outputs[i].elements.resize(bytes);
  }
  if (batcher_ != nullptr) {
    batcher_->run(inputs, pointers, rows, deadline);
  } else {
    program_.run(inputs, pointers, deadline);
    statistics_.count_run(1, 1, Clock::duration::zero(), Clock::now() - start);
  }
  return outputs;
}

}  // namespace plimsoll::examples::serve
