// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/text/geometry_text.h"

#include <fmt/core.h>
#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include "runtime/base/index.h"
#include "runtime/ir/attribute_fields.h"
#include "runtime/ir/shape.h"

namespace plimsoll::ir {
namespace {

// Above any size a dimension can have, and far enough from overflow to be added and multiplied.
constexpr std::int64_t kMaxExtent = std::int64_t{1} << 40;

// One group of `b01f`: where `first`, `second` and the spatial digits stand.
Status labels(Cursor& c, std::string_view word, char first, char second, std::int64_t& first_at,
              std::int64_t& second_at, std::vector<std::int64_t>& spatial, std::size_t start) {
  const std::size_t rank = word.size();
  first_at = second_at = -1;
  if (rank >= 2 && rank <= kMaxRank) spatial.assign(rank - 2, -1);
  bool good = rank >= 2 && rank <= kMaxRank;
  for (std::size_t i = 0; good && i < rank; ++i) {
    const auto place = static_cast<std::int64_t>(i);
    const char label = word[i];
    if (label == first && first_at < 0) {
      first_at = place;
    } else if (label == second && second_at < 0) {
      second_at = place;
    } else {
      const auto digit = at(label - '0');
      good = label >= '0' && digit < spatial.size() && spatial[digit] < 0;
      if (good) spatial[digit] = place;
    }
  }
  if (good && first_at >= 0 && second_at >= 0) return ok_status();
  return c.error_at(start, std::string("expected dim_labels such as b01f_01io->b01f, found '") +
                               std::string(word) + "'");
}

std::string labels_text(std::int64_t first_at, char first, std::int64_t second_at, char second,
                        const std::vector<std::int64_t>& spatial) {
  std::string text(spatial.size() + 2, '?');
  text[at(first_at)] = first;
  text[at(second_at)] = second;
  for (std::size_t i = 0; i < spatial.size(); ++i) {
    text[at(spatial[i])] = static_cast<char>('0' + i);
  }
  return text;
}

}  // namespace

Status read_slice(Cursor& c, Attributes& a) {
  PLIMSOLL_RETURN_IF_ERROR(c.expect('{', "before the slice's ranges"));
  if (c.take('}')) return ok_status();
  do {
    std::int64_t range[3] = {0, 0, 1};
    PLIMSOLL_RETURN_IF_ERROR(c.expect('[', "before a range"));
    for (int i = 0; i < 3; ++i) {
      if (i == 2 && !c.take(':')) break;
      if (i == 1) PLIMSOLL_RETURN_IF_ERROR(c.expect(':', "in a range"));
      PLIMSOLL_ASSIGN_OR_RETURN(range[i],
                                c.integer("a slice's start, limit or stride", 0, kMaxInteger));
    }
    PLIMSOLL_RETURN_IF_ERROR(c.expect(']', "after a range"));
    a.slice_starts.push_back(range[0]);
    a.slice_limits.push_back(range[1]);
    a.slice_strides.push_back(range[2]);
  } while (c.take(','));
  return c.expect('}', "after the slice's ranges");
}

std::string slice_text(const Attributes& a) {
  std::string text = "{";
  for (std::size_t i = 0; i < a.slice_starts.size(); ++i) {
    if (i > 0) text += ", ";
    text += fmt::format("[{}:{}", a.slice_starts[i], a.slice_limits[i]);
    const std::int64_t stride = i < a.slice_strides.size() ? a.slice_strides[i] : 1;
    if (stride != 1) text += fmt::format(":{}", stride);
    text += "]";
  }
  return text + "}";
}

Status read_value(Cursor& c, std::vector<PaddingDimension>& padding) {
  const char next = c.peek();
  if (next != '-' && (next < '0' || next > '9')) return ok_status();  // `padding=` of a scalar
  do {
    PaddingDimension dimension;
    PLIMSOLL_ASSIGN_OR_RETURN(dimension.low, c.integer("padding", -kMaxExtent, kMaxExtent));
    PLIMSOLL_RETURN_IF_ERROR(c.expect('_', "between low and high padding"));
    PLIMSOLL_ASSIGN_OR_RETURN(dimension.high, c.integer("padding", -kMaxExtent, kMaxExtent));
    if (c.take('_')) {
      PLIMSOLL_ASSIGN_OR_RETURN(dimension.interior, c.integer("interior padding", 0, kMaxExtent));
    }
    padding.push_back(dimension);
  } while (c.take('x'));
  return ok_status();
}

std::string text_of(const std::vector<PaddingDimension>& padding) {
  std::string text;
  for (const PaddingDimension& dimension : padding) {
    if (!text.empty()) text += "x";
    text += fmt::format("{}_{}", dimension.low, dimension.high);
    if (dimension.interior != 0) text += fmt::format("_{}", dimension.interior);
  }
  return text;
}

Status read_value(Cursor& c, std::vector<WindowDimension>& window) {
  const std::size_t window_start = c.position();
  PLIMSOLL_RETURN_IF_ERROR(c.expect('{', "before the window"));
  bool has_size = false;
  bool is_first = true;
  while (!c.take('}')) {
    const std::size_t start = c.position();
    const std::string_view field = c.take_word();
    std::int64_t WindowDimension::* member = nullptr;
    std::int64_t least = 1;
    if (field == "size") {
      member = &WindowDimension::size;
      least = 0;
    } else if (field == "stride") {
      member = &WindowDimension::stride;
    } else if (field == "lhs_dilate") {
      member = &WindowDimension::base_dilation;
    } else if (field == "rhs_dilate") {
      member = &WindowDimension::window_dilation;
    } else if (field != "pad" && field != "rhs_reversal") {
      c.rewind(start);
      return c.expected("size, stride, pad, lhs_dilate, rhs_dilate or rhs_reversal");
    }
    PLIMSOLL_RETURN_IF_ERROR(c.expect('=', "after " + std::string(field)));
    std::size_t count = 0;
    do {
      if (window.size() <= count) {
        if (count == kMaxRank) return c.error_at(start, "expected at most 10 window dimensions");
        if (!is_first) {
          return c.error_at(
              start, fmt::format("expected {} values of {}, found more", window.size(), field));
        }
        window.emplace_back();
      }
      WindowDimension& dimension = window[count++];
      if (member != nullptr) {
        PLIMSOLL_ASSIGN_OR_RETURN(dimension.*member, c.integer(field, least, kMaxExtent));
      } else if (field == "pad") {
        PLIMSOLL_ASSIGN_OR_RETURN(dimension.padding_low,
                                  c.integer("padding", -kMaxExtent, kMaxExtent));
        PLIMSOLL_RETURN_IF_ERROR(c.expect('_', "between low and high padding"));
        PLIMSOLL_ASSIGN_OR_RETURN(dimension.padding_high,
                                  c.integer("padding", -kMaxExtent, kMaxExtent));
      } else {
        PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t flag, c.integer("rhs_reversal", 0, 1));
        dimension.reversal = flag != 0;
      }
    } while (c.take('x'));
    if (count != window.size()) {
      return c.error_at(
          start, fmt::format("expected {} values of {}, found {}", window.size(), field, count));
    }
    has_size = has_size || field == "size";
    is_first = false;
  }
  if (!window.empty() && !has_size)
    return c.error_at(window_start, "expected a size of the window");
  return ok_status();
}

