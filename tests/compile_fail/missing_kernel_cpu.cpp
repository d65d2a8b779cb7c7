// SPDX-License-Identifier: MIT
// An op that the CPU has no kernel for, without saying that the slow reference is welcome.
// expect: this backend has no kernel for this op
// expect: nibble::allow_reference
// refuse: these arguments do not match
#include "nibble/backend/cpu.hpp"
#include "nibble/core/tensor.hpp"
#include "nibble/ops/op.hpp"

using namespace nibble;

struct Halve {
  template <class B>
  using Signature = void(MatrixView<float, typename B::Space>);
  static void reference(const Halve&, MatrixView<float> x) { x(0, 0) /= 2; }
};

void wrong(ExecutionContext<cpu::Backend>& context) {
  Matrix<float> x({2, 8});
  run(context, Halve{}, x);
}
