"""Draws the pictures of the documents that show how something works.

python3 docs/diagrams.py           writes them into docs/
python3 docs/diagrams.py --check   says which differ from what this script draws
"""

import sys
from html import escape
from pathlib import Path

docs = Path(__file__).resolve().parent
BLUE, ORANGE, GREEN, RED = "#4c78a8", "#f58518", "#54a24b", "#c33"
PLAIN, BORDER, DARK, GREY = "#f4f6f9", "#8794a8", "#223", "#556"


class Picture:
    def __init__(self, width, height, title):
        self.lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            ' font-family="sans-serif" font-size="13">',
            f"<title>{escape(title)}</title>",
            "<defs>",
        ]
        for name, colour in (("blue", BLUE), ("orange", ORANGE), ("green", GREEN), ("red", RED)):
            self.lines += [
                f'<marker id="{name}" markerWidth="8" markerHeight="8" refX="7" refY="3"'
                ' orient="auto">',
                f'<path d="M0 0 L7 3 L0 6 z" fill="{colour}"/>',
                "</marker>",
            ]
        self.lines += ["</defs>", f'<rect width="{width}" height="{height}" fill="#fff"/>']

    def box(self, x, y, width, height, fill=PLAIN, border=BORDER, dashed=False):
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.lines.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5" fill="{fill}"'
            f' stroke="{border}"{dash}/>'
        )

    def text(self, x, y, words, size=13, colour=DARK, anchor="middle", bold=False):
        weight = ' font-weight="bold"' if bold else ""
        self.lines.append(
            f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}" text-anchor="{anchor}"'
            f"{weight}>{escape(words)}</text>"
        )

    def line(self, x1, y1, x2, y2, colour=BORDER, dashed=False):
        dash = ' stroke-dasharray="4 4"' if dashed else ""
        self.lines.append(f'<path d="M{x1} {y1} L{x2} {y2}" fill="none" stroke="{colour}"{dash}/>')

    def arrow(self, points, name="blue", dashed=False):
        colour = {"blue": BLUE, "orange": ORANGE, "green": GREEN, "red": RED}[name]
        path = "M" + " L".join(f"{x} {y}" for x, y in points)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.lines.append(
            f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.5"{dash}'
            f' marker-end="url(#{name})"/>'
        )

    def lives(self, who, width, bottom):
        """A head of this width for each place, and its line, along which time runs down."""
        for x, words in who:
            self.box(x - width // 2, 14, width, 30, "#e8eef6")
            self.text(x, 34, words, bold=True)
            self.line(x, 44, x, bottom, GREY, dashed=True)

    def step(self, y, words, start, end, name="blue", dashed=False, of=None):
        """What goes from one life to another, with a smaller line of what is to be known of it."""
        self.arrow([(start, y), (end, y)], name, dashed)
        self.text((start + end) // 2, y - 6, words, 12)
        if of:
            self.text((start + end) // 2, y + 15, of, 11, GREY)

    def drawn(self):
        return "\n".join([*self.lines, "</svg>"]) + "\n"


def token():
    """The life of a token: owner, importer, lease, limbo."""
    picture = Picture(
        760,
        460,
        "The life of a token: exported, imported under a lease, released into limbo, given back",
    )
    owner, importer = 200, 610
    picture.lives(((owner, "the owner"), (importer, "an importer")), 180, 448)

    # What holds the memory, while time runs down.
    picture.box(owner - 180, 62, 22, 226, BLUE, BLUE)
    picture.text(owner - 150, 80, "its buffer", 11, GREY, "start")
    picture.box(importer + 106, 190, 22, 196, ORANGE, ORANGE)
    picture.text(importer + 100, 182, "a mapping", 11, GREY, "end")

    picture.text(owner + 12, 78, "symm_ipc_export()", 12, DARK, "start")
    picture.step(
        104,
        "the token: bytes, by the user's means",
        owner,
        importer,
        dashed=True,
        of="nothing is counted, so a token that is lost costs nothing",
    )
    picture.text(importer - 12, 148, "symm_ipc_import()", 12, DARK, "end")
    picture.step(
        176, "the first import of a block: the token, by a socket", importer, owner, "orange"
    )
    picture.step(
        206,
        "the descriptor, and a lease",
        owner,
        importer,
        of="later imports of the block write their lease into a ring, and ask nobody",
    )
    picture.text(owner + 12, 284, "symm_buffer_release(): no new import", 12, DARK, "start")
    picture.box(owner - 180, 290, 22, 118, "#fff", BLUE, dashed=True)
    picture.text(owner - 150, 316, "limbo: the owner holds", 11, GREY, "start")
    picture.text(owner - 150, 331, "nothing, and counts", 11, GREY, "start")
    picture.text(owner - 150, 346, "the leases", 11, GREY, "start")
    picture.text(importer - 12, 366, "symm_ipc_release(),", 12, DARK, "end")
    picture.text(
        importer - 12, 381, "or its death: the socket closes, the pidfd confirms", 12, DARK, "end"
    )
    picture.step(404, "the lease ends", importer, owner, "orange")
    picture.text(owner + 12, 430, "symm_ipc_collect(): the last lease is over", 12, DARK, "start")
    picture.text(owner + 12, 446, "and the kernel has the pages back", 12, DARK, "start")
    return picture


def weights():
    """Versions, the reader that goes from one to the next, and the holder."""
    picture = Picture(
        760,
        430,
        "A reader goes from one version to the next at one address; a holder keeps them",
    )
    maker, reader, holder = 130, 390, 640
    picture.lives(((maker, "the maker"), (reader, "a reader"), (holder, "symm hold")), 160, 418)

    # What the address of the reader shows, while time runs down.
    for y, height, colour, words in (
        (92, 84, BLUE, "version 1"),
        (200, 110, ORANGE, "version 2"),
        (352, 60, ORANGE, "version 2"),
    ):
        picture.box(reader + 14, y, 18, height, colour, colour)
        picture.text(reader + 38, y + 16, words, 11, GREY, "start")
    for y, height in ((176, 24), (310, 42)):
        picture.box(reader + 14, y, 18, height, "#fff", BORDER, dashed=True)

    picture.step(84, "publish 1, import", maker, reader)
    picture.step(140, "publish 2", maker, reader, "orange")
    picture.text(reader - 12, 180, "suspend: the lease on 1 is over", 12, DARK, "end")
    picture.step(214, "resume with 2, at the same address", maker, reader, "orange")
    picture.arrow([(maker, 240), (holder, 240)], "green")
    picture.text((reader + holder) // 2 + 20, 234, "the holder imports 2", 12)
    picture.text(maker + 12, 262, "writes 3 where 1 was", 12, DARK, "start")
    picture.text(maker, 292, "killed", 12, RED, bold=True)
    picture.line(maker - 30, 300, maker + 30, 300, RED)
    picture.text(reader - 12, 330, "suspend: it sleeps", 12, DARK, "end")
    picture.arrow([(holder, 356), (reader, 356)], "green")
    picture.text((reader + holder) // 2 + 20, 350, "resume with 2, from the holder", 12)
    return picture


def sleep():
    """What a token and a mapping are worth while the maker or a reader sleeps."""
    picture = Picture(
        760,
        400,
        "The life of a token while its reader and its maker sleep: addresses stay, memory goes",
    )
    maker, reader = 230, 560
    picture.lives(((maker, "the maker"), (reader, "a reader")), 180, 388)

    # What each address has, while time runs down.
    def memory(x, spans):
        for y, end, colour in spans:
            if colour:
                picture.box(x, y, 18, end - y, colour, colour)
            else:
                picture.box(x, y, 18, end - y, "#fff", BORDER, dashed=True)

    memory(maker - 130, ((62, 268, BLUE), (268, 322, None), (322, 388, ORANGE)))
    memory(reader + 112, ((112, 152, BLUE), (152, 206, None), (206, 374, BLUE), (374, 388, ORANGE)))

    def say(x, y, words, anchor, colour=DARK):
        picture.text(x, y, words, 12, colour, anchor)

    say(maker + 12, 72, "export: a token", "start")
    picture.step(112, "import: a lease, and a mapping", maker, reader)
    say(reader - 12, 152, "suspend: the lease ends,", "end")
    say(reader - 12, 167, "the address stays", "end")
    picture.step(206, "resume: the same token, the same address", maker, reader)
    say(maker + 12, 252, "suspend: its tokens end;", "start")
    say(maker + 12, 267, "the contents are kept on the host, or are lost", "start")
    say(reader - 12, 292, "the reader keeps what it has", "end", GREY)
    say(maker + 12, 322, "resume: other memory, the same address;", "start")
    say(maker + 12, 337, "export: another token", "start")
    picture.step(374, "suspend, and resume with the other token", maker, reader, "orange")
    return picture


def machines():
    """Ranks of two machines: what is mapped, what the engines carry, what the mesh is for."""
    picture = Picture(
        760, 400, "Blocks are mapped within a machine; engines and the mesh connect machines"
    )
    for machine, left in enumerate((20, 440)):
        picture.box(left, 20, 300, 250, "#fafbfd")
        picture.text(left + 150, 42, f"machine {'ab'[machine]}", bold=True)
        for place in range(2):
            x = left + 20 + 140 * place
            picture.box(x, 56, 120, 62, "#e8eef6")
            picture.text(x + 60, 76, f"rank {2 * machine + place}", bold=True)
            picture.text(x + 60, 93, "its block", 12)
            picture.text(x + 60, 109, "and signal pad", 12)
        picture.arrow([(left + 140, 74), (left + 160, 74)], "green")
        picture.arrow([(left + 160, 100), (left + 140, 100)], "green")
        picture.text(left + 150, 142, "mapped: plain loads and stores,", 12, GREEN)
        picture.text(left + 150, 158, "NVLink between GPUs", 12, GREEN)
        picture.box(left + 20, 174, 260, 34, "#fdf1e4", ORANGE)
        picture.text(left + 150, 196, "engines: UCX or secure; NCCL for GPUs", 12)
        picture.box(left + 20, 220, 260, 34, "#f9e9e9", RED)
        picture.text(left + 150, 242, "mesh: TCP, by the secret", 12)
    picture.arrow([(300, 184), (460, 184)], "orange")
    picture.arrow([(460, 198), (300, 198)], "orange")
    picture.text(380, 160, "put, get, signals,", 12, ORANGE)
    picture.text(380, 176, "collectives", 12, ORANGE)
    picture.arrow([(300, 230), (460, 230)], "red")
    picture.arrow([(460, 244), (300, 244)], "red")
    picture.text(380, 262, "votes, deaths and", 12, RED)
    picture.text(380, 277, "aborts", 12, RED)

    rows = (
        (GREEN, "Within a machine, every rank has a pointer to every block."),
        (
            ORANGE,
            "Between machines, an engine carries the bytes: UCX for memory of the host, and for",
        ),
        (
            None,
            "puts and gets of GPUs, else symm's own connections; NCCL for collectives of GPUs.",
        ),
        (
            RED,
            "The mesh, authenticated and encrypted, carries what must not be lost, and no data.",
        ),
    )
    for number, (colour, words) in enumerate(rows):
        y = 306 + 24 * number
        if colour:
            picture.box(24, y - 11, 13, 13, colour, colour)
        picture.text(46, y, words, 13, DARK, "start")
    return picture


def channels():
    """The signal pads of three ranks, with a signal on its way."""
    picture = Picture(
        760, 330, "Beside each block lies a pad: a word for each channel and each source"
    )
    for rank in range(3):
        x = 20 + 250 * rank
        picture.box(x, 14, 220, 220, "#fafbfd")
        picture.text(x + 110, 36, f"rank {rank}", bold=True)
        picture.box(x + 14, 46, 192, 34, BLUE, BLUE)
        picture.text(x + 110, 68, "its block", 13, "#fff")
        picture.text(x + 110, 102, "its signal pad, from rank", 12, GREY)
        for source in range(3):
            picture.text(x + 96 + 42 * source, 120, str(source), 12, GREY)
        for channel in range(3):
            y = 128 + 32 * channel
            picture.text(x + 66, y + 19, f"channel {channel}", 12, GREY, "end")
            for source in range(3):
                mine = (rank, channel, source) == (2, 2, 0)
                picture.box(
                    x + 78 + 42 * source,
                    y,
                    36,
                    26,
                    "#fdf1e4" if mine else PLAIN,
                    ORANGE if mine else BORDER,
                )
                picture.text(x + 96 + 42 * source, y + 18, "1" if mine else "0", 12)
    picture.arrow([(130, 234), (130, 262), (598, 262), (598, 219)], "orange")
    picture.text(364, 256, "rank 0: a signal to rank 2 on channel 2", 12, ORANGE)
    picture.text(
        20,
        290,
        "The word [channel][source] of a pad is written by its source alone, and only",
        13,
        DARK,
        "start",
    )
    picture.text(
        20,
        308,
        "grows. A wait for (source, channel) counts how many signals it has taken, and goes",
        13,
        DARK,
        "start",
    )
    picture.text(
        20,
        326,
        "on when the word is ahead of that. So uses that have two channels never mix.",
        13,
        DARK,
        "start",
    )
    return picture


def rendezvous():
    """A rendezvous in time: prepare, vote, exchange, vote, commit."""
    picture = Picture(
        800,
        430,
        "A rendezvous in time: prepare, vote, exchange, vote; then it is there on all ranks",
    )
    ranks = (190, 360, 530)
    for rank, x in enumerate(ranks):
        picture.box(x - 60, 14, 120, 28, "#e8eef6")
        picture.text(x, 33, f"rank {rank}", bold=True)
        picture.line(x, 42, x, 372, GREY, dashed=True)
    phases = (
        (58, 40, "prepare", "each makes its pad and the", "descriptors of block and pad", PLAIN),
        (112, 52, "vote", "bytes and channels, or a", "failure: equal on all?", "#fdf1e4"),
        (
            178,
            66,
            "exchange",
            "descriptors go by sockets;",
            "each maps the others' blocks",
            "#e6f2e5",
        ),
        (258, 52, "vote", "has everybody mapped all?", "", "#fdf1e4"),
        (324, 40, "commit", "the memory is there,", "on all ranks or on none", PLAIN),
    )
    for y, height, name, first, second, colour in phases:
        picture.box(110, y, 500, height, colour)
        picture.text(100, y + height // 2 + 4, name, 13, DARK, "end", bold=True)
        picture.text(620, y + height // 2 - (3 if second else -4), first, 11, GREY, "start")
        picture.text(620, y + height // 2 + 12, second, 11, GREY, "start")
    for x in ranks:
        picture.text(x, 83, "allocate", 12)
        picture.text(x, 349, "return", 12)
    for y, name in ((126, "orange"), (272, "orange")):
        for start, end in ((0, 1), (1, 2)):
            picture.arrow([(ranks[start] + 6, y), (ranks[end] - 6, y)], name)
            picture.arrow([(ranks[end] - 6, y + 22), (ranks[start] + 6, y + 22)], name)
    for start, end, y in (
        (0, 1, 192),
        (1, 0, 204),
        (1, 2, 192),
        (2, 1, 204),
        (0, 2, 222),
        (2, 0, 234),
    ):
        step = 6 if ranks[end] > ranks[start] else -6
        picture.arrow([(ranks[start] + step, y), (ranks[end] - step, y)], "green")
    picture.text(
        20,
        396,
        "Every vote has a deadline. A failure of one rank, before it or in it, is the same",
        13,
        DARK,
        "start",
    )
    picture.text(
        20,
        414,
        "status on all, which names that rank, and nothing is left behind.",
        13,
        DARK,
        "start",
    )
    return picture


pictures = {
    "token.svg": token,
    "weights.svg": weights,
    "sleep.svg": sleep,
    "machines.svg": machines,
    "channels.svg": channels,
    "rendezvous.svg": rendezvous,
}
wrong = []
for name, draw in pictures.items():
    text = draw().drawn()
    if sys.argv[1:] != ["--check"]:
        (docs / name).write_text(text, encoding="utf-8")
    elif not (docs / name).exists() or (docs / name).read_text(encoding="utf-8") != text:
        wrong.append(name)
if wrong:
    sys.exit(f"not as drawn: {', '.join(wrong)}: run python3 docs/diagrams.py")
