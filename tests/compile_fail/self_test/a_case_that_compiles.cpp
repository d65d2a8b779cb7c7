// SPDX-License-Identifier: MIT
// A program that compiles while an error is expected: the check must fail.
// expect: anything
int main() { return 0; }
