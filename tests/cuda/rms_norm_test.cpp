// SPDX-License-Identifier: MIT
// RmsNorm through the operator API on the selected backend: the plan without a GPU, the kernel with one.
#include <cmath>
#include <type_traits>

#include "cuda/rms_norm_plan.hpp"
#include "nibble/backend/context.hpp"
#include "nibble/core/random.hpp"
#include "nibble/ops/norm.hpp"
#include "support/catch.hpp"

namespace nibble {
namespace {

static_assert(std::is_same_v<selected_backend, cuda::Backend>, "this test belongs to NIBBLE_BACKEND=cuda");

TEST_CASE("RmsNorm plan covers any shape", "[cuda]") {
  CHECK(cuda::plan_rms_norm(0, 64, true).blocks == 0);
  CHECK(cuda::plan_rms_norm(3, 0, true).blocks == 0);
  for (const Index cols : {1, 3, 4, 31, 32, 33, 576, 1000, 4096, 16384, 100003}) {
    for (const bool aligned : {false, true}) {
      const cuda::RmsNormPlan plan = cuda::plan_rms_norm(7, cols, aligned);
      CAPTURE(cols, aligned, plan.threads);
      CHECK(plan.blocks == 7);
      CHECK(plan.threads % 32 == 0);
      CHECK((plan.threads >= 32 && plan.threads <= 512));
      CHECK((!plan.vectorized || (aligned && cols >= 4)));
    }
  }
  CHECK(cuda::plan_rms_norm(Index{1} << 40, 8, true).blocks == 0x7fffffff);
  float row[4] = {};
  CHECK_FALSE(cuda::rows_aligned(&row[1], 4, 1));
}

TEST_CASE("RmsNorm on the GPU equals its reference", "[cuda]") {
  if (cuda::device_count() == 0) {
    CHECK_THROWS_AS(Context(0), Error);  // and says so instead of crashing
    WARN("skipped: this machine has no GPU");
    return;
  }
  Context context;
  Random random(20);  // seed
  const RmsNorm op{.eps = 1e-6f};
  for (const Index cols : {1, 3, 4, 31, 576, 1023, 4096, 20000}) {
    for (const Index rows : {1, 5}) {
      CAPTURE(rows, cols);
      Matrix<float> x({rows, cols}), expected({rows, cols});
      Vector<float> weight({cols});
      for (float& v : x.span()) v = static_cast<float>(random.normal());
      for (float& v : weight.span()) v = static_cast<float>(random.normal());
      RmsNorm::reference(op, x, weight, expected);

      const auto device_x = upload(context, x.view());
      const auto device_weight = upload(context, weight.view());
      Matrix<float, Device> device_y({rows, cols});
      run(context, op, device_x.view(), device_weight.view(), device_y.view());
      const Matrix<float> y = download(context, device_y);
      double worst = 0;
      for (Index i = 0; i < rows * cols; ++i) {
        worst = std::max(worst, std::abs(double(y.span()[static_cast<std::size_t>(i)]) -
                                         expected.span()[static_cast<std::size_t>(i)]));
      }
      CHECK(worst < 2e-5);  // a few FP32 roundings of values below about 20
    }
  }
}

}  // namespace
}  // namespace nibble
