// SPDX-License-Identifier: Apache-2.0
// kernel_bandwidth [--case TEXT]... [--dtype NAME]... [--threads N]... [--megabytes N] [--rounds N]
// [--dump FOLDER] [--list]: bytes per second of fused kernels over those of a STREAM triad, each
// kernel in turns with the triad in one run. The triad is the faster one of plain and streaming
// stores. Prints one JSON object; `ratio` is the median over rounds. `--case` takes part of a name
// or a group.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "benchmarks/command_line/command_line.h"
#include "benchmarks/kernel_bandwidth/cases.h"
#include "benchmarks/kernel_bandwidth/triad.h"
#include "jit/jit.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/ir/literal.h"

namespace {

using namespace plimsoll;
using namespace plimsoll::benchmarks;
using Json = nlohmann::ordered_json;

struct Arguments {
  std::vector<std::string> cases, dtypes;
  std::vector<int> threads;
  std::int64_t megabytes = 64;
  int rounds = 7;
  std::string dump;
  bool list = false;
};

// The exit status of a program that must end here.
std::optional<int> read_flags(int argc, char** argv, Arguments& arguments) {
  CommandLine line("The bandwidth of fused kernels beside a triad.", "kernel_bandwidth");
  std::set<std::string> dtypes;
  std::string names;
  for (const BandwidthCase& c : bandwidth_cases()) {
    names += std::string(c.name) + " ";
    std::istringstream words(c.dtypes);
    for (std::string dtype; words >> dtype;) dtypes.insert(dtype);
  }
  const auto is_in_a_name = [&](const std::string& text) {
    return names.find(text) != std::string::npos
               ? std::string()
               : "'" + text + "' is in no case's name (--list names them)";
  };
  line.add("--case", arguments.cases, "Cases whose name contains this", {.error = is_in_a_name});
  line.add("--dtype", arguments.dtypes, "Only these", {.one_of = dtypes});
  line.add("--threads", arguments.threads, "All, and one", {.least = 1, .most = 1024});
  line.add("--megabytes", arguments.megabytes, "Of an array", {.least = 1, .most = 4096});
  line.add("--rounds", arguments.rounds, "Of every case", {.least = 1, .most = 1000});
  line.add("--dump", arguments.dump, "Folder that gets the kernels' LLVM IR");
  line.add_flag("--list", arguments.list, "Names the cases and ends");
  if (const auto status = line.read(argc, argv)) return status;
  if (arguments.threads.empty()) {
    arguments.threads.push_back(device::thread_count());
    if (device::thread_count() > 1) arguments.threads.push_back(1);
  }
  return std::nullopt;
}

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Buffers that all cases share: arrays of numbers near 1 for operands, others for results.
class Buffers {
 public:
  ~Buffers() {
    for (auto& [bytes, pointer] : owned_) device_->deallocate(pointer, bytes);
  }
  // The i-th, of at least `bytes`.
  Result<void*> at(std::size_t i, std::int64_t bytes) {
    if (owned_.size() <= i) owned_.resize(i + 1, {0, nullptr});
    auto& [size, pointer] = owned_[i];
    if (size >= bytes) return pointer;
    if (pointer != nullptr) device_->deallocate(pointer, size);
    pointer = nullptr;
    size = 0;
    PLIMSOLL_ASSIGN_OR_RETURN(pointer, device_->allocate(bytes));
    size = bytes;
    std::memset(pointer, 0, static_cast<std::size_t>(bytes));
    return pointer;
  }

 private:
  std::shared_ptr<device::Device> device_ = device::cpu_device();
  std::vector<std::pair<std::int64_t, void*>> owned_;
};

// Numbers in [0.5, 1.5) of any floating dtype; others alternate 0 and 1.
void fill(void* data, const ir::Shape& shape) {
  constexpr std::int64_t kPattern = 4096;  // elements, repeated
  ir::Literal pattern(ir::Shape(shape.dtype(), {std::min(kPattern, shape.element_count())}));
  const bool is_float = ir::is_floating(shape.dtype());
  for (std::int64_t i = 0; i < pattern.shape().element_count(); ++i) {
    pattern.set(i,
                is_float ? 0.5 + static_cast<double>(i % 997) / 997 : static_cast<double>(i % 2));
  }
  const auto bytes = pattern.bytes();
  const auto block = static_cast<std::int64_t>(bytes.size());
  const std::int64_t total = shape.byte_size();
  for (std::int64_t at = 0; at < total; at += block) {
    std::memcpy(static_cast<std::byte*>(data) + at, bytes.data(),
                static_cast<std::size_t>(std::min(block, total - at)));
  }
}

class Bench {
 public:
  explicit Bench(const Arguments& arguments) : arguments_(arguments) {}

