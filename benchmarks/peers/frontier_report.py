# SPDX-License-Identifier: Apache-2.0
"""What frontier.py found, as Markdown tables and as pictures."""

import math
import statistics

MIB = 2**20
# What ours is to be, over a peer's.
TIME_AIM, PEAK_AIM, FLOOR_AIM = 0.85, 1.0, 0.6


class Found:
    """A row of frontier.json with the time that counts."""

    def __init__(self, row, by):
        self.__dict__.update(row)
        self.ours = self.framework == "plimsoll"
        self.median, self.fastest = ((1e3 * f(self.seconds) if self.seconds else math.nan) for f in (statistics.median, min))
        self.milliseconds = self.median if by == "median" else self.fastest
        self.within = max(self.bytes, self.limit)
        self.title = {"plimsoll": "Plimsoll", "torch": "PyTorch", "jax": "JAX"}[self.framework] + " " + self.name


def fastest_within(peers, bytes_):
    return min((p for p in peers if p.bytes <= bytes_), key=lambda p: p.milliseconds, default=None)


def number(value, digits=1):
    return "" if value is None or value != value else f"{value:.{digits}f}"


def mebibytes(value):
    return "" if value is None else f"{value / MIB:.1f}"


def ours_table(ours, peers):
    """Ours beside the fastest peer within its bytes, what is worst first."""
    rows = []
    for row in ours:
        peer = fastest_within(peers, row.within)
        ratio = row.milliseconds / peer.milliseconds if peer else None
        rows.append((-(ratio or 0), row, peer, ratio))
    lines = ["| limit, of the peak | MiB | ms | fastest peer within these bytes | its MiB | its ms | time, ours / its | aim |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for _, row, peer, ratio in sorted(rows, key=lambda r: r[0]):
        cells = [row.name, mebibytes(row.bytes), number(row.milliseconds)]
        if peer:
            met = "met" if ratio <= TIME_AIM else "**missed**"
            cells += [peer.title, mebibytes(peer.bytes), number(peer.milliseconds), number(ratio, 2), met]
        else:
            cells += ["none", "", "", "", "met"]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def aims(ours, peers):
    plain = min((p for p in peers if p.plain), key=lambda p: p.bytes, default=None)
    smallest = min(peers, key=lambda p: p.bytes, default=None)
    fastest = min(peers, key=lambda p: p.milliseconds, default=None)
    unlimited = next((r for r in ours if r.plain), None)
    floor = min(ours, key=lambda r: r.within, default=None)
    lines = []

    def say(what, ratio, aim, peer):
        met = "met" if ratio <= aim else "missed"
        lines.append(f"- {what}: {ratio:.2f} of {peer.title}'s (aim {aim}: {met})")

    if unlimited and plain:
        say("Peak without a limit", unlimited.bytes / plain.bytes, PEAK_AIM, plain)
    if floor and smallest:
        say("Floor", floor.within / smallest.bytes, FLOOR_AIM, smallest)
    if unlimited and fastest:
        over = unlimited.milliseconds / fastest.milliseconds
        lines.append(f"- Time without a limit: {over:.2f} of {fastest.title}'s, the fastest at any size")
    return lines


def all_table(rows):
    lines = ["| side | MiB | allocated | by its own word | resident pages | median, ms | fastest, ms | ready in, s |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for row in sorted(rows, key=lambda r: (r.ours, r.milliseconds)):
        counts = [mebibytes(row.counts.get(key)) for key in ("allocated", "said", "pages")]
        ready = number(row.details.get("seconds_to_get_ready"), 0)
        cells = [row.title, mebibytes(row.bytes), *counts, number(row.median), number(row.fastest), ready]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def write(results, folder, by):
    """Prints the tables of every network and draws its picture, FOLDER/NETWORK.svg. `by`: median, or fastest (step)."""
    for network, found in results.items():
        rows = [Found(row, by) for row in found["rows"]]
        good = [row for row in rows if not row.error]
        ours, peers = [row for row in good if row.ours], [row for row in good if not row.ours]
        machine, load = found["machine"], found["load"]
        versions = sorted({f"{row.framework} {row.version}" for row in rows if row.version})
        print(f"## {network}\n")
        print(
            f"{found['date']}, {found['threads']} threads on {machine['processors']} processors of {machine['processor']}, "
            f"load {load[0]:.1f} before and {load[1]:.1f} after; {found['rounds']} rounds; {', '.join(versions)}. "
            f"Times are {'medians' if by == 'median' else 'those of the fastest steps'}. "
            f"Inputs, parameters and optimizer state take {mebibytes(found['resident_bytes'])} MiB on all sides.\n"
        )
        if ours:
            print("\n".join(ours_table(ours, peers)) + "\n")
            print("\n".join(aims(ours, peers)) + "\n")
        print("\n".join(all_table(good)) + "\n")
        for row in rows:
            if row.error:
                print(f"- failed: {row.title}: {row.error[:300]}")
        if good:
            (folder / f"{network}.svg").write_text(picture(network, ours, peers))


# -- pictures

WIDTH, HEIGHT, LEFT, TOP, BOTTOM, LEGEND = 960, 560, 70, 40, 50, 330
COLORS = {"plimsoll": "#c0392b", "torch": "#d98324", "jax": "#2c6fbb"}


def ticks(low, high):
    """Round numbers from 0 or below `low` to above `high`, about six of them."""
    step = 10 ** math.floor(math.log10(high / 5))
    step *= next(m for m in (1, 2, 5, 10) if high / (step * m) <= 7)
    return [i * step for i in range(int(low // step), math.ceil(high / step) + 1)]


def picture(title, ours, peers):
    """Ours as a line through its limits, the best of the peers as steps, every peer as a numbered point."""
    shown = ours + peers
    across = ticks(0, max(r.bytes for r in shown) / MIB)
    upwards = ticks(0, max(r.milliseconds for r in shown))
    right, low = WIDTH - LEGEND, HEIGHT - BOTTOM
    x = lambda bytes_: LEFT + (right - LEFT) * (bytes_ / MIB) / across[-1]
    y = lambda ms: low - (low - TOP) * ms / upwards[-1]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]

    def line(x1, y1, x2, y2, color):
        parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}"/>')

    def text(at_x, at_y, words, anchor="middle", color="black", size=12):
        words = words.replace("&", "&amp;").replace("<", "&lt;")
        parts.append(f'<text x="{at_x:.1f}" y="{at_y:.1f}" text-anchor="{anchor}" fill="{color}" font-size="{size}">{words}</text>')

    def path(points, color, dashes=""):
        way = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        parts.append(f'<polyline points="{way}" fill="none" stroke="{color}" stroke-width="2"{dashes}/>')

    for tick in across:
        line(x(tick * MIB), TOP, x(tick * MIB), low, "#e4e4e4")
        text(x(tick * MIB), low + 18, f"{tick:g}")
    for tick in upwards:
        line(LEFT, y(tick), right, y(tick), "#e4e4e4")
        text(LEFT - 8, y(tick) + 4, f"{tick:g}", "end")
    text((LEFT + right) / 2, HEIGHT - 12, "peak, MiB")
    text(LEFT, TOP - 14, f"{title}: milliseconds a step over peak bytes", "start", size=14)

    steps, best = [], math.inf
    for peer in sorted(peers, key=lambda p: (p.bytes, p.milliseconds)):
        if peer.milliseconds < best:
            steps += [(x(peer.bytes), y(best) if steps else TOP), (x(peer.bytes), y(peer.milliseconds))]
            best = peer.milliseconds
    if steps:
        path(steps + [(right, y(best))], "#888888", ' stroke-dasharray="5 4"')
    path([(x(r.bytes), y(r.milliseconds)) for r in sorted(ours, key=lambda r: (r.bytes, -r.milliseconds))], COLORS["plimsoll"])
    for row in ours:
        parts.append(f'<circle cx="{x(row.bytes):.1f}" cy="{y(row.milliseconds):.1f}" r="5" fill="{COLORS["plimsoll"]}"/>')
        text(x(row.bytes), y(row.milliseconds) - 9, row.name.split(", as")[0], color=COLORS["plimsoll"])
    line(right + 20, TOP + 4, right + 44, TOP + 4, COLORS["plimsoll"])
    text(right + 50, TOP + 8, "Plimsoll by limit", "start", COLORS["plimsoll"])
    path([(right + 20, TOP + 22), (right + 44, TOP + 22)], "#888888", ' stroke-dasharray="5 4"')
    text(right + 50, TOP + 26, "best of the peers within the bytes", "start", "#888888")
    for i, peer in enumerate(sorted(peers, key=lambda p: p.milliseconds)):
        color = COLORS[peer.framework]
        parts.append(f'<circle cx="{x(peer.bytes):.1f}" cy="{y(peer.milliseconds):.1f}" r="8" fill="{color}" fill-opacity="0.85"/>')
        text(x(peer.bytes), y(peer.milliseconds) + 4, str(i + 1), color="white", size=10)
        text(right + 20, TOP + 50 + 18 * i, f"{i + 1}  {peer.title}", "start", color)
    return "\n".join(parts + ["</svg>\n"])
