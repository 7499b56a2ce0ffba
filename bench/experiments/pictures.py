"""Pictures as programs leave them, pixel by pixel: what the farm is compared by."""

import struct
import subprocess
import sys
import tempfile
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from experiments.results import Wrong

STARTS = 3
_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Picture:
    width: int
    height: int
    # Red, green and blue, a byte each, the upper row first.
    pixels: bytes


def read(path: Path, size: tuple[int, int]) -> Picture:
    """A PNG or a binary pixmap, both of 8-bit RGB; anything else is taken for bare pixels of this size."""
    content = path.read_bytes()
    if content.startswith(_PNG):
        return _png(content)
    if content.startswith(b"P6"):
        return _pixmap(content)
    width, height = size
    if len(content) != 3 * width * height:
        raise Wrong(f"{len(content)} bytes are no picture of {width}x{height} pixels")
    return Picture(width, height, content)


def _pixmap(content: bytes) -> Picture:
    # POV-Ray writes comments between the numbers.
    numbers, at = [], 2
    while len(numbers) < 3:
        line, _, _ = content[at:].partition(b"\n")
        numbers += [int(word) for word in line.partition(b"#")[0].split()]
        at += len(line) + 1
    width, height, largest = numbers
    pixels = content[at:]
    if largest != 255 or len(pixels) != 3 * width * height:
        raise Wrong("this is no whole pixmap of 8-bit RGB")
    return Picture(width, height, pixels)


def _png(content: bytes) -> Picture:
    chunks, at = [], len(_PNG)
    while at < len(content):
        length, kind = struct.unpack_from(">I4s", content, at)
        chunks.append((kind, content[at + 8 : at + 8 + length]))
        at += 12 + length
    width, height, *form = struct.unpack(">IIBBBBB", chunks[0][1])
    if form != [8, 2, 0, 0, 0]:
        raise Wrong("this is no PNG of 8-bit RGB")
    lines = zlib.decompress(b"".join(data for kind, data in chunks if kind == b"IDAT"))
    stride = 3 * width
    above, rows = bytes(stride), []
    for row in range(height):
        first = row * (stride + 1)
        above = _unfiltered(lines[first], lines[first + 1 : first + 1 + stride], above)
        rows.append(above)
    return Picture(width, height, b"".join(rows))


def _unfiltered(way: int, line: bytes, above: bytes) -> bytes:
    """Undoes what PNG does to a row so that it is packed better: each byte is told as a difference to its neighbours."""
    row = bytearray(line)
    for index, byte in enumerate(line):
        left, corner = (row[index - 3], above[index - 3]) if index >= 3 else (0, 0)
        row[index] = (byte + _guess(way, left, above[index], corner)) & 255
    return bytes(row)


def _guess(way: int, left: int, up: int, corner: int) -> int:
    if way < 4:
        return (0, left, up, (left + up) // 2)[way]
    together = left + up - corner
    return min((left, up, corner), key=lambda neighbour: abs(together - neighbour))


def difference(found: Picture, wanted: Picture) -> str:
    """Where two pictures differ first, and how much of them does."""
    if (found.width, found.height) != (wanted.width, wanted.height):
        return f"{found.width}x{found.height} pixels instead of {wanted.width}x{wanted.height}"
    both = zip(_colours(found), _colours(wanted), strict=True)
    differing = [(index, *colours) for index, colours in enumerate(both) if colours[0] != colours[1]]
    index, colour, wanted_colour = differing[0]
    place = f"column {index % found.width} of row {index // found.width} is {tuple(colour)} instead of {tuple(wanted_colour)}"
    return f"{place}; {len(differing)} of {found.width * found.height} pixels differ"


def _colours(picture: Picture) -> list[bytes]:
    return [picture.pixels[at : at + 3] for at in range(0, len(picture.pixels), 3)]


def _render(scene: Path, size: tuple[int, int], *options: str) -> Picture:
    """By one POV-Ray, with the options that the farm gives to those that render slices."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "whole.ppm"
        command = ["povray", f"+I{scene}", f"+O{out}", f"+L{scene.parent}", f"+W{size[0]}", f"+H{size[1]}", *options]
        command += ["+FP", "-D", "-J", "-P", "+WT1", "-GS", "-GR", "-GD"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=place)
        if ended.returncode != 0:
            sys.exit(f"papers: this failed: {' '.join(command)}\n{ended.stderr}")
        return read(out, size)


def whole_render(scene: Path, size: tuple[int, int], antialias: str | None) -> Picture:
    """The whole scene."""
    return _render(scene, size, *([f"+A{antialias}", "+AM2"] if antialias else ["-A"]))


def start_seconds(scene: Path) -> float:
    """How long POV-Ray takes for one pixel of a scene: it starts, reads the scene and ends."""

    def once() -> float:
        began = time.monotonic()
        _render(scene, (1, 1), "-A")
        return time.monotonic() - began

    return median(once() for _ in range(STARTS))
