// SPDX-License-Identifier: MIT
// Builds one kernel table per instruction set level from kernels.def. A level counts as available when
// its unit is compiled in and the processor and the operating system support everything the unit's flags
// (cmake/isa.cmake) let the compiler use.
#include "cpu/dispatch.hpp"

#include <algorithm>
#include <array>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#include "nibble/core/error.hpp"

// A line of kernels.def counts only where its unit is compiled in.
#if defined(NIBBLE_HAVE_ISA_SCALAR)
#define NIBBLE_IF_scalar(...) __VA_ARGS__
#else
#define NIBBLE_IF_scalar(...)
#endif
#if defined(NIBBLE_HAVE_ISA_NEON_DOT)
#define NIBBLE_IF_neon_dot(...) __VA_ARGS__
#else
#define NIBBLE_IF_neon_dot(...)
#endif
#if defined(NIBBLE_HAVE_ISA_NEON_I8MM)
#define NIBBLE_IF_neon_i8mm(...) __VA_ARGS__
#else
#define NIBBLE_IF_neon_i8mm(...)
#endif
#if defined(NIBBLE_HAVE_ISA_AVX2)
#define NIBBLE_IF_avx2(...) __VA_ARGS__
#else
#define NIBBLE_IF_avx2(...)
#endif
#if defined(NIBBLE_HAVE_ISA_AVXVNNI)
#define NIBBLE_IF_avxvnni(...) __VA_ARGS__
#else
#define NIBBLE_IF_avxvnni(...)
#endif
#if defined(NIBBLE_HAVE_ISA_AVX512)
#define NIBBLE_IF_avx512(...) __VA_ARGS__
#else
#define NIBBLE_IF_avx512(...)
#endif
#if defined(NIBBLE_HAVE_ISA_AVX512VNNI)
#define NIBBLE_IF_avx512vnni(...) __VA_ARGS__
#else
#define NIBBLE_IF_avx512vnni(...)
#endif
#if defined(NIBBLE_HAVE_ISA_AMX)
#define NIBBLE_IF_amx(...) __VA_ARGS__
#else
#define NIBBLE_IF_amx(...)
#endif

namespace nibble::cpu {

namespace detail {
template <int Kernel>
struct Signature;
enum KernelName {
#define NIBBLE_NAME(name, signature) kernel_##name,
  NIBBLE_CPU_KERNELS(NIBBLE_NAME)
#undef NIBBLE_NAME
};
#define NIBBLE_TYPE(name, signature)               \
  template <>                                      \
  struct Signature<kernel_##name> {                \
    using Type = std::remove_pointer_t<signature>; \
  };
NIBBLE_CPU_KERNELS(NIBBLE_TYPE)
#undef NIBBLE_TYPE
}  // namespace detail

#define NIBBLE_CPU_KERNEL(isa, kernel) \
  NIBBLE_IF_##isa(namespace isa { extern detail::Signature<detail::kernel_##kernel>::Type kernel; })
#include "cpu/kernels.def"
#undef NIBBLE_CPU_KERNEL

namespace {

constexpr std::array isa_names{std::pair{Isa::scalar, std::string_view("scalar")},
                               std::pair{Isa::neon_dot, std::string_view("neon-dot")},
                               std::pair{Isa::neon_i8mm, std::string_view("neon-i8mm")},
                               std::pair{Isa::avx2, std::string_view("avx2")},
                               std::pair{Isa::avxvnni, std::string_view("avxvnni")},
                               std::pair{Isa::avx512, std::string_view("avx512")},
                               std::pair{Isa::avx512vnni, std::string_view("avx512vnni")},
                               std::pair{Isa::avx512fp16, std::string_view("avx512fp16")},
                               std::pair{Isa::amx, std::string_view("amx")}};

#if defined(__x86_64__)
bool has_f16c() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
/// The builtins also ask whether the operating system saves the wide registers.
bool has_avx2() noexcept {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && has_f16c();
}
bool has_avxvnni() noexcept {
#if defined(NIBBLE_EMULATES_AVXVNNI)
  return has_avx2();
#else
  unsigned a = 0, b = 0, c = 0, d = 0;
  return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & 1u << 4) != 0;
#endif
}
bool has_avx512() noexcept {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
bool has_avx512vnni() noexcept {
#if defined(NIBBLE_EMULATES_AVX512VNNI)
  return has_avx512();
#else
  return has_avx512() && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi") &&
         __builtin_cpu_supports("avx512vbmi2");
#endif
}
/// Linux saves tiles only for processes that asked for it; the answer holds for all threads, present and future. It
/// is no where a thread has a signal stack too small for them.
[[maybe_unused]] bool may_use_tiles() noexcept {
#if defined(__linux__) && defined(SYS_arch_prctl)
  constexpr int request_permission = 0x1023, tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}
bool has_amx() noexcept {
#if defined(NIBBLE_EMULATES_AMX)
  return has_avx512vnni();
#else
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned tiles = 1u << 22 | 1u << 24 | 1u << 25, bf16_vectors = 1u << 5;  // of BF16, at all, of INT8
  if (!has_avx512vnni() || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & tiles) != tiles) return false;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & bf16_vectors) != 0 && may_use_tiles();
