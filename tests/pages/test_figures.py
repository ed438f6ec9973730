"""The figures in the tables of the pages are those of the result files, rounded as the pages write them.

A table without a file, or a file without its table, fails: so none is forgotten when either is renewed. Which
figure is which result's is told by scripts/pages.py; scripts/renew must mend every one of them in a copy.
"""

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ["CARAT_SOURCE"]
sys.path.insert(0, os.path.join(SOURCE, "scripts"))
import pages  # noqa: E402 - it lies beside scripts/renew

# How many figures each table has at least, so that no row is lost unseen.
LEAST = {
    pages.rates_of_the_readme: 160,
    pages.means_of_the_readme: 70,
    pages.means_on_an_h100: 60,
    pages.rungs_of_f32: 50,
    pages.rungs_of_bf16: 40,
    pages.block_sizes: 15,
    pages.transfers: 30,
    pages.errors_of_sums: 21,
    pages.kernels_that_move_memory: 26,
    pages.parts_in_registers: 16,
    pages.rates_of_close: 12,
    pages.errors_beside_cublas: 2,
}


def all_figures():
    return [figure for table in pages.TABLES for figure in pages.figures_of(table)[0]]


class Figures(unittest.TestCase):
    def test_every_table_is_held(self):
        self.assertEqual(set(LEAST), set(pages.TABLES))

    def test_tables_agree_with_files(self):
        for table, least in LEAST.items():
            figures, problems = pages.figures_of(table)
            with self.subTest(table.__name__):
                self.assertEqual([problem.what for problem in problems], [])
                self.assertGreaterEqual(len(figures), least)
            for figure in figures:
                with self.subTest(figure.what):
                    said = f"{figure.part.where()}: {figure.what}: {figure.part}"
                    self.assertTrue(figure.holds(), f"{said}, but the file has {figure.value}")

    def test_summaries_agree_with_their_results(self):
        """A file whose results were renewed one by one has the summaries of before: they are to be left out then."""
        names = [name[:-5] for name in sorted(os.listdir(os.path.join(SOURCE, "docs/results")))
                 if name.startswith("bench_") and name.endswith(".json")]
        summaries = [(name, line) for name in names for line in pages.lines(name) if line["kind"] == "summary"]
        self.assertGreater(len(summaries), 0)
        for name, summary in summaries:
            mine = [line for line in pages.lines(name) if line["kind"] == "result" and line["contender"] == "carat"
                    and (not summary["file"] or (line["file"], line["dtype"]) == (summary["file"], summary["dtype"]))]
            for key in ("ratio", "ratio_calls", "ratio_graph"):
                ratios = [line[key] for line in mine if line[key]]
                with self.subTest(f"{name}: {summary['file'] or 'all'} {summary['dtype']} {key}"):
                    self.assertEqual(summary[key]["count"], len(ratios))
                    if ratios:
                        self.assertAlmostEqual(summary[key]["geometric_mean"], statistics.geometric_mean(ratios), 6)
                        self.assertAlmostEqual(summary[key]["worst"], min(ratios), 6)

    def test_a_figure_holds_to_its_last_place_alone(self):
        for text, inside, outside, renewed in (
                ("0.97", 0.9651, 0.9649, "0.96"),
                ("1", 1.4, 1.6, "2"),
                ("5.92", 5.925, 12.3456, "12.35"),
                ("3.2e-6", 3.249e-6, 9.96e-6, "1.0e-5")):
            part = pages.Part(pages.Page("page", text), 0, len(text))
            self.assertTrue(pages.Figure(part, inside, "").holds(), part)
            self.assertEqual(pages.Figure(part, inside, "").renewed(), part)
            self.assertFalse(pages.Figure(part, outside, "").holds(), part)
            self.assertEqual(pages.Figure(part, outside, "").renewed(), renewed)


class Renewal(unittest.TestCase):
    """scripts/renew, in a copy of what it needs."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("scripts", "docs"):
            shutil.copytree(os.path.join(SOURCE, name), os.path.join(self.folder, name))
        shutil.copy(os.path.join(SOURCE, "README.md"), self.folder)

    def renew(self, *options):
        return subprocess.run([sys.executable, os.path.join(self.folder, "scripts/renew"), *options],
                              capture_output=True, text=True, timeout=30)

    def read(self, path):
        with open(os.path.join(self.folder, path), encoding="utf-8") as file:
            return file.read()

    def write(self, path, text):
        with open(os.path.join(self.folder, path), "w", encoding="utf-8") as file:
            file.write(text)

    def spoil_all(self):
        """Changes every digit of every figure; returns how many figures those are, and their pages."""
        figures = sorted(all_figures(), key=lambda figure: -figure.part.start)
        for figure in figures:
            text = self.read(figure.part.page.path)
            spoiled = re.sub(r"\d", lambda digit: str((int(digit[0]) + 5) % 10), figure.part)
            self.write(figure.part.page.path, text[:figure.part.start] + spoiled + text[figure.part.end:])
        return len(figures), {figure.part.page for figure in figures}

    def test_writes_nothing_where_all_agrees(self):
        done = self.renew("--check")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_mends_every_figure_and_nothing_else(self):
        count, spoiled = self.spoil_all()
        done = self.renew("--check")
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        self.assertEqual(len(done.stdout.splitlines()), count)
        done = self.renew()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(len(done.stdout.splitlines()), count)
        for page in spoiled:
            # Figures may differ in how a tie was rounded, and in nothing that --check sees.
            self.assertEqual(re.sub(r"[\d.]+", "", self.read(page.path)), re.sub(r"[\d.]+", "", page.text))
        done = self.renew("--check")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_tells_of_a_missing_result_and_does_the_rest(self):
        count, _ = self.spoil_all()
        lost = {"operation": "scale_add", "dtype": "f64"}
        kept = [line for line in self.read("docs/results/memory.json").splitlines(keepends=True)
                if not lost.items() <= json.loads(line).items()]
        self.write("docs/results/memory.json", "".join(kept))
        done = self.renew()
        self.assertEqual(done.returncode, 1)
        self.assertIn("f64 scale_add: no result for", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertEqual(len(done.stdout.splitlines()), count - 2)
        self.assertEqual(self.renew("--check").stdout, "")

    def test_tells_of_a_result_without_a_row(self):
        rows = [line for line in self.read("docs/notes/memory.md").splitlines(keepends=True)
                if not line.startswith("| s8 |")]
        self.write("docs/notes/memory.md", "".join(rows))
        done = self.renew()
        self.assertEqual(done.returncode, 1)
        self.assertIn("s8 copy: a result, but no cell", done.stderr)


if __name__ == "__main__":
    unittest.main()
