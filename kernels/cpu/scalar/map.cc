// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/scalar/map.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/scalar/scalar_program.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

class Map final : public KernelBase {
 public:
  Map(std::int64_t count, ScalarProgram program)
      : KernelBase("map", device::KernelOrigin::own), count_(count), program_(std::move(program)) {}

  Status launch(device::Stream&, const device::KernelArguments& arguments) const override {
    device::parallel_for(count_, 4096, [&](std::int64_t begin, std::int64_t end) {
      ScalarProgram::Evaluator evaluator(program_);
      for (std::int64_t at = begin; at < end; at += ScalarProgram::kLanes) {
        const std::int64_t lanes = std::min(ScalarProgram::kLanes, end - at);
        const auto move = [&](ir::DType dtype) {
          const std::int64_t bytes = dtype_bytes(dtype);
          return std::pair(at * bytes, static_cast<std::size_t>(lanes * bytes));
        };
        for (std::size_t i = 0; i < program_.parameters().size(); ++i) {
          const auto [offset, bytes] = move(program_.parameters()[i]);
          std::memcpy(evaluator.parameter(i), byte_offset(arguments.inputs[i], offset), bytes);
        }
        evaluator.run(lanes);
        for (std::size_t i = 0; i < program_.results().size(); ++i) {
          const auto [offset, bytes] = move(program_.results()[i]);
          std::memcpy(byte_offset(arguments.outputs[i], offset), evaluator.result(i), bytes);
        }
      }
    });
    return ok_status();
  }

 private:
  std::int64_t count_;
  ScalarProgram program_;
};

}  // namespace

KernelResult make_map(const ir::Instruction& instruction) {
  PLIMSOLL_ASSIGN_OR_RETURN(ScalarProgram program,
                            ScalarProgram::compile(*instruction.to_apply(), false));
  const std::int64_t count = ir::leaves(instruction.shape())[0]->element_count();
  return KernelResult(std::make_shared<Map>(count, std::move(program)));
}

}  // namespace plimsoll::kernels
