// SPDX-License-Identifier: MIT
// Containers of the template runtime: construction with its price, truth, length and iteration.
#include "text/jinja/object.hpp"

#include <algorithm>
#include <unordered_map>

#include "text/jinja/operators.hpp"
#include "text/jinja/python_text.hpp"

namespace nibble::jinja {
namespace {

constexpr int max_nesting = 200;
constexpr std::int64_t max_range = 100'000;

int checked_depth(int depth) {
  if (depth > max_nesting) fail_limit("a value nested deeper than " + std::to_string(max_nesting));
  return depth;
}

}  // namespace

int depth_of(const Object& object) noexcept {
  if (const Sequence* s = object.as_sequence()) return s->depth;
  if (const Dict* d = object.as_dict()) return d->depth;
  if (const Iterator* i = object.as_iterator()) return i->depth;
  if (const auto* l = object.as_loop()) return (*l)->depth;
  if (const Callable* c = object.as_callable()) return c->depth;
  return 0;
}

int depth_around(const Objects& items) {
  int depth = 0;
  for (const Object& item : items) depth = std::max(depth, depth_of(item));
  return checked_depth(depth + 1);
}

Object make_sequence(Budget& budget, Sequence::Kind kind, Objects items) {
  budget.charge(1 + items.size());
  auto s = std::make_shared<Sequence>();
  s->kind = kind;
  s->depth = depth_around(items);
  s->items = std::move(items);
  return Object(std::in_place_type<std::shared_ptr<const Sequence>>,
                std::shared_ptr<const Sequence>(std::move(s)));
}

Object make_range(Budget& budget, std::int64_t start, std::int64_t stop, std::int64_t step) {
  if (step == 0) fail("range() arg 3 must not be zero");
  // Distances are taken in unsigned arithmetic, where INT64_MAX - INT64_MIN fits.
  const auto a = static_cast<std::uint64_t>(start), b = static_cast<std::uint64_t>(stop);
  const std::uint64_t distance = step > 0 ? (start < stop ? b - a : 0) : (start > stop ? a - b : 0);
  const std::uint64_t stride =
      step > 0 ? static_cast<std::uint64_t>(step) : std::uint64_t{0} - static_cast<std::uint64_t>(step);
  const std::uint64_t count = distance / stride + (distance % stride != 0 ? 1 : 0);
  if (count > static_cast<std::uint64_t>(max_range)) {
    fail_limit("range of more than " + std::to_string(max_range) + " items");
  }
  budget.charge(1 + count);
  auto s = std::make_shared<Sequence>();
  s->kind = Sequence::Kind::range;
  s->start = start;
  s->stop = stop;
  s->step = step;
  s->items.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    s->items.emplace_back(static_cast<std::int64_t>(a + i * static_cast<std::uint64_t>(step)));
  }
  return Object(std::in_place_type<std::shared_ptr<const Sequence>>,
                std::shared_ptr<const Sequence>(std::move(s)));
}

Object make_dict(Budget& budget, std::vector<std::pair<Object, Object>> entries) {
  budget.charge(1 + entries.size());
  auto d = std::make_shared<Dict>();
  int depth = 0;
  for (const auto& [key, value] : entries) depth = std::max({depth, depth_of(key), depth_of(value)});
  d->depth = checked_depth(depth + 1);
  d->entries = std::move(entries);
  return Object(std::in_place_type<std::shared_ptr<const Dict>>, std::shared_ptr<const Dict>(std::move(d)));
}

Object make_iterator(Budget& budget, Objects items) {
  budget.charge(1 + items.size());
  auto i = std::make_shared<Iterator>();
  i->depth = depth_around(items);
  i->items = std::move(items);
  return Object(std::in_place_type<std::shared_ptr<Iterator>>, std::move(i));
}

Object make_callable(Budget& budget, std::string name, const Object& self,
                     std::function<Object(Interpreter&, const Args&)> body) {
  budget.charge(1);
  auto c = std::make_shared<Callable>();
  c->name = std::move(name);
  c->depth = checked_depth(depth_of(self) + 1);
  c->body = std::move(body);
  return Object(std::in_place_type<std::shared_ptr<const Callable>>,
                std::shared_ptr<const Callable>(std::move(c)));
}

void dict_set(Budget& budget, std::vector<std::pair<Object, Object>>& entries, Object key, Object value) {
  require_hashable(key);
  for (auto& [k, v] : entries) {
    if (equal(budget, k, key)) { v = std::move(value); return; }
  }
  entries.emplace_back(std::move(key), std::move(value));
}

const Object* dict_find(Budget& budget, const Dict& dict, const Object& key) {
  for (const auto& [k, v] : dict.entries) {
    if (equal(budget, k, key)) return &v;
  }
  return nullptr;
}

const Object* dict_find_text(Budget& budget, const Dict& dict, std::string_view key) {
  budget.charge(1 + dict.entries.size() / 8);
  for (const auto& [k, v] : dict.entries) {
    const std::string* text = k.as_text();
    if (text && *text == key) return &v;
  }
  return nullptr;
}

std::string type_name(const Object& object) {
  if (object.is_undefined()) return "Undefined";
  if (object.is_none()) return "NoneType";
  if (object.as_bool()) return "bool";
  if (object.as_int()) return "int";
  if (object.as_real()) return "float";
  if (object.as_text()) return "str";
  if (object.as_dict()) return "dict";
  if (object.as_iterator()) return "generator";
  if (object.as_namespace()) return "Namespace";
  if (object.as_loop()) return "LoopContext";
  if (object.as_callable()) return "function";
  switch (object.as_sequence()->kind) {
    case Sequence::Kind::list: return "list";
    case Sequence::Kind::tuple: return "tuple";
    case Sequence::Kind::range: return "range";
    case Sequence::Kind::keys: return "dict_keys";
    case Sequence::Kind::values: return "dict_values";
    case Sequence::Kind::items: return "dict_items";
  }
  return "object";
}

