"""Draws the pictures of the documentation. Usage: `python3 docs/pictures.py` writes the SVG files into docs/.

docs/speed.svg shows measurements; benches/chart.py draws it.

Each picture is a card with its own background, and follows the light or dark mode of the reader. The output depends on nothing but this file.
"""

import pathlib
from xml.sax.saxutils import escape

DOCS = pathlib.Path(__file__).resolve().parent
WIDTH = 800

# Class -> (light, dark). The names begin with the property that they set: text, fill (of a shape, with its border) or line.
COLOURS = {
    "text": ("#24292f", "#e6edf3"),
    "text-soft": ("#57606a", "#9da7b3"),
    "text-faint": ("#818b96", "#7d8590"),
    "text-code": ("#1f3a5f", "#a5c8f0"),
    "text-red": ("#b03325", "#ff8b80"),
    "fill-card": ("#fbfbfa #dcdcd6", "#161b22 #30363d"),
    "fill-plain": ("#ffffff #9aa7b4", "#0d1117 #57606a"),
    "fill-panel": ("#ffffff #b3bcc6", "#0d1117 #4b535d"),
    "fill-blue": ("#cfe3f7 #6d9cc8", "#1b3f66 #5b95cf"),
    "fill-amber": ("#f3e3c3 #c59f54", "#56431c #c99f4a"),
    "fill-green": ("#d3ecd5 #6faa76", "#1d4728 #57a065"),
    "fill-red": ("#f8d9d5 #c97469", "#5c2621 #d9776c"),
    "line": ("#9aa7b4", "#6e7681"),
    "line-red": ("#c0392b", "#ff7b72"),
}
MONOSPACE = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"


