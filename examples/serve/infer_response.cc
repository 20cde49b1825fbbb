// SPDX-License-Identifier: Apache-2.0
#include "examples/serve/infer_response.h"

#include <nlohmann/json.hpp>

#include "examples/serve/http_error.h"

namespace plimsoll::examples::serve {
namespace {

std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::size_t most_bytes(const Model& model, const std::string& id,
                       const std::vector<InferOutput>& outputs) {
  constexpr std::size_t kEscaped = 6;  // bytes that one of a name may become
  constexpr std::size_t kWords = 256;
  constexpr std::size_t kDim = 20;
  std::size_t most = kWords + kEscaped * (model.name().size() + id.size());
  for (const InferOutput& output : outputs) {
    most += kWords + kEscaped * output.name.size() + kDim * output.shape.size();
    most += output.binary
                ? output.elements.size()
                : most_json_bytes(*output.type, output.elements.size() / output.type->bytes);
  }
  return most;
}

}  // namespace

// Written piece by piece: a tree of all elements would take many times their bytes.
InferResponse write_infer_response(const Model& model, const std::string& id,
                                   const std::vector<InferOutput>& outputs,
                                   HostBudget::Lease& lease) {
  InferResponse response;
  std::string& text = response.body;
  // All of it at once: a text that grows is there twice for a moment.
  const std::size_t most = most_bytes(model, id, outputs);
  if (!lease.grow(most)) throw busy("no host memory for the response now");
  text.reserve(most);
  text += "{\"model_name\":" + json_text(model.name()) + ",\"model_version\":\"" +
          std::to_string(model.version()) + "\"";
  if (!id.empty()) text += ",\"id\":" + json_text(id);
  text += ",\"outputs\":[";
  bool any_binary = false;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const InferOutput& output = outputs[i];
    text += (i == 0 ? "{\"name\":" : ",{\"name\":") + json_text(output.name) + ",\"datatype\":\"" +
            std::string(output.type->name) + "\",\"shape\":" + shape_text(output.shape);
    if (output.binary) {
      text +=
          ",\"parameters\":{\"binary_data_size\":" + std::to_string(output.elements.size()) + "}}";
      any_binary = true;
      continue;
    }
    text += ",\"data\":[";
    if (!append_json(*output.type, output.elements, text)) {
      throw bad_request("output " + in_quotes(output.name) +
                        " has NaN or infinity, which JSON has not (ask for binary_data)");
    }
    text += "]}";
  }
  text += "]}";
  if (!any_binary) return response;
  response.json_bytes = text.size();
  for (const InferOutput& output : outputs) {
    if (!output.binary) continue;
    text.append(reinterpret_cast<const char*>(output.elements.data()), output.elements.size());
  }
  return response;
}

}  // namespace plimsoll::examples::serve
