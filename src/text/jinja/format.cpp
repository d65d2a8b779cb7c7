// SPDX-License-Identifier: MIT
// Python's format % arguments: flags, width and precision of the conversions s r d i u f F e E g G x X o c.
#include <charconv>
#include <cmath>

#include "text/jinja/operators.hpp"
#include "text/jinja/print.hpp"
#include "text/jinja/python_text.hpp"

namespace nibble::jinja {
namespace {

struct Spec {
  bool left = false, sign = false, space = false, zero = false, alternate = false;
  std::size_t width = 0;
  std::optional<std::size_t> precision = {};
  char type = 0;
};

constexpr std::size_t max_precision = 500;

std::string upper_ascii(std::string text) {
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return text;
}

// C's %e, %f and %g of a non-negative number: to_chars with a precision is defined by them.
std::string real_digits(double value, const Spec& spec) {
  if (std::isinf(value)) return "inf";
  if (std::isnan(value)) return "nan";
  if (spec.alternate) fail_unsupported("the flag '#' in a format");
  const std::size_t precision = spec.precision.value_or(6);
  char buffer[1024];
  const char kind = static_cast<char>(spec.type | 0x20);
  const auto style = kind == 'f' ? std::chars_format::fixed
                     : kind == 'e' ? std::chars_format::scientific : std::chars_format::general;
  const auto [end, ec] =
      std::to_chars(buffer, buffer + sizeof buffer, value, style, static_cast<int>(precision));
  if (ec != std::errc{}) fail_unsupported("a format with this many digits");
  return std::string(buffer, end);
}

std::string integer_digits(std::uint64_t magnitude, char type) {
  char buffer[80];
  const int base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : 10;
  const auto [end, ec] = std::to_chars(buffer, buffer + sizeof buffer, magnitude, base);
  return std::string(buffer, end);
}

class PercentFormat {
 public:
  PercentFormat(Budget& budget, const std::string& format, const Object& arguments)
      : budget_(budget), out_(budget), format_(format), arguments_(arguments) {
    const Sequence* s = arguments.as_sequence();
    tuple_ = s && s->kind == Sequence::Kind::tuple ? s : nullptr;
  }

  std::string run() {
    while (at_ < format_.size()) {
      const std::size_t next = std::min(format_.find('%', at_), format_.size());
      out_.add(std::string_view(format_).substr(at_, next - at_));
      at_ = next;
      if (at_ < format_.size()) conversion();
    }
    // Python lets whatever can be indexed, but for tuples and strings, stay unused.
    const Sequence* s = arguments_.as_sequence();
    const bool indexable =
        arguments_.as_dict() || arguments_.is_undefined() || (s && s->kind <= Sequence::Kind::range);
    const bool all_used = tuple_ ? used_ == tuple_->items.size() : used_ > 0 || indexable;
    if (!all_used) fail("not all arguments converted during string formatting");
    return out_.take();
  }

 private:
  char peek() const {
    if (at_ >= format_.size()) fail("incomplete format");
    return format_[at_];
  }

  const Object& next_argument() {
    if (tuple_ ? used_ >= tuple_->items.size() : used_ > 0) fail("not enough arguments for format string");
    return tuple_ ? tuple_->items[used_++] : (++used_, arguments_);
  }

