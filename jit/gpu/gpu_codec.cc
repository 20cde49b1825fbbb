// SPDX-License-Identifier: Apache-2.0
#include "jit/gpu/gpu_codec.h"

#include <cmath>
#include <string>

#include "jit/emit/elementwise.h"
#include "jit/gpu/gpu_codec_code.h"

namespace plimsoll::jit {
namespace {

using ir::CodecKind;
using ir::DType;
using llvm::Value;

using Write = void (*)(const CodecWriter&);

Write writer_of(ir::CodeLayout::Form form, bool encode) {
  switch (form) {
    case ir::CodeLayout::Form::bits:
      return encode ? write_bits_encoder : write_bits_decoder;
    case ir::CodeLayout::Form::elements:
      return encode ? write_elements_encoder : write_elements_decoder;
    case ir::CodeLayout::Form::blocks:
      return encode ? write_blocks_encoder : write_blocks_decoder;
  }
  __builtin_unreachable();
}

// Of a comparison's constant: a number of the dtype, infinite or NaN where it has those.
bool has_constant(const ir::Codec& codec, DType dtype) {
  if (codec.kind != CodecKind::compare_mask) return true;
  if (ir::is_floating(dtype) && !std::isfinite(codec.constant)) return true;
  return ir::is_number(dtype, codec.constant);
}

Result<GpuCode> write(const ir::Codec& codec, const ir::Shape& shape, bool encode) {
  if (!ir::suits(codec, shape) || !has_constant(codec, shape.dtype())) {
    return invalid_argument("codec " + ir::to_string(codec) + ": not for " + shape.to_string());
  }
  // The codec as an instruction, as all else that is written.
  ir::Module module("codec");
  ir::Computation* const computation = module.add_computation("codec");
  const ir::Shape codes(DType::u8, {ir::encoded_bytes(codec, shape)});
  const std::string name =
      (encode ? "encode." : "decode.") + std::string(ir::to_string(codec.kind));
  const ir::Instruction* const from = computation->add_parameter(0, encode ? shape : codes);
  const ir::Instruction* const instruction = computation->add(
      ir::Opcode::custom_call, encode ? codes : shape, {const_cast<ir::Instruction*>(from)}, name);
  GpuCode code = new_gpu_code({}, name, 1, 1);
  code.is_library = true;
  GpuWriter writer{code, *instruction, {0, code.report()}, {0}};
  if (shape.element_count() > 0) {
    writer_of(ir::codec_info(codec.kind).layout.form, encode)({writer, codec, shape});
  }
  PLIMSOLL_RETURN_IF_ERROR(finish_gpu_code(code));
  return code;
}

}  // namespace

void report_loss(GpuEntry& entry, Value* lost) {
  llvm::IRBuilder<>& b = entry.builder();
  entry.when(lost, [&] {
    b.CreateAlignedStore(b.getInt32(1), entry.function().input(1), llvm::Align(4));
  });
}

Result<GpuCode> write_gpu_encoder(const ir::Codec& codec, const ir::Shape& shape) {
  return write(codec, shape, true);
}

Result<GpuCode> write_gpu_decoder(const ir::Codec& codec, const ir::Shape& shape) {
  return write(codec, shape, false);
}

}  // namespace plimsoll::jit
