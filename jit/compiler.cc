// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <mutex>
#include <string>

#include "jit/cache/cache_entry.h"
#include "jit/cache/disk_cache.h"
#include "jit/emit/kernel_code.h"
#include "jit/graph/graph.h"
#include "jit/jit.h"
#include "jit/keys/canonical.h"
#include "jit/keys/structural_key.h"
#include "jit/launch/compiled_kernel.h"
#include "jit/launch/flat_launch.h"
#include "jit/launch/horizontal_kernel.h"
#include "jit/loops/flat_form.h"
#include "jit/native/dump.h"
#include "jit/native/native_code.h"
#include "jit/sequences/compiled_sequence.h"
#include "jit/sequences/sequence_code.h"
#include "jit/write_kernel.h"
#include "runtime/base/fork.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/lru_cache.h"
#include "runtime/ir/fusions/horizontal_fusion.h"

namespace plimsoll::jit {
namespace {

using KernelResult = Result<std::shared_ptr<const CompiledKernel>>;
using AnyKernel = std::shared_ptr<const device::Kernel>;

// Three caches, each asked before the next:
// - by structural key (structural_key.h), a few hundred bytes written straight from the
//   instruction: hits take microseconds, and this is what a program that is traced again and again
//   sees;
// - by canonical text, after a graph has been built: finds kernels that were written differently
//   (names, order of instructions);
// - on disk, by the same text and the compiler's and machine's identity: finds what another process
//   has compiled.
//
// Two threads that want the same kernel: the first puts a future into the table and compiles, the
// second waits for it. A failure is taken out again, so that it is not remembered for ever.
class CachingCompiler final : public Compiler {
 public:
  CachingCompiler(const Options& options, std::unique_ptr<NativeCompiler> native)
      : dump_(options.dump),
        sequence_mode_(options.sequences),
        native_(std::move(native)),
        disk_(options.disk_cache, native_->identity()) {}

  Result<AnyKernel> compile(const ir::Instruction& instruction) override {
    const auto written = structural_key(instruction);
    if (written) {
      const std::lock_guard lock(mutex_);
      if (const auto* known = as_written_.find(*written)) {
        ++statistics_.cache_hits;
        return *known;
      }
    }
    const std::string own(written.value_or(std::string_view()));
    Result<AnyKernel> result = compile_new(instruction);
    if (result.ok() && written) {
      const std::lock_guard lock(mutex_);
      as_written_.insert(own, *result);
    }
    return result;
  }

  Result<std::shared_ptr<const device::LaunchSequence>> compile(
      const device::SequenceText& text) override {
    const std::optional<SequenceGraph> graph = sequence_graph(text, sequence_mode_);
    if (!graph.has_value()) return std::shared_ptr<const device::LaunchSequence>();
    const std::string canonical = graph->canonical_text();
    std::shared_ptr<const NativeCode> code;
    {
      const std::lock_guard lock(mutex_);
      if (const auto* known = sequences_.find(canonical)) {
        ++statistics_.cache_hits;
        code = *known;
      }
    }
    if (code == nullptr) {
      const std::string id = kernel_id("sequence", canonical);
      PLIMSOLL_ASSIGN_OR_RETURN(const Made made, make_code(id, canonical, [&] {
                                  return write_sequence(*graph, id, native_->kernel_target());
                                }));
      code = made.code;
      const std::lock_guard lock(mutex_);
      sequences_.insert(canonical, code);
      note(made);
    }
    return std::shared_ptr<const device::LaunchSequence>(
        std::make_shared<CompiledSequence>(*graph, std::move(code)));
  }

  Statistics statistics() const override {
    const std::lock_guard lock(mutex_);
    Statistics now = statistics_;
    now.code_bytes = native_->code_bytes();
    now.peak_code_bytes = native_->peak_code_bytes();
    return now;
  }

 private:
  Result<AnyKernel> compile_new(const ir::Instruction& instruction) {
    const auto parts = ir::horizontal_parts(instruction);
    if (!parts.empty()) return compile_parts(instruction, parts);
    if (const FlatForm flat = flat_form(instruction);
        flat.module != nullptr && flat.elements <= kMostFlatElements) {
      PLIMSOLL_ASSIGN_OR_RETURN(const KernelGraph graph, KernelGraph::create(flat.fusion()));
      PLIMSOLL_ASSIGN_OR_RETURN(auto kernel, find_or_compile(graph, KernelForm::flat, instruction));
      return AnyKernel(std::make_shared<FlatLaunch>(std::move(kernel), flat.elements));
    }
    PLIMSOLL_ASSIGN_OR_RETURN(const KernelGraph graph, KernelGraph::create(instruction));
    PLIMSOLL_ASSIGN_OR_RETURN(auto kernel, find_or_compile(graph, KernelForm::plain, instruction));
    return AnyKernel(std::move(kernel));
  }

  // Parts that differ by their extents only share a function.
  Result<AnyKernel> compile_parts(const ir::Instruction& fusion,
                                  const std::vector<const ir::Instruction*>& parts) {
    std::vector<HorizontalPart> compiled;
    for (const ir::Instruction* part : parts) {
      const FlatForm flat = flat_form(*part);
      const KernelForm form = flat.module != nullptr ? KernelForm::flat : KernelForm::plain;
      PLIMSOLL_ASSIGN_OR_RETURN(
          const KernelGraph graph,
          KernelGraph::create(form == KernelForm::flat ? flat.fusion() : *part));
      PLIMSOLL_ASSIGN_OR_RETURN(auto kernel, find_or_compile(graph, form, *part));
      if (form == KernelForm::flat) {
        compiled.push_back({part, std::make_shared<FlatLaunch>(std::move(kernel), flat.elements)});
      } else {
        compiled.push_back({part, std::move(kernel)});
      }
    }
    std::string name = "horizontal." + compiled.front().kernel->name();
    return make_horizontal_kernel(fusion, std::move(compiled), std::move(name));
  }

