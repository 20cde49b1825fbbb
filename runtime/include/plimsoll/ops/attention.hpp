// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plimsoll/ops/record.hpp"

namespace plimsoll {

struct AttentionOptions {
  double scale = 0;     // of the products; 0: 1 / sqrt(depth), refused where the depth is 0
  bool causal = false;  // the last query sees every key, each before it one less
  Tensor mask = {};     // pred, broadcast to [.., queries, keys]: which keys are seen
  Tensor bias = {};     // floating, broadcast likewise: added to the scaled products
};

// softmax(scale * query key^T + bias) value over the keys that are seen, for queries
// [.., queries, depth], keys [.., keys, depth] and values [.., keys, value depth]. One kernel
// forward and one backward, which never hold the scores. A query that sees no key gets the mean of
// all values.
inline Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value,
                        const AttentionOptions& options = {}) {
  query.require("attention");
  key.require("attention");
  value.require("attention");
  plm_attention_options plain = {};
  plain.struct_size = sizeof plain;
  plain.scale = options.scale;
  plain.causal = options.causal ? 1 : 0;
  plain.mask = options.mask.handle();
  plain.bias = options.bias.handle();
  plm_tensor* out = nullptr;
  internal::check(plm_attention(plm_tensor_context(query.handle()), query.handle(), key.handle(),
                                value.handle(), &plain, &out));
  return Tensor(out);
}

}  // namespace plimsoll
