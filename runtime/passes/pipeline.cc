// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string>
#include <vector>

#include "runtime/ir/shapes/verifier.h"
#include "runtime/passes/passes.h"

namespace plimsoll::passes {
namespace {

Result<bool> run(const PassInfo& pass, ir::Module& module, const KernelSpeeds& speeds = {}) {
  Result<bool> changed = pass.run(module, speeds);
  if (!changed.ok()) return changed.status().with_context(pass.name);
#ifndef NDEBUG
  const Status valid = ir::verify(module);
  if (!valid.ok()) {
    return internal_error("after pass " + std::string(pass.name) + ": " + valid.message());
  }
#endif
  return changed;
}

// A pass that looks at no speeds.
auto whatever_the_speeds(Result<bool> (*pass)(ir::Module&)) {
  return [pass](ir::Module& module, const KernelSpeeds&) { return pass(module); };
}

const PassInfo kPartition = {"partition", "Programs of whole arrays as those of one partition",
                             whatever_the_speeds(partition)};
const PassInfo kInlineCalls = {"inline", "Inlines calls, and fusions that came with the text",
                               whatever_the_speeds(inline_calls)};
const PassInfo kSimplify = {"simplify", "Algebraic identities that keep every bit",
                            whatever_the_speeds(simplify)};
const PassInfo kCse = {"cse", "Merges equal instructions",
                       whatever_the_speeds(eliminate_common_subexpressions)};
const PassInfo kDce = {"dce", "Removes what nothing needs",
                       whatever_the_speeds(eliminate_dead_code)};
const PassInfo kSink = {"sink-invariants",
                        "Computes masks and spread constants in loops instead of carrying them",
                        whatever_the_speeds(sink_invariants)};
const PassInfo kLayouts = {
    "assign-layouts",
    "Puts the activations of convolutions into channels-last order (compiled "
    "sums round otherwise than as written)",
    whatever_the_speeds(assign_layouts)};
const PassInfo kTurnProducts = {
    "turn-products",
    "Computes products of what is transposed, or that are read transposed, without the transposes "
    "(compiled sums round otherwise than as written)",
    whatever_the_speeds(turn_products)};
const PassInfo kSumNarrowProducts = {
    "narrow-products",
    "Products of few rows by f16 and by what is computed from narrower arrays, as sums that read "
    "those (rounds otherwise than as written)",
    [](ir::Module& module, const KernelSpeeds&) { return sum_narrow_products(module); }};
const PassInfo kSumConvertedProducts = {
    kSumNarrowProducts.name, "The same, but for f16 as it lies, which devices have products of",
    [](ir::Module& module, const KernelSpeeds&) {
      return sum_narrow_products(module, NarrowProducts::converted);
    }};
const PassInfo kTileNarrowProducts = {
    "tiled-products",
    "Products by what is computed from narrower arrays as loops over tiles of it (compiled sums "
    "may round otherwise than as written)",
    [](ir::Module& module, const KernelSpeeds&) { return tile_narrow_products(module); }};
const PassInfo kSliceOperands = {"slice-operands",
                                 "Products read slices of their operands where they lie",
                                 whatever_the_speeds(slice_operands)};
const PassInfo kReduceSingle = {"single-reductions",
                                "Reductions of single elements as the operation itself",
                                whatever_the_speeds(reduce_single)};
const PassInfo kFuse = {"fusion", "Fuses producers into their consumers", fuse};
const PassInfo kFuseNarrowly = {
    "narrow-fusion", "Fuses producers into consumers that read no more for it", fuse_narrowly};
const PassInfo kFuseRows = {"row-fusion",
                            "Merges chained reductions along rows (softmax, normalisations)",
                            whatever_the_speeds(fuse_rows)};
const PassInfo kFuseColumns = {"column-fusion",
                               "Merges sums of columns with kernels along the same rows",
                               whatever_the_speeds(fuse_columns)};
const PassInfo kFuseMultiOutput = {
    "multi-output-fusion", "Merges kernels that read the same or each other", fuse_multi_output};
const PassInfo kRecomputeResults = {
    "recompute-results", "Computes what a kernel stores again where it is read, if that is quicker",
    recompute_results};
const PassInfo kCompareBounded = {
    "bounded-comparisons", "Asks what is kept of a value where it lies, as a ReLU's gradient",
    whatever_the_speeds(compare_bounded)};
const PassInfo kResiduals = {"residuals", "Recomputes in loops what other loops stack for them",
                             [](ir::Module& module, const KernelSpeeds& speeds) {
                               return recompute_residuals(module, Residuals::carried, speeds);
                             }};
const PassInfo kSinkReaders = {"sink-readers",
                               "Computes in loops what is computed of their stacks by elements",
                               whatever_the_speeds(sink_readers)};
const PassInfo kAttention = {
    "attention", "Attention in one kernel without its scores (rounds otherwise than as written)",
    whatever_the_speeds(recognize_attention)};
const PassInfo kExcessPrecision = {
    "excess-precision",
    "Chains of operations on bf16 and f16 round once (rounds otherwise than as written)",
    whatever_the_speeds(keep_excess_precision)};
const PassInfo kOwnStarts = {"own-starts",
                             "Gives each loop spread constants of its own to start from",
                             whatever_the_speeds(own_starts)};
const PassInfo kFuseHorizontal = {"horizontal-fusion",
                                  "Launches small independent kernels together",
                                  whatever_the_speeds(fuse_horizontal), true};
const PassInfo kPromoteAllReduces = {
    "all-reduce-promotion",
    "Sums over partitions and then over replicas once, over all (rounds otherwise than as written)",
    [](ir::Module& module, const KernelSpeeds&) { return promote_all_reduces(module); }, false,
    [](ir::Module& module, const OptimizeOptions&, std::vector<Remark>& remarks) {
      return promote_all_reduces(module, {.several_programs = true}, &remarks);
    }};
const PassInfo kPromoteToNarrowerSums = {
    "narrow-all-reduce-promotion",
    "The same where the one sum is of a narrower dtype than the program wrote, too",
    [](ir::Module& module, const KernelSpeeds&) {
      return promote_all_reduces(module, {.narrower_sums = true});
    },
    false,
    [](ir::Module& module, const OptimizeOptions&, std::vector<Remark>& remarks) {
      return promote_all_reduces(module, {.narrower_sums = true, .several_programs = true},
                                 &remarks);
    }};

const PassInfo kSimplifyCollectives = {
    "simplify-collectives", "What participants know without meeting, each computes for itself",
    whatever_the_speeds(simplify_collectives)};
const PassInfo kCreateReduceScatters = {"reduce-scatter-creation",
                                        "Reductions of which each member reads its own part",
                                        whatever_the_speeds(create_reduce_scatters)};
const PassInfo kPlaceGathers = {"place-gathers", "Gathers what is hinted right before it is read",
                                whatever_the_speeds(place_gathers)};
Result<bool> combine(ir::Module& module, const OptimizeOptions& options,
                     std::vector<Remark>* remarks) {
  return combine_collectives(module, {.bucket_bytes = options.collective_bucket_bytes}, remarks);
}
const PassInfo kCombineCollectives = {
    "collective-combiner", "Collectives of a kind that do not wait for each other become one",
    [](ir::Module& module, const KernelSpeeds&) { return combine(module, {}, nullptr); }, false,
    [](ir::Module& module, const OptimizeOptions& options, std::vector<Remark>& remarks) {
      return combine(module, options, &remarks);
    }};

const PassInfo kReassociateAllReduces = {
    "all-reduce-reassociation",
    "The sum of sums over participants is the sum of the sum (rounds otherwise than as written)",
    whatever_the_speeds(reassociate_all_reduces)};
const PassInfo kHoistAllReduces = {
    "all-reduce-hoisting",
    "Sums over participants once what a loop accumulates (rounds otherwise than as written)",
    whatever_the_speeds(hoist_all_reduces)};

// Collectives of one participant are left as they are: the header may not say yet how many there
// will be.
bool has_participants(const ir::Module& module) {
  return module.replica_count > 1 || module.num_partitions > 1;
}

// Those of the module by name, in the order in which they stand.
std::vector<std::string> collectives_in_order(const ir::Module& module) {
  std::vector<std::string> names;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      const ir::OpClass op_class = ir::op_info(instruction->opcode()).op_class;
      if (op_class == ir::OpClass::collective || op_class == ir::OpClass::async) {
        names.push_back(instruction->name());
      }
    }
  }
  return names;
}

