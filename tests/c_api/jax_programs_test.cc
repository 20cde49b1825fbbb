// SPDX-License-Identifier: Apache-2.0
// Programs that JAX wrote, as portable StableHLO artifacts, as HLO text and as HLO protos, against
// JAX's results (make_jax_programs.py writes them all), without a limit and at three limits down to
// the floor.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/c_api/shared_budget.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

const fs::path& folder() {
  static const fs::path path = fs::path(PLIMSOLL_SOURCE_DIR) / "tests/c_api/jax_programs";
  return path;
}

std::vector<std::string> program_names(const char* extension) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder())) {
    if (entry.path().extension() == extension) names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::uint16_t half_bits(float value) {
  // The arguments' numbers are exact in f16: normal, or zero.
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) == 0) return static_cast<std::uint16_t>(bits >> 16U);
  return static_cast<std::uint16_t>((bits >> 16U & 0x8000U) |
                                    (((bits & 0x7fffffffU) >> 13U) - (112U << 10U)));
}

float float_of_half(std::uint16_t bits) {
  const int exponent = bits >> 10U & 31U;
  const int mantissa = bits & 1023U;
  float size = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                             : std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  if (exponent == 31) size = mantissa == 0 ? INFINITY : NAN;
  return (bits & 0x8000U) != 0 ? -size : size;
}

template <typename T>
void put(Bytes& bytes, std::size_t i, T value) {
  std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
}

// As `fill_narrow` in make_jax_programs.py.
Bytes fill_narrow(const plm_value_info& info, std::size_t number) {
  Bytes bytes(info.byte_size);
  const std::size_t bits = plm_dtype_bits(info.dtype);
  std::size_t count = 1;
  for (std::size_t d = 0; d < info.rank; ++d) count *= static_cast<std::size_t>(info.dims[d]);
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t code = (i * 7 + number) % (std::size_t{1} << bits);
    if (bits == 8) code = 32 + (i * 37 + number * 11) % 48 + (i % 3 == 0 ? 128 : 0);
    bytes[i * bits / 8] |= std::byte{static_cast<std::uint8_t>(code << (i * bits % 8))};
  }
  return bytes;
}

// As `fill` in make_jax_programs.py.
Bytes fill(const plm_value_info& info, std::size_t number) {
  if (info.dtype >= PLM_S2) return fill_narrow(info, number);
  Bytes bytes(info.byte_size);
  const std::size_t size = plm_dtype_size(info.dtype);
  const bool is_complex = info.dtype == PLM_C64;
  const std::size_t count = info.byte_size / (is_complex ? sizeof(float) : size);
  for (std::size_t i = 0; i < count; ++i) {
    const auto whole = static_cast<std::int64_t>((i * 7 + number) % 5);
    const float real = static_cast<float>(static_cast<int>((i * 37 + number * 11) % 101) - 50) / 64;
    switch (info.dtype) {
      case PLM_PRED:
        put<std::uint8_t>(bytes, i, (i * 3 + number) % 2);
        break;
      case PLM_F32:
      case PLM_C64:
        put<float>(bytes, i, real);
        break;
      case PLM_BF16:
        put<std::uint16_t>(bytes, i,
                           static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(real) >> 16U));
        break;
      case PLM_F16:
        put<std::uint16_t>(bytes, i, half_bits(real));
        break;
      default:
        std::memcpy(bytes.data() + i * size, &whole, size);  // little-endian
        break;
    }
  }
  return bytes;
}

