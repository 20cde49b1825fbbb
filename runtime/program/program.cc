// SPDX-License-Identifier: Apache-2.0
#include "runtime/program/program.h"

#include <algorithm>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "runtime/base/float_environment.h"
#include "runtime/base/hash.h"
#include "runtime/base/index.h"
#include "runtime/ir/text/text.h"
#include "runtime/passes/passes.h"
#include "runtime/planner/cost/cost_model.h"
#include "runtime/program/calibration.h"
#include "runtime/program/coding_kernels.h"
#include "runtime/program/fused_decode.h"
#include "runtime/program/fused_encode.h"

namespace plimsoll::executor {
namespace {

using ir::Opcode;

// Instructions that the plan resolves to buffers or the executor runs itself.
bool needs_no_kernel(const ir::Instruction& instruction) {
  switch (instruction.opcode()) {
    case Opcode::parameter:
    case Opcode::constant:
    case Opcode::tuple:
    case Opcode::get_tuple_element:
    case Opcode::domain:
    case Opcode::opt_barrier:
    case Opcode::after_all:
    case Opcode::add_dependency:
    case Opcode::call:
    case Opcode::while_:
    case Opcode::conditional:
      return true;
    default:
      return false;
  }
}

bool is_control_flow(Opcode opcode) {
  return opcode == Opcode::call || opcode == Opcode::while_ || opcode == Opcode::conditional;
}

// Instructions of every computation that runs step by step (not as part of a kernel): of the entry
// and of what control flow calls from there, each computation once. What a fusion or a reduce calls
// is compiled into its kernel.
std::vector<const ir::Instruction*> stepwise_instructions(const ir::Module& module) {
  std::vector<const ir::Instruction*> found;
  std::vector<const ir::Computation*> work{module.entry()};
  std::unordered_map<const ir::Computation*, bool> seen{{module.entry(), true}};
  while (!work.empty()) {
    const ir::Computation* computation = work.back();
    work.pop_back();
    for (const auto& instruction : computation->instructions()) {
      found.push_back(instruction.get());
      if (!is_control_flow(instruction->opcode())) continue;
      for (const ir::Computation* callee : instruction->called_computations()) {
        if (seen.emplace(callee, true).second) work.push_back(callee);
      }
    }
  }
  return found;
}

// The kernels of everything in `module` that needs one. A fusion that has none (another compiler's
// choice, in a module that runs as it is written) is inlined: its instructions run one by one.
// They may be fusions that are refused in turn, so it is tried again until nothing is refused;
// every round removes a fusion, and what the JIT has compiled before it finds in its cache.
Result<Kernels> make_kernels(ir::Module& module, device::KernelProvider& provider) {
  while (true) {
    std::vector<const ir::Instruction*> wanted;
    for (const ir::Instruction* instruction : stepwise_instructions(module)) {
      if (!needs_no_kernel(*instruction)) wanted.push_back(instruction);
    }
    std::vector<Result<std::shared_ptr<const device::Kernel>>> made = provider.kernels(wanted);
    Kernels kernels;
    std::unordered_set<const ir::Instruction*> refused;
    Status first;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (made[i].ok()) {
        kernels[wanted[i]] = std::move(*made[i]);
        continue;
      }
      const Status status = made[i].status().with_context("compiling '" + wanted[i]->name() + "'");
      const bool is_refused_fusion = status.code() == StatusCode::unimplemented &&
                                     wanted[i]->opcode() == Opcode::fusion &&
                                     wanted[i]->called_computations().size() == 1;
      if (!is_refused_fusion) return status;
      if (refused.empty()) first = status;
      refused.insert(wanted[i]);
    }
    if (refused.empty()) return kernels;
    PLIMSOLL_ASSIGN_OR_RETURN(const bool inlined, passes::inline_fusions(module, refused));
    if (!inlined) return first;
  }
}

class KernelCostModel : public planner::CostModel {
 public:
  struct Facts {
    std::int64_t workspace_bytes = 0;
    bool is_compiled = false;  // no library's
  };
  KernelCostModel(const planner::Roofline& machine,
                  std::unordered_map<const ir::Instruction*, Facts> facts)
      : roofline_(machine), facts_(std::move(facts)) {}
  double seconds(const ir::Instruction& instruction) const override {
    return roofline_.seconds(instruction);
  }
  std::int64_t workspace_bytes(const ir::Instruction& instruction) const override {
    return facts(instruction).workspace_bytes;
  }
  double codec_seconds(const ir::Codec& codec, const ir::Shape& shape, bool encode) const override {
    return roofline_.codec_seconds(codec, shape, encode);
  }
  bool reads_encoded(const ir::Instruction& instruction,
                     const ir::EncodedInput& input) const override {
    return facts(instruction).is_compiled && can_fuse_decode(instruction, input);
  }
  bool writes_encoded(const ir::Instruction& instruction,
                      const ir::EncodedOutput& output) const override {
    return facts(instruction).is_compiled && can_fuse_encode(instruction, output);
  }

 private:
  Facts facts(const ir::Instruction& instruction) const {
    const auto it = facts_.find(&instruction);
    return it == facts_.end() ? Facts() : it->second;
  }