// What the program holds in any case bounds what it may hold besides: nothing else does that is the
// same for all participants, whatever their limits and measured speeds.
Result<bool> combine_within_share(ir::Module& module, const OptimizeOptions& options) {
  constexpr std::int64_t kShare = 16;
  std::int64_t bytes = module.entry()->root()->shape().byte_size();
  for (const ir::Instruction* parameter : module.entry()->parameters()) {
    bytes += parameter->shape().byte_size();
  }
  OptimizeOptions bounded = options;
  bounded.collective_bucket_bytes = std::min(options.collective_bucket_bytes, bytes / kShare);
  return combine(module, bounded, nullptr);
}

// Kernels have the right operand of these packed before, and then add in another order: a program
// in which one becomes a constant only by folding has other bits than as it is written.
std::int64_t products_by_constants(const ir::Module& module) {
  std::int64_t count = 0;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      if (instruction->opcode() != ir::Opcode::dot) continue;
      count += instruction->operand(1)->opcode() == ir::Opcode::constant ? 1 : 0;
    }
  }
  return count;
}

Status clean_up(ir::Module& module) {
  constexpr int kMaxRounds = 4;
  for (int round = 0; round < kMaxRounds; ++round) {
    bool changed = false;
    for (const PassInfo* pass : {&kSimplify, &kCse, &kDce}) {
      PLIMSOLL_ASSIGN_OR_RETURN(const bool pass_changed, run(*pass, module));
      changed = changed || pass_changed;
    }
    if (!changed) break;
  }
  return ok_status();
}

}  // namespace

