// SPDX-License-Identifier: MIT
// The memory of a model's weights: places do not overlap, slabs grow as needed, and everything goes back.
#include <cstring>
#include <limits>
#include <vector>

#include "cpu/page_arena.hpp"
#include "nibble/core/error.hpp"
#include "support/catch.hpp"

using namespace nibble;

namespace {

/// Counts what is out.
class Counting final : public MemoryResource {
 public:
  std::size_t bytes = 0, calls = 0;

 private:
  void* do_allocate(std::size_t n, std::size_t alignment) override {
    bytes += n;
    ++calls;
    return default_memory()->allocate(n, alignment);
  }
  void do_deallocate(void* p, std::size_t n, std::size_t alignment) override {
    bytes -= n;
    default_memory()->deallocate(p, n, alignment);
  }
  bool do_is_equal(const MemoryResource& other) const noexcept override { return this == &other; }
};

}  // namespace

TEST_CASE("an arena of pages gives places of their own and returns all of them", "[memory]") {
  Counting upstream;
  {
    cpu::PageArena arena(&upstream);
    struct Place {
      std::byte* data;
      std::size_t bytes;
    };
    std::vector<Place> places;
    for (const std::size_t n : {std::size_t{1}, std::size_t{100}, std::size_t{5} << 20, std::size_t{64},
                                std::size_t{3} << 20, std::size_t{70} << 20, std::size_t{1} << 20}) {
      places.push_back({static_cast<std::byte*>(arena.allocate(n, memory_alignment)), n});
      CHECK(reinterpret_cast<std::uintptr_t>(places.back().data) % memory_alignment == 0);
      std::memset(places.back().data, static_cast<int>(places.size()), n);
    }
    for (std::size_t i = 0; i < places.size(); ++i)
      for (const std::size_t at : {std::size_t{0}, places[i].bytes / 2, places[i].bytes - 1})
        CHECK(static_cast<std::size_t>(places[i].data[at]) == i + 1);
    CHECK(upstream.bytes < (std::size_t{100} << 20));
    CHECK(upstream.calls <= 4);

    const std::size_t before = upstream.bytes;
    void* last = arena.allocate(1000, memory_alignment);
    arena.deallocate(last, 1000, memory_alignment);
    CHECK(arena.allocate(900, memory_alignment) == last);  // what was tried and dropped takes no room
    CHECK(upstream.bytes == before);
    CHECK_THROWS_AS(arena.allocate(64, 4096), Error);
  }
  CHECK(upstream.bytes == 0);
}

TEST_CASE("large pages take whole pages from their source, small requests pass", "[memory]") {
  Counting upstream;
  cpu::LargePages pages(&upstream);
  for (const std::size_t n : {std::size_t{0}, std::size_t{64}, cpu::huge_page - 1, cpu::huge_page, cpu::huge_page + 1}) {
    const std::size_t whole = n < cpu::huge_page ? n : (n + cpu::huge_page - 1) / cpu::huge_page * cpu::huge_page;
    void* p = pages.allocate(n, memory_alignment);
    CHECK(upstream.bytes == whole);
    if (n >= cpu::huge_page) CHECK(reinterpret_cast<std::uintptr_t>(p) % cpu::huge_page == 0);
    std::memset(p, 1, n);
    pages.deallocate(p, n, memory_alignment);
    CHECK(upstream.bytes == 0);
  }
  CHECK_THROWS_AS(pages.allocate(std::numeric_limits<std::size_t>::max() - 5, memory_alignment), Error);
}
