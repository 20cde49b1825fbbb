// SPDX-License-Identifier: Apache-2.0
#include "tests/serve/test_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace plimsoll::testing {
namespace fs = std::filesystem;

const char* const kAddHlo = R"(HloModule add
ENTRY main {
  a = f32[2,3] parameter(0)
  b = f32[2,3] parameter(1)
  s = f32[2,3] add(a, b)
  d = f32[2,3] subtract(a, b)
  ROOT r = (f32[2,3], f32[2,3]) tuple(s, d)
}
)";
const char* const kAddConfig = R"({"outputs": ["sum", "difference"]})";

std::string rows_hlo(int rows) {
  const std::string n = std::to_string(rows);
  return "HloModule rows\nENTRY main {\n  x = f32[" + n +
         ",64] parameter(0)\n  w = f32[64,32] parameter(1)\n  d = f32[" + n +
         ",32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  ROOT y = f32[" + n +
         ",32] tanh(d)\n}\n";
}

std::string layers_hlo(int n, int layers) {
  const std::string type = "f32[" + std::to_string(n) + "," + std::to_string(n) + "]";
  std::string text = "HloModule layers\nENTRY main {\n  x0 = " + type +
                     " parameter(0)\n  w = " + type +
                     " parameter(1)\n  tenth = f32[] constant(0.1)\n  small = " + type +
                     " broadcast(tenth), dimensions={}\n";
  const auto layer = [&](const std::string& name, const std::string& a, const std::string& b) {
    text += "  d" + name + " = " + type + " dot(" + a + ", " + b +
            "), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  s" + name + " = " + type +
            " multiply(d" + name + ", small)\n  " + name + " = " + type + " tanh(s" + name + ")\n";
  };
  for (int i = 0; i < layers; ++i) {
    layer("x" + std::to_string(i + 1), "x" + std::to_string(i), "w");
  }
  std::string last = "x" + std::to_string(layers);
  for (int i = layers - 1; i >= 0; --i) {
    layer("g" + std::to_string(i), last, "x" + std::to_string(i));
    last = "g" + std::to_string(i);
  }
  return text + "  ROOT y = " + type + " negate(" + last + ")\n}\n";
}

ModelFolder::ModelFolder() {
  std::string name = (fs::temp_directory_path() / "plimsoll_serve_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = name;
}

ModelFolder::~ModelFolder() { fs::remove_all(path_); }

void ModelFolder::add(const std::string& name, const std::string& hlo, const std::string& config,
                      int version) {
  const fs::path folder = path_ / name / std::to_string(version);
  fs::create_directories(folder);
  std::ofstream(folder / "model.hlo") << hlo;
  if (!config.empty()) std::ofstream(path_ / name / "config.json") << config;
}

TestServer::TestServer(const ModelFolder& folder, const TestServerOptions& options)
    : host_(options.host_bytes) {
  plm_context_options c = {};
  c.struct_size = sizeof c;
  c.memory_limit_bytes = options.memory_limit;
  plm_context* made = nullptr;
  plm_status_free(plm_context_create(&c, &made));
  context_.reset(made);
  service_ = std::make_unique<serve::Service>(serve::Runtime{made, nullptr, &host_, &turn_},
                                              folder.path().string());
  service_->repository().load_all();
  serve::HttpOptions http = options.http;
  http.port = 0;
  http_ = std::make_unique<serve::HttpServer>(*service_, http);
  port_ = http_->bind();
  thread_ = std::thread([this] { http_->serve(); });
}

TestServer::~TestServer() {
  http_->stop();
  thread_.join();
}

plm_memory_statistics TestServer::memory() const {
  plm_memory_statistics memory = {};
  memory.struct_size = sizeof memory;
  plm_status_free(plm_context_memory(context_.get(), &memory));
  return memory;
}

void TestServer::expect_no_buffers() const {
  constexpr int kMostRounds = 2000;
  for (int i = 0; i < kMostRounds && host_.used() != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(host_.used(), 0u);
}

std::unique_ptr<httplib::Client> TestServer::client() const {
  auto client = std::make_unique<httplib::Client>("127.0.0.1", port_);
  client->set_keep_alive(true);
  client->set_tcp_nodelay(true);
  constexpr int kSeconds = 120;
  client->set_read_timeout(kSeconds);
  client->set_write_timeout(kSeconds);
  return client;
}

std::string TestServer::exchange(const std::string& bytes) const {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port_));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t n = ::send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) break;
      sent += static_cast<std::size_t>(n);
    }
    ::shutdown(socket, SHUT_WR);
    char buffer[4096];
    for (;;) {
      const ssize_t n = ::recv(socket, buffer, sizeof buffer, 0);
      if (n <= 0) break;
      answer.append(buffer, static_cast<std::size_t>(n));
    }
  }
  ::close(socket);
  return answer;
}

std::string bytes_of(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<float> floats_of(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

BinaryBody binary_request(const std::vector<BinaryTensor>& inputs) {
  BinaryBody made;
  std::string list, data;
  for (const BinaryTensor& input : inputs) {
    list += (list.empty() ? "" : ",") + std::string("{\"name\":\"") + input.name +
            "\",\"shape\":" + input.shape + ",\"datatype\":\"" + input.datatype +
            "\",\"parameters\":{\"binary_data_size\":" + std::to_string(input.bytes.size()) + "}}";
    data += input.bytes;
  }
  made.body = "{\"parameters\":{\"binary_data_output\":true},\"inputs\":[" + list + "]}";
  made.json_bytes = made.body.size();
  made.body += data;
  return made;
}

BinaryBody add_request() {
  return binary_request({{"a", "FP32", "[2,3]", bytes_of({1, 2, 3, 4, 5, 6})},
                         {"b", "FP32", "[2,3]", bytes_of({1, 1, 1, 1, 1, 1})}});
}

httplib::Result infer(httplib::Client& client, const std::string& model, const BinaryBody& body,
                      httplib::Headers headers) {
  headers.emplace("Inference-Header-Content-Length", std::to_string(body.json_bytes));
  return client.Post("/v2/models/" + model + "/infer", headers, body.body,
                     "application/octet-stream");
}

httplib::Result infer(httplib::Client& client, const std::string& model, const std::string& json,
                      httplib::Headers headers) {
  return client.Post("/v2/models/" + model + "/infer", headers, json, "application/json");
}

std::vector<BinaryTensor> binary_outputs(const httplib::Response& response) {
  const auto json_bytes = static_cast<std::size_t>(
      std::stoul(response.get_header_value("Inference-Header-Content-Length")));
  const auto json = nlohmann::json::parse(response.body.substr(0, json_bytes));
  std::vector<BinaryTensor> outputs;
  std::size_t at = json_bytes;
  for (const auto& one : json.at("outputs")) {
    const auto bytes = one.at("parameters").at("binary_data_size").get<std::size_t>();
    outputs.push_back({one.at("name").get<std::string>(), one.at("datatype").get<std::string>(),
                       one.at("shape").dump(), response.body.substr(at, bytes)});
    at += bytes;
  }
  EXPECT_EQ(at, response.body.size());
  return outputs;
}

std::string error_of(const httplib::Response& response) {
  const auto json = nlohmann::json::parse(response.body, nullptr, false);
  if (!json.is_object() || !json.contains("error") || !json["error"].is_string()) return "";
  return json["error"].get<std::string>();
}

}  // namespace plimsoll::testing
