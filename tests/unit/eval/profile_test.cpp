// SPDX-License-Identifier: MIT
#include "nibble/eval/profile.hpp"

#include <algorithm>

#include "support/catch.hpp"

using namespace nibble;

namespace {

const OpClassProfile& find(const std::vector<OpClassProfile>& classes, std::string_view op) {
  const auto found = std::find_if(classes.begin(), classes.end(), [&](const auto& c) { return c.op == op; });
  REQUIRE(found != classes.end());
  return *found;
}

}  // namespace

TEST_CASE("A profile sums spans per class and counts nested time once") {
  Profile profile;
  profile.record({"rms_norm", 0, 10, {80, 40}});
  profile.record({"linear", 10, 100, {1000, 2000, Arithmetic::int8}});
  profile.record({"swiglu", 110, 5, {12, 5}});
  profile.record({"geglu", 115, 5, {12, 10}});
  // The head, recorded last, holds a norm and a linear layer.
  profile.record({"rms_norm", 200, 10, {80, 40}});
  profile.record({"linear", 215, 300, {5000, 10000, Arithmetic::int8}});
  profile.record({"head", 200, 350, {}});
  profile.record({"linear", 550, 100, {1000, 2000, Arithmetic::float32}});

  const auto classes = profile.classes();
  REQUIRE(classes.size() == 4);
  CHECK(classes[0].op == "norm");
  CHECK(classes[0].calls == 2);
  CHECK(classes[0].seconds == Approx(20e-9));
  CHECK(find(classes, "linear").seconds == Approx(200e-9));
  CHECK(find(classes, "linear").integer_ops == 2000);
  CHECK(find(classes, "linear").float_ops == 2000);
  CHECK(find(classes, "linear").intensity() == Approx(2.0));
  CHECK(find(classes, "activation").ops() == 15);
  CHECK(find(classes, "head").seconds == Approx(340e-9));  // 350 - its norm
  CHECK(find(classes, "head").bytes == 5000);
  double all = 0;
  for (const OpClassProfile& c : classes) all += c.seconds;
  CHECK(all == Approx(570e-9));
  profile.clear();
  CHECK(profile.classes().empty());
}

TEST_CASE("The bound of a class is the slower of its operations and its bytes") {
  const RooflineRates rates{.integer_ops = 100, .bfloat_ops = 400, .float_ops = 10, .memory_bytes = 20, .cache_bytes = 200};
  const auto bound = [&](std::string_view op, double bytes, double integer, double floats) {
    return bound_of({.op = op, .bytes = bytes, .integer_ops = integer, .float_ops = floats}, rates);
  };
  CHECK(bound("linear", 40, 100, 0).bound == Bound::memory);
  CHECK(bound("linear", 40, 100, 0).seconds == Approx(2.0));
  CHECK(bound("linear", 40, 300, 0).bound == Bound::integer_ops);
  CHECK(bound("linear", 40, 300, 10).seconds == Approx(4.0));
  CHECK(bound("attention", 40, 0, 30).bound == Bound::float_ops);
  CHECK(bound_of({.op = "linear", .bytes = 40, .bfloat_ops = 2000}, rates).bound == Bound::bfloat_ops);
  CHECK(bound_of({.op = "linear", .bytes = 40, .bfloat_ops = 2000, .float_ops = 60}, rates).bound == Bound::float_ops);
  CHECK(bound_of({.op = "linear", .bytes = 40, .bfloat_ops = 2000, .float_ops = 60}, rates).seconds == Approx(11.0));
  CHECK(bound("norm", 400, 0, 10).bound == Bound::cache);
  CHECK(bound("norm", 400, 0, 10).seconds == Approx(2.0));
  CHECK(bound("other", 0, 0, 0).bound == Bound::none);
  CHECK(to_string(Bound::integer_ops) == "integer");
  CHECK(to_string(Bound::cache) == "cache");
  CHECK(to_string(Bound::none) == "-");
}