  planner::RooflineCostModel roofline_;
  std::unordered_map<const ir::Instruction*, Facts> facts_;
};

passes::OptimizeOptions optimize_options(device::KernelProvider& provider,
                                         const ProgramOptions& options, const ProgramForm& form) {
  const device::Properties properties = provider.device()->properties();
  return {form.fusion,
          form.residuals,
          form.recomputed_percent,
          options.fused_attention,
          options.excess_precision,
          properties.has_launch_costs,
          form.combined ? options.collective_bucket_bytes : 0,
          options.one_program,
          options.plans_alone,
          provider.has_sliced_operands(),
          properties.kernel_speeds};
}

// Forms of one program with the same hash are taken for the same. Large constants are left out,
// which all of them have from the same module.
std::uint64_t hash_of(const ir::Module& module) {
  ir::PrintOptions brief;
  brief.large_constants = false;
  return hash_text(ir::to_text(module, brief));
}

bool is_table(const planner::Roofline& speeds, const device::Device& device) {
  return speeds == planner::Roofline() || speeds == built_in_speeds(device);
}

}  // namespace

Result<std::shared_ptr<const Program>> Program::create(std::unique_ptr<ir::Module> module,
                                                       device::KernelProvider& provider,
                                                       const ProgramOptions& asked,
                                                       const planner::Roofline& speeds) {
  const FloatEnvironment floats;  // in which constants are folded
  ProgramOptions options = asked;
  if (!options.overlap_bytes) {
    // Those of a device with memory of its own take no processor.
    const bool on_host = provider.device()->is_host_memory();
    const std::int64_t all = module->replica_count * module->num_partitions;
    options.overlap_bytes = overlap_bytes_for(on_host ? options.participants_here.value_or(all) : 0,
                                              std::int64_t{std::thread::hardware_concurrency()});
  }
  PreparedConstants::take_over(*module);
  // The table stays the table, so that plans are the same everywhere.
  planner::Roofline machine = speeds;
  if (options.collective_speeds && !is_table(speeds, *provider.device())) {
    machine.collectives = *options.collective_speeds;
  }
  Source source;
  std::uint64_t text_hash = 0;
  PLIMSOLL_RETURN_IF_ERROR(passes::partition(*module).status());
  // Before anything looks at what is this participant's alone.
  if (!options.one_program) PLIMSOLL_RETURN_IF_ERROR(passes::place_gathers(*module).status());
  PLIMSOLL_RETURN_IF_ERROR(passes::expand(*module, {.keeps_top_k = provider.has_top_k()}));
  PLIMSOLL_ASSIGN_OR_RETURN(module, passes::expand_complex(std::move(module)));
  PLIMSOLL_ASSIGN_OR_RETURN(module, passes::expand_narrow(std::move(module)));
  if (options.optimize) {
    const passes::OptimizeOptions passes = optimize_options(provider, options, {});
    const bool is_short = module->instruction_count() <= kMostInstructionsAsWritten;
    std::unique_ptr<ir::Module> as_written = is_short ? module->clone() : nullptr;
    PLIMSOLL_ASSIGN_OR_RETURN(const bool is_other, passes::prepare(*module, passes));
    if (is_other) as_written.reset();
    const bool has_loops = passes::has_loops(*module);
    source = {std::move(module), std::move(as_written), &provider, machine, has_loops};
    // A clone, as the other forms are made of: equal forms have equal texts, names included.
    module = source.prepared->clone();
    PLIMSOLL_RETURN_IF_ERROR(passes::choose_kernels(*module, passes));
    text_hash = hash_of(*module);
  }
  PLIMSOLL_ASSIGN_OR_RETURN(
      std::shared_ptr<Program> program,
      compile(std::move(module), provider, options, machine, std::make_shared<PreparedConstants>(),
              std::make_shared<planner::MeasuredTimes>(machine.cache)));
  program->source_ = std::move(source);
  program->text_hash_ = text_hash;
  program->forget_unread();
  PreparedConstants::forget(*program->module_);
  return std::shared_ptr<const Program>(std::move(program));
}

// Forms may come out alike, so passes run first, which takes no kernel: a form is compiled only
// where its text differs from this one's and from those of all forms before. The lock is held
// meanwhile, as a second thread that asks for the same form would compile the same.
Result<std::shared_ptr<const Program>> Program::in_form(const ProgramForm& form) const {
  if (source_.prepared == nullptr) return std::shared_ptr<const Program>();
  if (form == form_) return shared_from_this();
  const std::lock_guard lock(forms_mutex_);
  if (const auto known = forms_.find(form); known != forms_.end()) {
    return known->second == nullptr ? shared_from_this() : known->second;
  }
  const bool as_written = form.fusion == passes::Fusion::as_written && has_form_as_written();
  std::unique_ptr<ir::Module> module =
      (as_written ? source_.as_written : source_.prepared)->clone();
  if (!as_written) {
    PLIMSOLL_RETURN_IF_ERROR(
        passes::choose_kernels(*module, optimize_options(*source_.provider, options_, form)));
  }
  const std::uint64_t text_hash = hash_of(*module);
  // Null stands for this one, which must not keep itself alive.
  std::shared_ptr<const Program>& made = forms_[form];
  if (text_hash == text_hash_) return shared_from_this();
  for (const auto& [other, program] : forms_) {
    if (program != nullptr && program->text_hash_ == text_hash) return made = program;
  }
  const auto compiled = compile(std::move(module), *source_.provider, options_, source_.machine,
                                prepared_constants_, costs_->times());
  // An operation may have a kernel as a part of others only.
  if (compiled.status().code() == StatusCode::unimplemented) return shared_from_this();
  if (!compiled.ok()) {
    forms_.erase(form);
    return compiled.status();
  }
  (*compiled)->form_ = form;
  (*compiled)->text_hash_ = text_hash;
  forget_unread();
  return made = *compiled;
}

