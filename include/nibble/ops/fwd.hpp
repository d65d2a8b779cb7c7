// SPDX-License-Identifier: MIT
// Names of the shipped op descriptors, so that kernel lists can speak of them before they are defined.
#pragma once

namespace nibble {
namespace epilogue {
struct None;
struct Bias;
struct Add;
struct Normed;
}  // namespace epilogue

struct RmsNorm;
struct LayerNorm;
template <class Epilogue>
struct Linear;
struct LinearGroup;
struct GatedLinear;
struct FeedForward;
struct Rope;
struct Softmax;
struct SwiGlu;
struct GeGlu;
struct Gelu;
struct Add;
struct SoftCapLogits;
struct Embedding;
struct Attention;
struct AppendKv;
struct CachedAttention;
struct RotateKeys;
}  // namespace nibble
