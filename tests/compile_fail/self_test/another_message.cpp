// SPDX-License-Identifier: MIT
// A program whose error is not the expected one: the check must fail.
// expect: a readable sentence
int main() { return missing; }
