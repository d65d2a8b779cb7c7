// SPDX-License-Identifier: MIT
// Object: a value while a template runs. Python's types as far as templates can see them; everything but
// namespaces and iterators is immutable and shared, since the sandbox forbids changing lists and dicts.
// Every container knows how deeply it is nested, so destroying, printing or comparing it cannot recurse
// without bound.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/budget.hpp"

namespace nibble::jinja {

class Interpreter;
class Object;
struct Sequence;
struct Dict;
struct Iterator;
struct Namespace;
struct Loop;
struct Callable;

/// A missing variable, member or result. Printing gives "", nearly everything else is an error: `why`.
struct Undefined {
  std::shared_ptr<const std::string> why;
};
struct None {};
/// UTF-8 bytes, in operations a string of code points; `markup` after the filters safe and escape.
struct Text {
  std::shared_ptr<const std::string> bytes;
  bool markup = false;
};

class Object {
 public:
  Object() : data_(None{}) {}
  Object(bool v) : data_(v) {}
  Object(std::int64_t v) : data_(v) {}
  Object(double v) : data_(v) {}
  Object(std::string v) : data_(Text{std::make_shared<const std::string>(std::move(v))}) {}
  Object(std::string_view v) : Object(std::string(v)) {}
  Object(const char* v) : Object(std::string(v)) {}
  template <class T>
  requires std::is_constructible_v<
      std::variant<Undefined, None, bool, std::int64_t, double, Text, std::shared_ptr<const Sequence>,
                   std::shared_ptr<const Dict>, std::shared_ptr<Iterator>, Namespace*, std::shared_ptr<Loop>,
                   std::shared_ptr<const Callable>>,
      std::in_place_type_t<T>, T> explicit Object(std::in_place_type_t<T> type, T v)
      : data_(type, std::move(v)) {}

  static Object undefined(std::string why) {
    return Object(std::in_place_type<Undefined>,
                  Undefined{std::make_shared<const std::string>(std::move(why))});
  }
  static Object markup(std::string text) {
    return Object(std::in_place_type<Text>, Text{std::make_shared<const std::string>(std::move(text)), true});
  }

  const Undefined* as_undefined() const noexcept { return std::get_if<Undefined>(&data_); }
  bool is_undefined() const noexcept { return as_undefined() != nullptr; }
  bool is_none() const noexcept { return std::holds_alternative<None>(data_); }
  const bool* as_bool() const noexcept { return std::get_if<bool>(&data_); }
  const std::int64_t* as_int() const noexcept { return std::get_if<std::int64_t>(&data_); }
  const double* as_real() const noexcept { return std::get_if<double>(&data_); }
  const std::string* as_text() const noexcept {
    const Text* t = std::get_if<Text>(&data_);
    return t ? t->bytes.get() : nullptr;
  }
  bool is_markup() const noexcept {
    const Text* t = std::get_if<Text>(&data_);
    return t && t->markup;
  }
  const Sequence* as_sequence() const noexcept { return pointer<const Sequence>(); }
  const Dict* as_dict() const noexcept { return pointer<const Dict>(); }
  Iterator* as_iterator() const noexcept { return pointer<Iterator>(); }
  Namespace* as_namespace() const noexcept {
    Namespace* const* n = std::get_if<Namespace*>(&data_);
    return n ? *n : nullptr;
  }
  const std::shared_ptr<Loop>* as_loop() const noexcept { return std::get_if<std::shared_ptr<Loop>>(&data_); }
  const Callable* as_callable() const noexcept { return pointer<const Callable>(); }

  /// An int or a bool, which Python counts as one.
  std::optional<std::int64_t> integer_like() const noexcept {
    if (const std::int64_t* i = as_int()) return *i;
    if (const bool* b = as_bool()) return *b ? 1 : 0;
    return std::nullopt;
  }
  /// Any number as a float.
  std::optional<double> number_like() const noexcept {
    if (const double* d = as_real()) return *d;
    if (const auto i = integer_like()) return static_cast<double>(*i);
    return std::nullopt;
  }

 private:
  template <class T>
  T* pointer() const noexcept {
    const std::shared_ptr<T>* p = std::get_if<std::shared_ptr<T>>(&data_);
    return p ? p->get() : nullptr;
  }