  Status run() {
    jit::Options options;
    options.dump.folder = arguments_.dump;
    options.dump.llvm = !arguments_.dump.empty();
    PLIMSOLL_ASSIGN_OR_RETURN(compiler_, jit::Compiler::create(options));
    PLIMSOLL_ASSIGN_OR_RETURN(stream_, device_->create_stream());
    PLIMSOLL_RETURN_IF_ERROR(make_triad());
    for (const BandwidthCase& c : bandwidth_cases()) {
      std::istringstream dtypes(c.dtypes);
      for (std::string dtype; dtypes >> dtype;) {
        if (!is_asked(c, dtype)) continue;
        if (arguments_.list) {
          report_["cases"].push_back(std::string(c.name) + " " + dtype);
          continue;
        }
        PLIMSOLL_RETURN_IF_ERROR(measure(c, dtype));
      }
    }
    if (!arguments_.list) {
      PLIMSOLL_RETURN_IF_ERROR(measure_launch());
      summarize();
    }
    std::cout << report_.dump(1) << '\n';
    return ok_status();
  }

 private:
  bool is_asked(const BandwidthCase& c, const std::string& dtype) const {
    const auto any = [](const std::vector<std::string>& all, const auto& matches) {
      return all.empty() || std::any_of(all.begin(), all.end(), matches);
    };
    return any(arguments_.cases,
               [&](const std::string& part) {
                 return part == c.group || std::string(c.name).find(part) != std::string::npos;
               }) &&
           any(arguments_.dtypes, [&](const std::string& name) { return name == dtype; });
  }

  Status make_triad() {
    count_ = arguments_.megabytes * (1 << 20) / 4;
    const ir::Shape shape(ir::DType::f32, {count_});
    for (std::size_t i = 0; i < 3; ++i) {
      PLIMSOLL_ASSIGN_OR_RETURN(void* data, triad_buffers_.at(i, shape.byte_size()));
      fill(data, shape);
      triad_[i] = static_cast<float*>(data);
    }
    if (arguments_.list) return ok_status();
    report_["array_megabytes"] = arguments_.megabytes;
    report_["rounds"] = arguments_.rounds;
    report_["counted"] = "every operand and result once; no read of a line to be written";
    for (const int threads : arguments_.threads) {
      device::set_thread_count(threads);
      std::vector<double> plain, streaming;
      for (int i = 0; i < arguments_.rounds + 1; ++i) {
        const double with_plain = triad_seconds(TriadStores::plain);
        const double with_streaming = triad_seconds(TriadStores::streaming);
        if (i == 0) continue;
        plain.push_back(with_plain);
        streaming.push_back(with_streaming);
      }
      const double bytes = triad_bytes(count_);
      const bool stream = median(streaming) < median(plain);
      stores_.push_back(stream ? TriadStores::streaming : TriadStores::plain);
      report_["triad"].push_back({{"threads", threads},
                                  {"plain_gb_per_s", round3(bytes / median(plain) * 1e-9)},
                                  {"streaming_gb_per_s", round3(bytes / median(streaming) * 1e-9)},
                                  {"taken", stream ? "streaming" : "plain"}});
    }
    return ok_status();
  }

  double triad_seconds(TriadStores stores) {
    return seconds_of([&] { run_triad(triad_[2], triad_[0], triad_[1], count_, stores); });
  }

  static double round3(double x) { return std::round(x * 1000) / 1000; }

