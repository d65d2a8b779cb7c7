// SPDX-License-Identifier: MIT
// The encoder. A text is cut at literal tokens; what lies between is cut into words; the characters (or
// bytes) of a word are merged, best pair first and leftmost among equals, until no pair merges:
//   Ġ l o w e r  ->  Ġ lo w er  ->  Ġlo w er  ->  Ġlow er  ->  Ġlower
// Pairs wait in a heap and symbols form a linked list, so a word of n symbols costs n log n. Words repeat,
// so the tokens of recent ones are found again in the output by a small direct-mapped cache.
#include <algorithm>
#include <unordered_map>

#include "nibble/core/error.hpp"
#include "nibble/text/unicode.hpp"
#include "vocabulary.hpp"

namespace nibble::text::detail {
namespace {

using Tables = Tokenizer::Tables;

constexpr std::uint32_t nowhere = 0xFFFFFFFFu;
constexpr std::size_t max_text_bytes = std::size_t{1}
                                       << 29;  // offsets are 32 bits, and a space may become three bytes
constexpr std::size_t max_cached_bytes = 64;

struct Symbol {
  std::uint32_t begin, size;  // bytes in the encoder's buffer; size 0: merged into its left neighbour
  std::uint32_t prev, next;   // symbols, or nowhere
  Token id;                   // no_token: not looked up, or not in the vocabulary
};

// A pair that may merge. Stale when either side has changed since, which its size tells.
struct Candidate {
  std::uint64_t order;  // rank << 32 | left: lower merges first
  std::uint32_t right, size;
  Token merged;

  std::uint32_t left() const noexcept { return static_cast<std::uint32_t>(order); }
  friend bool operator<(const Candidate& a, const Candidate& b) noexcept {
    return a.order > b.order;
  }  // min-heap
};

class Encoder {
 public:
  Encoder(const Tables& tables, std::string_view text, std::vector<Token>& out)
      : tables_(tables), text_(text), out_(out) {
    buffered_ = tables.kind == Tables::Kind::sentence_piece || (tables.nfc && !unicode::is_surely_nfc(text));
    if (buffered_) buffer_.reserve(text.size() + text.size() / 2 + 16);
    cache_.resize(std::clamp(std::bit_ceil(text.size() / 4), std::size_t{16}, std::size_t{8192}));
  }

  // Encodes text_[begin, end), which holds no literal token.
  void fragment(std::size_t begin, std::size_t end, bool space_prefix) {
    fragment_out_ = out_.size();
    const std::string_view part = text_.substr(begin, end - begin);
    if (tables_.kind == Tables::Kind::sentence_piece) return pieces(part, space_prefix);
    if (buffered_) {
      begin = buffer_.size();
      buffer_ += unicode::to_nfc(part);
      end = buffer_.size();
    }
    const std::string_view all = base().substr(0, end);
    for (std::size_t next; begin < end; begin = next) {
      next = next_word(tables_.pre, all, begin);
      word(begin, next - begin);
    }
  }

 private:
  std::string_view base() const noexcept { return buffered_ ? std::string_view(buffer_) : text_; }

  void pieces(std::string_view part, bool space_prefix) {
    std::size_t begin = buffer_.size();
    if (space_prefix) buffer_ += meta_space;
    for (const char c : part) {
      if (c == ' ') buffer_ += meta_space;
      else buffer_ += c;
    }
    const std::string_view all(buffer_);
    while (begin < all.size()) {
      // Up to a meta space that no piece can reach across from the character before it.
      std::size_t end = behind_spaces(all, begin);
      while ((end = std::min(all.find(meta_space, end), all.size())) < all.size() &&
             tables_.joins_space[static_cast<std::uint8_t>(all[end - 1])])
        end = behind_spaces(all, end);
      word(begin, end - begin);
      begin = end;
    }
  }

  static std::size_t behind_spaces(std::string_view text, std::size_t pos) noexcept {
    while (text.substr(pos, meta_space.size()) == meta_space) pos += meta_space.size();
    return pos;
  }

  void word(std::size_t begin, std::size_t size) {
    const std::string_view text = base().substr(begin, size);
    if (size > max_cached_bytes) return merge_word(begin, text);
    Cached& entry = cache_[hash_bytes(text, 0) & (cache_.size() - 1)];
    const std::size_t at = out_.size();
    if (entry.size == size && base().substr(entry.begin, size) == text) {
      out_.resize(at + entry.tokens);
      std::copy_n(out_.data() + entry.out, entry.tokens, out_.data() + at);
      return;
    }
    saw_unknown_ = false;
    merge_word(begin, text);
    if (saw_unknown_) return;  // fused with its neighbours, so not a function of the word
    entry = {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(size),
             static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(out_.size() - at)};
  }

  void merge_word(std::size_t begin, std::string_view text) {
    if (tables_.kind == Tables::Kind::byte_level) byte_level_word(begin, text);
    else sentence_piece_word(begin, text);
  }

  void byte_level_word(std::size_t begin, std::string_view text) {
    if (tables_.ignore_merges) {
      spelled_.clear();
      for (const char c : text)
        unicode::append_utf8(spelled_, byte_alphabet().to_char[static_cast<std::uint8_t>(c)]);
      const Token whole = tables_.find(spelled_);
      if (whole != no_token && tables_.type(whole) == TokenType::normal) return out_.push_back(whole);
    }
    symbols_.clear();
    for (std::size_t i = 0; i < text.size(); ++i) {
      // A byte that the vocabulary lacks has no token; the peers drop it too.
      const Token id = tables_.byte_tokens[static_cast<std::uint8_t>(text[i])];
      if (id != no_token) add_symbol(begin + i, 1, id);
    }
    merge_symbols(
        [this](const Symbol& left, const Symbol& right) { return tables_.merges.find(left.id, right.id); });
    for (std::uint32_t i = 0; i < symbols_.size(); i = symbols_[i].next) out_.push_back(symbols_[i].id);
  }

