// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "runtime/backend/backends.h"
#include "runtime/c_api/handles.h"

using namespace plimsoll;

namespace {

std::vector<plm_call_array> arrays_of(std::span<const ir::Shape> shapes) {
  std::vector<plm_call_array> arrays;
  for (const ir::Shape& shape : shapes) {
    plm_call_array& array = arrays.emplace_back();
    if (!shape.is_array()) continue;  // a token
    array.dtype = static_cast<plm_dtype>(shape.dtype());
    array.rank = static_cast<size_t>(shape.rank());
    array.dims = shape.dims().begin();
    array.byte_size = static_cast<size_t>(shape.byte_size());
  }
  return arrays;
}

Status call(plm_call_function function, void* user, const device::CustomCallArguments& arguments) {
  const std::vector<plm_call_array> inputs = arrays_of(arguments.inputs);
  const std::vector<plm_call_array> outputs = arrays_of(arguments.outputs);
  plm_call_arguments given = {};
  given.struct_size = sizeof given;
  given.inputs = arguments.memory.inputs.data();
  given.input_arrays = inputs.data();
  given.input_count = inputs.size();
  given.outputs = arguments.memory.outputs.data();
  given.output_arrays = outputs.data();
  given.output_count = outputs.size();
  given.config = arguments.config.c_str();
  plm_status* const answer = function(user, &given);
  if (answer == nullptr) return ok_status();
  const Status status(static_cast<StatusCode>(plm_status_code(answer)), plm_status_message(answer));
  plm_status_free(answer);
  return status;
}

}  // namespace

extern "C" plm_status* plm_register_custom_call(const char* target, plm_call_function function,
                                                void* user) {
  return c_api::guarded([&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(c_api::require(target != nullptr && function != nullptr,
                                            "register custom call: a pointer is NULL"));
    return backend::register_custom_call(
        target, [function, user](const device::CustomCallArguments& arguments) {
          return call(function, user, arguments);
        });
  });
}
