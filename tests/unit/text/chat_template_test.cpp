// SPDX-License-Identifier: MIT
// The public class: conversations, the variables they become, errors with their lines, limits, threads,
// and the templates inside real model files.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "nibble/io/gguf.hpp"
#include "nibble/text/chat_template.hpp"
#include "support/catch.hpp"
#include "support/mini_json.hpp"

using namespace nibble;
using Catch::Matchers::Contains;

namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string render(const std::string& source, const Value& context = {},
                   const ChatTemplateLimits& limits = {}) {
  return ChatTemplate(source, limits).render(context);
}

// The error of parsing and rendering `source`; a value fails the test.
Error error_of(const std::string& source, const Value& context = {}, const ChatTemplateLimits& limits = {}) {
  const auto result = try_invoke([&] { return render(source, context, limits); });
  INFO("template: " << source.substr(0, 200));
  REQUIRE(!result.has_value());
  return result.error();
}

void check_error(const std::string& source, Errc code, const std::string& part) {
  const Error error = error_of(source);
  INFO("template: " << source.substr(0, 200));
  CHECK(std::string(to_string(error.code())) == to_string(code));
  CHECK_THAT(error.what(), Contains(part));
}

std::string repeated(const std::string& text, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += text;
  return out;
}

}  // namespace

TEST_CASE("a conversation becomes the model's prompt", "[text][chat_template]") {
  const ChatTemplate smollm2(read_file(NIBBLE_GOLDEN_DIR "/smollm2_chat_template.jinja"));
  const std::vector<ChatMessage> messages = {
      {"user", "Hi"}, {"assistant", "Hello!"}, {"user", "Who are you?"}};
  const std::string start =
      "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
      "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello!<|im_end|>\n"
      "<|im_start|>user\nWho are you?<|im_end|>\n";
  CHECK(smollm2.render(messages) == start + "<|im_start|>assistant\n");
  ChatRenderOptions options;
  options.add_generation_prompt = false;
  CHECK(smollm2.render(messages, options) == start);
  const std::vector<ChatMessage> system = {{"system", "Be brief."}};
  CHECK(smollm2.render(system, options) == "<|im_start|>system\nBe brief.<|im_end|>\n");
  CHECK(smollm2.render(std::span<const ChatMessage>{}, options).empty());
}

TEST_CASE("options and extra members reach the template", "[text][chat_template]") {
  const ChatTemplate t(
      "{{ bos_token }}{{ messages[0].name }}{{ messages[0].tool_calls|tojson }}{{ tools }}{{ documents }}"
      "{{ flag }}{{ eos_token }}{{ strftime_now('%d %b %Y') }}");
  ChatMessage message{"user", "x"};
  message.extra.set("name", "ann");
  message.extra.set("tool_calls", Value::list({Value::map({{"id", 1}})}));
  ChatRenderOptions options;
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  options.variables.set("flag", true);
  std::tm time{};
  time.tm_mday = 5;
  time.tm_year = 125;
  options.now = time;
  CHECK(t.render(std::span(&message, 1), options) == "<s>ann[{\"id\": 1}]NoneNoneTrue</s>05 Jan 2025");

  // Content may be a list of parts instead of text.
  message.extra.set("content", Value::list({Value::map({{"text", "part"}})}));
  CHECK(ChatTemplate("{{ messages[0].content[0].text }}").render(std::span(&message, 1)) == "part");

  options.variables = 5;
  CHECK_THROWS_AS(t.render(std::span(&message, 1), options), Error);
  message.extra = "x";
  CHECK_THROWS_AS(t.render(std::span(&message, 1)), Error);
  CHECK_THROWS_AS(t.render(Value(5)), Error);
}

TEST_CASE("without a given time strftime_now reads the clock", "[text][chat_template]") {
  const std::string year = render("{{ strftime_now('%Y') }}");
  CHECK(year.size() == 4);
  CHECK(year >= "2024");
}

TEST_CASE("a template that splits off the reasoning is accepted", "[text][chat_template][public]") {
  CHECK(render("{{ content.split('</think>')[-1].lstrip('\\n') }}",
               Value::map({{"content", "<think>x</think>\n\nyes"}})) == "yes");
}

