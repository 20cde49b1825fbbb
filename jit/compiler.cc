// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <unordered_map>

#include "jit/canonical.h"
#include "jit/flat_form.h"
#include "jit/graph.h"
#include "jit/horizontal_kernel.h"
#include "jit/jit.h"
#include "jit/kernel_code.h"
#include "jit/native_code.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/ir/horizontal_fusion.h"

namespace plimsoll::jit {
namespace {

// A piece of work that is worth giving to another thread.
constexpr double kPieceSeconds = 20e-6;
constexpr std::size_t kMaxCachedKernels = 8192;

class CompiledKernel final : public PhasedKernel {
 public:
  CompiledKernel(const Graph& graph, std::vector<Phase> phases, std::int64_t workspace_bytes,
                 std::shared_ptr<const NativeCode> code)
      : name_(kernel_name(graph)),
        input_count_(graph.inputs().size()),
        output_count_(graph.roots().size()),
        workspace_bytes_(workspace_bytes),
        phases_(std::move(phases)),
        code_(std::move(code)) {
    for (const Phase& phase : phases_) {
      grains_.push_back(std::max<std::int64_t>(
          1, static_cast<std::int64_t>(std::ceil(kPieceSeconds / phase.unit_seconds))));
    }
    for (const ir::Instruction* table : graph.tables()) {
      tables_.push_back(table->attributes().literal);
    }
  }

  Status launch(device::Stream&, const device::KernelArguments& arguments) const override {
    if (arguments.inputs.size() != input_count_ || arguments.outputs.size() != output_count_) {
      return internal_error("launch " + name_ + ": " + std::to_string(arguments.inputs.size()) +
                            " inputs and " + std::to_string(arguments.outputs.size()) +
                            " outputs (it takes " + std::to_string(input_count_) + " and " +
                            std::to_string(output_count_) + ")");
    }
    const void* const* inputs = arguments.inputs.data();
    std::vector<const void*> with_tables;
    if (!tables_.empty()) {
      with_tables.assign(arguments.inputs.begin(), arguments.inputs.end());
      for (const auto& table : tables_) with_tables.push_back(table->bytes().data());
      inputs = with_tables.data();
    }
    for (std::size_t i = 0; i < phases_.size(); ++i) {
      const Phase& phase = phases_[i];
      if (phase.unless_input >= 0 &&
          inputs[phase.unless_input] ==
              arguments.outputs[static_cast<std::size_t>(phase.unless_output)]) {
        continue;
      }
      const PhaseEntry entry = code_->entry(i);
      const std::int64_t grain = grains_[i];
      if (phase.units <= grain) {
        entry(inputs, arguments.outputs.data(), arguments.workspace, 0, phase.units);
        continue;
      }
      device::parallel_for(phase.units, grain, [&](std::int64_t begin, std::int64_t end) {
        entry(inputs, arguments.outputs.data(), arguments.workspace, begin, end);
      });
    }
    return ok_status();
  }
  std::int64_t workspace_bytes() const override { return workspace_bytes_; }
  device::KernelOrigin origin() const override { return device::KernelOrigin::jit; }
  const std::string& name() const override { return name_; }
  const std::vector<Phase>& phases() const override { return phases_; }
  PhaseEntry entry(std::size_t phase) const override { return code_->entry(phase); }
  const std::vector<std::shared_ptr<const ir::Literal>>& tables() const override { return tables_; }

 private:
  std::string name_;
  std::size_t input_count_, output_count_;
  std::int64_t workspace_bytes_;
  std::vector<Phase> phases_;
  std::vector<std::int64_t> grains_;
  std::shared_ptr<const NativeCode> code_;
  std::vector<std::shared_ptr<const ir::Literal>> tables_;
};

// Fusions of up to this many elements that have a flat form share its function, whatever their
// extents: so many small updates of many shapes are compiled once. What is larger is worth code of
// its own.
constexpr std::int64_t kMostFlatElements = 16 << 10;

// A flat kernel over one extent.
class FlatLaunch final : public device::Kernel {
 public:
  FlatLaunch(std::shared_ptr<const PhasedKernel> kernel, std::int64_t elements, std::size_t inputs,
             std::size_t outputs)
      : kernel_(std::move(kernel)), elements_(elements), inputs_(inputs), outputs_(outputs) {}

