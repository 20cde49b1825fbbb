// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "tests/serve/test_server.h"

namespace plimsoll::testing {
namespace {

using nlohmann::json;

class ServeProtocol : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new ModelFolder;
    folder_->add("add", kAddHlo, kAddConfig);
    folder_->add("large",
                 "HloModule large\nENTRY main {\n  x = f32[4096,4096] parameter(0)\n"
                 "  ROOT y = f32[4096,4096] negate(x)\n}\n");
    folder_->add("types",
                 "HloModule types\nENTRY main {\n  p = pred[2] parameter(0)\n"
                 "  b = bf16[2] parameter(1)\n  l = s64[2] parameter(2)\n"
                 "  n = pred[2] not(p)\n  m = bf16[2] negate(b)\n  k = s64[2] negate(l)\n"
                 "  ROOT r = (pred[2], bf16[2], s64[2]) tuple(n, m, k)\n}\n",
                 R"({"outputs": ["n", "m", "k"]})");
    folder_->add("logarithm",
                 "HloModule l\nENTRY main {\n  x = f32[1] parameter(0)\n"
                 "  ROOT y = f32[1] log(x)\n}\n");
    folder_->add("broken", "HloModule broken\nENTRY main {\n  x = f32[2] parameter(\n}\n");
    server_ = new TestServer(*folder_);
  }
  static void TearDownTestSuite() {
    delete server_;
    delete folder_;
  }
  void SetUp() override { client_ = server_->client(); }

  json get(const std::string& path, int status = 200) {
    const auto result = client_->Get(path);
    EXPECT_TRUE(result) << path;
    if (!result) return {};
    EXPECT_EQ(result->status, status) << path << ": " << result->body;
    return json::parse(result->body, nullptr, false);
  }
  json post(const std::string& path, const std::string& body, int status = 200) {
    const auto result = client_->Post(path, body, "application/json");
    EXPECT_TRUE(result) << path;
    if (!result) return {};
    EXPECT_EQ(result->status, status) << path << ": " << result->body;
    return json::parse(result->body, nullptr, false);
  }
  void expect_refused(const std::string& model, const std::string& body, int status,
                      const std::string& part) {
    const auto result = infer(*client_, model, body);
    ASSERT_TRUE(result);
    EXPECT_EQ(result->status, status) << result->body;
    EXPECT_NE(error_of(*result).find(part), std::string::npos) << result->body;
  }

  static inline ModelFolder* folder_ = nullptr;
  static inline TestServer* server_ = nullptr;
  std::unique_ptr<httplib::Client> client_;
};

constexpr const char* kAddBody =
    R"({"id":"7","inputs":[{"name":"a","shape":[2,3],"datatype":"FP32","data":[1,2,3,4,5,6.5]},)"
    R"({"name":"b","shape":[2,3],"datatype":"FP32","data":[[1,1,1],[1,1,0.1]]}]})";

TEST_F(ServeProtocol, TellsOfItsHealthAndItsModels) {
  EXPECT_EQ(get("/v2/health/live")["live"], true);
  // One of the models could not be loaded.
  get("/v2/health/ready", 503);
  EXPECT_EQ(get("/v2")["name"], "plimsoll");
  const json add = get("/v2/models/add");
  EXPECT_EQ(add["inputs"][1], json::parse(R"({"name":"b","datatype":"FP32","shape":[2,3]})"));
  EXPECT_EQ(add["outputs"][1]["name"], "difference");
  EXPECT_EQ(add["versions"], json({"1"}));
  EXPECT_EQ(get("/v2/models/add/versions/1"), add);
  get("/v2/models/add/ready");
  get("/v2/models/add/versions/2", 404);
  get("/v2/models/broken/ready", 404);
  get("/v2/models/nobody", 404);
  get("/v2/models/add/nothing", 404);
  get("/", 404);
  get("/v2/models/add/infer", 405);
  post("/v2/models/add", "{}", 405);
}

TEST_F(ServeProtocol, TheIndexSaysWhyAModelIsNotServed) {
  bool found = false;
  for (const json& entry : post("/v2/repository/index", "{}")) {
    if (entry["name"] != "broken") continue;
    found = true;
    EXPECT_EQ(entry["state"], "UNAVAILABLE");
    EXPECT_NE(entry["reason"].get<std::string>().find("model.hlo:4:1: "), std::string::npos)
        << entry;
  }
  EXPECT_TRUE(found);
}

