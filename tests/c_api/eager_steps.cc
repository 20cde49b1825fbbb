// SPDX-License-Identifier: Apache-2.0
#include "tests/c_api/eager_steps.h"

#include <cstring>

#include "tests/c_api/shared_budget.h"

namespace plimsoll::testing {
namespace {

Outcome from_host(plm_context* context, int size, const std::vector<float>& values,
                  plm_tensor** out) {
  const std::int64_t dims[2] = {size, size};
  return take(plm_tensor_from_host(context, PLM_F32, dims, 2, values.data(), out));
}

Outcome op(plm_context* context, plm_opcode opcode, std::vector<const plm_tensor*> operands,
           plm_tensor** out) {
  plm_op_attributes plain = {};
  plain.struct_size = sizeof plain;
  return take(plm_op(context, opcode, operands.data(), operands.size(), &plain, out, 1));
}

}  // namespace

EagerSteps::EagerSteps(std::uint64_t seed) : random_(seed) {
  std::uniform_real_distribution<float> values(-0.1F, 0.1F);
  const auto matrix = [&] {
    std::vector<float> made(kSize * kSize);
    for (float& value : made) value = values(random_);
    return made;
  };
  weights_host_ = matrix();
  plm_context_options options = {};
  options.struct_size = sizeof options;
  options.memory_limit_bytes = PLM_NO_LIMIT;
  plm_context* made = nullptr;
  if (fail(take(plm_context_create(&options, &made)).message) == Answer::broken) return;
  const ContextHandle context(made);
  for (int i = 0; i < kChains; ++i) {
    Chain chain{matrix(), std::vector<plm_tensor*>(kLength, nullptr), {}};
    std::vector<float> expected(kSize * kSize);
    for (std::size_t at = 0; at < kLength && message_.empty(); ++at) {
      if (record(made, chain, at) == Answer::nothing_read) read(chain, at, expected);
      chain.expected.push_back(expected);
    }
    chains_.push_back(std::move(chain));
  }
  release_all();
}

void EagerSteps::release_all() {
  const auto release = [](plm_tensor*& tensor) {
    if (tensor != nullptr) plm_tensor_release(tensor);
    tensor = nullptr;
  };
  release(weights_);
  for (Chain& chain : chains_) {
    for (plm_tensor*& tensor : chain.values) release(tensor);
  }
}

// An empty message is no failure.
EagerSteps::Answer EagerSteps::fail(const std::string& what) {
  if (message_.empty()) message_ = what;
  return what.empty() ? Answer::nothing_read : Answer::broken;
}

EagerSteps::Answer EagerSteps::record(plm_context* context, Chain& chain, std::size_t at) {
  if (weights_ == nullptr) {
    if (fail(from_host(context, kSize, weights_host_, &weights_).message) == Answer::broken) {
      return Answer::broken;
    }
  }
  std::size_t from = at;
  while (from > 0 && chain.values[from] == nullptr) --from;
  if (chain.values[from] == nullptr) {
    const Outcome made = from_host(context, kSize, chain.start, &chain.values[from]);
    if (made.code != PLM_OK) return fail(made.message);
  }
  plm_tensor* before = chain.values[from];
  plm_tensor_retain(before);
  for (std::size_t i = from; i < at; ++i) {
    plm_tensor *product = nullptr, *next = nullptr;
    Outcome outcome = op(context, PLM_OP_DOT, {before, weights_}, &product);
    plm_tensor_release(before);
    if (outcome.code != PLM_OK) return fail(outcome.message);
    outcome = op(context, PLM_OP_TANH, {product}, &next);
    plm_tensor_release(product);
    if (outcome.code != PLM_OK) return fail(outcome.message);
    before = next;
  }
  if (from < at) {
    chain.values[at] = before;
  } else {
    plm_tensor_release(before);
  }
  return Answer::nothing_read;
}

EagerSteps::Answer EagerSteps::read(Chain& chain, std::size_t at, std::vector<float>& values) {
  const Outcome outcome =
      take(plm_tensor_read(chain.values[at], values.data(), values.size() * sizeof(float)));
  if (outcome.code == PLM_RESOURCE_EXHAUSTED) return Answer::refused;
  return outcome.code == PLM_OK ? Answer::right : fail("reading: " + outcome.message);
}

EagerSteps::Answer EagerSteps::step(plm_context* context) {
  if (!message_.empty()) return Answer::broken;
  Chain& chain = chains_[random_() % chains_.size()];
  const std::size_t at = random_() % chain.values.size();
  const auto kind = random_() % 4;
  if (kind == 0 && chain.values[at] != nullptr) {
    plm_tensor_release(chain.values[at]);
    chain.values[at] = nullptr;
    return Answer::nothing_read;
  }
  if (record(context, chain, at) == Answer::broken) return Answer::broken;
  if (kind == 1) {
    const Outcome outcome = take(plm_eval(context, &chain.values[at], 1));
    if (outcome.code == PLM_RESOURCE_EXHAUSTED) return Answer::refused;
    return fail(outcome.code == PLM_OK ? "" : "evaluating: " + outcome.message);
  }
  std::vector<float> values(kSize * kSize);
  const Answer answer = read(chain, at, values);
  if (answer != Answer::right) return answer;
  if (std::memcmp(values.data(), chain.expected[at].data(), values.size() * sizeof(float)) != 0) {
    return fail("a tensor has other bits");
  }
  return Answer::right;
}

}  // namespace plimsoll::testing
