// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <httplib.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "examples/serve/handles.h"
#include "examples/serve/http_server.h"
#include "examples/serve/service.h"

namespace plimsoll::testing {

namespace serve = plimsoll::examples::serve;

// Removed at the end.
class ModelFolder {
 public:
  ModelFolder();
  ~ModelFolder();
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  void add(const std::string& name, const std::string& hlo, const std::string& config = "",
           int version = 1);

 private:
  std::filesystem::path path_;
};

// Sum and difference of two f32[2,3], named so.
extern const char* const kAddHlo;
extern const char* const kAddConfig;
// y = tanh(x w) for f32[rows,64] and f32[64,32].
std::string rows_hlo(int rows);
// Products of f32[n,n] and back, whose values a limit must do without: x0 and w to f32[n,n].
std::string layers_hlo(int n, int layers);

struct TestServerOptions {
  std::int64_t memory_limit = PLM_NO_LIMIT;
  std::size_t host_bytes = std::size_t{2} << 30;
  serve::HttpOptions http{};
};

// A server in this process, over the folder's models.
class TestServer {
 public:
  explicit TestServer(const ModelFolder& folder, const TestServerOptions& options = {});
  ~TestServer();

  int port() const { return port_; }
  plm_context* context() { return context_.get(); }
  serve::Service& service() { return *service_; }
  serve::HttpServer& http() { return *http_; }
  plm_memory_statistics memory() const;
  // That what bodies took is given back, once the last response has left.
  void expect_no_buffers() const;
  // A connection of its own.
  std::unique_ptr<httplib::Client> client() const;
  // Sends the bytes over a socket, and gives all that comes back until the server closes.
  std::string exchange(const std::string& bytes) const;

 private:
  serve::ContextHandle context_;
  serve::HostBudget host_;
  std::mutex turn_;
  std::unique_ptr<serve::Service> service_;
  std::unique_ptr<serve::HttpServer> http_;
  int port_ = 0;
  std::thread thread_;
};

// A tensor of a request or response whose elements travel as bytes.
struct BinaryTensor {
  std::string name, datatype, shape;  // "[2,3]"
  std::string bytes;
};
std::string bytes_of(const std::vector<float>& values);
std::vector<float> floats_of(const std::string& bytes);

struct BinaryBody {
  std::string body;
  std::size_t json_bytes = 0;
};
// Asks for binary outputs.
BinaryBody binary_request(const std::vector<BinaryTensor>& inputs);
// One for kAddHlo.
BinaryBody add_request();
// By httplib; posts the body to the model's infer path.
httplib::Result infer(httplib::Client& client, const std::string& model, const BinaryBody& body,
                      httplib::Headers headers = {});
httplib::Result infer(httplib::Client& client, const std::string& model, const std::string& json,
                      httplib::Headers headers = {});
// The outputs of a response with binary data, in their order.
std::vector<BinaryTensor> binary_outputs(const httplib::Response& response);
// "error" of a response's body; "" where it is no JSON object with a string there.
std::string error_of(const httplib::Response& response);

}  // namespace plimsoll::testing
