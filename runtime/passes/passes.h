// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
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
// whether it changed anything: bit for bit, but for recognize_attention, assign_layouts,
// turn_products, sum_narrow_products, tile_narrow_products, keep_excess_precision, schedule_sums,
// promote_all_reduces, reassociate_all_reduces and hoist_all_reduces, which round otherwise. None
// looks at a memory limit, so that bits do not depend on one.

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
// Makes the module one whose arrays are whole, of which parameter `number` is held as `sharding`
// says, in the form of HLO text. INVALID_ARGUMENT where there is no such parameter, or it can't be
// held so among the module's partitions.
Status hold_parameter(ir::Module& module, std::size_t number, std::string_view sharding);

// What there are no kernels of, and runs whether or not other passes do:
//
// Operations that are others in disguise by those: `topk`, `cholesky`, scalar `bitcast` to another
// type, custom calls that are the identity on one device; calls and conditionals in computations
// that are applied to elements. UNIMPLEMENTED, with the instruction's name, where such a custom
// call means several devices.
//
// With `keeps_top_k` a `topk` stays, or is made of XLA's custom call, where the first are few of
// many and a kernel need not sort them all.
struct ExpandOptions {
  bool keeps_top_k = false;
};
Status expand(ir::Module& module, const ExpandOptions& options = {});
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
// has to stay as it is written gets transposes, which fuse. Constant filters that are large beside
// the images are permuted into the order in which kernels read them.
Result<bool> assign_layouts(ir::Module& module);
// Products whose result is only read transposed become the transposed products: operands change
// sides. Matrices that are only transposed for products are read by these as they were before. A
// library may add up otherwise for both.
Result<bool> turn_products(ir::Module& module);
enum class NarrowProducts {
  converted,
  converted_and_f16,  // which CPUs widen for products
};
// Products of at most four rows by arrays that are computed, element by element, from ones of
// about half their bytes or less (weights of 8 bits, or of bf16 in a product of f32), and of two by
// f16, as sums over products of elements in f32, which read what is narrow. Adds in another order
// than a product.
Result<bool> sum_narrow_products(ir::Module& module,
                                 NarrowProducts which = NarrowProducts::converted_and_f16);
// Products of at most 256 rows by such arrays, and by what is joined of them, become loops over
// tiles of columns, which are converted a tile at a time, where there are several tiles of about
// `tile_bytes` or twice the rows' bytes. A library may add up otherwise for it.
Result<bool> tile_narrow_products(ir::Module& module, std::int64_t tile_bytes = 8 << 20);
// Reductions over dimensions of one element each as the operation on it and the initial value,
// which fuses wherever elements do.
Result<bool> reduce_single(ir::Module& module);
// Producers into consumers, as loop and reduction fusions the JIT can compile, where kernels of
// these speeds gain by it.
Result<bool> fuse(ir::Module& module, const KernelSpeeds& speeds = {});
// Products read slices of what their computation is given where they lie (fusions of
// ir/fusions/sliced_operands.h), where products alone read them, and kernels of elements, which
// take slices themselves: no slice is copied.
Result<bool> slice_operands(ir::Module& module);
// The same, but for what would have a kernel read more bytes than single operations do.
Result<bool> fuse_narrowly(ir::Module& module, const KernelSpeeds& speeds = {});

// What a backward loop computes itself, of what the forward loop would stack for it.
enum class Residuals {
  stacked,      // nothing
  cheaper,      // what takes less time to compute than to write and read, and no product
  elementwise,  // what takes no product, sort or inner loop
  products,     // and what takes products of short rows, such as attention's scores
  carried,      // all that follows from what is carried from round to round
  segments,     // and what is carried, but once in about sqrt(n) of n rounds
};
std::string_view to_string(Residuals residuals);
// Whether there is a while that runs.
bool has_loops(const ir::Module& module);
// What a loop is given and leaves as it is, and what is cheaper to compute in every round than to
// keep and read (constants spread over arrays, masks of indices, broadcasts), is computed there.
Result<bool> sink_invariants(ir::Module& module);
// What is computed element by element of what a loop stacks slice by slice, such as an optimizer's
// step of the gradients of scanned layers, is computed in the loop's rounds, and the stacks are
// gone, where that makes the loop's state smaller: results, stacks that stay among them, are
// written slice by slice where the arguments lay that they replace.
Result<bool> sink_readers(ir::Module& module);
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
// Sums along the columns of what such a kernel reads or makes join it.
Result<bool> fuse_columns(ir::Module& module);
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

// Chains of elementwise operations on bf16 and f16 compute in f32 and round once, where they end:
// as XLA does where `xla_allow_excess_precision` is set. What is compared, tested, cut to integers,
// moved, summed or stored is rounded, and so is what the program itself converts to such a dtype.
Result<bool> keep_excess_precision(ir::Module& module);

// Of a module with several participants: what waits for others does so in the order in which it
// stands, whatever else a plan reorders, so that participants with plans of their own meet.
Result<bool> order_collectives(ir::Module& module);
// The same where something is sent or received, before other passes: of collectives all members
// have the same part, so that any order will do as long as all have it, but whoever receives may
// wait for one that sends after it has received from another.
Result<bool> order_transfers(ir::Module& module);

// What a pass made of a place that it looked at.
struct Remark {
  std::string instruction;
  bool changed = false;
  std::string reason;  // why not, or what it became
};

