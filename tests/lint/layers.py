# SPDX-License-Identifier: MIT
"""Holds the direction of the modules: every #include against docs/layers.txt, no umbrella header inside
the library, no foreign detail/ header, no third-party header in public ones, no include cycle."""
import re

import lint

UMBRELLAS = {"nibble/nibble.hpp": None, "nibble/quantize.hpp": {"core", "format", "quant"}}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">]+)[">]', re.MULTILINE)
# Headers of dependencies that must not reach a user's translation unit.
PRIVATE_DEPENDENCIES = re.compile(r"^(nlohmann/|CLI/|xsimd/|oneapi/|dnnl|pcre2|utf8proc|mpi\.h|nccl\.h)")


def read_table(path):
    """{module: (set of modules with everything below them, set of single headers)}; '*' means None."""
    direct = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        line = line.split("#")[0].strip()
        if line:
            module, _, rest = line.partition(":")
            direct[module.strip()] = rest.split()
    table = {}

    def close(module, trail):
        if module in trail:
            raise SystemExit(f"{path}: cycle: {' -> '.join([*trail, module])}")
        if module not in direct:
            raise SystemExit(f"{path}: '{trail[-1]}' names the unknown module '{module}'")
        if module not in table:
            modules, headers = {module}, set()
            for dependency in direct[module]:
                if dependency == "*":
                    modules |= set(direct)
                elif "/" in dependency:
                    headers.add(f"nibble/{dependency}.hpp")
                else:
                    below = close(dependency, [*trail, module])
                    modules |= below[0]
                    headers |= below[1]
            table[module] = (modules, headers)
        return table[module]

    for module in direct:
        close(module, [])
    return table


def target_of(root, source, name):
    """The project file an include names (relative to root), or None for a foreign header."""
    for base in ("include", "src", "tests", str(source.parent)):
        if (root / base / name).is_file():
            return (root / base / name).resolve().relative_to(root)
    return None


def module_of(path):
    """include/nibble/<module>/... and src/<module>/... belong to <module>; umbrellas to none."""
    parts = path.parts
    if parts[0] == "include":
        return parts[2] if len(parts) > 3 else None
    return parts[1] if parts[0] == "src" and len(parts) > 2 else None


def check(root, _options):
    table = read_table(root / "docs/layers.txt")
    messages, graph = [], {}
    for source in lint.sources(root, "include", "src"):
        text = lint.blank((root / source).read_text(encoding="utf-8"), strings=False)
        name = source.relative_to("include").as_posix() if source.parts[0] == "include" else None
        module = module_of(source)
        if module is not None and module not in table:
            messages.append(f"{source}: module '{module}' is not in docs/layers.txt")
            continue
        if module is None and name not in UMBRELLAS:
            messages.append(f"{source}: lies in no module and is no umbrella header")
            continue
        for match in INCLUDE.finditer(text):
            included, where = match[1], f"{source}:{lint.line_of(text, match.start())}"
            if ".." in included.split("/"):
                messages.append(f"{where}: include '{included}' climbs out of its folder; name it from the root")
            if source.parts[0] == "include" and PRIVATE_DEPENDENCIES.match(included):
                messages.append(f"{where}: public header includes the private dependency '{included}'")
            if included in UMBRELLAS and module not in (None, "cli"):
                messages.append(f"{where}: umbrella header '{included}' inside the library; include what is used")
            target = target_of(root, source, included)
            if target is None:
                if included.startswith("nibble/") and included != "nibble/config.hpp":
                    messages.append(f"{where}: '{included}' does not exist")
                continue
            graph.setdefault(source, []).append(target)
            other = module_of(target)
            if target.parts[0] == "src" and source.parts[0] == "include":
                messages.append(f"{where}: public header includes the private '{included}'")
            if target.parts[0] == "tests":
                messages.append(f"{where}: library code includes the test header '{included}'")
            if other is None:
                continue
            if module is None:
                allowed = UMBRELLAS[name]
                if allowed is not None and other not in allowed:
                    messages.append(f"{where}: {name} promises {sorted(allowed)} only, not '{other}'")
                continue
            modules, headers = table[module]
            if other not in modules and included not in headers:
                messages.append(f"{where}: '{module}' may not include '{other}' ({included}); see docs/layers.txt")
            if other != module and "detail" in target.parts:
                messages.append(f"{where}: '{included}' is private to '{other}'")
    return messages + cycles(graph)