// A folder with a version in it was meant to be a model.
TEST(ServeRepository, SaysThatANameIsNone) {
  const ModelFolder folder;
  std::filesystem::create_directories(folder.path() / "two words" / "1");
  std::filesystem::create_directories(folder.path() / "\xff\n" / "2");
  std::filesystem::create_directories(folder.path() / "lost+found");
  TestServer server(folder);
  const auto index = server.service().repository().index();
  ASSERT_EQ(index.size(), 2u);
  EXPECT_EQ(index[0].name, "??");
  EXPECT_EQ(index[1].name, "two words");
  EXPECT_NE(index[1].reason.find("only letters, digits"), std::string::npos) << index[1].reason;
  EXPECT_FALSE(server.service().repository().is_complete());
}

TEST(ServeHost, ANameThatLeadsNowhereIsSaid) {
  const ModelFolder folder;
  TestServerOptions options;
  options.http.host = "no-such-host.invalid";
  try {
    const TestServer server(folder, options);
    FAIL() << "listens on a name that there is not";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("--host"), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).find("File exists"), std::string::npos) << error.what();
  }
}

TEST_F(ServeProtocol, ComputesOnJson) {
  const json answer = post("/v2/models/add/infer", kAddBody);
  EXPECT_EQ(answer["model_name"], "add");
  EXPECT_EQ(answer["model_version"], "1");
  EXPECT_EQ(answer["id"], "7");
  ASSERT_EQ(answer["outputs"].size(), 2u);
  EXPECT_EQ(answer["outputs"][0]["name"], "sum");
  EXPECT_EQ(answer["outputs"][0]["shape"], json({2, 3}));
  EXPECT_EQ(answer["outputs"][0]["data"][5].get<float>(), 6.5F + 0.1F);
  EXPECT_EQ(answer["outputs"][1]["data"][1], 1);
}

TEST_F(ServeProtocol, BinaryAndJsonGiveTheSameBits) {
  const std::vector<float> a = {0.1F, -0.0F, 1e-45F, 3.4e38F, 1.0F / 3, -7}, b(6, -0.0F);
  const BinaryBody body =
      binary_request({{"b", "FP32", "[2,3]", bytes_of(b)}, {"a", "FP32", "[2,3]", bytes_of(a)}});
  const auto binary = infer(*client_, "add", body);
  ASSERT_TRUE(binary);
  ASSERT_EQ(binary->status, 200) << binary->body;
  const auto outputs = binary_outputs(*binary);
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(outputs[0].bytes, bytes_of(a));
  json request = json::parse(kAddBody);
  request["inputs"][0]["data"] = a;
  request["inputs"][1]["data"] = b;
  request["outputs"] =
      json::parse(R"([{"name":"difference","parameters":{"binary_data":true}},{"name":"sum"}])");
  const auto mixed = infer(*client_, "add", request.dump());
  ASSERT_TRUE(mixed);
  ASSERT_EQ(mixed->status, 200) << mixed->body;
  const auto json_bytes = std::stoul(mixed->get_header_value("Inference-Header-Content-Length"));
  const json head = json::parse(mixed->body.substr(0, json_bytes));
  EXPECT_EQ(mixed->body.substr(json_bytes), outputs[1].bytes);
  EXPECT_EQ(bytes_of(head["outputs"][1]["data"].get<std::vector<float>>()), bytes_of(a));
}

TEST_F(ServeProtocol, TakesOtherDatatypes) {
  const std::string bf16("\x80\x3f\x00\xc0", 4);  // 1, -2
  json request = json::parse(
      R"({"inputs":[{"name":"p","shape":[2],"datatype":"BOOL","data":[true,0]},
          {"name":"b","shape":[2],"datatype":"BF16","parameters":{"binary_data_size":4}},
          {"name":"l","shape":[2],"datatype":"INT64","data":[-9223372036854775808,9007199254740993]}],
          "outputs":[{"name":"m","parameters":{"binary_data":true}},{"name":"n"},{"name":"k"}]})");
  const std::string head = request.dump();
  const auto result = infer(*client_, "types", BinaryBody{head + bf16, head.size()});
  ASSERT_TRUE(result);
  ASSERT_EQ(result->status, 200) << result->body;
  const auto json_bytes = std::stoul(result->get_header_value("Inference-Header-Content-Length"));
  EXPECT_EQ(result->body.substr(json_bytes), std::string("\x80\xbf\x00\x40", 4));
  const json answer = json::parse(result->body.substr(0, json_bytes));
  EXPECT_EQ(answer["outputs"][1]["data"], json({false, true}));
  EXPECT_EQ(answer["outputs"][2]["data"][1], -9007199254740993);
  // An output without a form in JSON must be asked for as bytes.
  request["outputs"] = json::parse(R"([{"name":"m"}])");
  const auto refused =
      infer(*client_, "types", BinaryBody{request.dump() + bf16, request.dump().size()});
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 400);
  EXPECT_NE(error_of(*refused).find("binary_data"), std::string::npos) << refused->body;
}

