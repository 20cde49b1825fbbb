// SPDX-License-Identifier: Apache-2.0
// codecs [MiB]: how fast values of that size are encoded and decoded, beside a copy of the same
// value in the same run. Prints one JSON object: GB/s of bytes read and written, and the share of
// the copy's rate; of spill codecs also the code's share of the value's bytes.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <vector>

#include "benchmarks/command_line/command_line.h"
#include "kernels/codec.h"
#include "kernels/spill_codec.h"
#include "runtime/device/cpu/cpu_device.h"
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

// As activations are: normally distributed, and half of them cut off at zero for `sparse`.
std::vector<float> activations(std::int64_t bytes, bool half_zero) {
  std::vector<float> values(static_cast<std::size_t>(bytes) / sizeof(float));
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  // Drawing is slow: a run of them is repeated, longer than what a code looks back on.
  const std::size_t drawn = std::min<std::size_t>(values.size(), 1 << 20);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float number = i < drawn ? normal(random) : values[i - drawn];
    values[i] = half_zero ? std::max(number, 0.0F) : number;
  }
  return values;
}

// Null, with a message printed, when a codec fails.
Json spill_row(kernels::SpillCodecKind kind, std::int64_t bytes, device::Stream& stream) {
  const auto values = activations(bytes, kind == kernels::SpillCodecKind::sparse);
  const auto codec = kernels::make_spill_codec(kind, sizeof(float));
  const std::span<const std::byte> plain = std::as_bytes(std::span(values));
  std::vector<std::byte> code(static_cast<std::size_t>((*codec)->bound(bytes))), copy(plain.size());
  Result<std::int64_t> used = 0;
  Status status;
  const double copying = best_seconds([&] {
    (void)stream.copy(copy.data(), plain.data(), bytes, device::CopyKind::device_to_device);
  });
  const double encoding = best_seconds([&] { used = (*codec)->encode(plain, code); });
  if (!used.ok()) status = used.status();
  double decoding = 1;
  if (status.ok()) {
    const auto exact = std::span<const std::byte>(code).first(static_cast<std::size_t>(*used));
    decoding = best_seconds([&] {
      const Status decoded = (*codec)->decode(exact, copy);
      if (!decoded.ok()) status = decoded;
    });
  }
  if (!status.ok() || !std::equal(copy.begin(), copy.end(), plain.begin())) {
    std::cerr << (status.ok() ? "a value came back changed" : status.to_string()) << "\n";
    return nullptr;
  }
  const double touched = static_cast<double>(bytes + *used);
  const double copied = 2 * static_cast<double>(bytes) / copying;
  return {{"codec", std::string((*codec)->name())},
          {"dtype", "f32"},
          {"share_of_bytes", static_cast<double>(*used) / static_cast<double>(bytes)},
          {"encode_gb_per_second", touched / encoding / 1e9},
          {"decode_gb_per_second", touched / decoding / 1e9},
          {"copy_gb_per_second", copied / 1e9},
          {"encode_share_of_copy", touched / encoding / copied},
          {"decode_share_of_copy", touched / decoding / copied},
          {"encode_seconds_of_copy", encoding / copying},
          {"decode_seconds_of_copy", decoding / copying}};
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t megabytes = 64;
  plimsoll::benchmarks::CommandLine line("Codecs beside a copy.", "codecs");
  line.add("MEGABYTES", megabytes, "Of a value", {.least = 1, .most = 4096});
  if (const auto status = line.read(argc, argv)) return *status;
  const std::int64_t bytes = megabytes << 20;
  const auto stream = device::cpu_device()->create_stream();
  using ir::Codec;
  using ir::CodecKind;
  using ir::DType;
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
                                                  {DType::f64, {CodecKind::bfloat16}},
                                                  {DType::f32, {CodecKind::float16}},
                                                  {DType::f64, {CodecKind::float16}},
                                                  {DType::f32, {CodecKind::int8}},
                                                  {DType::f64, {CodecKind::int8}},
                                                  {DType::f32, {CodecKind::int4}},
                                                  {DType::f64, {CodecKind::int4}},
                                                  {DType::f32, {CodecKind::int2}},
                                                  {DType::f64, {CodecKind::int2}}};
  Json list = Json::array();
  for (const auto& [dtype, codec] : rows) {
    const ir::Shape shape(dtype, {bytes / ir::dtype_bytes(dtype)});
    const ir::Literal value = small_numbers(shape);
    ir::Literal copy(shape);
    std::vector<std::byte> encoded(static_cast<std::size_t>(ir::encoded_bytes(codec, shape)));
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
    list.push_back({{"codec", ir::to_string(codec)},
                    {"dtype", std::string(ir::to_string(dtype))},
                    {"encode_gb_per_second", touched / encoding / 1e9},
                    {"decode_gb_per_second", touched / decoding / 1e9},
                    {"copy_gb_per_second", copied / 1e9},
                    {"encode_share_of_copy", touched / encoding / copied},
                    {"decode_share_of_copy", touched / decoding / copied},
                    {"encode_seconds_of_copy", encoding / copying},
                    {"decode_seconds_of_copy", decoding / copying}});
  }
  Json spill = Json::array();
  for (const auto kind : {kernels::SpillCodecKind::sparse, kernels::SpillCodecKind::byte_planes}) {
    spill.push_back(spill_row(kind, bytes, **stream));
    if (spill.back().is_null()) return 1;
  }
  std::cout << Json{{"bytes", bytes}, {"codecs", list}, {"spill_codecs", spill}}.dump(2) << "\n";
  return 0;
}
