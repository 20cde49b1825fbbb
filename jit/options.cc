// SPDX-License-Identifier: Apache-2.0
#include "jit/jit.h"
#include "runtime/base/cache_folder.h"
#include "runtime/base/environment.h"

namespace plimsoll::jit {

Result<Options> options_from_environment() {
  Options options;
  const auto mode = choice_variable(Variable::jit_cache);
  PLIMSOLL_RETURN_IF_ERROR(mode.status());
  if (*mode == "rw") options.disk_cache.mode = DiskCacheMode::read_write;
  if (*mode == "ro") options.disk_cache.mode = DiskCacheMode::read_only;
  options.disk_cache.folder = variable_text(Variable::jit_cache_dir).text;
  if (options.disk_cache.folder.empty()) {
    if (const std::string cache = user_cache_folder(); !cache.empty()) {
      options.disk_cache.folder = cache + "/kernels";
    }
  }
  PLIMSOLL_ASSIGN_OR_RETURN(options.disk_cache.limit_bytes,
                            size_variable(Variable::jit_cache_limit, 0));
  const auto loops = choice_variable(Variable::jit_loops);
  PLIMSOLL_RETURN_IF_ERROR(loops.status());
  if (*loops == "always") options.sequences = SequenceMode::always;
  if (*loops == "never") options.sequences = SequenceMode::never;
  PLIMSOLL_ASSIGN_OR_RETURN(const ListValue dump, list_variable(Variable::dump));
  options.dump.llvm = dump.has("llvm");
  options.dump.assembly = dump.has("asm");
  options.dump.hlo = dump.has("hlo");
  options.dump.folder = dump.path;
  PLIMSOLL_ASSIGN_OR_RETURN(const ListValue symbols, list_variable(Variable::jit_symbols));
  options.debugger_symbols = symbols.has("gdb");
  options.perf_symbols = symbols.has("perf");
  return options;
}

}  // namespace plimsoll::jit
