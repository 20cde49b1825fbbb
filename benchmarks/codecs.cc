// SPDX-License-Identifier: Apache-2.0
// codecs [MiB]: how fast values of that size are encoded and decoded, beside a copy of the same
// value in the same run. Prints one JSON object: GB/s of bytes read and written, and the share of
// the copy's rate.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "benchmarks/arguments.h"
#include "kernels/codec.h"
#include "runtime/device/device.h"
#include "runtime/ir/literal.h"

namespace {

using namespace plimsoll;
using Json = nlohmann::ordered_json;

double best_seconds(const auto& body) {
  double best = 1e9;
  for (int i = 0; i < 7; ++i) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    best = std::min(best, elapsed.count());
  }
  return best;
}

// Numbers that every codec below can keep.
ir::Literal small_numbers(const ir::Shape& shape) {
  ir::Literal literal(shape);
  const int modulus = shape.dtype() == ir::DType::pred ? 2 : 100;
  for (std::int64_t i = 0; i < shape.element_count(); ++i) {
    literal.set(i, static_cast<double>((i * 7 / 3) % modulus));
  }
  return literal;
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t megabytes = 64;
  CLI::App app("Codecs beside a copy.", "codecs");
  app.add_option("MEGABYTES", megabytes, "Of a value")->check(CLI::Range(1, 4096));
  if (const auto status = plimsoll::benchmarks::read_arguments(app, argc, argv)) return *status;
  const std::int64_t bytes = megabytes << 20;
  const auto stream = device::cpu_device()->create_stream();
  using ir::DType;
  using planner::Codec;
  using planner::CodecKind;
  const Codec greater{CodecKind::compare_mask, DType::pred, ir::ComparisonDirection::gt, 0};
  const auto narrow = [](DType stored) { return Codec{CodecKind::narrow, stored}; };
  const std::vector<std::pair<DType, Codec>> rows{{DType::pred, {CodecKind::bit_mask}},
                                                  {DType::f32, greater},
                                                  {DType::bf16, greater},
                                                  {DType::f64, greater},
                                                  {DType::f32, narrow(DType::bf16)},
                                                  {DType::f32, narrow(DType::f16)},
                                                  {DType::f32, narrow(DType::s8)},
                                                  {DType::s32, narrow(DType::s16)},
                                                  {DType::s32, narrow(DType::s8)},
                                                  {DType::s64, narrow(DType::s32)},
                                                  {DType::f64, narrow(DType::f32)},
                                                  {DType::f32, {CodecKind::bfloat16}},
                                                  {DType::f64, {CodecKind::bfloat16}}};
  Json list = Json::array();
  for (const auto& [dtype, codec] : rows) {
    const ir::Shape shape(dtype, {bytes / ir::dtype_bytes(dtype)});
    const ir::Literal value = small_numbers(shape);
    ir::Literal copy(shape);
    std::vector<std::byte> encoded(static_cast<std::size_t>(planner::encoded_bytes(codec, shape)));
    const auto kernels = kernels::make_codec(codec, shape);
    if (!kernels.ok()) {
      std::cerr << kernels.status().to_string() << "\n";
      return 1;
    }
    const void* plain = value.bytes().data();
    const void* small = encoded.data();
    void* to_small = encoded.data();
    void* to_plain = copy.mutable_bytes().data();
    Status status;
    const auto launch = [&](const device::Kernel& kernel, const void* from, void* to) {
      const Status launched = kernel.launch(**stream, {{&from, 1}, {&to, 1}, nullptr});
      if (!launched.ok()) status = launched;
    };
    const double copying = best_seconds(
        [&] { (void)(*stream)->copy(to_plain, plain, bytes, device::CopyKind::device_to_device); });
    const double encoding = best_seconds([&] { launch(*kernels->encode, plain, to_small); });
    const double decoding = best_seconds([&] { launch(*kernels->decode, small, to_plain); });
    if (!status.ok()) {
      std::cerr << status.to_string() << "\n";
      return 1;
    }
    const double touched = static_cast<double>(bytes) + static_cast<double>(encoded.size());
    const double copied = 2 * static_cast<double>(bytes) / copying;
    list.push_back({{"codec", planner::to_string(codec)},
                    {"dtype", std::string(ir::to_string(dtype))},
                    {"encode_gb_per_second", touched / encoding / 1e9},
                    {"decode_gb_per_second", touched / decoding / 1e9},
                    {"copy_gb_per_second", copied / 1e9},
                    {"encode_share_of_copy", touched / encoding / copied},
                    {"decode_share_of_copy", touched / decoding / copied},
                    {"encode_seconds_of_copy", encoding / copying},
                    {"decode_seconds_of_copy", decoding / copying}});
  }
  std::cout << Json{{"bytes", bytes}, {"codecs", list}}.dump(2) << "\n";
  return 0;
}
