# SPDX-License-Identifier: MIT
# Builds for 64-bit Arm on another machine; Debian's g++-aarch64-linux-gnu and qemu-user. Headers of libraries that
# have nothing else are the host's: this compiler searches /usr/include too.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
# A processor with everything that the kernels ask for; the compiler's own libraries are the emulated system.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -cpu max -L /usr/aarch64-linux-gnu)
