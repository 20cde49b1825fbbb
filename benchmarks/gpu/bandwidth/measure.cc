// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/gpu/bandwidth/measure.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <sstream>
#include <utility>

#include "benchmarks/gpu/timing/device_timer.h"
#include "benchmarks/kernel_bandwidth/cases.h"
#include "runtime/base/byte_size.h"
#include "runtime/base/index.h"
#include "runtime/ir/literal.h"

namespace plimsoll::benchmarks {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Device memory that all rows share; grows as they ask for more.
class SharedBuffers {
 public:
  explicit SharedBuffers(std::shared_ptr<device::Device> device) : device_(std::move(device)) {}
  ~SharedBuffers() {
    for (auto& [bytes, pointer] : owned_) device_->deallocate(pointer, bytes);
  }
  SharedBuffers(const SharedBuffers&) = delete;
  SharedBuffers& operator=(const SharedBuffers&) = delete;

  // The i-th, of at least `bytes`.
  Result<void*> at(std::size_t i, std::int64_t bytes) {
    if (owned_.size() <= i) owned_.resize(i + 1, {0, nullptr});
    auto& [size, pointer] = owned_[i];
    if (size >= bytes && pointer != nullptr) return pointer;
    if (pointer != nullptr) device_->deallocate(std::exchange(pointer, nullptr), size);
    PLIMSOLL_ASSIGN_OR_RETURN(pointer, device_->allocate(bytes));
    size = bytes;
    return pointer;
  }

 private:
  std::shared_ptr<device::Device> device_;
  std::vector<std::pair<std::int64_t, void*>> owned_;
};

// A pattern of numbers in [0.5, 1.5) (of other dtypes 0 and 1), repeated, by copies on the device.
Status fill(device::Stream& stream, void* data, const ir::Shape& shape) {
  constexpr std::int64_t kPattern = 4096;  // elements
  ir::Literal pattern(ir::Shape(shape.dtype(), {std::min(kPattern, shape.element_count())}));
  const bool is_float = ir::is_floating(shape.dtype());
  for (std::int64_t i = 0; i < pattern.shape().element_count(); ++i) {
    pattern.set(i,
                is_float ? 0.5 + static_cast<double>(i % 997) / 997 : static_cast<double>(i % 2));
  }
  const std::int64_t total = shape.byte_size();
  std::int64_t filled = pattern.shape().byte_size();
  auto* const bytes = static_cast<std::byte*>(data);
  PLIMSOLL_RETURN_IF_ERROR(
      stream.copy(data, pattern.bytes().data(), filled, device::CopyKind::host_to_device));
  while (filled < total) {
    const std::int64_t more = std::min(filled, total - filled);
    PLIMSOLL_RETURN_IF_ERROR(
        stream.copy(bytes + filled, data, more, device::CopyKind::device_to_device));
    filled += more;
  }
  return stream.synchronize();
}

// A kernel's pointers, of one set of buffers.
struct Pointers {
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  void* workspace = nullptr;
};

struct AskedRow {
  BandwidthRow row;
  PreparedCase prepared;
  std::shared_ptr<const device::Kernel> kernel;
};

class Bench {
 public:
  Bench(device::KernelProvider& provider, const BandwidthOptions& options)
      : provider_(provider), options_(options), buffers_(provider.device()) {}

  Result<BandwidthReport> run() {
    PLIMSOLL_RETURN_IF_ERROR(ask());
    PLIMSOLL_ASSIGN_OR_RETURN(auto timer, DeviceTimer::create(*provider_.device()));
    timer_ = std::make_unique<DeviceTimer>(std::move(timer));
    make_kernels();
    PLIMSOLL_RETURN_IF_ERROR(measure_launches());
    for (AskedRow& asked : asked_) {
      const BandwidthRow& row = asked.row;
      if (seconds_since(start_) > options_.seconds) {
        report_.left_out.push_back(row.name + " " + row.dtype + " " +
                                   format_bytes(row.array_bytes));
        continue;
      }
      if (row.error.empty()) {
        const Status status = measure(asked);
        if (!status.ok()) asked.row.error = status.message();
      }
      report_.rows.push_back(std::move(asked.row));
    }
    std::stable_sort(report_.rows.begin(), report_.rows.end(),
                     [](const BandwidthRow& a, const BandwidthRow& b) {
                       return std::pair(!a.loses(), a.ratio) < std::pair(!b.loses(), b.ratio);
                     });
    return std::move(report_);
  }

