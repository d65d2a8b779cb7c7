// SPDX-License-Identifier: MIT
// Every golden case against jinja2 in transformers' environment: the same bytes, or an error in both.
#include <fstream>
#include <map>
#include <sstream>

#include "nibble/text/chat_template.hpp"
#include "support/catch.hpp"
#include "support/mini_json.hpp"

namespace {

using nibble::ChatTemplate;
using nibble::Value;

const Value& golden() {
  static const Value doc = [] {
    std::ifstream file(NIBBLE_GOLDEN_DIR "/chat_templates.json", std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return nibble::test::MiniJson::parse(text.str());
  }();
  return doc;
}

std::tm golden_time() {
  const Value::List& parts = *golden().find("now")->as_list();
  const auto part = [&](std::size_t i) { return static_cast<int>(*parts[i].as_integer()); };
  std::tm time{};
  time.tm_year = part(0) - 1900;
  time.tm_mon = part(1) - 1;
  time.tm_mday = part(2);
  time.tm_hour = part(3);
  time.tm_min = part(4);
  time.tm_sec = part(5);
  time.tm_wday = 6;  // 6 July 2024 was a Saturday
  time.tm_yday = 187;
  return time;
}

std::string source_of(const Value& which) {
  if (const std::string* text = which.as_string()) return *text;
  return *golden().find("templates")->find(*which.find("shared")->as_string())->as_string();
}

// The rendering, or the error.
nibble::Result<std::string> render(const std::string& source, const Value& context) {
  return nibble::try_invoke([&] { return ChatTemplate(source).render(context, golden_time()); });
}

}  // namespace

TEST_CASE("templates render as jinja2 renders them", "[text][jinja]") {
  int outputs = 0, errors = 0;
  for (const Value& c : *golden().find("cases")->as_list()) {
    const std::string source = source_of(*c.find("template"));
    const std::string context = *c.find("context")->as_string();
    const auto result = render(source, *golden().find("contexts")->find(context));
    INFO("template: " << source << "\ncontext: " << context);
    if (const Value* output = c.find("output")) {
      ++outputs;
      if (!result.has_value()) {
        INFO("error: " << result.error().what());
        CHECK(result.has_value());
      } else {
        CHECK(*result == *output->as_string());
      }
    } else {
      ++errors;
      INFO("jinja2: " << *c.find("error")->as_string());
      CHECK(!result.has_value());
      if (!result.has_value()) CHECK(std::string(result.error().what()).find("chat template: line ") == 0);
    }
  }
  CHECK(outputs >= 200);
  CHECK(errors >= 150);
}
