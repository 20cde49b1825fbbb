// SPDX-License-Identifier: Apache-2.0
#include "jit/gpu/products/gpu_operand.h"

#include <algorithm>

#include "jit/emit/elementwise.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

using llvm::Value;

Value* both(llvm::IRBuilder<>& b, Value* x, Value* y) {
  if (x == nullptr || y == nullptr) return x == nullptr ? y : x;
  return b.CreateAnd(x, y);
}

Value* scaled(GpuEntry& entry, Value* x, std::int64_t factor) {
  return entry.builder().CreateMul(x, entry.number(factor));
}

}  // namespace

ArrayPlaces::ArrayPlaces(const Contraction& contraction,
                         const std::vector<ContractedDimension>& array)
    : contraction_(contraction), coefficients_(contraction.digits.size(), 0) {
  for (const ContractedDimension& dimension : array) {
    std::int64_t lowest = dimension.constant, highest = dimension.constant;
    for (const auto& [digit, factor] : dimension.terms) {
      const std::int64_t most = (contraction.digits[at(digit)] - 1) * factor;
      (most < 0 ? lowest : highest) += most;
    }
    const bool may_miss = lowest < 0 || highest > (dimension.size - 1) * dimension.divisor;
    if (may_miss || dimension.divisor > 1) checked_.push_back(&dimension);
    if (dimension.divisor > 1) continue;
    constant_ += dimension.constant * dimension.stride;
    for (const auto& [digit, factor] : dimension.terms) {
      coefficients_[at(digit)] += factor * dimension.stride;
    }
  }
}

std::vector<ArrayPlaces::Segment> ArrayPlaces::segments(const std::vector<int>& which) const {
  std::vector<Segment> result;
  for (std::size_t i = which.size(); i-- > 0;) {
    const int digit = which[i];
    const std::int64_t extent = contraction_.digits[at(digit)];
    if (extent == 1) continue;
    const bool is_checked =
        std::any_of(checked_.begin(), checked_.end(), [&](const ContractedDimension* dimension) {
          return std::any_of(dimension->terms.begin(), dimension->terms.end(),
                             [&](const auto& term) { return term.first == digit; });
        });
    const std::int64_t coefficient = coefficients_[at(digit)];
    if (!result.empty() && !is_checked && !result.back().is_checked &&
        coefficient == result.back().coefficient * result.back().extent) {
      result.back().extent *= extent;
    } else {
      result.push_back({digit, extent, coefficient, is_checked});
    }
  }
  return result;
}

PlacePart ArrayPlaces::origin(GpuEntry& entry) const {
  PlacePart result{entry.number(constant_), {}};
  for (const ContractedDimension* dimension : checked_) {
    result.checked.push_back(entry.number(dimension->constant));
  }
  return result;
}

PlacePart ArrayPlaces::part(GpuEntry& entry, const std::vector<int>& which, Value* number) const {
  llvm::IRBuilder<>& b = entry.builder();
  PlacePart result{entry.number(0), std::vector<Value*>(checked_.size(), entry.number(0))};
  const std::vector<Segment> all = segments(which);
  Value* rest = number;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Segment& segment = all[i];
    // The highest one loses its limit where the number is out of range.
    Value* x = i + 1 == all.size() ? rest : entry.split(&rest, segment.extent);
    if (segment.coefficient != 0) {
      result.offset = b.CreateAdd(result.offset, scaled(entry, x, segment.coefficient));
    }
    if (!segment.is_checked) continue;
    for (std::size_t j = 0; j < checked_.size(); ++j) {
      for (const auto& [digit, factor] : checked_[j]->terms) {
        if (digit != segment.digit) continue;
        result.checked[j] = b.CreateAdd(result.checked[j], scaled(entry, x, factor));
      }
    }
  }
  return result;
}

PlacePart ArrayPlaces::sum(GpuEntry& entry, const PlacePart& x, const PlacePart& y) {
  llvm::IRBuilder<>& b = entry.builder();
  PlacePart result{b.CreateAdd(x.offset, y.offset), {}};
  for (std::size_t i = 0; i < x.checked.size(); ++i) {
    result.checked.push_back(b.CreateAdd(x.checked[i], y.checked[i]));
  }
  return result;
}

ArrayPlaces::Element ArrayPlaces::element(GpuEntry& entry, const PlacePart& place) const {
  llvm::IRBuilder<>& b = entry.builder();
  Element result{place.offset, nullptr};
  for (std::size_t i = 0; i < checked_.size(); ++i) {
    const ContractedDimension& dimension = *checked_[i];
    Value* x = place.checked[i];
    // Unsigned: what is below zero is past the end.
    Value* last = entry.number((dimension.size - 1) * dimension.divisor);
    result.exists = both(b, result.exists, b.CreateICmpULE(x, last));
    if (dimension.divisor == 1) continue;
    Value* rest = b.CreateURem(x, entry.number(dimension.divisor));
    result.exists = both(b, result.exists, b.CreateIsNull(rest));
    x = b.CreateUDiv(x, entry.number(dimension.divisor));
    result.offset = b.CreateAdd(result.offset, scaled(entry, x, dimension.stride));
  }
  return result;
}

