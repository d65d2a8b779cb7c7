// SPDX-License-Identifier: MIT
// A quantized matrix between quantizer and kernel: portable, exact, what files hold. QuantizedView points
// into a mapped file or a foreign buffer; QuantizedTensor owns its bytes. Both hold either blocks of one
// FormatInfo, row after row, or the planes of a QuantSpec (format/integer_group.hpp), and speak of them
// alike: decode rows to float, or unpack rows to codes, scales and minima.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nibble/core/memory.hpp"
#include "nibble/format/format_info.hpp"
#include "nibble/format/integer_group.hpp"

namespace nibble {

/// One row taken apart: value[k] = scales[g] * (C[codes[k]] - zeros[g]) - mins[g], g = k / group().
/// Leave `zeros` empty to have integer zeros folded into the minima (exact for 16-bit scales, one rounding
/// of s*z for f32 scales).
struct AffineRow {
  std::span<std::uint8_t> codes;      ///< [cols]
  std::span<float> scales;            ///< [groups_per_row]
  std::span<float> mins;              ///< [groups_per_row]
  std::span<std::uint8_t> zeros = {}; ///< [groups_per_row] or empty
};

/// A non-owning, immutable quantized matrix [rows, cols]; rows are output channels. Cheap to copy,
/// thread-safe to read. The bytes must outlive it.
class QuantizedView {
 public:
  QuantizedView() = default;

  /// Blocks of `format`, row-major, exactly rows * format.row_bytes(cols) of them. For bytes from outside:
  /// throws Error{malformed} when sizes do not match, Error{invalid_argument} when cols is no whole number
  /// of blocks.
  static QuantizedView from_blocks(const FormatInfo& format, Index rows, Index cols,
                                   std::span<const std::byte> data) {
    NIBBLE_EXPECTS(rows >= 0 && cols >= 0, "negative matrix shape " + to_string(Extents<2>{rows, cols}));
    QuantizedView v;
    v.format_ = &format;
    v.rows_ = rows;
    v.cols_ = cols;
    v.row_bytes_ = format.row_bytes(cols);
    v.codes_ = data.data();
    require_bytes("blocks", data.size(), checked::mul(rows, v.row_bytes_, "tensor bytes"));
    return v;
  }

  /// Planes of `spec` as format/integer_group.hpp lays them out. Throws Error{malformed} on a wrong size,
  /// Error{unsupported} for a spec that planes cannot hold.
  static QuantizedView from_planes(const QuantSpec& spec, Index rows, Index cols,
                                   std::span<const std::byte> codes, std::span<const std::byte> scales,
                                   std::span<const std::byte> offsets = {}, float tensor_scale = 1) {
    const PlaneLayout layout = plane_layout(spec, rows, cols);
    require_bytes("codes", codes.size(), layout.code_bytes);
    require_bytes("scales", scales.size(), layout.scale_bytes);
    require_bytes("offsets", offsets.size(), layout.offset_bytes);
    NIBBLE_EXPECTS(spec.tensor_scale || tensor_scale == 1, "a tensor scale is given, but the spec has none");
    QuantizedView v;
    v.spec_ = spec;
    v.rows_ = rows;
    v.cols_ = cols;
    v.row_bytes_ = layout.code_row_bytes;
    v.codes_ = codes.data();
    v.scales_ = bytes_of(scales);
    v.offsets_ = bytes_of(offsets);
    v.tensor_scale_ = tensor_scale;
    return v;
  }

  Index rows() const noexcept { return rows_; }
  Index cols() const noexcept { return cols_; }
  /// The block format, or nullptr when the matrix is integer groups.
  const FormatInfo* format() const noexcept { return format_; }
  /// The description of integer groups; meaningless when format() is set.
  const QuantSpec& spec() const noexcept { return spec_; }
  float tensor_scale() const noexcept { return tensor_scale_; }
  /// Plain numbers (f32, f16, bf16): decode only.
  bool dense() const noexcept { return format_ != nullptr && format_->dense; }
  /// "q4_0", or the spec's description.
  std::string type_name() const { return format_ != nullptr ? std::string(format_->name) : to_string(spec_); }

  /// Bytes of a row of blocks, or of packed codes.
  Index row_bytes() const noexcept { return row_bytes_; }
  const std::byte* row_data(Index row) const noexcept { return codes_ + row * row_bytes_; }
  /// All blocks, or all packed codes.
  std::span<const std::byte> data() const noexcept {
    return {codes_, static_cast<std::size_t>(rows_) * static_cast<std::size_t>(row_bytes_)};
  }
  /// Bytes of everything: blocks, or codes, scales and offsets.
  std::size_t bytes() const noexcept {
    std::size_t n = data().size();
    if (format_ != nullptr) return n;
    const auto groups = static_cast<std::size_t>(spec_.group_rows(rows_) * spec_.groups_per_row(cols_));
    return n + groups * (size_of(spec_.scale.dtype) + offset_size());
  }
  double bits_per_weight() const noexcept {
    const double weights = static_cast<double>(rows_) * static_cast<double>(cols_);
    return weights > 0 ? 8.0 * static_cast<double>(bytes()) / weights : 0.0;
  }

