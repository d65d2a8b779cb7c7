// SPDX-License-Identifier: MIT
// Methods of Python's str.
#include <algorithm>

#include "text/jinja/builtins.hpp"
#include "text/jinja/interpreter.hpp"
#include "text/jinja/print.hpp"
#include "text/jinja/python_text.hpp"

namespace nibble::jinja {
namespace {

const std::string& bytes(const Object& self) { return *self.as_text(); }

std::optional<std::int64_t> optional_int(const Object* object, std::string_view what) {
  if (!object || object->is_none()) return std::nullopt;
  return int_argument(*object, what);
}

template <std::string (*function)(std::string_view)>
Object map_text(Interpreter& in, const Object& self, const Args& args) {
  bind_nothing("this method", args);
  in.budget().charge_text(bytes(self).size());
  return function(bytes(self));
}

template <Side side>
Object text_strip(Interpreter& in, const Object& self, const Args& args) {
  const auto [chars] = bind("strip", args, {"chars"});
  in.budget().charge_text(bytes(self).size());
  return strip(bytes(self), chars && !chars->is_none() ? &text_argument(*chars, "strip's argument") : nullptr,
               side);
}

Object texts(Budget& budget, const std::vector<std::string_view>& parts) {
  Objects items;
  budget.charge(parts.size());
  for (const std::string_view part : parts) items.emplace_back(part);
  return make_list(budget, std::move(items));
}

template <bool from_right>
Object text_split(Interpreter& in, const Object& self, const Args& args) {
  const auto [separator, max_arg] = bind("split", args, {"sep", "maxsplit"});
  Budget& budget = in.budget();
  budget.charge_text(bytes(self).size());
  budget.charge(bytes(self).size() / 4);
  const std::int64_t max_split = max_arg ? int_argument(*max_arg, "split") : -1;
  if (!separator || separator->is_none())
    return texts(budget, split_whitespace(bytes(self), max_split, from_right));
  const std::string& text = text_argument(*separator, "split's separator");
  if (text.empty()) fail("empty separator");
  return texts(budget, split(bytes(self), text, max_split, from_right));
}

Object text_splitlines(Interpreter& in, const Object& self, const Args& args) {
  const auto [keep_ends] = bind("splitlines", args, {"keepends"});
  in.budget().charge_text(bytes(self).size());
  in.budget().charge(bytes(self).size() / 4);
  return texts(in.budget(), split_lines(bytes(self), keep_ends && truthy(*keep_ends)));
}

template <bool from_right>
Object text_partition(Interpreter& in, const Object& self, const Args& args) {
  const auto [separator] = bind("partition", args, {"sep"}, 1);
  const std::string& sep = text_argument(*separator, "partition's separator");
  if (sep.empty()) fail("empty separator");
  const std::string_view text = bytes(self);
  in.budget().charge_text(text.size());
  const std::size_t at = from_right ? text.rfind(sep) : text.find(sep);
  if (at == text.npos) {
    return make_tuple(in.budget(), from_right ? Objects{"", "", self} : Objects{self, "", ""});
  }
  return make_tuple(in.budget(),
                    {Object(text.substr(0, at)), Object(sep), Object(text.substr(at + sep.size()))});
}

Object text_replace(Interpreter& in, const Object& self, const Args& args) {
  const auto [old_arg, new_arg, count_arg] = bind("replace", args, {"old", "new", "count"}, 2);
  const std::string& old = text_argument(*old_arg, "replace's argument");
  const std::string& replacement = text_argument(*new_arg, "replace's argument");
  std::int64_t count = count_arg ? int_argument(*count_arg, "replace") : -1;
  const std::string_view text = bytes(self);
  Writer out(in.budget());
  std::size_t at = 0;
  if (old.empty()) {
    // The replacement goes before every code point and at the end.
    for (; count != 0; --count) {
      out.add(replacement);
      if (at >= text.size()) return out.take();
      const std::size_t length = decode(text, at).length;
      out.add(text.substr(at, length));
      at += length;
    }
  }
  for (std::size_t found; count != 0 && (found = text.find(old, at)) != text.npos; --count) {
    out.add(text.substr(at, found - at));
    out.add(replacement);
    at = found + old.size();
  }
  out.add(text.substr(at));
  return out.take();
}

// The part of the text a start and end argument select, and its byte offset.
struct Part { std::string_view text; std::size_t offset; bool valid; };
Part part_of(Budget& budget, const std::string& text, const Object* start, const Object* end) {
  budget.charge_text(text.size());
  const auto from = optional_int(start, "a start"), to = optional_int(end, "an end");
  if (!from && !to) return {text, 0, true};
  const auto length = static_cast<std::int64_t>(count_code_points(text));
  const Span span = resolve_span(from, to, length);
  if (span.begin > span.end || (from && *from > length)) return {{}, 0, false};
  const std::size_t begin = byte_offset(text, static_cast<std::size_t>(span.begin));
  const std::string_view rest = std::string_view(text).substr(begin);
  return {rest.substr(0, byte_offset(rest, static_cast<std::size_t>(span.end - span.begin))), begin, true};
}

template <bool at_end>
Object text_affix(Interpreter& in, const Object& self, const Args& args) {
  const auto [affix, start, end] =
      bind(at_end ? "endswith" : "startswith", args, {"prefix", "start", "end"}, 1);
  const Part part = part_of(in.budget(), bytes(self), start, end);
  const auto matches = [&](const Object& object) {
    const std::string& text = text_argument(object, at_end ? "endswith's argument" : "startswith's argument");
    return part.valid && (at_end ? part.text.ends_with(text) : part.text.starts_with(text));
  };
  const Sequence* s = affix->as_sequence();
  if (s && s->kind == Sequence::Kind::tuple) return std::any_of(s->items.begin(), s->items.end(), matches);
  return matches(*affix);
}

template <bool from_right, bool must_exist>
Object text_find(Interpreter& in, const Object& self, const Args& args) {
  const auto [sub, start, end] = bind("find", args, {"sub", "start", "end"}, 1);
  const std::string& needle = text_argument(*sub, "find's argument");
  const Part part = part_of(in.budget(), bytes(self), start, end);
  const std::size_t at = !part.valid  ? part.text.npos
                         : from_right ? part.text.rfind(needle)
                                      : part.text.find(needle);
  if (at == part.text.npos) {
    if (must_exist) fail("substring not found");
    return std::int64_t{-1};
  }
  return static_cast<std::int64_t>(
      count_code_points(std::string_view(bytes(self)).substr(0, part.offset + at)));
}

Object text_count(Interpreter& in, const Object& self, const Args& args) {
  const auto [sub, start, end] = bind("count", args, {"sub", "start", "end"}, 1);
  const std::string& needle = text_argument(*sub, "count's argument");
  const Part part = part_of(in.budget(), bytes(self), start, end);
  if (!part.valid) return std::int64_t{0};
  if (needle.empty()) return static_cast<std::int64_t>(count_code_points(part.text)) + 1;
  std::int64_t count = 0;
  for (std::size_t at = 0; (at = part.text.find(needle, at)) != part.text.npos; at += needle.size()) ++count;
  return count;
}

Object text_join(Interpreter& in, const Object& self, const Args& args) {
  const auto [iterable] = bind("join", args, {"iterable"}, 1);
  Writer out(in.budget());
  bool first = true;
  for (const Object& item : items_of(in.budget(), *iterable)) {
    if (!first) out.add(bytes(self));
    first = false;
    const std::string* text = item.as_text();
    if (!text) fail("join needs str items, found " + type_name(item));
    out.add(*text);
  }
  return out.take();
}

template <bool at_end>
Object text_remove_affix(Interpreter& in, const Object& self, const Args& args) {
  const auto [affix_arg] = bind("removeprefix", args, {"prefix"}, 1);
  const std::string& affix = text_argument(*affix_arg, "the affix");
  const std::string_view text = bytes(self);
  in.budget().charge_text(text.size());
  if (at_end) return text.ends_with(affix) ? Object(text.substr(0, text.size() - affix.size())) : self;
  return text.starts_with(affix) ? Object(text.substr(affix.size())) : self;
}

enum class Place { left, right, center };
template <Place place>
Object text_justify(Interpreter& in, const Object& self, const Args& args) {
  const auto [width_arg, fill_arg] = bind("center", args, {"width", "fillchar"}, 1);
  const std::string fill = fill_arg ? text_argument(*fill_arg, "the fill character") : " ";
  if (count_code_points(fill) != 1) fail("The fill character must be exactly one character long");
  const std::int64_t width = int_argument(*width_arg, "the width");
  const auto length = static_cast<std::int64_t>(count_code_points(bytes(self)));
  if (width <= length) return self;
  const std::int64_t gap = width - length;
  // An odd gap is split as CPython does: the extra one on the left when the width is odd too.
  const std::int64_t left = place == Place::left    ? 0
                            : place == Place::right ? gap
                                                    : gap / 2 + (gap & width & 1);
  in.budget().charge(static_cast<std::size_t>(gap));
  Writer out(in.budget());
  for (std::int64_t i = 0; i < left; ++i) out.add(fill);
  out.add(bytes(self));
  for (std::int64_t i = left; i < gap; ++i) out.add(fill);
  return out.take();
}

Object text_zfill(Interpreter& in, const Object& self, const Args& args) {
  const auto [width_arg] = bind("zfill", args, {"width"}, 1);
  const std::int64_t width = int_argument(*width_arg, "the width");
  std::string_view text = bytes(self);
  const auto length = static_cast<std::int64_t>(count_code_points(text));
  if (width <= length) return self;
  Writer out(in.budget());
  if (text.starts_with('+') || text.starts_with('-')) {
    out.add(1, text.front());
    text.remove_prefix(1);
  }
  out.add(static_cast<std::size_t>(width - length), '0');
  out.add(text);
  return out.take();
}

using Predicate = bool (*)(std::int32_t) noexcept;
template <Predicate predicate>
Object text_all(Interpreter& in, const Object& self, const Args& args) {
  bind_nothing("this method", args);
  const std::string& text = bytes(self);
  in.budget().charge_text(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode(text, at);
    if (!predicate(c.value)) return false;
    at += c.length;
  }
  return !text.empty();
}

template <bool lower>
Object text_is_case(Interpreter& in, const Object& self, const Args& args) {
  bind_nothing("this method", args);
  in.budget().charge_text(bytes(self).size());
  return all_cased(bytes(self), lower);
}

Object text_isascii(Interpreter&, const Object& self, const Args& args) {
  bind_nothing("isascii", args);
  return std::all_of(bytes(self).begin(), bytes(self).end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// {}, {0}, {name}, with !r or !s; no format specifications and no attributes.
Object text_format(Interpreter& in, const Object& self, const Args& args) {
  const std::string& format = bytes(self);
  Writer out(in.budget());
  std::size_t automatic = 0;
  for (std::size_t at = 0; at < format.size(); ++at) {
    const char c = format[at];
    const bool doubled = at + 1 < format.size() && format[at + 1] == c;
    if ((c != '{' && c != '}') || doubled) {
      out.add(1, c);
      if (c == '{' || c == '}') ++at;
      continue;
    }
    const std::size_t close = format.find('}', at);
    if (c == '}' || close == format.npos) fail("single '" + std::string(1, c) + "' in format string");
    std::string field = format.substr(at + 1, close - at - 1);
    at = close;
    char conversion = 's';
    if (field.size() >= 2 && field[field.size() - 2] == '!') {
      conversion = field.back();
      field.resize(field.size() - 2);
    }
    if (field.find_first_of("{:.[!") != field.npos || (conversion != 's' && conversion != 'r')) {
      fail_unsupported("the format field '{" + field + "}'");
    }
    const Object* value = nullptr;
    const bool is_index =
        field.empty() || std::all_of(field.begin(), field.end(), [](char d) { return d >= '0' && d <= '9'; });
    if (is_index) {
      const std::size_t index =
          field.empty() ? automatic++ : static_cast<std::size_t>(parse_int(field, 10).value_or(0));
      if (index < args.positional.size()) value = &args.positional[index];
    } else {
      for (const auto& [key, v] : args.keyword) {
        if (key == field) value = &v;
      }
    }
    if (!value) fail("no argument for the format field '{" + field + "}'");
    if (conversion == 'r') print_repr(out, *value);
    else print(out, *value);
  }
  return out.take();
}

constexpr NamedMethod table[] = {
    {"upper", map_text<to_upper>},
    {"lower", map_text<to_lower>},
    {"capitalize", map_text<capitalize>},
    {"title", map_text<title_words>},
    {"strip", text_strip<Side::both>},
    {"lstrip", text_strip<Side::left>},
    {"rstrip", text_strip<Side::right>},
    {"split", text_split<false>},
    {"rsplit", text_split<true>},
    {"splitlines", text_splitlines},
    {"partition", text_partition<false>},
    {"rpartition", text_partition<true>},
    {"replace", text_replace},
    {"startswith", text_affix<false>},
    {"endswith", text_affix<true>},
    {"find", text_find<false, false>},
    {"rfind", text_find<true, false>},
    {"index", text_find<false, true>},
    {"rindex", text_find<true, true>},
    {"count", text_count},
    {"join", text_join},
    {"removeprefix", text_remove_affix<false>},
    {"removesuffix", text_remove_affix<true>},
    {"ljust", text_justify<Place::left>},
    {"rjust", text_justify<Place::right>},
    {"center", text_justify<Place::center>},
    {"zfill", text_zfill},
    {"format", text_format},
    {"isalpha", text_all<is_alpha>},
    {"isalnum", text_all<is_alnum>},
    {"isdigit", text_all<is_digit>},
    {"isdecimal", text_all<is_decimal>},
    {"isspace", text_all<is_space>},
    {"islower", text_is_case<true>},
    {"isupper", text_is_case<false>},
    {"isascii", text_isascii},
};

}  // namespace

std::span<const NamedMethod> text_methods() noexcept { return table; }

}  // namespace nibble::jinja
