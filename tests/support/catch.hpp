// SPDX-License-Identifier: MIT
// Catch2 2.13 and 3.x differ in header names only, as far as our tests go.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
