"""What bench/papers makes of times: ratios within a round, the better MPI, the shapes; and how it runs programs."""

import os
import sys
import tempfile
import unittest
from contextlib import redirect_stderr
from dataclasses import replace
from io import StringIO
from pathlib import Path
from unittest.mock import Mock, patch

from experiments import judging, running, writing
from experiments.libraries import Library
from experiments.running import Record, Runs
from experiments.trials import DECK, EXPERIMENTS, MPI, PATIENT, SLEEPING, YIELDING, Experiment, Trial, halo_bytes

MANDELBROT, LAPLACE, FARM, SCHEDULER = EXPERIMENTS
# As Hydra starts programs, and as Open MPI does.
PLAIN = Library("plain", ("cc",), ("mpiexec",), (), {})
SWITCHED = Library("switched", ("cc",), ("mpirun",), ("--yield",), {})


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

    def test_where_everybody_was_disturbed_that_is_said(self) -> None:
        steady = records({(DECK, "16"): 1.0, (MPI, "16"): 2.0})
        disturbed = [replace(record, others=0.5) for record in steady]
        for found, wanted in ((disturbed, "reached, disturbed"), (steady[:5] + disturbed[5:], "reached, disturbed"), (steady, "reached")):
            _, ratio, verdict = next(iter(judging.versus(found, MANDELBROT)))
            self.assertEqual((ratio.median, ratio.count, verdict), (0.5, 9, wanted))

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


