// SPDX-License-Identifier: MIT
// An application: the version of headers and library agree, an op runs on two threads, an error arrives.
#include <nibble/nibble.hpp>

#include <cstdio>
#include <cstring>

/// Every kernel of the list must link from outside the library: a shared one exports what it is told to only.
int kernels_that_link() {
  using namespace nibble;
  int count = 0;
#define NIBBLE_KERNEL(...) \
  if (auto* volatile kernel = &Kernel<__VA_ARGS__, cpu::Backend>::run) count += kernel != nullptr;
#include <nibble/ops/cpu_kernels.def>
#undef NIBBLE_KERNEL
  return count;
}

int main() {
  using namespace nibble;
  if (kernels_that_link() < 15) return 5;
  std::printf("%s\n", build_info().c_str());
  if (version() != NIBBLE_VERSION_STRING) return 1;

  ExecutionContext<cpu::Backend> context(ContextOptions{.threads = 2});
  Matrix<float> x({4, 64}), y({4, 64});
  Vector<float> weight({64});
  for (float& v : x.span()) v = 3.0f;
  for (float& v : weight.span()) v = 2.0f;
  run(context, RmsNorm{.eps = 0.0f}, x, weight, y);
  if (y(3, 63) < 1.999f || y(3, 63) > 2.001f) return 2;

  const auto missing = Model::try_load(context, "no such file.gguf");
  if (missing.has_value()) return 3;
  std::printf("as expected: %s\n", missing.error().what());
  return std::strstr(missing.error().what(), "no such file.gguf") != nullptr ? 0 : 4;
}
