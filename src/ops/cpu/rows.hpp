// SPDX-License-Identifier: MIT
// What the CPU ops share: extents checked with messages that name op and numbers, and loops over rows.
#pragma once

#include <string>

#include "cpu/dispatch.hpp"
#include "nibble/backend/cpu.hpp"
#include "nibble/core/contract.hpp"
#include "nibble/core/parallel.hpp"
#include "nibble/core/trace.hpp"
#include "nibble/core/view.hpp"

namespace nibble::cpu_ops {

using Context = ExecutionContext<cpu::Backend>;

/// Elements that are worth a task of their own: about 10 us of element-wise work.
inline constexpr Index elements_per_task = 32768;

template <std::size_t R>
void require_same(const char* op, const char* what, const Extents<R>& a, const Extents<R>& b) {
  NIBBLE_EXPECTS(a == b,
                 std::string(op) + ": " + what + " " + to_string(a) + " does not match " + to_string(b));
}
inline void require_length(const char* op, const char* what, Index length, Index expected) {
  NIBBLE_EXPECTS(length == expected, std::string(op) + ": " + what + " has " + std::to_string(length) +
                                         " elements, expected " + std::to_string(expected));
}
/// Kernels read rows as contiguous memory.
template <class View>
void require_rows(const char* op, const char* what, const View& v) {
  constexpr std::size_t last = View::rank - 1;
  NIBBLE_EXPECTS(v.extent(last) <= 1 || v.stride(last) == 1,
                 std::string(op) + ": the last dimension of " + what + " must be contiguous, its stride is " +
                     std::to_string(v.stride(last)));
}

/// The work of an element-wise op: `arrays` arrays of `elements` floats read or written.
inline TraceWork element_work(Index elements, Index arrays, Index ops_per_element) noexcept {
  return {elements * arrays * static_cast<Index>(sizeof(float)), elements * ops_per_element};
}

/// Calls body(row) for every row; rows are spread over the executor when there is work for it.
template <class Body>
void for_rows(Context& context, Index rows, Index cols, Body&& body) {
  const Index grain = std::max<Index>(1, elements_per_task / std::max<Index>(cols, 1));
  parallel_for(context.executor(), rows, grain, [&](Index begin, Index end, Index) {
    for (Index r = begin; r < end; ++r) body(r);
  });
}

}  // namespace nibble::cpu_ops