TEST_CASE("raise_exception gives its message and no prompt", "[text][chat_template][public]") {
  const ChatTemplate t(read_file(NIBBLE_GOLDEN_DIR "/alternating_turns.jinja"));
  const std::vector<ChatMessage> messages = {{"user", "a"}, {"user", "b"}};
  const auto result = try_invoke([&] { return t.render(messages); });
  REQUIRE(!result.has_value());
  CHECK(result.error().code() == Errc::invalid_argument);
  CHECK(std::string(result.error().what()) ==
        "chat template: line 19: Roles must alternate user/assistant/user/assistant/...");
}

TEST_CASE("syntax errors name their line", "[text][chat_template]") {
  check_error("a\nb\n{% if x %}\n", Errc::malformed,
              "line 3: the template ends inside a block: expected 'endif'");
  check_error("{{ 1 +\n\n }}", Errc::malformed, "line 3: expected an expression, got '}}'");
  check_error("\r\n\r{{ 'a }}", Errc::malformed, "line 3: a string that does not end");
  check_error("\n{# ", Errc::malformed, "line 2: Missing end of comment");
  check_error("\n{% raw %}\n", Errc::malformed, "line 2: Missing end of raw");
  check_error("{{ a ? b }}", Errc::malformed, "unexpected character '?'");
  check_error("{{ a \xF0\x9F\xA6\x99 }}", Errc::malformed, "unexpected character '\xF0\x9F\xA6\x99'");
  check_error("{% for x in y %}{% endif %}", Errc::malformed, "closes nothing that is open here");
  check_error("{{ (1 }}", Errc::malformed, "line 1");
  check_error("{% set true = 1 %}", Errc::malformed, "cannot be assigned to");
  check_error("{% continue %}", Errc::malformed, "'continue' outside a loop");
  const auto result = ChatTemplate::try_parse("{% if %}");
  REQUIRE(!result.has_value());
  CHECK(result.error().code() == Errc::malformed);
  CHECK(ChatTemplate::try_parse("{{ 1 }}").has_value());
}

TEST_CASE("what is not supported is named with its line", "[text][chat_template]") {
  for (const std::string tag : {"include 'x'", "extends 'x'", "import 'x' as y", "from 'x' import y",
                                "block b", "autoescape true", "do x", "trans", "debug", "cache"}) {
    check_error("\n{% " + tag + " %}", Errc::unsupported,
                "line 2: the tag '" + tag.substr(0, tag.find(' ')) + "' is not supported");
  }
  for (const std::string filter : {"urlencode", "urlize", "pprint", "random", "wordwrap", "xmlattr",
                                   "striptags", "filesizeformat", "forceescape", "nofilter", "a.b"}) {
    check_error("\n\n{{ x|" + filter + " }}", Errc::unsupported,
                "line 3: the filter '" + filter + "' is not supported");
    check_error("\n{% if true %}\n{{ x|" + filter + " }}{% endif %}", Errc::unsupported,
                "line 3: the filter '" + filter + "' is not supported");
    check_error("{{ [1]|map('" + filter + "')|list }}", Errc::unsupported, "the filter '" + filter + "'");
    check_error("{% filter " + filter + " %}{% endfilter %}", Errc::unsupported,
                "the filter '" + filter + "'");
  }
  check_error("\n{{ x is notest }}", Errc::unsupported, "line 2: the test 'notest' is not supported");
  check_error("{{ [1]|select('notest')|list }}", Errc::unsupported, "the test 'notest'");
  for (const std::string method :
       {"casefold", "encode", "expandtabs", "format_map", "isnumeric", "swapcase", "translate"}) {
    check_error("\n{{ 'x'." + method + "() }}", Errc::unsupported,
                "line 2: the attribute '" + method + "' of str");
  }
  check_error("{{ (5).bit_length() }}", Errc::unsupported, "'bit_length' of int");
  check_error("{{ (1.5).is_integer() }}", Errc::unsupported, "'is_integer' of float");
  check_error("{{ {}.fromkeys([1]) }}", Errc::unsupported, "'fromkeys' of dict");
  check_error("{% for x in y recursive %}{% endfor %}", Errc::unsupported, "recursive loop");
  check_error("{{ lipsum() }}", Errc::unsupported, "'lipsum'");
  check_error("{{ cycler(1) }}", Errc::unsupported, "'cycler'");
  check_error("{{ 'x'.upper }}", Errc::unsupported, "printing a function");
  check_error("{{ [1]|map('string') }}", Errc::unsupported, "printing a generator");
  check_error("{% for x in [1] %}{{ loop }}{% endfor %}", Errc::unsupported, "printing a LoopContext");
  check_error("{{ ('<'|safe) + 'x' }}", Errc::unsupported, "'+' on text marked safe");
  check_error("{{ ('<'|e).upper() }}", Errc::unsupported, "the method 'upper' of text marked safe");
  check_error("{{ ('<'|e)[1:] }}", Errc::unsupported, "slicing text marked safe");
  check_error("{{ ('<'|e)[0] }}", Errc::unsupported, "indexing text marked safe");
  check_error("{{ ['<'|e] }}", Errc::unsupported, "text marked safe inside a container");
  check_error("{{ '{:>5}'.format(1) }}", Errc::unsupported, "the format field");
  check_error("{{ range(9)[1:2] }}", Errc::unsupported, "slicing a range");
  check_error("{{ strftime_now('%Q') }}", Errc::unsupported, "'%Q'");
  check_error("{{ '\\N{BULLET}' }}", Errc::unsupported, "\\N");
  check_error("{{ (-8) ** 0.5 }}", Errc::unsupported, "complex");
}

