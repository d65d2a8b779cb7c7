// SPDX-License-Identifier: MIT
#include "nibble/eval/report.hpp"

#include <limits>

#include "nibble/core/error.hpp"
#include "support/catch.hpp"

using namespace nibble;

namespace {

Report sample() {
  Report r;
  r.add("perplexity", 23.125).add("tokens", 1020).add("name", "a \"b\"\n\\\x01|\xff").add("exact", true);
  r.add("nothing", ReportValue()).add("ids", ReportValue::List{1, 22, "x"});
  ReportTable& t = r.table("layers", {"layer", "what|it", "error"});
  t.add({0, "attn", 0.5}).add({10, "\xC3\xA4", 1e-7});
  return r;
}

}  // namespace

TEST_CASE("a report as JSON") {
  CHECK(sample().render(ReportFormat::json) ==
        "{\n"
        "  \"perplexity\": 23.125,\n"
        "  \"tokens\": 1020,\n"
        "  \"name\": \"a \\\"b\\\"\\n\\\\\\u0001|\xEF\xBF\xBD\",\n"
        "  \"exact\": true,\n"
        "  \"nothing\": null,\n"
        "  \"ids\": [1, 22, \"x\"],\n"
        "  \"layers\": [\n"
        "    {\"layer\": 0, \"what|it\": \"attn\", \"error\": 0.5},\n"
        "    {\"layer\": 10, \"what|it\": \"\xC3\xA4\", \"error\": 1e-07}\n"
        "  ]\n"
        "}\n");
  CHECK(Report().render(ReportFormat::json) == "{\n}\n");
}

TEST_CASE("a report as an aligned table") {
  CHECK(sample().render(ReportFormat::table) ==
        "perplexity  23.125\n"
        "tokens      1020\n"
        "name        a \"b\"\\n\\ |\xEF\xBF\xBD\n"
        "exact       yes\n"
        "nothing     -\n"
        "ids         [1, 22, x]\n"
        "\n"
        "layers\n"
        "  layer  what|it  error\n"
        "      0  attn       0.5\n"
        "     10  \xC3\xA4        1e-07\n");
}

TEST_CASE("a report as Markdown") {
  const std::string md = sample().render(ReportFormat::md);
  CHECK_THAT(md, Catch::Matchers::StartsWith("| key | value |\n|---|---|\n| perplexity | 23.125 |\n"));
  CHECK_THAT(md, Catch::Matchers::Contains("**layers**\n\n| layer | what\\|it | error |\n|---:|---|---:|\n| 0 | attn | 0.5 |\n"));
}

TEST_CASE("numbers read back exactly; what JSON cannot say is null") {
  CHECK(ReportValue(0.1).to_json() == "0.1");
  CHECK(ReportValue(1.0 / 3).to_json() == "0.3333333333333333");
  CHECK(ReportValue(std::numeric_limits<double>::quiet_NaN()).to_json() == "null");
  CHECK(ReportValue(std::numeric_limits<double>::infinity()).to_json() == "null");
  CHECK(ReportValue(std::numeric_limits<std::int64_t>::min()).to_json() == "-9223372036854775808");
  CHECK(ReportValue(1234567.0).to_text() == "1.23457e+06");
}

TEST_CASE("rows fit their columns, names of formats are exact") {
  Report r;
  CHECK_THROWS_AS(r.table("t", {"a", "b"}).add({1}), Error);
  CHECK(parse_report_format("json") == ReportFormat::json);
  CHECK_FALSE(parse_report_format("JSON"));
}
