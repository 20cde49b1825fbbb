// SPDX-License-Identifier: Apache-2.0
#include "tests/cases/random_skips.h"

#include <fmt/core.h>

#include <span>
#include <vector>

#include "tests/cases/random.h"

namespace plimsoll::cases {

std::string random_skips(std::uint64_t seed) {
  Random random(seed);
  const std::int64_t rows = 16 * random.between(1, 8), columns = 16 * random.between(1, 8);
  const std::string array = fmt::format("f32[{},{}]", rows, columns);
  const std::string half = fmt::format("bf16[{},{}]", rows, columns);
  std::string text = fmt::format(
      "HloModule skips\nENTRY e {{\n  x = {0} parameter(0)\n  w = f32[{1},{1}] parameter(1)\n"
      "  v = {0} parameter(2)\n  share = f32[] constant({2})\n"
      "  shares = f32[{1},{1}] broadcast(share), dimensions={{}}\n"
      "  ws = f32[{1},{1}] multiply(w, shares)\n",
      array, columns, 1 / static_cast<double>(columns));
  std::vector<std::string> values{"x"}, skips;
  int count = 0;
  const auto add = [&](const std::string& operation) {
    const std::string name = fmt::format("a{}", count++);
    text += fmt::format("  {} = {} {}\n", name, array, operation);
    values.push_back(name);
    return name;
  };
  const std::int64_t length = random.between(4, 24);
  for (std::int64_t i = 0; i < length; ++i) {
    const std::string last = values.back();
    switch (random.below(5)) {
      case 0:
        add(fmt::format("dot({}, ws), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
                        last));
        break;
      case 1:
        add(fmt::format("tanh({})", last));
        break;
      case 2:
        add(fmt::format("add({}, v)", last));
        break;
      case 3: {
        // Of nothing that was summed up, which may be rounded to the other side.
        const std::string name = fmt::format("h{}", i);
        text += fmt::format("  {} = {} convert({})\n", name, half, "v");
        add(fmt::format("convert({})", name));
        break;
      }
      default:
        add(fmt::format("maximum({}, {})", last,
                        random.pick(std::span<const std::string>(values))));
    }
    if (random.chance(0.6)) skips.push_back(values.back());
  }
  if (skips.empty()) skips.push_back("x");
  // All at once.
  if (random.chance(0.6)) {
    std::string sum = skips.front();
    for (std::size_t i = 1; i < skips.size(); ++i)
      sum = add(fmt::format("add({}, {})", sum, skips[i]));
  }
  // One by one, from the last.
  if (random.chance(0.7)) {
    for (std::size_t i = skips.size(); i-- > 0;) {
      std::string at = add(fmt::format("{}({}, {})", random.chance(0.5) ? "add" : "maximum",
                                       values.back(), skips[i]));
      if (random.chance(0.4)) {
        at = add(
            fmt::format("dot({}, ws), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}", at));
        add(fmt::format("tanh({})", at));
      }
    }
  }
  text += fmt::format(
      "  part = f32[1,{1}] slice({0}), slice={{[0:1],[0:{1}]}}\n"
      "  ROOT r = (f32[1,{1}], {2}) tuple(part, {3})\n}}\n",
      skips[random.below(skips.size())], columns, array, values.back());
  return text;
}

}  // namespace plimsoll::cases
