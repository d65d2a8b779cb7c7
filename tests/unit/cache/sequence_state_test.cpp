// SPDX-License-Identifier: MIT
#include "nibble/cache/sequence_state.hpp"

#include <cmath>
#include <cstring>
#include <vector>

#include "nibble/backend/cpu.hpp"
#include "nibble/core/random.hpp"
#include "nibble/ops/attention/attention.hpp"
#include "support/catch.hpp"

using namespace nibble;

namespace {

constexpr Index heads = 2, dim = 16;

std::vector<LayerState> two_layers(DType dtype) {
  return {{{dtype, heads, dim, dim}, 0}, {{dtype, heads, dim, dim}, 8}};
}

float key_at(const KvView& kv, Index token, Index head, Index d) {
  const Index t = token % kv_page_tokens, at = ((head * 16 + t / 16) * dim + d) * 16 + t % 16;  // as documented
  const std::byte* page = kv.key_pages[std::size_t(token / kv_page_tokens)];
  if (kv.shape.dtype == DType::i8) {
    float scale;
    std::memcpy(&scale, page + heads * kv_page_tokens * dim + (head * kv_page_tokens + t) * 4, 4);
    return scale * float(reinterpret_cast<const std::int8_t*>(page)[at]);
  }
  return kv.shape.dtype == DType::f32 ? reinterpret_cast<const float*>(page)[at]
                                      : float(reinterpret_cast<const half*>(page)[at]);
}

/// What a cache of `dtype` keeps of a value, in a head whose largest is `max`.
float stored(DType dtype, float v, float max) {
  if (dtype == DType::i8) return max / 127.0f * std::nearbyint(v * (127.0f / max));
  return dtype == DType::f32 ? v : float(half(v));
}

/// Appends `count` tokens whose keys and values are pure functions of (token, head, d).
void fill(ExecutionContext<cpu::Backend>& ctx, SequenceState& state, Index count) {
  state.reserve(count);
  std::vector<float> rows(std::size_t(count * heads * dim));
  std::vector<Index> positions;
  for (Index t = 0; t < count; ++t) {
    positions.push_back(state.tokens() + t);
    for (Index i = 0; i < heads * dim; ++i)
      rows[std::size_t(t * heads * dim + i)] = float(state.tokens() + t) + float(i) / 64.0f;
  }
  const TensorView<const float, 3> x(rows.data(), {count, heads, dim});
  for (Index l = 0; l < state.layers(); ++l) run(ctx, AppendKv{}, x, x, positions, state.view(l, count));
  state.advance(count);
}

}  // namespace

TEST_CASE("a sequence state grows over pages, truncates, forks and refuses what does not fit") {
  ExecutionContext<cpu::Backend> ctx({.threads = 1});
  for (DType dtype : {DType::f32, DType::f16, DType::i8}) {
    SequenceState state(two_layers(dtype), 600, default_memory());
    fill(ctx, state, 255);
    fill(ctx, state, 2);
    fill(ctx, state, 300);
    CHECK(state.tokens() == 557);
    for (Index t : {0, 254, 255, 256, 257, 511, 512, 556})
      CHECK(key_at(state.view(1, 0), t, 1, 3) ==
            stored(dtype, float(t) + float(dim + 3) / 64.0f, float(t) + float(2 * dim - 1) / 64.0f));

    CHECK_THROWS_AS(state.reserve(44), Error);
    CHECK_NOTHROW(state.reserve(43));
    CHECK_THROWS_AS(state.truncate(558), Error);
    CHECK_THROWS_AS(state.advance(-1), Error);
    CHECK_THROWS_AS(state.view(2, 0), Error);

    SequenceState copy = state.fork();
    copy.truncate(100);
    fill(ctx, copy, 1);
    CHECK(copy.tokens() == 101);
    CHECK(state.tokens() == 557);
    CHECK(key_at(state.view(0, 0), 300, 0, 0) == stored(dtype, 300.0f, 300.0f + float(dim - 1) / 64.0f));
  }
  CHECK_THROWS_AS(SequenceState(two_layers(DType::f16), 0, default_memory()), Error);
  CHECK_THROWS_AS(SequenceState(two_layers(DType::i32), 8, default_memory()), Error);
}

TEST_CASE("erasing positions closes the gap across pages") {
  ExecutionContext<cpu::Backend> ctx({.threads = 1});
  for (DType dtype : {DType::f32, DType::f16, DType::i8}) {
    SequenceState state(two_layers(dtype), 1024, default_memory());
    fill(ctx, state, 700);
    state.erase(10, 300);
    REQUIRE(state.tokens() == 400);
    for (Index t = 0; t < 400; ++t) {
      const float was = float(t < 10 ? t : t + 300), max = was + float(2 * dim - 1) / 64.0f;
      REQUIRE(key_at(state.view(0, 0), t, 1, 0) == stored(dtype, was + float(dim) / 64.0f, max));
    }
    state.erase(400, 0);
    CHECK_THROWS_AS(state.erase(399, 2), Error);
  }
}

TEST_CASE("shifts of cached keys add up, in any order and number") {
  // Two shifts before the next step must not overwrite each other, and a shift that frees nothing still counts.
  ExecutionContext<cpu::Backend> ctx({.threads = 2});
  std::vector<float> frequencies;
  for (Index i = 0; i < dim / 2; ++i) frequencies.push_back(float(std::pow(10000.0, -2.0 * double(i) / dim)));
  for (DType dtype : {DType::f32, DType::f16, DType::i8}) {
    for (auto pairs : {Rope::Pairs::halves, Rope::Pairs::neighbours}) {
      const Rope rope{pairs, frequencies};
      const auto filled = [&](Index offset) {  // keys of positions offset, offset + 1, ... stored from slot 0 on
        SequenceState s(two_layers(dtype), 64, default_memory());
        s.reserve(64);
        Random random(7);
        std::vector<float> rows(64 * heads * dim);
        for (float& v : rows) v = float(random.normal());
        const TensorView<float, 3> x(rows.data(), {64, heads, dim});
        std::vector<Index> at, slots;
        for (Index t = 0; t < 64; ++t) at.push_back(t + offset), slots.push_back(t);
        Rope::reference(rope, at, x);
        AppendKv::reference({}, x, x, slots, s.view(0, 64));
        s.advance(64);
        return s;
      };
      const auto shifted = [&](std::initializer_list<Index> deltas) {
        SequenceState s = filled(0);
        for (Index d : deltas) run(ctx, RotateKeys{rope, 0, 64, d}, s.view(0, 0));
        return s;
      };
      const SequenceState expected = filled(5);
      for (const auto& deltas : {std::initializer_list<Index>{5}, {8, -3}, {-3, 8}, {0, 5}, {1, 1, 1, 1, 1}}) {
        const SequenceState s = shifted(deltas);
        double error = 0, norm = 0;
        for (Index t = 0; t < 64; ++t)
          for (Index h = 0; h < heads; ++h)
            for (Index d = 0; d < dim; ++d) {
              const double want = key_at(expected.view(0, 0), t, h, d), got = key_at(s.view(0, 0), t, h, d);
              error += (got - want) * (got - want);
              norm += want * want;
            }
        // One rounding per shift, six in all at most. To half: 2^-11 relative. To INT8: half a step of max / 127 at
        // most, where the largest of 16 normal values is below 4 deviations. Floats are far below.
        const double bound = dtype == DType::f16 ? 6 * 0x1p-11 : dtype == DType::i8 ? 6 * 2.0 / 127 : 1e-5;
        CHECK(std::sqrt(error / norm) <= bound);
      }
    }
  }
}
