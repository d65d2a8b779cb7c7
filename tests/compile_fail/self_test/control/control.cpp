// SPDX-License-Identifier: MIT
// expect: ok
int main() { return 0; }
