"""What bench/papers makes of result files: pictures pixel by pixel, schedules task by task, and what it says of wrong ones."""

import struct
import tempfile
import unittest
import zlib
from itertools import pairwise
from pathlib import Path

from experiments import pictures, schedules
from experiments.pictures import Picture
from experiments.results import SAME_BYTES, Outcome, Results, Wrong

SIZE = (5, 7)
PIXELS = bytes((17 * index * index + index) % 256 for index in range(3 * SIZE[0] * SIZE[1]))
PICTURE = Picture(*SIZE, PIXELS)


def png(picture: Picture, depth: int = 8) -> bytes:
    """A PNG whose rows are told as differences in every way there is, in two pieces."""
    stride = 3 * picture.width
    rows = [bytes(stride), *(picture.pixels[at : at + stride] for at in range(0, len(picture.pixels), stride))]
    lines = b""
    for number, (above, row) in enumerate(pairwise(rows)):
        way = number % 5
        told = bytearray()
        for index, byte in enumerate(row):
            left, corner = (row[index - 3], above[index - 3]) if index >= 3 else (0, 0)
            told.append((byte - pictures._guess(way, left, above[index], corner)) % 256)
        lines += bytes([way]) + told
    packed = zlib.compress(lines)
    head = struct.pack(">IIBBBBB", picture.width, picture.height, depth, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", packed[:9]), (b"IDAT", packed[9:]), (b"IEND", b""))
    told_chunks = (struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(told_chunks)


class InAFolder(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "result"


class Pictures(InAFolder):
    def _read(self, content: bytes) -> Picture:
        self.file.write_bytes(content)
        return pictures.read(self.file, SIZE)

    def test_all_kinds_of_files_hold_the_same_picture(self) -> None:
        pixmap = b"P6\n# POV-Ray says when: 7 8 9\n5 7\n# and more\n255\n" + PIXELS
        for content in (png(PICTURE), pixmap, PIXELS):
            self.assertEqual(self._read(content), PICTURE)

    def test_the_neighbours_that_a_byte_is_told_by_are_those_of_the_standard(self) -> None:
        # A row of each kind, worked out by hand: none, left, up, mean, and Paeth's choice among the three.
        above = bytes([10, 20, 30, 40, 50, 60])
        for way, wanted in ((0, [1, 2, 3, 4, 5, 6]), (1, [1, 2, 3, 5, 7, 9]), (2, [11, 22, 33, 44, 55, 66])):
            self.assertEqual(list(pictures._unfiltered(way, bytes([1, 2, 3, 4, 5, 6]), above)), wanted)
        self.assertEqual(list(pictures._unfiltered(3, bytes([1, 2, 3, 4, 5, 6]), above)), [6, 12, 18, 27, 36, 45])
        self.assertEqual(list(pictures._unfiltered(4, bytes([1, 2, 3, 4, 5, 6]), above)), [11, 22, 33, 44, 55, 66])
        self.assertEqual([pictures._guess(4, *three) for three in ((9, 1, 8), (1, 9, 8), (5, 6, 5))], [1, 1, 6])

    def test_other_pictures_are_no_pictures(self) -> None:
        for content in (PIXELS[1:], png(PICTURE, depth=16), b"P6 5 7 65535\n" + 2 * PIXELS, b"P6 5 7 255\n" + PIXELS[1:]):
            with self.assertRaises(Wrong):
                self._read(content)

    def test_one_wrong_pixel_fails_the_run_and_is_named(self) -> None:
        whole = Outcome(
            lambda files: pictures.read(files[0], SIZE), pictures.difference, lambda _: ("one whole render", PICTURE)
        )
        results = Results(whole)
        self.file.write_bytes(png(PICTURE))
        results.look_at("DECK", "8", [self.file])
        wrong = bytearray(PIXELS)
        wrong[3 * (5 * 2 + 4) + 1] ^= 1
        self.file.write_bytes(wrong)
        was, now = tuple(PIXELS[42:45]), tuple(wrong[42:45])
        with self.assertRaises(Wrong) as raised:
            results.look_at("MPI", "8", [self.file])
        self.assertEqual(
            str(raised.exception),
            f"MPI at 8: not the same as one whole render: column 4 of row 2 is {now} instead of {was}; 1 of 35 pixels differ",
        )
        with self.assertRaisesRegex(Wrong, "3x2 pixels instead of 5x7"):
            self.file.write_bytes(png(Picture(3, 2, PIXELS[:18])))
            results.look_at("DECK", "8", [self.file])


class Bytes(InAFolder):
    def test_every_run_has_to_come_to_what_the_first_did_at_its_point(self) -> None:
        results = Results(SAME_BYTES)
        for participant, point, content in (("DECK", "16", b"abc"), ("MPI", "16", b"abc"), ("DECK", "32", b"other")):
            self.file.write_bytes(content)
            results.look_at(participant, point, [self.file])
        for content, said in ((b"abd", "byte 2 is 100 instead of 99; 1 of 3 differ"), (b"ab", "2 bytes instead of 3")):
            self.file.write_bytes(content)
            with self.assertRaises(Wrong) as raised:
                results.look_at("MPI", "16", [self.file])
            self.assertEqual(str(raised.exception), f"MPI at 16: not the same as the first run, that of DECK: {said}")

    def test_a_result_that_is_not_there_is_wrong(self) -> None:
        with self.assertRaisesRegex(Wrong, "^MPI at 16: "):
            Results(SAME_BYTES).look_at("MPI", "16", [self.file])


def history(tasks: int) -> list[list[object]]:
    """Producers in turn; consumer 0 takes the even places of each queue and consumer 1 the odd ones."""
    lines: list[list[object]] = []
    places = [0, 0, 0]
    for task in range(tasks):
        for producer in range(2):
            queue = (0, 0, 0, 1, 1, 2)[task % 6]
            lines.append([f"producer {producer}", queue, places[queue], producer, task])
            lines.append([f"consumer {places[queue] % 2}", queue, places[queue], producer, task])
            places[queue] += 1
    return lines


class Schedules(InAFolder):
    def _read(self, lines: list[list[object]]) -> schedules.Schedule:
        rows = [["process", "queue", "place", "producer", "task"], *lines]
        self.file.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
        return schedules.read(self.file)

    def test_what_is_right_passes(self) -> None:
        self.assertEqual(self._read(history(12)), schedules.wanted(12))
        of_queue = [sum(queue == one for queue, _, _ in schedules.wanted(600)) for one in range(3)]
        self.assertEqual(of_queue, [600, 400, 200])

    def test_every_fault_is_found_and_named(self) -> None:
        def lost(lines: list[list[object]]) -> None:
            lines.remove(["consumer 0", 0, 4, 0, 2])

        def twice(lines: list[list[object]]) -> None:
            lines.append(["consumer 1", 0, 12, 1, 0])
            lines.append(["producer 1", 0, 12, 1, 99])

        def doubled(lines: list[list[object]]) -> None:
            lines.append(["consumer 1", 0, 10, 1, 8])

        def exchanged(lines: list[list[object]]) -> None:
            one, other = lines.index(["consumer 0", 0, 0, 0, 0]), lines.index(["consumer 0", 0, 2, 0, 1])
            lines[one], lines[other] = lines[other], lines[one]

        def overtaken(lines: list[list[object]]) -> None:
            for place, task in ((0, 1), (2, 0)):
                for line in lines:
                    if line[1:3] == [0, place]:
                        line[4] = task

        def foreign(lines: list[list[object]]) -> None:
            lines[0][0] = "producer 1"

        def a_hole(lines: list[list[object]]) -> None:
            for line in lines:
                if line[1:3] == [2, 3]:
                    line[2] = 7

        for fault, said in (
            (lost, "at place 4 of q0 task 2 of producer 0 went in and nothing came out"),
            (twice, "at place 12 of q0 task 99 of producer 1 went in and task 0 of producer 1 came out"),
            (doubled, "place 10 of q0 was used twice, the second time by consumer 1|consumer 1 used q0 out of order: place 10 after 11"),
            (exchanged, "consumer 0 used q0 out of order: place 0 after 2"),
            (overtaken, "producer 0 used q0 out of order: place 2 after 0, task 0"),
            (foreign, "producer 1 put in task 0 of producer 0"),
            (a_hole, "the places of q2 have a hole"),
        ):
            lines = history(12)
            fault(lines)
            with self.subTest(fault.__name__), self.assertRaisesRegex(Wrong, said):
                self._read(lines)

    def test_a_task_that_went_through_two_queues_is_found(self) -> None:
        lines = history(12)
        for queue, place in ((0, 12), (1, 8)):
            lines += [["producer 0", queue, place, 0, 99], ["consumer 0", queue, place, 0, 99]]
        with self.assertRaisesRegex(Wrong, "task 99 of producer 0 ran more than once"):
            self._read(lines)

    def test_tasks_that_nobody_wanted_or_that_are_in_a_wrong_queue_are_told(self) -> None:
        few = self._read(history(6))
        self.assertIn("12 of 24 tasks did not run", schedules.difference(few, schedules.wanted(12)))
        self.assertIn("task 6 of producer 0 in q0", schedules.difference(few, schedules.wanted(12)))
        self.assertEqual(schedules.difference(schedules.wanted(12), few), "12 tasks ran that nobody has")

    def test_mappings_are_those_of_the_examples(self) -> None:
        # Nodes 2 and 3 are those of producers: of six tasks so many lie there.
        for mapping, at_producers in (("a", 6), ("b", 3), ("c", 1)):
            homes = zip(schedules.SHARES, schedules.homes(mapping), strict=True)
            self.assertEqual(sum(share for share, home in homes if home >= 2), at_producers)


if __name__ == "__main__":
    unittest.main()