  void sentence_piece_word(std::size_t begin, std::string_view text) {
    symbols_.clear();
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t size = unicode::decode_utf8(text, i).size;
      add_symbol(begin + i, size, no_token);
      i += size;
    }
    unused_splits_.clear();
    merge_symbols([this](const Symbol& left, const Symbol& right) -> Merge {
      const std::string_view both = base().substr(left.begin, left.size + right.size);
      const Token id = tables_.find_piece(both);
      if (id == no_token) return {0, no_token};
      if (tables_.type(id) == TokenType::unused) unused_splits_[both] = left.size;
      return {tables_.ranks[static_cast<std::size_t>(id)], id};
    });
    for (std::uint32_t i = 0; i < symbols_.size(); i = symbols_[i].next) emit(symbols_[i]);
  }

  // An unused piece serves merging only: in the result it falls apart again into what it was made of.
  void emit(const Symbol& symbol) {
    std::vector<std::string_view> todo{base().substr(symbol.begin, symbol.size)};
    Token id = symbol.id;
    while (!todo.empty()) {
      const std::string_view text = todo.back();
      todo.pop_back();
      if (id == no_token) id = tables_.find_piece(text);
      const auto split = id != no_token && tables_.type(id) == TokenType::unused ? unused_splits_.find(text)
                                                                                 : unused_splits_.end();
      if (split != unused_splits_.end()) {
        todo.push_back(text.substr(split->second));
        todo.push_back(text.substr(0, split->second));
      } else if (id != no_token) {
        out_.push_back(id);
      } else {
        for (const char c : text) emit_byte(static_cast<std::uint8_t>(c));
      }
      id = no_token;
    }
  }

  void emit_byte(std::uint8_t byte) {
    if (tables_.byte_tokens[byte] != no_token) return out_.push_back(tables_.byte_tokens[byte]);
    saw_unknown_ = true;
    if (!tables_.unk || (out_.size() > fragment_out_ && out_.back() == *tables_.unk)) return;
    out_.push_back(*tables_.unk);
  }

  void add_symbol(std::size_t begin, std::size_t size, Token id) {
    const auto i = static_cast<std::uint32_t>(symbols_.size());
    if (i > 0) symbols_.back().next = i;
    symbols_.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(size),
                        i > 0 ? i - 1 : nowhere, nowhere, id});
  }

  template <class FindMerge>
  void merge_symbols(FindMerge find_merge) {
    const auto consider = [&](std::uint32_t left, std::uint32_t right) {
      const Symbol &l = symbols_[left], &r = symbols_[right];
      const Merge merge = find_merge(l, r);
      if (merge.merged == no_token) return false;
      heap_.push_back(
          {static_cast<std::uint64_t>(merge.rank) << 32 | left, right, l.size + r.size, merge.merged});
      return true;
    };
    heap_.clear();
    for (std::uint32_t i = 1; i < symbols_.size(); ++i) consider(i - 1, i);
    std::make_heap(heap_.begin(), heap_.end());
    while (!heap_.empty()) {
      const Candidate best = heap_.front();
      std::pop_heap(heap_.begin(), heap_.end());
      heap_.pop_back();
      Symbol &left = symbols_[best.left()], &right = symbols_[best.right];
      if (left.size == 0 || right.size == 0 || left.size + right.size != best.size) continue;
      left.size = best.size;
      left.id = best.merged;
      left.next = right.next;
      right.size = 0;
      if (left.next != nowhere) symbols_[left.next].prev = best.left();
      if (left.prev != nowhere && consider(left.prev, best.left()))
        std::push_heap(heap_.begin(), heap_.end());
      if (left.next != nowhere && consider(best.left(), left.next))
        std::push_heap(heap_.begin(), heap_.end());
    }
  }

  struct Cached {
    std::uint32_t begin = 0, size = 0;  // the word, in base(); size 0: empty
    std::uint32_t out = 0, tokens = 0;  // its tokens, in out_
  };

  const Tables& tables_;
  std::string_view text_;
  std::vector<Token>& out_;
  bool buffered_ = false;  // words lie in buffer_ rather than in text_
  std::string buffer_;
  std::vector<Cached> cache_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
  std::unordered_map<std::string_view, std::size_t> unused_splits_;
  std::string spelled_;
  std::size_t fragment_out_ = 0;
  bool saw_unknown_ = false;
};

}  // namespace

void encode(const Tables& tables, std::string_view text, EncodeOptions options, std::vector<Token>& out) {
  if (text.size() > max_text_bytes)
    throw Error(Errc::invalid_argument, "a text of " + std::to_string(text.size()) +
                                            " bytes is longer than the " + std::to_string(max_text_bytes) +
                                            " that one encode() takes");
  if (options.add_special && tables.add_bos) out.push_back(*tables.bos);
  Encoder encoder(tables, text, out);
  const Trie& literals = options.parse_special ? tables.special : tables.literal;
  bool prefix = tables.space_prefix;
  for (std::size_t pos = 0; pos < text.size();) {
    const Trie::Match cut =
        literals.empty() ? Trie::Match{text.size(), 0, no_token} : literals.find(text, pos);
    if (cut.begin > pos) {
      encoder.fragment(pos, cut.begin, prefix);
      prefix = false;
    }
    if (cut.size > 0) {
      out.push_back(cut.token);
      prefix = tables.space_prefix && tables.legacy_prefix;
    }
    pos = cut.begin + cut.size;
  }
  if (options.add_special && tables.add_eos) out.push_back(*tables.eos);
}

}  // namespace nibble::text::detail
