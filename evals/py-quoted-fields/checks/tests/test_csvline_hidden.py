import unittest

from csvline import split_line


class QuotedTest(unittest.TestCase):
    def test_comma(self):
        self.assertEqual(split_line('1,"Lovelace, Ada",London'), ["1", "Lovelace, Ada", "London"])

    def test_doubled_quote(self):
        self.assertEqual(split_line('"5"" pipe",3'), ['5" pipe', "3"])

    def test_empty_fields(self):
        self.assertEqual(split_line('a,,"",'), ["a", "", "", ""])

    def test_only_a_quote(self):
        self.assertEqual(split_line('""""'), ['"'])
