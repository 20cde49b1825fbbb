// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/status.h"
#include "runtime/trace/record/recorder.h"

namespace plimsoll::autograd {

struct AttentionRequest {
  trace::Node* query = nullptr;  // [batch.., queries, depth]
  trace::Node* key = nullptr;    // [batch.., keys, depth]
  trace::Node* value = nullptr;  // [batch.., keys, value depth]
  trace::Node* mask = nullptr;   // pred, broadcast to [batch.., queries, keys]; null: none
  trace::Node* bias = nullptr;   // floating, broadcast likewise; null: none
  double scale = 0;              // of the products; 0: 1 / sqrt(depth)
  bool causal = false;           // the last query sees every key, each before it one less
};

// Records softmax(scale * q k^T + bias, over the keys that are seen) v, [batch.., queries, value
// depth], as plain operations: gradients follow from them, and compilation makes one kernel of what
// they become (passes::recognize_attention). Scores are f32, or f64 for f64. With a scale, queries
// and keys of depth 0 have equal scores: the mean of the values that are seen. INVALID_ARGUMENT
// with the shapes when they do not fit, or when depth 0 comes without a scale; nothing is recorded
// then.
Result<trace::NodeRef> record_attention(trace::Recorder& recorder, const AttentionRequest& request);

}  // namespace plimsoll::autograd