  std::size_t number() {
    if (peek() == '*') {
      ++at_;
      const auto value = next_argument().integer_like();
      if (!value || *value < 0) fail_unsupported("this '*' in a format");
      return static_cast<std::size_t>(*value);
    }
    std::size_t value = 0;
    while (peek() >= '0' && peek() <= '9') {
      value = value * 10 + static_cast<std::size_t>(peek() - '0');
      if (value > 1'000'000'000) fail_limit("a format wider than its limit");
      ++at_;
    }
    return value;
  }

  const Object* mapping_key() {
    if (peek() != '(') return nullptr;
    const std::size_t close = format_.find(')', at_);
    if (close == format_.npos) fail("incomplete format key");
    const Dict* dict = arguments_.as_dict();
    if (!dict) fail("format requires a mapping");
    const std::string key = format_.substr(at_ + 1, close - at_ - 1);
    at_ = close + 1;
    const Object* value = dict_find_text(budget_, *dict, key);
    if (!value) fail("no key '" + key + "' for the format");
    return value;
  }

  void conversion() {
    ++at_;
    const Object* keyed = mapping_key();
    Spec spec;
    for (bool flags = true; flags;) {
      switch (peek()) {
        case '-': spec.left = true; break;
        case '+': spec.sign = true; break;
        case ' ': spec.space = true; break;
        case '0': spec.zero = true; break;
        case '#': spec.alternate = true; break;
        default: flags = false;
      }
      if (flags) ++at_;
    }
    spec.width = number();
    if (peek() == '.') { ++at_; spec.precision = number(); }
    if (peek() == 'l' || peek() == 'h' || peek() == 'L') ++at_;
    spec.type = peek();
    ++at_;
    if (spec.type == '%') { out_.add("%"); return; }
    write(spec, keyed ? *keyed : next_argument());
  }

  void write(const Spec& spec, const Object& value) {
    switch (spec.type) {
      case 's': pad(spec, "", cut(spec, to_text(budget_, value))); return;
      case 'r': pad(spec, "", cut(spec, to_repr(budget_, value))); return;
      case 'c': pad(spec, "", character(value)); return;
      case 'd': case 'i': case 'u': case 'x': case 'X': case 'o': write_integer(spec, value); return;
      case 'f': case 'F': case 'e': case 'E': case 'g': case 'G': write_real(spec, value); return;
      default: fail_unsupported(std::string("the format '%") + spec.type + "'");
    }
  }

  static std::string cut(const Spec& spec, std::string text) {
    if (spec.precision) text.resize(byte_offset(text, *spec.precision));
    return text;
  }

  std::string character(const Object& value) {
    if (const std::string* text = value.as_text()) {
      if (count_code_points(*text) != 1) fail("%c requires int or char");
      return *text;
    }
    const auto code = value.integer_like();
    if (!code) fail("%c requires int or char");
    if (*code < 0 || *code > 0x10FFFF) fail("%c arg not in range(0x110000)");
    if (*code >= 0xD800 && *code < 0xE000) fail_unsupported("a lone surrogate");
    std::string out;
    encode(static_cast<std::int32_t>(*code), out);
    return out;
  }

  std::string sign_of(const Spec& spec, bool negative) const {
    return negative ? "-" : spec.sign ? "+" : spec.space ? " " : "";
  }

  void write_integer(const Spec& spec, const Object& value) {
    require_defined(value);
    auto v = value.integer_like();
    const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
    if (const double* d = value.as_real(); d && decimal) {
      if (!(std::fabs(*d) < 9.2e18)) fail_unsupported("an integer beyond 64 bits");
      v = static_cast<std::int64_t>(*d);
    }
    if (!v) fail(std::string("%") + spec.type + " format: a number is required, not " + type_name(value));
    if (spec.alternate && !decimal) fail_unsupported("the flag '#' in a format");
    const auto bits = static_cast<std::uint64_t>(*v);
    std::string digits = integer_digits(*v < 0 ? std::uint64_t{0} - bits : bits, spec.type);
    if (spec.type == 'X') digits = upper_ascii(std::move(digits));
    if (spec.precision && *spec.precision > digits.size()) {
      budget_.charge_text(*spec.precision);
      digits.insert(0, *spec.precision - digits.size(), '0');
    }
    pad(spec, sign_of(spec, *v < 0), digits);
  }

  void write_real(const Spec& spec, const Object& value) {
    require_defined(value);
    const auto v = value.number_like();
    if (!v) fail("must be real number, not " + type_name(value));
    if (spec.precision.value_or(0) > max_precision) fail_unsupported("a format with this many digits");
    std::string digits = real_digits(std::fabs(*v), spec);
    if (spec.type < 'a') digits = upper_ascii(std::move(digits));
    pad(spec, sign_of(spec, std::signbit(*v) && !std::isnan(*v)), digits);
  }

  void pad(const Spec& spec, const std::string& sign, const std::string& text) {
    const std::size_t length = sign.size() + count_code_points(text);
    const std::size_t fill = spec.width > length ? spec.width - length : 0;
    const bool zeros = spec.zero && !spec.left && spec.type != 's' && spec.type != 'r' && spec.type != 'c';
    if (!spec.left && !zeros) out_.add(fill, ' ');
    out_.add(sign);
    if (zeros) out_.add(fill, '0');
    out_.add(text);
    if (spec.left) out_.add(fill, ' ');
  }

  Budget& budget_;
  Writer out_;
  const std::string& format_;
  const Object& arguments_;
  const Sequence* tuple_ = nullptr;
  std::size_t at_ = 0;
  std::size_t used_ = 0;
};

}  // namespace

std::string percent_format(Budget& budget, const std::string& format, const Object& arguments) {
  return PercentFormat(budget, format, arguments).run();
}

}  // namespace nibble::jinja
