// SPDX-License-Identifier: MIT
// Filters on lists, dicts and whatever a loop can run over.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "text/jinja/builtins.hpp"
#include "text/jinja/interpreter.hpp"
#include "text/jinja/print.hpp"
#include "text/jinja/python_text.hpp"

namespace nibble::jinja {
namespace {

bool flag(const Object* object) { return object && truthy(*object); }

// "a.b.0" to the path a, b, 0 of an item's members; none is the item itself.
Objects attribute_path(const Object* attribute) {
  Objects path;
  if (!attribute || attribute->is_none()) return path;
  const std::string* text = attribute->as_text();
  if (!text) { path.push_back(*attribute); return path; }
  for (const std::string_view part : split(*text, ".", -1, false)) {
    const bool digits =
        !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    const auto index = digits ? parse_int(part, 10) : std::nullopt;
    path.push_back(index ? Object(*index) : Object(part));
  }
  return path;
}

Object follow(Interpreter& in, Object item, const Objects& path, const Object* fallback = nullptr) {
  for (const Object& part : path) {
    item = in.item(item, part);
    if (fallback && !fallback->is_none() && item.is_undefined()) item = *fallback;
  }
  return item;
}

Object fold_case(Interpreter& in, const Object& value, bool case_sensitive) {
  const std::string* text = value.as_text();
  if (case_sensitive || !text) return value;
  in.budget().charge_text(text->size());
  return to_lower(*text);
}

void reject_nan(const Object& key) {
  const double* d = key.as_real();
  if (d && std::isnan(*d)) fail_unsupported("sorting NaN");
}

// The stable order of `keys`: places in sorted order.
std::vector<std::size_t> sorted_places(Budget& budget, const Objects& keys, bool reverse) {
  for (const Object& key : keys) {
    reject_nan(key);
    if (const Sequence* s = key.as_sequence()) {
      for (const Object& part : s->items) reject_nan(part);
    }
  }
  std::vector<std::size_t> places(keys.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::stable_sort(places.begin(), places.end(), [&](std::size_t a, std::size_t b) {
    return reverse ? compare(budget, CompareOp::less, keys[b], keys[a])
                   : compare(budget, CompareOp::less, keys[a], keys[b]);
  });
  return places;
}

Objects pick(const Objects& items, const std::vector<std::size_t>& places) {
  Objects out;
  out.reserve(places.size());
  for (const std::size_t place : places) out.push_back(items[place]);
  return out;
}

Object filter_list(Interpreter& in, const Object& value, const Args& args) {
  bind_nothing("list", args);
  return make_list(in.budget(), items_of(in.budget(), value));
}

Object filter_first(Interpreter& in, const Object& value, const Args& args) {
  bind_nothing("first", args);
  const Object none = Object::undefined("No first item, sequence was empty.");
  if (Iterator* i = value.as_iterator()) return i->next < i->items.size() ? i->items[i->next++] : none;
  if (const Sequence* s = value.as_sequence()) return s->items.empty() ? none : s->items.front();
  const Objects items = items_of(in.budget(), value);
  return items.empty() ? none : items.front();
}

Object filter_last(Interpreter& in, const Object& value, const Args& args) {
  bind_nothing("last", args);
  if (value.as_iterator()) fail("'generator' object is not reversible");
  if (const Sequence* s = value.as_sequence(); s && !s->items.empty()) return s->items.back();
  const Objects items = items_of(in.budget(), value);
  return items.empty() ? Object::undefined("No last item, sequence was empty.") : items.back();
}

Object filter_join(Interpreter& in, const Object& value, const Args& args) {
  const auto [separator_arg, attribute] = bind("join", args, {"d", "attribute"});
  Budget& budget = in.budget();
  const std::string separator = separator_arg ? to_text(budget, *separator_arg) : "";
  const Objects path = attribute_path(attribute);
  Writer out(budget);
  bool first = true;
  for (const Object& item : items_of(budget, value)) {
    if (!first) out.add(separator);
    first = false;
    print(out, follow(in, item, path));
  }
  return out.take();
}

Object filter_items(Interpreter& in, const Object& value, const Args& args) {
  bind_nothing("items", args);
  Objects pairs;
  if (const Dict* dict = value.as_dict()) {
    for (const auto& [k, v] : dict->entries) pairs.push_back(make_tuple(in.budget(), {k, v}));
  } else if (!value.is_undefined()) {
    fail("Can only get item pairs from a mapping.");
  }
  return make_iterator(in.budget(), std::move(pairs));
}

Object filter_reverse(Interpreter& in, const Object& value, const Args& args) {
  bind_nothing("reverse", args);
  Budget& budget = in.budget();
  if (const std::string* text = value.as_text()) {
    budget.charge_text(text->size());
    auto points = code_points(*text);
    std::reverse(points.begin(), points.end());
    return from_code_points(points);
  }
  Objects items = items_of(budget, value);
  std::reverse(items.begin(), items.end());
  // What Python can run backwards gives an iterator, the rest is copied to a list.
  const bool reversible = value.as_sequence() || value.as_dict();
  return reversible ? make_iterator(budget, std::move(items)) : make_list(budget, std::move(items));
}

Object filter_sort(Interpreter& in, const Object& value, const Args& args) {
  const auto [reverse, case_sensitive, attribute] =
      bind("sort", args, {"reverse", "case_sensitive", "attribute"});
  Budget& budget = in.budget();
  const Objects items = items_of(budget, value);
  std::vector<Objects> paths;
  if (attribute && attribute->as_text()) {
    for (const std::string_view part : split(*attribute->as_text(), ",", -1, false)) {
      const Object name(part);
      paths.push_back(attribute_path(&name));
    }
  } else {
    paths.push_back(attribute_path(attribute));
  }
  Objects keys;
  for (const Object& item : items) {
    Objects parts;
    for (const Objects& path : paths)
      parts.push_back(fold_case(in, follow(in, item, path), flag(case_sensitive)));
    keys.push_back(make_list(budget, std::move(parts)));
  }
  return make_list(budget, pick(items, sorted_places(budget, keys, flag(reverse))));
}

Object filter_dictsort(Interpreter& in, const Object& value, const Args& args) {
  const auto [case_sensitive, by, reverse] = bind("dictsort", args, {"case_sensitive", "by", "reverse"});
  Budget& budget = in.budget();
  require_defined(value);
  const Dict* dict = value.as_dict();
  if (!dict) fail("dictsort needs a mapping, not " + type_name(value));
  const std::string order = by ? text_argument(*by, "dictsort's 'by'") : "key";
  if (order != "key" && order != "value") fail("dictsort sorts by 'key' or 'value'");
  Objects pairs, keys;
  for (const auto& [k, v] : dict->entries) {
    pairs.push_back(make_tuple(budget, {k, v}));
    keys.push_back(fold_case(in, order == "key" ? k : v, flag(case_sensitive)));
  }
  return make_list(budget, pick(pairs, sorted_places(budget, keys, flag(reverse))));
}

Object filter_unique(Interpreter& in, const Object& value, const Args& args) {
  const auto [case_sensitive, attribute] = bind("unique", args, {"case_sensitive", "attribute"});
  const Objects path = attribute_path(attribute);
  Objects out, seen;
  for (const Object& item : items_of(in.budget(), value)) {
    Object key = fold_case(in, follow(in, item, path), flag(case_sensitive));
    require_hashable(key);
    if (std::any_of(seen.begin(), seen.end(), [&](const Object& o) { return equal(in.budget(), o, key); }))
      continue;
    seen.push_back(std::move(key));
    out.push_back(item);
  }
  return make_iterator(in.budget(), std::move(out));
}

template <CompareOp op>
Object filter_extreme(Interpreter& in, const Object& value, const Args& args) {
  const auto [case_sensitive, attribute] = bind("min or max", args, {"case_sensitive", "attribute"});
  const Objects path = attribute_path(attribute);
  const Objects items = items_of(in.budget(), value);
  if (items.empty()) return Object::undefined("No aggregated item, sequence was empty.");
  std::size_t best = 0;
  Object best_key = fold_case(in, follow(in, items[0], path), flag(case_sensitive));
  for (std::size_t i = 1; i < items.size(); ++i) {
    Object key = fold_case(in, follow(in, items[i], path), flag(case_sensitive));
    if (compare(in.budget(), op, key, best_key)) { best = i; best_key = std::move(key); }
  }
  return items[best];
}

Object filter_sum(Interpreter& in, const Object& value, const Args& args) {
  const auto [attribute, start] = bind("sum", args, {"attribute", "start"});
  const Objects path = attribute_path(attribute);
  Object total = start ? *start : Object(std::int64_t{0});
  if (total.as_text()) fail("sum() can't sum strings");
  for (const Object& item : items_of(in.budget(), value)) {
    total = binary(in.budget(), BinaryOp::add, total, follow(in, item, path));
  }
  return total;
}

Object filter_attr(Interpreter& in, const Object& value, const Args& args) {
  const auto [name] = bind("attr", args, {"name"}, 1);
  // Unlike value.name this does not fall back to a dict's items.
  if (value.as_dict()) {
    const std::string& key = text_argument(*name, "attr's name");
    const auto method = find_method(in.budget(), value, key);
    return method ? *method : Object::undefined("'dict object' has no attribute '" + key + "'");
  }
  return in.attribute(value, text_argument(*name, "attr's name"));
}

Object filter_batch(Interpreter& in, const Object& value, const Args& args) {
  const auto [count_arg, fill] = bind("batch", args, {"linecount", "fill_with"}, 1);
  Budget& budget = in.budget();
  const std::int64_t count = int_argument(*count_arg, "batch");
  Objects rows, row;
  for (const Object& item : items_of(budget, value)) {
    if (static_cast<std::int64_t>(row.size()) == count) {
      rows.push_back(make_list(budget, std::move(row)));
      row = {};
    }
    row.push_back(item);
  }
  if (!row.empty()) {
    if (fill && !fill->is_none() && static_cast<std::int64_t>(row.size()) < count) {
      budget.charge(static_cast<std::size_t>(count));
      row.resize(static_cast<std::size_t>(count), *fill);
    }
    rows.push_back(make_list(budget, std::move(row)));
  }
  return make_iterator(budget, std::move(rows));
}

Object filter_slice(Interpreter& in, const Object& value, const Args& args) {
  const auto [count_arg, fill] = bind("slice", args, {"slices", "fill_with"}, 1);
  Budget& budget = in.budget();
  const Objects items = items_of(budget, value);
  const std::int64_t count = int_argument(*count_arg, "slice");
  if (count == 0) fail("integer division or modulo by zero");
  Objects slices;
  if (count > 0) {
    budget.charge(static_cast<std::size_t>(count));
    const std::size_t n = static_cast<std::size_t>(count), each = items.size() / n, extra = items.size() % n;
    std::size_t at = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t size = each + (i < extra ? 1 : 0);
      Objects part(items.begin() + static_cast<std::ptrdiff_t>(at),
                   items.begin() + static_cast<std::ptrdiff_t>(at + size));
      at += size;
      if (fill && !fill->is_none() && i >= extra) part.push_back(*fill);
      slices.push_back(make_list(budget, std::move(part)));
    }
  }
  return make_iterator(budget, std::move(slices));
}

Object filter_groupby(Interpreter& in, const Object& value, const Args& args) {
  const auto [attribute, fallback, case_sensitive] =
      bind("groupby", args, {"attribute", "default", "case_sensitive"}, 1);
  Budget& budget = in.budget();
  const Objects path = attribute_path(attribute);
  const Objects items = items_of(budget, value);
  Objects keys;
  for (const Object& item : items)
    keys.push_back(fold_case(in, follow(in, item, path, fallback), flag(case_sensitive)));
  const std::vector<std::size_t> places = sorted_places(budget, keys, false);
  Objects groups;
  for (std::size_t begin = 0; begin < places.size();) {
    std::size_t end = begin;
    Objects members;
    while (end < places.size() && equal(budget, keys[places[end]], keys[places[begin]]))
      members.push_back(items[places[end++]]);
    Object key = follow(in, members.front(), path, fallback);
    groups.push_back(make_tuple(budget, {std::move(key), make_list(budget, std::move(members))}));
    begin = end;
  }
  return make_list(budget, std::move(groups));
}

// map(attribute=..., default=...) or map(filter name, its arguments).
Object filter_map(Interpreter& in, const Object& value, const Args& args) {
  Objects out;
  if (!truthy(value)) return make_iterator(in.budget(), std::move(out));
  if (args.positional.empty()) {
    const auto [attribute, fallback] = bind("map", args, {"attribute", "default"}, 1);
    const Objects path = attribute_path(attribute);
    for (const Object& item : items_of(in.budget(), value)) out.push_back(follow(in, item, path, fallback));
  } else {
    const std::string& name = text_argument(args.positional.front(), "the filter of map");
    const FilterFunction function = find_filter(name);
    if (!function) fail_unsupported("the filter '" + name + "'");
    const DepthGuard guard(in.budget());
    const Args rest{Objects(args.positional.begin() + 1, args.positional.end()), args.keyword};
    for (const Object& item : items_of(in.budget(), value)) out.push_back(function(in, item, rest));
  }
  return make_iterator(in.budget(), std::move(out));
}

// select, reject (test, its arguments) and selectattr, rejectattr (attribute, test, its arguments).
template <bool keep, bool by_attribute>
Object filter_select(Interpreter& in, const Object& value, const Args& args) {
  Objects out;
  if (!truthy(value)) return make_iterator(in.budget(), std::move(out));
  constexpr std::size_t skip = by_attribute ? 1 : 0;
  if (args.positional.size() < skip) fail("Missing parameter for attribute name");
  const Objects path = attribute_path(by_attribute ? &args.positional.front() : nullptr);
  TestFunction test = nullptr;
  Args rest;
  if (args.positional.size() > skip) {
    const std::string& name = text_argument(args.positional[skip], "the name of a test");
    test = find_test(name);
    if (!test) fail_unsupported("the test '" + name + "'");
    rest = {Objects(args.positional.begin() + skip + 1, args.positional.end()), args.keyword};
  }
  for (const Object& item : items_of(in.budget(), value)) {
    const Object subject = follow(in, item, path);
    if ((test ? test(in, subject, rest) : truthy(subject)) == keep) out.push_back(item);
  }
  return make_iterator(in.budget(), std::move(out));
}

constexpr NamedFilter table[] = {
    {"list", filter_list},
    {"first", filter_first},
    {"last", filter_last},
    {"join", filter_join},
    {"items", filter_items},
    {"reverse", filter_reverse},
    {"sort", filter_sort},
    {"dictsort", filter_dictsort},
    {"unique", filter_unique},
    {"min", filter_extreme<CompareOp::less>},
    {"max", filter_extreme<CompareOp::greater>},
    {"sum", filter_sum},
    {"attr", filter_attr},
    {"batch", filter_batch},
    {"slice", filter_slice},
    {"groupby", filter_groupby},
    {"map", filter_map},
    {"select", filter_select<true, false>},
    {"reject", filter_select<false, false>},
    {"selectattr", filter_select<true, true>},
    {"rejectattr", filter_select<false, true>},
};

}  // namespace

std::span<const NamedFilter> sequence_filters() noexcept { return table; }

}  // namespace nibble::jinja
