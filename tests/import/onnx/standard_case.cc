// SPDX-License-Identifier: Apache-2.0
#include "tests/import/onnx/standard_case.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "runtime/base/file.h"
#include "runtime/import/onnx/model/model.h"
#include "runtime/import/onnx/model/tensors.h"
#include "runtime/import/wire/wire.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;
using onnx::ValueType;

Result<ir::Literal> read_tensor(std::string_view message) {
  return onnx::TensorFiles(nullptr, {}).read(message);
}

Result<ir::Literal> read_sequence(std::string_view message) {
  std::int64_t type = 0;
  std::vector<std::string_view> tensors;
  if (!wire::read_fields(message, {{2, &type}, {3, &tensors}}) || (type != 0 && type != 1)) {
    return unimplemented("a sequence of something else than tensors");
  }
  std::vector<ir::Literal> elements;
  for (const std::string_view tensor : tensors) {
    PLIMSOLL_ASSIGN_OR_RETURN(ir::Literal element, read_tensor(tensor));
    elements.push_back(std::move(element));
  }
  return ir::Literal::tuple(std::move(elements));
}

// NumPy has no bf16; the data have its bits as 16-bit integers.
Result<ir::Literal> read_array(std::string_view message, const ValueType& type) {
  PLIMSOLL_ASSIGN_OR_RETURN(const ir::Literal read, read_tensor(message));
  const auto dtype = onnx::dtype_of(type.element);
  if (!dtype.ok() || *dtype != ir::DType::bf16 || read.shape().dtype() != ir::DType::u16) {
    return read;
  }
  return ir::Literal::from_bytes(ir::Shape(*dtype, read.shape().dims()), read.bytes());
}

// A tensor, a sequence, or what an optional holds.
Result<ir::Literal> read_value(std::string_view message, const ValueType& type) {
  if (type.kind == ValueType::Kind::sequence) return read_sequence(message);
  if (type.kind != ValueType::Kind::optional) return read_array(message, type);
  std::int64_t kind = 0;
  std::string_view tensor, sequence;
  if (!wire::read_fields(message, {{2, &kind}, {3, &tensor}, {5, &sequence}})) {
    return invalid_argument("no optional");
  }
  if (kind == 1) return read_tensor(tensor);
  if (kind == 3) return read_sequence(sequence);
  return unimplemented("an optional without a value");
}

}  // namespace

std::vector<StandardCase> standard_cases() {
  const char* const elsewhere = std::getenv("ONNX_TESTDATA");
  const fs::path root = elsewhere != nullptr ? elsewhere : "/usr/share/libonnx-testdata/data";
  std::vector<StandardCase> cases;
  for (const char* const kind : {"node", "simple", "pytorch-converted", "pytorch-operator"}) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(root / kind, none)) {
      if (!fs::exists(entry.path() / "model.onnx")) continue;
      cases.push_back(
          {std::string(kind) + "/" + entry.path().filename().string(), entry.path().string()});
    }
  }
  std::sort(cases.begin(), cases.end(),
            [](const StandardCase& a, const StandardCase& b) { return a.name < b.name; });
  return cases;
}

Result<CaseData> read_case_data(const StandardCase& one, int number) {
  const fs::path folder = fs::path(one.folder) / fmt::format("test_data_set_{}", number);
  if (!fs::exists(folder)) return not_found(folder.string());
  PLIMSOLL_ASSIGN_OR_RETURN(const std::string bytes,
                            read_file((fs::path(one.folder) / "model.onnx").string()));
  PLIMSOLL_ASSIGN_OR_RETURN(const onnx::Model model, onnx::read_model(bytes));
  CaseData data;
  int next = 0;
  for (const onnx::ValueInfo& input : model.graph.inputs) {
    const bool is_constant =
        std::any_of(model.graph.initializers.begin(), model.graph.initializers.end(),
                    [&](const onnx::Initializer& i) { return i.name == input.name; });
    if (is_constant) continue;
    PLIMSOLL_ASSIGN_OR_RETURN(const std::string tensor,
                              read_file((folder / fmt::format("input_{}.pb", next++)).string()));
    PLIMSOLL_ASSIGN_OR_RETURN(ir::Literal value, read_value(tensor, input.type));
    data.inputs.push_back({std::string(input.name), {}, std::move(value)});
  }
  next = 0;
  for (const onnx::ValueInfo& output : model.graph.outputs) {
    PLIMSOLL_ASSIGN_OR_RETURN(const std::string tensor,
                              read_file((folder / fmt::format("output_{}.pb", next++)).string()));
    PLIMSOLL_ASSIGN_OR_RETURN(ir::Literal value, read_value(tensor, output.type));
    data.outputs.push_back(std::move(value));
  }
  return data;
}

std::string difference(const ir::Literal& got, const ir::Literal& want) {
  if (want.shape().is_tuple()) {
    if (!got.shape().is_tuple() || got.elements().size() != want.elements().size()) {
      return fmt::format("{} instead of {}", got.shape().to_string(), want.shape().to_string());
    }
    for (std::size_t i = 0; i < want.elements().size(); ++i) {
      const std::string text = difference(got.elements()[i], want.elements()[i]);
      if (!text.empty()) return fmt::format("element {}: {}", i, text);
    }
    return {};
  }
  if (!(got.shape() == want.shape())) {
    return fmt::format("{} instead of {}", got.shape().to_string(), want.shape().to_string());
  }
  for (std::int64_t i = 0; i < want.shape().element_count(); ++i) {
    const double a = got.at(i), b = want.at(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (std::isfinite(a) && std::isfinite(b) && std::abs(a - b) <= 1e-7 + 1e-3 * std::abs(b)) {
      continue;
    }
    return fmt::format("element {} is {} instead of {}", i, a, b);
  }
  return {};
}

}  // namespace plimsoll::testing