  std::variant<Undefined, None, bool, std::int64_t, double, Text, std::shared_ptr<const Sequence>,
               std::shared_ptr<const Dict>, std::shared_ptr<Iterator>, Namespace*, std::shared_ptr<Loop>,
               std::shared_ptr<const Callable>>
      data_;
};

using Objects = std::vector<Object>;

/// list, tuple, range and the three views of a dict behave alike but for printing and indexing.
struct Sequence {
  enum class Kind : std::uint8_t { list, tuple, range, keys, values, items };
  Kind kind = Kind::list;
  int depth = 1;
  Objects items = {};
  std::int64_t start = 0, stop = 0, step = 1;  // of a range
};

struct Dict {
  int depth = 1;
  std::vector<std::pair<Object, Object>> entries = {};
};

/// A generator, evaluated ahead of time but like Python's used up by the first loop over it.
struct Iterator {
  int depth = 1;
  Objects items = {};
  std::size_t next = 0;
};

/// The only thing a template can change. Owned by the interpreter, because it may contain itself.
struct Namespace {
  std::vector<std::pair<std::string, Object>> members;
};

/// The state behind the variable `loop`. A loop with a condition pulls its items lazily, as jinja2 does.
struct Loop {
  int depth = 1;
  Objects source = {};
  std::size_t position = 0;
  std::function<bool(const Object&)> condition = {};
  std::int64_t index0 = -1;
  std::optional<std::int64_t> length = {};
  std::optional<Object> before = {}, current = {}, after = {};
  std::optional<Objects> last_changed = {};
  bool over = false;

  std::optional<Object> pull();
  bool advance();
  const std::optional<Object>& peek();
  std::int64_t total();
};

struct Args {
  Objects positional = {};
  std::vector<std::pair<std::string, Object>> keyword = {};
};

struct Callable {
  std::string name;
  int depth = 1;
  std::function<Object(Interpreter&, const Args&)> body = {};
};

// --- making containers: these pay for the items and bound the nesting ------------------------------

Object make_sequence(Budget& budget, Sequence::Kind kind, Objects items);
inline Object make_list(Budget& budget, Objects items) {
  return make_sequence(budget, Sequence::Kind::list, std::move(items));
}
inline Object make_tuple(Budget& budget, Objects items) {
  return make_sequence(budget, Sequence::Kind::tuple, std::move(items));
}
/// start, start + step, ... before stop. Error beyond 100,000 items, as in the sandbox.
Object make_range(Budget& budget, std::int64_t start, std::int64_t stop, std::int64_t step);
Object make_dict(Budget& budget, std::vector<std::pair<Object, Object>> entries);
Object make_iterator(Budget& budget, Objects items);
Object make_callable(Budget& budget, std::string name, const Object& self,
                     std::function<Object(Interpreter&, const Args&)> body);
/// Levels of containers in `object`: 0 for a number or a string.
int depth_of(const Object& object) noexcept;
/// Throws when a container one deeper than its deepest member would nest too far.
int depth_around(const Objects& items);

/// Sets or replaces; a later value keeps the earlier key's place, as in Python.
void dict_set(Budget& budget, std::vector<std::pair<Object, Object>>& entries, Object key, Object value);
const Object* dict_find(Budget& budget, const Dict& dict, const Object& key);
const Object* dict_find_text(Budget& budget, const Dict& dict, std::string_view key);

// --- reading --------------------------------------------------------------------------------------

/// Python's name of the type, for messages ("str", "dict_items").
std::string type_name(const Object& object);
bool truthy(const Object& object);
/// len(); error where Python has none.
std::int64_t length_of(const Object& object);
bool is_iterable(const Object& object) noexcept;
/// All items a loop would see: characters, keys, members. Uses up an iterator.
Objects items_of(Budget& budget, const Object& object);
/// Throws the reason when `object` is undefined.
void require_defined(const Object& object);
/// Throws for types Python cannot hash.
void require_hashable(const Object& object);

/// Copies outside data in; bounds its nesting.
Object from_value(Budget& budget, const Value& value, int depth = 0);

}  // namespace nibble::jinja
