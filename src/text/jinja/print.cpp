// SPDX-License-Identifier: MIT
// str() and repr() of every object a template can hold. Floats print their shortest digits, strings
// inside containers choose the quote that needs no escape.
#include "text/jinja/print.hpp"

#include "text/jinja/python_text.hpp"

namespace nibble::jinja {
namespace {

void add_hex(Writer& out, char kind, std::uint32_t value, int digits) {
  std::string text = {'\\', kind};
  for (int shift = (digits - 1) * 4; shift >= 0; shift -= 4)
    text.push_back("0123456789abcdef"[(value >> shift) & 15]);
  out.add(text);
}

void print_quoted(Writer& out, const std::string& text) {
  const bool has_single = text.find('\'') != text.npos;
  const char quote = has_single && text.find('"') == text.npos ? '"' : '\'';
  out.add(1, quote);
  std::size_t plain = 0;  // start of the run not written yet
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode(text, at);
    const bool special = c.value == quote || c.value == '\\' || !is_printable(c.value);
    if (special) {
      out.add(std::string_view(text).substr(plain, at - plain));
      const auto v = static_cast<std::uint32_t>(c.value);
      if (c.value == '\n') out.add("\\n");
      else if (c.value == '\r') out.add("\\r");
      else if (c.value == '\t') out.add("\\t");
      else if (c.value == quote || c.value == '\\') {
        out.add(1, '\\');
        out.add(1, static_cast<char>(c.value));
      } else if (v < 0x100) add_hex(out, 'x', v, 2);
      else if (v < 0x10000) add_hex(out, 'u', v, 4);
      else add_hex(out, 'U', v, 8);
      plain = at + c.length;
    }
    at += c.length;
  }
  out.add(std::string_view(text).substr(plain));
  out.add(1, quote);
}

void print_items(Writer& out, const Objects& items) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.add(", ");
    print_repr(out, items[i]);
  }
}

void print_sequence(Writer& out, const Sequence& s) {
  switch (s.kind) {
    case Sequence::Kind::list: out.add("["); print_items(out, s.items); out.add("]"); return;
    case Sequence::Kind::tuple:
      out.add("(");
      print_items(out, s.items);
      out.add(s.items.size() == 1 ? ",)" : ")");
      return;
    case Sequence::Kind::range:
      out.add("range(" + std::to_string(s.start) + ", " + std::to_string(s.stop));
      out.add(s.step == 1 ? ")" : ", " + std::to_string(s.step) + ")");
      return;
    case Sequence::Kind::keys: out.add("dict_keys(["); break;
    case Sequence::Kind::values: out.add("dict_values(["); break;
    case Sequence::Kind::items: out.add("dict_items(["); break;
  }
  print_items(out, s.items);
  out.add("])");
}

}  // namespace

void print(Writer& out, const Object& object) {
  if (object.is_undefined()) return;
  if (const std::string* text = object.as_text()) out.add(*text);
  else print_repr(out, object);
}

void print_repr(Writer& out, const Object& object) {
  const DepthGuard guard(out.budget());  // a namespace may hold itself
  if (object.is_undefined()) out.add("Undefined");
  else if (object.is_none()) out.add("None");
  else if (const bool* b = object.as_bool()) out.add(*b ? "True" : "False");
  else if (const std::int64_t* i = object.as_int()) out.add(std::to_string(*i));
  else if (const double* d = object.as_real()) out.add(real_text(*d));
  else if (object.is_markup()) fail_unsupported("printing text marked safe inside a container");
  else if (const std::string* text = object.as_text()) print_quoted(out, *text);
  else if (const Sequence* s = object.as_sequence()) print_sequence(out, *s);
  else if (const Dict* dict = object.as_dict()) {
    out.add("{");
    bool first = true;
    for (const auto& [key, value] : dict->entries) {
      if (!first) out.add(", ");
      first = false;
      print_repr(out, key);
      out.add(": ");
      print_repr(out, value);
    }
    out.add("}");
  } else if (const Namespace* space = object.as_namespace()) {
    out.add("<Namespace {");
    bool first = true;
    for (const auto& [name, value] : space->members) {
      if (!first) out.add(", ");
      first = false;
      print_quoted(out, name);
      out.add(": ");
      print_repr(out, value);
    }
    out.add("}>");
  } else {
    fail_unsupported("printing a " + type_name(object));
  }
}

std::string to_text(Budget& budget, const Object& object) {
  Writer out(budget);
  print(out, object);
  return out.take();
}

std::string to_repr(Budget& budget, const Object& object) {
  Writer out(budget);
  print_repr(out, object);
  return out.take();
}

}  // namespace nibble::jinja
