import json
import os
import signal
import sys
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

from comparison.measures import CLAIMS, THREADS, Experiment, Versus
from comparison.participants import Participant, figures_of
from comparison.running import Runner, _order, run_limited
from recorded import rounds

PRINTS = 'print(\'{"at": 8, "what": "stream", "unit": "messages/s", "value": 5}\')'
REPORTS = 'print(\'{"figures": [{"at": 8, "what": "stream", "unit": "messages/s", "median": 7}]}\')'
FAILS = "import sys; sys.exit('no')"
EXPERIMENT = Experiment("rate", "", "rate", (8,), ("ucx-tag", "openmpi"))


def _python(program: str):
    return lambda benchmark, cpus, seconds, points: [sys.executable, "-c", program]


class ACommand(unittest.TestCase):
    def test_that_does_not_end_is_ended_with_what_it_started(self):
        with tempfile.TemporaryDirectory() as folder:
            told = Path(folder) / "child"
            program = f"""
import os, time
child = os.fork()
if child:
    with open({str(told)!r}, "w") as file: file.write(str(child))
time.sleep(1000)
"""
            output, failure = run_limited([sys.executable, "-c", program], {}, 2.0)
            self.assertEqual((output, failure), ("", "did not end within 2 s"))
            child = Path("/proc") / told.read_text() / "stat"
        # Ended, or waiting for somebody to notice.
        while child.exists() and child.read_text().rpartition(")")[2].split()[0] not in "ZX":
            os.sched_yield()

    def test_that_fails_is_quoted(self):
        _, failure = run_limited([sys.executable, "-c", "import sys; sys.exit('there is no such transport')"], {}, 20)
        self.assertEqual(failure, "status 1: there is no such transport")

    def test_that_a_signal_ends_has_failed(self):
        _, failure = run_limited([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], {}, 20)
        self.assertEqual(failure, f"status {-signal.SIGKILL}: it said nothing")

    def test_gets_the_environment_of_its_participant(self):
        output, failure = run_limited([sys.executable, "-c", "import os; print(os.environ['API'])"], {"API": "am"}, 20)
        self.assertEqual((output, failure), ("am\n", None))


class Turns(unittest.TestCase):
    def test_put_deck_beside_every_peer_and_begin_with_another_one_each_time(self):
        self.assertEqual(_order(list("abcd"), 0), ["deck", "a", "b", "c", "deck", "d", "deck"])
        self.assertEqual(_order(list("abcd"), 5), ["deck", "b", "c", "d", "deck", "a", "deck"])
        self.assertEqual(_order([], 3), ["deck"])

    def _runner(self, **programs: str) -> Runner:
        everybody = {name.replace("_", "-"): Participant(name, _python(program)) for name, program in programs.items()}
        return Runner(everybody, "0,1", 1.0, [])

    def test_are_recorded_and_a_failure_is_no_end(self):
        runner = self._runner(ucx_tag=PRINTS, openmpi=FAILS, deck=FAILS)
        runner.round(EXPERIMENT, lambda _: None)
        found = {one.participant: (one.value("stream", 8), one.failure) for one in runner.records}
        self.assertEqual(found, {"ucx-tag": (5, None), "openmpi": (None, "status 1: no"), "deck": (None, "status 1: no")})

    def test_leave_out_whoever_fails_again_and_again(self):
        runner = self._runner(ucx_tag=PRINTS, openmpi=FAILS, deck=REPORTS)
        for _ in range(3):
            runner.round(EXPERIMENT, lambda _: None)
        self.assertEqual(sum(one.participant == "openmpi" for one in runner.records), 2)

    def test_wait_less_for_whoever_has_come_to_its_end_before(self):
        runner = self._runner(ucx_tag=PRINTS, openmpi=PRINTS, deck=REPORTS)
        runner.records += rounds({"deck": 7, "ucx-tag": 5}, 2)
        for one, seconds in zip(runner.records, (19.0, 2.0, 21.0, 3.0), strict=True):
            one.seconds = seconds
        runner.records.append(replace(runner.records[-1], failure="did not end within 170 s", seconds=170.0))
        limits = [runner._limit(EXPERIMENT, (8,), name, 5.0) for name in ("deck", "ucx-tag", "openmpi")]
        self.assertEqual(limits, [105, 30, 170])

    def test_are_over_when_enough_pairs_are_steady(self):
        runner = self._runner(ucx_tag=PRINTS, openmpi=PRINTS, deck=REPORTS)
        runner.records += rounds({"deck": 7, "ucx-tag": 5, "openmpi": 5}, 2)
        self.assertEqual([runner.is_complete(EXPERIMENT, count, extra=2) for count in (2, 3)], [True, False])
        for one in runner.records:
            one.after = 265.0
        # Nothing is steady: twice the rounds are tried, and then it is enough.
        self.assertEqual([runner.is_complete(EXPERIMENT, count, extra=2) for count in (1, 2)], [True, False])
        self.assertTrue(runner.is_complete(EXPERIMENT, 2, extra=1))

    def test_survive_whoever_talks_nonsense(self):
        runner = self._runner(ucx_tag="print('{')", openmpi="print('{}')", deck="print('[1]')")
        runner.round(EXPERIMENT, lambda _: None)
        self.assertTrue(all("cannot be understood" in one.failure for one in runner.records), runner.records)

    def test_stopped_in_the_middle_are_kept(self):
        runner = self._runner(ucx_tag=PRINTS, openmpi=PRINTS, deck=REPORTS)

        def interrupt(what: str) -> None:
            if what.endswith("openmpi"):
                raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            runner.round(EXPERIMENT, interrupt)
        self.assertEqual([one.participant for one in runner.records], ["deck", "ucx-tag"])
        self.assertEqual(runner.rounds(EXPERIMENT), 1)


class Output(unittest.TestCase):
    def test_of_peers_is_read_line_by_line_and_chatter_passed_over(self):
        (figure,) = figures_of("ucx-tag", 'warming up\n{"at": 8, "what": "stream", "unit": "messages/s", "value": 5e6}\n')
        self.assertEqual((figure.what, figure.at, figure.unit, figure.value), ("stream", 8, "messages/s", 5e6))

    def test_of_deck_is_one_object_of_either_shape(self):
        sizes = '{"sizes": [{"bytes": 8, "untouched": {"median_ns": 140.5}, "touched": {"median_ns": 150}}]}'
        self.assertEqual([(one.what, one.at, one.value) for one in figures_of("deck", sizes)],
                         [("untouched", 8, 140.5), ("touched", 8, 150)])
        figures = '{"figures": [{"at": 4, "what": "barrier", "unit": "ns", "median": 9000, "min": 1, "max": 99999}]}'
        self.assertEqual([(one.what, one.at, one.value) for one in figures_of("deck", figures)], [("barrier", 4, 9000)])

    def test_of_collectives_stands_beside_all_of_deck_whoever_the_members_are(self):
        claimed = {claim.what for claim in CLAIMS if isinstance(claim, Versus) and claim.experiment == "collectives"}
        for members in ("", THREADS):
            for block, other in (("8 B", "own part"), ("1 MiB", "in messages")):
                what = f"{members}bcast, {block}"
                said = json.dumps({"at": 8, "what": what, "unit": "ns", "value": 5})
                found = [figure.what for figure in figures_of("openmpi", said)]
                self.assertEqual(found, [what, f"{what}, {other}"])
                self.assertLessEqual(set(found), claimed)


if __name__ == "__main__":
    unittest.main()
