#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/chat_templates.json: what jinja2 renders, or that it raises an error.

The environment is the one transformers uses for chat templates. Needs jinja2 3.1.6; random_templates.py is seeded.
With a folder of GGUF files as argument (needs gguf), also chat_templates_models.json.
Each case is {template, context (a name in "contexts"), output} or {template, context, error: true}.
"""
import copy
import datetime
import json
import pathlib
import sys

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from random_templates import Templates

assert jinja2.__version__ == "3.1.6", jinja2.__version__
RANDOM_CASES = 1200
HERE = pathlib.Path(__file__).parent
NOW = datetime.datetime(2024, 7, 6, 9, 5, 3)


class Generation(Extension):
    """The tag that marks the assistant's text; here it only prints its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_print"), [], [], body).set_lineno(line)

    def _print(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


ENV = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
ENV.filters["tojson"] = tojson
ENV.globals["raise_exception"] = raise_exception
ENV.globals["strftime_now"] = lambda format: NOW.strftime(format)

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather at a place. Say \"now\" & don't guess <units>.",
            "parameters": {
                "type": "object",
                "properties": {
                    "place": {"type": "string", "description": "城市, e.g. Zürich"},
                    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                    "days": {"type": "integer", "default": 3, "minimum": 0.5},
                },
                "required": ["place"],
            },
        },
    },
    {"type": "function", "function": {"name": "stop", "parameters": {}, "strict": True, "extra": None}},
]
SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "Hello!"}
ASSISTANT = {"role": "assistant", "content": "Hi. What is it?"}
UNICODE = {"role": "user", "content": "  Grüße, 世界! 🦙👩‍👩‍👧 \u0301 <|im_end|> {{ 7*7 }} {% if x %}\n\ttab 'q' \"d\" \\ back\n"}
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"type": "function", "function": {"name": "get_weather", "arguments": {"place": "Zürich", "days": 2}}},
        {"name": "stop", "arguments": {}},
    ],
}
RESULT = {"role": "tool", "name": "get_weather", "content": "{\"temperature\": 21.5}"}
THINKING = {"role": "assistant", "content": "<think>a</think>\n\nyes", "reasoning_content": "because"}
PARTS = {
    "role": "user",
    "content": [{"type": "text", "text": " Look: "}, {"type": "image"}, {"type": "text", "text": "what?"}],
}
BASE = {"bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True, "tools": None, "documents": None}


def chat(*messages, **more):
    return {**BASE, "messages": list(messages), **more}


CHATS = {
    "one": chat(USER),
    "no_prompt": chat(USER, ASSISTANT, add_generation_prompt=False),
    "system": chat(SYSTEM, USER),
    "turns": chat(SYSTEM, USER, ASSISTANT, UNICODE, ASSISTANT, USER),
    "unicode": chat(UNICODE),
    "tools": chat(SYSTEM, USER, CALL, RESULT, RESULT, ASSISTANT, USER, tools=TOOLS),
    "tools_no_system": chat(USER, CALL, RESULT, tools=TOOLS),
    "two_users": chat(USER, USER),
    "assistant_first": chat(ASSISTANT, USER),
    "late_system": chat(USER, SYSTEM),
    "thinking": chat(USER, THINKING, USER, enable_thinking=False),
    "thinking_last": chat(USER, THINKING, RESULT, enable_thinking=True),
    "parts": chat(PARTS, ASSISTANT, USER),
    "none_content": chat(USER, {"role": "assistant", "content": None, "tool_calls": CALL["tool_calls"]}, RESULT),
    "no_content": chat({"role": "user"}),
    "empty": chat(),
    "extra_role": chat({"role": "ipython", "content": "x"}, USER),
    "tools_only": chat(tools=TOOLS),
}
VALUES = {
    "t": True, "f": False, "n": None, "i": 7, "neg": -3, "big": 9007199254740993, "r": 2.5, "tiny": 1e-7,
    "s": "Hello, World", "e": "", "u": "Grüße 世界 🦙!", "sp": "  \t pad \n", "l": [1, 2, 3, 4, 5], "el": [],
    "ls": ["banana", "apple", "Cherry", "apple"], "d": {"a": 1, "b": [1, "x"], "c": {"k": None}}, "ed": {},
    "users": [
        {"name": "ann", "age": 31, "on": True, "home": {"city": "Rom"}},
        {"name": "Bob", "age": 25, "on": False, "home": {"city": "Oslo"}},
        {"name": "cy", "age": 31, "on": True, "home": {}},
    ],
    "mixed": [1, "a", None, 2.5, True, [], {}], "q": "it's \"q\"", "lines": "a\nb\r\nc\n\nd",
}

SMOLLM2 = (HERE / "smollm2_chat_template.jinja").read_text()
CHATML_TOOLS = (HERE / "chatml_tools.jinja").read_text()
TURNS = (HERE / "alternating_turns.jinja").read_text()
REASONING = (HERE / "reasoning_turns.jinja").read_text()

SNIPPETS = (HERE / "chat_template_snippets.txt").read_text()


def cases():
    for template in (SMOLLM2, CHATML_TOOLS, TURNS, REASONING):
        for name in CHATS:
            yield template, name
    for line in SNIPPETS.splitlines():
        if line and not line.startswith("##"):
            # One snippet a line; control characters are written as pictures.
            yield line.replace("⏎", "\n").replace("␍", "\r").replace("␀", "\0"), "values"
    random_templates = Templates(seed=20240706)
    for _ in range(RANDOM_CASES):
        yield random_templates.template(), "values"


def main():
    contexts = {**CHATS, "values": VALUES}
    out = []
    for template, context in cases():
        case = {"template": template, "context": context}
        try:
            case["output"] = ENV.from_string(template).render(**copy.deepcopy(contexts[context]))
        except Exception as e:  # any error of jinja2 or Python
            case["error"] = f"{type(e).__name__}: {e}"[:120]
        # Addresses of objects are no one's to reproduce.
        if " at 0x" not in case.get("output", ""):
            out.append(case)
    templates = {}
    for case in out:
        if len(case["template"]) > 200:
            name = templates.setdefault(case["template"], f"template{len(templates)}")
            case["template"] = {"shared": name}
    doc = {"jinja2": jinja2.__version__, "now": [NOW.year, NOW.month, NOW.day, NOW.hour, NOW.minute, NOW.second],
           "templates": {v: k for k, v in templates.items()}, "contexts": contexts}
    text = json.dumps(doc, ensure_ascii=False)[:-1] + ',\n"cases": [\n'
    text += ",\n".join(json.dumps(c, ensure_ascii=False) for c in out) + "\n]}\n"
    (HERE / "chat_templates.json").write_text(text)
    errors = sum("error" in c for c in out)
    print(f"{len(out)} cases, {errors} of them errors, {len(text)} bytes")


def render_models(folder):
    """The chats through the templates of real model files, kept as renderings: {file: {chat: text or none}}."""
    import gguf

    out = {}
    for path in sorted(pathlib.Path(folder).glob("*.gguf")):
        field = gguf.GGUFReader(path).fields.get("tokenizer.chat_template")
        if field is None:
            continue
        template = ENV.from_string(field.contents())
        texts = out.setdefault(path.name, {})
        for name, context in CHATS.items():
            try:
                texts[name] = template.render(**context)
            except Exception:
                texts[name] = None
    (HERE / "chat_templates_models.json").write_text(json.dumps(out, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
    if len(sys.argv) > 1:
        render_models(sys.argv[1])
