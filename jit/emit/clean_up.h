// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace llvm {
class Module;
class TargetMachine;
}  // namespace llvm

namespace plimsoll::jit {

// What is done to the code of every kernel, whatever it is for: calls are inlined, and what the
// writers leave is cleaned up. Loops and vectors are as they were written. `target`: whose costs
// count; null: nobody's.
void clean_up(llvm::Module& module, llvm::TargetMachine* target);

// The same for the code of many kernels with loops around them: short loops of known extents are
// written out, what doesn't change in a loop is moved out of it, and what is stored is not read
// again.
void clean_up_sequence(llvm::Module& module, llvm::TargetMachine* target);

}  // namespace plimsoll::jit
