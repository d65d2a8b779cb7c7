// SPDX-License-Identifier: MIT
#include "nibble/runtime/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include "nibble/core/error.hpp"
#include "nibble/core/random.hpp"
#include "nibble/runtime/logits.hpp"
#include "support/catch.hpp"

using namespace nibble;
using Catch::Matchers::Contains;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// How often each token is drawn in `n` draws of fixed logits.
std::vector<int> histogram(Sampler sampler, const std::vector<float>& logits, int n) {
  std::vector<int> counts(logits.size());
  for (int i = 0; i < n; ++i) ++counts[static_cast<std::size_t>(sampler(logits))];
  return counts;
}

/// Pearson's statistic against probabilities; tokens of probability 0 must not occur at all.
double chi_square(const std::vector<int>& counts, const std::vector<double>& p) {
  const double n = std::accumulate(counts.begin(), counts.end(), 0.0);
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (p[i] == 0) REQUIRE(counts[i] == 0);
    else sum += (counts[i] - n * p[i]) * (counts[i] - n * p[i]) / (n * p[i]);
  }
  return sum;
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature = 1) {
  std::vector<double> p;
  for (const float x : logits) p.push_back(std::exp(double(x) / temperature));
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= total;
  return p;
}

/// The naive definition of all filters: sort everything, in the documented order.
std::vector<Token> naive_filter(const std::vector<float>& logits, const SamplerOptions& o) {
  std::vector<Token> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](Token a, Token b) { return logits[std::size_t(a)] > logits[std::size_t(b)]; });
  if (o.top_k > 0 && std::size_t(o.top_k) < ids.size()) ids.resize(std::size_t(o.top_k));
  std::vector<float> kept;
  for (const Token t : ids) kept.push_back(logits[std::size_t(t)]);
  const std::vector<double> p = softmax(kept, o.temperature);
  std::size_t n = ids.size();
  if (o.top_p < 1) {
    double mass = 0;
    for (n = 0; n < ids.size() && mass < o.top_p; ++n) mass += p[n];
  }
  while (n > 1 && p[n - 1] < o.min_p * p[0]) --n;
  ids.resize(n);
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace

TEST_CASE("greedy takes the largest logit, ties go to the lowest id") {
  Sampler greedy({.temperature = 0});
  CHECK(greedy(std::vector<float>{0, 3, 1}) == 1);
  CHECK(greedy(std::vector<float>{2, 5, 5, 5}) == 1);
  CHECK(greedy(std::vector<float>{-inf, -7, -inf}) == 1);
  CHECK(greedy(std::vector<float>(1000, 0.5f)) == 0);
  CHECK(greedy(std::vector<float>{-0.0f, 0.0f}) == 0);
}

TEST_CASE("top_k of 0 and below switches the filter off") {
  // The published fault: 0 was taken as 1, and every draw gave the same token.
  const std::vector<float> uniform(8, 1.25f);
  for (const Index k : {Index{0}, Index{-1}, Index{-5}, Index{8}, Index{100}}) {
    const auto counts = histogram(Sampler({.top_k = k, .seed = 7}), uniform, 8000);
    CHECK(chi_square(counts, std::vector<double>(8, 0.125)) < 29.9);  // 7 degrees of freedom, p = 1e-4
  }
}

TEST_CASE("a draw follows the softmax of logits over temperature") {
  const std::vector<float> logits{1.0f, 0.0f, -1.0f, 2.0f, -inf};
  for (const double t : {0.5, 1.0, 2.0})
    CHECK(chi_square(histogram(Sampler({.temperature = t, .seed = 3}), logits, 20000), softmax(logits, t)) < 21.1);
}

TEST_CASE("extreme temperatures stay finite") {
  const std::vector<float> logits{-3.0f, 3.0f, 2.999f, -inf};
  CHECK(histogram(Sampler({.temperature = 1e-38}), logits, 100)[1] == 100);
  CHECK(histogram(Sampler({.temperature = 5e-324}), logits, 100)[1] == 100);
  CHECK(chi_square(histogram(Sampler({.temperature = 1e300}), logits, 9000), {1 / 3.0, 1 / 3.0, 1 / 3.0, 0}) < 18.5);
}

