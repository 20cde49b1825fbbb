// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/lru_cache.h"
#include "runtime/base/status.h"
#include "runtime/program/program_compiler.h"
#include "runtime/residency/encoded_form.h"
#include "runtime/serve/executable_cache.h"
#include "runtime/trace/cut/cut.h"

namespace plimsoll::trace {

struct CachedProgram {
  std::vector<std::uint32_t> key_starts;
  std::vector<std::int64_t> scalars;  // bits of Cut::constants as compiled
  std::vector<bool> lifted;           // per constant: an input of the program
  std::shared_ptr<const executor::Program> program;
  std::shared_ptr<executor::ExecutableCache> executables;
  // With vertical fusion and without any, made when they are first needed (segments.h).
  std::array<std::shared_ptr<struct Segments>, 2> segments;
  // Of what the program makes; null until they are first needed.
  std::shared_ptr<const EncodedForms> forms;
};

struct CacheAnswer {
  CachedProgram* program = nullptr;  // valid until the next one is compiled
  std::string miss_reason;           // empty for a hit
  double compile_seconds = 0;
};

// Compiled traces by structure. A constant that differs between two traces of equal structure is
// lifted: the program is compiled once more with that constant as an input. Keeps the most recently
// used programs. Not thread-safe.
class ProgramCache {
 public:
  // Plans are made for runs in `budget`, and again when times have drifted by more than `drift`
  // (serve/current_executable.h).
  // Collectives are among `participants`.
  ProgramCache(std::shared_ptr<const executor::ProgramCompiler> compiler,
               std::shared_ptr<memory::Budget> budget, double drift, std::int64_t participants)
      : compiler_(std::move(compiler)),
        budget_(std::move(budget)),
        drift_(drift),
        participants_(participants) {}

  Result<CacheAnswer> find_or_compile(const Cut& cut, std::span<const std::string> names);

  // A program that is not looked up but belongs to one that is; its module is run as written.
  Result<CachedProgram> compile_as_written(std::unique_ptr<ir::Module> module) const;

 private:
  using Programs = LruCache<CutKey, CachedProgram, CutKeyHash>;

  std::string explain(const Cut& cut) const;
  Result<CachedProgram> compile(std::unique_ptr<ir::Module> module,
                                executor::ProgramOptions options) const;

  static constexpr std::size_t kMostPrograms = 256;
  static constexpr std::size_t kMostPlans = 8;

  const std::shared_ptr<const executor::ProgramCompiler> compiler_;
  const std::shared_ptr<memory::Budget> budget_;
  const double drift_;
  const std::int64_t participants_;
  Programs programs_{kMostPrograms};
};

}  // namespace plimsoll::trace
