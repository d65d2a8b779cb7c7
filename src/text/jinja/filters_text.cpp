// SPDX-License-Identifier: MIT
// Filters that make text of their value.
#include <algorithm>

#include "text/jinja/builtins.hpp"
#include "text/jinja/interpreter.hpp"
#include "text/jinja/print.hpp"
#include "text/jinja/python_text.hpp"

namespace nibble::jinja {
namespace {

const std::string* optional_text(const Object* object, std::string_view what) {
  return object && !object->is_none() ? &text_argument(*object, what) : nullptr;
}

bool flag(const Object* object, bool otherwise = false) { return object ? truthy(*object) : otherwise; }

template <std::string (*function)(std::string_view)>
Object map_text(Interpreter& in, const Object& value, const Args& args) {
  bind_nothing("this filter", args);
  const std::string text = to_text(in.budget(), value);
  in.budget().charge_text(text.size());
  return function(text);
}

Object filter_string(Interpreter& in, const Object& value, const Args& args) {
  bind_nothing("string", args);
  return value.as_text() ? value : Object(to_text(in.budget(), value));
}

Object filter_trim(Interpreter& in, const Object& value, const Args& args) {
  const auto [chars] = bind("trim", args, {"chars"});
  const std::string text = to_text(in.budget(), value);
  return strip(text, optional_text(chars, "the argument of trim"), Side::both);
}

// Words begin after white space and -({[<, and only their first letter is upper.
Object filter_title(Interpreter& in, const Object& value, const Args& args) {
  bind_nothing("title", args);
  const std::string text = to_text(in.budget(), value);
  in.budget().charge_text(text.size());
  std::string out;
  std::size_t begin = 0;
  const auto flush = [&](std::size_t end) {
    if (begin == end) return;
    const std::size_t first = begin + decode(text, begin).length;
    out += to_upper(std::string_view(text).substr(begin, first - begin));
    out += to_lower(std::string_view(text).substr(first, end - first));
  };
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode(text, at);
    static constexpr std::string_view openers = "-({[<";
    if (is_space(c.value) || (c.value < 0x80 && openers.find(static_cast<char>(c.value)) != openers.npos)) {
      flush(at);
      out += text.substr(at, c.length);
      begin = at + c.length;
    }
    at += c.length;
  }
  flush(text.size());
  return out;
}

Object filter_replace(Interpreter& in, const Object& value, const Args& args) {
  const auto [old, replacement, count] = bind("replace", args, {"old", "new", "count"}, 2);
  Budget& budget = in.budget();
  const Object text(to_text(budget, value));
  Args plain{{Object(to_text(budget, *old)), Object(to_text(budget, *replacement))}};
  if (count && !count->is_none()) plain.positional.push_back(*count);
  return in.call(*find_method(budget, text, "replace"), plain);
}

Object filter_indent(Interpreter& in, const Object& value, const Args& args) {
  const auto [width, first, blank] = bind("indent", args, {"width", "first", "blank"});
  const std::string& text = text_argument(value, "the value of indent");
  Writer out(in.budget());
  Writer indention(in.budget());
  if (width && width->as_text()) indention.add(*width->as_text());
  else
    indention.add(
        static_cast<std::size_t>(std::max<std::int64_t>(0, width ? int_argument(*width, "indent") : 4)), ' ');
  const std::string with_newline = text + "\n";
  const auto lines = split_lines(with_newline, false);
  if (flag(first)) out.add(indention.text());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.add("\n");
    if (i > 0 && (flag(blank) || !lines[i].empty())) out.add(indention.text());
    out.add(lines[i]);
  }
  return out.take();
}

Object filter_format(Interpreter& in, const Object& value, const Args& args) {
  if (!args.positional.empty() && !args.keyword.empty())
    fail("format takes positional or keyword arguments, not both");
  const std::string format = to_text(in.budget(), value);
  if (args.keyword.empty())
    return percent_format(in.budget(), format, make_tuple(in.budget(), args.positional));
  std::vector<std::pair<Object, Object>> entries;
  for (const auto& [key, v] : args.keyword) entries.emplace_back(Object(key), v);
  return percent_format(in.budget(), format, make_dict(in.budget(), std::move(entries)));
}

