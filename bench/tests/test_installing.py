"""What a comparison compiles before it measures."""

import subprocess
import unittest

from comparison import installing


class OurOwnPrograms(unittest.TestCase):
    def compiles(self, source: str, *flags: str) -> None:
        command = [installing.compiler(), *installing.COMPILE, *flags, "-Werror", "-fsyntax-only", str(installing.SOURCES / source)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 0, f"{' '.join(command)}\n{ended.stderr}")

    def test_compile_in_every_variant(self):
        for variant, flags in installing.RING_VARIANTS.items():
            with self.subTest(variant):
                self.compiles("ring.c", *flags)
        self.compiles("futex.c")