 private:
  Status ask() {
    const auto& names = options_.cases.empty() ? default_bandwidth_cases() : options_.cases;
    for (const std::string& name : names) {
      const auto& all = bandwidth_cases();
      const auto found = std::find_if(all.begin(), all.end(),
                                      [&](const BandwidthCase& c) { return name == c.name; });
      if (found == all.end()) {
        return invalid_argument("'" + name + "' is no case (kernel_bandwidth --list names them)");
      }
      std::istringstream words(found->dtypes);
      for (std::string dtype; words >> dtype;) {
        const auto& dtypes = options_.dtypes;
        if (std::find(dtypes.begin(), dtypes.end(), dtype) == dtypes.end()) continue;
        for (const std::int64_t bytes : options_.array_bytes) {
          AskedRow asked;
          asked.row.name = name;
          asked.row.dtype = dtype;
          asked.row.array_bytes = bytes;
          asked.row.aim = 0.9;
          PLIMSOLL_ASSIGN_OR_RETURN(asked.prepared, prepare(*found, dtype, bytes));
          asked.row.bytes = asked.prepared.bytes;
          asked_.push_back(std::move(asked));
        }
      }
    }
    return ok_status();
  }

  void make_kernels() {
    std::vector<const ir::Instruction*> fusions;
    for (const AskedRow& asked : asked_) fusions.push_back(asked.prepared.fusion);
    auto made = provider_.kernels(fusions);
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (made[i].ok()) {
        asked_[i].kernel = std::move(*made[i]);
      } else {
        asked_[i].row.error = made[i].status().message();
      }
    }
  }

  std::int64_t rotated_bytes() const {
    return options_.rotated_bytes > 0 ? options_.rotated_bytes
                                      : 4 * provider_.device()->properties().near_memory_bytes;
  }

  // As many launches as last the time asked for, by a fast device's memory, and go over all sets.
  int launches(std::int64_t bytes, std::int64_t sets) const {
    constexpr double kFast = 3e12;  // bytes per second
    const double many = options_.timed_seconds * kFast / static_cast<double>(bytes);
    const auto least = static_cast<double>(std::min<std::int64_t>(sets, options_.most_launches));
    return static_cast<int>(
        std::clamp(many, std::max(1.0, least), static_cast<double>(options_.most_launches)));
  }

  Result<std::unique_ptr<device::Graph>> keep_copies(std::int64_t bytes, int& count) {
    const std::int64_t sets = std::max<std::int64_t>(divide_up(rotated_bytes(), 2 * bytes), 1);
    std::vector<void*> from, to;
    std::size_t next = 0;
    for (std::int64_t set = 0; set < sets; ++set) {
      PLIMSOLL_ASSIGN_OR_RETURN(void* source, buffers_.at(next++, bytes));
      PLIMSOLL_ASSIGN_OR_RETURN(void* destination, buffers_.at(next++, bytes));
      from.push_back(source);
      to.push_back(destination);
    }
    count = launches(2 * bytes, sets);
    return timer_->keep(count, [&](int i) {
      const std::size_t set = static_cast<std::size_t>(i) % from.size();
      return timer_->stream().copy(to[set], from[set], bytes, device::CopyKind::device_to_device);
    });
  }

  Result<std::vector<Pointers>> make_pointers(const AskedRow& asked, std::int64_t sets) {
    std::vector<Pointers> all(at(sets));
    std::size_t next = 0;
    const auto& operands = asked.prepared.fusion->operands();
    const auto leaves = ir::leaves(asked.prepared.fusion->shape());
    for (Pointers& pointers : all) {
      for (const ir::Instruction* operand : operands) {
        PLIMSOLL_ASSIGN_OR_RETURN(void* data, buffers_.at(next++, operand->shape().byte_size()));
        pointers.inputs.push_back(data);
      }
      for (std::size_t i = 0; i < leaves.size(); ++i) {
        const int operand = asked.prepared.in_place[i];
        if (operand >= 0) {
          pointers.outputs.push_back(const_cast<void*>(pointers.inputs[at(operand)]));
          continue;
        }
        PLIMSOLL_ASSIGN_OR_RETURN(void* data, buffers_.at(next++, leaves[i]->byte_size()));
        pointers.outputs.push_back(data);
      }
      PLIMSOLL_ASSIGN_OR_RETURN(
          pointers.workspace,
          buffers_.at(next++, std::max<std::int64_t>(asked.kernel->workspace_bytes(), 64)));
    }
    // Not before all buffers are where they stay.
    for (const Pointers& pointers : all) {
      for (std::size_t i = 0; i < operands.size(); ++i) {
        PLIMSOLL_RETURN_IF_ERROR(
            fill(timer_->stream(), const_cast<void*>(pointers.inputs[i]), operands[i]->shape()));
      }
    }
    return all;
  }

  Status launch(const device::Kernel& kernel, const Pointers& pointers) {
    return timer_->stream().launch(kernel, {pointers.inputs, pointers.outputs, pointers.workspace});
  }

