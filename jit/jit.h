// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/status.h"
#include "runtime/device/kernel_provider.h"
#include "runtime/ir/module.h"

namespace plimsoll::jit {

enum class DiskCacheMode : std::uint8_t { off, read_only, read_write };

// Which sequences become one function: those that gain by it, all whose launches are kernels of the
// compiler, or none.
enum class SequenceMode : std::uint8_t { automatic, always, never };

// Where compiled kernels are kept for later processes.
struct DiskCacheOptions {
  DiskCacheMode mode = DiskCacheMode::off;
  std::string folder;
  std::int64_t limit_bytes = 0;
  // Files that the folder may hold: whoever has to list it reads each one's size and time.
  std::int64_t most_entries = 16384;
};

// What is written into `folder` for every kernel, in files of its name (dump.h).
struct DumpOptions {
  bool llvm = false;      // the optimized IR
  bool assembly = false;  // what became of it
  bool hlo = false;       // the fusion as a program of its own
  std::string folder;     // made when missing
};

struct Options {
  int optimization_level = 2;
  // Features of the host's CPU to do without, as LLVM spells them, e.g. "-avx512f,-avx512vl".
  std::string without_features;
  // Kernels that read and write at least so many bytes store past the caches; 0: the size of the
  // last-level cache. Changes no bit of a result.
  std::int64_t streaming_bytes = 0;
  SequenceMode sequences = SequenceMode::automatic;
  DiskCacheOptions disk_cache;
  DumpOptions dump;
  // Tell debuggers, and `perf`, which kernel is where.
  bool debugger_symbols = false, perf_symbols = false;
};

// What the environment says (PLIMSOLL_JIT_*, PLIMSOLL_DUMP).
Result<Options> options_from_environment();

using Statistics = device::KernelStatistics;

// Compiles instructions through LLVM ORC for the processor it runs on. Kernels are kept in memory,
// and on disk where options say so, by canonical text, so equal instructions (up to names) share
// one. Thread-safe. Kernels keep what they need of the compiler alive.
class Compiler {
 public:
  static Result<std::unique_ptr<Compiler>> create(const Options& options = {});
  virtual ~Compiler() = default;
  // Elementwise and movement operations, creation, reduce, and fusions of those (single or tuple
  // root; README.md says which). UNIMPLEMENTED, with the reason, for what the compiler has no
  // kernel for: nothing else decides what it takes.
  virtual Result<std::shared_ptr<const device::Kernel>> compile(
      const ir::Instruction& instruction) = 0;
  // Kernels of this compiler and the loops around them as one function; null where that gains
  // nothing (jit/sequences/sequence_code.h).
  virtual Result<std::shared_ptr<const device::LaunchSequence>> compile(
      const device::SequenceText& text) = 0;
  // True unless compile() refuses the instruction as UNIMPLEMENTED. It asks compile(), which keeps
  // the kernel; a constant without values, say, is no lack of the compiler's.
  bool supports(const ir::Instruction& instruction);
  virtual Statistics statistics() const = 0;
};

// What processes have counted in a folder since it was made or cleared.
struct DiskCacheCounters {
  std::int64_t hits = 0, misses = 0;
  std::int64_t stored = 0, evicted = 0;
  std::int64_t damaged = 0;  // found, but not fit to be used
};

struct DiskCacheContents {
  std::int64_t entries = 0, bytes = 0;
  double oldest_use_seconds = 0, newest_use_seconds = 0;  // ago
  DiskCacheCounters counters;
};

// What is in a folder of kernels; nothing when there is no such folder. FAILED_PRECONDITION for one
// that may not be trusted.
Result<DiskCacheContents> disk_cache_contents(const std::string& folder);
// Removes the kernels and counters, and no other file. Says what there was.
Result<DiskCacheContents> clear_disk_cache(const std::string& folder);

// The LLVM IR of an instruction's kernel, before optimization, for vectors of `vector_bytes`: the
// same on every machine. UNIMPLEMENTED where Compiler::compile says so.
struct KernelText {
  std::string name;  // what it does, and the beginning of the canonical text's hash
  std::string text;
};
Result<KernelText> kernel_text(const ir::Instruction& instruction, int vector_bytes);

}  // namespace plimsoll::jit
