// SPDX-License-Identifier: MIT
// Lookup of filters by name, binding of arguments, the global functions and the attributes of `loop`.
#include "text/jinja/builtins.hpp"

#include <algorithm>

#include "text/jinja/interpreter.hpp"
#include "text/jinja/strftime.hpp"

namespace nibble::jinja {
namespace {

FilterFunction find_in(std::span<const NamedFilter> table, std::string_view name) noexcept {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const NamedFilter& f) { return f.name == name; });
  return found == table.end() ? nullptr : found->function;
}

Object call_range(Interpreter& in, const Args& args) {
  const Objects& a = args.positional;
  if (!args.keyword.empty()) fail("range() takes no keyword arguments");
  if (a.empty() || a.size() > 3) fail("range expected 1 to 3 arguments, got " + std::to_string(a.size()));
  const std::int64_t start = a.size() > 1 ? int_argument(a[0], "range()") : 0;
  const std::int64_t stop = int_argument(a[a.size() > 1 ? 1 : 0], "range()");
  return make_range(in.budget(), start, stop, a.size() > 2 ? int_argument(a[2], "range()") : 1);
}

// What dict() and namespace() accept: one mapping or sequence of pairs, then keywords.
std::vector<std::pair<Object, Object>> gather_entries(Interpreter& in, const char* name, const Args& args) {
  std::vector<std::pair<Object, Object>> entries;
  if (args.positional.size() > 1) fail(std::string(name) + " expected at most 1 argument");
  if (!args.positional.empty()) {
    const Object& first = args.positional.front();
    require_defined(first);
    if (const Dict* dict = first.as_dict()) {
      entries = dict->entries;
    } else {
      for (const Object& pair : items_of(in.budget(), first)) {
        const Objects parts = items_of(in.budget(), pair);
        if (parts.size() != 2) fail(std::string(name) + " needs pairs");
        dict_set(in.budget(), entries, parts[0], parts[1]);
      }
    }
  }
  for (const auto& [key, value] : args.keyword) dict_set(in.budget(), entries, Object(key), value);
  return entries;
}

Object call_dict(Interpreter& in, const Args& args) {
  return make_dict(in.budget(), gather_entries(in, "dict()", args));
}

Object call_namespace(Interpreter& in, const Args& args) {
  std::vector<std::pair<std::string, Object>> members;
  for (auto& [key, value] : gather_entries(in, "namespace()", args)) {
    members.emplace_back(text_argument(key, "an attribute of a namespace"), std::move(value));
  }
  return in.new_namespace(std::move(members));
}

Object call_raise_exception(Interpreter& in, const Args& args) {
  const auto [message] = bind("raise_exception", args, {"message"}, 1);
  Writer out(in.budget());
  throw Error(Errc::invalid_argument, text_argument(*message, "the message of raise_exception"));
}

Object call_strftime_now(Interpreter& in, const Args& args) {
  const auto [format] = bind("strftime_now", args, {"format"}, 1);
  Writer out(in.budget());
  format_time(out, text_argument(*format, "the format of strftime_now"), in.now());
  return out.take();
}

Object loop_cycle(const Loop& loop, const Args& args) {
  if (args.positional.empty() || !args.keyword.empty()) fail("loop.cycle needs items to cycle through");
  return args.positional[static_cast<std::size_t>(loop.index0) % args.positional.size()];
}

Object loop_changed(Interpreter& in, Loop& loop, const Args& args) {
  if (!args.keyword.empty()) fail("loop.changed takes no keyword arguments");
  if (loop.over) fail_unsupported("'loop.changed' after the loop");
  depth_around(args.positional);
  if (loop.last_changed && loop.last_changed->size() == args.positional.size() &&
      std::equal(args.positional.begin(), args.positional.end(), loop.last_changed->begin(),
                 [&](const Object& a, const Object& b) { return equal(in.budget(), a, b); })) {
    return false;
  }
  loop.last_changed = args.positional;
  return true;
}

}  // namespace

FilterFunction find_filter(std::string_view name) noexcept {
  for (const auto table : {text_filters(), number_filters(), sequence_filters()}) {
    if (const FilterFunction f = find_in(table, name)) return f;
  }
  return nullptr;
}

