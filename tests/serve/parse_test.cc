// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>

#include "examples/serve/http_error.h"
#include "examples/serve/infer_request.h"

namespace plimsoll::examples::serve {
namespace {

template <typename T>
std::vector<T> elements(const InferInput& input) {
  std::vector<T> values(input.bytes / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), input.data, input.bytes);
  return values;
}

std::string error_in(const std::string& body) {
  try {
    parse_infer_request(body, std::nullopt);
  } catch (const HttpError& error) {
    EXPECT_EQ(error.status(), 400);
    return error.what();
  }
  return "";
}

std::string input(const std::string& datatype, const std::string& data) {
  return R"({"inputs":[{"name":"x","shape":[1],"datatype":")" + datatype + R"(","data":[)" + data +
         "]}]}";
}

TEST(InferRequests, TheOrderOfKeysDoesNotMatter) {
  const char* const orders[] = {
      R"({"name":"x","shape":[2,2],"datatype":"INT16","data":[[1,-2],[3,4]]})",
      R"({"data":[1,-2,3,4],"datatype":"INT16","shape":[2,2],"name":"x"})",
      R"({"shape":[2,2],"data":[1,[-2,[3]],4],"name":"x","datatype":"INT16"})",
      R"({"datatype":"INT16","data":[1,-2,3,4],"unknown":{"data":[7]},"shape":[2,2],"name":"x"})"};
  for (const char* order : orders) {
    const std::string body = std::string(R"({"id":"i","inputs":[)") + order +
                             R"(,{"name":"y","shape":[0],"datatype":"FP32","data":[]}]})";
    const InferRequest request = parse_infer_request(body, std::nullopt);
    ASSERT_EQ(request.inputs.size(), 2u);
    EXPECT_EQ(request.inputs[0].name, "x");
    EXPECT_EQ(elements<std::int16_t>(request.inputs[0]), (std::vector<std::int16_t>{1, -2, 3, 4}));
    EXPECT_EQ(request.inputs[1].bytes, 0u);
  }
}

TEST(InferRequests, FloatsComeBackWithTheirBits) {
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    const auto value = std::bit_cast<float>(bits);
    if (value != value || value - value != 0) continue;  // NaN, infinity
    std::string text;
    ASSERT_TRUE(append_json(*find_type("FP32"), std::as_bytes(std::span(&value, 1)), text));
    const std::string body = input("FP32", text);
    const InferRequest request = parse_infer_request(body, std::nullopt);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(elements<float>(request.inputs[0])[0]), bits) << text;
  }
}

TEST(InferRequests, NoNumberIsLongerThanItsBound) {
  const auto check = [](const char* name, auto value) {
    const serve::TensorType& type = *serve::find_type(name);
    const decltype(value) two[] = {value, value};
    std::string text;
    ASSERT_TRUE(serve::append_json(type, std::as_bytes(std::span(two)), text));
    EXPECT_LE(text.size(), serve::most_json_bytes(type, 2)) << name << ": " << text;
  };
  check("BOOL", false);
  check("INT8", std::numeric_limits<std::int8_t>::min());
  check("INT16", std::numeric_limits<std::int16_t>::min());
  check("INT32", std::numeric_limits<std::int32_t>::min());
  check("INT64", std::numeric_limits<std::int64_t>::min());
  check("UINT64", std::numeric_limits<std::uint64_t>::max());
  check("FP32", -1.17549435e-38F);
  check("FP32", -std::numeric_limits<float>::max());
  check("FP64", -std::numeric_limits<double>::denorm_min());
  check("FP64", -2.2250738585072014e-308);
  check("FP64", -1.7976931348623157e+308);
}

TEST(InferRequests, NumbersMustBeOfTheirDatatype) {
  const struct {
    const char *datatype, *data;
    bool fits;
  } cases[] = {{"INT8", "-128", true},
               {"INT8", "-129", false},
               {"INT8", "127", true},
               {"INT8", "128", false},
               {"UINT8", "255", true},
               {"UINT8", "-1", false},
               {"INT32", "1.0", false},
               {"INT32", "1e2", false},
               {"UINT64", "18446744073709551615", true},
               {"UINT64", "18446744073709551616", false},
               {"INT64", "9223372036854775807", true},
               {"INT64", "9223372036854775808", false},
               {"INT64", "-9223372036854775808", true},
               {"BOOL", "true", true},
               {"BOOL", "1", true},
               {"BOOL", "2", false},
               {"BOOL", "-0", false},
               {"FP32", "1e-60", true},
               {"FP32", "1e60", false},
               {"FP32", "true", false},
               {"FP32", "null", false},
               {"FP64", "1e308", true},
               {"FP64", "1e309", false},
               {"FP16", "1", false},
               {"BF16", "1", false},
               {"BYTES", "1", false}};
  for (const auto& one : cases) {
    EXPECT_EQ(error_in(input(one.datatype, one.data)).empty(), one.fits)
        << one.datatype << " " << one.data << ": " << error_in(input(one.datatype, one.data));
  }
}