TEST_CASE("integers beyond 64 bits are an error, never wrong", "[text][chat_template]") {
  for (const std::string e :
       {"9223372036854775807 + 1", "-9223372036854775807 - 2", "9223372036854775807 * 2", "2 ** 63",
        "10 ** 30", "99999999999999999999", "'99999999999999999999'|int", "1e30|int",
        "(-9223372036854775807 - 1) // -1", "-(-9223372036854775807 - 1)", "(-9223372036854775807 - 1)|abs",
        "'%d' % 1e30", "0x8000000000000000"}) {
    check_error("{{ " + e + " }}", Errc::unsupported, "beyond 64 bits");
  }
  CHECK(
      render("{{ 9223372036854775807 }} {{ -9223372036854775807 - 1 }} {{ (-9223372036854775807 - 1) % -1 }} "
             "{{ 2 ** 62 }} {{ 3 ** 39 }} {{ range(9223372036854775806, 9223372036854775807)|list }}") ==
      "9223372036854775807 -9223372036854775808 0 4611686018427387904 4052555153018976267 "
      "[9223372036854775806]");
}

TEST_CASE("endless and huge work stops at a limit", "[text][chat_template]") {
  const auto loops = [](int depth) {
    return repeated("{% for x in range(100000) %}", static_cast<std::size_t>(depth)) + "x" +
           repeated("{% endfor %}", static_cast<std::size_t>(depth));
  };
  for (const std::string& source : std::vector<std::string>{
           loops(2),
           loops(5),
           "{{ range(1000000000) }}",
           "{{ range(-9223372036854775807, 9223372036854775807) }}",
           "{{ 'a' * 1000000000 }}",
           "{{ [1] * 1000000000 }}",
           "{{ 'ab' * 9223372036854775807 }}",
           "{{ [[]] * 9223372036854775807 }}",
           "{{ 'a'.center(9223372036854775807) }}",
           "{{ 'a'.ljust(1000000000) }}",
           "{{ '7'.zfill(1000000000) }}",
           "{{ '%1000000000d' % 1 }}",
           "{{ '%.1000000000d' % 1 }}",
           "{{ '%*d' % (9223372036854775807, 1) }}",
           "{{ 'a'|indent(1000000000) }}",
           "{{ {'a': 1}|tojson(indent=1000000000) }}",
           "{{ [1]|batch(1000000000, 0)|list }}",
           "{{ [1]|slice(1000000000)|list }}",
           "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% "
           "endfor %}",
           "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% "
           "endfor %}",
           "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
           "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(99) %}{% set ns.s = ns.s|replace('a', "
           "'aaaa') %}{% endfor %}",
           "{% set s = 'a' * 1000000 %}{{ s|replace('', s) }}",
           "{% set s = 'a' * 1000000 %}{{ s.join(s) }}",
           "{% set s = 'a' * 10000 %}{% for i in range(100000) %}{{ s[9000] }}{% endfor %}",
           "{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = ns.l + [i] %}{% endfor "
           "%}",
           "{% for i in range(100000) %}{% for j in range(100000) if false %}{% endfor %}{% endfor %}"}) {
    ChatTemplateLimits limits;
    limits.max_steps = 500'000;
    const Error error = error_of(source, {}, limits);
    INFO("template: " << source.substr(0, 100) << "\nerror: " << error.what());
    CHECK(error.code() == Errc::out_of_memory);
    CHECK_THAT(error.what(), Contains("chat template: line 1: "));
  }
}

