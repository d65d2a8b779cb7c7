// SPDX-License-Identifier: MIT
// A control that does not compile: the check must fail.
// expect: ok
int main() { return missing; }
