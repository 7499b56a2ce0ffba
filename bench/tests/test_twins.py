"""The MPI twins: that they are compiled as DECK's applications are, and come to what these come to."""

import os
import shutil
import subprocess
import tempfile
import tomllib
import unittest
from pathlib import Path

from comparison import installing
from experiments import building, libraries, pictures, schedules

SCENE = installing.ROOT / "apps/povray-farm/scenes/balls.pov"
SIZE = (64, 96)


def _fetched() -> str | None:
    """An MPI that is there already: a test fetches nothing."""
    if libraries.default() == libraries.SYSTEM:
        return libraries.SYSTEM
    return next((name for name in libraries.NAMES if (installing.PEERS / f"{name}.installed").exists()), None)


class Profiles(unittest.TestCase):
    def test_the_twins_kernels_are_compiled_as_the_applications_are(self) -> None:
        applications, twins = (
            tomllib.loads(path.read_text())["profile"]["release"]
            for path in (installing.ROOT / "Cargo.toml", installing.BENCH / "twins/kernels/Cargo.toml")
        )
        self.assertEqual(twins, applications)


@unittest.skipUnless(_fetched(), "no MPI: apt-get install libopenmpi-dev openmpi-bin, or bench/compare --install")
@unittest.skipUnless(shutil.which("cargo"), "no cargo")
class Twins(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.library = libraries.find(_fetched())
        building.build_twins(cls.library)

    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.file = Path(place.name) / "result"

    def _run(self, name: str, processes: int, *options: str) -> bytes:
        """What a twin leaves."""
        command = [*self.library.launch, "-n", str(processes), str(building.twin(self.library, name)), *options, str(self.file)]
        environment = {**os.environ, **self.library.environment}
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(ended.returncode, 0, f"{' '.join(command)}\n{ended.stderr}")
        self.assertRegex(ended.stdout, r"[0-9.]+ m?s\b")
        return self.file.read_bytes()

    def test_mandelbrot_is_the_same_with_any_number_of_workers_and_slices(self) -> None:
        small = ("--size", "30x20", "--max-iter", "100")
        one = self._run("mandelbrot", 2, *small, "--slices", "1", "--counts")
        self.assertEqual(len(one), 30 * 20 * 4)
        self.assertEqual(self._run("mandelbrot", 3, *small, "--slices", "7", "--patient", "1", "--counts"), one)

    def test_laplace_is_the_same_with_any_number_of_bands(self) -> None:
        small = ("--size", "15x12", "--max-sweeps", "20", "--temperatures")
        one = self._run("laplace", 1, *small)
        self.assertEqual(len(one), 15 * 12 * 8)
        self.assertEqual(self._run("laplace", 2, *small), one)

    @unittest.skipUnless(shutil.which("povray"), "no povray")
    def test_a_farm_leaves_the_picture_of_one_whole_render_smooth_or_not(self) -> None:
        farm = ("--scene", str(SCENE), "--size", f"{SIZE[0]}x{SIZE[1]}", "--slices", "2", "--patient", "1")
        for antialias, options in ((None, ()), ("0.3", ("--antialias", "0.3"))):
            self._run("povray-farm", 2, *farm, *options, "--pixels")
            self.assertEqual(pictures.read(self.file, SIZE), pictures.whole_render(SCENE, SIZE, antialias))

    def test_the_scheduler_runs_every_task_once(self) -> None:
        self._run("scheduler", 4, "--place", "q0=0,q1=1,q2=2", "--tasks", "6", "--wait", "sleep", "--record", os.devnull, "--history")
        self.assertEqual(schedules.read(self.file), schedules.wanted(6))


if __name__ == "__main__":
    unittest.main()
