// SPDX-License-Identifier: MIT
// The vocabulary behind a Tokenizer: all entries in one byte buffer, an open-addressing table from entry
// to id, a second one from a pair of ids to its merge, and a trie of the entries that are cut out of the
// input before merging. Flat arrays, built in one pass: a vocabulary of 262,144 entries opens in tens of ms.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nibble/text/pre_tokenizer.hpp"
#include "nibble/text/tokenizer.hpp"

namespace nibble::text::detail {

inline constexpr Token no_token = -1;

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

/// Hash of a short string, eight bytes a step.
inline std::uint64_t hash_bytes(std::string_view text, std::uint64_t seed) noexcept {
  std::uint64_t h = seed ^ (text.size() * 0x9E3779B97F4A7C15ull);
  const char* p = text.data();
  std::size_t n = text.size();
  for (std::uint64_t word; n >= 8; p += 8, n -= 8) {
    std::memcpy(&word, p, 8);
    h = mix(h ^ word, 0xD6E8FEB86659FD93ull);
  }
  std::uint64_t tail = 0;
  if (n > 0) std::memcpy(&tail, p, n);
  return mix(h ^ tail, 0xA0761D6478BD642Full);
}

/// Entry text -> id. Linear probing at a load of at most one half.
class TextIndex {
 public:
  /// `texts` gives an entry's text by id, here and in every later call.
  template <class Texts>
  void insert(std::string_view text, Token id, const Texts& texts) {
    const std::uint64_t h = hash_bytes(text, seed_);
    for (std::size_t i = h & mask_;; i = (i + 1) & mask_) {
      Slot& slot = slots_[i];
      if (slot.id != no_token && (slot.tag != tag_of(h) || texts(slot.id) != text)) continue;
      slot = {tag_of(h), id};  // of equal entries the last one wins, as in the peers
      return;
    }
  }

  template <class Texts>
  Token find(std::string_view text, const Texts& texts) const noexcept {
    const std::uint64_t h = hash_bytes(text, seed_);
    for (std::size_t i = h & mask_;; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.id == no_token) return no_token;
      if (slot.tag == tag_of(h) && texts(slot.id) == text) return slot.id;
    }
  }

  void reserve(std::size_t entries, std::uint64_t seed) {
    const std::size_t slots = std::bit_ceil(entries * 2 + 2);
    slots_.assign(slots, Slot{0, no_token});
    mask_ = slots - 1;
    seed_ = seed;
  }

 private:
  struct Slot {
    std::uint32_t tag;
    Token id;
  };
  static std::uint32_t tag_of(std::uint64_t h) noexcept { return static_cast<std::uint32_t>(h >> 32); }

  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
  std::uint64_t seed_ = 0;
};

struct Merge {
  std::uint32_t rank;  ///< lower merges first
  Token merged;        ///< no_token: the pair does not merge
};

/// (left id, right id) -> merge.
class PairIndex {
 public:
  void reserve(std::size_t merges, std::uint64_t seed) {
    const std::size_t slots = std::bit_ceil(merges * 2 + 2);
    slots_.assign(slots, Slot{0, {0, no_token}});
    mask_ = slots - 1;
    seed_ = seed;
  }

  /// Keeps the first merge of a pair; false when the pair was there.
  bool insert(Token left, Token right, Merge merge) {
    Slot* slot = &slots_[probe(key_of(left, right))];
    if (slot->merge.merged != no_token) return false;
    *slot = {key_of(left, right), merge};
    return true;
  }

  Merge find(Token left, Token right) const noexcept { return slots_[probe(key_of(left, right))].merge; }

 private:
  struct Slot {
    std::uint64_t key;
    Merge merge;
  };
  static std::uint64_t key_of(Token left, Token right) noexcept {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  std::size_t probe(std::uint64_t key) const noexcept {
    std::size_t i = mix(key ^ seed_, 0xD6E8FEB86659FD93ull) & mask_;
    while (slots_[i].merge.merged != no_token && slots_[i].key != key) i = (i + 1) & mask_;
    return i;
  }

  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
  std::uint64_t seed_ = 0;
};

/// Finds the longest of a set of entries at a place of the text. Children are linked lists: the sets are
/// small and their nodes have few children. The root has a table.
class Trie {
 public:
  void insert(std::string_view text, Token id);
  bool empty() const noexcept { return nodes_.empty(); }