bool is_known_filter(std::string_view name) noexcept {
  // Those of jinja2 that are not implemented here.
  static constexpr std::string_view others[] = {"filesizeformat", "forceescape", "pprint",
                                                "random",         "striptags",   "urlencode",
                                                "urlize",         "wordwrap",    "xmlattr"};
  return find_filter(name) || std::find(std::begin(others), std::end(others), name) != std::end(others);
}

void detail::bind(std::string_view function, const Args& args, std::span<const std::string_view> names,
                  std::size_t required, std::span<const Object*> out) {
  const std::string who(function);
  if (args.positional.size() > names.size()) {
    fail(who + " takes at most " + std::to_string(names.size()) + " arguments, got " +
         std::to_string(args.positional.size()));
  }
  for (std::size_t i = 0; i < args.positional.size(); ++i) out[i] = &args.positional[i];
  for (const auto& [key, value] : args.keyword) {
    const auto place = static_cast<std::size_t>(std::find(names.begin(), names.end(), key) - names.begin());
    if (place == names.size()) fail(who + " got an unexpected keyword argument '" + key + "'");
    if (out[place]) fail(who + " got multiple values for argument '" + key + "'");
    out[place] = &value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (!out[i]) fail(who + " is missing its argument '" + std::string(names[i]) + "'");
  }
}

void bind_nothing(std::string_view function, const Args& args) {
  if (!args.positional.empty() || !args.keyword.empty()) fail(std::string(function) + " takes no arguments");
}

const std::string& text_argument(const Object& object, std::string_view what) {
  require_defined(object);
  const std::string* text = object.as_text();
  if (!text) fail(std::string(what) + " must be str, not " + type_name(object));
  return *text;
}

std::int64_t int_argument(const Object& object, std::string_view what) {
  require_defined(object);
  const auto value = object.integer_like();
  if (!value) fail(std::string(what) + " needs an integer, not " + type_name(object));
  return *value;
}

std::optional<Object> find_global(Budget& budget, std::string_view name) {
  using Function = Object (*)(Interpreter&, const Args&);
  static constexpr std::pair<std::string_view, Function> table[] = {{"range", call_range},
                                                                    {"dict", call_dict},
                                                                    {"namespace", call_namespace},
                                                                    {"raise_exception", call_raise_exception},
                                                                    {"strftime_now", call_strftime_now}};
  for (const auto& [key, function] : table) {
    if (key == name) return make_callable(budget, std::string(name), Object(), function);
  }
  if (name == "lipsum" || name == "cycler" || name == "joiner") {
    return make_callable(budget, std::string(name), Object(),
                         [what = std::string(name)](Interpreter&, const Args&) -> Object {
                           fail_unsupported("the function '" + what + "'");
                         });
  }
  return std::nullopt;
}

std::optional<Object> loop_attribute(Budget& budget, const Object& object, std::string_view name) {
  const std::shared_ptr<Loop> loop = *object.as_loop();
  if (name == "index0") return loop->index0;
  if (name == "index") return loop->index0 + 1;
  if (name == "first") return loop->index0 == 0;
  if (name == "last") return !loop->peek().has_value();
  if (name == "length") return loop->total();
  if (name == "revindex") return loop->total() - loop->index0;
  if (name == "revindex0") return loop->total() - loop->index0 - 1;
  if (name == "depth") return std::int64_t{1};
  if (name == "depth0") return std::int64_t{0};
  if (name == "previtem") {
    return loop->index0 > 0 && loop->before ? *loop->before : Object::undefined("there is no previous item");
  }
  if (name == "nextitem") {
    const std::optional<Object>& next = loop->peek();
    return next ? *next : Object::undefined("there is no next item");
  }
  if (name == "cycle") {
    return make_callable(budget, "cycle", object,
                         [loop](Interpreter&, const Args& args) { return loop_cycle(*loop, args); });
  }
  if (name == "changed") {
    return make_callable(budget, "changed", object,
                         [loop](Interpreter& in, const Args& args) { return loop_changed(in, *loop, args); });
  }
  return std::nullopt;
}

}  // namespace nibble::jinja
