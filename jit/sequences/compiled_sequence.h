// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "jit/native/native_code.h"
#include "jit/sequences/sequence_code.h"
#include "runtime/base/cancellation.h"
#include "runtime/device/launch_sequence.h"

namespace plimsoll::jit {

// A sequence as one function, on the thread that runs it.
class CompiledSequence final : public device::LaunchSequence {
 public:
  // `code`: of `graph`.
  CompiledSequence(const SequenceGraph& graph, std::shared_ptr<const NativeCode> code)
      : tables_(graph.tables()), code_(std::move(code)) {}

  Status run(device::Stream&, std::span<void* const> addresses, std::int64_t done,
             const Stop* stop) const override {
    std::vector<const void*> inputs(addresses.begin(), addresses.end());
    for (const auto& table : tables_) inputs.push_back(table->bytes().data());
    Control control{{&ask}, stop, {}};
    code_->entry(0)(inputs.data(), nullptr, &control, done, 0);
    return control.status;
  }

 private:
  struct Control : SequenceControl {
    const Stop* stop;
    Status status;
  };
  static std::int32_t ask(SequenceControl* asked) {
    Control& control = static_cast<Control&>(*asked);
    if (control.stop != nullptr) control.status = control.stop->check();
    return control.status.ok() ? 0 : 1;
  }

  std::vector<std::shared_ptr<const ir::Literal>> tables_;
  std::shared_ptr<const NativeCode> code_;
};

}  // namespace plimsoll::jit
