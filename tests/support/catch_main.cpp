// SPDX-License-Identifier: MIT
// The main function of the test binaries, for builds that cannot link the one that comes with Catch2.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
