// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plimsoll/nn/initializer.hpp"
#include "plimsoll/nn/module.hpp"

namespace plimsoll::nn {

// Rows of a [count, width] table.
class Embedding : public Layer {
 public:
  Embedding(std::int64_t count, std::int64_t width, Initializer& init, double deviation = 0.02) {
    internal::check_size("Embedding", "count", count);
    internal::check_size("Embedding", "width", width);
    weight_ = add_parameter("weight", init.normal({count, width}, deviation));
  }

  // Integer indices to vectors in a new last dim.
  Tensor forward(const Tensor& indices) override { return take(weight_, indices); }
  const Tensor& weight() const { return weight_; }

 private:
  Tensor weight_;
};

}  // namespace plimsoll::nn
