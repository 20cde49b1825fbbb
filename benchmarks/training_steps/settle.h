// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "plimsoll/plimsoll.hpp"

namespace plimsoll::benchmarks {

// The context's report, when no plan for its last step is being made in the background: one takes a
// processor from what is timed meanwhile, whoever's it is.
inline nlohmann::ordered_json wait_for_plans(Context& context) {
  while (true) {
    auto report = nlohmann::ordered_json::parse(context.report());
    if (!report.value("is_planning", false)) return report;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace plimsoll::benchmarks
