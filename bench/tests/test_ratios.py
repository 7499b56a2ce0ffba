import unittest

from comparison.ratios import Verdict, estimate, verdict


class AnInterval(unittest.TestCase):
    def test_is_made_of_the_fourth_and_twelfth_of_fifteen(self):
        # As tables of the sign test have it: 15 values, 96.5 %.
        found = estimate([float(value) for value in range(1, 16)])
        self.assertEqual((found.median, found.low, found.high, found.is_range), (8, 4, 12, False))

    def test_of_six_is_all_of_them_and_of_five_a_range(self):
        self.assertEqual([estimate([1.0] * count).is_range for count in (5, 6)], [True, False])
        six = estimate([6.0, 1.0, 5.0, 2.0, 4.0, 3.0])
        self.assertEqual((six.low, six.median, six.high), (1, 3.5, 6))

    def test_of_one_value_is_that_value(self):
        found = estimate([2.0])
        self.assertEqual((found.low, found.median, found.high, found.count), (2, 2, 2, 1))

    def test_covers_the_median_as_often_as_it_says(self):
        # Exactly, not by chance: all orders of heads and tails of nine values around a median.
        count, inside = 9, 0
        for sides in range(2**count):
            values = [1.0 if sides >> place & 1 else -1.0 for place in range(count)]
            found = estimate(values)
            inside += found.low <= 0 <= found.high
        self.assertGreaterEqual(inside / 2**count, 0.95)


class AVerdict(unittest.TestCase):
    def test_needs_the_whole_interval(self):
        found = estimate([0.8, 0.85, 0.9, 0.95, 1.0, 1.05])
        said = [verdict(found, goal, is_lower_better=True) for goal in (1.1, 0.95, 0.9, 0.7)]
        self.assertEqual(said, list(Verdict))
        said = [verdict(found, goal, is_lower_better=False) for goal in (0.7, 0.9, 0.95, 1.1)]
        self.assertEqual(said, list(Verdict))

    def test_of_too_few_values_is_never_certain(self):
        found = estimate([0.5] * 5)
        said = [verdict(found, goal, is_lower_better=True) for goal in (1.0, 0.4)]
        self.assertEqual(said, [Verdict.RATHER_REACHED, Verdict.RATHER_MISSED])

    def test_that_is_uncertain_is_neither_and_only_a_loss_is_marked(self):
        self.assertEqual([one for one in Verdict if one.is_certain], [Verdict.REACHED, Verdict.MISSED])
        marked = [one.marked for one in Verdict]
        self.assertEqual(marked, ["reached", "reached, uncertain", "missed, uncertain", "**missed**"])


if __name__ == "__main__":
    unittest.main()