std::string text_of(const std::vector<WindowDimension>& window) {
  std::string text = "{";
  const WindowDimension usual;
  for_each_field(usual, [&]<typename F>(F field, const auto&) {
    const auto value = [](const WindowDimension& d) {
      if constexpr (std::is_same_v<F, Field<&WindowDimension::padding_low>>) {
        return fmt::format("{}_{}", d.padding_low, d.padding_high);
      }
      return std::to_string(static_cast<std::int64_t>(d.*F::member));
    };
    const bool says_nothing = field.name != "size" &&
                              std::all_of(window.begin(), window.end(),
                                          [&](const auto& d) { return value(d) == value(usual); });
    if (field.name.empty() || window.empty() || says_nothing) return;
    if (text.size() > 1) text += " ";
    text.append(field.name).append("=");
    for (const WindowDimension& d : window) text += (&d == &window[0] ? "" : "x") + value(d);
  });
  return text + "}";
}

Status read_value(Cursor& c, ConvolutionDimensions& d) {
  const std::size_t start = c.position();
  const std::string_view operands = c.take_word();
  const auto middle = operands.find('_');
  if (middle == std::string_view::npos || !c.take("->")) {
    c.rewind(start);
    return c.expected("dim_labels such as b01f_01io->b01f");
  }
  PLIMSOLL_RETURN_IF_ERROR(labels(c, operands.substr(0, middle), 'b', 'f', d.input_batch,
                                  d.input_feature, d.input_spatial, start));
  PLIMSOLL_RETURN_IF_ERROR(labels(c, operands.substr(middle + 1), 'i', 'o', d.kernel_input_feature,
                                  d.kernel_output_feature, d.kernel_spatial, start));
  PLIMSOLL_RETURN_IF_ERROR(labels(c, c.take_word(), 'b', 'f', d.output_batch, d.output_feature,
                                  d.output_spatial, start));
  if (d.input_spatial.size() != d.kernel_spatial.size() ||
      d.input_spatial.size() != d.output_spatial.size()) {
    return c.error_at(start, "expected dim_labels with the same rank in all three parts");
  }
  return ok_status();
}

std::string text_of(const ConvolutionDimensions& d) {
  return labels_text(d.input_batch, 'b', d.input_feature, 'f', d.input_spatial) + "_" +
         labels_text(d.kernel_input_feature, 'i', d.kernel_output_feature, 'o', d.kernel_spatial) +
         "->" + labels_text(d.output_batch, 'b', d.output_feature, 'f', d.output_spatial);
}

}  // namespace plimsoll::ir
