// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/fusions/attention_text.h"

#include <charconv>
#include <cstdlib>
#include <vector>

namespace plimsoll::ir {
namespace {

constexpr std::string_view kForward = "attention", kBackward = "attention-backward";

// The orders of a form with their words.
template <typename Form, typename F>
void visit_orders(Form& form, F&& visit) {
  visit("q", form.query);
  visit("k", form.key);
  visit("v", form.value);
  visit("o", form.output);
  if (!form.backward) return;
  visit("do", form.output_gradient);
  visit("dq", form.query_gradient);
  visit("dk", form.key_gradient);
  visit("dv", form.value_gradient);
}

DimOrder in_order(int rank) {
  DimOrder order;
  for (int i = 0; i < rank; ++i) order.push_back(i);
  return order;
}

std::string list(const std::vector<std::int64_t>& values) {
  std::string text;
  for (const std::int64_t value : values) {
    if (!text.empty()) text += '.';
    text += std::to_string(value);
  }
  return text;
}

std::string number(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return std::string(text, end);
}

std::optional<std::int64_t> read_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::vector<std::int64_t>> read_list(std::string_view text) {
  std::vector<std::int64_t> values;
  while (!text.empty()) {
    const std::size_t dot = text.find('.');
    const auto value = read_integer(text.substr(0, dot));
    if (!value.has_value()) return std::nullopt;
    values.push_back(*value);
    text = dot == std::string_view::npos ? std::string_view() : text.substr(dot + 1);
  }
  return values;
}

std::optional<float> read_number(std::string_view text) {
  float value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// One `name=value` into the form; false when it is not understood.
bool read_field(std::string_view name, std::string_view value, AttentionForm& form) {
  const auto take = [](auto read, auto& to) {
    if (!read.has_value()) return false;
    to = *read;
    return true;
  };
  if (name == "scale") return take(read_number(value), form.scale);
  if (name == "gradient_scale") return take(read_number(value), form.gradient_scale);
  if (name == "fill") return take(read_number(value), form.fill);
  if (name == "causal") return take(read_integer(value), form.causal);
  if (name == "bias") return take(read_list(value), form.bias);
  if (name == "mask") return take(read_list(value), form.mask);
  if (name == "result") return take(parse_dtype(value), form.result_dtype);
  if (name == "statistics") {
    form.statistics = true;
    return value == "1" && !form.backward;
  }
  if (name == "without") {
    bool& wanted = value == "dq"   ? form.wants_query
                   : value == "dk" ? form.wants_key
                                   : form.wants_value;
    wanted = false;
    return form.backward && (value == "dq" || value == "dk" || value == "dv");
  }
  bool known = false;
  visit_orders(form, [&](std::string_view word, DimOrder& order) {
    if (name == word) known = take(read_list(value), order);
  });
  return known;
}

}  // namespace

std::string attention_text(const AttentionForm& form) {
  std::string text = "\"" + std::string(form.backward ? kBackward : kForward);
  const auto field = [&](std::string_view name, const std::string& value) {
    text += " " + std::string(name) + "=" + value;
  };
  visit_orders(form, [&](std::string_view name, const DimOrder& order) {
    if (order != in_order(static_cast<int>(order.size()))) field(name, list(order));
  });
  if (form.scale != 1) field("scale", number(form.scale));
  if (form.gradient_scale != 1) field("gradient_scale", number(form.gradient_scale));
  if (form.bias.has_value()) field("bias", list(*form.bias));
  if (form.mask.has_value()) field("mask", list(*form.mask));
  if (form.causal.has_value()) field("causal", std::to_string(*form.causal));
  if (form.fill != 0) field("fill", number(form.fill));
  if (form.statistics) field("statistics", "1");
  if (form.backward) {
    if (!form.wants_query) field("without", "dq");
    if (!form.wants_key) field("without", "dk");
    if (!form.wants_value) field("without", "dv");
  }
  if (form.result_dtype != DType::f32) field("result", std::string(to_string(form.result_dtype)));
  return text + "\"";
}

bool is_attention_text(std::string_view text) {
  return text.starts_with("\"attention ") || text == "\"attention\"" ||
         text.starts_with("\"attention-backward ") || text == "\"attention-backward\"";
}

std::optional<AttentionForm> parse_attention_text(std::string_view text, int rank) {
  if (!is_attention_text(text) || text.size() < 2 || text.back() != '"') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  AttentionForm form;
  form.backward = text.starts_with(kBackward);
  visit_orders(form, [&](std::string_view, DimOrder& order) { order = in_order(rank); });
  text.remove_prefix(form.backward ? kBackward.size() : kForward.size());
  while (!text.empty()) {
    if (text.front() != ' ') return std::nullopt;
    text.remove_prefix(1);
    const std::string_view field = text.substr(0, text.find(' '));
    const std::size_t equals = field.find('=');
    if (equals == std::string_view::npos ||
        !read_field(field.substr(0, equals), field.substr(equals + 1), form)) {
      return std::nullopt;
    }
    text.remove_prefix(field.size());
  }
  return form;
}

}  // namespace plimsoll::ir
