// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include "runtime/c_api/handles.h"

namespace plimsoll::c_api {

Status check_recordable(const char* what, std::size_t number, const trace::Node& node) {
  if (node.scope != trace::kEnded) return ok_status();
  return invalid_argument(std::string(what) + ": tensor " + std::to_string(number) + ", " +
                          node.shape().to_string() +
                          ", was recorded in the callback of a loop or branch, which has ended "
                          "(return it from the callback)");
}

Status collect_nodes(const char* what, const plm_context* context, const plm_tensor* const* tensors,
                     std::size_t count, std::vector<trace::Node*>& nodes) {
  if (context == nullptr) return invalid_argument(std::string(what) + ": the context is NULL");
  if (tensors == nullptr && count > 0) {
    return invalid_argument(std::string(what) + ": the list of tensors is NULL");
  }
  nodes.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (tensors[i] == nullptr) {
      return invalid_argument(std::string(what) + ": tensor " + std::to_string(i) + " is NULL");
    }
    if (unwrap(tensors[i])->context != unwrap(context)) {
      return invalid_argument(std::string(what) + ": tensor " + std::to_string(i) +
                              " belongs to another context");
    }
    PLIMSOLL_RETURN_IF_ERROR(check_recordable(what, i, *unwrap(tensors[i])->node));
    nodes.push_back(unwrap(tensors[i])->node);
  }
  return ok_status();
}

Result<ir::Shape> make_shape(const char* what, int dtype, const std::int64_t* dims,
                             std::size_t rank) {
  if (!is_dtype(dtype)) {
    return invalid_argument(std::string(what) + ": " + std::to_string(dtype) + " is no dtype");
  }
  if (rank > PLM_MAX_RANK) {
    return invalid_argument(std::string(what) + ": rank " + std::to_string(rank) + " is over " +
                            std::to_string(PLM_MAX_RANK));
  }
  if (rank > 0 && dims == nullptr) {
    return invalid_argument(std::string(what) + ": the dims are NULL");
  }
  const ir::Dims checked(dims, dims + rank);
  if (!ir::fits_address_space(static_cast<ir::DType>(dtype), checked)) {
    return invalid_argument(std::string(what) + ": dims are negative or too large");
  }
  return ir::Shape(static_cast<ir::DType>(dtype), checked);
}

Status check_tensor_dtype(std::string_view what, int dtype) {
  if (is_recorded_dtype(dtype)) return ok_status();
  if (!is_dtype(dtype)) return invalid_argument(fmt::format("{}: {} is no dtype", what, dtype));
  return unimplemented(fmt::format("{}: tensors of {} (programs and buffers may hold them)", what,
                                   plm_dtype_name(static_cast<plm_dtype>(dtype))));
}

Result<ir::Shape> make_tensor_shape(const char* what, int dtype, const std::int64_t* dims,
                                    std::size_t rank) {
  PLIMSOLL_RETURN_IF_ERROR(check_tensor_dtype(what, dtype));
  return make_shape(what, dtype, dims, rank);
}

}  // namespace plimsoll::c_api

static_assert(PLM_MAX_RANK == plimsoll::ir::kMaxRank);

using namespace plimsoll;
using c_api::guarded;
using c_api::require;
using c_api::unwrap;

namespace {

Status give(trace::Context& context, const trace::NodeRef& node, plm_tensor** out) {
  *out = c_api::wrap(context.make_tensor(node.get()));
  return ok_status();
}

// An integer holds whole numbers of its range; what would be rounded or cut off is most often meant
// for another dtype.
Status check_holds(ir::DType dtype, double value) {
  return ir::visit_dtype(dtype, [&](auto type) -> Status {
    using T = decltype(type);
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      // The limits themselves, as doubles: the upper one may be rounded up to one past it.
      const auto low = static_cast<double>(std::numeric_limits<T>::min());
      const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
      if (!(value >= low && value < end) || value != std::nearbyint(value)) {
        return invalid_argument(fmt::format("scalar: {} is no {} (convert the tensor beside it)",
                                            value, ir::to_string(dtype)));
      }
    }
    return ok_status();
  });
}

