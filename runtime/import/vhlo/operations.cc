// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/vhlo/operations.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <unordered_map>

namespace plimsoll::vhlo {
namespace {

// Regions within regions; programs have a handful.
constexpr int kMostRegionNesting = 128;

struct OperationForm {
  std::vector<std::string_view> attributes;
  int lists = 0;  // groups of operands
};

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

const OperationForm* find_form(std::string_view name) {
  static const std::unordered_map<std::string_view, OperationForm> forms = {
#define PLIMSOLL_VHLO_OP(name, lists, attributes) {name, {words_of(attributes), lists}},
#include "runtime/import/vhlo/vhlo_ops.def"
#undef PLIMSOLL_VHLO_OP
  };
  const auto found = forms.find(name);
  return found == forms.end() ? nullptr : &found->second;
}

// What an operation's code is followed by, as bits.
enum Part : unsigned {
  kHasAttributes = 1,
  kHasResults = 2,
  kHasOperands = 4,
  kHasSuccessors = 8,
  kHasRegions = 16,
  kHasUseLists = 32,
  kHasProperties = 64,
};

// The values that a region which sees nothing outside of it, and the regions in it, refer to by
// number. A region is opened with room for the values it defines itself, behind those of the
// regions around it; they are numbered in order, and forgotten when it is closed.
//
// Example: a region of 5 values has 0 .. 4; one within it, wherever it stands, numbers from 5.
class Numbering {
 public:
  void open(std::size_t count) {
    starts_.push_back(values_.size());
    next_.push_back(values_.size());
    values_.resize(values_.size() + count);
  }
  void close() {
    values_.resize(starts_.back());
    starts_.pop_back();
    next_.pop_back();
  }
  // False where the region said that there are fewer.
  bool define(const Value* value) {
    if (next_.empty() || next_.back() >= values_.size()) return false;
    values_[next_.back()++] = value;
    return true;
  }
  // Null for a number that nothing has, or not yet.
  const Value* find(std::uint64_t number) const {
    return number < values_.size() ? values_[static_cast<std::size_t>(number)] : nullptr;
  }

 private:
  std::vector<const Value*> values_;
  std::vector<std::size_t> starts_, next_;  // of the open regions
};

class Reader {
 public:
  explicit Reader(Values& values) : values_(values), container_(values.container()) {}

  Result<std::unique_ptr<Block>> read_block(Cursor& cursor, Numbering& numbering);

 private:
  Result<std::unique_ptr<Operation>> read_operation(Cursor& cursor, Numbering& numbering);
  Status read_properties(std::string_view bytes, Operation& out);
  Status read_named(std::string_view bytes, std::initializer_list<std::string_view> names,
                    Operation& out);
  Status read_options(std::size_t index, Operation& out);
  Status read_module_name(std::string_view bytes, Operation& out);
  Status read_regions(Cursor& cursor, Numbering& numbering, Operation& out);
  Status read_region(Cursor& cursor, Numbering& numbering, Operation& out);
  static void skip_use_lists(Cursor& cursor, std::size_t values);