TEST_F(ServeProtocol, WhatJsonCannotSayIsAnErrorNotAWrongNumber) {
  expect_refused("logarithm",
                 R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[-1]}]})", 400,
                 "NaN");
  const auto result =
      infer(*client_, "logarithm", binary_request({{"x", "FP32", "[1]", bytes_of({-1})}}));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, 200);
}

TEST_F(ServeProtocol, NamesWhatIsWrongWithARequest) {
  const json good = json::parse(kAddBody);
  const auto with = [&](const auto& change) {
    json changed = good;
    change(changed["inputs"][0]);
    return changed.dump();
  };
  expect_refused("nobody", kAddBody, 404, "'nobody'");
  expect_refused("add", with([](json& a) { a["datatype"] = "FP64"; }), 400,
                 "'a' is FP64[2,3], must be FP32[2,3]");
  expect_refused("add", with([](json& a) { a["datatype"] = "FP33"; }), 400, "'FP33'");
  expect_refused("add", with([](json& a) { a["shape"] = {3, 2}; }), 400, "FP32[3,2]");
  expect_refused("add", with([](json& a) { a["shape"] = {-1, 3}; }), 400, "natural");
  expect_refused("add", with([](json& a) { a["name"] = "c"; }), 400, "no input 'c'");
  expect_refused("add", with([](json& a) { a["name"] = "b"; }), 400, "twice");
  expect_refused("add", with([](json& a) { a["data"].push_back(1); }), 400, "more elements");
  expect_refused("add", with([](json& a) { a["data"].erase(0); }), 400, "5 elements");
  expect_refused("add", with([](json& a) { a["data"][2] = "x"; }), 400, "string");
  expect_refused("add", with([](json& a) { a["data"][2] = true; }), 400, "element 2");
  expect_refused("add", with([](json& a) { a["data"][2] = 1e39; }), 400, "element 2");
  expect_refused("add", with([](json& a) { a.erase("data"); }), 400, "neither");
  expect_refused("add", with([](json& a) { a.erase("shape"); }), 400, "no shape");
  json one = good;
  one["inputs"].erase(1);
  expect_refused("add", one.dump(), 400, "no input 'b'");
  json output = good;
  output["outputs"] = json::parse(R"([{"name":"product"}])");
  expect_refused("add", output.dump(), 400, "no output 'product'");
  const std::string text = kAddBody;
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{1}, text.size() / 2, text.size() - 1}) {
    expect_refused("add", text.substr(0, length), 400, "JSON");
  }
  expect_refused("add", "[1]", 400, "object");
  expect_refused("add", std::string(17, '[') + std::string(17, ']'), 400, "object");
  expect_refused("add", R"({"parameters":)" + std::string(2000, '[') + std::string(2000, ']') + "}",
                 400, "nested");
}

TEST_F(ServeProtocol, CountsEveryByteOfBinaryData) {
  const BinaryBody good = binary_request({{"a", "FP32", "[2,3]", std::string(24, '\0')},
                                          {"b", "FP32", "[2,3]", std::string(24, '\0')}});
  const auto expect_refused_body = [&](const BinaryBody& body, const std::string& part) {
    const auto result = infer(*client_, "add", body);
    ASSERT_TRUE(result);
    EXPECT_EQ(result->status, 400);
    EXPECT_NE(error_of(*result).find(part), std::string::npos) << result->body;
  };
  BinaryBody body = good;
  body.body.pop_back();
  expect_refused_body(body, "1 bytes before");
  body = good;
  body.body += "x";
  expect_refused_body(body, "1 bytes more");
  body = good;
  body.json_bytes = good.body.size() + 1;
  expect_refused_body(body, "Inference-Header-Content-Length");
  body = good;
  --body.json_bytes;
  expect_refused_body(body, "JSON");
  body = binary_request({{"a", "FP32", "[2,3]", std::string(20, '\0')},
                         {"b", "FP32", "[2,3]", std::string(24, '\0')}});
  expect_refused_body(body, "binary_data_size is 20");
  body = binary_request({{"a", "FP32", "[4611686018427387904,4]", ""}});
  expect_refused_body(body, "too large");
  const auto result =
      client_->Post("/v2/models/add/infer", {{"Inference-Header-Content-Length", "-5"}}, good.body,
                    "application/octet-stream");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, 400);
}

