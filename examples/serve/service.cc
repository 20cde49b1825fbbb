// SPDX-License-Identifier: Apache-2.0
#include "examples/serve/service.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "examples/serve/http_error.h"
#include "examples/serve/infer_response.h"

namespace plimsoll::examples::serve {
namespace {

// Keys in the order of the protocol's text.
using Json = nlohmann::ordered_json;

ServiceReply reply(const Json& body) {
  ServiceReply made;
  made.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  return made;
}

std::vector<std::string> segments(const std::string& path) {
  std::vector<std::string> parts;
  std::size_t start = 1;
  while (start <= path.size()) {
    const std::size_t end = std::min(path.find('/', start), path.size());
    parts.push_back(path.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

void expect_method(const ServiceRequest& request, const char* method) {
  if (request.method == method || (std::string(method) == "GET" && request.method == "HEAD")) {
    return;
  }
  throw HttpError(405, request.path + " takes " + method + ", not " + request.method);
}

HttpError no_such_path(const ServiceRequest& request) {
  return HttpError(404, "no such path: " + in_quotes(request.path));
}

Json describe(const std::vector<TensorSpec>& specs) {
  Json list = Json::array();
  for (const TensorSpec& spec : specs) {
    std::vector<std::int64_t> shape = spec.shape;
    if (spec.has_rows) shape.front() = -1;
    list.push_back({{"name", spec.name}, {"datatype", spec.type->name}, {"shape", shape}});
  }
  return list;
}

Json metadata(const Repository& repository, const Model& model) {
  Json versions = Json::array();
  for (const auto& version : repository.versions(model.name())) {
    versions.push_back(std::to_string(version->version()));
  }
  return {{"name", model.name()},
          {"versions", versions},
          {"platform", "plimsoll_" + model.form()},
          {"inputs", describe(model.program().inputs())},
          {"outputs", describe(model.program().outputs())}};
}

Json statistics(Model& model) {
  const ModelCounts c = model.statistics().read();
  const auto duration = [](std::int64_t count, std::int64_t ns) {
    return Json{{"count", count}, {"ns", ns}};
  };
  return {{"name", model.name()},
          {"version", std::to_string(model.version())},
          {"last_inference", c.last_inference_ms},
          {"inference_count", c.rows},
          {"execution_count", c.runs},
          {"inference_stats",
           {{"success", duration(c.succeeded, c.succeeded_ns)},
            {"fail", duration(c.refused + c.faulty + c.failed, c.failed_ns)},
            {"queue", duration(c.succeeded, c.queue_ns)},
            {"compute_infer", duration(c.succeeded, c.run_ns)}}}};
}

Json all_statistics(const std::vector<std::shared_ptr<Model>>& models) {
  Json list = Json::array();
  for (const auto& model : models) list.push_back(statistics(*model));
  return {{"model_stats", list}};
}

}  // namespace

ServiceReply error_reply(int status, const std::string& message, int retry_after) {
  ServiceReply made = reply({{"error", message}});
  made.status = status;
  made.retry_after = retry_after;
  return made;
}

Service::Service(const Runtime& runtime, std::string folder)
    : runtime_(runtime), repository_(runtime, std::move(folder)) {}

ServiceReply Service::answer(const ServiceRequest& request, HostBudget::Lease& lease) {
  try {
    return route(request, lease);
  } catch (const HttpError& error) {
    return error_reply(error.status(), error.what(), error.retry_after());
  } catch (const std::bad_alloc&) {
    return error_reply(503, "no host memory for this request now", 1);
  } catch (const std::exception& error) {
    return error_reply(500, error.what());
  }
}

ServiceReply Service::route(const ServiceRequest& request, HostBudget::Lease& lease) {
  const std::vector<std::string> path = segments(request.path);
  if (path.size() == 1 && path[0] == "metrics") {
    expect_method(request, "GET");
    ServiceReply made;
    made.content_type = "text/plain; version=0.0.4";
    made.body = metrics_text(runtime_, repository_, responses_, connections_);
    return made;
  }
  if (path.empty() || path[0] != "v2") throw no_such_path(request);
  if (path.size() == 1 || (path.size() == 2 && path[1].empty())) {
    expect_method(request, "GET");
    const std::uint32_t version = plm_version();
    return reply(
        {{"name", "plimsoll"},
         {"version", std::to_string(version >> 16) + "." + std::to_string(version >> 8 & 255U) +
                         "." + std::to_string(version & 255U)},
         {"extensions", {"binary_tensor_data", "model_repository", "statistics"}}});
  }
  if (path[1] == "health" && path.size() == 3 && (path[2] == "live" || path[2] == "ready")) {
    expect_method(request, "GET");
    if (path[2] == "live") return reply({{"live", true}});
    if (!is_ready()) return error_reply(503, "the server is not ready", 1);
    return reply({{"ready", true}});
  }
  if (path[1] == "models" && path.size() > 2) return about_model(request, path, lease);
  if (path[1] == "repository") return about_repository(request, path);
  throw no_such_path(request);
}

ServiceReply Service::about_model(const ServiceRequest& request,
                                  const std::vector<std::string>& path, HostBudget::Lease& lease) {
  if (path.size() == 3 && path[2] == "stats") {
    expect_method(request, "GET");
    return reply(all_statistics(repository_.models()));
  }
  std::size_t at = 3;
  std::optional<std::int64_t> version;
  if (path.size() > 4 && path[3] == "versions") {
    const std::string& text = path[4];
    std::int64_t number = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (code != std::errc() || end != text.data() + text.size()) {
      throw HttpError(404, in_quotes(text) + " is no version");
    }
    version = number;
    at = 5;
  }
  if (path.size() > at + 1) throw no_such_path(request);
  const std::string action = path.size() == at ? "" : path[at];
  if (action == "infer") {
    expect_method(request, "POST");
    return infer(request, *repository_.find(path[2], version), lease);
  }
  if (!action.empty() && action != "ready" && action != "stats") throw no_such_path(request);
  expect_method(request, "GET");
  const std::shared_ptr<Model> model = repository_.find(path[2], version);
  if (action == "ready") return reply({{"name", model->name()}, {"ready", true}});
  if (action.empty()) return reply(metadata(repository_, *model));
  return reply(all_statistics(version ? std::vector{model} : repository_.versions(model->name())));
}

ServiceReply Service::about_repository(const ServiceRequest& request,
                                       const std::vector<std::string>& path) {
  if (path.size() == 3 && path[2] == "index") {
    expect_method(request, "POST");
    Json list = Json::array();
    for (const Repository::Entry& entry : repository_.index()) {
      list.push_back({{"name", entry.name},
                      {"version", entry.version},
                      {"state", entry.ready ? "READY" : "UNAVAILABLE"},
                      {"reason", entry.reason}});
    }
    return reply(list);
  }
  const bool is_action =
      path.size() == 5 && path[2] == "models" && (path[4] == "load" || path[4] == "unload");
  if (!is_action) throw no_such_path(request);
  expect_method(request, "POST");
  if (draining_) throw busy("the server ends");
  if (path[4] == "load") {
    repository_.load(path[3]);
  } else {
    repository_.unload(path[3]);
  }
  return reply(Json::object());
}

ServiceReply Service::infer(const ServiceRequest& request, Model& model, HostBudget::Lease& lease) {
  const auto start = request.arrived;
  try {
    // Of elements that come as JSON: at most four bytes of memory per byte of text.
    const std::size_t text_bytes = request.json_bytes.value_or(request.body.size());
    if (!lease.grow(4 * std::min(text_bytes, request.body.size()))) {
      throw busy("no host memory for the request now");
    }
    const InferRequest parsed = parse_infer_request(request.body, request.json_bytes);
    const std::vector<InferOutput> outputs = model.infer(parsed, start, lease);
    InferResponse written = write_infer_response(model, parsed.id, outputs, lease);
    model.statistics().count_request(200, Clock::now() - start);
    ServiceReply made;
    made.json_bytes = written.json_bytes;
    if (written.json_bytes != 0) made.content_type = "application/octet-stream";
    made.body = std::move(written.body);
    return made;
  } catch (const HttpError& error) {
    model.statistics().count_request(error.status(), Clock::now() - start);
    throw;
  } catch (const std::exception&) {
    model.statistics().count_request(500, Clock::now() - start);
    throw;
  }
}

}  // namespace plimsoll::examples::serve