TEST_CASE("filters keep exactly the tokens of their definition") {
  Random random(11);
  for (int round = 0; round < 60; ++round) {
    std::vector<float> logits(1 + random.next() % 40);
    // Coarse values, so that ties at every filter's edge are frequent.
    for (float& x : logits) x = float(random.next() % 9) * 0.5f;
    SamplerOptions o{.seed = random.next()};
    if (random.next() % 2 != 0) o.top_k = Index(random.next() % 12);
    if (random.next() % 2 != 0) o.top_p = random.uniform(0.05, 1.0);
    if (random.next() % 2 != 0) o.min_p = random.uniform();
    if (random.next() % 2 != 0) o.temperature = random.uniform(0.3, 3);
    const auto counts = histogram(Sampler(o), logits, 4000);
    std::vector<Token> seen;
    for (std::size_t i = 0; i < counts.size(); ++i)
      if (counts[i] > 0) seen.push_back(Token(i));
    INFO("round " << round << ": top_k " << o.top_k << ", top_p " << o.top_p << ", min_p " << o.min_p);
    const std::vector<Token> expected = naive_filter(logits, o);
    // Every drawn token is allowed; every allowed token of some weight is drawn.
    CHECK(std::includes(expected.begin(), expected.end(), seen.begin(), seen.end()));
    std::vector<double> p(logits.size(), 0.0);
    double mass = 0;
    for (const Token t : expected) mass += p[std::size_t(t)] = std::exp(double(logits[std::size_t(t)]) / o.temperature);
    bool all_likely = true;
    for (double& x : p) { x /= mass; all_likely &= x == 0 || x * 4000 > 5; }
    if (all_likely) CHECK(chi_square(counts, p) < 100);
  }
}

TEST_CASE("edges of top-p and min-p") {
  const std::vector<float> logits{std::log(0.5f), std::log(0.25f), std::log(0.25f)};
  // The smallest set that reaches p: exactly p is enough; equal logits enter by id.
  CHECK(histogram(Sampler({.top_p = 0.74}), logits, 1000)[2] == 0);
  CHECK(histogram(Sampler({.top_p = 0.76}), logits, 1000)[2] > 0);
  CHECK(histogram(Sampler({.top_p = 1e-12}), logits, 1000)[0] == 1000);
  CHECK(histogram(Sampler({.min_p = 1}), logits, 1000)[0] == 1000);
  CHECK(histogram(Sampler({.min_p = 0.51}), logits, 1000)[0] == 1000);
  CHECK(histogram(Sampler({.min_p = 0.49}), logits, 1000)[2] > 0);
  CHECK(chi_square(histogram(Sampler({.min_p = 1, .seed = 5}), {2, 2, 1}, 4000), {0.5, 0.5, 0}) < 15.2);
}

TEST_CASE("large vocabularies: top-p reaches far into the tail") {
  // 200,000 equal tokens: no token has more than 5e-6, top-p 0.5 must keep the 100,000 lowest ids.
  const std::vector<float> flat(200000, -4.0f);
  Sampler half({.top_p = 0.5, .seed = 1});
  bool upper_quarter = false;
  for (int i = 0; i < 60; ++i) {
    const Token t = half(flat);
    CHECK(t < 100001);
    upper_quarter |= t >= 50000;
  }
  CHECK(upper_quarter);
  std::vector<float> steep(262144, -30.0f);
  steep[262143] = 0;
  CHECK(histogram(Sampler({.top_p = 0.9}), steep, 20)[262143] == 20);
}

