import unittest

from comparison.contenders import SCOUTING, best_of, contenders
from comparison.measures import CLAIMS, EXPERIMENTS, M, Versus
from recorded import record, rounds

RATE = next(experiment for experiment in EXPERIMENTS if experiment.name == "rate")
SIZES = next(experiment for experiment in EXPERIMENTS if experiment.name == "sizes")
STREAM = next(claim for claim in CLAIMS if isinstance(claim, Versus) and claim.experiment == "rate")


class TheRace(unittest.TestCase):
    def test_goes_on_with_those_that_may_be_best(self):
        records = rounds({"deck": 30e6, "ucx-tag": 20e6, "openmpi": 14e6, "mpich": 1e6}, SCOUTING)
        self.assertEqual(contenders(records, RATE, (8,)), ["ucx-tag", "openmpi"])

    def test_goes_on_with_everybody_until_all_had_their_chance(self):
        records = rounds({"deck": 30e6, "ucx-tag": 20e6, "mpich": 1e6}, SCOUTING - 1)
        self.assertEqual(contenders(records, RATE, (8,)), list(RATE.peers))

    def test_is_run_for_each_point_alone(self):
        records = [record(name, value, round=number, experiment="sizes", what="touched", at=at)
                   for number in range(SCOUTING)
                   for at, figures in {64: {"deck": 100, "ucx-tag": 100, "iceoryx2": 400}, M: {"deck": 50, "ucx-tag": 150, "iceoryx2": 45}}.items()
                   for name, value in figures.items()]
        self.assertEqual([contenders(records, SIZES, (at,)) for at in (64, M)], [["ucx-tag"], ["iceoryx2"]])

    def test_forgives_bad_luck(self):
        records = rounds({"deck": 30e6, "ucx-tag": 20e6}, SCOUTING)
        records += [record("openmpi", 16e6 if number == 0 else 2e6, round=number) for number in range(SCOUTING)]
        self.assertEqual(contenders(records, RATE, (8,)), ["ucx-tag", "openmpi"])

    def test_is_won_by_whom_deck_beats_least(self):
        # The machine was slow whenever UCX ran, and DECK beside it: its figure is lower, but it is better than Open MPI.
        slow = rounds({"deck": 10e6, "ucx-tag": 9e6}, 3)
        fast = [record(name, value, round=3 + one.round) for one in slow for name, value in [("deck", 30e6), ("openmpi", 15e6)]]
        self.assertEqual(best_of(slow + fast, STREAM, 8), "ucx-tag")

    def test_has_no_winner_where_nobody_ran(self):
        self.assertIsNone(best_of(rounds({"deck": 1.0}, 3), STREAM, 8))


if __name__ == "__main__":
    unittest.main()
