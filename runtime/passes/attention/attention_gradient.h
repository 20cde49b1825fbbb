// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "runtime/passes/attention/attention_product.h"

namespace plimsoll::passes {

// Everything that is computed from a softmax over scores, when that is an attention and nothing
// else: o = p v, and perhaps the gradients of q, k and v.
struct AttentionUses {
  AttentionArray value;
  AttentionExit output;
  AttentionArray output_gradient;  // null without gradients
  std::optional<AttentionExit> query_gradient, key_gradient, value_gradient;
  float gradient_scale = 1;
  bool has_gradients() const { return query_gradient || key_gradient || value_gradient; }
};

// Follows the users of the exponential. However the gradient of softmax was written, the elements
// it is made of are polynomials in the powers e, the slopes s = do v^T, and per row the sums
// l = sum of e and r = sum of e * s; so it is recognised by its polynomial: e s / l - e r / l^2.
std::optional<AttentionUses> match_attention_uses(const AttentionScores& scores);

}  // namespace plimsoll::passes
