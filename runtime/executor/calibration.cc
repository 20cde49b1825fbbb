// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor/calibration.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "kernels/codec.h"
#include "kernels/kernels.h"
#include "runtime/base/cache_file.h"
#include "runtime/base/environment.h"
#include "runtime/base/log.h"
#include "runtime/base/sha256.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/device/device.h"
#include "runtime/ir/text.h"
#include "runtime/planner/calibration.h"

namespace plimsoll::executor {
namespace {

using planner::Codec;
using planner::CodecKind;

// One kernel per thing that is measured. The streaming arrays are larger than caches, the others
// are not.
constexpr std::string_view kKernels = R"(
HloModule calibration
ENTRY e {
  x = f32[2097152] parameter(0)
  y = f32[2097152] parameter(1)
  stream = f32[2097152] add(x, y)
  u = f32[131072] parameter(2)
  heavy = f32[131072] tanh(u)
  v = f32[16] parameter(3)
  tiny = f32[16] negate(v)
  a = f32[384,384] parameter(4)
  b = f32[384,384] parameter(5)
  dot = f32[384,384] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  i = f32[1,32,48,48] parameter(6)
  k = f32[32,32,3,3] parameter(7)
  convolution = f32[1,32,46,46] convolution(i, k), window={size=3x3}, dim_labels=bf01_oi01->bf01
  ROOT t = (f32[2097152], f32[131072], f32[16], f32[384,384], f32[1,32,46,46]) tuple(stream, heavy, tiny, dot, convolution)
})";

class Bench {
 public:
  explicit Bench(jit::Compiler& compiler) : compiler_(compiler), device_(device::cpu_device()) {}
  ~Bench() {
    for (const auto& [pointer, bytes] : blocks_) device_->deallocate(pointer, bytes);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Result<planner::Roofline> run() {
    PLIMSOLL_ASSIGN_OR_RETURN(stream_, device_->create_stream());
    PLIMSOLL_ASSIGN_OR_RETURN(const auto module, ir::parse_module(kKernels, "calibration"));
    const ir::Computation& entry = *module->entry();
    planner::Roofline speeds;
    PLIMSOLL_ASSIGN_OR_RETURN(speeds.launch_seconds, measure(*entry.find("tiny")));
    const auto rate = [&](const char* name, bool flops) -> Result<double> {
      const ir::Instruction& instruction = *entry.find(name);
      PLIMSOLL_ASSIGN_OR_RETURN(const double seconds, measure(instruction));
      const planner::Work work = planner::count_work(instruction);
      const double pure = std::max(seconds - speeds.launch_seconds, 0.1 * seconds);
      return (flops ? work.flops : work.bytes) / pure;
    };
    PLIMSOLL_ASSIGN_OR_RETURN(speeds.bytes_per_second, rate("stream", false));
    PLIMSOLL_ASSIGN_OR_RETURN(speeds.other_flops_per_second, rate("heavy", true));
    PLIMSOLL_ASSIGN_OR_RETURN(speeds.contraction_flops_per_second, rate("dot", true));
    PLIMSOLL_ASSIGN_OR_RETURN(speeds.convolution_flops_per_second, rate("convolution", true));
    PLIMSOLL_RETURN_IF_ERROR(measure_codecs(speeds));
    PLIMSOLL_RETURN_IF_ERROR(measure_link(speeds));
    return speeds;
  }

 private:
  // Device memory whose every f32 is 1; every byte of it is touched.
  Result<void*> block(std::int64_t bytes) {
    bytes = std::max<std::int64_t>((bytes + 63) / 64 * 64, 64);
    PLIMSOLL_ASSIGN_OR_RETURN(void* pointer, device_->allocate(bytes));
    blocks_.emplace_back(pointer, bytes);
    std::fill_n(static_cast<float*>(pointer), bytes / 4, 1.0F);
    return pointer;
  }

  template <typename Body>
  Result<double> fastest(Body&& body) {
    constexpr int kMostTimes = 20;
    constexpr double kMostSeconds = 0.004;
    double best = std::numeric_limits<double>::infinity(), total = 0;
    for (int i = 0; i < kMostTimes && (i < 2 || total < kMostSeconds); ++i) {
      const auto start = std::chrono::steady_clock::now();
      PLIMSOLL_RETURN_IF_ERROR(body());
      PLIMSOLL_RETURN_IF_ERROR(stream_->synchronize());
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
      best = std::min(best, elapsed.count());
      total += elapsed.count();
    }
    return std::max(best, 1e-9);
  }

  Result<double> measure(const ir::Instruction& instruction) {
    Result<std::shared_ptr<const device::Kernel>> kernel = jit::supports(instruction)
                                                               ? compiler_.compile(instruction)
                                                               : kernels::make_kernel(instruction);
    PLIMSOLL_RETURN_IF_ERROR(kernel.status());
    std::vector<const void*> inputs;
    for (const ir::Instruction* operand : instruction.operands()) {
      PLIMSOLL_ASSIGN_OR_RETURN(const void* pointer, block(operand->shape().byte_size()));
      inputs.push_back(pointer);
    }
    PLIMSOLL_ASSIGN_OR_RETURN(void* const output, block(instruction.shape().byte_size()));
    PLIMSOLL_ASSIGN_OR_RETURN(void* const workspace, block((*kernel)->workspace_bytes()));
    return fastest(
        [&] { return (*kernel)->launch(*stream_, {inputs, std::span(&output, 1), workspace}); });
  }

  Status measure_codecs(planner::Roofline& speeds) {
    constexpr std::int64_t kElements = 1 << 18;
    const std::pair<Codec, ir::DType> cases[] = {
        {{.kind = CodecKind::bit_mask}, ir::DType::pred},
        {{.kind = CodecKind::compare_mask}, ir::DType::f32},
        {{.kind = CodecKind::narrow, .stored = ir::DType::bf16}, ir::DType::f32},
        {{.kind = CodecKind::bfloat16}, ir::DType::f32},
    };
    for (const auto& [codec, dtype] : cases) {
      const ir::Shape shape(dtype, {kElements});
      PLIMSOLL_ASSIGN_OR_RETURN(const kernels::CodecKernels kernels,
                                kernels::make_codec(codec, shape));
      PLIMSOLL_ASSIGN_OR_RETURN(void* const plain, block(shape.byte_size()));
      if (dtype == ir::DType::pred) std::fill_n(static_cast<char*>(plain), kElements, 1);
      PLIMSOLL_ASSIGN_OR_RETURN(void* const encoded, block(encoded_bytes(codec, shape)));
      PLIMSOLL_ASSIGN_OR_RETURN(
          void* const workspace,
          block(std::max(kernels.encode->workspace_bytes(), kernels.decode->workspace_bytes())));
      const auto rate = [&](const device::Kernel& kernel, void* from, void* to) -> Result<double> {
        const void* const input = from;
        PLIMSOLL_ASSIGN_OR_RETURN(
            const double seconds, fastest([&] {
              return kernel.launch(*stream_, {std::span(&input, 1), std::span(&to, 1), workspace});
            }));
        return kElements / std::max(seconds - speeds.launch_seconds, 0.1 * seconds);
      };
      auto& measured = speeds.codecs[static_cast<std::size_t>(codec.kind)];
      PLIMSOLL_ASSIGN_OR_RETURN(measured.encode, rate(*kernels.encode, plain, encoded));
      PLIMSOLL_ASSIGN_OR_RETURN(measured.decode, rate(*kernels.decode, encoded, plain));
    }
    return ok_status();
  }

  Status measure_link(planner::Roofline& speeds) {
    PLIMSOLL_ASSIGN_OR_RETURN(const memory::LinkSpeed link, memory::measure_host_link(device_));
    speeds.link_out_bytes_per_second = link.out_bytes_per_second;
    speeds.link_in_bytes_per_second = link.in_bytes_per_second;
    speeds.link_latency_seconds = link.latency_seconds;
    return ok_status();
  }

  jit::Compiler& compiler_;
  const std::shared_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  std::vector<std::pair<void*, std::int64_t>> blocks_;
};

}  // namespace

Result<planner::Roofline> measure_machine(jit::Compiler& compiler) { return Bench(compiler).run(); }

std::string machine_name() {
  std::string model = "unknown";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      model = line.substr(colon + 2);
      break;
    }
  }
  return model + ", " + std::to_string(device::thread_count()) + " threads";
}

