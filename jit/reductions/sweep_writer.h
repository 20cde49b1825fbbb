// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/Module.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jit/emit/kernel_code.h"
#include "jit/emit/when.h"
#include "jit/reductions/reduction_plan.h"

namespace plimsoll::jit {

// Bytes of a row that are asked for ahead of their use.
inline constexpr std::int64_t kAheadBytes = 4096;

// What the sweeps over rows and over columns share: a function of units, in each of which elements
// are combined into accumulators, vectors of `width_` in memory.
class SweepWriter {
 public:
  virtual ~SweepWriter() = default;
  virtual std::int64_t units() const = 0;
  virtual std::int64_t elements_per_unit() const = 0;
  Status write();

 protected:
  using Values = std::vector<llvm::Value*>;

  SweepWriter(const ReductionPlan& plan, const KernelTarget& target, llvm::Module& module,
              const std::string& name);
  virtual void write_unit(llvm::Value* unit) = 0;

  llvm::Value* number(std::int64_t n) { return b_.getInt64(static_cast<std::uint64_t>(n)); }
  // Splits `*unit` by `count`: returns the remainder and leaves the quotient.
  llvm::Value* split(llvm::Value** unit, std::int64_t count);
  // A place for code that stays the same in the loops of deeper levels.
  void open_level(int level);
  // Runs `f` where `condition` (null: always) holds.
  template <typename F>
  void when(llvm::Value* condition, F f);

  // Slot i of every component: a vector of its own where `i` is a constant in all uses.
  void make_slots(std::int64_t count, bool apart);
  llvm::Value* slot(std::size_t component, llvm::Value* i);
  llvm::Value* load_slot(std::size_t component, llvm::Value* i);
  void store_slot(std::size_t component, llvm::Value* i, llvm::Value* value);
  void fill_slots();
  llvm::Value* splat(llvm::Value* value);
  llvm::Type* slot_type(std::size_t component) const;

  // The operand elements of all reducers, and the swept roots' stores, at one place.
  Values sweep(const Index& index);
  // `old` combined with `values`, all components. `is_first` (a scalar i1) says that `old` is
  // empty.
  Values accumulated(const Values& old, const Values& values, llvm::Value* is_first);
  Values load_slots(llvm::Value* i);
  void store_slots(llvm::Value* i, const Values& values);
  // Where the blocks' results of a component are kept.
  llvm::Value* partials(std::size_t component);
  // What is read is more than the caches hold: worth being asked for ahead, and results of the
  // operand's size are stored past the caches.
  bool is_streamed() const { return streamed_; }

  const ReductionPlan& plan_;
  const ReductionShape& shape_;
  llvm::IRBuilder<> b_;
  PhaseFunction function_;
  IndexSpace space_;
  ValueEmitter emitter_;
  ReductionFinisher finisher_;
  int width_ = 1;

 private:
  bool streamed_ = false;
  std::int64_t slots_ = 1;
  bool apart_ = false;
  std::vector<std::vector<llvm::Value*>> slots_of_;  // by component
};

template <typename F>
void SweepWriter::when(llvm::Value* condition, F f) {
  emit_when(b_, condition, std::move(f));
}

std::unique_ptr<SweepWriter> make_row_sweep(const ReductionPlan& plan, const KernelTarget& target,
                                            llvm::Module& module, const std::string& name);
std::unique_ptr<SweepWriter> make_column_sweep(const ReductionPlan& plan,
                                               const KernelTarget& target, llvm::Module& module,
                                               const std::string& name);

}  // namespace plimsoll::jit
