// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/trace/lab.h"

namespace plimsoll::trace {

// A random program of small steps: record, evaluate some, read, assign to a variable, release. What
// it does depends on the seed alone, never on how it is run.
class RandomEager {
 public:
  explicit RandomEager(std::uint32_t seed, int steps = 60) : seed_(seed), steps_(steps) {}

  // The bits of everything it reads. `failed` is asked after each step that failed whether to try
  // it again; where not, the answer is empty.
  std::optional<std::vector<float>> run(Lab& lab,
                                        const std::function<bool(const Status&)>& failed) {
    lab_ = &lab;
    random_.seed(seed_);
    done_ = 0;
    live_.clear();
    results_.clear();
    std::optional<std::vector<float>> results;
    if (run_steps(failed)) results = results_;
    live_.clear();
    return results;
  }

  // Of what may fail, so much has been done.
  int done() const { return done_; }

 private:
  static constexpr std::int64_t kRows[] = {8, 16, 64, 128};
  static constexpr std::int64_t kColumns = 8;

  bool run_steps(const std::function<bool(const Status&)>& failed) {
    const auto insist = [&](const std::function<Status()>& step) {
      for (;;) {
        const Status status = step();
        if (status.ok()) {
          ++done_;
          return true;
        }
        if (!failed(status)) return false;
      }
    };
    for (const std::int64_t rows : kRows) live_.push_back(host(rows));
    // A variable, on the device.
    live_.push_back(host(64));
    if (!insist([&] { return lab_->evaluate({live_.back().node()}); })) return false;
    for (int i = 0; i < steps_; ++i) {
      const int kind = pick(10);
      if (kind < 4) {
        record();
        if (pick(3) > 0) {
          if (!insist([&] { return lab_->evaluate({live_.back().node()}); })) return false;
        }
      } else if (kind < 6) {
        std::vector<Node*> nodes;
        for (const Handle& handle : live_) {
          if (pick(3) == 0) nodes.push_back(handle.node());
        }
        if (!insist([&] { return (*lab_)->evaluate(nodes); })) return false;
      } else if (kind < 8) {
        const Handle& handle = live_[at_random()];
        if (!insist([&] { return read(handle); })) return false;
      } else if (kind == 8) {
        assign();
        if (pick(2) == 0 && !insist([&] { return lab_->evaluate({}); })) return false;
      } else if (live_.size() > 6) {
        const std::size_t gone = 1 + at_random() % (live_.size() - 1);
        std::swap(live_[gone], live_.back());
        live_.pop_back();
      }
    }
    for (const Handle& handle : live_) {
      if (!insist([&] { return read(handle); })) return false;
    }
    return true;
  }

  int pick(int count) { return static_cast<int>(random_() % static_cast<std::uint32_t>(count)); }
  std::size_t at_random() { return static_cast<std::size_t>(pick(static_cast<int>(live_.size()))); }

  Handle host(std::int64_t rows) {
    std::vector<float> values(static_cast<std::size_t>(rows * kColumns));
    for (float& value : values) value = static_cast<float>(random_() % 2000) / 1000 - 1;
    const ir::Shape shape(ir::DType::f32, {rows, kColumns});
    return Handle(**lab_, (*lab_)->from_host(shape, std::as_bytes(std::span(values))));
  }

  static bool is_mask(const Node* node) { return node->shape().dtype() == ir::DType::pred; }

  // Of the rows of `like`, a mask or not; null if there is none.
  Node* companion(Node* like, bool mask = false) {
    std::vector<Node*> found;
    for (const Handle& handle : live_) {
      Node* node = handle.node();
      if (node->dims()[0] == like->dims()[0] && is_mask(node) == mask) found.push_back(node);
    }
    if (found.empty()) return nullptr;
    return found[static_cast<std::size_t>(pick(static_cast<int>(found.size())))];
  }

  // The first, made before all else, is never a mask.
  std::size_t at_random_but_masks() {
    const std::size_t at = at_random();
    return is_mask(live_[at].node()) ? 0 : at;
  }

  void record() {
    Node* a = live_[at_random_but_masks()].node();
    switch (pick(9)) {
      case 0:
        live_.push_back(lab_->op(ir::Opcode::tanh, {a}));
        break;
      case 1:
        live_.push_back(lab_->op(ir::Opcode::cosine, {a}));
        break;
      case 2:
      case 3: {
        Node* b = companion(a);
        const Handle sum = lab_->op(ir::Opcode::add, {a, b});
        const Handle half = lab_->scalar(0.5);
        live_.push_back(lab_->op(ir::Opcode::multiply, {sum.node(), half.node()}));
        break;
      }
      case 4: {
        Node* b = companion(a);
        live_.push_back(lab_->op(ir::Opcode::multiply, {a, b}));
        break;
      }
      case 5:
      case 6:
        live_.push_back(lab_->greater(a, companion(a)));
        break;
      case 7:
        if (Node* mask = companion(a, true)) {
          live_.push_back(lab_->op(ir::Opcode::select, {mask, a, companion(a)}));
          break;
        }
        [[fallthrough]];
      default:
        live_.push_back(host(kRows[pick(4)]));
    }
  }

  void assign() {
    Handle& variable = live_[at_random_but_masks()];
    Node* with = companion(variable.node());
    const Handle tenth = lab_->scalar(0.1);
    const Handle step = lab_->op(ir::Opcode::multiply, {with, tenth.node()});
    const Handle next = lab_->op(ir::Opcode::subtract, {variable.node(), step.node()});
    EXPECT_TRUE((*lab_)->assign(*variable, next.node()).ok());
  }

  Status read(const Handle& handle) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(handle.node()->byte_size()));
    PLIMSOLL_RETURN_IF_ERROR((*lab_)->read(handle.node(), bytes));
    const std::size_t floats = (bytes.size() + 3) / 4, before = results_.size();
    results_.resize(before + floats);
    std::memcpy(results_.data() + before, bytes.data(), bytes.size());
    return ok_status();
  }

  const std::uint32_t seed_;
  const int steps_;
  int done_ = 0;
  std::mt19937 random_;
  Lab* lab_ = nullptr;
  std::vector<Handle> live_;
  std::vector<float> results_;
};

}  // namespace plimsoll::trace
