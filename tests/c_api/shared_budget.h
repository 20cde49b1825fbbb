// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <plimsoll/plimsoll.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

// Programs of many threads under one changing limit, through the C ABI alone.
namespace plimsoll::testing {

struct FreeContext {
  void operator()(plm_context* context) const { plm_context_destroy(context); }
};
struct FreeExecutable {
  void operator()(plm_executable* executable) const { plm_executable_destroy(executable); }
};
using ContextHandle = std::unique_ptr<plm_context, FreeContext>;
using ExecutableHandle = std::unique_ptr<plm_executable, FreeExecutable>;

// What a call gave; frees the status.
struct Outcome {
  plm_code code = PLM_OK;
  std::string message;
  std::int64_t floor_bytes = 0;
};
Outcome take(plm_status* status);

plm_memory_statistics memory_of(plm_context* context);

// f32[n,n] x, w -> tanh layers of products, whose values are all read again in reverse order; the
// last product and the sum of it. Room for little more than three values will do.
std::string layers_text(int n, int layers);
// f32[n,n] x -> the state after so many rounds of a loop.
std::string loop_text(int n, std::int64_t rounds);

// A program with inputs, and the results of runs that nothing limited.
struct Served {
  ExecutableHandle executable;
  std::int64_t floor_bytes = 0, peak_bytes = 0;
  std::vector<std::size_t> parameter_bytes, result_bytes;
  using Buffers = std::vector<std::vector<std::byte>>;
  std::vector<Buffers> inputs, expected;

  // `options` may be null. `results` are made as large as they must be, with a pattern in them.
  plm_status* run(std::size_t input, const plm_run_options* options, Buffers& results) const;
  // The pattern is still there.
  static bool is_untouched(const Buffers& results);
};
// Weights are placed in device memory where `resident`. To be called while the context has no
// limit.
Served serve(plm_context* context, const std::string& text, bool resident, std::uint64_t seed);

struct StressReport {
  std::string broken;  // empty: nothing
  std::int64_t right = 0, refused = 0, cancelled = 0, late = 0, steps = 0;
  std::int64_t limits = 0, waited = 0, most_passed = 0;
  std::int64_t peak_bytes = 0, highest_limit_bytes = 0;
};
// `threads` threads run 8 programs for so long, some with deadlines, some cancelled, while one
// changes the limit and one records and evaluates in the same context. Every result has the bits of
// the unlimited run, every error has its cause, the peak is under the highest limit, and in the end
// nothing is in use.
StressReport stress(int threads, double seconds, std::uint64_t seed);

}  // namespace plimsoll::testing