TEST_CASE("the default limits stop an endless loop", "[text][chat_template]") {
  CHECK(error_of("{% for x in range(100000) %}{% for y in range(100000) %}{% endfor %}{% endfor %}").code() ==
        Errc::out_of_memory);
}

TEST_CASE("limits are the caller's", "[text][chat_template]") {
  ChatTemplateLimits limits;
  limits.max_output_bytes = 10;
  CHECK(render("0123456789", {}, limits) == "0123456789");
  CHECK(error_of("0123456789a", {}, limits).code() == Errc::out_of_memory);
  limits = {};
  limits.max_steps = 100;
  CHECK(render("{% for x in range(10) %}{% endfor %}", {}, limits).empty());
  CHECK(error_of("{% for x in range(100) %}{% endfor %}", {}, limits).code() == Errc::out_of_memory);
  limits = {};
  limits.max_template_bytes = 5;
  CHECK(render("01234", {}, limits) == "01234");
  CHECK(error_of("012345", {}, limits).code() == Errc::out_of_memory);
  limits = {};
  limits.max_depth = 10;
  CHECK(render("{{ 1 + 2 }}", {}, limits) == "3");
  CHECK(error_of("{{ [[[[[[[[[[[1]]]]]]]]]]] }}", {}, limits).code() == Errc::out_of_memory);
}

TEST_CASE("deep nesting is an error, not a stack overflow", "[text][chat_template]") {
  constexpr std::size_t deep = 50'000;
  for (const auto& [open, middle, close] : std::vector<std::array<std::string, 3>>{
           {"(", "1", ")"},          {"[", "1", "]"},           {"{1:", "1", "}"},  {"not ", "1", ""},
           {"-", "1", ""},           {"f(", "1", ")"},          {"x[", "1", "]"},   {"1 if 1 else ", "1", ""},
           {"x|f(", "1", ")"},       {"", "x", ".a"},           {"", "x", "[0]"},   {"", "x", "()"},
           {"", "x", "|upper"},      {"", "x", " + 1"},         {"", "x", " * 1"},  {"", "x", " ** 1"},
           {"", "x", " is defined"}, {"", "1", " if 1 else 1"}, {"", "1", " if 1"}, {"1 is eq ", "1", ""}}) {
    const std::string source = "{{ " + repeated(open, deep) + middle + repeated(close, deep) + " }}";
    const auto result = try_invoke([&] { return render(source); });
    INFO("template: " << source.substr(0, 40));
    CHECK(!result.has_value());
  }
  for (const auto& [open, close] :
       std::vector<std::pair<std::string, std::string>>{{"{% if 1 %}", "{% endif %}"},
                                                        {"{% for x in y %}", "{% endfor %}"},
                                                        {"{% set x %}", "{% endset %}"},
                                                        {"{% filter upper %}", "{% endfilter %}"},
                                                        {"{% with %}", "{% endwith %}"},
                                                        {"{% macro m() %}", "{% endmacro %}"},
                                                        {"{% call m() %}", "{% endcall %}"},
                                                        {"{% generation %}", "{% endgeneration %}"},
                                                        {"{% set (", ""},
                                                        {"{% for (", ""}}) {
    const std::string source = repeated(open, deep) + repeated(close, deep);
    const auto result = try_invoke([&] { return render(source); });
    INFO("template: " << source.substr(0, 40));
    CHECK(!result.has_value());
  }
  // Flat is not deep.
  CHECK(render("{{ " + repeated("'' ~ ", deep) + "1 }}") == "1");
  CHECK(render("{{ " + repeated("0 or ", deep) + "1 }}") == "1");
  CHECK(render("{% if 0 %}" + repeated("{% elif 0 %}", deep) + "{% else %}1{% endif %}") == "1");
  CHECK(render(repeated("{{ 1 }}", 1000)) == repeated("1", 1000));
}

