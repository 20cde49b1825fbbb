// SPDX-License-Identifier: Apache-2.0
#include "examples/serve/infer_response.h"

#include <nlohmann/json.hpp>

#include "examples/serve/http_error.h"

namespace plimsoll::examples::serve {
namespace {

std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

// Written piece by piece: a tree of all elements would take many times their bytes.
InferResponse write_infer_response(const Model& model, const std::string& id,
                                   const std::vector<InferOutput>& outputs) {
  InferResponse response;
  std::string& text = response.body;
  text = "{\"model_name\":" + json_text(model.name()) + ",\"model_version\":\"" +
         std::to_string(model.version()) + "\"";
  if (!id.empty()) text += ",\"id\":" + json_text(id);
  text += ",\"outputs\":[";
  std::size_t binary_bytes = 0;
  bool any_binary = false;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const InferOutput& output = outputs[i];
    text += (i == 0 ? "{\"name\":" : ",{\"name\":") + json_text(output.name) + ",\"datatype\":\"" +
            std::string(output.type->name) + "\",\"shape\":" + shape_text(output.shape);
    if (output.binary) {
      text +=
          ",\"parameters\":{\"binary_data_size\":" + std::to_string(output.elements.size()) + "}}";
      binary_bytes += output.elements.size();
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
  text.reserve(text.size() + binary_bytes);
  for (const InferOutput& output : outputs) {
    if (!output.binary) continue;
    text.append(reinterpret_cast<const char*>(output.elements.data()), output.elements.size());
  }
  return response;
}

}  // namespace plimsoll::examples::serve
