// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <stdexcept>

#include "examples/serve/program.h"

namespace plimsoll::examples::serve {
namespace {

using Bytes = std::vector<std::byte>;

// Small numbers that any program takes: 0 and 1 where they may be indices.
void fill(const TensorType& type, std::mt19937_64& random, std::span<std::byte> elements) {
  for (std::size_t at = 0; at < elements.size(); at += type.bytes) {
    const std::uint64_t bits = random();
    if (type.dtype == PLM_F16 || type.dtype == PLM_BF16) {
      // Any mantissa, with an exponent of numbers from 0.5 to 1.
      const std::uint16_t value = type.dtype == PLM_F16
                                      ? static_cast<std::uint16_t>(0x3800U | (bits & 0x3FFU))
                                      : static_cast<std::uint16_t>(0x3F00U | (bits & 0x7FU));
      std::memcpy(elements.data() + at, &value, sizeof value);
      continue;
    }
    JsonNumber number;
    if (type.dtype == PLM_F32 || type.dtype == PLM_F64) {
      const auto value = static_cast<double>(bits >> 11U) * 0x1p-52 - 1;
      const std::string text = std::to_string(value);
      number.kind = JsonNumber::Kind::real;
      number.real = value;
      number.text = text;
      store(type, number, elements.data() + at);
      continue;
    }
    number.natural = bits & 1U;
    store(type, number, elements.data() + at);
  }
}

class RowCheck {
 public:
  RowCheck(const Program& program, std::int64_t rows, Clock::time_point deadline)
      : program_(program), rows_(static_cast<std::size_t>(rows)), deadline_(deadline) {
    for (const TensorSpec& spec : program.inputs()) {
      inputs_.emplace_back(spec.bytes);
      fill(*spec.type, random_, inputs_.back());
      probes_.emplace_back(spec.has_rows ? spec.bytes / rows_ : 0);
      fill(*spec.type, random_, probes_.back());
    }
    for (const TensorSpec& spec : program.outputs()) outputs_.emplace_back(spec.bytes);
  }

  // The probe in the rows that `is_probe` names; elsewhere random numbers, or zeros.
  void run(const std::function<bool(std::size_t)>& is_probe, bool zeros) {
    std::vector<const void*> inputs;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const TensorSpec& spec = program_.inputs()[i];
      for (std::size_t row = 0; spec.has_rows && row < rows_; ++row) {
        const std::span<std::byte> to =
            std::span(inputs_[i]).subspan(row * probes_[i].size(), probes_[i].size());
        if (is_probe(row)) {
          std::copy(probes_[i].begin(), probes_[i].end(), to.begin());
        } else if (zeros) {
          std::fill(to.begin(), to.end(), std::byte{0});
        } else {
          fill(*spec.type, random_, to);
        }
      }
      inputs.push_back(inputs_[i].data());
    }
    std::vector<void*> outputs;
    for (Bytes& output : outputs_) outputs.push_back(output.data());
    program_.run(inputs, outputs, deadline_);
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const std::size_t bytes = outputs_[i].size() / rows_;
      if (expected_.size() == i) {
        expected_.emplace_back(outputs_[i].begin(),
                               outputs_[i].begin() + static_cast<std::ptrdiff_t>(bytes));
      }
      for (std::size_t row = 0; row < rows_; ++row) {
        if (!is_probe(row) || bytes == 0 ||
            std::memcmp(outputs_[i].data() + row * bytes, expected_[i].data(), bytes) == 0) {
          continue;
        }
        throw std::runtime_error(
            "output " + program_.outputs()[i].name + ": row " + std::to_string(row) +
            " depends on its place or on other rows, so results would depend on who shares a run "
            "(take 'batching' out of config.json, or accept it by \"check_rows\": false)");
      }
    }
  }

 private:
  const Program& program_;
  const std::size_t rows_;
  const Clock::time_point deadline_;
  std::mt19937_64 random_{20260731};
  std::vector<Bytes> inputs_, probes_, outputs_, expected_;
};

}  // namespace

void check_rows(const Program& program, std::int64_t rows, Clock::time_point deadline) {
  RowCheck check(program, rows, deadline);
  check.run([](std::size_t) { return true; }, false);
  check.run([](std::size_t row) { return row % 2 == 0; }, false);
  check.run([](std::size_t row) { return row % 2 == 1; }, false);
  check.run([](std::size_t row) { return row == 0; }, true);
}

}  // namespace plimsoll::examples::serve