TEST_CASE("values cannot be nested without bound", "[text][chat_template]") {
  // Each iteration wraps the last value once more.
  for (const std::string wrap :
       {"[ns.v]", "(ns.v,)", "{'k': ns.v}", "[ns.v].count", "[ns.v]|map('default')", "{'k': ns.v}.items()"}) {
    check_error(
        "{% set ns = namespace(v=[]) %}{% for i in range(20000) %}{% set ns.v = " + wrap + " %}{% endfor %}",
        Errc::out_of_memory, "a value nested deeper than");
  }
  check_error(
      "{% set ns = namespace(l=1) %}{% for i in range(5000) %}{% for x in [ns.l] %}{% set ns.l = loop %}"
      "{% endfor %}{% endfor %}",
      Errc::out_of_memory, "a value nested deeper than");
  CHECK(render("{% set ns = namespace() %}{% for i in range(20000) %}{% set ns = namespace(v=ns) %}{% endfor "
               "%}x") == "x");
  // Doubly referenced at every level: a tree of 2^60 leaves in 60 objects.
  ChatTemplateLimits limits;
  limits.max_steps = 500'000;
  for (const std::string use :
       {"{{ ns.v }}", "{{ ns.v|tojson }}", "{{ ns.v == ns.w }}", "{{ ns.v < ns.w }}"}) {
    const std::string source =
        "{% set ns = namespace(v=[], w=[]) %}{% for i in range(60) %}{% set ns.v = [ns.v, ns.v] %}"
        "{% set ns.w = [ns.w, ns.w] %}{% endfor %}" +
        use;
    CHECK(error_of(source, {}, limits).code() == Errc::out_of_memory);
  }
}

TEST_CASE("values that hold themselves end", "[text][chat_template]") {
  check_error("{% set ns = namespace() %}{% set ns.self = ns %}{{ ns }}", Errc::out_of_memory, "nested");
  check_error("{% set ns = namespace() %}{% set ns.self = [ns] %}{{ ns }}", Errc::out_of_memory, "nested");
  CHECK(render("{% set ns = namespace() %}{% set ns.self = ns %}{{ ns.self.self == ns }}") == "True");
  for (const std::string source :
       {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
        "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}",
        "{% set ns = namespace() %}{% macro m() %}{% set ns.f = ns.g() %}{% endmacro %}{% set ns.g = m %}{{ "
        "m() }}"}) {
    check_error(source, Errc::out_of_memory, "nested deeper");
  }
  // Loops that refer to themselves, during and after, leak nothing (the sanitizer build sees it).
  CHECK(render("{% for x in [1, 2] %}{{ loop.changed(loop) }}{% endfor %}") == "TrueFalse");
  check_error(
      "{% set ns = namespace() %}{% for x in [1] %}{% set ns.l = loop %}{% endfor %}{{ ns.l.changed(ns.l) }}",
      Errc::unsupported, "after the loop");
  CHECK(render("{% set ns = namespace(l=none) %}{% for x in [1, 2, 3] if not ns.l or ns.l.length %}"
               "{% set ns.l = loop %}{{ x }}{% endfor %}")
            .starts_with("1"));
}

