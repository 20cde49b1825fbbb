// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/kernel_speeds.h"
#include "runtime/ir/module.h"

namespace plimsoll::passes {

// The modelled time of a kernel, put together use by use.
class KernelPrice {
 public:
  explicit KernelPrice(const KernelSpeeds& speeds) : speeds_(speeds) {}
  // `member` is computed `evaluations` times.
  void compute(const ir::Instruction& member, double evaluations);
  // `elements` reads of an array of `shape`, `strided` where neighbours lie apart.
  void read(const ir::Shape& shape, double elements, bool strided);
  void write(const ir::Shape& shape);

  double seconds() const;

 private:
  double bytes_per_second(const ir::Shape& shape) const;

  const KernelSpeeds& speeds_;
  double work_ = 0;     // seconds
  double traffic_ = 0;  // seconds
};

}  // namespace plimsoll::passes
