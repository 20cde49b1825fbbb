// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "jit/gpu/gpu_entry.h"
#include "runtime/ir/codec/codec.h"

namespace plimsoll::jit {

// What a kernel of a codec is written with: inputs are the array (or its codes) and the word to
// report by, the output is the other one.
struct CodecWriter {
  GpuWriter& writer;
  const ir::Codec& codec;
  const ir::Shape& shape;

  ir::DType dtype() const { return shape.dtype(); }
  std::int64_t count() const { return shape.element_count(); }
};

// Sets the word to report by where `lost`.
void report_loss(GpuEntry& entry, llvm::Value* lost);

// By CodeLayout::Form.
void write_bits_encoder(const CodecWriter& codec);
void write_bits_decoder(const CodecWriter& codec);
void write_elements_encoder(const CodecWriter& codec);
void write_elements_decoder(const CodecWriter& codec);
void write_blocks_encoder(const CodecWriter& codec);
void write_blocks_decoder(const CodecWriter& codec);

}  // namespace plimsoll::jit
