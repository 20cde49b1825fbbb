// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ir/module.h"

namespace plimsoll::passes {

// The modelled time of a kernel, put together use by use. The same module is worth the same
// everywhere: the machine is a table, nothing is measured.
class KernelPrice {
 public:
  // `member` is computed `evaluations` times.
  void compute(const ir::Instruction& member, double evaluations);
  // `elements` reads of an array of `shape`, `strided` where neighbours lie apart.
  void read(const ir::Shape& shape, double elements, bool strided);
  void write(const ir::Shape& shape);

  double seconds() const;

 private:
  double work_ = 0;     // seconds
  double traffic_ = 0;  // seconds
};

}  // namespace plimsoll::passes
