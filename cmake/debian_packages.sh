#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs those of the named Debian packages that are missing; does nothing, and needs no network and no
# root, when all are there. Usage: sh cmake/debian_packages.sh [--base] PACKAGE...
# --base stands for all that the build and its tests need.
set -eu
if [ "${1:-}" = --base ]; then
  shift
  set -- g++ cmake ninja-build ccache libeigen3-dev libcli11-dev libxsimd-dev catch2 pkg-config python3 python3-venv \
    python3-pip "$@"
fi
missing=""
for package in "$@"; do
  case "$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)" in
    *"install ok installed"*) ;;
    *) missing="$missing $package" ;;
  esac
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ]; then
  echo "missing packages; as root: apt-get install$missing" >&2
  exit 1
fi
echo "installing:$missing" >&2
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086  # one word per package
apt-get install -y --no-install-recommends $missing >&2 ||
  { apt-get update >&2 && apt-get install -y --no-install-recommends $missing >&2; }
