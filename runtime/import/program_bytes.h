// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/import/onnx/onnx.h"
#include "runtime/ir/module.h"

namespace plimsoll::import {

// What only models in ONNX ask for; other forms say all themselves, and read none of it.
using ProgramOptions = onnx::ReadOptions;
using onnx::GivenInput;
// The name of the parameter of an input: as it is, but for what HLO text has not in names.
inline std::string input_name(std::string_view name) { return onnx::parameter_name(name); }

// Whether the bytes are a model in ONNX, whose inputs may be given.
bool takes_inputs(std::string_view bytes);

// Reads a program in whichever form it comes: HLO text, a serialized HloModuleProto
// (hlo_proto/hlo_proto.h), a portable StableHLO artifact (vhlo/vhlo.h), what jax.export's
// Exported.serialize() writes around one, or a model in ONNX (onnx/onnx.h). The result is
// verified. INVALID_ARGUMENT and UNIMPLEMENTED as the form's reader gives them, starting with the
// source's name; StableHLO as text, which this does not read, is told from bad HLO text.
Result<std::unique_ptr<ir::Module>> read_program(std::string_view bytes,
                                                 std::string_view source_name,
                                                 const ProgramOptions& options = {});

// The file at `path`. A model in ONNX is mapped, and reads its external data from the same folder.
// NOT_FOUND where it can't be opened.
Result<std::unique_ptr<ir::Module>> load_program(const std::string& path,
                                                 ProgramOptions options = {});

}  // namespace plimsoll::import
