# SPDX-License-Identifier: MIT
"""An SVG roofline: operations per byte against operations per second, both logarithmic, one panel per model. Roofs
are the rates that nibble measured in the same run; a point is one engine's prefill (square) or decoding (circle)."""
import math

COLOURS = ["#c62828", "#1565c0", "#00838f", "#6a1b9a", "#ef6c00", "#2e7d32", "#5d4037"]
WIDTH, HEIGHT = 460, 380
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 40, 48


class Panel:
    def __init__(self, x, title, intensities, rates):
        self.x, self.parts = x, []
        self.span_x = (math.floor(math.log10(min(intensities))), math.ceil(math.log10(max(intensities))))
        self.span_y = (math.floor(math.log10(min(rates))), math.ceil(math.log10(max(rates) * 1.05)))
        self.text(x + LEFT, TOP - 16, title, size=14, weight="bold")
        self.axes()

    def at(self, intensity, rate):
        u = (math.log10(intensity) - self.span_x[0]) / (self.span_x[1] - self.span_x[0])
        v = (math.log10(rate) - self.span_y[0]) / (self.span_y[1] - self.span_y[0])
        return self.x + LEFT + u * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - v * (HEIGHT - TOP - BOTTOM)

    def text(self, x, y, words, size=11, anchor="start", weight="normal", colour="#222", turn=None):
        turned = f' transform="rotate({turn:.1f} {x:.1f} {y:.1f})"' if turn is not None else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
                          f'font-weight="{weight}" fill="{colour}"{turned}>{escape(words)}</text>')

    def line(self, a, b, colour="#ddd", width=1.0, dash=""):
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<line x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}" '
                          f'stroke="{colour}" stroke-width="{width}"{dashes}/>')

    def axes(self):
        for e in range(self.span_x[0], self.span_x[1] + 1):
            low, high = self.at(10.0**e, 10.0**self.span_y[0]), self.at(10.0**e, 10.0**self.span_y[1])
            self.line(low, high)
            self.text(low[0], low[1] + 16, f"{10.0**e:g}", anchor="middle")
        for e in range(self.span_y[0], self.span_y[1] + 1):
            low, high = self.at(10.0**self.span_x[0], 10.0**e), self.at(10.0**self.span_x[1], 10.0**e)
            self.line(low, high)
            self.text(low[0] - 6, low[1] + 4, f"{10.0**e:g}", anchor="end")
        middle = self.x + LEFT + (WIDTH - LEFT - RIGHT) / 2
        self.text(middle, HEIGHT - 12, "operations per byte of the file", anchor="middle")
        self.text(self.x + 14, HEIGHT / 2, "Gop/s", anchor="middle", turn=-90)

    def roof(self, bandwidth, peak, peak_name, bandwidth_name, colour, above=True):
        """From the left edge up to the ridge at peak / bandwidth, then flat; in Gop/s and GB/s. The name of the flat
        part stands above or below it."""
        ridge = peak / bandwidth
        start = max(10.0**self.span_x[0], 10.0**self.span_y[0] / bandwidth)
        self.line(self.at(start, start * bandwidth), self.at(ridge, peak), colour, 1.5)
        end = 10.0**self.span_x[1]
        self.line(self.at(ridge, peak), self.at(end, peak), colour, 1.5)
        x, y = self.at(end, peak)
        self.text(x - 4, y - 5 if above else y + 13, peak_name, size=10, anchor="end", colour=colour)
        if bandwidth_name:
            a, b = self.at(start, start * bandwidth), self.at(ridge, peak)
            turn = math.degrees(math.atan2(b[1] - a[1], b[0] - a[0]))
            m = (a[0] + 0.55 * (b[0] - a[0]), a[1] + 0.55 * (b[1] - a[1]) - 6)
            self.text(*m, bandwidth_name, size=10, anchor="middle", colour=colour, turn=turn)

    def point(self, intensity, rate, colour, square):
        x, y = self.at(intensity, rate)
        style = f'fill="{colour}" fill-opacity="0.8" stroke="white" stroke-width="0.8"'
        if square:
            self.parts.append(f'<rect x="{x - 5:.1f}" y="{y - 5:.1f}" width="10" height="10" {style}/>')
        else:
            self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5.5" {style}/>')


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def draw(models):
    """`models`: dicts with title, bandwidth (GB/s), integer and float peaks (Gop/s) and points: (engine, "prefill" or
    "decode", operations per byte, Gop/s). Returns the SVG as text."""
    engines = list(dict.fromkeys(p[0] for m in models for p in m["points"]))
    colours = {e: COLOURS[i % len(COLOURS)] for i, e in enumerate(engines)}
    intensities = [p[2] for m in models for p in m["points"]] + [m["integer"] / m["bandwidth"] for m in models] + [1]
    rates = [p[3] for m in models for p in m["points"]] + [m[peak] for m in models for peak in ("integer", "float")]
    parts = []
    for i, m in enumerate(models):
        panel = Panel(i * WIDTH, m["title"], intensities, rates)
        panel.roof(m["bandwidth"], m["integer"], f"{m['peak_name']}, {m['integer']:.0f} Gop/s",
                   f"memory, {m['bandwidth']:.1f} GB/s", "#555")
        panel.roof(m["bandwidth"], m["float"], f"FP32, {m['float']:.0f} Gop/s", "", "#999", above=False)
        for engine, phase, intensity, rate in m["points"]:
            panel.point(intensity, rate, colours[engine], phase == "prefill")
        parts += panel.parts
    legend_y, x = HEIGHT + 14, LEFT
    width = max(len(models) * WIDTH, LEFT + sum(24 + 7 * len(e) for e in engines) + 220)
    for engine in engines:
        parts.append(f'<circle cx="{x}" cy="{legend_y - 4}" r="5.5" fill="{colours[engine]}"/>')
        parts.append(f'<text x="{x + 10}" y="{legend_y}" font-size="11" fill="#222">{escape(engine)}</text>')
        x += 24 + 7 * len(engine)
    parts.append(f'<text x="{x + 10}" y="{legend_y}" font-size="11" fill="#222">square: prefill, circle: decoding</text>')
    height = HEIGHT + 30
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif">\n'
            f'<rect width="{width}" height="{height}" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n")