  Status measure(const BandwidthCase& c, const std::string& dtype) {
    PLIMSOLL_ASSIGN_OR_RETURN(const PreparedCase prepared,
                              prepare(c, dtype, arguments_.megabytes * (1 << 20)));
    const auto before = compiler_->statistics().compile_seconds;
    PLIMSOLL_ASSIGN_OR_RETURN(const auto kernel, compiler_->compile(*prepared.fusion));
    const double compile = compiler_->statistics().compile_seconds - before;
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    std::size_t next = 0;
    for (const ir::Instruction* operand : prepared.fusion->operands()) {
      PLIMSOLL_ASSIGN_OR_RETURN(void* data, buffers_.at(next++, operand->shape().byte_size()));
      fill(data, operand->shape());
      inputs.push_back(data);
    }
    const auto leaves = ir::leaves(prepared.fusion->shape());
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const int operand = prepared.in_place[i];
      if (operand >= 0) {
        outputs.push_back(const_cast<void*>(inputs[static_cast<std::size_t>(operand)]));
        continue;
      }
      PLIMSOLL_ASSIGN_OR_RETURN(void* data, buffers_.at(next++, leaves[i]->byte_size()));
      outputs.push_back(data);
    }
    PLIMSOLL_ASSIGN_OR_RETURN(
        void* workspace,
        buffers_.at(next++, std::max<std::int64_t>(kernel->workspace_bytes(), 64)));
    Status status;
    const device::KernelArguments launched{inputs, outputs, workspace};
    const auto launch = [&] { status = kernel->launch(*stream_, launched); };
    const auto bytes = static_cast<double>(prepared.bytes);
    for (std::size_t t = 0; t < arguments_.threads.size(); ++t) {
      device::set_thread_count(arguments_.threads[t]);
      std::vector<double> seconds, ratios;
      for (int round = 0; round < arguments_.rounds + 1; ++round) {
        const double triad = triad_seconds(stores_[t]);
        const double mine = seconds_of(launch);
        PLIMSOLL_RETURN_IF_ERROR(status);
        if (round == 0) continue;
        seconds.push_back(mine);
        ratios.push_back(bytes / mine / (triad_bytes(count_) / triad));
      }
      const double ratio = median(ratios);
      report_["rows"].push_back({{"name", c.name},
                                 {"dtype", dtype},
                                 {"group", c.group},
                                 {"threads", arguments_.threads[t]},
                                 {"gb_per_s", round3(bytes / median(seconds) * 1e-9)},
                                 {"ratio", round3(ratio)},
                                 {"aim", c.aim},
                                 {"compile_seconds", round3(compile)}});
      ++rows_;
      if (ratio < c.aim) missed_.push_back({ratio, c.name, dtype, arguments_.threads[t]});
    }
    return ok_status();
  }

  // What one call costs where the work is next to nothing.
  Status measure_launch() {
    constexpr std::int64_t kElements = 1024;
    constexpr int kLaunches = 2000;
    const auto& cases = bandwidth_cases();
    const auto add = std::find_if(cases.begin(), cases.end(), [](const BandwidthCase& c) {
      return std::string_view(c.name) == "add";
    });
    PLIMSOLL_ASSIGN_OR_RETURN(const PreparedCase prepared, prepare(*add, "f32", kElements * 4));
    PLIMSOLL_ASSIGN_OR_RETURN(const auto kernel, compiler_->compile(*prepared.fusion));
    const void* inputs[] = {triad_[0], triad_[1]};
    void* outputs[] = {triad_[2]};
    const device::KernelArguments launched{inputs, outputs, nullptr};
    device::set_thread_count(arguments_.threads.front());
    std::vector<double> seconds;
    Status status;
    for (int round = 0; round < arguments_.rounds + 1; ++round) {
      seconds.push_back(seconds_of([&] {
                          for (int i = 0; i < kLaunches && status.ok(); ++i) {
                            status = kernel->launch(*stream_, launched);
                          }
                        }) /
                        kLaunches);
      PLIMSOLL_RETURN_IF_ERROR(status);
    }
    report_["launch_of_1024_floats_ns"] = round3(median(seconds) * 1e9);
    return ok_status();
  }

  void summarize() {
    std::sort(missed_.begin(), missed_.end());
    report_["row_count"] = rows_;
    report_["missed"] = Json::array();
    for (const auto& [ratio, name, dtype, threads] : missed_) {
      report_["missed"].push_back(name + " " + dtype + ", " + std::to_string(threads) +
                                  (threads == 1 ? " thread: " : " threads: ") +
                                  std::to_string(ratio).substr(0, 5));
    }
  }

  const Arguments& arguments_;
  std::shared_ptr<device::Device> device_ = device::cpu_device();
  std::unique_ptr<jit::Compiler> compiler_;
  std::unique_ptr<device::Stream> stream_;
  Buffers triad_buffers_, buffers_;
  float* triad_[3] = {};
  std::int64_t count_ = 0;
  std::vector<TriadStores> stores_;  // per thread count
  std::vector<std::tuple<double, std::string, std::string, int>> missed_;
  int rows_ = 0;
  Json report_;
};

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (const auto status = read_flags(argc, argv, arguments)) return *status;
  const Status status = Bench(arguments).run();
  if (status.ok()) return 0;
  std::cerr << "kernel_bandwidth: " << status.to_string() << '\n';
  return 1;
}