  Status launch(device::Stream&, const device::KernelArguments& arguments) const override {
    if (arguments.inputs.size() != inputs_ || arguments.outputs.size() != outputs_) {
      return internal_error("launch " + name() + ": " + std::to_string(arguments.inputs.size()) +
                            " inputs and " + std::to_string(arguments.outputs.size()) +
                            " outputs (it takes " + std::to_string(inputs_) + " and " +
                            std::to_string(outputs_) + ")");
    }
    const PhaseEntry entry = kernel_->entry(0);
    const auto run = [&](std::int64_t begin, std::int64_t end) {
      entry(arguments.inputs.data(), arguments.outputs.data(), arguments.workspace,
            begin * kFlatUnit, std::min(end * kFlatUnit, elements_));
    };
    const double unit_seconds = kernel_->phases()[0].unit_seconds * kFlatUnit;
    device::parallel_for((elements_ + kFlatUnit - 1) / kFlatUnit,
                         static_cast<std::int64_t>(std::ceil(kPieceSeconds / unit_seconds)), run);
    return ok_status();
  }
  std::int64_t workspace_bytes() const override { return 0; }
  device::KernelOrigin origin() const override { return device::KernelOrigin::jit; }
  const std::string& name() const override { return kernel_->name(); }

 private:
  std::shared_ptr<const PhasedKernel> kernel_;
  std::int64_t elements_;
  std::size_t inputs_, outputs_;
};

using KernelResult = Result<std::shared_ptr<const CompiledKernel>>;

// Kernels of one form have one text: that of a flat kernel says nothing of the extent.
enum class KernelForm { plain, flat };

class CachingCompiler final : public Compiler {
 public:
  CachingCompiler(const Options& options, std::unique_ptr<NativeCompiler> native)
      : options_(options), native_(std::move(native)) {}

  Result<std::shared_ptr<const device::Kernel>> compile(
      const ir::Instruction& instruction) override {
    const auto parts = ir::horizontal_parts(instruction);
    if (!parts.empty()) return compile_parts(instruction, parts);
    if (const FlatForm flat = flat_form(instruction);
        flat.module != nullptr && flat.elements <= kMostFlatElements) {
      PLIMSOLL_ASSIGN_OR_RETURN(const Graph graph, Graph::create(flat.fusion()));
      PLIMSOLL_ASSIGN_OR_RETURN(auto kernel, compile_cached(graph, KernelForm::flat));
      return std::shared_ptr<const device::Kernel>(std::make_shared<FlatLaunch>(
          std::move(kernel), flat.elements, graph.inputs().size(), graph.roots().size()));
    }
    PLIMSOLL_ASSIGN_OR_RETURN(const Graph graph, Graph::create(instruction));
    PLIMSOLL_ASSIGN_OR_RETURN(auto kernel, compile_cached(graph, KernelForm::plain));
    return std::shared_ptr<const device::Kernel>(std::move(kernel));
  }

  Statistics statistics() const override {
    const std::lock_guard lock(mutex_);
    return statistics_;
  }

 private:
  // Parts that differ by their extents only share a function.
  Result<std::shared_ptr<const device::Kernel>> compile_parts(
      const ir::Instruction& fusion, const std::vector<const ir::Instruction*>& parts) {
    std::vector<HorizontalPart> compiled;
    for (const ir::Instruction* part : parts) {
      const FlatForm flat = flat_form(*part);
      const KernelForm form = flat.module != nullptr ? KernelForm::flat : KernelForm::plain;
      PLIMSOLL_ASSIGN_OR_RETURN(const Graph graph,
                                Graph::create(form == KernelForm::flat ? flat.fusion() : *part));
      PLIMSOLL_ASSIGN_OR_RETURN(auto kernel, compile_cached(graph, form));
      compiled.push_back({part, std::move(kernel), form == KernelForm::flat ? flat.elements : 0});
    }
    std::string name = "horizontal." + compiled.front().kernel->name();
    return make_horizontal_kernel(fusion, std::move(compiled), std::move(name));
  }

