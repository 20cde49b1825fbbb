// SPDX-License-Identifier: Apache-2.0
#include "runtime/residency/encoded_form.h"

#include <utility>

#include "runtime/base/alignment.h"
#include "runtime/planner/facts/codec_choice.h"
#include "runtime/planner/facts/value_ranges.h"

namespace plimsoll::trace {
namespace {

using ir::Codec;
using ir::CodecKind;

std::shared_ptr<const EncodedForm> form_of(const Codec& codec, const ir::Shape& shape,
                                           const executor::Program& program) {
  if (codec.kind == CodecKind::none) return nullptr;
  const std::int64_t bytes = aligned_bytes(ir::encoded_bytes(codec, shape));
  const auto made = program.provider().codec(codec, shape);
  // A workspace would take room where values go for the lack of it.
  if (!made.ok() || bytes >= aligned_bytes(shape.byte_size()) ||
      made->encode->workspace_bytes() + made->decode->workspace_bytes() > 0) {
    return nullptr;
  }
  const planner::CostModel& costs = program.cost_model();
  return std::make_shared<EncodedForm>(
      EncodedForm{codec, shape, bytes, costs.codec_seconds(codec, shape, true),
                  costs.codec_seconds(codec, shape, false), &program.provider()});
}

}  // namespace

EncodedForms encoded_forms(const executor::Program& program, CodecKind lossy) {
  const ir::Instruction& root = *program.module().entry()->root();
  planner::FactFinder facts;
  EncodedForms forms;
  int leaf = 0;
  for (const ir::Shape* shape : ir::leaves(root.shape())) {
    std::shared_ptr<const EncodedForm> form;
    if (shape->is_array()) {
      const Codec exact = planner::exact_codec(facts.find(root, leaf), shape->dtype());
      form = form_of(exact, *shape, program);
      if (form == nullptr) form = form_of({.kind = lossy}, *shape, program);
    }
    forms.push_back(std::move(form));
    ++leaf;
  }
  return forms;
}

}  // namespace plimsoll::trace