TEST(InferRequests, BinaryTruthsAreZeroOrOne) {
  const std::string json =
      R"({"inputs":[{"name":"x","shape":[4],"datatype":"BOOL","parameters":{"binary_data_size":4}}]})";
  const std::string tame("\0\1\1\0", 4), wild("\0\1\2\377", 4);
  const std::string body = json + tame;  // which the request points into
  const InferRequest request = parse_infer_request(body, json.size());
  EXPECT_EQ(elements<std::uint8_t>(request.inputs[0]), (std::vector<std::uint8_t>{0, 1, 1, 0}));
  try {
    parse_infer_request(json + wild, json.size());
    ADD_FAILURE() << "not refused";
  } catch (const HttpError& error) {
    EXPECT_EQ(error.status(), 400);
    EXPECT_NE(std::string(error.what()).find("input 'x': element 2 of the binary data is no BOOL"),
              std::string::npos)
        << error.what();
  }
}

TEST(InferRequests, AClaimTakesNoMemoryThatTheBodyDoesNotBack) {
  EXPECT_NE(
      error_in(
          R"({"inputs":[{"name":"x","shape":[1000000000,1000],"datatype":"FP64","data":[1]}]})")
          .find("more elements than the body"),
      std::string::npos);
  EXPECT_NE(
      error_in(
          R"({"inputs":[{"name":"x","shape":[9223372036854775807,9],"datatype":"FP64","data":[1]}]})")
          .find("more elements than the body"),
      std::string::npos);
  EXPECT_NE(
      error_in(R"({"inputs":[{"name":"x","shape":[1],"shape":[2],"datatype":"FP32","data":[1]}]})")
          .find("twice"),
      std::string::npos);
  std::string many = R"({"inputs":[)";
  for (int i = 0; i < 300; ++i) many += "{},";
  EXPECT_NE(error_in(many + "{}]}").find("256"), std::string::npos);
}

TEST(InferRequests, WhatAsksForExtensionsThatAreNotThereIsRefused) {
  const std::string input = R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1])";
  EXPECT_NE(error_in(input + R"(}],"outputs":[{"name":"y","parameters":{"classification":3}}]})")
                .find("classification"),
            std::string::npos);
  EXPECT_NE(error_in(input + R"(,"parameters":{"shared_memory_region":"r"}}]})").find("shared"),
            std::string::npos);
  EXPECT_NE(error_in(input + R"(}],"parameters":{"sequence_id":7,"sequence_start":true}})")
                .find("sequence_id"),
            std::string::npos);
  // Elsewhere they are what nobody asks about.
  EXPECT_EQ(parse_infer_request(input + R"(}],"classification":3})", std::nullopt).inputs.size(),
            1U);
}

// Every mutant is a request or an error that names a place, and never anything else.
TEST(InferRequests, BrokenBodiesAreErrors) {
  const std::string seeds[] = {
      R"({"id":"1","parameters":{"binary_data_output":true},"inputs":[{"name":"a","shape":[2,3],"datatype":"FP32","data":[[1,2.5,-3e2],[4,5,6]]},{"name":"b","shape":[1],"datatype":"BOOL","data":[true]}],"outputs":[{"name":"s","parameters":{"binary_data":false}}]})",
      R"({"inputs":[{"data":[1,2],"name":"a","shape":[2],"datatype":"INT64"}]})",
      R"({"inputs":[{"name":"a","shape":[2],"datatype":"FP16","parameters":{"binary_data_size":4}}]})" +
          std::string("abcd")};
  const std::string pieces[] = {
      "[",       "]",     "{",    "}",    ",",         ":",           "\"",
      "-",       "1e999", "null", "true", "\"data\":", "\"shape\":[", "9223372036854775807",
      "\\u0000", "\xff"};
  std::mt19937 random(11);
  int requests = 0, errors = 0;
  for (int i = 0; i < 30000; ++i) {
    std::string body = seeds[i % 3];
    const std::size_t json_bytes = i % 3 == 2 ? body.size() - 4 : body.size();
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int k = 0; k < changes && !body.empty(); ++k) {
      const std::size_t at = random() % body.size();
      switch (random() % 4) {
        case 0:
          body.erase(at, 1 + random() % 8);
          break;
        case 1:
          body.insert(at, pieces[random() % std::size(pieces)]);
          break;
        case 2:
          body[at] = static_cast<char>(random());
          break;
        default:
          body.insert(at, body.substr(random() % body.size(), random() % 40));
      }
    }
    try {
      const auto request = parse_infer_request(
          body, i % 3 == 2 ? std::optional<std::size_t>(json_bytes) : std::nullopt);
      for (const InferInput& one : request.inputs) {
        ASSERT_TRUE(one.bytes == 0 || one.data != nullptr);
        std::size_t sum = 0;
        for (std::size_t b = 0; b < one.bytes; ++b)
          sum += std::to_integer<std::size_t>(one.data[b]);
        ASSERT_LE(sum, one.bytes * 255);
      }
      ++requests;
    } catch (const HttpError& error) {
      ASSERT_EQ(error.status(), 400);
      ASSERT_NE(std::string(error.what()), "");
      ++errors;
    }
  }
  EXPECT_GT(requests, 100);
  EXPECT_GT(errors, 10000);
}

}  // namespace
}  // namespace plimsoll::examples::serve
