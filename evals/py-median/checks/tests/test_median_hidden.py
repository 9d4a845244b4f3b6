import unittest

from stats import median


class MedianTest(unittest.TestCase):
    def test_even(self):
        self.assertEqual(median([4, 1, 3, 2]), 2.5)

    def test_odd(self):
        self.assertEqual(median((9, 1, 5)), 5)

    def test_leaves_the_list_alone(self):
        values = [3, 1, 2]
        median(values)
        self.assertEqual(values, [3, 1, 2])

    def test_empty(self):
        with self.assertRaises(ValueError):
            median([])