Result<planner::Roofline> load_or_measure(const std::string& folder, jit::Compiler& compiler) {
  const std::string machine = machine_name();
  const std::string name =
      "calibration-" +
      sha256(std::as_bytes(std::span(machine.data(), machine.size()))).substr(0, 16);
  if (!folder.empty()) {
    const auto text = read_cache_file(folder, name);
    if (text.ok()) {
      if (const auto known = planner::parse_calibration(*text, machine)) return *known;
    }
  }
  PLIMSOLL_ASSIGN_OR_RETURN(const planner::Roofline measured, measure_machine(compiler));
  if (!folder.empty()) {
    const Status kept =
        write_cache_file(folder, name, planner::calibration_text(measured, machine));
    if (!kept.ok() && logs(LogLevel::debug)) {
      log_line(LogLevel::debug, "the calibration is not kept: " + kept.message());
    }
  }
  return measured;
}

void set_link_speeds(const memory::Tiers& tiers, const planner::Roofline& machine) {
  const bool is_table = machine == planner::Roofline();
  const memory::LinkSpeed link{machine.link_out_bytes_per_second, machine.link_in_bytes_per_second,
                               machine.link_latency_seconds,
                               is_table ? 0 : memory::copy_compute_share()};
  if (tiers.host != nullptr) tiers.host->set_speed(link);
  if (tiers.disk != nullptr && is_table) tiers.disk->set_speed(link);
}

planner::Roofline machine_speeds(jit::Compiler& compiler) {
  const auto choice = choice_variable(Variable::calibration);
  if (!choice.ok() || *choice == "off") return {};
  static std::mutex mutex;
  static std::optional<planner::Roofline> speeds;
  const std::lock_guard lock(mutex);
  if (!speeds) {
    const auto found = load_or_measure(cache_folder(), compiler);
    if (!found.ok()) log_line(LogLevel::warning, "calibration: " + found.status().message());
    speeds = found.ok() ? *found : planner::Roofline();
  }
  return *speeds;
}

}  // namespace plimsoll::executor