  KernelResult compile_cached(const Graph& graph, KernelForm form) {
    std::string key = canonical_text(graph);
    if (form == KernelForm::flat) key.insert(0, "flat ");
    std::promise<KernelResult> promise;
    std::shared_future<KernelResult> found;
    {
      const std::lock_guard lock(mutex_);
      if (const auto it = kernels_.find(key); it != kernels_.end()) {
        ++statistics_.cache_hits;
        found = it->second;
      } else {
        kernels_.emplace(key, promise.get_future().share());
        order_.push_back(key);
        if (order_.size() > kMaxCachedKernels) {
          kernels_.erase(order_.front());
          order_.pop_front();
        }
      }
    }
    // Another thread may be compiling it right now.
    if (found.valid()) return found.get();
    const auto start = std::chrono::steady_clock::now();
    KernelResult result = compile_graph(graph, form);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    promise.set_value(result);
    const std::lock_guard lock(mutex_);
    statistics_.compile_seconds += elapsed.count();
    if (result.ok()) {
      ++statistics_.kernels_compiled;
    } else if (kernels_.erase(key) > 0) {
      std::erase(order_, key);
    }
    return result;
  }

  Result<KernelCode> write(const Graph& graph, KernelForm form) const {
    const auto write_kernel = form == KernelForm::flat  ? write_flat_kernel
                              : graph.reduces().empty() ? write_loop_kernel
                              : graph.is_row_fusion()   ? write_row_kernel
                                                        : write_reduction_kernel;
    return write_kernel(graph, native_->machine());
  }

  KernelResult compile_graph(const Graph& graph, KernelForm form) {
    PLIMSOLL_ASSIGN_OR_RETURN(KernelCode code, write(graph, form));
    const std::vector<Phase> phases = code.phases;
    const std::int64_t workspace_bytes = code.workspace_bytes;
    std::string text;
    const bool dump = !options_.dump_directory.empty();
    PLIMSOLL_ASSIGN_OR_RETURN(auto native,
                              native_->compile(std::move(code), dump ? &text : nullptr));
    if (dump) {
      const std::string path = options_.dump_directory + "/" + kernel_name(graph) + "." +
                               std::to_string(dumped_++) + ".ll";
      std::ofstream file(path);
      file << text;
      if (!file.flush()) return unavailable(path + ": the kernel dump cannot be written");
    }
    return std::shared_ptr<const CompiledKernel>(
        std::make_shared<CompiledKernel>(graph, phases, workspace_bytes, std::move(native)));
  }

  Options options_;
  std::unique_ptr<NativeCompiler> native_;
  std::atomic<std::int64_t> dumped_{0};
  mutable std::mutex mutex_;
  Statistics statistics_;
  std::unordered_map<std::string, std::shared_future<KernelResult>> kernels_;
  std::deque<std::string> order_;
};

}  // namespace

bool supports(const ir::Instruction& instruction) {
  const auto parts = ir::horizontal_parts(instruction);
  if (!parts.empty()) {
    return std::all_of(parts.begin(), parts.end(),
                       [](const ir::Instruction* part) { return supports(*part); });
  }
  switch (instruction.opcode()) {
    case ir::Opcode::parameter:
    case ir::Opcode::tuple:
    case ir::Opcode::get_tuple_element:
      return false;
    default:
      break;
  }
  const auto graph = Graph::create(instruction);
  // A constant without values is no lack of the compiler's; compiling says so.
  return graph.ok() || graph.status().code() == StatusCode::failed_precondition;
}

Result<std::unique_ptr<Compiler>> Compiler::create(const Options& options) {
  if (!options.dump_directory.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.dump_directory, error);
    if (error) {
      return unavailable("kernel dumps: '" + options.dump_directory +
                         "' cannot be made a folder: " + error.message());
    }
  }
  PLIMSOLL_ASSIGN_OR_RETURN(auto native, NativeCompiler::create(options));
  return std::unique_ptr<Compiler>(std::make_unique<CachingCompiler>(options, std::move(native)));
}

}  // namespace plimsoll::jit
