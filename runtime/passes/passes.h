// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "runtime/base/kernel_speeds.h"
#include "runtime/base/status.h"
#include "runtime/ir/module.h"

namespace plimsoll::passes {

// Every pass takes a verified module to a verified module with the same meaning, and returns
// whether it changed anything: bit for bit, but for recognize_attention, assign_layouts and
// schedule_sums, which round otherwise. None looks at a memory limit, so that bits do not depend on
// one.

// A header entry of modules whose arrays are whole, whatever partition has which part of them.
inline constexpr std::string_view kWholeShapes = "whole_shapes";
// The program of one partition, of a module with several whose arrays are whole: one that has such
// an entry, or custom calls that enter or leave manual regions (those of JAX's shard_map).
// Parameters and results become the tiles that their `sharding` says, and are gathered or cut where
// the program has them whole; a region gets its partition's tiles, which are not gathered and cut
// again on the way from a parameter, to a result or to the next region; what leaves a region for a
// result whose sharding is not said stays tiles, where the module has that entry. `sharding` of the
// parameters and the root say how all of them are held. Everything else is computed whole by every
// partition. INVALID_ARGUMENT for shardings that can't be read or leave unequal
// tiles.
Result<bool> partition(ir::Module& module);

// What there are no kernels of, and runs whether or not other passes do:
//
// Operations that are others in disguise by those: `topk`, `cholesky`, scalar `bitcast` to another
// type, custom calls that are the identity on one device; calls and conditionals in computations
// that are applied to elements. UNIMPLEMENTED, with the instruction's name, where such a custom
// call means several devices.
Status expand(ir::Module& module);
// The module with every complex value as two real ones, or itself where it has none. Parameters and
// results keep their numbers, bytes and aliases: c64[2,3] is f32[2,3,2]. UNIMPLEMENTED, with the
// instruction's name, for what has no form in real numbers here.
Result<std::unique_ptr<ir::Module>> expand_complex(std::unique_ptr<ir::Module> module);
// The module with every integer of less than a byte as one of s8 or u8 in its range, and every
// float of at most a byte as its code in u8, or itself where it has none. What computes with them
// works in s8, u8 and f32, and rounds or wraps each result. Parameters and results keep their
// numbers, bytes and aliases: f8e5m2[2,3] is u8[2,3], s4[2,3] is u8[3], packed. UNIMPLEMENTED, with
// the instruction's name, for what has no form here.
Result<std::unique_ptr<ir::Module>> expand_narrow(std::unique_ptr<ir::Module> module);

// Algebraic identities that hold for every bit pattern (x*1, reshape of reshape, slice of all,
// ...).
Result<bool> simplify(ir::Module& module);
// One instruction for equal ones (same opcode, operands, attributes, callees up to structure).
Result<bool> eliminate_common_subexpressions(ir::Module& module);
// Unused instructions, tuple elements nobody reads, unreachable computations.
Result<bool> eliminate_dead_code(ir::Module& module);
// Inlines call and fusion instructions.
Result<bool> inline_calls(ir::Module& module);
// Inlines these fusions only (not what is in them), wherever they stand; what has control edges
// stays.
Result<bool> inline_fusions(ir::Module& module,
                            const std::unordered_set<const ir::Instruction*>& fusions);
// Activations of convolutions into the order their kernels walk fastest, channels last, with all
// that is computed from them elementwise, by windows or by reductions that keep their order; what
// has to stay as it is written gets transposes, which fuse.
Result<bool> assign_layouts(ir::Module& module);
// Producers into consumers, as loop and reduction fusions the JIT can compile, where kernels of
// these speeds gain by it.
Result<bool> fuse(ir::Module& module, const KernelSpeeds& speeds = {});
// The same, but for what would have a kernel read more bytes than single operations do.
Result<bool> fuse_narrowly(ir::Module& module, const KernelSpeeds& speeds = {});

// What a backward loop computes itself, of what the forward loop would stack for it.
enum class Residuals {
  stacked,      // nothing
  cheaper,      // what takes less time to compute than to write and read, and no product
  elementwise,  // what takes no product, sort or inner loop
  products,     // and what takes products of short rows, such as attention's scores
  carried,      // all that follows from what is carried from round to round
};
std::string_view to_string(Residuals residuals);
// Whether there is a while that runs.
bool has_loops(const ir::Module& module);
// What a loop is given and leaves as it is, and what is cheaper to compute in every round than to
// keep and read (constants spread over arrays, masks of indices, broadcasts), is computed there.
Result<bool> sink_invariants(ir::Module& module);
// A spread constant that a loop starts from and changes, and that others read, too, is made for
// that loop alone: it works in the place of what it starts from, which else would be a copy. What
// merges equal instructions undoes it.
Result<bool> own_starts(ir::Module& module);
// Loops that stack a slice a round for a loop that reads a slice a round (scans and their
// gradients) stack fewer bytes, from which the other loop computes the rest: all of their rounds
// that much, or the first `percent` of them, and the others what is cheaper.
Result<bool> recompute_residuals(ir::Module& module, Residuals extent,
                                 const KernelSpeeds& speeds = {}, int percent = 100);

// Kernels along the same rows that feed each other (softmax, normalisations and their gradients)
// become one that goes row by row.
Result<bool> fuse_rows(ir::Module& module);
// Fusions and instructions that read the same operands and have the same loop become one with
// several outputs.
Result<bool> fuse_multi_output(ir::Module& module, const KernelSpeeds& speeds = {});
// Results that follow element by element from others are computed again by their readers where that
// takes hardly longer than to write and read them.
Result<bool> recompute_results(ir::Module& module, const KernelSpeeds& speeds = {});
// What asks of a value only whether it lies above (below) a number asks that of its maximum
// (minimum) with the number, where that is kept as long: the gradient of a ReLU.
Result<bool> compare_bounded(ir::Module& module);
// Small independent kernels of any shapes become the parts of one launch
// (ir/fusions/horizontal_fusion.h), each with the buffers it had. Kernels meet in a launch when
// their results have the same dtypes and both or neither reduce. The peak of the schedule does not
// rise by it, nor does a launch need more at once than the hungriest instruction did.
Result<bool> fuse_horizontal(ir::Module& module);

// Sums of three or more large addends that wait for each other become accumulations in the order in
// which the addends are made: one buffer instead of one per addend. Floating-point sums round
// otherwise than as written, so that this is for those who ask for it; it looks at no limit, and
// the bits are the same at all of them.
Result<bool> schedule_sums(ir::Module& module);

// Attention (dot, scale, bias, masks, softmax, dot; and its gradient, however it is written)
// becomes one kernel forward and one backward (ir/fusions/attention.h), which never hold the
// scores, where that pays by the shapes. What is not exactly that stays: dropped-out probabilities,
// a bias that has a gradient, anything else that reads the scores. Softmax over blocks rounds
// otherwise than as written; it looks at no limit, and the bits are the same at all of them.
Result<bool> recognize_attention(ir::Module& module);

// Of a module with several participants: what waits for others does so in the order in which it
// stands, whatever else a plan reorders, so that participants with plans of their own meet.
Result<bool> order_collectives(ir::Module& module);

struct PassInfo {
  std::string_view name;         // as in `plimsoll opt --passes`
  std::string_view description;  // one line
  std::function<Result<bool>(ir::Module&, const KernelSpeeds&)> run;
  bool launches_together = false;  // makes horizontal fusions
};
// Every pass that keeps the bits, by its command-line name.
std::span<const PassInfo> all_passes();

// The passes that do not. sum-scheduling runs when asked for by name only.
std::span<const PassInfo> rounding_passes();

// How far kernels are merged. The bits are the same; the fewer are merged, the fewer values each
// reads and makes, and the longer all take.
enum class Fusion {
  full,
  vertical,  // without fuse_multi_output, compare_bounded and recompute_results
  narrow,    // and with fuse_narrowly instead of fuse: needs no more memory than none
  none,      // each operation by itself
  // The same to choose_kernels; to whoever prepares a module, to leave that out where it rounds no
  // otherwise (executor::Program::in_form).
  as_written,
};

std::string_view to_string(Fusion fusion);

struct OptimizeOptions {
  Fusion fusion = Fusion::full;
  Residuals residuals = Residuals::cheaper;
  int recomputed_percent = 100;  // of a loop's rounds (recompute_residuals)
  bool fused_attention = true;   // false: recognize_attention is left out
  // The device takes so long to launch that fuse_horizontal belongs to full fusion, too.
  bool launches_cost = false;
  KernelSpeeds speeds = {};
};
// What a program is made of in every form but as_written: inlined, simplified, attention in one
// kernel, with layouts that suit its convolutions. Whether anything rounds otherwise after it.
Result<bool> prepare(ir::Module& module, const OptimizeOptions& options);
// Of a prepared module: what its loops recompute, and its kernels.
Status choose_kernels(ir::Module& module, const OptimizeOptions& options);
// Both: the pipeline that compilation runs, verified after each pass in debug builds.
Status optimize(ir::Module& module, const OptimizeOptions& options = {});

}  // namespace plimsoll::passes
