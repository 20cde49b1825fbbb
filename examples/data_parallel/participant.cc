// SPDX-License-Identifier: Apache-2.0
#include "examples/data_parallel/participant.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "examples/data_parallel/agreement.h"
#include "examples/training/progress_bar.h"
#include "examples/training/training_run.h"

namespace plimsoll::examples {
namespace {

std::unique_ptr<optim::Optimizer> make_optimizer(const ParallelOptions& options,
                                                 std::vector<Tensor> parameters) {
  double rate = options.learning_rate;
  if (rate == 0) rate = options.optimizer == "adamw" ? 2e-3 : options.model == "gpt" ? 0.05 : 0.01;
  if (options.optimizer == "adamw") {
    return std::make_unique<optim::AdamW>(
        std::move(parameters), optim::AdamOptions{.learning_rate = rate, .weight_decay = 0.01});
  }
  return std::make_unique<optim::Sgd>(std::move(parameters),
                                      optim::SgdOptions{.learning_rate = rate, .momentum = 0.9});
}

// The rows of everybody, a row each.
template <typename T>
std::vector<T> from_all(const DataParallel& parallel, const std::vector<T>& row) {
  if (parallel.participants() == 1) return row;
  return all_gather(Tensor::from_host(row, {1, std::ssize(row)})).template to_vector<T>();
}

void check_equal(const DataParallel& parallel, const std::string& hash) {
  const std::vector<std::uint8_t> own(hash.begin(), hash.end());
  const std::vector<std::uint8_t> all = from_all(parallel, own);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == all[i % own.size()]) continue;
    throw Error(ErrorCode::internal, "the weights of participant " +
                                         std::to_string(i / own.size()) +
                                         " differ from those of participant 0");
  }
}

ParallelResult train(const ParallelOptions& options, const ParallelData& data,
                     const Communicator& communicator) {
  TrainingOptions of_run = options;
  of_run.json = false;  // this program prints no floor, which takes time to find
  TrainingRun run("data_parallel", of_run, communicator);
  agree(agreed_options(options, data), communicator.defined() ? communicator.size() : 1);
  const std::unique_ptr<Task> task = make_task(options, data);
  task->model().materialize();
  DataParallel parallel(task->model(),
                        {.bucket_bytes = options.bucket_bytes, .sharding = options.sharding});
  const std::int64_t self = parallel.participant(), parts = parallel.participants();
  if (options.batch % parts != 0) {
    throw Error(ErrorCode::invalid_argument, "--batch " + std::to_string(options.batch) +
                                                 " is no multiple of the " + std::to_string(parts) +
                                                 " participants");
  }
  const auto optimizer = make_optimizer(options, parallel.parameters());
  // Everybody has all parameters once, when they are made.
  run.context().wait();
  const std::int64_t made_peak = run.context().memory().peak_bytes;
  run.context().reset_peak();
  ProgressBar bar("training", options.steps, !options.no_progress && self == 0);
  for (std::int64_t step = 0; step < options.steps; ++step) {
    run.step(task->next_loss(self, parts), *optimizer);
    bar.update(step + 1, run.progress_text("examples"));
  }
  run.finish_steps();
  bar.update(options.steps, run.progress_text("examples"));
  bar.finish();

  ParallelResult result;
  const std::int64_t steps_peak = run.context().memory().peak_bytes;
  parallel.broadcast_buffers();
  const RunReport& report = run.finish(task->model());
  result.weights_sha256 = report.weights_sha256;
  result.median_step_seconds = report.median_step_seconds();
  if (!options.report.empty() && self == 0) write_report(report, options.report);
  check_equal(parallel, result.weights_sha256);
  std::int64_t optimizer_bytes = 0;
  for (const Tensor& state : optimizer->state()) optimizer_bytes += state.byte_size();
  if (options.sharding != Sharding::none && parts > 1) {
    for (const Tensor& share : parallel.parameters()) optimizer_bytes += share.byte_size();
  }
  const std::vector<std::int64_t> memory = from_all<std::int64_t>(
      parallel, {std::max(made_peak, steps_peak), steps_peak, report.limit_bytes,
                 report.unlimited_peak_bytes, optimizer_bytes});
  for (std::size_t i = 0; i < memory.size(); i += 5) {
    result.memory.push_back(
        {memory[i], memory[i + 1], memory[i + 2], memory[i + 3], memory[i + 4]});
  }
  const std::vector<float> losses = from_all<float>(parallel, {report.final_loss()});
  for (const float loss : losses) result.loss += static_cast<double>(loss);
  result.loss /= static_cast<double>(parts);
  for (const Tensor& parameter : task->model().parameters()) {
    result.weights.push_back(parameter.to_vector<float>());
  }
  return result;
}

}  // namespace

ParallelResult train_participant(const ParallelOptions& options, const ParallelData& data,
                                 const Communicator& communicator) {
  try {
    return train(options, data, communicator);
  } catch (const Error& error) {
    if (communicator.defined()) communicator.leave(error);
    throw;
  }
}

std::vector<ParallelResult> train_threads(const ParallelOptions& options,
                                          const ParallelData& data) {
  std::vector<Communicator> communicators =
      Communicator::local(static_cast<std::size_t>(options.participants));
  std::vector<ParallelResult> results(communicators.size());
  std::mutex mutex;  // guards what follows
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        results[i] = train_participant(options, data, communicators[i]);
      } catch (const Error&) {
        const std::lock_guard lock(mutex);
        if (first == nullptr) first = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first != nullptr) std::rethrow_exception(first);
  return results;
}

double weight_difference(const ParallelResult& a, const ParallelResult& b) {
  double greatest = 0;
  for (std::size_t t = 0; t < b.weights.size(); ++t) {
    double difference = 0, largest = 0;
    for (std::size_t i = 0; i < b.weights[t].size(); ++i) {
      const double x = static_cast<double>(a.weights[t][i]);
      const double y = static_cast<double>(b.weights[t][i]);
      difference = std::max(difference, std::abs(x - y));
      largest = std::max(largest, std::abs(y));
    }
    if (difference > 0) greatest = std::max(greatest, difference / largest);
  }
  return greatest;
}

}  // namespace plimsoll::examples
