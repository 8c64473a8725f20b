"""Draws docs/speed.svg out of what `cargo bench` prints: how many times as fast as libtiledb and as DataFusion over Parquet each query is.

    TILEDB_BENCH_DIR=… TILEDB_BENCH_PYTHON=python cargo bench | tee bench.txt
    python benches/chart.py bench.txt > docs/speed.svg

Rows without a peer are left out. The axis is logarithmic; the line in the middle says: as fast as the peer.
"""

import math
import re
import sys
from xml.sax.saxutils import escape

# A row has a name, ours in ms, elements/s, bytes/s, Parquet in ms, the ratio, libtiledb in ms, the ratio.
RATE = r" +[\d.]+ ?\S*"
ROW = re.compile(rf"^(?P<case>\S.*?)  +(?P<ours>[\d.]+){RATE}{RATE} +(?P<parquet>[\d.]+|-) +\S+ +(?P<libtiledb>[\d.]+|-)(?: .*)?$")
HEADER = re.compile(r"^(?P<question>\S+) +ms +\S+/s +bytes/s +Parquet +ratio +libtiledb +ratio$")
PEERS = {"libtiledb": "#2f6fab", "parquet": "#d98e2b"}
NAMES = {"libtiledb": "than libtiledb", "parquet": "than DataFusion over Parquet"}

LEFT, WIDTH, BAR, GAP, TOP = 330, 430, 8, 12, 64
# The axis goes from a quarter of the speed to a hundred times.
LOW, HIGH = 0.25, 100.0


def rows(lines):
    """(question, case, {peer: how many times as fast}) of each row with a peer."""
    question = ""
    for line in lines:
        line = line.rstrip("\n")
        if header := HEADER.match(line):
            question = header["question"].replace("_", " ")
        elif row := ROW.match(line):
            times = {peer: row[peer] for peer in PEERS}
            factors = {peer: float(ms) / float(row["ours"]) for peer, ms in times.items() if ms != "-"}
            if factors:
                yield question, row["case"].strip(), factors


def x(factor):
    share = math.log(min(max(factor, LOW), HIGH) / LOW) / math.log(HIGH / LOW)
    return LEFT + share * WIDTH


def chart(found):
    out, y = [], TOP
    question = None
    for asked, case, factors in found:
        if asked != question:
            question = asked
            y += 10
            out.append(f'<text x="16" y="{y + 10}" font-weight="600">{escape(asked)}</text>')
            y += 22
        out.append(f'<text x="{LEFT - 10}" y="{y + 12}" text-anchor="end" fill="#333">{escape(case)}</text>')
        for i, peer in enumerate(p for p in PEERS if p in factors):
            a, b = sorted((x(1.0), x(factors[peer])))
            top = y + i * BAR
            out.append(f'<rect x="{a:.1f}" y="{top}" width="{max(b - a, 1):.1f}" height="{BAR - 1}" fill="{PEERS[peer]}"/>')
            out.append(f'<text x="{max(b, x(1.0)) + 4:.1f}" y="{top + 7}" font-size="8.5" fill="#555">{factors[peer]:.1f}</text>')
        y += 2 * BAR + GAP
    ticks = [0.25, 0.5, 1, 2, 4, 10, 25, 100]
    grid = "".join(
        f'<line x1="{x(t):.1f}" y1="{TOP - 4}" x2="{x(t):.1f}" y2="{y}" stroke="{"#777" if t == 1 else "#e3e3e0"}"/>'
        f'<text x="{x(t):.1f}" y="{TOP - 10}" text-anchor="middle" font-size="10" fill="#777">{t:g} ×</text>'
        for t in ticks
    )
    legend, at = "", LEFT
    for peer, colour in PEERS.items():
        legend += f'<rect x="{at}" y="14" width="12" height="12" fill="{colour}"/><text x="{at + 18}" y="24">faster {NAMES[peer]}</text>'
        at += 150
    height = y + 16
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 50} {height}" font-family="system-ui, sans-serif" font-size="12">\n'
        "<title>How many times as fast each query is as its peers</title>\n"
        f'<rect width="{LEFT + WIDTH + 50}" height="{height}" rx="8" fill="#fbfbfa"/>\n{legend}\n{grid}\n' + "\n".join(out) + "\n</svg>\n"
    )


def main():
    with open(sys.argv[1], encoding="utf-8") as output:
        found = list(rows(output))
    if not found:
        sys.exit(f"{sys.argv[1]} has no row of a benchmark with a peer")
    sys.stdout.write(chart(found))


main()
