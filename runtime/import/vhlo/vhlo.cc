// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/vhlo/vhlo.h"

#include <algorithm>

#include "runtime/import/vhlo/container.h"
#include "runtime/import/vhlo/operations.h"
#include "runtime/import/vhlo/translator.h"
#include "runtime/import/vhlo/values.h"
#include "runtime/ir/shapes/verifier.h"

namespace plimsoll::vhlo {
namespace {

Result<std::unique_ptr<ir::Module>> read(std::string_view bytes) {
  PLIMSOLL_ASSIGN_OR_RETURN(const Container container, read_container(bytes));
  const auto has = [&](std::string_view dialect) {
    return std::find(container.dialects.begin(), container.dialects.end(), dialect) !=
           container.dialects.end();
  };
  if (!has("vhlo")) {
    return invalid_argument(
        has("stablehlo") || has("mhlo")
            ? "this is MLIR bytecode of StableHLO itself, which other versions can't read (pass a "
              "portable artifact: jax.export's mlir_module_serialized, or "
              "stablehlo.serialize_portable_artifact)"
            : "there is no StableHLO in this MLIR bytecode");
  }
  Values values(container);
  PLIMSOLL_ASSIGN_OR_RETURN(const auto top, read_operations(values));
  Translator translator(*top);
  PLIMSOLL_ASSIGN_OR_RETURN(auto module, translator.translate());
  PLIMSOLL_RETURN_IF_ERROR(ir::verify(*module));
  return module;
}

}  // namespace

bool is_bytecode(std::string_view bytes) { return bytes.starts_with(kBytecodeMagic); }

Result<std::unique_ptr<ir::Module>> read_module(std::string_view bytes,
                                                std::string_view source_name) {
  auto module = read(bytes);
  if (!module.ok()) return module.status().with_context(source_name);
  return module;
}

}  // namespace plimsoll::vhlo
