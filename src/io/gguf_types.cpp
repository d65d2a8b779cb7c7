// SPDX-License-Identifier: MIT
// Tables of GGUF type ids. Sizes are those of the file format; see docs for the bit layouts.
#include "nibble/io/gguf_types.hpp"

#include <algorithm>
#include <array>

namespace nibble {
namespace {

constexpr std::array<GgufTypeInfo, 35> types{{
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},      {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},      {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 36},
    {10, "Q2_K", 256, 84},    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},   {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},
    {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},   {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},
    {40, "NVFP4", 64, 36},    {41, "Q1_0", 128, 18},    {42, "Q2_0", 64, 18},
}};

constexpr char upper(char c) noexcept { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

}  // namespace

const GgufTypeInfo* find_gguf_type(std::uint32_t id) noexcept {
  const auto it = std::ranges::find_if(types, [&](const GgufTypeInfo& t) { return t.id == id; });
  return it == types.end() ? nullptr : &*it;
}

const GgufTypeInfo* find_gguf_type(std::string_view name) noexcept {
  const auto same = [&](const GgufTypeInfo& t) { return std::ranges::equal(t.name, name, {}, upper, upper); };
  const auto it = std::ranges::find_if(types, same);
  return it == types.end() ? nullptr : &*it;
}

std::string_view retired_gguf_type(std::uint32_t id) noexcept {
  switch (id) {
    case 4: return "Q4_2";
    case 5: return "Q4_3";
    case 31: return "Q4_0_4_4";
    case 32: return "Q4_0_4_8";
    case 33: return "Q4_0_8_8";
    case 36: return "IQ4_NL_4_4";
    case 37: return "IQ4_NL_4_8";
    case 38: return "IQ4_NL_8_8";
    default: return {};
  }
}

std::string_view to_string(MetadataType type) noexcept {
  constexpr std::array<std::string_view, 13> names{"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                   "bool", "string", "array", "u64", "i64", "f64"};
  const auto i = static_cast<std::size_t>(type);
  return i < names.size() ? names[i] : std::string_view("unknown");
}

}  // namespace nibble