#endif
}
#endif

#if defined(__aarch64__)
/// Linux tells programs what the processor has. Bits by number: the system's headers may be older than the processor.
bool has_neon_dot() noexcept {
#if defined(__linux__)
  constexpr unsigned long crc32 = 1ul << 7, atomics = 1ul << 8, rdm = 1ul << 12, dot = 1ul << 20;
  constexpr unsigned long all = crc32 | atomics | rdm | dot;
  return (getauxval(AT_HWCAP) & all) == all;
#else
  return false;
#endif
}
bool has_neon_i8mm() noexcept {
#if defined(__linux__)
  constexpr unsigned long i8mm = 1ul << 13;
  return has_neon_dot() && (getauxval(AT_HWCAP2) & i8mm) != 0;
#else
  return false;
#endif
}
#endif

bool machine_has(Isa isa) noexcept {
  switch (isa) {
    case Isa::scalar: return true;
#if defined(__x86_64__)
    case Isa::avx2: return has_avx2();
    case Isa::avx512: return has_avx512();
    case Isa::avxvnni: return has_avxvnni();
    case Isa::avx512vnni: return has_avx512vnni();
    case Isa::amx: return has_amx();
#elif defined(__aarch64__)
    case Isa::neon_dot: return has_neon_dot();
    case Isa::neon_i8mm: return has_neon_i8mm();
#endif
    default: return false;
  }
}

bool compiled_in(Isa isa) noexcept {
#define NIBBLE_CASE(name) NIBBLE_IF_##name(case Isa::name : return true;)
  switch (isa) {
    NIBBLE_CASE(scalar)
    NIBBLE_CASE(neon_dot)
    NIBBLE_CASE(neon_i8mm)
    NIBBLE_CASE(avx2)
    NIBBLE_CASE(avxvnni)
    NIBBLE_CASE(avx512)
    NIBBLE_CASE(avx512vnni)
    NIBBLE_CASE(amx)
    default: return false;
  }
#undef NIBBLE_CASE
}

bool usable(Isa isa) noexcept { return compiled_in(isa) && machine_has(isa); }

KernelTable best_up_to(Isa level) noexcept {
  KernelTable t;
#define NIBBLE_CPU_KERNEL(isa, kernel) \
  NIBBLE_IF_##isa(if (t.kernel == nullptr && Isa::isa <= level && usable(Isa::isa)) t.kernel = &isa::kernel;)
#include "cpu/kernels.def"
#undef NIBBLE_CPU_KERNEL
  return t;
}

/// Kernels that a level may lack; others do their work.
constexpr std::array<std::string_view, 10> optional{"dot_sparse",   "widen",       "dot_tile",    "round_rows",
                                                    "round_panel",  "round_halves", "round_bytes", "dot_rounded",
                                                    "softmax_rounded", "probe_tile"};

bool complete(const KernelTable& t) noexcept {
  bool all = true;
#define NIBBLE_CHECK(name, signature) all = all && (t.name != nullptr || std::ranges::count(optional, #name) > 0);
  NIBBLE_CPU_KERNELS(NIBBLE_CHECK)
#undef NIBBLE_CHECK
  return all;
}

struct Levels {
  std::array<KernelTable, isa_names.size()> tables{};
  std::array<bool, isa_names.size()> available{};
  Levels() noexcept {
    for (std::size_t i = 0; i < isa_names.size(); ++i) {
      if (!usable(isa_names[i].first)) continue;
      tables[i] = best_up_to(isa_names[i].first);
      available[i] = complete(tables[i]);
    }
  }
};

const Levels& levels() noexcept {
  static const Levels all;
  return all;
}

}  // namespace

const KernelTable& kernels_of(Isa level) {
  const auto i = static_cast<std::size_t>(level);
  if (i >= isa_names.size() || !levels().available[i])
    throw Error(Errc::unsupported, "instruction set " + std::string(to_string(level)) +
                                       (compiled_in(level) ? " is not supported by this processor"
                                                           : " is not part of this build"));
  return levels().tables[i];
}

std::string_view to_string(Isa isa) noexcept {
  for (const auto& [value, name] : isa_names)
    if (value == isa) return name;
  return "unknown";
}

std::optional<Isa> parse_isa(std::string_view name) noexcept {
  for (const auto& [value, text] : isa_names)
    if (text == name) return value;
  return std::nullopt;
}

std::vector<Isa> available_isas() {
  std::vector<Isa> found;
  for (std::size_t i = 0; i < isa_names.size(); ++i)
    if (levels().available[i]) found.push_back(isa_names[i].first);
  return found;
}

}  // namespace nibble::cpu
