// SPDX-License-Identifier: MIT
#include "ops/cpu/linear_input.hpp"

#include <algorithm>

namespace nibble::cpu_ops {

namespace {

/// Elements that every worker prepares for itself: some microseconds of work.
constexpr Index own_copy_elements = 4096;
constexpr Index block_elements = 8192;

/// One sum per group from two: the same numbers that quantize_row would give.
void join_sums(const cpu::QuantizedRows& two, const cpu::QuantizedRows& one, Index row) {
  for (Index g = row * one.chunks; g < (row + 1) * one.chunks; ++g) {
    one.sum[g] = two.sum[2 * g] + two.sum[2 * g + 1];
    one.scaled_sum[g] = one.scale[g] * static_cast<float>(one.sum[g]);
  }
}

}  // namespace

cpu::QuantizedRows take_quantized(Arena& arena, Index rows, Index cols, Index sets) {
  cpu::QuantizedRows q{};
  q.chunks = (cols + cpu::chunk_cols - 1) / cpu::chunk_cols;
  q.sets = sets;
  q.q = arena.take<std::int8_t>(rows * q.chunks * cpu::chunk_cols).data();
  q.scale = arena.take<float>(rows * q.chunks).data();
  q.sum = arena.take<std::int32_t>(rows * q.chunks * sets).data();
  q.scaled_sum = arena.take<float>(rows * q.chunks * sets).data();
  return q;
}

cpu::RoundedRows take_rounded(Arena& arena, Index rows, Index cols) {
  const Index chunks = (cols + cpu::chunk_cols - 1) / cpu::chunk_cols;
  const Index whole = (rows + cpu::rounded_rows - 1) / cpu::rounded_rows * cpu::rounded_rows;
  return {arena.take<std::uint16_t>(whole * chunks * cpu::chunk_cols).data(), chunks};
}

void apply_norm(const cpu::KernelTable& kernels, const FoldedNorm& norm, const float* x, float* y, Index cols) {
  if (norm.kind == FoldedNorm::Kind::rms) kernels.rms_norm(x, norm.weight.data(), y, cols, norm.eps);
  else kernels.layer_norm(x, norm.weight.data(), norm.bias.data(), y, cols, norm.eps);
}

void check_norm(const char* op, const FoldedNorm& norm, Index cols) {
  if (!norm.present()) return;
  require_length(op, "the norm's weight", norm.weight.size(), cols);
  require_rows(op, "the norm's weight", norm.weight);
  if (norm.kind != FoldedNorm::Kind::layer) return;
  require_length(op, "the norm's bias", norm.bias.size(), cols);
  require_rows(op, "the norm's bias", norm.bias);
}

LinearInput::LinearInput(Context& context, MatrixView<const float> x, const FoldedNorm& norm,
                         const InputNeeds& needs)
    : context_(context), x_(x), norm_(norm), needs_(needs), count_(x.rows()) {
  Arena& arena = context.arena();
  const Index cols = std::max<Index>(1, x.cols());
  if (!norm.present() && !needs.codes() && !needs.rounded) {  // x itself will do
    shared_.floats = x.data();
    shared_.stride = x.stride(0);
  } else if (count_ == 1 || count_ * cols <= own_copy_elements) {
    copies_ = arena.take<Copy>(context.concurrency());
    for (Copy& c : copies_) c = {take_rows(arena), false};
  } else {
    shared_ = take_rows(arena);
    block_rows_ = std::max<Index>(1, block_elements / cols);
    blocks_ = OnceBlocks(arena, (count_ + block_rows_ - 1) / block_rows_);
  }
}

LinearInput::LinearInput(Context& context, const cpu::QuantizedRows& rows, Index count, Index sets)
    : context_(context), count_(count) {
  shared_.quantized[static_cast<std::size_t>(sets - 1)] = rows;
}

LinearInput::LinearInput(Context& context, const cpu::RoundedRows& rows, Index count)
    : context_(context), count_(count) {
  needs_.rounded = true;
  shared_.rounded = rows;
}

InputRows LinearInput::take_rows(Arena& arena) const {
  InputRows r{};
  r.terms = needs_.refined ? 2 : 1;
  if (!norm_.present()) {
    r.floats = x_.data();
    r.stride = x_.stride(0);
  } else if (needs_.floats) {
    r.floats = arena.take<float>(count_ * x_.cols()).data();
    r.stride = x_.cols();
  }
  if (needs_.rounded) r.rounded = take_rounded(arena, count_, x_.cols());
  if (!needs_.codes()) return r;
  const Index rows = count_ * r.terms;
  auto& [one, two] = r.quantized;
  if (needs_.sums[1]) two = take_quantized(arena, rows, x_.cols(), 2);
  if (!needs_.sums[0]) return r;
  if (!needs_.sums[1]) {
    one = take_quantized(arena, rows, x_.cols(), 1);
    return r;
  }
  one = two;  // codes and scales are the same
  one.sets = 1;
  one.sum = arena.take<std::int32_t>(rows * one.chunks).data();
  one.scaled_sum = arena.take<float>(rows * one.chunks).data();
  return r;
}

void LinearInput::make_row(Index row, const InputRows& to, float* scratch) const {
  const cpu::KernelTable& kernels = context_.kernels();
  const Index cols = x_.cols();
  const float* in = x_.data() + row * x_.stride(0);
  if (norm_.present()) {
    float* normed = needs_.floats ? const_cast<float*>(to.floats) + row * to.stride : scratch;
    apply_norm(kernels, norm_, in, normed, cols);
    in = normed;
  }
  if (needs_.rounded) kernels.round_rows(in, cols, 1, cols, row, to.rounded);
  if (!needs_.codes()) return;
  const auto& [one, two] = to.quantized;
  const cpu::QuantizedRows& q = needs_.sums[1] ? two : one;
  const Index first = row * to.terms;
  kernels.quantize_row(in, cols, first, q);
  if (needs_.refined) {
    float* rest = scratch + cols;
    const std::int8_t* codes = q.q + first * q.chunks * cpu::chunk_cols;
    const float* scale = q.scale + first * q.chunks;
    for (Index c = 0; c < cols; ++c) rest[c] = in[c] - scale[c / cpu::chunk_cols] * float(codes[c]);
    kernels.quantize_row(rest, cols, first + 1, q);
  }
  if (needs_.sums[0] && needs_.sums[1])
    for (Index term = 0; term < to.terms; ++term) join_sums(two, one, first + term);
}

void LinearInput::make_rows(Index first, Index end, Index worker, const InputRows& to) const {
  Arena& arena = context_.worker_arena(worker);
  const ArenaScope own(arena);
  float* scratch = arena.take<float>(2 * x_.cols()).data();
  for (Index r = first; r < end; ++r) make_row(r, to, scratch);
}

const InputRows& LinearInput::ready(Index first, Index end, Index worker) {
  if (!copies_.empty()) {
    Copy& own = copies_[static_cast<std::size_t>(worker)];
    if (!own.made) make_rows(0, count_, worker, own.rows);
    own.made = true;
    return own.rows;
  }
  if (blocks_.size() > 0) {
    const Index begin = first / block_rows_, past = (end - 1) / block_rows_ + 1;
    blocks_.ensure(begin, past, worker * (past - begin) / context_.concurrency(), [&](Index block) {
      make_rows(block * block_rows_, std::min(count_, (block + 1) * block_rows_), worker, shared_);
    });
  }
  return shared_;
}

}  // namespace nibble::cpu_ops
