// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/hlo_proto/hlo_proto.h"

#include <algorithm>

#include "runtime/import/hlo_proto/fields.h"
#include "runtime/import/hlo_proto/modules.h"
#include "runtime/ir/shapes/verifier.h"

namespace plimsoll::hlo_proto {
namespace {

bool is_control_character(char c) {
  const auto code = static_cast<unsigned char>(c);
  return code < 0x20 && c != '\t' && c != '\n' && c != '\v' && c != '\f' && c != '\r';
}

// The first field of a module is its name; of what modules come within, a message.
Result<std::string_view> find_module(std::string_view message) {
  constexpr int kMostAround = 3;
  for (int i = 0; i < kMostAround; ++i) {
    std::string_view first;
    if (!read_fields(message, "", {{1, &first}}).ok()) {
      return invalid_argument(
          "these bytes are neither text nor a whole serialized HloModuleProto (such as "
          "jax.jit(f).lower(*args).compiler_ir('hlo').as_serialized_hlo_module_proto())");
    }
    if (!looks_like_message(first)) break;
    message = first;
  }
  return message;
}

Result<std::unique_ptr<ir::Module>> read(std::string_view bytes) {
  PLIMSOLL_ASSIGN_OR_RETURN(const std::string_view message, find_module(bytes));
  ModuleReader reader(message);
  PLIMSOLL_ASSIGN_OR_RETURN(auto module, reader.read());
  PLIMSOLL_RETURN_IF_ERROR(ir::verify(*module));
  return module;
}

}  // namespace

bool looks_like_message(std::string_view bytes) {
  constexpr std::size_t kStart = 1024;
  const std::string_view start = bytes.substr(0, kStart);
  return std::any_of(start.begin(), start.end(), is_control_character);
}

Result<std::unique_ptr<ir::Module>> read_module(std::string_view bytes,
                                                std::string_view source_name) {
  auto module = read(bytes);
  if (!module.ok()) return module.status().with_context(source_name);
  return module;
}

}  // namespace plimsoll::hlo_proto