  /// Weights of a row that share a scale; the last group of a row may be shorter.
  Index group() const noexcept { return format_ != nullptr ? format_->sub_group : spec_.group_cols(cols_); }
  Index groups_per_row() const noexcept {
    return format_ != nullptr ? cols_ / format_->sub_group : spec_.groups_per_row(cols_);
  }
  int code_bits() const noexcept { return format_ != nullptr ? format_->code_bits : spec_.bits; }
  /// C[code]; not for dense formats.
  float code_value(std::uint8_t code) const noexcept {
    if (format_ == nullptr) return codebook_value(spec_, code);
    return static_cast<float>(format_->codebook != nullptr ? format_->codebook[code]
                                                           : static_cast<int>(code) - format_->zero);
  }

  /// Row `row` as floats [cols], bit-equal to the definition of what is stored. Throws
  /// Error{invalid_argument} on a row or length out of range.
  void decode_row(Index row, std::span<float> out) const {
    require_row(row);
    NIBBLE_EXPECTS(
        static_cast<Index>(out.size()) == cols_,
        "a row has " + std::to_string(cols_) + " weights, the output " + std::to_string(out.size()));
    if (format_ != nullptr) return format_->decode(row_data(row), out.data(), cols_ / format_->block_size);
    const auto* packed = reinterpret_cast<const std::uint8_t*>(row_data(row));
    const Index width = group(), groups = groups_per_row();
    for (Index g = 0; g < groups; ++g) {
      const GroupParameters p = parameters(row, g);
      const Index end = std::min(cols_, (g + 1) * width);
      for (Index k = g * width; k < end; ++k)
        out[static_cast<std::size_t>(k)] =
            p.scale * (codebook_value(spec_, read_code(packed, spec_.bits, k)) - p.zero) - p.min;
    }
  }

  /// The whole matrix [rows, cols], into any strided view.
  void decode(MatrixView<float> out) const {
    NIBBLE_EXPECTS(out.rows() == rows_ && out.cols() == cols_,
                   "decoding " + to_string(Extents<2>{rows_, cols_}) + " into " + to_string(out.extents()));
    if (out.stride(1) == 1 || cols_ <= 1) {
      for (Index r = 0; r < rows_; ++r) decode_row(r, out.row(r));
      return;
    }
    std::vector<float> row(static_cast<std::size_t>(cols_));
    for (Index r = 0; r < rows_; ++r) {
      decode_row(r, row);
      for (Index c = 0; c < cols_; ++c) out(r, c) = row[static_cast<std::size_t>(c)];
    }
  }

  /// Row `row` as codes, scales and minima; the generic entry for packing any affine tensor. Throws
  /// Error{invalid_argument} for dense formats and wrong lengths.
  void unpack_row(Index row, const AffineRow& out) const {
    require_row(row);
    const auto groups = static_cast<std::size_t>(groups_per_row());
    NIBBLE_EXPECTS(!dense(), "a " + type_name() + " tensor has no codes to unpack");
    NIBBLE_EXPECTS(
        static_cast<Index>(out.codes.size()) == cols_ && out.scales.size() == groups &&
            out.mins.size() == groups && (out.zeros.empty() || out.zeros.size() == groups),
        "unpack_row needs " + std::to_string(cols_) + " codes and " + std::to_string(groups) + " groups");
    if (format_ != nullptr) return unpack_blocks(row, out);
    const auto* packed = reinterpret_cast<const std::uint8_t*>(row_data(row));
    for (Index k = 0; k < cols_; ++k)
      out.codes[static_cast<std::size_t>(k)] = read_code(packed, spec_.bits, k);
    for (std::size_t g = 0; g < groups; ++g) {
      const GroupParameters p = parameters(row, static_cast<Index>(g));
      out.scales[g] = p.scale;
      out.mins[g] = out.zeros.empty() ? p.min + p.scale * p.zero : p.min;
      if (!out.zeros.empty()) out.zeros[g] = static_cast<std::uint8_t>(p.zero);
    }
  }

  /// Rows [begin, begin + count) of the same bytes. Throws Error{invalid_argument} out of range.
  QuantizedView slice_rows(Index begin, Index count) const {
    NIBBLE_EXPECTS(
        begin >= 0 && count >= 0 && begin <= rows_ - count,
        "rows [" + std::to_string(begin) + ", +" + std::to_string(count) + ") of " + std::to_string(rows_));
    QuantizedView v = *this;
    v.codes_ = codes_ + begin * row_bytes_;
    v.first_row_ = first_row_ + begin;
    v.rows_ = count;
    return v;
  }

