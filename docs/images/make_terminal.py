"""Draws ``terminal.png``: a first session with ``ottla dev``, with the output that the commands really have.

``python docs/images/make_terminal.py`` needs port 9092 to be free, and the package's ``spark`` extra (for Pillow).
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from matplotlib import get_data_path
from PIL import Image, ImageDraw, ImageFont

PICTURE = Path(__file__).with_name("terminal.png")
OTTLA = Path(sys.executable).with_name("ottla")
DEV = "ottla dev"
SESSION = (
    "ottla topic create hello -p 3",
    "echo 'k:world' | ottla produce hello -K :",
    "ottla consume hello -n 1 -o wide",
    "ottla topic list",
)

SCALE = 2
FONT_SIZE, LINE_HEIGHT = 15 * SCALE, 22 * SCALE
MARGIN, PADDING, BAR_HEIGHT, RADIUS = 28 * SCALE, 22 * SCALE, 34 * SCALE, 11 * SCALE
COLUMNS = 76
BACKDROP, WINDOW, BAR, EDGE = "#e9e7e1", "#1d2027", "#2a2e37", "#3a3f4b"
TEXT, FAINT, PROMPT, BRIGHT, LINK = "#c9cdd6", "#7d8493", "#8fbf7f", "#ffffff", "#7fb2e5"
LIGHTS = ("#ec6a5e", "#f4bf4f", "#61c554")


class Span(NamedTuple):
    """A run of characters of one look."""

    text: str
    color: str = TEXT
    is_bold: bool = False


Line = tuple[Span, ...]


def record() -> tuple[list[Line], list[Line]]:
    """Run the session; return what each of the two terminals shows."""
    node = subprocess.Popen([OTTLA, "dev"], stderr=subprocess.PIPE, text=True)
    assert node.stderr is not None
    try:
        upper = [_typed(DEV)]
        while not upper[-1][-1].text.strip().startswith("ottla consume"):
            line = node.stderr.readline()
            if not line:
                raise SystemExit("ottla dev ended: " + upper[-1][-1].text)
            upper.append(_said(line.rstrip("\n")))
        lower = [line for command in SESSION for line in _run(command)]
    finally:
        node.terminate()
        node.wait()
    return upper, lower[:-1]


def _run(command: str) -> Iterator[Line]:
    yield _typed(command)
    with tempfile.TemporaryDirectory() as home:
        # The environment of a shell, without a local cluster that may be recorded on this host.
        environment = {"PATH": f"{OTTLA.parent}:/usr/bin:/bin", "OTTLA_HOME": home}
        ran = subprocess.run(
            ["/bin/sh", "-c", command],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    if ran.returncode:
        raise SystemExit(f"{command}: {ran.stdout}")
    for line in ran.stdout.rstrip("\n").split("\n"):
        yield (Span(line, TEXT),)
    yield ()


def _typed(command: str) -> Line:
    return (Span("$ ", PROMPT, is_bold=True), Span(command, BRIGHT, is_bold=True))


def _said(line: str) -> Line:
    """Give a line of the banner its look: name, addresses, and the rest."""
    if line.startswith("ottla "):
        name, version, rest = line.split(" ", 2)
        return (Span(f"{name} {version}", BRIGHT, is_bold=True), Span(f" {rest}", FAINT))
    if line.startswith("  ") and not line.strip().startswith("ottla"):
        label, address = line[:11], line[11:]
        return (Span(label, FAINT), Span(address, LINK))
    if line.startswith("Ready"):
        ready, next_, command = line.partition("  Next: ")
        return (Span(ready, PROMPT, is_bold=True), Span(next_, FAINT), Span(command, TEXT))
    return (Span(line, TEXT),)


def draw(upper: list[Line], lower: list[Line]) -> Image.Image:
    """Return the picture of two terminals, one below the other."""
    fonts = Path(get_data_path()) / "fonts" / "ttf"
    plain = ImageFont.truetype(str(fonts / "DejaVuSansMono.ttf"), FONT_SIZE)
    bold = ImageFont.truetype(str(fonts / "DejaVuSansMono-Bold.ttf"), FONT_SIZE)
    width = int(plain.getlength("m") * COLUMNS) + 2 * PADDING
    heights = [BAR_HEIGHT + 2 * PADDING + LINE_HEIGHT * len(lines) for lines in (upper, lower)]
    picture = Image.new("RGB", (width + 2 * MARGIN, sum(heights) + 3 * MARGIN), BACKDROP)
    pen = ImageDraw.Draw(picture)
    top = MARGIN
    for title, lines, height in zip(("one terminal", "another"), (upper, lower), heights, strict=True):
        _draw_window(pen, title, top, width, height, plain)
        y = top + BAR_HEIGHT + PADDING
        for line in lines:
            x = float(MARGIN + PADDING)
            for span in line:
                font = bold if span.is_bold else plain
                pen.text((x, y), span.text, font=font, fill=span.color)
                x += font.getlength(span.text)
            y += LINE_HEIGHT
        top += height + MARGIN
    return picture


def _draw_window(
    pen: ImageDraw.ImageDraw, title: str, top: int, width: int, height: int, font: ImageFont.FreeTypeFont
) -> None:
    box = (MARGIN, top, MARGIN + width, top + height)
    pen.rounded_rectangle(box, RADIUS, fill=WINDOW, outline=EDGE, width=SCALE)
    bar = (MARGIN, top, MARGIN + width, top + BAR_HEIGHT)
    pen.rounded_rectangle(bar, RADIUS, fill=BAR, corners=(True, True, False, False))
    middle = top + BAR_HEIGHT // 2
    for index, color in enumerate(LIGHTS):
        x = MARGIN + 20 * SCALE + index * 20 * SCALE
        pen.ellipse((x - 6 * SCALE, middle - 6 * SCALE, x + 6 * SCALE, middle + 6 * SCALE), fill=color)
    pen.text((MARGIN + width // 2, middle), title, font=font, fill=FAINT, anchor="mm")


if __name__ == "__main__":
    draw(*record()).save(PICTURE, optimize=True)
