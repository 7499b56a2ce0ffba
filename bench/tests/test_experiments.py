"""What bench/papers makes of times: ratios within a round, the better MPI, the shapes; and how it runs programs."""

import os
import sys
import tempfile
import unittest
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from unittest.mock import Mock, patch

from comparison.interruption import Terminated
from comparison.ratios import Verdict
from experiments import __main__ as papers
from experiments import explaining, folder, judging, running, writing
from experiments.folder import Record
from experiments.libraries import Library
from experiments.running import Runs
from experiments.trials import DECK, EXPERIMENTS, MPI, ONE_NODE, PATIENT, SLEEPING, YIELDING, Experiment, Trial, halo_bytes

MANDELBROT, LAPLACE, FARM, SCHEDULER = EXPERIMENTS
# As Hydra starts programs, and as Open MPI does.
PLAIN = Library("plain", ("cc",), ("mpiexec",), (), {})
SWITCHED = Library("switched", ("cc",), ("mpirun",), ("--yield",), {})
NOWHERE = Path("/nowhere")


def records(times: dict[tuple[str, str], float]) -> list[Record]:
    """Nine turns, the machine being slower in each than in the one before."""
    return [
        Record("mandelbrot", point, number, participant, seconds * (1 + number), 0.0)
        for (participant, point), seconds in times.items()
        for number in range(9)
    ]


class Experiments(unittest.TestCase):
    def test_the_better_mpi_counts_and_a_slow_machine_does_not(self) -> None:
        found = records({(DECK, "16"): 1.0, (MPI, "16"): 2.0, (PATIENT, "16"): 0.99})
        self.assertEqual(judging.best_mpi(found, MANDELBROT, "16"), PATIENT)
        said = next(iter(judging.versus(found, MANDELBROT)))
        self.assertEqual((said.point, said.verdict), ("16", Verdict.REACHED))
        self.assertAlmostEqual(said.ratio.median, 1 / 0.99)
        self.assertAlmostEqual(said.ratio.high, said.ratio.low)

    def test_disturbed_runs_do_not_count(self) -> None:
        found = records({(DECK, "16"): 1.0, (MPI, "16"): 1.0})
        disturbed = [Record("mandelbrot", "16", 9, DECK, 50.0, 0.3), Record("mandelbrot", "16", 9, MPI, 1.0, 0.0)]
        ratio = next(iter(judging.versus(found + disturbed, MANDELBROT))).ratio
        self.assertEqual((ratio.high, ratio.count), (1.0, 9))

    def test_where_everybody_was_disturbed_that_is_said(self) -> None:
        steady = records({(DECK, "16"): 1.0, (MPI, "16"): 2.0})
        disturbed = [replace(record, others=0.5) for record in steady]
        for found, wanted in ((disturbed, "reached, disturbed"), (steady[:5] + disturbed[5:], "reached, disturbed"), (steady, "reached")):
            said = next(iter(judging.versus(found, MANDELBROT)))
            self.assertEqual((said.ratio.median, said.ratio.count, said.marked), (0.5, 9, wanted))

    def test_too_slow_is_missed_and_what_was_not_measured_is_no_verdict(self) -> None:
        found = records({(DECK, "16"): 1.03, (MPI, "16"): 1.0})
        said = {one.point: one.marked for one in judging.versus(found, MANDELBROT)}
        self.assertEqual((said["16"], said["512"]), ("**missed**", "no claim"))

    def test_the_better_mpi_is_an_mpi(self) -> None:
        found = records({(DECK, "16"): 1.0, (ONE_NODE, "16"): 0.5, (MPI, "16"): 2.0})
        self.assertEqual(judging.best_mpi(found, MANDELBROT, "16"), MPI)
        self.assertEqual(judging.beside_mpi(found, MANDELBROT, "16", ONE_NODE).median, 0.25)

    def test_messages_of_laplace_cross_the_threshold_of_zero_copy(self) -> None:
        sizes = [halo_bytes(point) for point in LAPLACE.points]
        self.assertEqual(sizes, [128, 256, 512, 1024, 4096, 16384, 65536, 2400])
        goals = [judging.goal_of(LAPLACE, point) for point in LAPLACE.points]
        self.assertEqual(goals, [None, None, None, None, 1.0, 1.0, 1.0, 1.0])


