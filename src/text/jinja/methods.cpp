// SPDX-License-Identifier: MIT
// Methods of dicts, lists and numbers, and what attributes a type has at all. The sandbox takes methods
// that change a list or dict away; they are undefined here as there.
#include <algorithm>

#include "text/jinja/builtins.hpp"
#include "text/jinja/interpreter.hpp"

namespace nibble::jinja {
namespace {

using Names = std::span<const std::string_view>;

bool has(Names names, std::string_view name) noexcept {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Object dict_get(Interpreter& in, const Object& self, const Args& args) {
  const auto [key, fallback] = bind("get", args, {"key", "default"}, 1);
  require_hashable(*key);
  const Object* value = dict_find(in.budget(), *self.as_dict(), *key);
  if (value) return *value;
  return fallback ? *fallback : Object();
}

template <Sequence::Kind kind>
Object dict_view(Interpreter& in, const Object& self, const Args& args) {
  bind_nothing("a dict view", args);
  Objects items;
  for (const auto& [key, value] : self.as_dict()->entries) {
    if (kind == Sequence::Kind::keys) items.push_back(key);
    else if (kind == Sequence::Kind::values) items.push_back(value);
    else items.push_back(make_tuple(in.budget(), {key, value}));
  }
  return make_sequence(in.budget(), kind, std::move(items));
}

Object copy_itself(Interpreter&, const Object& self, const Args& args) {
  bind_nothing("copy", args);
  return self;
}

Object sequence_count(Interpreter& in, const Object& self, const Args& args) {
  const auto [value] = bind("count", args, {"value"}, 1);
  std::int64_t count = 0;
  for (const Object& item : self.as_sequence()->items) count += equal(in.budget(), item, *value) ? 1 : 0;
  return count;
}

Object sequence_index(Interpreter& in, const Object& self, const Args& args) {
  const auto [value, start, stop] = bind("index", args, {"value", "start", "stop"}, 1);
  const Objects& items = self.as_sequence()->items;
  const auto bound = [](const Object* o) {
    return o ? std::optional(int_argument(*o, "index")) : std::nullopt;
  };
  const Span span = resolve_span(bound(start), bound(stop), static_cast<std::int64_t>(items.size()));
  for (std::int64_t i = span.begin; i < span.end; ++i) {
    if (equal(in.budget(), items[static_cast<std::size_t>(i)], *value)) return i;
  }
  fail("the value is not in the list");
}

constexpr NamedMethod dict_methods[] = {{"get", dict_get},
                                        {"items", dict_view<Sequence::Kind::items>},
                                        {"keys", dict_view<Sequence::Kind::keys>},
                                        {"values", dict_view<Sequence::Kind::values>},
                                        {"copy", copy_itself}};
constexpr NamedMethod list_methods[] = {
    {"count", sequence_count}, {"index", sequence_index}, {"copy", copy_itself}};
constexpr NamedMethod tuple_methods[] = {{"count", sequence_count}, {"index", sequence_index}};

// Attributes Python's types have besides those above: forbidden by the sandbox, or not implemented.
constexpr std::string_view dict_forbidden[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view list_forbidden[] = {"append", "clear", "pop",    "reverse",
                                               "insert", "sort",  "extend", "remove"};
constexpr std::string_view dict_others[] = {"fromkeys"};
constexpr std::string_view range_others[] = {"start", "stop", "step"};
constexpr std::string_view view_others[] = {"mapping", "isdisjoint"};
constexpr std::string_view text_others[] = {"casefold",     "encode",    "expandtabs",  "format_map",
                                            "isidentifier", "isnumeric", "isprintable", "istitle",
                                            "maketrans",    "swapcase",  "translate"};
constexpr std::string_view int_others[] = {
    "as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator",
    "from_bytes",       "imag",      "numerator",  "real",      "to_bytes"};
constexpr std::string_view real_others[] = {"as_integer_ratio", "conjugate", "fromhex", "hex", "imag",
                                            "is_integer",       "real"};
constexpr std::string_view function_others[] = {"name",         "arguments",     "caller",
                                                "catch_kwargs", "catch_varargs", "explicit_caller"};
constexpr std::string_view iterator_others[] = {"send", "throw", "close"};

struct TypeAttributes {
  std::span<const NamedMethod> methods = {};
  Names forbidden = {};
  Names others = {};
};

TypeAttributes attributes_of(const Object& object) noexcept {
  if (object.as_text()) return {text_methods(), {}, text_others};
  if (object.as_dict()) return {dict_methods, dict_forbidden, dict_others};
  if (object.as_bool() || object.as_int()) return {{}, {}, int_others};
  if (object.as_real()) return {{}, {}, real_others};
  if (object.as_callable()) return {{}, {}, function_others};
  if (object.as_iterator()) return {{}, {}, iterator_others};
  const Sequence* s = object.as_sequence();
  if (!s) return {};
  switch (s->kind) {
    case Sequence::Kind::list: return {list_methods, list_forbidden, {}};
    case Sequence::Kind::tuple: return {tuple_methods, {}, {}};
    case Sequence::Kind::range: return {tuple_methods, {}, range_others};
    default: return {{}, {}, view_others};
  }
}

}  // namespace

std::optional<Object> find_method(Budget& budget, const Object& object, std::string_view name) {
  const TypeAttributes type = attributes_of(object);
  const auto method = std::find_if(type.methods.begin(), type.methods.end(),
                                   [&](const NamedMethod& m) { return m.name == name; });
  if (method != type.methods.end()) {
    if (object.is_markup()) fail_unsupported("the method '" + std::string(name) + "' of text marked safe");
    return make_callable(budget, std::string(name), object, [self = object, function = method->function](
                                                                Interpreter& in, const Args& args) {
      return function(in, self, args);
    });
  }
  if (has(type.forbidden, name)) {
    return Object::undefined("access to attribute '" + std::string(name) + "' of '" + type_name(object) +
                             "' object is unsafe.");
  }
  if (has(type.others, name)) {
    fail_unsupported("the attribute '" + std::string(name) + "' of " + type_name(object));
  }
  return std::nullopt;
}

}  // namespace nibble::jinja
