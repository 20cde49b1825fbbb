// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "jit/gpu/gpu_entry.h"
#include "jit/gpu/products/gpu_contraction.h"

namespace plimsoll::jit {

// What some digits of a contraction add to a place in an array: elements to the offset, and
// positions to the dimensions in which a place may have no element.
struct PlacePart {
  llvm::Value* offset = nullptr;
  std::vector<llvm::Value*> checked;
};

// How places in an array follow from the digits: offsets are linear in them, but for dimensions
// with a divisor.
class ArrayPlaces {
 public:
  ArrayPlaces(const Contraction& contraction, const std::vector<ContractedDimension>& array);

  // What is added whatever the digits are.
  PlacePart origin(GpuEntry& entry) const;
  // What the digits `which` of `number` add.
  PlacePart part(GpuEntry& entry, const std::vector<int>& which, llvm::Value* number) const;
  static PlacePart sum(GpuEntry& entry, const PlacePart& x, const PlacePart& y);

  struct Element {
    llvm::Value* offset = nullptr;
    llvm::Value* exists = nullptr;  // null: always
  };
  // Of the sum of the origin and the parts of all digits.
  Element element(GpuEntry& entry, const PlacePart& place) const;

  bool has_checks() const { return !checked_.empty(); }
  // Offsets are `number * step(which)`, without checks.
  bool is_linear(const std::vector<int>& which) const;
  std::int64_t step(const std::vector<int>& which) const;
  // Neighbouring elements differ in one of these digits.
  bool runs_along(const std::vector<int>& which) const;
  // So many numbers of `which` from a multiple of it on, at most `most` (a power of two), lie side
  // by side at a multiple of as many elements, and exist together.
  int vector_width(const std::vector<int>& which, int most) const;

 private:
  // Digits that run on into one another, or one that a check asks for.
  struct Segment {
    int digit = 0;
    std::int64_t extent = 1, coefficient = 0;
    bool is_checked = false;
  };
  std::vector<Segment> segments(const std::vector<int>& which) const;  // minor to major

  const Contraction& contraction_;
  std::vector<const ContractedDimension*> checked_;
  std::vector<std::int64_t> coefficients_;  // of each digit
  std::int64_t constant_ = 0;
};

// A tile of one operand, `rows` by `depth` contracted positions, as the threads of a block read it:
// each some pieces of `width` elements side by side, along the depth or along the rows.
class OperandTile {
 public:
  struct Form {
    int input = 0;
    ir::DType dtype = ir::DType::f32;
    const std::vector<int>* side = nullptr;  // the digits of rows
    std::int64_t rows = 1, depth = 1, threads = kWarp;
    int most_bytes = 16;  // of a piece
  };
  OperandTile(GpuEntry& entry, const Contraction& contraction, const ArrayPlaces& places,
              Form form);

  int width() const { return width_; }
  bool along_depth() const { return along_depth_; }
  std::size_t size() const { return pieces_.size(); }
  // Where in the tile the first element of piece `i` lies.
  llvm::Value* row(std::size_t i) const { return rows_[pieces_[i].row]; }
  llvm::Value* depth(std::size_t i) const { return depths_[pieces_[i].depth]; }

  // What does not change with the depth: of the rows from `first` on, in batch `batch`. What lies
  // past the last row repeats it.
  void place_rows(llvm::Value* first, llvm::Value* batch);

  struct Source {
    llvm::Value* pointer = nullptr;
    llvm::Value* exists = nullptr;  // null: always
  };
  // Of each piece, of the positions from `k` on; none at `end` (null: there are no such) or beyond.
  std::vector<Source> sources(llvm::Value* k, llvm::Value* end);
  llvm::Type* piece_type() const;
  // A piece as memory has it; zeros where it does not exist.
  llvm::Value* load(const Source& source);

 private:
  struct Piece {
    std::size_t row = 0, depth = 0;
  };

  GpuEntry& entry_;
  const Contraction& contraction_;
  const ArrayPlaces& places_;
  const Form form_;
  int width_ = 1;
  bool along_depth_ = false;
  std::int64_t depth_step_ = 0;
  std::vector<llvm::Value*> rows_, depths_;
  std::vector<Piece> pieces_;
  std::vector<PlacePart> row_places_;       // where places are checked
  std::vector<llvm::Value*> row_pointers_;  // where they are not
};

}  // namespace plimsoll::jit
