// SPDX-License-Identifier: Apache-2.0
#include "runtime/trace/record/region.h"

#include "runtime/base/index.h"

namespace plimsoll::trace {
namespace {

void append(std::vector<std::int64_t>& words, std::size_t count) {
  words.push_back(static_cast<std::int64_t>(count));
}

void append(std::vector<std::int64_t>& words, const ir::Shape& shape) {
  if (shape.is_tuple()) {
    words.push_back(-1);
    append(words, shape.elements().size());
    for (const ir::Shape& element : shape.elements()) append(words, element);
    return;
  }
  words.push_back(static_cast<std::int64_t>(shape.dtype()) | static_cast<std::int64_t>(shape.rank())
                                                                 << 8);
  words.insert(words.end(), shape.dims().begin(), shape.dims().end());
}

}  // namespace

const ir::Shape& Region::shape_of(int value) const {
  const std::size_t i = at(value);
  return i < parameters.size() ? parameters[i] : steps[i - parameters.size()].shape;
}

ir::Shape ControlFlow::result_shape(int index) const {
  const ir::Shape& shape = body().output_shape(index);
  if (form != Form::scan || index < carried) return shape;
  ir::Dims dims = {length};
  for (const std::int64_t dim : shape.dims()) dims.push_back(dim);
  return ir::Shape(shape.dtype(), dims);
}

void ControlFlow::append_key(std::vector<std::int64_t>& words) const {
  words.insert(words.end(), {static_cast<std::int64_t>(form), reversed ? 1 : 0, carried, scanned,
                             stacked, length});
  append(words, regions.size());
  for (const auto& region : regions) {
    append(words, region->key.size());
    words.insert(words.end(), region->key.begin(), region->key.end());
  }
}

void make_key(Region& region) {
  std::vector<std::int64_t>& words = region.key;
  words.clear();
  append(words, region.parameters.size());
  for (const ir::Shape& shape : region.parameters) append(words, shape);
  append(words, region.steps.size());
  for (const Region::Step& step : region.steps) {
    words.push_back(static_cast<std::int64_t>(step.opcode) |
                    static_cast<std::int64_t>(step.flags) << 8 |
                    static_cast<std::int64_t>(step.control != nullptr) << 16);
    append(words, step.shape);
    append(words, step.operands.size());
    words.insert(words.end(), step.operands.begin(), step.operands.end());
    append(words, step.words.size());
    words.insert(words.end(), step.words.begin(), step.words.end());
    if (step.control != nullptr) step.control->append_key(words);
  }
  append(words, region.outputs.size());
  words.insert(words.end(), region.outputs.begin(), region.outputs.end());
}

}  // namespace plimsoll::trace