  Status measure(AskedRow& asked) {
    BandwidthRow& row = asked.row;
    const std::int64_t sets =
        std::max<std::int64_t>(divide_up(rotated_bytes(), std::max<std::int64_t>(row.bytes, 1)), 1);
    PLIMSOLL_ASSIGN_OR_RETURN(const auto pointers, make_pointers(asked, sets));
    // In a stream first: errors of a kernel are found where it is alone.
    PLIMSOLL_RETURN_IF_ERROR(launch(*asked.kernel, pointers[0]));
    PLIMSOLL_RETURN_IF_ERROR(timer_->stream().synchronize());
    const int count = launches(row.bytes, sets);
    PLIMSOLL_ASSIGN_OR_RETURN(const auto graph, timer_->keep(count, [&](int i) {
      return launch(*asked.kernel, pointers[static_cast<std::size_t>(i) % pointers.size()]);
    }));
    int copies = 1;
    PLIMSOLL_ASSIGN_OR_RETURN(const auto copying, keep_copies(row.array_bytes, copies));
    std::vector<double> seconds, copy_seconds, ratios;
    for (int round = 0; round < options_.rounds; ++round) {
      PLIMSOLL_ASSIGN_OR_RETURN(const double of_copies, timer_->seconds_of(*copying));
      PLIMSOLL_ASSIGN_OR_RETURN(const double of_kernel, timer_->seconds_of(*graph));
      copy_seconds.push_back(of_copies / copies);
      seconds.push_back(of_kernel / count);
      ratios.push_back(static_cast<double>(row.bytes) / seconds.back() /
                       (2 * static_cast<double>(row.array_bytes) / copy_seconds.back()));
    }
    row.seconds = median(seconds);
    row.copy_seconds = median(copy_seconds);
    row.ratio = median(ratios);
    return ok_status();
  }

  Status measure_launches() {
    const auto& all = bandwidth_cases();
    const auto add = std::find_if(all.begin(), all.end(), [](const BandwidthCase& c) {
      return std::string_view(c.name) == "add";
    });
    AskedRow asked;
    PLIMSOLL_ASSIGN_OR_RETURN(asked.prepared, prepare(*add, "f32", 1024));
    PLIMSOLL_ASSIGN_OR_RETURN(asked.kernel, provider_.kernel(*asked.prepared.fusion));
    PLIMSOLL_ASSIGN_OR_RETURN(const auto pointers, make_pointers(asked, 1));
    const int count = options_.most_launches;
    const auto one = [&](int) { return launch(*asked.kernel, pointers[0]); };
    PLIMSOLL_ASSIGN_OR_RETURN(const auto graph, timer_->keep(count, one));
    std::vector<double> apart, together;
    for (int round = 0; round < options_.rounds; ++round) {
      PLIMSOLL_ASSIGN_OR_RETURN(const double by_stream, timer_->seconds_of([&] {
        Status status;
        for (int i = 0; i < count && status.ok(); ++i) status = one(i);
        return status;
      }));
      PLIMSOLL_ASSIGN_OR_RETURN(const double by_graph, timer_->seconds_of(*graph));
      apart.push_back(by_stream / count);
      together.push_back(by_graph / count);
    }
    report_.launch_seconds = median(apart);
    report_.graph_launch_seconds = median(together);
    return ok_status();
  }

  device::KernelProvider& provider_;
  const BandwidthOptions& options_;
  const Clock::time_point start_ = Clock::now();
  SharedBuffers buffers_;
  std::vector<AskedRow> asked_;
  std::unique_ptr<DeviceTimer> timer_;
  BandwidthReport report_;
};

}  // namespace

const std::vector<std::string>& default_bandwidth_cases() {
  static const std::vector<std::string> names = {"copy",
                                                 "add",
                                                 "chain_of_6",
                                                 "gelu_of_tanh",
                                                 "gelu_of_erf",
                                                 "bias_and_relu",
                                                 "adam",
                                                 "sum_rows",
                                                 "sum_short_rows",
                                                 "sum_columns",
                                                 "sum_few_columns",
                                                 "sum_all",
                                                 "bias_gradient",
                                                 "softmax_of_64",
                                                 "softmax_of_1024",
                                                 "softmax_of_16384",
                                                 "layer_norm_of_256",
                                                 "layer_norm_of_1024",
                                                 "layer_norm_of_16384",
                                                 "softmax_gradient_of_1024",
                                                 "layer_norm_gradient_of_1024",
                                                 "heads_first",
                                                 "transpose",
                                                 "channels_last"};
  return names;
}

Result<BandwidthReport> measure_bandwidth(device::KernelProvider& provider,
                                          const BandwidthOptions& options) {
  return Bench(provider, options).run();
}

}  // namespace plimsoll::benchmarks