class Mappings(unittest.TestCase):
    def _lines(self, times: dict[str, float], costs: dict[str, float], rounds: int = 9) -> list[str]:
        records = [
            Record("scheduler", point, number, participant, times[point] * (1 + number), 0.0, costs[point])
            for point in judging.TABLE_1
            for number in range(rounds)
            for participant in (DECK, MPI)
        ]
        return judging.mappings(records, SCHEDULER)

    def test_records_that_cost_what_the_simulator_said_have_the_shape_of_the_paper(self) -> None:
        priced, deck, mpi = self._lines({"a": 1.0, "b": 1.0, "c": 0.9}, {"a": 494.0, "b": 453.0, "c": 426.0})
        self.assertIn("b costs 0.917 of a (its simulator 0.925, its cluster 0.891)", priced)
        self.assertIn("c costs 0.862 of a (its simulator 0.861, its cluster 0.786)", priced)
        self.assertTrue(priced.endswith(": as in the paper"), priced)
        self.assertEqual(
            deck, "DECK, in time: b takes 1.000 [1.000, 1.000] of a, not told apart; c takes 0.900 [0.900, 0.900] of a, shorter"
        )
        self.assertTrue(mpi.startswith("MPI, in time: "), mpi)

    def test_another_order_or_other_proportions_are_not_those_of_the_paper(self) -> None:
        same = {"a": 1.0, "b": 1.0, "c": 1.0}
        for costs in ({"a": 100.0, "b": 86.0, "c": 87.0}, {"a": 100.0, "b": 92.0, "c": 90.0}, {"a": 100.0, "b": 100.0, "c": 86.0}):
            self.assertTrue(self._lines(same, costs)[0].endswith(": **not as in the paper**"), costs)

    def test_few_rounds_are_uncertain(self) -> None:
        _, deck, _ = self._lines({"a": 1.0, "b": 1.1, "c": 1.0}, {"a": 494.0, "b": 453.0, "c": 426.0}, rounds=5)
        self.assertIn("b takes 1.100 [1.100, 1.100] range of a, longer, uncertain", deck)

    def test_what_was_priced_counts_though_somebody_disturbed_the_times(self) -> None:
        records = [Record("scheduler", point, 0, DECK, 1.0, 0.9, cost) for point, cost in (("a", 494.0), ("b", 453.0), ("c", 426.0))]
        priced, *_ = judging.mappings(records, SCHEDULER)
        self.assertTrue(priced.endswith(": as in the paper"), priced)

    def test_the_report_says_why_one_memory_shows_no_order(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            records = [Record("scheduler", point, 0, DECK, 0.00612, 0.0, 1.0) for point in judging.TABLE_1]
            one = writing.write(Path(place), records, {"NUMA nodes": "1"}).read_text()
            several = writing.write(Path(place), records, {"NUMA nodes": "4"}).read_text()
        self.assertIn("times cannot show the paper's order here", one)
        self.assertNotIn("times cannot show", several)
        self.assertIn("| a | 0.00612 |", one)
        self.assertIn("| point | DECK, s | DECK over best MPI |", one)


@patch("os.sched_getaffinity", return_value={0, 1, 2, 3})
class Commands(unittest.TestCase):
    def test_everybody_puts_the_queues_where_the_mapping_says(self, _cores: Mock) -> None:
        for participant in SCHEDULER.participants:
            command = SCHEDULER.trial(participant, "b", SWITCHED).command
            self.assertEqual(command[command.index("--place") + 1], "q0=2,q1=0,q2=1")
            self.assertEqual(command[command.index("-n") + 1], "4")
        ways = [SCHEDULER.trial(one, "a", SWITCHED).command for one in (MPI, YIELDING, SLEEPING)]
        self.assertEqual([command[-1] for command in ways], ["poll", "yield", "sleep"])
        self.assertEqual(["--yield" in command for command in ways], [False, True, False])

    def test_a_point_may_say_how_many_tasks_there_are(self, _cores: Mock) -> None:
        for point, tasks in (("a", "600"), ("c x 60000", "60000")):
            command = SCHEDULER.trial(DECK, point, PLAIN).command
            self.assertEqual(command[command.index("--tasks") + 1], tasks)
            _, wanted = SCHEDULER.outcome.wanted(point)
            self.assertEqual(len(wanted), 2 * int(tasks))

    def test_with_fewer_cores_than_processes_nobody_looks_again_at_once(self, cores: Mock) -> None:
        cores.return_value = {0, 1}
        self.assertEqual(Runs(SCHEDULER, PLAIN).participants, (DECK, YIELDING, SLEEPING))

    def test_a_library_without_a_switch_to_yield_takes_no_part_where_the_twin_cannot_yield_itself(self, _cores: Mock) -> None:
        self.assertEqual(Runs(LAPLACE, PLAIN).participants, (DECK, MPI))
        self.assertEqual(Runs(LAPLACE, SWITCHED).participants, LAPLACE.participants)
        for experiment in (MANDELBROT, FARM, SCHEDULER):
            self.assertEqual(Runs(experiment, PLAIN).participants, experiment.participants)


class Programs(unittest.TestCase):
    def _experiment(self, contents: dict[str, str]) -> Experiment:
        """Participants that leave this, and tell a time."""
        program = "import sys; print('5.25 ms'); open(sys.argv[-1], 'w').write(sys.argv[1])"

        def trial(participant: str, _point: str, _library: Library) -> Trial:
            return Trial((sys.executable, "-c", program, contents[participant]), ("--out",))

        return Experiment("made up", (), "", ("1", "2"), tuple(contents), trial)

    def test_rounds_are_added_by_everybody_in_turn_and_go_on_where_they_were_stopped(self) -> None:
        runs = Runs(self._experiment({DECK: "same", MPI: "same"}), PLAIN)
        with tempfile.TemporaryDirectory() as place, redirect_stderr(StringIO()):
            folder = Path(place)
            runs.check()
            runs.add(1, folder)
            first = running.read(folder)
            runs.add(1, folder)
            again = running.read(folder)
        self.assertEqual([(one.point, one.participant) for one in first[:4]], [("1", DECK), ("1", MPI), ("2", DECK), ("2", MPI)])
        self.assertEqual({one.seconds for one in first}, {0.00525})
        self.assertEqual(again[: len(first)], first)

    def test_a_wrong_result_ends_the_program_with_a_sentence_and_the_command(self) -> None:
        runs = Runs(self._experiment({DECK: "same", MPI: "else"}), PLAIN)
        with self.assertRaises(SystemExit) as raised:
            runs.check()
        said = str(raised.exception)
        self.assertIn("wrong result of made up: MPI at 1: not the same as the first run, that of DECK: byte 0", said)
        self.assertIn("repeat with: ", said)


class Time(unittest.TestCase):
    def test_time_of_processes_that_outlive_their_parents_is_counted_as_ours(self) -> None:
        # As `deck run` does it: whoever was started ends at once, and what it has started computes.
        burn = "import os, time\nif os.fork() == 0:\n  while time.process_time() < 0.3: pass\nelse: print('0.5 s')"
        before = os.times().children_user + os.times().children_system
        seconds, _others = running._seconds([sys.executable, "-c", burn], {})
        after = os.times().children_user + os.times().children_system
        self.assertEqual(seconds, 0.5)
        self.assertGreaterEqual(after - before, 0.29)


if __name__ == "__main__":
    unittest.main()