def cycles(graph):
    messages, state = [], {}

    def visit(node, trail):
        state[node] = 1
        for target in graph.get(node, []):
            if state.get(target) == 1:
                messages.append("include cycle: " + " -> ".join(map(str, [*trail[trail.index(target):], target])))
            elif target not in state:
                visit(target, [*trail, target])
        state[node] = 2

    for node in list(graph):
        if node not in state:
            visit(node, [node])
    return messages


TABLE = {"docs/layers.txt": "core:\nformat: core\nquant: format\nplan: core quant/spec\ncli: *\n"}
CASES = {
    "a clean tree passes": ({
        **TABLE, "include/nibble/core/a.hpp": "#include <vector>\n", "include/nibble/quant/spec.hpp": "",
        "include/nibble/quant/b.hpp": '#include "nibble/core/a.hpp"\n// #include "nibble/plan/p.hpp"\n',
        "include/nibble/plan/p.hpp": '#include "nibble/quant/spec.hpp"\n',
        "include/nibble/nibble.hpp": '#include "nibble/plan/p.hpp"\n',
        "src/cli/main.cpp": "#include <nibble/nibble.hpp>\n"}, None),
    "upward include": ({
        **TABLE, "include/nibble/core/a.hpp": '#include "nibble/format/b.hpp"\n',
        "include/nibble/format/b.hpp": ""}, "'core' may not include 'format'"),
    "upward include from a source": ({
        **TABLE, "src/core/a.cpp": '#include "nibble/quant/b.hpp"\n', "include/nibble/quant/b.hpp": ""},
        "'core' may not include 'quant'"),
    "more than the one header": ({
        **TABLE, "include/nibble/plan/p.hpp": '#include "nibble/quant/other.hpp"\n',
        "include/nibble/quant/other.hpp": ""}, "'plan' may not include 'quant'"),
    "umbrella inside the library": ({
        **TABLE, "include/nibble/core/a.hpp": "#include <nibble/nibble.hpp>\n", "include/nibble/nibble.hpp": ""},
        "umbrella header"),
    "umbrella that breaks its promise": ({
        **TABLE, "include/nibble/quantize.hpp": '#include "nibble/plan/p.hpp"\n', "include/nibble/plan/p.hpp": ""},
        "promises"),
    "foreign detail header": ({
        **TABLE, "include/nibble/format/b.hpp": '#include "nibble/core/detail/x.hpp"\n',
        "include/nibble/core/detail/x.hpp": ""}, "is private to 'core'"),
    "private header in a public one": ({
        **TABLE, "include/nibble/core/a.hpp": '#include "core/x.hpp"\n', "src/core/x.hpp": ""}, "the private"),
    "private dependency in a public header": ({
        **TABLE, "include/nibble/core/a.hpp": "#include <nlohmann/json.hpp>\n"}, "private dependency"),
    "unknown module": ({**TABLE, "include/nibble/other/a.hpp": ""}, "is not in docs/layers.txt"),
    "missing header": ({**TABLE, "src/core/a.cpp": '#include "nibble/core/gone.hpp"\n'}, "does not exist"),
    "include cycle": ({
        **TABLE, "include/nibble/core/a.hpp": '#include "nibble/core/b.hpp"\n',
        "include/nibble/core/b.hpp": '#include "nibble/core/a.hpp"\n'}, "include cycle"),
}

if __name__ == "__main__":
    lint.run(check, CASES, __doc__)