  struct Match {
    std::size_t begin;  ///< text.size() when there is none
    std::size_t size;
    Token token;
  };
  /// The leftmost match at or after `pos`, and of those that start there the longest.
  Match find(std::string_view text, std::size_t pos) const noexcept;

 private:
  struct Node {
    std::uint32_t child = 0, sibling = 0;  // 0: none; node n is nodes_[n - 1]
    Token token = no_token;
    std::uint8_t byte = 0;
  };
  std::uint32_t step(std::uint32_t first, std::uint8_t byte) const noexcept {
    while (first != 0 && nodes_[first - 1].byte != byte) first = nodes_[first - 1].sibling;
    return first;
  }

  std::array<std::uint32_t, 256> root_{};
  std::vector<Node> nodes_;
};

/// The byte alphabet of GPT-2: printable Latin-1 stands for itself, the other 68 bytes for U+0100 and up.
struct ByteAlphabet {
  std::array<char16_t, 256> to_char;
  std::array<std::int16_t, 324> to_byte;  // -1: not in the alphabet
};
const ByteAlphabet& byte_alphabet() noexcept;

inline constexpr std::string_view meta_space =
    "\xE2\x96\x81";  ///< U+2581, which SentencePiece writes for a space

/// Appends a SentencePiece entry with U+2581 turned back into spaces.
void append_unescaped(std::string_view entry, std::string& out);

/// The value of "<0xHH>", exactly two hex digits; -1 for anything else.
int byte_value(std::string_view text) noexcept;

}  // namespace nibble::text::detail

namespace nibble {

struct Tokenizer::Tables {
  enum class Kind : std::uint8_t { byte_level, sentence_piece };

  Kind kind{};
  PreTokenizer pre{};
  std::string bytes;                   // all entries, concatenated
  std::vector<std::uint32_t> offsets;  // entry i: [offsets[i], offsets[i + 1])
  std::vector<std::uint8_t> types;
  std::vector<std::uint32_t> ranks;  // SentencePiece: order of the scores, lower is better

  text::detail::TextIndex index;         // every entry
  text::detail::PairIndex merges;        // byte-level
  text::detail::Trie literal, special;   // cut out: user-defined; with parse_special also control and unknown
  std::array<Token, 256> byte_tokens{};  // no_token: the vocabulary lacks the byte
  std::vector<Token> ends;               // ascending

  std::optional<Token> bos, eos, eot, unk, pad;
  bool add_bos = false, add_eos = false, space_prefix = false, legacy_prefix = false;
  bool ignore_merges = false, nfc = false;
  std::array<bool, 256> joins_space{};  // SentencePiece: some piece has U+2581 behind this byte

  std::size_t size() const noexcept { return types.size(); }
  TokenType type(Token id) const noexcept {
    return static_cast<TokenType>(types[static_cast<std::size_t>(id)]);
  }
  std::string_view text(Token id) const noexcept {
    const auto i = static_cast<std::size_t>(id);
    return std::string_view(bytes).substr(offsets[i], offsets[i + 1] - offsets[i]);
  }
  Token find(std::string_view entry) const noexcept {
    return index.find(entry, [this](Token id) { return text(id); });
  }
  /// An entry that merging may make. Control tokens are not: text that spells one must not become one.
  Token find_piece(std::string_view entry) const noexcept {
    const Token id = find(entry);
    if (id == text::detail::no_token) return id;
    const TokenType t = type(id);
    const bool piece = t == TokenType::normal || t == TokenType::user_defined || t == TokenType::unused;
    return piece ? id : text::detail::no_token;
  }
};

}  // namespace nibble

namespace nibble::text::detail {

/// Validates `data` and builds the tables; errors as documented at Tokenizer.
std::shared_ptr<const Tokenizer::Tables> make_tables(const TokenizerData& data);

/// Appends the tokens of `text`, special tokens around it included.
void encode(const Tokenizer::Tables& tables, std::string_view text, EncodeOptions options,
            std::vector<Token>& out);

}  // namespace nibble::text::detail