  // `shown` is the instruction whose kernel it is, as dumps show it.
  KernelResult find_or_compile(const KernelGraph& graph, KernelForm form,
                               const ir::Instruction& shown) {
    std::string canonical = canonical_text(graph);
    if (form == KernelForm::flat) canonical.insert(0, "flat ");
    std::promise<KernelResult> promise;
    std::shared_future<KernelResult> found;
    {
      const std::lock_guard lock(mutex_);
      if (const auto* known = kernels_.find(canonical)) {
        ++statistics_.cache_hits;
        found = *known;
      } else {
        kernels_.insert(canonical, promise.get_future().share());
      }
    }
    // Another thread may be compiling it right now.
    if (found.valid()) return found.get();
    try {
      Result<Made> made = make_kernel(graph, form, shown, canonical);
      KernelResult result =
          made.ok()
              ? KernelResult(std::make_shared<CompiledKernel>(graph, made->object, made->code))
              : KernelResult(made.status());
      promise.set_value(result);
      const std::lock_guard lock(mutex_);
      if (made.ok()) {
        note(*made);
      } else {
        kernels_.erase(canonical);
      }
      return result;
    } catch (...) {
      // Those who wait get the same exception, and the next who asks compiles again.
      {
        const std::lock_guard lock(mutex_);
        kernels_.erase(canonical);
      }
      promise.set_exception(std::current_exception());
      throw;
    }
  }

  struct Made {
    KernelObject object;
    std::shared_ptr<const NativeCode> code;
    bool from_disk = false;
    double seconds = 0;
  };

  // With the lock held.
  void note(const Made& made) {
    statistics_.compile_seconds += made.seconds;
    ++(made.from_disk ? statistics_.kernels_loaded : statistics_.kernels_compiled);
  }

  Result<Made> make_kernel(const KernelGraph& graph, KernelForm form, const ir::Instruction& shown,
                           const std::string& canonical) {
    const std::string id = kernel_id(kernel_name(graph), canonical);
    if (dump_.hlo) {
      PLIMSOLL_RETURN_IF_ERROR(write_dump(dump_, id + ".hlo", program_text(shown)));
    }
    return make_code(id, canonical,
                     [&] { return write_kernel(graph, form, id, native_->kernel_target()); });
  }

  // From disk, else as `write` says.
  template <typename Write>
  Result<Made> make_code(const std::string& id, const std::string& canonical, const Write& write) {
    const NoForkScope whole;  // LLVM has locks and tables of the process
    const auto start = std::chrono::steady_clock::now();
    const auto elapsed = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    // What is shown must be made.
    const bool lists_code = dump_.llvm || dump_.assembly;
    if (!lists_code) {
      const auto text = disk_.find(canonical);
      if (auto stored = text ? read_object(*text) : std::nullopt) {
        auto code = native_->load(*stored);
        if (code.ok()) return Made{*std::move(stored), *std::move(code), true, elapsed()};
        log_line(LogLevel::warning, "kernel " + id + " from disk: " + code.status().message() +
                                        "; it is compiled again");
      }
    }
    PLIMSOLL_ASSIGN_OR_RETURN(KernelCode written, write());
    CodeListing listing;
    PLIMSOLL_ASSIGN_OR_RETURN(
        KernelObject object,
        native_->generate(std::move(written), lists_code ? &listing : nullptr, dump_.assembly));
    if (dump_.llvm) PLIMSOLL_RETURN_IF_ERROR(write_dump(dump_, id + ".ll", listing.llvm));
    if (dump_.assembly) PLIMSOLL_RETURN_IF_ERROR(write_dump(dump_, id + ".s", listing.assembly));
    disk_.store(canonical, write_object(object));
    PLIMSOLL_ASSIGN_OR_RETURN(auto loaded, native_->load(object));
    return Made{std::move(object), std::move(loaded), false, elapsed()};
  }

  const DumpOptions dump_;
  const SequenceMode sequence_mode_;
  const std::unique_ptr<NativeCompiler> native_;
  DiskCache disk_;
  mutable std::mutex mutex_;
  Statistics statistics_;
  // The first answers the same instruction again in no time, the second knows instructions that
  // only look different.
  static constexpr std::size_t kMostKernels = 8192;
  LruCache<std::string, AnyKernel, TextHash> as_written_{kMostKernels};
  LruCache<std::string, std::shared_future<KernelResult>, TextHash> kernels_{kMostKernels};
  LruCache<std::string, std::shared_ptr<const NativeCode>, TextHash> sequences_{kMostKernels};
};

}  // namespace

bool Compiler::supports(const ir::Instruction& instruction) {
  return compile(instruction).status().code() != StatusCode::unimplemented;
}

Result<std::unique_ptr<Compiler>> Compiler::create(const Options& options) {
  if (!options.dump.folder.empty()) PLIMSOLL_RETURN_IF_ERROR(make_dump_folder(options.dump));
  PLIMSOLL_ASSIGN_OR_RETURN(auto native, NativeCompiler::create(options));
  return std::unique_ptr<Compiler>(std::make_unique<CachingCompiler>(options, std::move(native)));
}

}  // namespace plimsoll::jit