bool truthy(const Object& object) {
  if (object.is_undefined() || object.is_none()) return false;
  if (const bool* b = object.as_bool()) return *b;
  if (const std::int64_t* i = object.as_int()) return *i != 0;
  if (const double* d = object.as_real()) return *d != 0.0;
  if (const std::string* t = object.as_text()) return !t->empty();
  if (const Sequence* s = object.as_sequence()) return !s->items.empty();
  if (const Dict* d = object.as_dict()) return !d->entries.empty();
  if (const auto* l = object.as_loop()) return (*l)->total() != 0;
  return true;
}

std::int64_t length_of(const Object& object) {
  if (object.is_undefined()) return 0;
  if (const std::string* t = object.as_text()) return static_cast<std::int64_t>(count_code_points(*t));
  if (const Sequence* s = object.as_sequence()) return static_cast<std::int64_t>(s->items.size());
  if (const Dict* d = object.as_dict()) return static_cast<std::int64_t>(d->entries.size());
  if (const auto* l = object.as_loop()) return (*l)->total();
  fail("object of type '" + type_name(object) + "' has no len()");
}

bool is_iterable(const Object& object) noexcept {
  return object.is_undefined() || object.as_text() || object.as_sequence() || object.as_dict() ||
         object.as_iterator() || object.as_loop();
}

Objects items_of(Budget& budget, const Object& object) {
  Objects items;
  if (object.is_undefined()) return items;
  if (const std::string* t = object.as_text()) {
    budget.charge(1 + t->size());
    for (std::size_t at = 0; at < t->size();) {
      const std::size_t length = decode(*t, at).length;
      items.emplace_back(t->substr(at, length));
      at += length;
    }
  } else if (const Sequence* s = object.as_sequence()) {
    budget.charge(1 + s->items.size());
    items = s->items;
  } else if (const Dict* d = object.as_dict()) {
    budget.charge(1 + d->entries.size());
    for (const auto& entry : d->entries) items.push_back(entry.first);
  } else if (Iterator* i = object.as_iterator()) {
    budget.charge(1 + i->items.size() - i->next);
    items.assign(i->items.begin() + static_cast<std::ptrdiff_t>(i->next), i->items.end());
    i->next = i->items.size();
  } else if (object.as_loop()) {
    fail_unsupported("iterating over 'loop'");
  } else {
    fail("'" + type_name(object) + "' object is not iterable");
  }
  return items;
}

void require_defined(const Object& object) {
  if (const Undefined* u = object.as_undefined()) fail(u->why ? *u->why : "a value is undefined");
}

void require_hashable(const Object& object) {
  const Sequence* s = object.as_sequence();
  if (object.as_dict() || (s && s->kind != Sequence::Kind::tuple && s->kind != Sequence::Kind::range)) {
    fail("unhashable type: '" + type_name(object) + "'");
  }
  if (s && s->kind == Sequence::Kind::tuple) {
    for (const Object& item : s->items) require_hashable(item);
  }
}

Object from_value(Budget& budget, const Value& value, int depth) {
  checked_depth(depth);
  if (value.is_undefined()) return Object::undefined("an undefined value was passed in");
  if (value.is_none()) return Object();
  if (const bool* b = value.as_bool()) return *b;
  if (const std::int64_t* i = value.as_integer()) return *i;
  if (const double* d = value.as_real()) return *d;
  if (const std::string* s = value.as_string()) {
    budget.charge_text(s->size());
    return *s;
  }
  if (const Value::List* list = value.as_list()) {
    Objects items;
    items.reserve(list->size());
    for (const Value& v : *list) items.push_back(from_value(budget, v, depth + 1));
    return make_list(budget, std::move(items));
  }
  std::vector<std::pair<Object, Object>> entries;
  std::unordered_map<std::string_view, std::size_t> places;
  for (const Value::Member& m : *value.as_map()) {
    const auto [place, is_new] = places.emplace(m.key, entries.size());
    if (is_new) entries.emplace_back(Object(m.key), Object());
    entries[place->second].second = from_value(budget, m.value, depth + 1);
  }
  return make_dict(budget, std::move(entries));
}

// --- Loop ---------------------------------------------------------------------------------------------

std::optional<Object> Loop::pull() {
  while (position < source.size()) {
    // Copies: the condition may ask a saved `loop` for its length, which replaces source and condition.
    const Object item = source[position++];
    const std::function<bool(const Object&)> test = condition;
    if (!test || test(item)) return item;
  }
  return std::nullopt;
}

bool Loop::advance() {
  std::optional<Object> next = after ? std::exchange(after, std::nullopt) : pull();
  if (!next) return false;
  ++index0;
  before = std::exchange(current, std::move(next));
  return true;
}

const std::optional<Object>& Loop::peek() {
  if (!after) after = pull();
  return after;
}

std::int64_t Loop::total() {
  if (!length) {
    if (condition) {
      Objects rest;
      while (std::optional<Object> item = pull()) rest.push_back(std::move(*item));
      length = static_cast<std::int64_t>(rest.size()) + index0 + 1 + (after ? 1 : 0);
      source = std::move(rest);
      position = 0;
      condition = nullptr;
    } else {
      length = static_cast<std::int64_t>(source.size());
    }
  }
  return *length;
}

}  // namespace nibble::jinja