 private:
  friend class QuantizedTensor;
  struct GroupParameters { float scale, zero, min; };

  static const std::uint8_t* bytes_of(std::span<const std::byte> s) noexcept {
    return reinterpret_cast<const std::uint8_t*>(s.data());
  }
  template <class N>
  static void require_bytes(const char* what, std::size_t have, N need) {
    if (have != static_cast<std::size_t>(need))
      throw Error(Errc::malformed, "a quantized matrix needs " + std::to_string(need) + " bytes of " + what +
                                       ", not " + std::to_string(have));
  }
  void require_row(Index row) const {
    NIBBLE_EXPECTS(row >= 0 && row < rows_, "row " + std::to_string(row) + " of " + std::to_string(rows_));
  }
  std::size_t offset_size() const noexcept {
    if (spec_.offset == OffsetKind::int_zero) return 1;
    return spec_.offset == OffsetKind::float_min ? size_of(spec_.offset_dtype) : 0;
  }
  /// Position of a group's parameters in their planes. Planes are not sliced, so it counts from row 0.
  std::size_t group_index(Index row, Index g) const noexcept {
    const Index r = first_row_ + row;
    const Index group_row = spec_.group.kind == GroupKind::tensor  ? 0
                            : spec_.group.kind == GroupKind::block ? r / spec_.group.rows
                                                                   : r;
    return static_cast<std::size_t>(group_row * spec_.groups_per_row(cols_) + g);
  }
  GroupParameters parameters(Index row, Index g) const noexcept {
    const std::size_t i = group_index(row, g);
    GroupParameters p{load_number(spec_.scale.dtype, scales_ + i * size_of(spec_.scale.dtype)), 0, 0};
    if (spec_.tensor_scale) p.scale *= tensor_scale_;
    if (spec_.offset == OffsetKind::int_zero) p.zero = static_cast<float>(offsets_[i]);
    if (spec_.offset == OffsetKind::float_min)
      p.min = load_number(spec_.offset_dtype, offsets_ + i * offset_size());
    return p;
  }
  void unpack_blocks(Index row, const AffineRow& out) const noexcept {
    const FormatInfo& f = *format_;
    const std::byte* block = row_data(row);
    const Index per_block = f.sub_groups();
    for (Index b = 0; b < cols_ / f.block_size; ++b, block += f.block_bytes)
      f.unpack(block, out.codes.data() + b * f.block_size, out.scales.data() + b * per_block,
               out.mins.data() + b * per_block);
    for (std::uint8_t& z : out.zeros) z = 0;
  }

  const FormatInfo* format_ = nullptr;
  const std::byte* codes_ = nullptr;      ///< blocks or packed codes of the first row of this view
  const std::uint8_t* scales_ = nullptr;  ///< whole planes
  const std::uint8_t* offsets_ = nullptr;
  Index rows_ = 0, cols_ = 0, row_bytes_ = 0, first_row_ = 0;
  float tensor_scale_ = 1;
  QuantSpec spec_{};
};

/// An owning quantized matrix, zero-initialized, from a caller's memory resource. Movable; `clone()` copies.
/// Different rows may be written from different threads.
class QuantizedTensor {
 public:
  QuantizedTensor() = default;
  QuantizedTensor(const FormatInfo& format, Index rows, Index cols, MemoryResource* memory = default_memory())
      : memory_(memory) {
    NIBBLE_EXPECTS(rows >= 0, "negative number of rows");
    allocate(static_cast<std::size_t>(checked::mul(rows, format.row_bytes(cols), "tensor bytes")));
    view_ = QuantizedView::from_blocks(format, rows, cols, {data_, bytes_});
  }
  QuantizedTensor(const QuantSpec& spec, Index rows, Index cols, MemoryResource* memory = default_memory())
      : memory_(memory), layout_(plane_layout(spec, rows, cols)) {
    allocate(layout_.total);
    view_ = QuantizedView::from_planes(spec, rows, cols, {data_, layout_.code_bytes},
                                       {data_ + layout_.scale_start, layout_.scale_bytes},
                                       {data_ + layout_.offset_start, layout_.offset_bytes});
  }
  QuantizedTensor(QuantizedTensor&& o) noexcept { swap(o); }
  QuantizedTensor& operator=(QuantizedTensor&& o) noexcept {
    QuantizedTensor(std::move(o)).swap(*this);
    return *this;
  }
  ~QuantizedTensor() { if (data_ != nullptr) memory_->deallocate(data_, bytes_, memory_alignment); }