struct PromotionOptions {
  // Sums may be of a narrower dtype than the program wrote.
  bool narrower_sums = false;
  // Instructions that share a channel_id and have sharding={maximal device=N} are one collective of
  // as many partitions, each of which runs those of its number: the meaning of a module that holds
  // the programs of several partitions. Nothing here runs such a module.
  bool several_programs = false;
};
// A sum over partitions, then linear operations, then a sum over replicas becomes the operations on
// what was not summed yet and one sum over all, where that is proved to be the same number
// (collectives/linear_form.h). Sums of floats round otherwise than as written. Two collectives
// become one, whatever their bytes.
Result<bool> promote_all_reduces(ir::Module& module, const PromotionOptions& options = {},
                                 std::vector<Remark>* remarks = nullptr);
// Collectives of groups of one participant, and of values that all members know to be the same, are
// what each participant computes for itself, where that has the same bits.
Result<bool> simplify_collectives(ir::Module& module);
// The sum of sums over the same groups becomes the sum of the sum. Sums of floats round otherwise
// than as written.
Result<bool> reassociate_all_reduces(ir::Module& module);
// A reduction over a group of which each member reads the part of its own number becomes a
// reduce-scatter.
Result<bool> create_reduce_scatters(ir::Module& module);
// All-gathers with the hint `recompute` (ir/hint.h), and what only moves their elements, stand
// right before what reads them; where there are such, reductions over groups stand where there is
// what they reduce. So what is gathered need not lie there while others are, nor whole gradients
// while others are made. Looks at nothing but the program: participants that plan alone meet in
// this order.
Result<bool> place_gathers(ir::Module& module);
// What a loop accumulates of sums over a group is accumulated first and summed once, after the
// loop. Sums of floats round otherwise than as written.
Result<bool> hoist_all_reduces(ir::Module& module);

// As the buckets of PyTorch's DistributedDataParallel.
inline constexpr std::int64_t kCollectiveBucketBytes = std::int64_t{25} << 20;
struct CombinerOptions {
  std::int64_t bucket_bytes = kCollectiveBucketBytes;  // of operands; above it nothing is added
  std::int64_t bucket_count = 256;                     // of operands
};
// Collectives of the same kind, reduction, dtype and groups that do not wait for each other become
// one of several operands. All wait for the last of them then, and their operands are kept until
// then, so that what is made for the least memory is left without it.
Result<bool> combine_collectives(ir::Module& module, const CombinerOptions& options = {},
                                 std::vector<Remark>* remarks = nullptr);

struct OptimizeOptions;
struct PassInfo {
  std::string_view name;         // as in `plimsoll opt --passes`
  std::string_view description;  // one line
  std::function<Result<bool>(ir::Module&, const KernelSpeeds&)> run;
  bool launches_together = false;  // makes horizontal fusions
  // The same by these options, with a remark for every place it looked at; null: it makes none.
  std::function<Result<bool>(ir::Module&, const OptimizeOptions&, std::vector<Remark>&)> explain =
      nullptr;
};
// Every pass that keeps the bits, by its command-line name.
std::span<const PassInfo> all_passes();

// The passes that do not. sum-scheduling runs when asked for by name only.
std::span<const PassInfo> rounding_passes();

// How far kernels are merged. The bits are the same; the fewer are merged, the fewer values each
// reads and makes, and the longer all take.
enum class Fusion {
  full,
  vertical,  // without fuse_columns, fuse_multi_output, compare_bounded and recompute_results
  narrow,    // with fuse_narrowly, not reduce_single and fuse: needs no more memory than none
  none,      // each operation by itself
  // The same to choose_kernels; to whoever prepares a module, to leave that out where it rounds no
  // otherwise (executor::Program::in_form).
  as_written,
};

std::string_view to_string(Fusion fusion);

struct OptimizeOptions {
  Fusion fusion = Fusion::full;
  Residuals residuals = Residuals::cheaper;
  int recomputed_percent = 100;   // of a loop's rounds (recompute_residuals)
  bool fused_attention = true;    // false: recognize_attention is left out
  bool excess_precision = false;  // keep_excess_precision, too
  // The device takes so long to launch that fuse_horizontal belongs to full fusion, too. Its
  // kernels have so many threads that sums of columns stay apart from rows.
  bool launches_cost = false;
  std::int64_t collective_bucket_bytes = kCollectiveBucketBytes;  // combine_collectives
  // Participants all run this module: what is a constant in it is one everywhere. Otherwise
  // collectives stay as they are.
  bool one_program = true;
  // Collectives are combined, and their order fixed, by prepare, and so in every form, instead of
  // by choose_kernels in full fusion alone: whatever forms participants run, they meet at the same
  // ones. Buckets then hold at most a 16th of the program's arguments and results, as all forms
  // keep their operands.
  bool same_collectives_in_all_forms = false;
  bool slices_operands = false;  // the device has kernels for what slice_operands makes
  KernelSpeeds speeds = {};
};
// What a program is made of in every form but as_written: inlined, simplified, attention in one
// kernel, with layouts that suit its convolutions. Whether the module as written can't stand in for
// it: anything rounds otherwise, or participants meet at other collectives.
Result<bool> prepare(ir::Module& module, const OptimizeOptions& options);
// Of a prepared module: what its loops recompute, and its kernels.
Status choose_kernels(ir::Module& module, const OptimizeOptions& options);
// Both: the pipeline that compilation runs, verified after each pass in debug builds.
Status optimize(ir::Module& module, const OptimizeOptions& options = {});

}  // namespace plimsoll::passes
