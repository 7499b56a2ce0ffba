import tempfile
import unittest
from argparse import Namespace
from pathlib import Path

from comparison.__main__ import as_asked
from comparison.measures import Versus
from comparison.records import Run, compared, is_steady, pairs, states
from recorded import record, rounds

STREAM = Versus("rate", "stream", (8,), ("ucx-tag",), 2.0, False)


class APair(unittest.TestCase):
    def test_is_a_peer_and_the_nearest_run_of_deck_in_its_round(self):
        one_round = [record(name, value) for name, value in [("deck", 1), ("a", 2), ("b", 3), ("c", 4), ("deck", 5)]]
        nearest = {name: pairs(one_round, "rate", name)[0][0].value("stream", 8) for name in "abc"}
        self.assertEqual(nearest, {"a": 1, "b": 1, "c": 5})

    def test_does_not_reach_into_another_round(self):
        self.assertEqual(pairs([record("deck", 1, round=0), record("a", 2, round=1)], "rate", "a"), [])

    def test_does_not_reach_to_other_points(self):
        self.assertEqual(pairs([record("deck", 1, at=3), record("a", 2, at=7)], "rate", "a"), [])

    def test_needs_both_to_have_come_to_their_end(self):
        records = [record("deck", 1), record("a", 0, failure="status 1"), record("deck", 1)]
        self.assertEqual(pairs(records, "rate", "a"), [])

    def test_is_steady_if_the_machine_was_the_same(self):
        def is_calm(*probes):
            return is_steady(record("deck", 1, probes=probes[:2]), record("a", 1, probes=probes[2:]))

        self.assertTrue(is_calm(70, 80, 80, 90))
        self.assertFalse(is_calm(70, 70, 70, 265))
        self.assertFalse(is_calm(9e6, 9e6, 9e6, 9e6), "somebody else had a processor all the time")
        self.assertTrue(is_calm(None, None, None, None), "without a probe there is nothing to be said against it")


class ComparedFigures(unittest.TestCase):
    def test_are_steady_ones_unless_these_are_too_few(self):
        calm, disturbed = rounds({"deck": 30, "ucx-tag": 20}, 6), rounds({"deck": 1, "ucx-tag": 20}, 9)
        for one in disturbed:
            one.round += 6
            one.after = 265.0
        self.assertEqual({one.ratio for one in compared(calm + disturbed, STREAM, 8, "ucx-tag")}, {1.5})
        self.assertEqual(len(compared(calm[:-2] + disturbed, STREAM, 8, "ucx-tag")), 14)

    def test_are_told_apart_by_the_state_of_the_machine(self):
        records = rounds({"deck": 30, "ucx-tag": 20}, 4)
        for one in records:
            if one.round % 2:
                one.before = one.after = 265.0
        apart = states(compared(records, STREAM, 8, "ucx-tag"))
        self.assertEqual([[one.probe for one in group] for group in apart], [[70, 70], [265, 265]])


class ARun(unittest.TestCase):
    def test_is_read_as_it_was_written(self):
        run = Run({"commit": "abc"}, {"ucx": "1.22"}, {"mpich": "no network"}, rounds({"deck": 30, "ucx-tag": 20}, 2))
        run.records.append(record("ucx-am", 0, probes=(70.0, None), failure="did not end"))
        with tempfile.TemporaryDirectory() as folder:
            run.save(Path(folder) / "new")
            first = (Path(folder) / "new/raw.json.gz").read_bytes()
            self.assertEqual(Run.load(Path(folder) / "new"), run)
            run.save(Path(folder) / "new")
            self.assertEqual((Path(folder) / "new/raw.json.gz").read_bytes(), first, "the same run gives the same bytes")

    def test_goes_on_with_what_it_was_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            Run({}, {}, {}, [], {"only": ["rate"], "rounds": 7, "quick": False}).save(Path(folder))
            of = lambda only, rounds: Namespace(only=only, rounds=rounds, quick=False, go_on=Path(folder), minutes=3)
            told = lambda options: (options.only, options.rounds, options.quick, options.minutes)
            self.assertEqual(told(as_asked(of(None, None))), (["rate"], 7, False, 3))
            self.assertEqual(told(as_asked(of(["wake"], 9))), (["wake"], 9, False, 3))
            Run({}, {}, {}, []).save(Path(folder))
            self.assertEqual(told(as_asked(of(None, 2))), (None, 2, None, 3))


if __name__ == "__main__":
    unittest.main()
