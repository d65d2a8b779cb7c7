# SPDX-License-Identifier: MIT
"""Uses nibble as strangers do, and runs what comes out.

  package      installs the given build to a prefix, MOVES the prefix, builds the consumer by find_package
               and by pkg-config, and checks that two copies of the library live in one process
  subdirectory builds the consumer with nibble as a subdirectory and a shared library, installs that, moves
               it, and builds the consumer by find_package once more
The moved prefix is what catches absolute paths in package files.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = ["offline", "app", "two_copies"]


def call(*command, **keywords):
    command = [str(c) for c in command]
    print("+", " ".join(command), flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **keywords)
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode != 0:
        print(text)
        sys.exit(f"failed with {done.returncode}: {' '.join(command)}")
    return text


class Trial:
    def __init__(self, options):
        self.options = options
        self.folder = options.folder.resolve()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    def build_consumer(self, name, *arguments):
        """Configures and builds the consumer, runs its programs, returns the build folder."""
        o = self.options
        build = self.folder / name
        call(o.cmake, "-S", HERE / "consumer", "-B", build, "-G", o.generator, f"-DCMAKE_BUILD_TYPE={o.build_type}",
             f"-DCMAKE_CXX_COMPILER={o.compiler}", f"-DCMAKE_CXX_COMPILER_LAUNCHER={o.launcher}", *arguments)
        call(o.cmake, "--build", build)
        for program in PROGRAMS:
            if (build / program).exists():
                print(call(build / program), end="")
        return build

    def install_and_move(self, build, name):
        first, moved = self.folder / f"{name}-first", self.folder / f"{name}-moved"
        call(self.options.cmake, "--install", build, "--prefix", first)
        first.rename(moved)
        for path in moved.rglob("*"):
            if path.suffix in {".cmake", ".pc"}:
                text = path.read_text(encoding="utf-8")
                for bad in (str(first), str(self.options.source), str(build)):
                    if bad in text:
                        sys.exit(f"{path} names {bad}: the package cannot be moved")
        return moved

    def package(self):
        moved = self.install_and_move(self.options.build, "static")
        build = self.build_consumer("find-package", f"-DCMAKE_PREFIX_PATH={moved}")
        for name in ("first", "second"):
            if (library := build / f"lib{name}.so").exists():
                leaked = [s for s in call("nm", "-DC", "--defined-only", library).splitlines() if "nibble::" in s]
                if leaked:
                    sys.exit(f"{library.name} shows symbols of its copy of nibble: {leaked[:5]}")
        self.pkg_config(moved)

    def pkg_config(self, prefix):
        if not shutil.which("pkg-config"):
            print("skipped: pkg-config is not installed")
            return
        files = list(prefix.rglob("nibble.pc"))
        if len(files) != 1:
            sys.exit(f"expected one nibble.pc below {prefix}, found {files}")
        environment = {**os.environ, "PKG_CONFIG_PATH": str(files[0].parent)}
        flags = call("pkg-config", "--cflags", "--libs", "--static", "nibble", env=environment).split()
        program = self.folder / "app-pkg-config"
        call(self.options.compiler, "-std=c++20", HERE / "consumer/app.cpp", "-o", program, *flags)
        print(call(program), end="")

    def subdirectory(self):
        build = self.build_consumer("subdirectory", f"-DNIBBLE_SOURCE={self.options.source}", "-DBUILD_SHARED_LIBS=ON",
                                    "-DNIBBLE_INSTALL=ON", "-DCMAKE_CXX_FLAGS_DEBUG=-O0")
        moved = self.install_and_move(build, "shared")
        if not list(moved.rglob("libnibble.so.0.1")):
            sys.exit("the shared library has no soname file libnibble.so.0.1")
        self.build_consumer("find-package-shared", f"-DCMAKE_PREFIX_PATH={moved}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=["package", "subdirectory"])
    parser.add_argument("--source", type=pathlib.Path, default=HERE.parents[1])
    parser.add_argument("--build", type=pathlib.Path, required=True, help="a finished build of nibble")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="where to work; emptied first")
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--generator", default="Ninja")
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--launcher", default="")
    parser.add_argument("--build-type", default="Debug")
    options = parser.parse_args()
    options.source = options.source.resolve()
    getattr(Trial(options), options.mode)()


if __name__ == "__main__":
    main()