TEST_CASE("repetition penalty: positive logits divided, negative multiplied, once per token") {
  SamplerOptions o{.temperature = 0, .repetition_penalty = 2};
  // logits [2, -2, 1] with 0 and 1 seen become [1, -4, 1]; a bias of 0.25 tells the two 1s apart.
  o.logit_bias = {{2, -0.25f}};
  Sampler s(o);
  for (int i = 0; i < 5; ++i) s.accept(0);
  s.accept(1);
  CHECK(s(std::vector<float>{2, -2, 1}) == 0);  // 1 against 0.75; twice penalized it were 0.5
  o.logit_bias = {{2, 0.25f}};
  Sampler s2(o);
  s2.accept(std::vector<Token>{0, 0, 0, 0, 0, 1});
  CHECK(s2(std::vector<float>{2, -2, 1}) == 2);
  // The negative side: -2 must become -4, below -3.9 and above -4.1.
  Sampler s3({.temperature = 0, .repetition_penalty = 2});
  s3.accept(1);
  CHECK(s3(std::vector<float>{-4.1f, -2}) == 1);
  CHECK(s3(std::vector<float>{-3.9f, -2}) == 0);
}

TEST_CASE("frequency counts, presence does not") {
  const std::vector<float> logits{2.0f, 1.0f};
  Sampler frequency({.temperature = 0, .frequency_penalty = 0.4});
  frequency.accept(0);
  CHECK(frequency(logits) == 0);  // 1.6
  frequency.accept(0);
  CHECK(frequency(logits) == 0);  // 1.2
  frequency.accept(0);
  CHECK(frequency(logits) == 1);  // 0.8
  Sampler presence({.temperature = 0, .presence_penalty = 0.4});
  presence.accept(std::vector<Token>(50, 0));
  CHECK(presence(logits) == 0);
  presence.clear_history();
  frequency.clear_history();
  CHECK(frequency(logits) == 0);
}

TEST_CASE("penalties see the last tokens of their window") {
  const std::vector<float> logits{2.0f, 1.0f, -9.0f};
  Sampler s({.temperature = 0, .presence_penalty = 5, .penalty_window = 2});
  s.accept(0);
  CHECK(s(logits) == 1);
  s.accept(2);
  CHECK(s(logits) == 1);
  s.accept(2);
  CHECK(s(logits) == 0);  // the 0 has left the window
  for (int i = 0; i < 1000; ++i) s.accept(Token(i % 3));
  s.accept(std::vector<Token>{0, 0});
  CHECK(s(logits) == 1);
  Sampler off({.temperature = 0, .presence_penalty = 5, .penalty_window = 0});
  off.accept(0);
  CHECK(off(logits) == 0);
  Sampler unknown({.temperature = 0, .presence_penalty = 5});
  unknown.accept(std::vector<Token>{77, -3});  // outside the vocabulary: nothing to penalize
  CHECK(unknown(logits) == 0);
}

TEST_CASE("a bias moves or forbids tokens") {
  CHECK(Sampler({.temperature = 0, .logit_bias = {{2, 5.0f}}})(std::vector<float>{1, 0, 0}) == 2);
  CHECK(Sampler({.temperature = 0, .logit_bias = {{0, -inf}}})(std::vector<float>{9, 1, 0}) == 1);
  CHECK(histogram(Sampler({.logit_bias = {{0, -inf}}}), {9, 1, 0}, 500)[0] == 0);
  Sampler all({.logit_bias = {{0, -inf}, {1, -inf}}});
  CHECK_THROWS_WITH(all(std::vector<float>{1, 2}), Contains("non-finite logits"));
  Sampler outside({.logit_bias = {{5, 1.0f}}});
  CHECK_THROWS_WITH(outside(std::vector<float>{1, 2}), Contains("token 5") && Contains("vocabulary of 2"));
}

TEST_CASE("draw n of a seed is a function of the seed and n, whatever happens beside it") {
  const std::vector<float> logits{0.3f, 0.1f, 0.7f, 0.2f, 0.9f, 0.0f};
  const auto run = [&](std::uint64_t seed, bool neighbours) {
    Sampler s({.seed = seed}), noisy({.top_k = 3, .seed = 99}), unseeded;
    std::vector<Token> tokens;
    for (int i = 0; i < 200; ++i) {
      if (neighbours) { noisy(logits); unseeded(logits); }
      tokens.push_back(s(logits));
      s.accept(tokens.back());
    }
    return tokens;
  };
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{42}, ~std::uint64_t{0}}) CHECK(run(seed, false) == run(seed, true));
  CHECK(run(1, false) != run(2, false));
  CHECK(run(0, false) != run(1, false));

  Sampler original({.seed = 4});
  for (int i = 0; i < 10; ++i) original(logits);
  Sampler copy = original;
  for (int i = 0; i < 50; ++i) CHECK(copy(logits) == original(logits));
}

