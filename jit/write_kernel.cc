// SPDX-License-Identifier: Apache-2.0
#include "jit/write_kernel.h"

#include <llvm/Support/raw_ostream.h>

#include "jit/jit.h"
#include "jit/keys/canonical.h"
#include "jit/loops/flat_form.h"
#include "jit/loops/flat_kernel.h"
#include "jit/loops/loop_kernel.h"
#include "jit/reductions/reduction_kernel.h"
#include "jit/reductions/row_kernel.h"

namespace plimsoll::jit {

Status add_kernel(const KernelGraph& graph, KernelForm form, const std::string& id,
                  const KernelTarget& target, KernelCode& code) {
  const auto write = form == KernelForm::flat  ? write_flat_kernel
                     : graph.reduces().empty() ? write_loop_kernel
                     : graph.is_row_fusion()   ? write_row_kernel
                                               : write_reduction_kernel;
  const std::size_t first = code.phases.size();
  PLIMSOLL_RETURN_IF_ERROR(write(graph, target, code));
  for (std::size_t i = first; i < code.phases.size(); ++i) {
    Phase& phase = code.phases[i];
    llvm::Function* function = code.module->getFunction(phase.function);
    if (function == nullptr) {
      return internal_error("kernel " + id + ": no function '" + phase.function + "'");
    }
    function->setName(id + '.' + phase.function);
    phase.function = function->getName().str();
  }
  return ok_status();
}

Result<KernelCode> write_kernel(const KernelGraph& graph, KernelForm form, const std::string& id,
                                const KernelTarget& target) {
  KernelCode code = KernelCode::create(target);
  code.module->setModuleIdentifier(id);
  code.module->setSourceFileName(id);
  PLIMSOLL_RETURN_IF_ERROR(add_kernel(graph, form, id, target, code));
  return code;
}

Result<KernelText> kernel_text(const ir::Instruction& instruction, int vector_bytes) {
  const FlatForm flat = flat_form(instruction);
  const bool is_flat = flat.module != nullptr && flat.elements <= kMostFlatElements;
  PLIMSOLL_ASSIGN_OR_RETURN(const KernelGraph graph,
                            KernelGraph::create(is_flat ? flat.fusion() : instruction));
  KernelText result;
  result.name = kernel_id(kernel_name(graph), canonical_text(graph));
  PLIMSOLL_ASSIGN_OR_RETURN(const KernelCode code,
                            write_kernel(graph, is_flat ? KernelForm::flat : KernelForm::plain,
                                         result.name, KernelTarget{vector_bytes}));
  llvm::raw_string_ostream stream(result.text);
  code.module->print(stream, nullptr);
  for (const Phase& phase : code.phases) {
    stream << "; " << phase.function << ": " << phase.units << " units";
    if (phase.unless_input >= 0) {
      stream << " unless input " << phase.unless_input << " is output " << phase.unless_output;
    }
    stream << '\n';
  }
  stream << "; workspace: " << code.workspace_bytes << " bytes\n";
  return result;
}

}  // namespace plimsoll::jit