  /// An owning copy of any view.
  static QuantizedTensor copy_of(const QuantizedView& v, MemoryResource* memory = default_memory()) {
    if (v.format() != nullptr) {
      QuantizedTensor t(*v.format(), v.rows(), v.cols(), memory);
      if (t.bytes_ > 0) std::memcpy(t.data_, v.data().data(), t.bytes_);
      return t;
    }
    QuantizedTensor t(v.spec(), v.rows(), v.cols(), memory);
    t.view_.tensor_scale_ = v.tensor_scale_;
    if (!v.data().empty()) std::memcpy(t.data_, v.data().data(), v.data().size());
    // A slice that starts inside a block-scaled tile keeps its phase; that is not expressible in own planes.
    NIBBLE_EXPECTS(v.spec().group.kind != GroupKind::block || v.first_row_ % v.spec().group.rows == 0,
                   "a copy of rows must start at a multiple of the block's " +
                       std::to_string(v.spec().group.rows) + " rows");
    if (t.layout_.total == 0) return t;
    const std::size_t first = v.group_index(0, 0);
    std::memcpy(t.scales(), v.scales_ + first * size_of(v.spec().scale.dtype), t.layout_.scale_bytes);
    if (t.layout_.offset_bytes > 0)
      std::memcpy(t.offsets(), v.offsets_ + first * v.offset_size(), t.layout_.offset_bytes);
    return t;
  }
  QuantizedTensor clone() const { return data_ == nullptr ? QuantizedTensor() : copy_of(view_, memory_); }

  const QuantizedView& view() const noexcept { return view_; }
  operator const QuantizedView&() const noexcept { return view_; }

  Index rows() const noexcept { return view_.rows(); }
  Index cols() const noexcept { return view_.cols(); }
  const FormatInfo* format() const noexcept { return view_.format(); }
  const QuantSpec& spec() const noexcept { return view_.spec(); }
  std::string type_name() const { return view_.type_name(); }
  std::size_t bytes() const noexcept { return view_.bytes(); }
  double bits_per_weight() const noexcept { return view_.bits_per_weight(); }
  void decode_row(Index row, std::span<float> out) const { view_.decode_row(row, out); }
  void decode(MatrixView<float> out) const { view_.decode(out); }
  void unpack_row(Index row, const AffineRow& out) const { view_.unpack_row(row, out); }
  QuantizedView slice_rows(Index begin, Index count) const { return view_.slice_rows(begin, count); }

  /// Writable blocks, or packed codes, of one row.
  std::span<std::byte> row_data(Index row) noexcept {
    return {data_ + row * view_.row_bytes(), static_cast<std::size_t>(view_.row_bytes())};
  }
  /// Writes codes [first_col, first_col + codes.size()) of a row of integer groups.
  void set_codes(Index row, Index first_col, std::span<const std::uint8_t> codes) noexcept {
    auto* packed = reinterpret_cast<std::uint8_t*>(row_data(row).data());
    for (std::size_t i = 0; i < codes.size(); ++i)
      write_code(packed, spec().bits, first_col + static_cast<Index>(i), codes[i]);
  }
  /// Stores the scale of the group that holds (row, g * group()); rounded to the spec's type, saturating.
  void set_scale(Index row, Index g, float scale) noexcept {
    store_number(spec().scale.dtype, scale,
                 scales() + view_.group_index(row, g) * size_of(spec().scale.dtype));
  }
  /// Stores the group's integer zero or minimum, whichever the spec has.
  void set_offset(Index row, Index g, float offset) noexcept {
    const std::size_t i = view_.group_index(row, g);
    if (spec().offset == OffsetKind::int_zero) offsets()[i] = static_cast<std::uint8_t>(offset);
    if (spec().offset == OffsetKind::float_min)
      store_number(spec().offset_dtype, offset, offsets() + i * size_of(spec().offset_dtype));
  }
  /// Needs a spec with a tensor scale.
  void set_tensor_scale(float scale) {
    NIBBLE_EXPECTS(spec().tensor_scale && format() == nullptr, "the spec has no tensor scale");
    view_.tensor_scale_ = scale;
  }

 private:
  void allocate(std::size_t bytes) {
    bytes_ = bytes;
    if (bytes == 0) return;
    data_ = static_cast<std::byte*>(memory_->allocate(bytes, memory_alignment));
    std::memset(data_, 0, bytes);
  }
  std::uint8_t* scales() noexcept { return reinterpret_cast<std::uint8_t*>(data_ + layout_.scale_start); }
  std::uint8_t* offsets() noexcept { return reinterpret_cast<std::uint8_t*>(data_ + layout_.offset_start); }
  void swap(QuantizedTensor& o) noexcept {
    std::swap(memory_, o.memory_);
    std::swap(data_, o.data_);
    std::swap(bytes_, o.bytes_);
    std::swap(layout_, o.layout_);
    std::swap(view_, o.view_);
  }

  MemoryResource* memory_ = default_memory();
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  PlaneLayout layout_{};
  QuantizedView view_{};
};

}  // namespace nibble