TEST_CASE("logits that are not numbers are an error, never token 0") {
  for (const bool greedy : {true, false}) {
    for (const float bad : {not_a_number, inf}) {
      for (const std::size_t at : {std::size_t{0}, std::size_t{3}, std::size_t{7}}) {
        std::vector<float> logits(8, 1.0f);
        logits[at] = bad;
        Sampler s({.temperature = greedy ? 0.0 : 1.0});
        CHECK_THROWS_WITH(s(logits), Contains("non-finite logits") && Contains("token " + std::to_string(at)));
        Sampler biased({.logit_bias = {{Token(at), -inf}}});  // forbidding the token does not hide the fault
        CHECK_THROWS_WITH(biased(logits), Contains("non-finite logits"));
        CHECK_THROWS_AS(log_sum_exp(logits), Error);
      }
    }
    Sampler s({.temperature = greedy ? 0.0 : 1.0});
    CHECK_THROWS_WITH(s(std::vector<float>(8, not_a_number)), Contains("non-finite logits"));
    CHECK_THROWS_WITH(s(std::vector<float>(8, -inf)), Contains("non-finite logits"));
    CHECK_THROWS_AS(s(std::vector<float>{}), Error);
    // A neighbour is not affected, and neither is the sampler itself.
    CHECK(s(std::vector<float>{-inf, 1, -inf}) == 1);
  }
}

TEST_CASE("options out of range are refused when they are set, by name") {
  const double infinity = std::numeric_limits<double>::infinity(), no_number = std::nan("");
  const auto refused = [](const SamplerOptions& o, const std::string& name) {
    try {
      Sampler s(o);
      FAIL("accepted a wrong " << name);
    } catch (const Error& e) {
      CHECK(e.code() == Errc::invalid_argument);
      CHECK_THAT(e.what(), Contains(name));
    }
  };
  for (const double t : {-1.0, -1e-300, infinity, no_number}) refused({.temperature = t}, "temperature");
  for (const double p : {0.0, -0.5, 1.0001, infinity, no_number}) refused({.top_p = p}, "top_p");
  for (const double p : {-0.1, 1.1, infinity, no_number}) refused({.min_p = p}, "min_p");
  for (const double r : {0.0, -1.0, infinity, no_number}) refused({.repetition_penalty = r}, "repetition_penalty");
  for (const double f : {-infinity, infinity, no_number}) {
    refused({.frequency_penalty = f}, "frequency_penalty");
    refused({.presence_penalty = f}, "presence_penalty");
  }
  refused({.penalty_window = -2}, "penalty_window");
  refused({.logit_bias = {{-1, 1.0f}}}, "logit_bias of token -1");
  refused({.logit_bias = {{3, inf}}}, "logit_bias of token 3");
  refused({.logit_bias = {{3, not_a_number}}}, "logit_bias of token 3");
  CHECK_THROWS_WITH((SamplerOptions{.logit_bias = {{10, 1.0f}}}.validate(10)), Contains("vocabulary of 10"));
  CHECK_NOTHROW((SamplerOptions{.logit_bias = {{9, 1.0f}}}.validate(10)));
}

TEST_CASE("log_softmax and log_sum_exp") {
  CHECK(log_sum_exp(std::vector<float>{0, 0, 0, 0}) == Approx(std::log(4.0)).epsilon(1e-15));
  CHECK(log_sum_exp(std::vector<float>{3e38f, -3e38f}) == Approx(3e38).epsilon(1e-7));
  std::vector<double> out(3);
  log_softmax(std::vector<float>{1, -inf, 1}, out);
  CHECK(out[0] == Approx(-std::log(2.0)).epsilon(1e-15));
  CHECK(out[1] == -std::numeric_limits<double>::infinity());
  CHECK_THROWS_AS(log_softmax(std::vector<float>{1, 2}, out), Error);
}