def number(value):
    """A coordinate, without needless digits."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def rules(mode):
    """The rules of CSS for the light (0) or dark (1) mode."""
    for name, modes in COLOURS.items():
        first, *border = modes[mode].split()
        if name.startswith("line"):
            yield f".{name} {{ stroke: {first}; fill: none }}"
        else:
            yield f".{name} {{ fill: {first}" + "".join(f"; stroke: {colour}" for colour in border) + " }"


class Picture:
    """Shapes and texts on a card."""

    def __init__(self, height, title, description):
        self.height, self.title, self.description = height, title, description
        self.parts = []

    def rect(self, x, y, width, height, fill, radius=0, dashed=False, stroke=1, faded=False):
        more = f' rx="{radius}"' if radius else ""
        more += ' stroke-dasharray="5 4"' if dashed else ""
        more += f' stroke-width="{stroke}"' if stroke != 1 else ""
        more += ' opacity="0.6"' if faded else ""
        place = f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
        self.parts.append(f'<rect {place} class="{fill}"{more}/>')

    def text(self, x, y, text, kind="text", size=13, anchor="start", bold=False, code=False, faded=False):
        more = f' text-anchor="{anchor}"' if anchor != "start" else ""
        more += ' font-weight="600"' if bold else ""
        more += f' font-family="{MONOSPACE}" xml:space="preserve"' if code else ""
        more += ' opacity="0.6"' if faded else ""
        self.parts.append(f'<text x="{number(x)}" y="{number(y)}" font-size="{number(size)}" class="{kind}"{more}>{escape(text)}</text>')

    def lines(self, x, y, texts, step=18, **style):
        for i, text in enumerate(texts):
            self.text(x, y + i * step, text, **style)

    def line(self, points, kind="line", stroke=1.5, dashed=False, arrow=False):
        path = " L".join(f"{number(x)} {number(y)}" for x, y in points)
        more = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(f'<path d="M{path}" class="{kind}" stroke-width="{stroke}"{more}/>')
        if arrow:
            (from_x, from_y), (x, y) = points[-2:]
            length = ((x - from_x) ** 2 + (y - from_y) ** 2) ** 0.5
            ahead_x, ahead_y = (x - from_x) / length * 7, (y - from_y) / length * 7
            barbs = [(x - ahead_x - side * ahead_y * 0.6, y - ahead_y + side * ahead_x * 0.6) for side in (1, -1)]
            self.line([barbs[0], (x, y), barbs[1]], kind, stroke)

    def cell(self, x, y, size, text, fill, faded=False, font=13):
        """A square with a text in its middle."""
        self.rect(x, y, size, size, fill, faded=faded)
        self.text(x + size / 2, y + size / 2 + font * 0.36, text, size=font, anchor="middle", faded=faded)

    def heading(self, x, y, text):
        self.text(x, y, text, size=14, bold=True)

    def svg(self):
        title, description = escape(self.title), escape(self.description)
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" font-family="system-ui, sans-serif" role="img" '
                'aria-labelledby="title desc">',
                f'<title id="title">{title}</title>',
                f'<desc id="desc">{description}</desc>',
                "<style>",
                *rules(0),
                "@media (prefers-color-scheme: dark) {",
                *(f"  {rule}" for rule in rules(1)),
                "}",
                "</style>",
                f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{self.height - 1}" rx="8" class="fill-card"/>',
                *self.parts,
                "</svg>",
                "",
            ]
        )


def tiles():
    """The query of the README, and the tiles of examples/data/elevation that it reads."""
    picture = Picture(
        316,
        "From an array to the tiles that a query reads",
        "A dense array of 64 by 64 cells is stored in 16 tiles. A query with a range of y, a range of x and a condition on the height reads three of "
        "them: twelve tiles lie outside the ranges, and the statistics of one tile rule out the condition.",
    )
    picture.heading(24, 36, "The query")
    query = ["SELECT avg(height)", "FROM './elevation'", "WHERE y BETWEEN 20 AND 40", "  AND x BETWEEN 10 AND 30", "  AND height > 1300"]
    picture.lines(24, 64, query, step=20, kind="text-code", size=12.5, code=True)
    notes = ["64 × 64 cells, in tiles of 16 × 16.", "The table has a row for each cell."]
    picture.lines(24, 192, notes, kind="text-soft", size=12.5)

    left, top, tile, cells = 298, 56, 54, 16
    picture.heading(left, 36, "The array")
    fills = {(1, 0): "fill-blue", (1, 1): "fill-blue", (2, 0): "fill-amber", (2, 1): "fill-blue"}
    for row in range(4):
        for column in range(4):
            picture.rect(left + column * tile, top + row * tile, tile, tile, fills.get((row, column), "fill-plain"))
    step = tile / cells
    picture.rect(left + 10 * step, top + 20 * step, 21 * step, 21 * step, "line-red", stroke=2)
    for i in range(1, 4):
        picture.text(left - 7, top + i * tile + 4, str(i * cells), "text-faint", size=11, anchor="end")
        picture.text(left + i * tile, top + 4 * tile + 16, str(i * cells), "text-faint", size=11, anchor="middle")
    picture.text(left - 7, top + 10, "y", "text-soft", anchor="end")
    picture.text(left + 4 * tile - 2, top + 4 * tile + 16, "x", "text-soft", anchor="end")

    left = 556
    picture.heading(left, 36, "What the query reads")
    legend = [
        ("line-red", ["the ranges of y and x"]),
        ("fill-plain", ["12 tiles lie outside the", "ranges"]),
        ("fill-amber", ["1 tile is ruled out: its", "largest height is 1295"]),
        ("fill-blue", ["3 tiles are fetched and", "decoded in parallel; then", "their cells are tested"]),
    ]
    y = 58
    for fill, texts in legend:
        picture.rect(left, y, 14, 14, fill, stroke=2 if fill == "line-red" else 1)
        picture.lines(left + 24, y + 12, texts, step=17, size=12.5)
        y += 17 * len(texts) + 17
    return picture


def consolidation():
    """Three small fragments become one, and vacuum removes them."""
    picture = Picture(
        408,
        "Consolidation and vacuum",
        "Three writes leave three fragments: the cells a and b, then c and d, then a new value of c together with e. Consolidation merges them into "
        "one fragment of six cells, each with the time of its write, and hides the three fragments. Vacuum removes the hidden fragments. At every "
        "stage, a query returns a, b, the new c, d and e, and a query as of half past ten returns a, b, the old c and d.",
    )
    times = ["09:00", "10:00", "11:00"]
    fills = ["fill-blue", "fill-amber", "fill-green"]
    writes = [["a", "b"], ["c", "d"], ["c", "e"]]
    merged = [("a", 0), ("b", 0), ("c", 1), ("c", 2), ("d", 1), ("e", 2)]
    size, gap, top, step = 28, 6, 88, 58
    wide, high = 2 * size + 3 * gap, size + 2 * gap

    def fragment(x, row, hidden=False):
        y = top + row * step
        picture.rect(x, y, wide, high, "fill-panel", radius=5, dashed=hidden, faded=hidden)
        for i, name in enumerate(writes[row]):
            picture.cell(x + gap + i * (size + gap), y + gap, size, name, fills[row], faded=hidden)

    def merged_fragment(x):
        picture.rect(x, top, wide, 2 * step + high, "fill-panel", radius=5, stroke=2)
        inner = (2 * step + high - 3 * size) / 4
        for i, (name, write) in enumerate(merged):
            column, row = i % 2, i // 2
            picture.cell(x + gap + column * (size + gap), top + inner + row * (size + inner), size, name, fills[write])

    def arrow(x, text):
        y = top + step + high / 2
        picture.line([(x, y), (x + 60, y)], stroke=2, arrow=True)
        picture.text(x + 30, y - 12, text, "text-code", size=11.5, anchor="middle", code=True)

    picture.heading(24, 36, "Three writes")
    picture.text(24, 56, "a fragment for each", "text-soft", size=12.5)
    for row, time in enumerate(times):
        picture.text(24, top + row * step + high / 2 + 4, time, "text-soft", size=12.5)
        fragment(74, row)
    picture.lines(74 + wide + 10, top + 2 * step + high / 2 - 3, ["overwrites", "the cell c"], step=16, kind="text-soft", size=12)

    arrow(208, "consolidate")
    picture.heading(326, 36, "After consolidation")
    picture.text(326, 56, "one fragment, with the times of its cells", "text-soft", size=12.5)
    merged_fragment(326)
    for row in range(3):
        fragment(424, row, hidden=True)
    for x, text in [(326, "visible"), (424, "hidden"), (636, "visible")]:
        picture.text(x + wide / 2, top + 3 * step + 4, text, "text-soft", size=12, anchor="middle")

    arrow(532, "vacuum")
    picture.heading(636, 36, "After vacuum")
    picture.text(636, 56, "the old ones are gone", "text-soft", size=12.5)
    merged_fragment(636)

    y = 284
    picture.line([(24, y), (WIDTH - 24, y)], stroke=1)
    picture.heading(24, y + 30, "What a query returns, at every stage")
    small = 26
    for row, (label, shown) in enumerate([("now", [0, 1, 3, 4, 5]), ("as of 10:30", [0, 1, 2, 4])]):
        x = 24 + row * 330
        picture.text(x, y + 62, label, "text-soft")
        for i, place in enumerate(shown):
            name, write = merged[place]
            picture.cell(x + (46 if row == 0 else 90) + i * (small + gap), y + 45, small, name, fills[write])
    note = "In dense arrays, and with timestamps => false, vacuum also removes the times in between, such as 10:30."
    picture.text(24, y + 102, note, "text-soft", size=12)
    return picture


def dense_box():
    """The table of docs/tables.md: six rows of an array with 24 cells."""
    picture = Picture(
        306,
        "The rows of a dense array",
        "The domain of a dense array has 4 by 6 cells. Three cells were written: 7 at y 2, x 2; 9 at y 2, x 3; and 8 at y 3, x 4. The table has a "
        "row for each of the six cells in the smallest box around them. The three unwritten cells in the box show the fill value, here NULL. The 18 "
        "cells outside the box aren't rows.",
    )
    written = {(2, 2): "7", (2, 3): "9", (3, 4): "8"}
    box = [(y, x) for y in (2, 3) for x in (2, 3, 4)]
    left, top, cell = 50, 62, 46
    picture.heading(left, 36, "The array")
    picture.text(left + 84, 36, "domain y [1, 4], x [1, 6]", "text-soft", size=12.5)
    for y in range(1, 5):
        for x in range(1, 7):
            place = (left + (x - 1) * cell, top + (y - 1) * cell)
            if (y, x) in written:
                picture.cell(*place, cell, written[y, x], "fill-blue", font=15)
            elif (y, x) in box:
                picture.cell(*place, cell, "NULL", "fill-amber", font=12)
            else:
                picture.rect(*place, cell, cell, "fill-plain")
    picture.rect(left + cell, top + cell, 3 * cell, 2 * cell, "line-red", stroke=2.5)
    for y in range(1, 5):
        picture.text(left - 8, top + (y - 0.5) * cell + 4, str(y), "text-faint", size=11.5, anchor="end")
    for x in range(1, 7):
        picture.text(left + (x - 0.5) * cell, top + 4 * cell + 17, str(x), "text-faint", size=11.5, anchor="middle")
    picture.text(left - 26, top + 2 * cell + 4, "y", "text-soft", anchor="middle")
    picture.text(left + 3 * cell, top + 4 * cell + 36, "x", "text-soft", anchor="middle")

    left = 358
    legend = [
        ("line-red", ["the smallest box around all", "written cells"]),
        ("fill-blue", ["written: a row"]),
        ("fill-amber", ["empty, in the box: a row", "with the fill value"]),
        ("fill-plain", ["outside the box: no row"]),
    ]
    y = 84
    for fill, texts in legend:
        picture.rect(left, y, 14, 14, fill, stroke=2.5 if fill == "line-red" else 1)
        picture.lines(left + 24, y + 12, texts, step=17, size=12.5)
        y += 17 * len(texts) + 18

    left, row_height = 596, 30
    picture.heading(left, 36, "The table")
    picture.rect(left, 56, 176, 7 * row_height + 8, "fill-panel", radius=5)
    columns = [left + 28, left + 72, left + 130]
    for x, name in zip(columns, ["y", "x", "height"]):
        picture.text(x, 78, name, size=12.5, anchor="middle", bold=True)
    picture.line([(left, 90), (left + 176, 90)], stroke=1)
    for i, (y, x) in enumerate(box):
        baseline = 110 + i * row_height
        fill = "fill-blue" if (y, x) in written else "fill-amber"
        picture.rect(left + 98, baseline - 17, 64, 25, fill, radius=3)
        picture.text(columns[0], baseline, str(y), anchor="middle")
        picture.text(columns[1], baseline, str(x), anchor="middle")
        picture.text(columns[2], baseline, written.get((y, x), "NULL"), size=13 if (y, x) in written else 12, anchor="middle")
    return picture


def time_travel():
    """Two writes and a delete, and the rows as of two times."""
    picture = Picture(
        440,
        "An array as of two times",
        "On 1 May, a write adds Bergen and Oslo. On 2 May, a write adds a new value of Oslo, and Nuuk. On 3 May, a delete removes Bergen. The array "
        "as of 2 May, 00:00, has the two rows of the first write. Now, the array has the new row of Oslo, and Nuuk.",
    )
    axis = 208
    events = [
        (120, "1 May", "INSERT", "fill-blue", ["Bergen     4.5", "Oslo      -3.0"], "a fragment"),
        (344, "2 May", "INSERT", "fill-amber", ["Oslo      -2.0", "Nuuk     -11.7"], "a fragment"),
        (568, "3 May", "DELETE", "fill-red", ["WHERE station", "  = 'Bergen'"], "a condition"),
    ]
    picture.heading(24, 36, "What the array keeps")
    picture.line([(24, axis), (776, axis)], stroke=2, arrow=True)
    for x, date, statement, fill, texts, note in events:
        picture.rect(x - 72, 108, 144, 60, fill, radius=5)
        picture.lines(x - 56, 133, texts, step=21, kind="text", size=12.5, code=True)
        picture.text(x - 72, 98, statement, "text-code", size=12.5, code=True)
        picture.text(x + 72, 98, note, "text-soft", size=12, anchor="end")
        picture.line([(x, 168), (x, axis)], stroke=1.5)
        picture.line([(x, axis - 5), (x, axis + 5)], stroke=3)
        picture.text(x, axis + 24, f"{date}, 12:00", "text-soft", size=12.5, anchor="middle")

    past = [("Bergen", "4.5"), ("Oslo", "-3.0")]
    present = [("Nuuk", "-11.7"), ("Oslo", "-2.0")]
    states = [
        (232, 24, "2 May, 00:00", "FROM './readings?timestamp=2024-05-02'", "only the first write", past, "fill-blue"),
        (704, 424, "now", "FROM './readings'", "the newest cells, without Bergen", present, "fill-amber"),
    ]
    for at, left, label, clause, note, rows, fill in states:
        picture.line([(at, 78), (at, 254), (left + 176, 254), (left + 176, 276)], "line-red", stroke=2, dashed=True)
        picture.text(at, 70, label, "text-red", size=12.5, anchor="middle", bold=True)
        picture.rect(left, 278, 352, 142, "fill-panel", radius=6)
        picture.text(left + 16, 304, clause, "text-code", size=12.5, code=True)
        picture.text(left + 16, 326, note, "text-soft", size=12.5)
        for i, (station, temperature) in enumerate(rows):
            y = 340 + i * 34
            picture.rect(left + 16, y, 320, 28, fill, radius=3)
            picture.text(left + 30, y + 19, station)
            picture.text(left + 322, y + 19, temperature, anchor="end")
    return picture


PICTURES = {"tiles": tiles, "consolidation": consolidation, "dense-box": dense_box, "time-travel": time_travel}


def main():
    for name, draw in PICTURES.items():
        (DOCS / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