std::span<const PassInfo> all_passes() {
  static const std::array kPasses = {kPartition,
                                     kInlineCalls,
                                     kSimplify,
                                     kCse,
                                     kDce,
                                     kSink,
                                     kSimplifyCollectives,
                                     kCreateReduceScatters,
                                     kPlaceGathers,
                                     kCombineCollectives,
                                     kTurnProducts,
                                     kLayouts,
                                     kResiduals,
                                     kSinkReaders,
                                     kSliceOperands,
                                     kReduceSingle,
                                     kFuse,
                                     kFuseNarrowly,
                                     kFuseRows,
                                     kFuseColumns,
                                     kFuseMultiOutput,
                                     kRecomputeResults,
                                     kFuseHorizontal,
                                     kOwnStarts};
  return kPasses;
}

std::span<const PassInfo> rounding_passes() {
  static const std::array kPasses = {
      kAttention,
      kExcessPrecision,
      kSumNarrowProducts,
      kTileNarrowProducts,
      kPromoteAllReduces,
      kPromoteToNarrowerSums,
      kReassociateAllReduces,
      kHoistAllReduces,
      PassInfo{"sum-scheduling",
               "Adds large addends up as they are made (rounds otherwise than as written)",
               whatever_the_speeds(schedule_sums)}};
  return kPasses;
}