// What other forms are made of is kept, but not in memory where it can be read or made again.
void Program::forget_unread() const {
  for (const ir::Module* source : {source_.prepared.get(), source_.as_written.get()}) {
    if (source != nullptr) prepared_constants_->forget_unread(*source);
  }
}

Result<std::shared_ptr<Program>> Program::compile(std::unique_ptr<ir::Module> module,
                                                  device::KernelProvider& provider,
                                                  const ProgramOptions& options,
                                                  const planner::Roofline& machine,
                                                  std::shared_ptr<PreparedConstants> prepared,
                                                  std::shared_ptr<planner::MeasuredTimes> times) {
  auto program = std::make_shared<Program>();
  program->options_ = options;
  PLIMSOLL_RETURN_IF_ERROR(passes::order_collectives(*module).status());
  PLIMSOLL_ASSIGN_OR_RETURN(program->kernels_, make_kernels(*module, provider));
  program->prepared_constants_ = std::move(prepared);
  PLIMSOLL_RETURN_IF_ERROR(program->prepared_constants_->prepare(*module, program->kernels_));
  program->prepared_constants_->note_read(*module);
  std::unordered_map<const ir::Instruction*, KernelCostModel::Facts> facts;
  for (const auto& [instruction, kernel] : program->kernels_) {
    facts[instruction] = {kernel->workspace_bytes(), kernel->origin() == device::KernelOrigin::jit};
  }
  program->provider_ = &provider;
  program->module_ = std::move(module);
  program->is_calibrated_ = !is_table(machine, *provider.device());
  program->costs_ = std::make_unique<planner::MeasuredCosts>(
      std::make_unique<KernelCostModel>(machine, std::move(facts)), std::move(times));
  program->plans_ = std::make_unique<planner::PlanCache>(*program->module_);
  return program;
}

planner::PlanOptions Program::possible(planner::PlanOptions options) const {
  if (!provider_->has_codecs()) options.remedies.compress = options.remedies.lossy = false;
  if (*options_.overlap_bytes <= 0) options.without.add(planner::Technique::overlap);
  return options;
}

const device::Kernel* Program::kernel(const ir::Instruction& instruction) const {
  const auto it = kernels_.find(&instruction);
  return it == kernels_.end() ? nullptr : it->second.get();
}

// The kernel of a step that reads or writes codes is the instruction's own with the codecs fused
// into it. It is compiled when the first plan has such a step and kept by what it codes, as other
// plans will ask for it. The planner has counted the workspace of the plain kernel, since it plans
// before this one exists: more than that would not be there.
Result<const device::Kernel*> Program::kernel(const planner::Step& step) const {
  const ir::Instruction& instruction = *step.instruction;
  if (step.coding.empty()) return kernel(instruction);
  std::string name;
  for (const ir::EncodedInput& input : step.coding.inputs) {
    name += "reads " + std::to_string(input.input) + ": " + ir::to_string(input.codec) + "; ";
  }
  std::vector<bool> only_code(step.outputs.size() - step.coding.outputs.size());
  for (std::size_t leaf = 0; leaf < only_code.size(); ++leaf)
    only_code[leaf] = step.outputs[leaf] < 0;
  for (const ir::EncodedOutput& output : step.coding.outputs) {
    const bool only = only_code[at(output.output)];
    name += (only ? "only writes " : "writes ") + std::to_string(output.output) + ": " +
            ir::to_string(output.codec) + "; ";
  }
  const std::lock_guard lock(coding_mutex_);
  auto& kernel = coding_kernels_[{&instruction, std::move(name)}];
  if (kernel == nullptr) {
    const std::unique_ptr<ir::Module> module = with_coding(instruction, step.coding, only_code);
    PLIMSOLL_ASSIGN_OR_RETURN(auto made, provider_->kernel(*module->entry()->root()));
    if (made->workspace_bytes() > this->kernel(instruction)->workspace_bytes()) {
      return internal_error("the kernel of '" + instruction.name() +
                            "' needs more workspace than planned once it encodes or decodes");
    }
    kernel = std::move(made);
  }
  return kernel.get();
}

const ResidentConstants& Program::resident(std::span<const ir::Literal* const> constants) const {
  const std::lock_guard lock(resident_mutex_);
  return resident_[{constants.begin(), constants.end()}];
}

}  // namespace plimsoll::executor
