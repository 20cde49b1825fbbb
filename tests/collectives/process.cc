// SPDX-License-Identifier: Apache-2.0
// A participant as a process: sums NUMBERS floats ROUNDS times as WHAT, and prints what becomes of
// it, a line each: "runs" once it has come some rounds far; "done", or its error, and then whether
// the next call gave the same.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "collectives/gloo.h"
#include "kernels/cpu/collectives/reduction.h"
#include "runtime/ir/text/text.h"

namespace plimsoll::collectives {
namespace {

int run(const std::string& what, std::int64_t numbers, std::int64_t rounds) {
  const auto module = ir::parse_module(
      "HloModule m\nENTRY e { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, "
      "b) }");
  const auto sums = kernels::make_reduction(*(*module)->entry(), ir::DType::f32);
  const auto membership = read_membership();
  if (!membership.ok()) {
    std::printf("%s\n", membership.status().to_string().c_str());
    return 2;
  }
  const auto communicator = connect_gloo(*membership);
  if (!communicator.ok()) {
    // Others may be ahead, and have failed already.
    std::printf("%s\nagain\n", communicator.status().to_string().c_str());
    return 3;
  }
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < membership->world_size; ++i) all.push_back(i);
  const device::Communicator::Call call{what, all, static_cast<std::size_t>(membership->rank)};
  std::vector<float> in(static_cast<std::size_t>(numbers), 1.0f), out(in.size());
  const device::Communicator::Reduce array{in.data(), out.data(), 1, numbers, sums->get()};
  const auto sum = [&] { return (*communicator)->all_reduce(call, std::span(&array, 1)); };
  for (std::int64_t round = 0; round < rounds; ++round) {
    if (round == 3) {
      std::printf("runs\n");
      std::fflush(stdout);
    }
    const Status status = sum();
    if (status.ok()) {
      for (const float x : out) {
        if (x == static_cast<float>(membership->world_size)) continue;
        std::printf("a wrong sum\n");
        return 4;
      }
      continue;
    }
    std::printf("%s\n", status.to_string().c_str());
    std::printf("%s\n", sum().to_string() == status.to_string() ? "again" : "another error");
    return 3;
  }
  std::printf("done\n");
  return 0;
}

}  // namespace
}  // namespace plimsoll::collectives

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  return plimsoll::collectives::run(argv[1], std::atoll(argv[2]), std::atoll(argv[3]));
}