  Values& values_;
  const Container& container_;
  int depth_ = 0;
};

// In which order uses of a value stood in memory: of no matter here.
void Reader::skip_use_lists(Cursor& cursor, std::size_t values) {
  const std::size_t lists = values > 1 ? cursor.count() : 1;
  for (std::size_t i = 0; i < lists && !cursor.is_bad(); ++i) {
    if (values > 1) (void)cursor.varint();
    const std::uint64_t indices = cursor.varint() >> 1U;
    for (std::uint64_t k = 0; k < indices && !cursor.is_bad(); ++k) (void)cursor.varint();
  }
}

Result<std::unique_ptr<Block>> Reader::read_block(Cursor& cursor, Numbering& numbering) {
  auto block = std::make_unique<Block>();
  const std::uint64_t header = cursor.varint();
  if ((header & 1U) != 0) {
    const std::size_t count = cursor.count();
    for (std::size_t i = 0; i < count && !cursor.is_bad(); ++i) {
      const std::uint64_t coded = cursor.varint();  // with a location where the low bit is set
      PLIMSOLL_ASSIGN_OR_RETURN(const Type* const type,
                                values_.type(static_cast<std::size_t>(coded >> 1U)));
      if ((coded & 1U) != 0) (void)cursor.varint();
      block->arguments.push_back(
          std::make_unique<Value>(Value{type, nullptr, static_cast<int>(i)}));
      if (!numbering.define(block->arguments.back().get())) return broken("a block");
    }
    if (cursor.byte() != 0) skip_use_lists(cursor, count);
  }
  const std::uint64_t operations = header >> 1U;
  for (std::uint64_t i = 0; i < operations; ++i) {
    if (cursor.is_bad() || cursor.at_end()) return broken("a block");
    PLIMSOLL_ASSIGN_OR_RETURN(auto operation, read_operation(cursor, numbering));
    block->operations.push_back(std::move(operation));
  }
  if (cursor.is_bad()) return broken("a block");
  return block;
}

Status Reader::read_properties(std::string_view bytes, Operation& out) {
  if (out.name == "builtin.module") return read_module_name(bytes, out);
  if (out.name == "sdy.mesh") return read_named(bytes, {"mesh", "sym_name"}, out);
  if (out.name == "sdy.sharding_constraint") return read_named(bytes, {"sharding"}, out);
  if (out.name == "sdy.manual_computation") {
    return read_named(bytes, {"in_shardings", "manual_axes", "out_shardings"}, out);
  }
  if (!out.name.starts_with("vhlo.")) return ok_status();
  const OperationForm* const form = find_form(out.name.substr(5));
  if (form == nullptr) {
    return unimplemented("StableHLO: the operation '" + std::string(out.name) +
                         "' is not known (the file is newer than this reader: export it for an "
                         "older StableHLO version)");
  }
  Cursor cursor(bytes);
  for (const std::string_view name : form->attributes) {
    PLIMSOLL_ASSIGN_OR_RETURN(const Attribute* const attribute,
                              values_.attribute(static_cast<std::size_t>(cursor.varint())));
    out.attributes.emplace_back(name, attribute);
  }
  if (form->lists > 1) {
    while (!cursor.is_bad() && !cursor.at_end()) {
      const std::size_t size = static_cast<std::size_t>(cursor.varint());
      out.segments.push_back(static_cast<int>(std::min<std::size_t>(size, 1U << 20U)));
    }
  }
  return cursor.is_bad() || !cursor.at_end() ? broken("the properties of " + std::string(out.name))
                                             : ok_status();
}

Status Reader::read_named(std::string_view bytes, std::initializer_list<std::string_view> names,
                          Operation& out) {
  Cursor cursor(bytes);
  for (const std::string_view name : names) {
    PLIMSOLL_ASSIGN_OR_RETURN(const Attribute* const attribute,
                              values_.attribute(static_cast<std::size_t>(cursor.varint())));
    out.attributes.emplace_back(name, attribute);
  }
  return cursor.is_bad() ? broken("the properties of " + std::string(out.name)) : ok_status();
}

// What a call has beside its properties: the options of the function. A module has its replicas and
// partitions there. Of all other operations nothing that stands there means anything here.
Status Reader::read_options(std::size_t index, Operation& out) {
  if (!out.name.starts_with("vhlo.custom_call") && out.name != "builtin.module") {
    return ok_status();
  }
  PLIMSOLL_ASSIGN_OR_RETURN(const Attribute* const beside, values_.attribute(index));
  for (const auto& [key, value] : beside->entries) {
    if (key->kind == Attribute::Kind::text) out.attributes.emplace_back(key->text, value);
  }
  return ok_status();
}

// The first property, where the lowest bit says that there is one: the module's name.
Status Reader::read_module_name(std::string_view bytes, Operation& out) {
  Cursor cursor(bytes);
  const std::uint64_t coded = cursor.varint();
  if (cursor.is_bad() || (coded & 1U) == 0) return ok_status();
  PLIMSOLL_ASSIGN_OR_RETURN(const Attribute* const name,
                            values_.attribute(static_cast<std::size_t>(coded >> 1U)));
  out.attributes.emplace_back("sym_name", name);
  return ok_status();
}

Status Reader::read_region(Cursor& cursor, Numbering& numbering, Operation& out) {
  const std::uint64_t blocks = cursor.varint();
  if (blocks == 0) {
    out.regions.push_back(nullptr);
    return cursor.is_bad() ? broken("a region") : ok_status();
  }
  if (blocks != 1) return unimplemented("StableHLO: a region of several blocks");
  numbering.open(cursor.count());
  PLIMSOLL_ASSIGN_OR_RETURN(auto block, read_block(cursor, numbering));
  numbering.close();
  out.regions.push_back(std::move(block));
  return ok_status();
}

Status Reader::read_regions(Cursor& cursor, Numbering& numbering, Operation& out) {
  const std::uint64_t coded = cursor.varint();
  const std::uint64_t count = coded >> 1U;
  const bool is_isolated = (coded & 1U) != 0;  // then they are a section of their own, all of them
  Section section;
  if (is_isolated) {
    section = read_section(cursor);
    if (cursor.is_bad() || section.id != kOperationsSection) return broken("a region");
  }
  Cursor inner(section.bytes);
  Numbering own;
  for (std::uint64_t i = 0; i < count; ++i) {
    Cursor& from = is_isolated ? inner : cursor;
    if (from.is_bad() || from.at_end()) return broken("a region");
    PLIMSOLL_RETURN_IF_ERROR(read_region(from, is_isolated ? own : numbering, out));
  }
  return ok_status();
}

Result<std::unique_ptr<Operation>> Reader::read_operation(Cursor& cursor, Numbering& numbering) {
  if (depth_ >= kMostRegionNesting) return broken("a region within itself");
  auto made = std::make_unique<Operation>();
  const std::size_t name = cursor.index(container_.operations.size());
  const unsigned parts = cursor.byte();
  (void)cursor.varint();  // its location
  if (cursor.is_bad()) return broken("an operation");
  made->name = container_.operations[name];
  if ((parts & kHasAttributes) != 0) {
    const std::size_t index = static_cast<std::size_t>(cursor.varint());
    PLIMSOLL_RETURN_IF_ERROR(read_options(index, *made));
  }
  if ((parts & kHasProperties) != 0) {
    const std::size_t index = cursor.index(container_.properties.size());
    if (cursor.is_bad()) return broken("an operation");
    PLIMSOLL_RETURN_IF_ERROR(read_properties(container_.properties[index], *made));
  }
  if ((parts & kHasResults) != 0) {
    const std::size_t count = cursor.count();
    for (std::size_t i = 0; i < count && !cursor.is_bad(); ++i) {
      PLIMSOLL_ASSIGN_OR_RETURN(const Type* const type,
                                values_.type(static_cast<std::size_t>(cursor.varint())));
      made->results.push_back(
          std::make_unique<Value>(Value{type, made.get(), static_cast<int>(i)}));
    }
  }
  if ((parts & kHasOperands) != 0) {
    const std::size_t count = cursor.count();
    for (std::size_t i = 0; i < count && !cursor.is_bad(); ++i) {
      const Value* const value = numbering.find(cursor.varint());
      if (value == nullptr) return broken("an operand of " + std::string(made->name));
      made->operands.push_back(value);
    }
  }
  if ((parts & kHasSuccessors) != 0) return unimplemented("StableHLO: a jump to another block");
  if ((parts & kHasUseLists) != 0) skip_use_lists(cursor, made->results.size());
  if (cursor.is_bad()) return broken("the operation " + std::string(made->name));
  for (const auto& result : made->results) {
    if (!numbering.define(result.get())) return broken("a result of " + std::string(made->name));
  }
  if ((parts & kHasRegions) != 0) {
    ++depth_;
    const Status status = read_regions(cursor, numbering, *made);
    --depth_;
    PLIMSOLL_RETURN_IF_ERROR(status);
  }
  return made;
}

}  // namespace

const Attribute* Operation::find(std::string_view attribute) const {
  for (const auto& [name, value] : attributes) {
    if (name == attribute) return value;
  }
  return nullptr;
}

Result<std::unique_ptr<Block>> read_operations(Values& values) {
  Cursor cursor(values.container().operations_section);
  Numbering numbering;
  Reader reader(values);
  return reader.read_block(cursor, numbering);
}

}  // namespace plimsoll::vhlo
