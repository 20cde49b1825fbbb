// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "examples/serve/metrics.h"
#include "examples/serve/repository.h"

namespace plimsoll::examples::serve {

struct ServiceRequest {
  std::string method, path;               // the path decoded, without a query
  std::optional<std::size_t> json_bytes;  // Inference-Header-Content-Length
  std::string body;
  Clock::time_point arrived = Clock::now();  // whole, from when on its time counts
};

struct ServiceReply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::size_t json_bytes = 0;  // Inference-Header-Content-Length; 0: none
  int retry_after = 0;         // seconds; 0: none
};

// `{"error": message}`
ServiceReply error_reply(int status, const std::string& message, int retry_after = 0);

// What the server answers, whatever brings the requests: the Open Inference Protocol's health,
// metadata, inference, statistics and repository, and `/metrics`. Any thread.
class Service {
 public:
  Service(const Runtime& runtime, std::string folder);

  Repository& repository() { return repository_; }
  HostBudget& host() { return *runtime_.host; }

  // Throws nothing but std::bad_alloc. `lease` holds the bytes of the body, and what the answer
  // takes when it returns.
  ServiceReply answer(const ServiceRequest& request, HostBudget::Lease& lease);
  // Counts a response, whoever made it.
  void count(int status) { responses_.count(status); }
  ConnectionCounts& connections() { return connections_; }

  // From here on it is not ready, and loads nothing.
  void drain() { draining_ = true; }
  bool is_ready() const { return !draining_ && repository_.is_complete(); }

 private:
  ServiceReply route(const ServiceRequest& request, HostBudget::Lease& lease);
  ServiceReply about_model(const ServiceRequest& request, const std::vector<std::string>& path,
                           HostBudget::Lease& lease);
  ServiceReply about_repository(const ServiceRequest& request,
                                const std::vector<std::string>& path);
  ServiceReply infer(const ServiceRequest& request, Model& model, HostBudget::Lease& lease);

  const Runtime runtime_;
  Repository repository_;
  ResponseCounts responses_;
  ConnectionCounts connections_;
  std::atomic<bool> draining_{false};
};

}  // namespace plimsoll::examples::serve
