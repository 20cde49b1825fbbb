// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/program_bytes.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/base/file.h"
#include "runtime/base/mapped_file.h"
#include "runtime/import/hlo_proto/hlo_proto.h"
#include "runtime/import/vhlo/vhlo.h"
#include "runtime/ir/text/text.h"

namespace plimsoll::import {
namespace {

// MLIR as text begins with a module or a function, perhaps behind comments and aliases of
// attributes and locations (`#loc1 = ...`), which HLO text has not.
bool is_mlir_text(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  constexpr std::size_t kLookAhead = 1 << 16;
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    if (text.starts_with("#")) return true;
    if (!text.starts_with("//")) break;
    text.remove_prefix(std::min(text.find('\n'), text.size()));
  }
  const auto begins_with = [&](std::string_view word) { return text.starts_with(word); };
  const std::string_view names[] = {"module", "builtin.module", "\"builtin.module\"", "func.func",
                                    "\"func.func\""};
  if (std::none_of(std::begin(names), std::end(names), begins_with)) return false;
  // `module` can also be the name of a computation in HLO text.
  const std::string_view start = text.substr(0, kLookAhead);
  return start.find("func.func") != std::string_view::npos ||
         start.find("stablehlo.") != std::string_view::npos ||
         start.find("mhlo.") != std::string_view::npos;
}

// The artifact in what jax.export serializes: a flatbuffer, of which all that matters here is that
// a vector of bytes stands behind its length.
std::string_view find_artifact(std::string_view bytes) {
  constexpr std::string_view kMagic = "ML\xefR";
  constexpr std::size_t kLength = 4, kFarthest = 1 << 20;
  // Text has no such bytes near its start.
  const std::size_t at = bytes.substr(0, kFarthest).find(kMagic);
  if (at == std::string_view::npos || at < kLength) return {};
  std::size_t length = 0;
  for (std::size_t i = 0; i < kLength; ++i) {
    length |= static_cast<std::size_t>(static_cast<unsigned char>(bytes[at - kLength + i]))
              << (8 * i);
  }
  return length <= bytes.size() - at ? bytes.substr(at, length) : std::string_view();
}

}  // namespace

bool takes_inputs(std::string_view bytes) { return onnx::is_model(bytes); }

Result<std::unique_ptr<ir::Module>> read_program(std::string_view bytes,
                                                 std::string_view source_name,
                                                 const ProgramOptions& options) {
  if (onnx::is_model(bytes)) return onnx::read_module(bytes, source_name, options);
  if (vhlo::is_bytecode(bytes)) return vhlo::read_module(bytes, source_name);
  if (const std::string_view artifact = find_artifact(bytes); !artifact.empty()) {
    return vhlo::read_module(artifact, source_name);
  }
  if (hlo_proto::looks_like_message(bytes)) return hlo_proto::read_module(bytes, source_name);
  if (is_mlir_text(bytes)) {
    return invalid_argument(
        std::string(source_name) +
        ": this is StableHLO as text, which is not read here (pass the portable artifact, "
        "jax.export.export(jax.jit(f))(*args).mlir_module_serialized, or HLO text, "
        "jax.jit(f).lower(*args).as_text('hlo'))");
  }
  return ir::parse_module(bytes, source_name);
}

Result<std::unique_ptr<ir::Module>> load_program(const std::string& path, ProgramOptions options) {
  // Only models hold arrays that are worth mapping; what is no file at all (a pipe) is read, too.
  std::error_code ignored;
  char first = 0;
  const bool is_file = std::filesystem::is_regular_file(path, ignored);
  if (!is_file || !std::ifstream(path, std::ios::binary).get(first) || !takes_inputs({&first, 1})) {
    PLIMSOLL_ASSIGN_OR_RETURN(const std::string bytes, read_file(path));
    return read_program(bytes, path, options);
  }
  PLIMSOLL_ASSIGN_OR_RETURN(const auto file, MappedFile::open(path));
  options.owner = file;
  options.folder = std::filesystem::path(path).parent_path().string();
  return read_program(file->bytes(), path, options);
}

}  // namespace plimsoll::import
