// SPDX-License-Identifier: Apache-2.0
// What laziness costs: nanoseconds per recorded operation through the C ABI, and microseconds per
// operation of a cached step of 1,000 tiny operations (recording, hashing, running). Prints JSON.
#include <plimsoll/plimsoll.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "benchmarks/command_line/command_line.h"

namespace {

constexpr int kOps = 1000;
constexpr int kSteps = 200;

void check(plm_status* status) {
  if (status == nullptr) return;
  std::fprintf(stderr, "record_overhead: %s\n", plm_status_message(status));
  std::exit(1);
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// x := a chain of kOps operations on x, on 8 floats each. Returns the seconds spent recording.
double record(plm_context* context, plm_tensor* x, plm_tensor* c) {
  constexpr plm_opcode kCycle[] = {PLM_OP_ADD, PLM_OP_MULTIPLY, PLM_OP_SUBTRACT, PLM_OP_MAXIMUM};
  const double start = now();
  plm_tensor* value = x;
  for (int i = 0; i < kOps; ++i) {
    const plm_tensor* const operands[] = {value, c};
    plm_tensor* next = nullptr;
    check(plm_op(context, kCycle[i % 4], operands, 2, nullptr, &next, 1));
    if (value != x) plm_tensor_release(value);
    value = next;
  }
  const double recorded = now() - start;
  check(plm_assign(context, x, value));
  plm_tensor_release(value);
  return recorded;
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = plimsoll::benchmarks::read_no_arguments("record_overhead", argc, argv))
    return *status;
  plm_context* context = nullptr;
  check(plm_context_create(nullptr, &context));
  const int64_t dims[] = {8};
  const float data[] = {0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f, 0.8f};
  plm_tensor* x = nullptr;
  plm_tensor* c = nullptr;
  check(plm_tensor_from_host(context, PLM_F32, dims, 1, data, &x));
  check(plm_tensor_from_host(context, PLM_F32, dims, 1, data, &c));
  plm_tensor* both[] = {x, c};
  check(plm_eval(context, both, 2));
  for (int i = 0; i < 3; ++i) {
    record(context, x, c);
    check(plm_step(context));
    check(plm_wait(context));
  }
  std::vector<double> recording, whole, cutting;
  for (int i = 0; i < kSteps; ++i) {
    const double start = now();
    recording.push_back(record(context, x, c));
    const double cut = now();
    check(plm_step(context));
    cutting.push_back(now() - cut);
    check(plm_wait(context));
    whole.push_back(now() - start);
  }
  const char* text = nullptr;
  check(plm_context_report(context, &text));
  const auto report = nlohmann::json::parse(text);
  nlohmann::json out;
  out["ops_per_step"] = kOps;
  out["steps"] = kSteps;
  out["record_ns_per_op"] = median(recording) / kOps * 1e9;
  out["cut_us_per_op"] = median(cutting) / kOps * 1e6;
  out["cached_step_us_per_op"] = median(whole) / kOps * 1e6;
  out["last_step_cache"] = report.at("cache");
  std::printf("%s\n", out.dump(2).c_str());
  plm_tensor_release(x);
  plm_tensor_release(c);
  plm_context_destroy(context);
  return 0;
}
