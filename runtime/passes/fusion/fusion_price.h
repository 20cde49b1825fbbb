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

  // Arithmetic and traffic go on at once.
  double seconds() const;
  double work_seconds() const { return work_; }
  double traffic_seconds() const { return traffic_; }

 private:
  const KernelSpeeds& speeds_;
  double work_ = 0;     // seconds
  double traffic_ = 0;  // seconds
};

// What an array that is read or written costs more than KernelPrice says where the caches do not
// hold it until it is read, as other kernels touch many bytes between.
double far_traffic_seconds(const ir::Shape& shape, const KernelSpeeds& speeds);

}  // namespace plimsoll::passes
