// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/import/program_bytes.h"
#include "runtime/ir/literal.h"

namespace plimsoll::testing {

// One of the standard's own cases: a folder with a model and sets of inputs and outputs.
struct StandardCase {
  std::string name;    // node/test_abs
  std::string folder;  // its path
};
// All that are installed (Debian's libonnx-testdata, or ONNX_TESTDATA), by name; none where they
// are not.
std::vector<StandardCase> standard_cases();

struct CaseData {
  std::vector<import::GivenInput> inputs;  // of the model, without those that are initializers
  std::vector<ir::Literal> outputs;        // expected; tuples for sequences
};
// Set `number` of the case; NOT_FOUND behind the last. UNIMPLEMENTED for strings and the like.
Result<CaseData> read_case_data(const StandardCase& one, int number);

// What is different, or nothing: shapes, dtypes, and elements within the tolerance of the
// standard's runner (relative 1e-3, absolute 1e-7); NaNs and infinities are equal to themselves.
std::string difference(const ir::Literal& got, const ir::Literal& want);

}  // namespace plimsoll::testing