TEST_F(ServeProtocol, TensorsOf64MiBGoThrough) {
  std::vector<float> x(std::size_t{4096} * 4096);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 8191) + 1;
  const auto result =
      infer(*client_, "large", binary_request({{"x", "FP32", "[4096,4096]", bytes_of(x)}}));
  ASSERT_TRUE(result);
  ASSERT_EQ(result->status, 200) << result->body.substr(0, 200);
  const auto outputs = binary_outputs(*result);
  for (float& value : x) value = -value;
  EXPECT_TRUE(outputs.at(0).bytes == bytes_of(x));
  server_->expect_no_buffers();
}

TEST_F(ServeProtocol, LoadsAndUnloadsWhileItServes) {
  folder_->add("later", kAddHlo, kAddConfig);
  get("/v2/models/later", 404);
  post("/v2/repository/models/later/load", "{}");
  EXPECT_EQ(get("/v2/models/later")["versions"], json({"1"}));
  folder_->add("later", kAddHlo, kAddConfig, 12);
  post("/v2/repository/models/later/load", "");
  EXPECT_EQ(get("/v2/models/later")["versions"], json({"12"}));
  EXPECT_EQ(post("/v2/models/later/infer", kAddBody)["model_version"], "12");
  // What cannot be loaded leaves what is.
  folder_->add("later", "HloModule no", kAddConfig, 13);
  const json refused = post("/v2/repository/models/later/load", "{}", 400);
  EXPECT_NE(refused["error"].get<std::string>().find("later"), std::string::npos);
  post("/v2/models/later/versions/12/infer", kAddBody);
  folder_->add("later", kAddHlo, R"({"versions": [1, 12], "outputs": ["sum", "difference"]})", 12);
  post("/v2/repository/models/later/load", "{}");
  EXPECT_EQ(get("/v2/models/later")["versions"], json({"1", "12"}));
  post("/v2/models/later/versions/1/infer", kAddBody);
  post("/v2/repository/models/later/unload", "{}");
  post("/v2/models/later/infer", kAddBody, 404);
  post("/v2/repository/models/later/unload", "{}", 404);
  post("/v2/repository/models/nobody/load", "{}", 404);
  for (const char* name : {"..", "%2e%2e", ".hidden", "a%2Fb", "%00"}) {
    const auto result =
        client_->Post(std::string("/v2/repository/models/") + name + "/load", "", "");
    ASSERT_TRUE(result) << name;
    EXPECT_EQ(result->status, 404) << name;
  }
}

TEST_F(ServeProtocol, CountsWhatItDid) {
  const auto stats = [&] { return get("/v2/models/types/stats")["model_stats"][0]; };
  const json before = stats();
  post("/v2/models/types/infer", "{}", 400);
  EXPECT_EQ(stats()["inference_stats"]["fail"]["count"],
            before["inference_stats"]["fail"]["count"].get<int>() + 1);
  post("/v2/models/add/infer", kAddBody);
  EXPECT_GE(get("/v2/models/stats")["model_stats"].size(), 3u);
  const auto metrics = client_->Get("/metrics");
  ASSERT_TRUE(metrics);
  EXPECT_EQ(metrics->get_header_value("Content-Type"), "text/plain; version=0.0.4");
  for (const char* line :
       {"plimsoll_memory_limit_bytes +Inf\n", "plimsoll_memory_used_bytes{use=\"activations\"} 0\n",
        "plimsoll_memory_peak_bytes ", "plimsoll_remedy_bytes_total{remedy=\"recompute\"} 0\n",
        "plimsoll_remedy_bytes_total{remedy=\"swap\"} 0\n",
        "plimsoll_requests_total{model=\"types\",version=\"1\",outcome=\"faulty\"} ",
        "plimsoll_request_duration_seconds_bucket{model=\"add\",version=\"1\",le=\"+Inf\"} ",
        "plimsoll_request_duration_seconds_sum{model=\"add\",version=\"1\"} "}) {
    EXPECT_NE(metrics->body.find(line), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace plimsoll::testing