Object filter_truncate(Interpreter& in, const Object& value, const Args& args) {
  const auto [length_arg, kill_words, end_arg, leeway_arg] =
      bind("truncate", args, {"length", "killwords", "end", "leeway"});
  const std::string end = end_arg ? text_argument(*end_arg, "truncate's end") : "...";
  const std::int64_t length = length_arg ? int_argument(*length_arg, "truncate") : 255;
  const std::int64_t leeway =
      leeway_arg && !leeway_arg->is_none() ? int_argument(*leeway_arg, "truncate") : 5;
  const auto end_length = static_cast<std::int64_t>(count_code_points(end));
  if (length < end_length || leeway < 0)
    fail("truncate needs length >= " + std::to_string(end_length) + " and leeway >= 0");
  if (value.as_text()) in.budget().charge_text(value.as_text()->size());
  const std::int64_t size = length_of(value);
  if (size <= length || size - length <= leeway) return value;
  const std::string& text = text_argument(value, "the value of truncate");
  std::string head = text.substr(0, byte_offset(text, static_cast<std::size_t>(length - end_length)));
  if (!flag(kill_words)) head = head.substr(0, head.rfind(' '));
  return head + end;
}

Object filter_wordcount(Interpreter& in, const Object& value, const Args& args) {
  bind_nothing("wordcount", args);
  const std::string text = to_text(in.budget(), value);
  std::int64_t words = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode(text, at);
    const bool word = c.value == '_' || is_alnum(c.value);
    if (word && !inside) ++words;
    inside = word;
    at += c.length;
  }
  return words;
}

Object filter_center(Interpreter& in, const Object& value, const Args& args) {
  const auto [width] = bind("center", args, {"width"});
  Budget& budget = in.budget();
  const Object text(to_text(budget, value));
  return in.call(*find_method(budget, text, "center"), Args{{width ? *width : Object(std::int64_t{80})}});
}

Object filter_escape(Interpreter& in, const Object& value, const Args& args) {
  bind_nothing("escape", args);
  if (value.is_markup()) return value;
  Writer out(in.budget());
  for (const char c : to_text(in.budget(), value)) {
    switch (c) {
      case '&': out.add("&amp;"); break;
      case '<': out.add("&lt;"); break;
      case '>': out.add("&gt;"); break;
      case '\'': out.add("&#39;"); break;
      case '"': out.add("&#34;"); break;
      default: out.add(1, c);
    }
  }
  return Object::markup(out.take());
}

Object filter_safe(Interpreter& in, const Object& value, const Args& args) {
  bind_nothing("safe", args);
  return value.is_markup() ? value : Object::markup(to_text(in.budget(), value));
}

Object filter_tojson(Interpreter& in, const Object& value, const Args& args) {
  const auto [ascii, indent, separators, sort_keys] =
      bind("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  Budget& budget = in.budget();
  JsonStyle style;
  style.ascii_only = flag(ascii);
  style.sort_keys = flag(sort_keys);
  if (indent && !indent->is_none()) {
    style.item_separator = ",";
    if (const std::string* text = indent->as_text()) {
      style.indent = *text;
    } else {
      Writer spaces(budget);
      spaces.add(
          static_cast<std::size_t>(std::max<std::int64_t>(0, int_argument(*indent, "tojson's indent"))), ' ');
      style.indent = spaces.take();
    }
  }
  if (separators && !separators->is_none()) {
    const Objects pair = items_of(budget, *separators);
    if (pair.size() != 2) fail("tojson's separators must be a pair");
    style.item_separator = text_argument(pair[0], "a separator");
    style.key_separator = text_argument(pair[1], "a separator");
  }
  return to_json(budget, value, style);
}

constexpr NamedFilter table[] = {
    {"string", filter_string},       {"trim", filter_trim},
    {"upper", map_text<to_upper>},   {"lower", map_text<to_lower>},
    {"title", filter_title},         {"capitalize", map_text<capitalize>},
    {"replace", filter_replace},     {"indent", filter_indent},
    {"format", filter_format},       {"truncate", filter_truncate},
    {"center", filter_center},       {"wordcount", filter_wordcount},
    {"escape", filter_escape},       {"e", filter_escape},
    {"safe", filter_safe},           {"tojson", filter_tojson},
};

}  // namespace

std::span<const NamedFilter> text_filters() noexcept { return table; }

}  // namespace nibble::jinja