def curve(*seconds: float, turns: int = 9, others: float = 0.0) -> list[Record]:
    """DECK's times of Mandelbrot over the slices."""
    points = zip(MANDELBROT.points, seconds, strict=True)
    return [Record("mandelbrot", point, turn, DECK, one * (1 + turn), others) for point, one in points for turn in range(turns)]


class Shapes(unittest.TestCase):
    def _word(self, found: list[Record]) -> str:
        ((word, _why),) = judging.shape(found, MANDELBROT).values()
        return word

    def test_a_curve_is_u_shaped_if_both_ends_are_above_the_middle_of_the_others(self) -> None:
        self.assertEqual(self._word(curve(1.2, 1.1, 1.0, 1.0, 1.1, 1.2)), "yes")
        self.assertEqual(self._word(curve(1.2, 1.1, 1.0, 1.0, 0.9, 0.8)), "no")
        self.assertEqual(self._word(curve(1.0, 1.0, 1.0, 1.0, 1.0, 1.2)), "no")

    def test_noise_and_few_turns_decide_nothing(self) -> None:
        noisy = [
            replace(one, seconds=one.seconds * (0.9 if one.turn % 2 else 1.2)) if one.point == "512" else one
            for one in curve(1.2, 1.0, 1.0, 1.0, 1.0, 1.0)
        ]
        self.assertEqual(self._word(noisy), "not decided")
        self.assertEqual(self._word(curve(1.2, 1.0, 1.0, 1.0, 1.0, 1.2, turns=5)), "not decided")
        self.assertEqual(self._word(curve(1.2, 1.0, 1.0, 1.0, 1.0, 1.2, others=0.5)), "yes, disturbed")

    def test_of_equal_points_noise_makes_no_u(self) -> None:
        # Held against the lowest of its own values any flat curve would have high ends.
        rattle = [1.0, 1.03, 0.97, 1.02, 0.98, 1.01, 0.99, 1.04, 0.96]
        flat = [
            Record("mandelbrot", point, turn, DECK, rattle[(turn + 2 * at) % 9], 0.0)
            for at, point in enumerate(MANDELBROT.points)
            for turn in range(9)
        ]
        self.assertEqual(self._word(flat), "not decided")

    def test_the_report_says_what_the_ends_hide(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            said = writing.write(Path(place), curve(1.2, 1.1, 1.0, 1.0, 0.9, 0.8), {"cores": "2"}).read_text()
        self.assertIn("* DECK: U-shaped: **no**. 16 slices take 1.200", said)
        self.assertIn("at 16 an average slice is 12.5% of the run", said)
        self.assertIn("at 512 each further slice takes -4.81 ms of a core", said)

    def test_the_report_says_whose_clock_includes_the_start_of_nodes(self) -> None:
        for experiment, is_said in ((MANDELBROT, True), (FARM, True), (LAPLACE, False), (SCHEDULER, False)):
            found = [Record(experiment.name, experiment.points[0], 0, DECK, 1.0, 0.0)]
            with tempfile.TemporaryDirectory() as place:
                said = writing.write(Path(place), found, {"cores": "2"}).read_text()
            self.assertEqual("This counts against *DECK*." in said, is_said, experiment.name)

    def test_the_report_counts_the_turns_that_were_run_at_each_point(self) -> None:
        everywhere = curve(*[1.0] * 6) + [replace(one, participant=MPI) for one in curve(*[1.0] * 6)]
        made_up_for = [Record("mandelbrot", "32", turn, who, 1.0, 0.0) for turn in range(9, 18) for who in (DECK, MPI)]
        stopped = [Record("mandelbrot", "16", 18, DECK, 1.0, 0.0)]
        for found, told in (
            (everywhere, "9 turns (4 in a round) of everybody"),
            (everywhere + made_up_for + stopped, "9 to 18 turns (4 in a round) of everybody"),
            (everywhere[:1], "0 to 1 turn (4 in a round) of everybody"),
        ):
            with tempfile.TemporaryDirectory() as place:
                self.assertIn(told, writing.write(Path(place), found, {"cores": "2"}).read_text())


class Reasons(unittest.TestCase):
    def _reason(self, deck: list[float], mpi: list[float]) -> str:
        times = ((DECK, deck), (MPI, mpi))
        found = [Record("mandelbrot", "16", turn, who, one, 0.0) for who, all_of in times for turn, one in enumerate(all_of)]
        return " ".join(explaining.reasons(found, MANDELBROT, {"cores": "2"}))

    def test_what_is_reached_needs_none(self) -> None:
        self.assertEqual(self._reason([1.0] * 9, [1.0] * 9), "")

    def test_what_is_missed_for_certain_is_not_noise_and_has_a_size(self) -> None:
        said = self._reason([1.1] * 9, [1.0] * 9)
        self.assertIn("16 (missed): the median is 8.0% above the goal", said)
        self.assertIn("this is not noise; DECK takes 6.25 ms more than 'MPI' for each of 16 slices", said)
        self.assertIn("an average slice takes 137.50 ms of a core, 12.5% of the run.", said)

    def test_what_is_uncertain_is_noise_and_says_how_many_turns_would_tell(self) -> None:
        said = self._reason([1.04, 0.8, 1.04, 1.2, 1.04, 1.2, 1.04, 0.8, 1.04], [1.0] * 9)
        self.assertIn("(missed, uncertain): the median is 2.0% above the goal", said)
        self.assertRegex(said, r"noise decides; about \d+ turns as noisy as these would tell")
        self.assertIn("of 5 turns, too few for an interval", self._reason([1.1] * 5, [1.0] * 5))

    def test_a_difference_is_of_turns_as_the_ratio_is(self) -> None:
        # DECK is faster in two turns of three, though its median is above that of MPI.
        said = self._reason([10.0, 5.0, 9.0] * 3, [11.0, 6.0, 5.0] * 3)
        self.assertIn("16 (reached, uncertain): the median is 11.1% below the goal", said)
        self.assertIn("DECK takes 62.50 ms less than 'MPI' for each of 16 slices", said)

    def test_the_farm_says_how_much_of_it_is_the_start_of_povray(self) -> None:
        found = [Record("povray-farm", point, 0, DECK, 6.0, 0.0) for point in FARM.points]
        said = explaining.starting(found, FARM, {"cores": "2", explaining.START: "0.75 s"})
        self.assertIn("0.75 s: 25% of DECK's time with 4 slices, 50% of DECK's time with 8 slices", said)

    def _threshold(self, handed_over: list[float]) -> str:
        """What is said where DECK takes as long as MPI with copied messages, and this share otherwise, turn by turn."""
        found = [
            Record("laplace", point, turn, who, seconds * (1 + turn), 0.0)
            for point in LAPLACE.points
            for turn, share in enumerate(handed_over)
            for who, seconds in ((DECK, share if halo_bytes(point) > 1024 else 1.0), (MPI, 1.0))
            if point != "600x600"
        ]
        # It runs until nothing changes any more, so it is not like the others and must not count.
        found += [Record("laplace", "600x600", turn, DECK, 50.0, 0.0) for turn in range(len(handed_over))]
        found += [Record("laplace", "600x600", turn, MPI, 1.0, 0.0) for turn in range(len(handed_over))]
        return judging.across_the_threshold(found, LAPLACE)

    def test_laplace_says_whether_it_gains_where_messages_are_handed_over(self) -> None:
        said = self._threshold([0.9] * 9)
        self.assertIn("1.000 to 1.000 of MPI's time where messages are copied, 0.900 to 0.900 of MPI's time where messages are handed over", said)
        self.assertTrue(said.endswith("the middle of the latter is 0.900 [0.900, 0.900] of that of the former: **ahead**"), said)
        self.assertTrue(self._threshold([1.1] * 9).endswith("**behind**"))

    def test_what_turns_do_not_agree_on_is_no_gain(self) -> None:
        self.assertTrue(self._threshold([0.9, 1.1, 0.9, 1.1, 0.9, 1.1, 0.9, 1.1, 0.9]).endswith("**not told apart**"))
        self.assertTrue(self._threshold([1.0] * 9).endswith("**not told apart**"))
        self.assertTrue(self._threshold([0.9] * 5).endswith("range of that of the former: **too few turns**"))


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

    def test_everybody_computes_on_as_many_cores_in_both_layouts(self, cores: Mock) -> None:
        for count, computing in ((4, "4"), (64, "8")):
            cores.return_value = set(range(count))
            for experiment in (MANDELBROT, LAPLACE, FARM):
                point = experiment.points[0]
                deck, one_node, mpi = (experiment.trial(one, point, PLAIN).command for one in (DECK, ONE_NODE, MPI))
                layouts = [(one[one.index("-n") + 1], one[one.index("--threads") + 1]) for one in (deck, one_node)]
                self.assertEqual(layouts, [(computing, "1"), ("1", computing)])
                managers = int(experiment is not LAPLACE)
                self.assertEqual(int(mpi[mpi.index("-n") + 1]), int(computing) + managers)

    def test_the_farm_and_its_twin_smooth_edges_alike(self, _cores: Mock) -> None:
        for participant in FARM.participants:
            command = FARM.trial(participant, "4", PLAIN).command
            self.assertEqual(command[command.index("--antialias") + 1], "0.3")

    def test_with_fewer_cores_than_processes_nobody_looks_again_at_once(self, cores: Mock) -> None:
        cores.return_value = {0, 1}
        self.assertEqual(Runs(SCHEDULER, PLAIN, NOWHERE).participants, (DECK, YIELDING, SLEEPING))

    def test_a_library_without_a_switch_to_yield_takes_no_part_where_the_twin_cannot_yield_itself(self, _cores: Mock) -> None:
        self.assertEqual(Runs(LAPLACE, PLAIN, NOWHERE).participants, (DECK, ONE_NODE, MPI))
        self.assertEqual(Runs(LAPLACE, SWITCHED, NOWHERE).participants, LAPLACE.participants)
        for experiment in (MANDELBROT, FARM, SCHEDULER):
            self.assertEqual(Runs(experiment, PLAIN, NOWHERE).participants, experiment.participants)


class Programs(unittest.TestCase):
    def _experiment(self, contents: dict[str, str]) -> Experiment:
        """Participants that leave this, and tell a time."""
        program = "import sys; print('5.25 ms'); open(sys.argv[-1], 'w').write(sys.argv[1])"

        def trial(participant: str, _point: str, _library: Library) -> Trial:
            return Trial((sys.executable, "-c", program, contents[participant]), ("--out",))

        return Experiment("made up", (), "", ("1", "2"), tuple(contents), trial)

    def _rounds(self, experiment: Experiment, place: Path, rounds: int) -> list[Record]:
        """What is there after so many rounds."""
        runs = Runs(experiment, PLAIN, place)
        # A machine on which tests run is never quiet.
        with patch("experiments.running._busy", return_value=0.0), redirect_stderr(StringIO()):
            while runs.has_more(rounds):
                runs.round(rounds, lambda _what: None)
        return folder.read(place)

    def test_rounds_are_run_by_everybody_in_turn_and_go_on_with_a_new_turn(self) -> None:
        experiment = self._experiment({DECK: "same", MPI: "same"})
        with tempfile.TemporaryDirectory() as name:
            place = Path(name)
            first = self._rounds(experiment, place, 1)
            raw = (place / folder.RAW).read_text().splitlines()
            (place / folder.RAW).write_text("\n".join(raw[:3]) + "\n")
            again = self._rounds(experiment, place, 2)
            once_more = self._rounds(experiment, place, 2)
        everybody = [("1", DECK), ("1", MPI), ("2", DECK), ("2", MPI)]
        self.assertEqual([(one.point, one.participant) for one in first], everybody)
        self.assertEqual({one.seconds for one in first}, {0.00525})
        self.assertEqual(again[:3], first[:3])
        then = [(one.turn, one.point, one.participant) for one in again[3:]]
        # Of point 2 turn 0 stays without MPI: what would be run now is no pair with what DECK took then.
        second = [(1, "1", MPI), (1, "1", DECK), (1, "2", MPI), (1, "2", DECK)]
        self.assertEqual(then, [*second, (2, "2", DECK), (2, "2", MPI)])
        self.assertEqual(once_more, again)

    def test_a_round_may_have_several_turns_at_each_point(self) -> None:
        experiment = replace(self._experiment({DECK: "same", MPI: "same"}), turns=2)
        with tempfile.TemporaryDirectory() as name:
            made = self._rounds(experiment, Path(name), 1)
        at_first = [(one.point, one.turn, one.participant) for one in made[:4]]
        self.assertEqual(at_first, [("1", 0, DECK), ("1", 0, MPI), ("1", 1, MPI), ("1", 1, DECK)])
        self.assertEqual(len(made), 8)

    def test_figures_of_several_commits_machines_or_libraries_are_not_mixed(self) -> None:
        described = {"command": "papers", "commit": "one", "cores": "2", "MPI": "three", "date": "yesterday"}
        with tempfile.TemporaryDirectory() as name:
            place = Path(name) / "run"
            folder.begin(place, described)
            folder.add(place, Record("mandelbrot", "16", 0, DECK, 1.0, 0.0))
            folder.begin(place, {**described, "command": "papers again", "date": "today"})
            self.assertEqual(folder.described_in(place), {**described, "command": "papers; papers again"})
            for what in ("commit", "cores", "MPI"):
                with self.assertRaisesRegex(SystemExit, f"has another {what} .*cannot be mixed"):
                    folder.begin(place, {**described, what: "else"})
            (place / folder.RUN).unlink()
            with self.assertRaisesRegex(SystemExit, "nobody knows what its figures are of"):
                folder.begin(place, described)

    def test_what_cannot_be_written_or_read_ends_the_program_with_a_sentence(self) -> None:
        record = Record("mandelbrot", "16", 0, DECK, 1.0, 0.0)
        with tempfile.TemporaryDirectory() as name:
            place = Path(name)
            raw = place / folder.RAW
            raw.symlink_to("/dev/full")
            with self.assertRaisesRegex(SystemExit, "cannot be written to: No space left on device; free space"):
                folder.add(place, record)
            raw.unlink()
            folder.add(place, record)
            whole = raw.read_text()
            for broken in (whole + whole[:20], whole + "{}\n"):
                raw.write_text(broken)
                with self.assertRaisesRegex(SystemExit, f"line 2 of {raw} is no record of a run: take it away"):
                    folder.read(place)

    def test_a_wrong_result_ends_the_program_with_a_sentence_and_the_command(self) -> None:
        runs = Runs(self._experiment({DECK: "same", MPI: "else"}), PLAIN, NOWHERE)
        with self.assertRaises(SystemExit) as raised:
            runs.check()
        said = str(raised.exception)
        self.assertIn("wrong result of made up: MPI at 1: not the same as the first run, that of DECK: byte 0", said)
        self.assertIn("repeat with: ", said)


class Command(unittest.TestCase):
    """The command itself, without building or running anything."""

    DESCRIBED = {"commit": "one", "cores": "2", "date": "today", "processor": "quick"}

    def setUp(self) -> None:
        self.start = Mock(return_value=0.75)
        self.find, self.build = Mock(return_value=replace(PLAIN, launch=("echo",))), Mock()
        self.scene, self.renderer = Path(__file__), "/usr/bin/povray"

    def _run(self, place: Path, *options: str, measure: Mock) -> int | str:
        """Its exit status, or what it says at its end."""
        signals = patch("signal.signal")
        described = patch("comparison.machine.describe", side_effect=lambda program: {**self.DESCRIBED, "command": program})
        prepared = patch("experiments.libraries.find", self.find), patch("experiments.building.build", self.build)
        start = patch("experiments.pictures.start_seconds", self.start)
        runs = patch.object(Runs, "check"), patch("experiments.__main__._measure", measure)
        scene = patch("experiments.__main__.SCENE", self.scene)
        renderer = patch("shutil.which", return_value=self.renderer)
        typed = patch.object(sys, "argv", ["papers", "--out", str(place), *options])
        quiet = redirect_stdout(StringIO()), redirect_stderr(StringIO())
        with ExitStack() as stack:
            for one in (signals, described, *prepared, start, *runs, scene, renderer, *quiet, typed):
                stack.enter_context(one)
            try:
                papers.main()
            except SystemExit as end:
                return end.code
        return 0

    def test_who_is_interrupted_reports_what_there_is_and_ends_with_another_status(self) -> None:
        for interruption, status, name in ((KeyboardInterrupt, 130, "SIGINT"), (Terminated, 143, "SIGTERM")):
            with tempfile.TemporaryDirectory() as place:
                report = Path(place) / "README.md"
                self.assertEqual(self._run(Path(place), "--only", "laplace", measure=Mock(side_effect=interruption)), status)
                self.assertFalse(report.exists())
                folder.add(Path(place), Record("laplace", "600x600", 0, DECK, 1.0, 0.0))
                self.assertEqual(self._run(Path(place), "--only", "laplace", measure=Mock(side_effect=interruption)), status)
                self.assertIn(f"* interrupted: by {name}, so not everything was measured\n", report.read_text())
                self.assertEqual(self._run(Path(place), "--only", "laplace", measure=Mock()), 0)
                self.assertNotIn("interrupted", report.read_text())

    def test_who_is_interrupted_before_anything_is_measured_leaves_nothing(self) -> None:
        for at in (self.find, self.build):
            with self.subTest(at), tempfile.TemporaryDirectory() as name, patch.object(at, "side_effect", Terminated):
                self.assertEqual(self._run(Path(name) / "run", "--only", "laplace", measure=Mock()), 143)
                self.assertEqual(list(Path(name).iterdir()), [])

    def test_what_is_missing_is_told_before_anything_is_fetched_or_built(self) -> None:
        self.assertIn("choose another folder with --out", str(self._run(Path("/dev/null/run"), measure=Mock())))
        with tempfile.TemporaryDirectory() as name:
            self.renderer = None
            self.assertIn("there is no cargo", str(self._run(Path(name), "--only", "laplace", measure=Mock())))
        self.find.assert_not_called()
        self.build.assert_not_called()

    def test_the_start_of_povray_is_measured_once_and_only_for_the_farm(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            place = Path(name)
            self._run(place, "--only", "laplace", measure=Mock())
            folder.add(place, Record("laplace", "600x600", 0, DECK, 1.0, 0.0))
            self.start.assert_not_called()
            for _ in range(2):
                self._run(place, "--only", "povray-farm", measure=Mock())
                self.start.assert_called_once()
            self.assertEqual(folder.described_in(place)[explaining.START], "0.75 s")

    def test_only_the_farm_needs_povray_and_its_scene_and_says_where_they_come_from(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            for scene, renderer, missing in ((Path("/nowhere/scene.pov"), "/usr/bin/povray", "/nowhere/scene.pov"), (Path(__file__), None, "povray")):
                self.scene, self.renderer = scene, renderer
                self.assertNotIn("missing", str(self._run(Path(name), "--only", "laplace", measure=Mock())))
                told = self._run(Path(name), "--only", "povray-farm", measure=Mock())
                self.assertIn(f"papers: {missing} is missing: apt-get install", told)


class Time(unittest.TestCase):
    def test_a_program_that_does_not_end_is_ended_and_named(self) -> None:
        endless = [sys.executable, "-c", "import signal; signal.pause()"]
        with patch.object(running, "LIMIT_SECONDS", 0.1), self.assertRaisesRegex(SystemExit, "ended after 0.1 s: .* signal.pause"):
            running._seconds(endless, {})

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