// An element of a floating dtype as a number.
double number_at(const Bytes& bytes, plm_dtype dtype, std::size_t i) {
  if (dtype == PLM_F32 || dtype == PLM_C64) {
    float value = 0;
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes.data() + i * sizeof bits, sizeof bits);
  if (dtype == PLM_F16) return float_of_half(bits);
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

bool is_near(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= tolerance * (1 + std::abs(b));
}

// Integers and truths are to be equal; of floats, what rounding in another order may change.
void expect_near(const Bytes& got, const Bytes& wanted, plm_dtype dtype, const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  const bool is_half = dtype == PLM_F16 || dtype == PLM_BF16;
  if (!is_half && dtype != PLM_F32 && dtype != PLM_C64) {
    EXPECT_EQ(got, wanted) << what;
    return;
  }
  const std::size_t size = is_half ? 2 : 4;
  for (std::size_t i = 0; i < got.size() / size; ++i) {
    const double a = number_at(got, dtype, i), b = number_at(wanted, dtype, i);
    ASSERT_TRUE(is_near(a, b,
                        dtype == PLM_BF16 ? 2e-2
                        : is_half         ? 2e-3
                                          : 3e-5))
        << what << " element " << i << ": " << a << " for " << b;
  }
}

class JaxPrograms : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    plm_context_options options = {};
    options.struct_size = sizeof options;
    options.memory_limit_bytes = PLM_NO_LIMIT;
    plm_context* made = nullptr;
    ASSERT_EQ(take(plm_context_create(&options, &made)).code, PLM_OK);
    context_.reset(made);
    std::ifstream file(folder() / (GetParam() + ".results"), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    stored_.resize(bytes.size());
    std::memcpy(stored_.data(), bytes.data(), bytes.size());
  }

  static plm_value_info info_of(const plm_executable* executable, std::size_t i, bool result) {
    plm_value_info info = {};
    info.struct_size = sizeof info;
    EXPECT_EQ(take(result ? plm_executable_result(executable, i, &info)
                          : plm_executable_parameter(executable, i, &info))
                  .code,
              PLM_OK);
    return info;
  }

  std::vector<Bytes> run(const plm_executable* executable) {
    std::vector<Bytes> arguments, results;
    std::vector<const void*> from;
    std::vector<void*> to;
    for (std::size_t i = 0; i < plm_executable_parameter_count(executable); ++i) {
      arguments.push_back(fill(info_of(executable, i, false), i));
    }
    for (std::size_t i = 0; i < plm_executable_result_count(executable); ++i) {
      results.emplace_back(info_of(executable, i, true).byte_size);
    }
    // Nothing has no address.
    static std::byte nothing;
    for (Bytes& one : arguments) from.push_back(one.empty() ? &nothing : one.data());
    for (Bytes& one : results) to.push_back(one.empty() ? &nothing : one.data());
    const Outcome outcome =
        take(plm_executable_run(executable, from.data(), from.size(), to.data(), to.size()));
    EXPECT_EQ(outcome.code, PLM_OK) << outcome.message;
    return results;
  }

  ExecutableHandle load(const char* extension, std::int64_t limit) {
    const std::string path = (folder() / (GetParam() + extension)).string();
    plm_executable_options options = {};
    options.struct_size = sizeof options;
    options.memory_limit_bytes = limit;
    plm_executable* made = nullptr;
    const Outcome outcome =
        take(plm_executable_load(context_.get(), path.c_str(), &options, &made));
    EXPECT_EQ(outcome.code, PLM_OK) << outcome.message;
    return ExecutableHandle(made);
  }

  void agrees_at_every_limit(const char* extension) {
    const ExecutableHandle free = load(extension, 0);
    ASSERT_NE(free, nullptr);
    const std::vector<Bytes> results = run(free.get());
    std::size_t at = 0;
    for (std::size_t i = 0; i < results.size(); ++i) {
      ASSERT_LE(at + results[i].size(), stored_.size());
      const Bytes wanted(stored_.begin() + static_cast<std::ptrdiff_t>(at),
                         stored_.begin() + static_cast<std::ptrdiff_t>(at + results[i].size()));
      at += results[i].size();
      expect_near(results[i], wanted, info_of(free.get(), i, true).dtype,
                  "result " + std::to_string(i));
    }
    EXPECT_EQ(at, stored_.size());
    std::int64_t floor = 0;
    ASSERT_EQ(take(plm_executable_floor(free.get(), &floor)).code, PLM_OK);
    const std::int64_t peak = plm_executable_peak(free.get());
    for (const int share : {60, 25, 0}) {
      const std::int64_t limit = floor + (peak - floor) * share / 100;
      const ExecutableHandle limited = load(extension, limit);
      ASSERT_NE(limited, nullptr);
      EXPECT_LE(plm_executable_peak(limited.get()), limit);
      EXPECT_EQ(run(limited.get()), results) << limit;
    }
  }

  ContextHandle context_;
  Bytes stored_;
};

TEST_P(JaxPrograms, AgreeAsArtifacts) { agrees_at_every_limit(".mlirbc"); }

TEST_P(JaxPrograms, AgreeAsText) { agrees_at_every_limit(".hlo"); }

TEST_P(JaxPrograms, AgreeAsProtos) { agrees_at_every_limit(".pb"); }

// Those of which what XLA's optimizer made is stored, too.
class OptimizedJaxPrograms : public JaxPrograms {};

TEST_P(OptimizedJaxPrograms, AgreeAsProtos) { agrees_at_every_limit(".optimized"); }

// What a program keeps in host memory between runs is passed and returned there, where the caller
// leaves it to the program.
TEST(KeptOnHost, IsWhatThePlacementOfTheProgramSays) {
  std::ifstream file(
      std::string(PLIMSOLL_SOURCE_DIR) + "/tests/c_api/jax_programs/kept_on_host.mlirbc",
      std::ios::binary);
  const std::string artifact{std::istreambuf_iterator<char>(file), {}};
  plm_context_options given = {};
  given.struct_size = sizeof given;
  plm_context* context = nullptr;
  ASSERT_EQ(plm_context_create(&given, &context), nullptr);
  for (const plm_placement placement : {PLM_PLACEMENT_PROGRAM, PLM_PLACEMENT_RESIDENT}) {
    plm_executable_options options = {};
    options.struct_size = sizeof options;
    options.default_placement = placement;
    plm_executable* made = nullptr;
    plm_status* const status =
        plm_executable_create(context, artifact.data(), artifact.size(), "p", &options, &made);
    ASSERT_EQ(status, nullptr) << plm_status_message(status);
    plm_value_info info = {};
    info.struct_size = sizeof info;
    std::vector<plm_memory> memories;
    for (std::size_t i = 0; i < 2; ++i) {
      ASSERT_EQ(plm_executable_parameter(made, i, &info), nullptr);
      memories.push_back(info.memory);
      ASSERT_EQ(plm_executable_result(made, i, &info), nullptr);
      memories.push_back(info.memory);
    }
    const plm_memory second =
        placement == PLM_PLACEMENT_PROGRAM ? PLM_MEMORY_HOST : PLM_MEMORY_DEVICE;
    EXPECT_EQ(memories,
              (std::vector<plm_memory>{PLM_MEMORY_DEVICE, PLM_MEMORY_DEVICE, second, second}));
    plm_executable_destroy(made);
  }
  plm_context_destroy(context);
}

INSTANTIATE_TEST_SUITE_P(All, JaxPrograms, ::testing::ValuesIn(program_names(".results")),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(All, OptimizedJaxPrograms,
                         ::testing::ValuesIn(program_names(".optimized")),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace plimsoll::testing
