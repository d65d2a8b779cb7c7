// SPDX-License-Identifier: MIT
// The filter tojson: json.dumps with transformers' defaults (no HTML escaping, non-ASCII as it is).
#include <algorithm>
#include <cmath>

#include "text/jinja/operators.hpp"
#include "text/jinja/print.hpp"
#include "text/jinja/python_text.hpp"

namespace nibble::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Budget& budget, const JsonStyle& style) : out_(budget), style_(style) {}

  std::string take() noexcept { return out_.take(); }

  void value(const Object& object) {
    const DepthGuard guard(out_.budget());
    const Sequence* s = object.as_sequence();
    if (const std::string* text = object.as_text()) string(*text);
    else if (const Dict* dict = object.as_dict()) map(*dict);
    else if (s && (s->kind == Sequence::Kind::list || s->kind == Sequence::Kind::tuple)) list(s->items);
    else if (const auto plain = scalar(object)) out_.add(*plain);
    else fail("Object of type " + type_name(object) + " is not JSON serializable");
  }

 private:
  // The text of null, a bool or a number; also what such a key turns into.
  std::optional<std::string> scalar(const Object& object) {
    if (object.is_none()) return "null";
    if (const bool* b = object.as_bool()) return *b ? "true" : "false";
    if (const std::int64_t* i = object.as_int()) return std::to_string(*i);
    if (const double* d = object.as_real()) {
      if (std::isnan(*d)) return "NaN";
      if (std::isinf(*d)) return *d < 0 ? "-Infinity" : "Infinity";
      return real_text(*d);
    }
    return std::nullopt;
  }

  void list(const Objects& items) {
    if (items.empty()) { out_.add("[]"); return; }
    out_.add("[");
    ++level_;
    for (std::size_t i = 0; i < items.size(); ++i) {
      separate(i > 0);
      value(items[i]);
    }
    close("]");
  }

  void map(const Dict& dict) {
    if (dict.entries.empty()) { out_.add("{}"); return; }
    std::vector<const std::pair<Object, Object>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [this](const auto* a, const auto* b) {
        return compare(out_.budget(), CompareOp::less, a->first, b->first);
      });
    }
    out_.add("{");
    ++level_;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      separate(i > 0);
      key(entries[i]->first);
      out_.add(style_.key_separator);
      value(entries[i]->second);
    }
    close("}");
  }

  void key(const Object& object) {
    if (const std::string* text = object.as_text()) string(*text);
    else if (const auto plain = scalar(object)) string(*plain);
    else fail("keys must be str, int, float, bool or None, not " + type_name(object));
  }

  void separate(bool after_item) {
    if (after_item) out_.add(style_.item_separator);
    if (style_.indent) new_line();
  }

  void close(std::string_view bracket) {
    --level_;
    if (style_.indent) new_line();
    out_.add(bracket);
  }

  void new_line() {
    out_.add("\n");
    for (int i = 0; i < level_; ++i) out_.add(*style_.indent);
  }

  void string(const std::string& text) {
    out_.add("\"");
    std::size_t plain = 0;
    for (std::size_t at = 0; at < text.size();) {
      const CodePoint c = decode(text, at);
      const bool stray = c.value >= 0xDC80 && c.value <= 0xDCFF && c.length == 1;
      if (c.value < 0x20 || c.value == '"' || c.value == '\\' ||
          (style_.ascii_only && c.value > 0x7E && !stray)) {
        out_.add(std::string_view(text).substr(plain, at - plain));
        escape(c.value);
        plain = at + c.length;
      }
      at += c.length;
    }
    out_.add(std::string_view(text).substr(plain));
    out_.add("\"");
  }

  void escape(std::int32_t c) {
    switch (c) {
      case '"': out_.add("\\\""); return;
      case '\\': out_.add("\\\\"); return;
      case '\n': out_.add("\\n"); return;
      case '\r': out_.add("\\r"); return;
      case '\t': out_.add("\\t"); return;
      case '\f': out_.add("\\f"); return;
      case '\b': out_.add("\\b"); return;
      default: break;
    }
    if (c < 0x10000) { escape_unit(c); return; }
    escape_unit(0xD800 + ((c - 0x10000) >> 10));
    escape_unit(0xDC00 + ((c - 0x10000) & 0x3FF));
  }

  void escape_unit(std::int32_t unit) {
    std::string text = "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) text.push_back("0123456789abcdef"[(unit >> shift) & 15]);
    out_.add(text);
  }

  Writer out_;
  const JsonStyle& style_;
  int level_ = 0;
};

}  // namespace

std::string to_json(Budget& budget, const Object& object, const JsonStyle& style) {
  JsonWriter writer(budget, style);
  writer.value(object);
  return writer.take();
}

}  // namespace nibble::jinja
