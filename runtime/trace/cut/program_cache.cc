// SPDX-License-Identifier: Apache-2.0
#include "runtime/trace/cut/program_cache.h"

#include <fmt/core.h>
#include <algorithm>
#include <chrono>

namespace plimsoll::trace {
namespace {

std::vector<std::int64_t> scalars_of(const Cut& cut) {
  std::vector<std::int64_t> scalars;
  scalars.reserve(cut.constants.size());
  for (const Node* constant : cut.constants) scalars.push_back(constant->words()[0]);
  return scalars;
}

}  // namespace

std::string ProgramCache::explain(const Cut& cut) const {
  const std::vector<std::int64_t>& words = cut.key.words;
  const Programs::Entry* nearest = nullptr;
  std::size_t longest = 0;
  for (const Programs::Entry& entry : programs_) {
    const std::vector<std::int64_t>& other = entry.key.words;
    const auto end = std::mismatch(words.begin(), words.end(), other.begin(), other.end());
    const auto length = static_cast<std::size_t>(end.first - words.begin());
    if (nearest == nullptr || length > longest) {
      nearest = &entry;
      longest = length;
    }
  }
  if (nearest == nullptr) return "first trace";
  const std::vector<std::uint32_t>& nearest_starts = nearest->value.key_starts;
  const auto node_at = [&](const std::vector<std::uint32_t>& starts) {
    return static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end(), longest) -
                                    starts.begin()) -
           1;
  };
  const std::size_t node = node_at(cut.key_starts);
  const std::size_t body = cut.key_starts.back();
  if (longest <= body || node + 1 < cut.key_starts.size()) {
    std::string text = fmt::format("op {} is {}", node, describe_key(words, cut.key_starts[node]));
    if (node < nearest_starts.size()) {
      const std::string other = describe_key(nearest->key.words, nearest_starts[node]);
      if (describe_key(words, cut.key_starts[node]) == other) {
        return text + " with other operands or attributes than in the nearest cached trace";
      }
      return text + ", was " + other + " in the nearest cached trace";
    }
    return fmt::format("{}, where the nearest cached trace ends ({} ops)", text,
                       nearest_starts.size());
  }
  return fmt::format("other outputs or inputs than the nearest cached trace of {} ops",
                     nearest_starts.size());
}

// Constants begin as constants, so that compilation can use their values: x * 1 is x. When a trace
// comes that differs in a constant only, that constant is *lifted*: the program is compiled again
// with it as an input, and replaces the old one. After that any value will do. So a learning rate
// that decays costs one more compilation in all, and the number of compilations is at most one more
// than the number of constants.
Result<CacheAnswer> ProgramCache::find_or_compile(const Cut& cut,
                                                  std::span<const std::string> names) {
  std::vector<std::int64_t> scalars = scalars_of(cut);
  std::vector<bool> lifted(scalars.size(), false);
  CacheAnswer answer;
  if (CachedProgram* program = programs_.find(cut.key)) {
    std::size_t changed = 0;
    std::int64_t first_changed = -1;
    lifted = program->lifted;
    for (std::size_t i = 0; i < scalars.size(); ++i) {
      if (lifted[i] || scalars[i] == program->scalars[i]) continue;
      lifted[i] = true;
      if (changed++ == 0) first_changed = static_cast<std::int64_t>(i);
    }
    if (changed == 0) {
      answer.program = program;
      return answer;
    }
    answer.miss_reason =
        fmt::format("constant {}{} changed: an input of the program from now on", first_changed,
                    changed > 1 ? " and " + std::to_string(changed - 1) + " more" : "");
  } else {
    answer.miss_reason = explain(cut);
  }

  const auto start = std::chrono::steady_clock::now();
  PLIMSOLL_ASSIGN_OR_RETURN(
      CachedProgram made,
      compile(build_module(cut, lifted, names, participants_), compiler_->options()));
  answer.compile_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  made.key_starts = cut.key_starts;
  made.scalars = std::move(scalars);
  made.lifted = std::move(lifted);
  answer.program = &programs_.insert(cut.key, std::move(made));
  return answer;
}

Result<CachedProgram> ProgramCache::compile(std::unique_ptr<ir::Module> module,
                                            executor::ProgramOptions options) const {
  if (module->replica_count > 1) {
    // Each participant compiles and plans what it has recorded itself.
    options.one_program = false;
    options.plans_alone = true;
  }
  CachedProgram made;
  PLIMSOLL_ASSIGN_OR_RETURN(made.program, compiler_->compile(std::move(module), options));
  made.executables = std::make_shared<executor::ExecutableCache>(
      made.program, budget_, drift_, executor::LimitedBy::question_and_budget, kMostPlans);
  return made;
}

Result<CachedProgram> ProgramCache::compile_as_written(std::unique_ptr<ir::Module> module) const {
  executor::ProgramOptions options = compiler_->options();
  options.optimize = false;
  return compile(std::move(module), options);
}

}  // namespace plimsoll::trace