bool ArrayPlaces::is_linear(const std::vector<int>& which) const {
  const std::vector<Segment> all = segments(which);
  return all.empty() || (all.size() == 1 && !all[0].is_checked);
}

std::int64_t ArrayPlaces::step(const std::vector<int>& which) const {
  const std::vector<Segment> all = segments(which);
  return all.empty() ? 0 : all[0].coefficient;
}

bool ArrayPlaces::runs_along(const std::vector<int>& which) const {
  const std::vector<Segment> all = segments(which);
  return std::any_of(all.begin(), all.end(),
                     [](const Segment& segment) { return segment.coefficient == 1; });
}

int ArrayPlaces::vector_width(const std::vector<int>& which, int most) const {
  const std::vector<Segment> own = segments(which);
  if (own.empty() || own[0].is_checked || own[0].coefficient != 1) return 1;
  std::vector<std::int64_t> multiples{own[0].extent, constant_};
  for (const auto* group :
       {&contraction_.batch, &contraction_.m, &contraction_.n, &contraction_.k}) {
    const std::vector<Segment> all = segments(*group);
    for (std::size_t i = group == &which ? 1 : 0; i < all.size(); ++i) {
      multiples.push_back(all[i].coefficient);
    }
  }
  for (const ContractedDimension* dimension : checked_) {
    if (dimension->divisor > 1) multiples.push_back(dimension->stride);
  }
  int width = most;
  while (width > 1 && !std::all_of(multiples.begin(), multiples.end(),
                                   [&](std::int64_t n) { return n % width == 0; })) {
    width /= 2;
  }
  return width;
}

OperandTile::OperandTile(GpuEntry& entry, const Contraction& contraction, const ArrayPlaces& places,
                         Form form)
    : entry_(entry), contraction_(contraction), places_(places), form_(form) {
  const std::int64_t bytes = ir::dtype_bytes(form_.dtype);
  int most = std::max<int>(form_.most_bytes / static_cast<int>(bytes), 1);
  while (most > 1 && form_.rows * form_.depth / most < form_.threads) most /= 2;
  const int by_depth = places_.vector_width(contraction_.k, most);
  const int by_rows = places_.vector_width(*form_.side, most);
  const bool is_vector = std::max(by_depth, by_rows) > 1;
  along_depth_ = is_vector ? by_depth > by_rows
                           : !places_.runs_along(*form_.side) && places_.runs_along(contraction_.k);
  width_ = std::max(by_depth, by_rows);
  // The pieces of a tile, how many of each way a warp reads at a time, and how many all warps.
  const std::int64_t across = along_depth_ ? form_.rows : form_.rows / width_;
  const std::int64_t down = along_depth_ ? form_.depth / width_ : form_.depth;
  // Neighbouring threads read neighbours; of vectors along the depth two, so that the rows that a
  // warp writes are in different banks of shared memory.
  std::int64_t lanes_down = 1;
  if (along_depth_) lanes_down = std::min<std::int64_t>(is_vector ? 2 : 16, down);
  std::int64_t lanes_across = kWarp / lanes_down;
  if (lanes_across > across) {
    lanes_across = across;
    lanes_down = kWarp / lanes_across;
  }
  const std::int64_t warps = form_.threads / kWarp;
  // A thread has few rows where depths are steps of one, and few depths where they are not.
  std::int64_t warps_across = 0;
  if (places_.is_linear(contraction_.k)) {
    warps_across = std::min(warps, across / lanes_across);
  } else {
    warps_across = warps / std::min(warps, down / lanes_down);
  }
  const std::int64_t warps_down = warps / warps_across;

  llvm::IRBuilder<>& b = entry.builder();
  Value* warp = b.CreateIntCast(entry.thread_in_block(), entry.index_type(), false);
  Value* lane = entry.split(&warp, kWarp);
  Value* lane_across = nullptr;
  Value* lane_down = nullptr;
  if (along_depth_ && !is_vector) {
    lane_down = entry.split(&lane, lanes_down);
    lane_across = lane;
  } else {
    lane_across = entry.split(&lane, lanes_across);
    lane_down = lane;
  }
  Value* warp_across = entry.split(&warp, warps_across);
  const std::int64_t row_unit = along_depth_ ? 1 : width_;
  const std::int64_t depth_unit = along_depth_ ? width_ : 1;
  Value* first_row = b.CreateAdd(scaled(entry, warp_across, lanes_across * row_unit),
                                 scaled(entry, lane_across, row_unit));
  Value* first_depth = b.CreateAdd(scaled(entry, warp, lanes_down * depth_unit),
                                   scaled(entry, lane_down, depth_unit));
  depth_step_ = lanes_down * warps_down * depth_unit;
  for (std::int64_t i = 0; i < across / (lanes_across * warps_across); ++i) {
    rows_.push_back(
        b.CreateAdd(first_row, entry.number(i * lanes_across * warps_across * row_unit)));
  }
  for (std::int64_t i = 0; i < down / (lanes_down * warps_down); ++i) {
    depths_.push_back(b.CreateAdd(first_depth, entry.number(i * depth_step_)));
  }
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    for (std::size_t depth = 0; depth < depths_.size(); ++depth) pieces_.push_back({row, depth});
  }
}

