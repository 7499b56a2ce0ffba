"""What bench/papers makes of times: ratios within a round, the better MPI, the shape of a curve."""

import os
import sys
import unittest

from experiments import judging, running
from experiments.running import Record
from experiments.trials import DECK, EXPERIMENTS, MPI, PATIENT, halo_bytes

MANDELBROT, LAPLACE, _ = EXPERIMENTS


def records(times: dict[tuple[str, str], float]) -> list[Record]:
    """Nine rounds, the machine being slower in each than in the one before."""
    return [
        Record("mandelbrot", point, number, participant, seconds * (1 + number), 0.0)
        for (participant, point), seconds in times.items()
        for number in range(9)
    ]


class Experiments(unittest.TestCase):
    def test_the_better_mpi_counts_and_a_slow_machine_does_not(self) -> None:
        found = records({(DECK, "16"): 1.0, (MPI, "16"): 2.0, (PATIENT, "16"): 0.99})
        self.assertEqual(judging.best_mpi(found, MANDELBROT, "16"), PATIENT)
        point, ratio, verdict = next(iter(judging.versus(found, MANDELBROT)))
        self.assertEqual((point, verdict), ("16", "reached"))
        self.assertAlmostEqual(ratio.median, 1 / 0.99)
        self.assertAlmostEqual(ratio.high, ratio.low)

    def test_disturbed_runs_do_not_count(self) -> None:
        found = records({(DECK, "16"): 1.0, (MPI, "16"): 1.0})
        disturbed = [Record("mandelbrot", "16", 9, DECK, 50.0, 0.3), Record("mandelbrot", "16", 9, MPI, 1.0, 0.0)]
        _, ratio, _ = next(iter(judging.versus(found + disturbed, MANDELBROT)))
        self.assertEqual((ratio.high, ratio.count), (1.0, 9))

    def test_too_slow_is_missed_and_what_was_not_measured_is_no_verdict(self) -> None:
        found = records({(DECK, "16"): 1.03, (MPI, "16"): 1.0})
        verdicts = {point: verdict for point, _, verdict in judging.versus(found, MANDELBROT)}
        self.assertEqual((verdicts["16"], verdicts["512"]), ("**missed**", "no claim"))

    def test_a_curve_has_the_shape_of_a_u_if_both_ends_are_above_the_lowest(self) -> None:
        curve = {"16": 1.2, "32": 1.1, "64": 1.0, "128": 1.0, "256": 1.1, "512": 1.0}
        (line,) = judging.shape(records({(DECK, point): seconds for point, seconds in curve.items()}), MANDELBROT)
        self.assertIn("16 is above the lowest (1.200", line)
        self.assertIn("512 is not told apart from the lowest", line)

    def test_messages_of_laplace_cross_the_threshold_of_zero_copy(self) -> None:
        sizes = [halo_bytes(point) for point in LAPLACE.points]
        self.assertEqual(sizes, [128, 256, 512, 1024, 4096, 16384, 65536, 2400])
        goals = [judging.goal_of(LAPLACE, point) for point in LAPLACE.points]
        self.assertEqual(goals, [None, None, None, None, 1.0, 1.0, 1.0, 1.0])


class Time(unittest.TestCase):
    def test_time_of_processes_that_outlive_their_parents_is_counted_as_ours(self) -> None:
        # As `deck run` does it: whoever was started ends at once, and what it has started computes.
        burn = "import os, time\nif os.fork() == 0:\n  while time.process_time() < 0.3: pass\nelse: print('0.5 s')"
        before = os.times().children_user + os.times().children_system
        seconds, _others = running._seconds([sys.executable, "-c", burn])
        after = os.times().children_user + os.times().children_system
        self.assertEqual(seconds, 0.5)
        self.assertGreaterEqual(after - before, 0.29)


if __name__ == "__main__":
    unittest.main()
