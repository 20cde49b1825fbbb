// SPDX-License-Identifier: Apache-2.0
#include "examples/serve/metrics.h"

#include <charconv>
#include <string_view>
#include <vector>

#include "examples/serve/http_error.h"

namespace plimsoll::examples::serve {
namespace {

std::string number_text(double value) {
  std::array<char, 32> digits;
  const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return std::string(digits.data(), written.ptr);
}

class Writer {
 public:
  void describe(std::string_view name, std::string_view type, std::string_view help) {
    text_ += "# HELP plimsoll_";
    text_.append(name).append(" ").append(help).append("\n# TYPE plimsoll_");
    text_.append(name).append(" ").append(type).append("\n");
  }
  void value(std::string_view name, const std::string& labels, const std::string& value) {
    text_.append("plimsoll_").append(name);
    if (!labels.empty()) text_.append("{").append(labels).append("}");
    text_.append(" ").append(value).append("\n");
  }
  void value(std::string_view name, const std::string& labels, std::int64_t number) {
    value(name, labels, std::to_string(number));
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// Names of models hold nothing that would have to be escaped.
std::string label(const char* key, const std::string& value) {
  return std::string(key) + "=\"" + value + "\"";
}

void write_memory(const Runtime& runtime, Writer& out) {
  plm_memory_statistics m = {};
  m.struct_size = sizeof m;
  check(plm_context_memory(runtime.context, &m));
  out.describe("memory_limit_bytes", "gauge", "Limit on device memory; +Inf: none.");
  out.value("memory_limit_bytes", "",
            m.limit_bytes == PLM_NO_LIMIT ? "+Inf" : std::to_string(m.limit_bytes));
  const struct {
    const char* use;
    std::int64_t now, peak;
  } uses[] = {{"parameters", m.used_parameters, m.peak_parameters},
              {"activations", m.used_activations, m.peak_activations},
              {"workspaces", m.used_workspaces, m.peak_workspaces},
              {"encoded", m.used_encoded, m.peak_encoded},
              {"staging", m.used_all_staging, m.peak_all_staging},
              {"constants", m.used_constants, m.peak_constants}};
  out.describe("memory_used_bytes", "gauge", "Device memory in use, by what it is for.");
  for (const auto& use : uses) out.value("memory_used_bytes", label("use", use.use), use.now);
  out.describe("memory_reserved_bytes", "gauge", "Reserved by runs and not in use.");
  out.value("memory_reserved_bytes", "", m.reserved_bytes);
  out.describe("memory_peak_bytes", "gauge", "The most device memory in use since the start.");
  out.value("memory_peak_bytes", "", m.peak_bytes);
  out.describe("memory_peak_use_bytes", "gauge", "The same, by what it was for.");
  for (const auto& use : uses) out.value("memory_peak_use_bytes", label("use", use.use), use.peak);
  out.describe(
      "remedy_bytes_total", "counter",
      "What runs did instead of keeping values: results recomputed, copies made by codecs, "
      "bytes swapped out.");
  out.value("remedy_bytes_total", label("remedy", "recompute"), m.recomputed_bytes);
  out.value("remedy_bytes_total", label("remedy", "compress"), m.encoded_bytes);
  out.value("remedy_bytes_total", label("remedy", "swap"), m.swapped_out_bytes);
  out.describe("runs", "gauge", "Runs that have memory, and that wait for it.");
  out.value("runs", label("state", "running"), m.running_runs);
  out.value("runs", label("state", "waiting"), m.waiting_runs);
  out.describe("runs_admitted_total", "counter", "Runs that got memory.");
  out.value("runs_admitted_total", "", m.admitted_runs);
  out.describe("runs_waited_total", "counter", "Of these, those that had to wait.");
  out.value("runs_waited_total", "", m.waited_runs);
  out.describe("host_buffer_limit_bytes", "gauge", "Limit on bodies of requests and responses.");
  out.value("host_buffer_limit_bytes", "", static_cast<std::int64_t>(runtime.host->limit()));
  out.describe("host_buffer_bytes", "gauge", "Bodies of requests and responses now.");
  out.value("host_buffer_bytes", "", static_cast<std::int64_t>(runtime.host->used()));
}

void write_models(const Repository& repository, Writer& out) {
  struct One {
    std::string labels;
    ModelCounts counts;
    std::int64_t peak_bytes;
  };
  std::vector<One> all;
  for (const auto& model : repository.models()) {
    all.push_back(
        {label("model", model->name()) + "," + label("version", std::to_string(model->version())),
         model->statistics().read(), model->program().peak_bytes()});
  }
  out.describe("model_peak_bytes", "gauge", "Device memory of one run that has all it likes.");
  for (const One& one : all) out.value("model_peak_bytes", one.labels, one.peak_bytes);
  out.describe("requests_total", "counter",
               "Infer requests: ok, busy (503), faulty (4xx), failed (500).");
  for (const One& one : all) {
    const std::string labels = one.labels + ",";
    out.value("requests_total", labels + label("outcome", "ok"), one.counts.succeeded);
    out.value("requests_total", labels + label("outcome", "busy"), one.counts.refused);
    out.value("requests_total", labels + label("outcome", "faulty"), one.counts.faulty);
    out.value("requests_total", labels + label("outcome", "failed"), one.counts.failed);
  }
  out.describe("model_runs_total", "counter", "Runs of the program; requests may share them.");
  for (const One& one : all) out.value("model_runs_total", one.labels, one.counts.runs);
  out.describe("model_rows_total", "counter", "Rows of requests in them (1: not batched).");
  for (const One& one : all) out.value("model_rows_total", one.labels, one.counts.rows);
  out.describe("request_duration_seconds", "histogram",
               "Infer requests that succeeded, without reading and writing.");
  for (const One& one : all) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < one.counts.latency.size(); ++i) {
      sum += one.counts.latency[i];
      const std::string bound = i < kLatencyBounds.size() ? number_text(kLatencyBounds[i]) : "+Inf";
      out.value("request_duration_seconds_bucket", one.labels + "," + label("le", bound), sum);
    }
    out.value("request_duration_seconds_sum", one.labels,
              number_text(static_cast<double>(one.counts.succeeded_ns) * 1e-9));
    out.value("request_duration_seconds_count", one.labels, sum);
  }
}

}  // namespace

std::string metrics_text(const Runtime& runtime, const Repository& repository,
                         const ResponseCounts& responses, const ConnectionCounts& connections) {
  Writer out;
  write_memory(runtime, out);
  out.describe("responses_total", "counter", "HTTP responses by status.");
  constexpr const char* kClasses[] = {"other", "1xx", "2xx", "3xx", "4xx", "5xx"};
  for (std::size_t i = 2; i < responses.by_class.size(); ++i) {
    out.value("responses_total", label("status", kClasses[i]), responses.by_class[i].load());
  }
  out.value("responses_total", label("status", "503"), responses.busy.load());
  out.describe("connections", "gauge",
               "Connections: open, and of these such as a request or a response is under way on.");
  out.value("connections", label("state", "open"), connections.open.load());
  out.value("connections", label("state", "reading"), connections.reading.load());
  out.value("connections", label("state", "writing"), connections.writing.load());
  out.describe("connections_closed_total", "counter",
               "Connections closed early: idle ones for new ones, slow ones, new ones for lack of "
               "room.");
  out.value("connections_closed_total", label("reason", "idle"), connections.idle.load());
  out.value("connections_closed_total", label("reason", "slow"), connections.slow.load());
  out.value("connections_closed_total", label("reason", "refused"), connections.refused.load());
  write_models(repository, out);
  return out.take();
}

}  // namespace plimsoll::examples::serve
