// SPDX-License-Identifier: MIT
// A shared library with its own hidden copy of nibble: it works, and its errors stay inside.
#include <nibble/nibble.hpp>

extern "C" __attribute__((visibility("default"))) int PLUGIN_ENTRY() {
  using namespace nibble;
  try {
    ExecutionContext<cpu::Backend> context(ContextOptions{.threads = 2});
    Matrix<float> x({2, 8}), y({2, 8});
    Vector<float> weight({7});  // does not fit
    run(context, RmsNorm{}, x, weight, y);
  } catch (const Error& error) {
    return error.code() == Errc::invalid_argument ? 0 : 1;
  }
  return 2;
}
