// SPDX-License-Identifier: Apache-2.0
#include "plugins/onnxruntime/options.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <string_view>

#include "plugins/onnxruntime/error.h"

namespace plimsoll::ort {
namespace {

struct Known {
  std::string_view name;
  std::int64_t ProviderOptions::* size;
  std::string ProviderOptions::* text;
};
constexpr Known kKnown[] = {
    {"memory_limit", &ProviderOptions::memory_limit_bytes, nullptr},
    {"host_limit", &ProviderOptions::host_limit_bytes, nullptr},
    {"spill_limit", &ProviderOptions::spill_limit_bytes, nullptr},
    {"min_size", &ProviderOptions::min_size_bytes, nullptr},
    {"planner", nullptr, &ProviderOptions::planner},
    {"planning", nullptr, &ProviderOptions::planning},
    {"remedies", nullptr, &ProviderOptions::remedies},
    {"spill_dir", nullptr, &ProviderOptions::spill_dir},
};

Status* set(const Api& api, const std::string& name, const char* value, ProviderOptions& out) {
  const Known* const known = std::find_if(std::begin(kKnown), std::end(kKnown),
                                          [&](const Known& one) { return one.name == name; });
  if (known == std::end(kKnown)) {
    std::string names;
    for (const Known& one : kKnown) {
      names += (names.empty() ? "" : ", ") + std::string(one.name);
    }
    return make_error(api, abi::kInvalidArgument,
                      "no such provider option: '" + name + "' (there are " + names + ")");
  }
  if (known->text != nullptr) {
    out.*known->text = value;
    return nullptr;
  }
  return from_status(api, plm_parse_memory_limit(value, name.c_str(), 0, &(out.*known->size)));
}

const char* or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

}  // namespace

plm_context_options ProviderOptions::context_options() const {
  plm_context_options options = {};
  options.struct_size = sizeof options;
  options.memory_limit_bytes = memory_limit_bytes;
  options.host_limit_bytes = host_limit_bytes;
  options.spill_limit_bytes = spill_limit_bytes;
  options.min_size_bytes = min_size_bytes;
  options.planner = or_null(planner);
  options.planning = or_null(planning);
  options.remedies = or_null(remedies);
  options.spill_dir = or_null(spill_dir);
  return options;
}

Status* read_options(const Api& api, const abi::SessionOptions* session, ProviderOptions& out) {
  abi::KeyValuePairs* made = nullptr;
  PLIMSOLL_ORT_RETURN_IF_ERROR(api.config_entries(session, &made));
  const std::unique_ptr<abi::KeyValuePairs, void (*)(abi::KeyValuePairs*)> entries(
      made, api.release_key_value_pairs);
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  std::size_t count = 0;
  api.key_value_pairs(made, &keys, &values, &count);
  // ONNX Runtime puts this before the names, in small letters.
  std::string prefix = std::string("ep.") + kProviderName + ".";
  const auto lower = [](std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
  };
  prefix = lower(prefix);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string key = keys[i];
    if (!lower(key).starts_with(prefix)) continue;
    PLIMSOLL_ORT_RETURN_IF_ERROR(set(api, key.substr(prefix.size()), values[i], out));
  }
  return nullptr;
}

}  // namespace plimsoll::ort