void OperandTile::place_rows(Value* first, Value* batch) {
  llvm::IRBuilder<>& b = entry_.builder();
  const std::int64_t extent = contraction_.extent(*form_.side);
  const PlacePart start = ArrayPlaces::sum(entry_, places_.origin(entry_),
                                           places_.part(entry_, contraction_.batch, batch));
  for (Value* row : rows_) {
    Value* number = b.CreateAdd(first, row);
    if (extent % form_.rows != 0) {
      Value* last = entry_.number(extent - (along_depth_ ? 1 : width_));
      number = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, number, last);
    }
    PlacePart place = ArrayPlaces::sum(entry_, start, places_.part(entry_, *form_.side, number));
    if (places_.has_checks()) {
      row_places_.push_back(std::move(place));
    } else {
      llvm::Type* element = memory_type(b.getContext(), form_.dtype, 1);
      row_pointers_.push_back(
          b.CreateGEP(element, entry_.function().input(form_.input), place.offset));
    }
  }
}

std::vector<OperandTile::Source> OperandTile::sources(Value* k, Value* end) {
  llvm::IRBuilder<>& b = entry_.builder();
  llvm::Type* element = memory_type(b.getContext(), form_.dtype, 1);
  Value* input = entry_.function().input(form_.input);
  const bool is_linear = places_.is_linear(contraction_.k);
  // Constant steps from the first of a thread's positions, where all exist.
  const bool has_steps = is_linear && end == nullptr && !places_.has_checks();
  const std::int64_t step = is_linear ? depth_step_ * places_.step(contraction_.k) : 0;
  std::vector<PlacePart> parts;
  std::vector<Value*> within;
  for (std::size_t i = 0; i < depths_.size(); ++i) {
    if (has_steps && i > 0) {
      parts.push_back(parts[0]);
      within.push_back(nullptr);
      continue;
    }
    Value* position = b.CreateAdd(k, depths_[i]);
    within.push_back(end == nullptr ? nullptr : b.CreateICmpSLT(position, end));
    if (end != nullptr) {
      // In the place of what does not exist the row's last is read.
      Value* last = b.CreateSub(end, entry_.number(along_depth_ ? width_ : 1));
      position = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, position, last);
    }
    parts.push_back(places_.part(entry_, contraction_.k, position));
  }
  std::vector<Source> result;
  for (const Piece& piece : pieces_) {
    Source source{nullptr, within[piece.depth]};
    const PlacePart& part = parts[piece.depth];
    if (places_.has_checks()) {
      const ArrayPlaces::Element found =
          places_.element(entry_, ArrayPlaces::sum(entry_, row_places_[piece.row], part));
      Value* offset = found.offset;
      if (found.exists != nullptr) {
        offset = b.CreateSelect(found.exists, offset, entry_.number(0));
        source.exists = both(b, source.exists, found.exists);
      }
      source.pointer = b.CreateGEP(element, input, offset);
    } else {
      source.pointer = b.CreateGEP(element, row_pointers_[piece.row], part.offset);
      const std::int64_t further = static_cast<std::int64_t>(piece.depth) * step;
      if (has_steps && further != 0) {
        source.pointer =
            b.CreateConstGEP1_64(element, source.pointer, static_cast<std::uint64_t>(further));
      }
    }
    result.push_back(source);
  }
  return result;
}

llvm::Type* OperandTile::piece_type() const {
  return memory_type(entry_.builder().getContext(), form_.dtype, width_);
}

Value* OperandTile::load(const Source& source) {
  llvm::IRBuilder<>& b = entry_.builder();
  const auto bytes = static_cast<std::uint64_t>(width_ * ir::dtype_bytes(form_.dtype));
  Value* loaded = b.CreateAlignedLoad(piece_type(), source.pointer, llvm::Align(bytes));
  if (source.exists == nullptr) return loaded;
  return b.CreateSelect(source.exists, loaded, llvm::Constant::getNullValue(piece_type()));
}

}  // namespace plimsoll::jit
