# SPDX-License-Identifier: MIT
"""Random templates over the variables of make_chat_templates.py: expressions three operators deep, and
nested tags with random white space around them. The same seed gives the same templates."""
import random

NAMES = "t f n i neg r s e u sp l el ls d ed users mixed q lines nope".split()
LITERALS = ["1", "0", "-2", "2.5", "'a'", "'b,c'", "''", "true", "none", "[1, 2]", "[]", "(1,)", "{}", "{'a': 1}",
            "'é'", "10", "'  x '", "3", "'name'"]
FILTERS = """upper; lower; trim; title; capitalize; length; list; first; last; join; string; int; float; abs; round;
sort; unique|list; reverse|list; sum; min; max; tojson; items|list; dictsort; default('z'); default('z', true);
join(', '); join('-', 'name'); map('string')|list; map('upper')|list; map(attribute='name')|list; select|list;
select('string')|list; select('number')|list; reject('none')|list; selectattr('name')|list;
selectattr('age','gt',30)|list; batch(2)|list; slice(2)|list; indent; indent(2, true); replace('a', 'XY');
replace('', '-', 2); round(1); round(1, 'floor'); round(-1); tojson(indent=2); groupby('age'); wordcount;
truncate(5); truncate(6, true, '.'); center(9); sort(reverse=true); unique(true)|list; int(5, 16); trim('a ');
format(1); count; d(3)"""
METHODS = """upper(); lower(); strip(); lstrip(); rstrip('a\\n '); split(); split(','); split(' ', 1);
rsplit(none, 1); splitlines(); splitlines(true); startswith('H'); endswith('!'); title(); capitalize();
replace('l', 'LL'); find('o'); rfind('o'); count('l'); count(1); index('a'); items(); keys(); values(); get('a');
get('zz', 7); join(ls); isdigit(); isalpha(); islower(); isupper(); isspace(); zfill(9); center(11, '*');
ljust(9, '.'); rjust(9); partition(' '); rpartition('l'); removeprefix('He'); removesuffix('d'); copy(); name; age;
a; b; c.k; 0; 1; isalnum(); find('', 3); startswith('', 3, 2); rindex('l'); format(1, 2); nope; append(1)"""
TESTS = """defined; undefined; none; string; mapping; iterable; sequence; boolean; number; integer; float; true; false;
odd; even; divisibleby 2; eq 1; ne 'a'; lt 3; ge 2; in l; in [none, 1]; lower; upper; sameas true; not none;
not defined; gt 'a'"""
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "~", "<", "<=", ">", ">=", "==", "!=", "in", "not in", "and", "or"]
HEADS = ["x in l", "x in ls", "x in users", "k, v in d.items()", "x in l if x is odd", "x in s", "x in range(3)",
         "x in d", "x, y in [[1,2],[3,4]]", "x in nope", "x in el"]
LOOP = ["loop.index", "loop.last", "x", "loop.previtem", "loop.nextitem", "loop.length", "loop.revindex",
        "loop.cycle(1, 2)", "loop.first", "loop.changed(x)"]


def words(text):
    return [w.strip() for w in text.split(";")]


class Templates:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.filters, self.methods, self.tests = words(FILTERS), words(METHODS), words(TESTS)

    def template(self):
        if self.random.random() < 0.6:
            return "{{ " + self.expression(self.random.randint(1, 3)) + " }}"
        return self.statement(self.random.randint(1, 3)) + self.pick(["", "\n", "\n\n"])

    def pick(self, choices):
        return self.random.choice(choices)

    def slice(self):
        def bound():
            return self.pick(["", "", "1", "-1", "2", "-2", "0", "9", "-9", "none"])
        return bound() + ":" + bound() + self.pick(["", "", "", ":1", ":-1", ":2", ":-2", ":"])

    def expression(self, depth):
        if depth <= 0:
            return self.pick([self.pick(NAMES), self.pick(LITERALS)])
        inner = self.expression(depth - 1)
        kind = self.random.random()
        if kind < 0.25:
            return f"({inner})|{self.pick(self.filters)}"
        if kind < 0.42:
            return f"({inner}).{self.pick(self.methods)}"
        if kind < 0.50:
            return f"{self.pick(NAMES)}[{self.slice()}]"
        if kind < 0.58:
            return f"({inner})[{self.pick(['0', '-1', '1', chr(39) + 'a' + chr(39), 'i', '5'])}]"
        if kind < 0.80:
            return f"{inner} {self.pick(OPERATORS)} {self.expression(depth - 1)}"
        if kind < 0.85:
            return f"({inner} is {self.pick(self.tests)})"
        if kind < 0.90:
            return self.pick(["not ", "-"]) + inner
        if kind < 0.94:
            return f"({inner} if {self.expression(depth - 1)} else {self.expression(depth - 1)})"
        return f"[{inner}, {self.expression(depth - 1)}]" if kind < 0.97 else "{'k': " + inner + "}"

    def space(self):
        return self.pick(["", " ", "\n", "  \n", "\n  ", "\t", "x", "x\n", " y ", "\r\n"])

    def tag(self, inside, marks="%%"):
        before, after = self.pick(["", "", "", "-", "+"]), self.pick(["", "", "", "-", "+"])
        if marks == "{}":
            before, after = before.replace("+", ""), after.replace("+", "")
        return "{" + marks[0] + before + " " + inside + " " + after + marks[1] + "}"

    def output(self, expression):
        return self.tag(expression, "{}")

    def body(self, depth):
        inside = self.statement(depth - 1) if depth > 0 else self.output(self.expression(1))
        return self.space() + inside + self.space()

    def loop(self, depth):
        text = self.tag("for " + self.pick(HEADS)) + self.body(depth) + self.output(self.pick(LOOP))
        if self.random.random() < 0.3:
            text += self.tag("if loop.index == 2") + self.tag(self.pick(["break", "continue"])) + self.tag("endif")
        otherwise = self.tag("else") + self.body(depth) if self.random.random() < 0.3 else ""
        return text + self.body(depth) + otherwise + self.tag("endfor")

    def statement(self, depth):
        kind = self.random.random()
        if depth <= 0 or kind < 0.3:
            return self.space() + self.output(self.expression(self.random.randint(0, 2))) + self.space()
        body = self.body(depth)
        if kind < 0.42:
            otherwise = self.tag("else") + self.body(depth) if self.random.random() < 0.5 else ""
            return self.tag("if " + self.expression(1)) + body + otherwise + self.tag("endif")
        if kind < 0.6:
            return self.loop(depth)
        if kind < 0.7:
            return self.tag("set z = " + self.expression(2)) + body + self.output("z")
        if kind < 0.75:
            return self.tag("set z" + self.pick(["", " | upper"])) + body + self.tag("endset") + self.output("z ~ x")
        if kind < 0.8:
            return self.tag("macro m(x, y=i)") + body + self.tag("endmacro") + self.output(f"m({self.pick(NAMES)})")
        if kind < 0.84:
            return self.tag("c", "##") + body + self.tag("c", "##")
        if kind < 0.88:
            return self.tag("raw") + self.space() + "{{ x }}" + self.space() + self.tag("endraw")
        if kind < 0.92:
            return self.tag("filter " + self.pick(["upper", "trim", "indent(2)"])) + body + self.tag("endfilter")
        return self.tag("with a = " + self.expression(1)) + body + self.output("a") + self.tag("endwith")
