// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contraction/onednn.h"

#include <string_view>

namespace plimsoll::kernels::onednn {

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

std::optional<dnnl::memory::data_type> data_type(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::f32:
      return dnnl::memory::data_type::f32;
    case ir::DType::bf16:
      return dnnl::memory::data_type::bf16;
    default:
      return std::nullopt;
  }
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

bool is_reference(const char* implementation) {
  return std::string_view(implementation).starts_with("ref") ||
         std::string_view(implementation).starts_with("simple");
}

Execution::Execution(const dnnl::primitive& primitive, const std::vector<Argument>& arguments)
    : primitive_(primitive), stream_(cpu_engine()) {
  for (const Argument& argument : arguments) {
    memories_.emplace_back(argument.desc, cpu_engine(), static_cast<void*>(nullptr));
    arguments_.push_back({argument.id, memories_.back().get()});
  }
}

void Execution::run(std::initializer_list<const void*> data) {
  std::size_t i = 0;
  for (const void* pointer : data) memories_[i++].set_data_handle(const_cast<void*>(pointer));
  dnnl::error::wrap_c_api(
      dnnl_primitive_execute(primitive_.get(), stream_.get(), static_cast<int>(arguments_.size()),
                             arguments_.data()),
      "a primitive failed to run");
}

}  // namespace plimsoll::kernels::onednn
