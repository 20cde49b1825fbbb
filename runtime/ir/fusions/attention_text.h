// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/ir/fusions/attention.h"

namespace plimsoll::ir {

// A form as the quoted text of backend_config, e.g. "attention scale=0.125 causal=0 fill=-inf":
// what is as usual (row-major [batch.., rows, columns], f32) is left out.
std::string attention_text(const AttentionForm& form);
bool is_attention_text(std::string_view text);
// Empty for anything that attention_text would not write for arrays of this rank.
std::optional<AttentionForm> parse_attention_text(std::string_view text, int rank);

}  // namespace plimsoll::ir
