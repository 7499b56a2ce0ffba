import unittest

from comparison.judging import judge
from comparison.measures import CLAIMS, EXPERIMENTS, Itself, Limit, Versus
from comparison.participants import Figure
from comparison.ratios import Verdict
from comparison.records import Record
from recorded import record, rounds


class AJudgement(unittest.TestCase):
    def test_compares_with_the_best_peer(self):
        (found,) = judge(rounds({"deck": 60e6, "ucx-tag": 20e6, "openmpi": 25e6}, 15))
        self.assertEqual((found.against, found.ratio.median, found.verdict), ("openmpi", 2.4, Verdict.REACHED))
        self.assertEqual((found.own, found.other, found.unit, found.aim), (60e6, 25e6, "messages/s", "at least 2"))

    def test_tells_how_far_the_goal_is(self):
        (found,) = judge([record("deck", 0.25, experiment="idle", what="processor time", at=10)])
        self.assertEqual((found.margins, found.aim[:9]), ((4, 4, 4), "at most 1"))
        (found,) = judge(rounds({"deck": 10e6, "ucx-tag": 20e6}, 6))
        self.assertEqual(found.margins, (0.25, 0.25, 0.25))

    def test_says_in_which_state_of_the_machine_what_holds(self):
        records = rounds({"deck": 60e6, "ucx-tag": 20e6}, 6)
        records += [record(name, value, round=6, probes=(265, 265)) for name, value in [("deck", 10e6), ("ucx-tag", 10e6)]]
        (found,) = judge(records)
        self.assertEqual(found.remark, "6 at a bare ring of 70 ns: 3; 1 at a bare ring of 265 ns: 1")

    def test_of_a_limit_needs_no_peer(self):
        found = judge([record("deck", 0.2, experiment="idle", what="processor time", at=10)])
        self.assertEqual([(one.what, one.other, one.verdict) for one in found], [("processor time", None, Verdict.RATHER_REACHED)])

    def test_against_itself_takes_both_figures_of_one_run(self):
        figures = [Figure("all threads together", at, "messages/s", value) for at, value in [(1, 20.0), (2, 15.0), (4, 15.0), (8, 1.0)]]
        found = judge([Record("shared", 0, (1, 2, 4, 8), "deck", None, None, figures, None, 1.0)])
        self.assertEqual([one.ratio.median for one in found], [0.75, 0.75, 0.05])
        self.assertEqual([one.verdict for one in found], [Verdict.RATHER_REACHED, Verdict.RATHER_REACHED, Verdict.RATHER_MISSED])

    def test_of_all_points_against_itself_takes_those_whose_medians_are_furthest_apart(self):
        def run(round: int, *values: float) -> Record:
            figures = [Figure("untouched", at, "ns", value) for at, value in zip((0, 8, 16), values, strict=True)]
            return Record("latency", round, (0, 8, 16), "deck", 70.0, 70.0, figures, None, 1.0)

        # One that is the smallest at one time and the largest at another is neither.
        found = judge([run(0, 100.0, 90.0, 110.0), run(1, 100.0, 112.0, 110.0), run(2, 100.0, 108.0, 110.0)])
        self.assertEqual([(one.at, one.against, one.ratio.median) for one in found], [("16, the largest", "itself at 0, the smallest", 1.1)])

    def test_against_itself_takes_the_run_that_saw_the_same_machine(self):
        def run(at: int, value: float, probe: float) -> Record:
            return record("deck", value, experiment="threads", what="streams", at=at, probes=(probe, probe))

        found = judge([run(1, 20.0, 70), run(1, 5.0, 265), run(4, 18.0, 70), run(4, 4.5, 265)])
        self.assertEqual([(one.at, one.against, one.ratio.low, one.ratio.high) for one in found],
                         [("4", "itself at 1", 0.9, 0.9)])

    def test_against_itself_has_one_say_of_each_round(self):
        def run(round: int, slow: float) -> Record:
            figures = [Figure("untouched", at, "ns", value) for at, value in [(4096, 10.0), (16 << 20, slow)]]
            return Record("sizes", round, (4096, 16 << 20), "deck", 70.0, 70.0, figures, None, 1.0)

        found = judge([run(0, 10.0), run(0, 11.0), run(0, 12.0), run(1, 13.0)])
        [judgement] = [one for one in found if one.against == "itself at 4096"]
        self.assertEqual((judgement.ratio.low, judgement.ratio.high), (1.1, 1.3))


class Claims(unittest.TestCase):
    def test_are_about_what_is_measured(self):
        experiments = {experiment.name: experiment for experiment in EXPERIMENTS}
        for claim in CLAIMS:
            measured = experiments[claim.experiment]
            match claim:
                case Versus(points=points, peers=peers):
                    self.assertLessEqual(set(points), set(measured.points), claim)
                    self.assertLessEqual(set(peers), set(measured.peers), claim)
                case Itself(point=point, over=over) if point is not None:
                    self.assertLessEqual({point, over}, set(measured.points), claim)
                case Limit(point=point):
                    self.assertIn(point, measured.points, claim)

    def test_leave_no_experiment_without_one(self):
        self.assertEqual({claim.experiment for claim in CLAIMS}, {experiment.name for experiment in EXPERIMENTS})


if __name__ == "__main__":
    unittest.main()
