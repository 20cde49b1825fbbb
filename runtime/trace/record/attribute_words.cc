// SPDX-License-Identifier: Apache-2.0
#include "runtime/trace/record/attribute_words.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <type_traits>

#include "runtime/ir/attribute_fields.h"

namespace plimsoll {

template <>
inline constexpr auto ir::kFields<trace::Callee> =
    std::tuple<ir::Field<&trace::Callee::kind>, ir::Field<&trace::Callee::combiner>,
               ir::Field<&trace::Callee::direction>>();

}  // namespace plimsoll

namespace plimsoll::trace {
namespace {

using ir::Attributes;

template <typename Field>
constexpr bool kHasWords = !std::is_same_v<Field, ir::Field<&Attributes::literal>> &&
                           !std::is_same_v<Field, ir::Field<&Attributes::extra>>;

// The first word has a bit for each field that is not at its default; these follow in order, and
// the callee behind them.
template <typename Field>
constexpr std::int64_t kBit = std::apply(
    [](auto... field) {
      std::int64_t bit = 1;
      static_cast<void>(((!std::is_same_v<decltype(field), Field> && (bit <<= 1)) && ...));
      return bit;
    },
    ir::kFields<Attributes>);
constexpr std::int64_t kCallee = kBit<Callee>;  // behind all fields

// Archives of ir::archive_value. The writer counts on when the words are full.
class WordWriter {
 public:
  explicit WordWriter(std::span<std::int64_t> words) : words_(words) {}
  void number(std::int64_t word) {
    if (size_ < words_.size()) words_[size_] = word;
    ++size_;
  }
  void length(std::size_t size) {
    if (!any_length_) longest_ = std::max(longest_, size);
    number(static_cast<std::int64_t>(size));
  }
  void bytes(const char* data, std::size_t size) {
    number(static_cast<std::int64_t>(size));
    for (std::size_t i = 0; i < size; ++i) number(data[i]);
  }
  // While it lives, lists may be as long as there are words.
  class AnyLength {
   public:
    explicit AnyLength(WordWriter& of) : of_(of) { of_.any_length_ = true; }
    ~AnyLength() { of_.any_length_ = false; }

   private:
    WordWriter& of_;
  };
  std::size_t size() const { return size_; }
  bool fits_in_words() const { return size_ <= words_.size(); }
  bool fits() const {
    return fits_in_words() && longest_ <= static_cast<std::size_t>(ir::kMaxRank);
  }

 private:
  std::span<std::int64_t> words_;
  std::size_t size_ = 0;
  std::size_t longest_ = 0;
  bool any_length_ = false;
};

class WordReader {
 public:
  explicit WordReader(std::span<const std::int64_t> words) : words_(words) {}
  std::int64_t number() { return words_[at_++]; }
  std::size_t length() { return static_cast<std::size_t>(number()); }
  std::string bytes() {
    std::string text(length(), '\0');
    for (char& c : text) c = static_cast<char>(number());
    return text;
  }

 private:
  std::span<const std::int64_t> words_;
  std::size_t at_ = 0;
};

}  // namespace

Result<AttributeWords> AttributeWords::encode(ir::Opcode opcode, const OpAttributes& op) {
  AttributeWords out;
  WordWriter to(out.words_);
  to.number(0);
  std::int64_t present = 0;
  ir::for_each_set_field(op.attributes, [&]<typename Field>(Field, const auto& value) {
    if constexpr (kHasWords<Field>) {
      present |= kBit<Field>;
      // Groups list participants, not dims.
      if constexpr (std::is_same_v<Field, ir::Field<&Attributes::collective>>) {
        WordWriter::AnyLength any(to);
        ir::archive_value(value, to);
      } else {
        ir::archive_value(value, to);
      }
    }
  });
  if (op.callee.kind != Callee::Kind::none) {
    present |= kCallee;
    ir::archive_value(op.callee, to);
  }
  if (!to.fits()) {
    return invalid_argument(
        std::string(ir::to_string(opcode)) + ": an attribute lists more than " +
        (to.fits_in_words() ? std::to_string(ir::kMaxRank) + " dims" : "there is room for"));
  }
  out.words_[0] = present;
  out.size_ = present == 0 ? 0 : to.size();
  return out;
}

OpAttributes decode_words(std::span<const std::int64_t> words) {
  OpAttributes op;
  if (words.empty()) return op;
  WordReader from(words);
  const std::int64_t present = from.number();
  ir::for_each_field(op.attributes, [&]<typename Field>(Field, auto& value) {
    if constexpr (kHasWords<Field>) {
      if ((present & kBit<Field>) != 0) ir::archive_value(value, from);
    }
  });
  if ((present & kCallee) != 0) ir::archive_value(op.callee, from);
  return op;
}

namespace {

// The computation called `name`, made by `fill(computation)` the first time.
template <typename Fill>
ir::Computation* named_computation(ir::Module& module, const std::string& name, Fill&& fill) {
  if (ir::Computation* found = module.find(name)) return found;
  ir::Computation* made = module.add_computation(name);
  fill(*made);
  return made;
}

ir::Computation* combine(ir::Module& module, ir::Opcode combiner, ir::DType dtype) {
  const std::string name =
      std::string(ir::to_string(combiner)) + "." + std::string(ir::to_string(dtype));
  return named_computation(module, name, [&](ir::Computation& c) {
    const ir::Shape scalar(dtype, {});
    ir::Instruction* a = c.add_parameter(0, scalar, "a");
    ir::Instruction* b = c.add_parameter(1, scalar, "b");
    c.add(combiner, scalar, {a, b});
  });
}

ir::Computation* compare(ir::Module& module, ir::ComparisonDirection direction,
                         std::span<const ir::DType> dtypes, bool total) {
  std::string name = (total ? "order" : "select") + std::to_string(static_cast<int>(direction));
  for (const ir::DType dtype : dtypes) name += "." + std::string(ir::to_string(dtype));
  return named_computation(module, name, [&](ir::Computation& c) {
    std::int64_t number = 0;
    for (const ir::DType dtype : dtypes) {
      c.add_parameter(number++, ir::Shape(dtype, {}), "a");
      c.add_parameter(number++, ir::Shape(dtype, {}), "b");
    }
    ir::Attributes attributes;
    attributes.comparison_direction = direction;
    if (total && ir::is_floating(dtypes[0])) {
      attributes.comparison_order = ir::ComparisonOrder::total;
    }
    c.add(ir::Opcode::compare, ir::Shape(ir::DType::pred, {}),
          {c.parameters()[0], c.parameters()[1]}, {}, std::move(attributes));
  });
}

}  // namespace

std::vector<ir::Computation*> called_computations(ir::Module& module, const Callee& callee,
                                                  std::span<const ir::DType> dtypes) {
  switch (callee.kind) {
    case Callee::Kind::none:
      return {};
    case Callee::Kind::combine:
      return {combine(module, callee.combiner, dtypes[0])};
    case Callee::Kind::replace:
      return {named_computation(module, "replace." + std::string(ir::to_string(dtypes[0])),
                                [&](ir::Computation& c) {
                                  const ir::Shape scalar(dtypes[0], {});
                                  c.add_parameter(0, scalar, "a");
                                  c.set_root(c.add_parameter(1, scalar, "b"));
                                })};
    case Callee::Kind::select_combine:
      return {compare(module, callee.direction, dtypes.first(1), false),
              combine(module, callee.combiner, dtypes[0])};
    case Callee::Kind::order:
      return {compare(module, callee.direction, dtypes, true)};
  }
  return {};
}

}  // namespace plimsoll::trace
