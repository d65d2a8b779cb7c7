// SPDX-License-Identifier: MIT
// NIBBLE_API marks what the compiled library exports. Symbols are hidden by default, so that two copies
// of nibble can live in one process and a shared build shows only its public interface.
#pragma once

#if defined(NIBBLE_SHARED) && defined(__GNUC__)
#define NIBBLE_API __attribute__((visibility("default")))
#else
#define NIBBLE_API
#endif