plm_status* scalar_of(plm_context* context, plm_dtype dtype, double value, bool input,
                      plm_tensor** out) {
  return guarded(context, [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(
        require(context != nullptr && out != nullptr, "scalar: a pointer is NULL"));
    PLIMSOLL_ASSIGN_OR_RETURN(const ir::Shape shape,
                              c_api::make_tensor_shape("scalar", dtype, nullptr, 0));
    PLIMSOLL_RETURN_IF_ERROR(check_holds(shape.dtype(), value));
    trace::Context& target = *unwrap(context);
    const trace::NodeRef node = target.recorder().scalar(shape.dtype(), value, false);
    if (!input) return give(target, node, out);
    const auto bytes = std::as_bytes(node->words()).first(static_cast<size_t>(shape.byte_size()));
    return give(target, target.from_host(shape, bytes), out);
  });
}

}  // namespace

extern "C" {

plm_status* plm_tensor_from_host(plm_context* context, plm_dtype dtype, const int64_t* dims,
                                 size_t rank, const void* data, plm_tensor** out) {
  return guarded(context, [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(
        require(context != nullptr && out != nullptr, "from_host: a pointer is NULL"));
    PLIMSOLL_ASSIGN_OR_RETURN(const ir::Shape shape,
                              c_api::make_tensor_shape("from_host", dtype, dims, rank));
    const auto bytes = static_cast<size_t>(shape.byte_size());
    PLIMSOLL_RETURN_IF_ERROR(
        require(data != nullptr || bytes == 0, "from_host: the data pointer is NULL"));
    return give(
        *unwrap(context),
        unwrap(context)->from_host(shape, std::span(static_cast<const std::byte*>(data), bytes)),
        out);
  });
}

plm_status* plm_scalar(plm_context* context, plm_dtype dtype, double value, plm_tensor** out) {
  return scalar_of(context, dtype, value, false, out);
}

plm_status* plm_scalar_input(plm_context* context, plm_dtype dtype, double value,
                             plm_tensor** out) {
  return scalar_of(context, dtype, value, true, out);
}

plm_status* plm_random_state(plm_context* context, plm_tensor** out) {
  return guarded(context, [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(
        require(context != nullptr && out != nullptr, "random_state: a pointer is NULL"));
    return give(*unwrap(context), unwrap(context)->random_state(), out);
  });
}

uint64_t plm_random_counter(const plm_context* context) {
  return context == nullptr || c_api::is_inherited(context) ? 0 : unwrap(context)->random_counter();
}

plm_status* plm_set_random_counter(plm_context* context, uint64_t counter) {
  return guarded(context, [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(require(context != nullptr, "random_counter: the context is NULL"));
    unwrap(context)->set_random_counter(counter);
    return ok_status();
  });
}

plm_dtype plm_tensor_dtype(const plm_tensor* tensor) {
  return tensor == nullptr ? PLM_PRED : static_cast<plm_dtype>(unwrap(tensor)->node->dtype);
}
size_t plm_tensor_rank(const plm_tensor* tensor) {
  return tensor == nullptr ? 0 : unwrap(tensor)->node->rank;
}
const int64_t* plm_tensor_dims(const plm_tensor* tensor) {
  return tensor == nullptr ? nullptr : unwrap(tensor)->node->dims_data();
}
size_t plm_tensor_byte_size(const plm_tensor* tensor) {
  return tensor == nullptr ? 0 : static_cast<size_t>(unwrap(tensor)->node->byte_size());
}
int plm_tensor_is_pending(const plm_tensor* tensor) {
  return tensor != nullptr && unwrap(tensor)->node->is_pending() ? 1 : 0;
}
uint64_t plm_tensor_sequence(const plm_tensor* tensor) {
  return tensor == nullptr ? 0 : unwrap(tensor)->node->sequence;
}
plm_context* plm_tensor_context(const plm_tensor* tensor) {
  return tensor == nullptr ? nullptr : c_api::wrap(unwrap(tensor)->context);
}

plm_status* plm_tensor_set_name(plm_tensor* tensor, const char* name) {
  return guarded(tensor, [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(require(tensor != nullptr, "set_name: the tensor is NULL"));
    unwrap(tensor)->context->set_name(unwrap(tensor)->node, name == nullptr ? "" : name);
    return ok_status();
  });
}

plm_status* plm_tensor_hint(plm_tensor* tensor, plm_hint hint) {
  return guarded(tensor, [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(require(tensor != nullptr, "hint: the tensor is NULL"));
    if (hint < PLM_HINT_NONE || hint > PLM_HINT_SWAP) {
      return invalid_argument("hint: " + std::to_string(static_cast<int>(hint)) +
                              " does not exist");
    }
    trace::set_hint(*unwrap(tensor)->node, static_cast<ir::Hint>(hint));
    return ok_status();
  });
}

plm_status* plm_tensor_set_variable(plm_tensor* tensor, int is_variable) {
  return guarded(tensor, [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(require(tensor != nullptr, "set_variable: the tensor is NULL"));
    trace::Tensor& target = *unwrap(tensor);
    PLIMSOLL_RETURN_IF_ERROR(
        require(target.node->scope == 0,
                "set_variable: the tensor is a value inside the callback of a loop or branch"));
    if (is_variable != 0 && !ir::is_floating(target.node->dtype)) {
      return invalid_argument("set_variable: " + target.node->shape().to_string() +
                              " has no gradients, must be floating");
    }
    target.context->set_variable(target, is_variable != 0);
    return ok_status();
  });
}

const char* plm_tensor_name(const plm_tensor* tensor) {
  return tensor == nullptr ? "" : unwrap(tensor)->context->name_of(unwrap(tensor)->node).c_str();
}

void plm_tensor_retain(plm_tensor* tensor) {
  if (tensor != nullptr) ++unwrap(tensor)->refs;
}

void plm_tensor_release(plm_tensor* handle) {
  if (handle == nullptr || c_api::is_inherited(handle)) return;
  trace::Tensor* tensor = unwrap(handle);
  if (--tensor->refs > 0) return;
  tensor->context->release_tensor(tensor);
}

plm_status* plm_tensor_alias(plm_tensor* tensor, plm_tensor** out) {
  return guarded(tensor, [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(
        require(tensor != nullptr && out != nullptr, "alias: a pointer is NULL"));
    *out = c_api::wrap(unwrap(tensor)->context->make_tensor(unwrap(tensor)->node));
    return ok_status();
  });
}

plm_status* plm_tensor_read(plm_tensor* tensor, void* destination, size_t bytes) {
  return guarded(tensor, [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(require(tensor != nullptr && (destination != nullptr || bytes == 0),
                                     "read: a pointer is NULL"));
    return unwrap(tensor)->context->read(unwrap(tensor)->node,
                                         {static_cast<std::byte*>(destination), bytes});
  });
}

plm_status* plm_assign(plm_context* context, plm_tensor* variable, const plm_tensor* value) {
  return guarded(context, variable, value, [&]() -> Status {
    std::vector<trace::Node*> nodes;
    const plm_tensor* both[] = {variable, value};
    PLIMSOLL_RETURN_IF_ERROR(c_api::collect_nodes("assign", context, both, 2, nodes));
    return unwrap(context)->assign(*unwrap(variable), nodes[1]);
  });
}

plm_status* plm_assign_recipe(plm_context* context, plm_tensor* variable, const plm_tensor* value) {
  return guarded(context, variable, value, [&]() -> Status {
    std::vector<trace::Node*> nodes;
    const plm_tensor* both[] = {variable, value};
    PLIMSOLL_RETURN_IF_ERROR(c_api::collect_nodes("assign_recipe", context, both, 2, nodes));
    return unwrap(context)->assign_recipe(*unwrap(variable), nodes[1]);
  });
}

plm_status* plm_stop_gradient(plm_context* context, const plm_tensor* tensor, plm_tensor** out) {
  return guarded(context, tensor, [&]() -> Status {
    std::vector<trace::Node*> nodes;
    PLIMSOLL_RETURN_IF_ERROR(c_api::collect_nodes("stop_gradient", context, &tensor, 1, nodes));
    PLIMSOLL_RETURN_IF_ERROR(require(out != nullptr, "stop_gradient: the output pointer is NULL"));
    trace::Context& target = *unwrap(context);
    return give(target, target.recorder().stop_gradient(nodes[0]), out);
  });
}

}  // extern "C"