Result<bool> prepare(ir::Module& module, const OptimizeOptions& options) {
  const bool meets = has_participants(module);
  const std::vector<std::string> collectives =
      meets ? collectives_in_order(module) : std::vector<std::string>();
  const std::int64_t by_constants = products_by_constants(module);
  if (meets && !options.one_program) PLIMSOLL_RETURN_IF_ERROR(order_collectives(module).status());
  PLIMSOLL_RETURN_IF_ERROR(run(kInlineCalls, module).status());
  PLIMSOLL_RETURN_IF_ERROR(order_transfers(module).status());
  PLIMSOLL_RETURN_IF_ERROR(clean_up(module));
  PLIMSOLL_ASSIGN_OR_RETURN(const bool sunk, run(kSink, module));
  if (sunk) PLIMSOLL_RETURN_IF_ERROR(clean_up(module));
  bool is_other = false;
  if (meets && options.one_program) {
    PLIMSOLL_ASSIGN_OR_RETURN(const bool simpler, run(kSimplifyCollectives, module));
    PLIMSOLL_ASSIGN_OR_RETURN(const bool promoted, run(kPromoteAllReduces, module));
    PLIMSOLL_ASSIGN_OR_RETURN(const bool scattered, run(kCreateReduceScatters, module));
    is_other = simpler || promoted || scattered;
    if (is_other) PLIMSOLL_RETURN_IF_ERROR(clean_up(module));
    if (options.same_collectives_in_all_forms) {
      PLIMSOLL_ASSIGN_OR_RETURN(const bool combined, combine_within_share(module, options));
      is_other = is_other || combined;
    }
  }
  if (options.fused_attention) {
    PLIMSOLL_ASSIGN_OR_RETURN(const bool fused, run(kAttention, module));
    if (fused) PLIMSOLL_RETURN_IF_ERROR(clean_up(module));
    is_other = is_other || fused;
  }
  if (options.excess_precision) {
    PLIMSOLL_ASSIGN_OR_RETURN(const bool kept, run(kExcessPrecision, module));
    if (kept) PLIMSOLL_RETURN_IF_ERROR(clean_up(module));
    is_other = is_other || kept;
  }
  PLIMSOLL_ASSIGN_OR_RETURN(const bool turned, run(kTurnProducts, module));
  is_other = is_other || turned;
  PLIMSOLL_ASSIGN_OR_RETURN(const bool relaid, run(kLayouts, module));
  if (relaid || turned) PLIMSOLL_RETURN_IF_ERROR(clean_up(module));
  PLIMSOLL_ASSIGN_OR_RETURN(
      const bool summed,
      run(options.launches_cost ? kSumConvertedProducts : kSumNarrowProducts, module));
  bool tiled = false;
  if (!options.launches_cost) {
    PLIMSOLL_ASSIGN_OR_RETURN(tiled, run(kTileNarrowProducts, module));
  }
  if (summed || tiled) PLIMSOLL_RETURN_IF_ERROR(clean_up(module));
  is_other = is_other || summed || tiled;
  is_other = is_other || products_by_constants(module) != by_constants;
  if (!meets) return is_other || relaid;
  // Participants may choose other forms of the program: whatever those make of it, they come to the
  // collectives in this order.
  if (options.same_collectives_in_all_forms) {
    PLIMSOLL_ASSIGN_OR_RETURN(const bool ordered, order_collectives(module));
    is_other = is_other || ordered;
  }
  return is_other || relaid || collectives_in_order(module) != collectives;
}

Status choose_kernels(ir::Module& module, const OptimizeOptions& options) {
  PLIMSOLL_ASSIGN_OR_RETURN(
      const bool fewer,
      recompute_residuals(module, options.residuals, options.speeds, options.recomputed_percent));
  if (fewer) PLIMSOLL_RETURN_IF_ERROR(clean_up(module));
  if (options.fusion == Fusion::none || options.fusion == Fusion::as_written) return ok_status();
  PLIMSOLL_ASSIGN_OR_RETURN(const bool sunk, run(kSinkReaders, module));
  if (sunk) PLIMSOLL_RETURN_IF_ERROR(clean_up(module));
  // A combined collective keeps all of its operands until the last is there: not for forms that are
  // to need little.
  if (options.fusion == Fusion::full && has_participants(module) &&
      !options.same_collectives_in_all_forms) {
    PLIMSOLL_RETURN_IF_ERROR(combine(module, options, nullptr).status());
  }
  if (options.slices_operands) PLIMSOLL_RETURN_IF_ERROR(run(kSliceOperands, module).status());
  const PassInfo* const vertical = options.fusion == Fusion::narrow ? &kFuseNarrowly : &kFuse;
  for (const PassInfo* pass :
       {&kReduceSingle, vertical, &kFuseRows, &kFuseColumns, &kFuseMultiOutput, &kCompareBounded,
        &kRecomputeResults, &kCse, &kDce}) {
    const bool merges = pass == &kFuseColumns || pass == &kFuseMultiOutput ||
                        pass == &kCompareBounded || pass == &kRecomputeResults;
    if (merges && options.fusion != Fusion::full) continue;
    if (pass == &kFuseColumns && options.launches_cost) continue;
    // Longer rows are merged for it, which hold more at once.
    if (pass == &kReduceSingle && options.fusion == Fusion::narrow) continue;
    PLIMSOLL_RETURN_IF_ERROR(run(*pass, module, options.speeds).status());
  }
  if (options.launches_cost && options.fusion == Fusion::full) {
    PLIMSOLL_RETURN_IF_ERROR(run(kFuseHorizontal, module).status());
  }
  return run(kOwnStarts, module).status();
}

Status optimize(ir::Module& module, const OptimizeOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(prepare(module, options).status());
  return choose_kernels(module, options);
}

}  // namespace plimsoll::passes
