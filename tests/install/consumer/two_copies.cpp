// SPDX-License-Identifier: MIT
// One process, two copies of nibble: neither sees the other.
#include <cstdio>

extern "C" int first_entry();
extern "C" int second_entry();

int main() {
  for (int i = 0; i < 2; ++i) {
    if (const int code = first_entry() * 10 + second_entry(); code != 0) {
      std::printf("two copies: code %d\n", code);
      return 1;
    }
  }
  std::printf("two copies work side by side\n");
}