TEST_CASE("data from outside is bounded too", "[text][chat_template]") {
  Value deep = 1;
  for (int i = 0; i < 300; ++i) deep = Value::list({std::move(deep)});
  CHECK(error_of("{{ x }}", Value::map({{"x", deep}})).code() == Errc::out_of_memory);
  CHECK(render("{{ y }}", Value::map({{"x", deep}})).empty());  // not even looked at
  Value long_list = Value::list();
  for (int i = 0; i < 5000; ++i) long_list.push_back(Value::map({{"role", "user"}, {"content", "x"}}));
  CHECK(render("{{ m|length }}{% for x in m %}{% if loop.last %}{{ x.role }}{% endif %}{% endfor %}",
               Value::map({{"m", long_list}})) == "5000user");
}

TEST_CASE("text of any bytes passes through", "[text][chat_template]") {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  bytes += "\xE4\xB8\x96\xF0\x9F\xA6\x99\xED\xA0\x80\xF4\x90\x80\x80\xC0\x80\xE4\xB8";
  const Value context = Value::map({{"x", bytes}});
  CHECK(render("{{ x }}", context) == bytes);
  CHECK(render("{{ x|list|join }}", context) == bytes);
  CHECK(render("{{ x[::-1][::-1] }}", context) == bytes);
  CHECK(render("{{ x[:100] + x[100:] }}", context) == bytes);
  CHECK(render("{{ x|replace('\\n', '\\n') }}", context) == bytes);
  CHECK(render("{% for c in x %}{{ c }}{% endfor %}", context) == bytes);
  CHECK(render("{{ x|length == x|list|length }}", context) == "True");
  for (const char* use : {"{{ [x] }}", "{{ x|tojson }}", "{{ x|tojson(true) }}", "{{ x.strip().split() }}",
                          "{{ x|upper|lower }}", "{{ x.splitlines() }}", "{{ x|title ~ x.title() }}",
                          "{{ x[5:-5:3] }}", "{{ x|wordcount }}"}) {
    CHECK(!render(use, context).empty());
  }
  // A template of such bytes is text, or an error.
  CHECK(render("\xFF\xFE{{ '\xFF' }}") == "\xFF\xFE\xFF");
  CHECK(error_of("{{ \xFF }}").code() == Errc::malformed);
}

TEST_CASE("one template serves many threads", "[text][chat_template]") {
  const ChatTemplate t(
      "{% for m in messages %}{{ loop.index }}{{ m.role }}:{{ m.content|upper }};{% endfor %}");
  std::vector<std::string> results(8);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] {
      const std::vector<ChatMessage> messages = {{"user", "a" + std::to_string(i)}, {"x", "b"}};
      for (int k = 0; k < 50; ++k) results[i] = t.render(messages);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < results.size(); ++i)
    CHECK(results[i] == "1user:A" + std::to_string(i) + ";2x:B;");
}

TEST_CASE("the templates inside model files render as jinja2 renders them", "[text][chat_template][model]") {
  const Value golden = test::MiniJson::parse(read_file(NIBBLE_GOLDEN_DIR "/chat_templates_models.json"));
  const Value cases = test::MiniJson::parse(read_file(NIBBLE_GOLDEN_DIR "/chat_templates.json"));
  REQUIRE(golden.as_map());
  for (const Value::Member& model : *golden.as_map()) {
    const std::filesystem::path path = std::filesystem::path(NIBBLE_MODELS_DIR) / model.key;
    if (!std::filesystem::exists(path)) {
      WARN("skipped: no " << path.string());
      continue;
    }
    const ChatTemplate t(GgufFile::open(path).metadata().get<std::string>("tokenizer.chat_template"));
    for (const Value::Member& chat : *model.value.as_map()) {
      INFO(model.key << ", chat " << chat.key);
      const auto result = try_invoke([&] { return t.render(*cases.find("contexts")->find(chat.key)); });
      if (const std::string* text = chat.value.as_string()) {
        if (!result.has_value()) FAIL_CHECK(result.error().what());
        else CHECK(*result == *text);
      } else {
        CHECK(!result.has_value());
      }
    }
  }
}
