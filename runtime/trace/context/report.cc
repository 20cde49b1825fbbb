// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <string>

#include "runtime/planner/plan_summary.h"
#include "runtime/trace/context/context.h"

namespace plimsoll::trace {
namespace {

std::string quoted(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string number(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value);
  return std::string(buffer, end.ptr);
}

// Collects `"name": value` pairs.
class Fields {
 public:
  Fields& add(std::string_view name, std::int64_t value) {
    return text(name, std::to_string(value));
  }
  Fields& add(std::string_view name, double value) { return text(name, number(value)); }
  Fields& add(std::string_view name, std::string_view value) { return text(name, quoted(value)); }
  Fields& text(std::string_view name, std::string_view json) {
    if (!out_.empty()) out_ += ", ";
    out_ += quoted(name) + ": " + std::string(json);
    return *this;
  }
  Fields& join(const std::string& fields) {
    if (!out_.empty() && !fields.empty()) out_ += ", ";
    out_ += fields;
    return *this;
  }
  const std::string& str() const { return out_; }
  std::string object() const { return "{" + out_ + "}"; }

 private:
  std::string out_;
};

// A limit, or null for none.
Fields& add_limit(Fields& fields, std::string_view name, std::int64_t limit) {
  if (limit == planner::kUnlimited) return fields.text(name, "null");
  return fields.add(name, limit);
}

std::string uses_json(const std::array<std::int64_t, memory::kUseCount>& bytes) {
  Fields fields;
  for (int use = 0; use < memory::kUseCount; ++use) {
    fields.add(memory::to_string(static_cast<memory::Use>(use)),
               bytes[static_cast<std::size_t>(use)]);
  }
  return fields.object();
}

std::string memory_json(const Context& context) {
  const memory::Statistics now = context.budget()->statistics();
  const device::KernelStatistics code = context.provider()->statistics();
  return Fields()
      .add("used_bytes", now.used_bytes)
      .add("peak_bytes", now.peak_bytes)
      .text("used", uses_json(now.used_by_use))
      .text("peak", uses_json(now.peak_by_use))
      .add("code_bytes", code.code_bytes)
      .add("peak_code_bytes", code.peak_code_bytes)
      .object();
}

std::string kernels_json(const executor::Executable& executable) {
  std::string out = "[";
  for (const executor::ProfileEntry& entry : executable.profile()) {
    if (entry.launches == 0) continue;
    if (out.size() > 1) out += ", ";
    out += Fields()
               .add("name", entry.name)
               .add("origin", device::to_string(entry.origin))
               .add("launches", entry.launches)
               .add("recomputes", entry.recomputes)
               .add("seconds", entry.seconds)
               .add("transfer_seconds", entry.transfer_seconds)
               .add("bytes", entry.bytes)
               .object();
  }
  return out + "]";
}

std::string lossy_json(const planner::Plan& plan) {
  std::string out = "[";
  for (const planner::LossyUse& use : planner::lossy_uses(plan)) {
    if (out.size() > 1) out += ", ";
    out += Fields()
               .add("codec", to_string(use.codec))
               .add("encodes", use.encodes)
               .add("error_bound", planner::error_bound(use.codec))
               .object();
  }
  return out + "]";
}

}  // namespace

std::string plan_json_fields(const planner::Plan& plan) {
  Fields fields;
  fields.add("peak_bytes", plan.peak_bytes)
      .add("arena_bytes", plan.arena_bytes)
      .add("live_bytes", plan.live_bytes)
      .add("host_bytes", plan.host_bytes)
      .add("disk_bytes", plan.disk_bytes)
      .add("predicted_seconds", plan.predicted_seconds)
      .add("unlimited_seconds", plan.unlimited_seconds)
      .add("lower_bound_seconds", plan.lower_bound_seconds)
      .add("planning_seconds", plan.planning_seconds)
      .add("recomputed_bytes", plan.recomputed_bytes)
      .add("policy", plan.policy);
  fields.text("steps", Fields()
                           .add("compute", plan.counts.compute)
                           .add("recompute", plan.counts.recompute)
                           .add("encode", plan.counts.encode)
                           .add("decode", plan.counts.decode)
                           .add("fused_encode", plan.counts.fused_encode)
                           .add("fused_decode", plan.counts.fused_decode)
                           .add("swap_out", plan.counts.swap_out)
                           .add("swap_in", plan.counts.swap_in)
                           .add("collective", plan.counts.collective)
                           .object());
  fields.text("lossy", lossy_json(plan));
  fields.text("by_cause", Fields()
                              .add("parameters", plan.by_cause.parameters)
                              .add("constants", plan.by_cause.constants)
                              .add("outputs", plan.by_cause.outputs)
                              .add("temporaries", plan.by_cause.temporaries)
                              .add("workspaces", plan.by_cause.workspaces)
                              .object());
  const planner::ArenaBytes arena = planner::arena_at_peak(plan);
  fields.text("arena_at_peak", Fields()
                                   .add("activations", arena.activations)
                                   .add("workspaces", arena.workspaces)
                                   .add("encoded", arena.encoded)
                                   .add("staging", arena.staging)
                                   .object());
  return fields.str();
}

std::string report_json(const Context& context) {
  const CutReport& cut = context.last_cut();
  Fields fields;
  add_limit(fields, "limit_bytes", cut.limit_bytes);
  add_limit(fields, "available_bytes", cut.available_bytes);
  if (cut.floor_bytes > 0) fields.add("floor_bytes", cut.floor_bytes);
  if (cut.executable != nullptr) {
    const executor::LaunchCounts launches = cut.executable->launches();
    fields.join(plan_json_fields(cut.executable->plan()))
        .add("launched_kernels", launches.kernels)
        .add("launches", launches.launches);
  }
  if (cut.current != nullptr) {
    const auto expected = cut.current->expectation();
    fields.add("expected_seconds", expected.seconds)
        .add("expected_unlimited_seconds", expected.unlimited_seconds);
  }
  fields.add("compile_seconds", cut.compile_seconds)
      .add("step_seconds", cut.seconds == nullptr ? 0.0 : cut.seconds->load())
      .add("ops", cut.operations)
      .add("parameters", cut.parameters)
      .add("outputs", cut.outputs)
      .add("replans", cut.replans)
      .add("cache", cut.hit ? "hit" : "miss");
  if (!cut.hit) fields.add("miss_reason", cut.miss_reason);
  fields.add("cuts", context.counts().cuts)
      .add("cache_hits", context.counts().hits)
      .add("cache_misses", context.counts().misses);
  fields.text("memory", memory_json(context));
  const memory::EvictionStatistics& evictions = context.evictions();
  const StoredBytes stored = context.stored_bytes();
  fields.add("segments", cut.segments)
      .text("evictions", Fields()
                             .add("evicted", evictions.evictions)
                             .add("stored", evictions.stores)
                             .add("stored_bytes", stored.given)
                             .add("tier_bytes", stored.taken)
                             .add("encoded", evictions.encodes)
                             .add("loaded", evictions.loads)
                             .add("recomputed", evictions.recomputes)
                             .add("recompute_seconds", evictions.recompute_seconds)
                             .object());
  if (context.profiling() && cut.executable != nullptr) {
    fields.text("kernels", kernels_json(*cut.executable));
  }
  return fields.object();
}

}  // namespace plimsoll::trace
