// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/linalg/linalg.h"

#include "kernels/cpu/linalg/factorizations.h"
#include "kernels/cpu/linalg/spectra.h"

namespace plimsoll::kernels {
namespace {

constexpr std::string_view kPrefix = "lapack_", kSuffix = "_ffi";
// Has no letter: the arrays say it.
constexpr std::string_view kPerturbed = "tridiagonal_solve_perturbed_ffi";

template <typename Solver>
KernelResult make(const LibraryCall& call, const std::string& name) {
  PLIMSOLL_ASSIGN_OR_RETURN(Solver solver, Solver::create(call));
  const std::int64_t batch = solver.batch;
  return KernelResult(std::make_shared<BatchKernel<Solver>>(name, batch, std::move(solver)));
}

template <template <typename> typename Solver>
KernelResult make_of(char letter, const LibraryCall& call, const std::string& name) {
  switch (letter) {
    case 's':
      return make<Solver<float>>(call, name);
    case 'd':
      return make<Solver<double>>(call, name);
    case 'c':
      return make<Solver<std::complex<float>>>(call, name);
    default:
      return make<Solver<std::complex<double>>>(call, name);
  }
}

struct Function {
  std::string_view name;
  std::string_view letters;
  KernelResult (*make)(char letter, const LibraryCall& call, const std::string& name);
};
constexpr std::string_view kAll = "sdcz", kReal = "sd", kComplex = "cz";
constexpr Function kFunctions[] = {
    {"trsm", kAll, make_of<Trsm>},       {"getrf", kAll, make_of<Getrf>},
    {"potrf", kAll, make_of<Potrf>},     {"geqrf", kAll, make_of<Geqrf>},
    {"geqp3", kAll, make_of<Geqp3>},     {"orgqr", kReal, make_of<Orgqr>},
    {"ungqr", kComplex, make_of<Orgqr>}, {"ormqr", kReal, make_of<Ormqr>},
    {"unmqr", kComplex, make_of<Ormqr>}, {"gesdd", kAll, make_of<Gesdd>},
    {"gesvd", kAll, make_of<Gesvd>},     {"syevd", kReal, make_of<Syevd>},
    {"heevd", kComplex, make_of<Syevd>}, {"geev", kAll, make_of<Geev>},
    {"gees", kAll, make_of<Gees>},       {"gehrd", kAll, make_of<Gehrd>},
    {"sytrd", kReal, make_of<Sytrd>},    {"hetrd", kComplex, make_of<Sytrd>},
    {"gtsv", kAll, make_of<Gtsv>},
};

const Function* find(std::string_view target) {
  if (!target.starts_with(kPrefix) || !target.ends_with(kSuffix)) return nullptr;
  target.remove_prefix(kPrefix.size());
  target.remove_suffix(std::min(target.size(), kSuffix.size()));
  if (target.size() < 2) return nullptr;
  for (const Function& function : kFunctions) {
    if (target.substr(1) == function.name && function.letters.find(target[0]) != kAll.npos) {
      return &function;
    }
  }
  return nullptr;
}

}  // namespace

bool is_lapack_target(std::string_view target) {
  return target == kPerturbed || find(target) != nullptr;
}

std::vector<std::string> lapack_targets() {
  std::vector<std::string> names;
  for (const Function& function : kFunctions) {
    names.push_back(std::string(kPrefix) + "*" + std::string(function.name) + std::string(kSuffix));
  }
  names.emplace_back(kPerturbed);
  return names;
}

KernelResult make_lapack(const ir::Instruction& instruction) {
  const std::string& target = instruction.attributes().custom_call_target;
  if (target == kPerturbed) {
    const bool is_wide =
        instruction.shape().is_array() && instruction.shape().dtype() == ir::DType::f64;
    const LibraryCall call(instruction);
    return is_wide ? make<PerturbedTridiagonal<double>>(call, target)
                   : make<PerturbedTridiagonal<float>>(call, target);
  }
  return find(target)->make(target[kPrefix.size()], LibraryCall(instruction), target);
}

}  // namespace plimsoll::kernels
