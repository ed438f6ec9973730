"""The figures in the tables of the pages are those of the result files, rounded as the pages write them.

A table without a file, or a file without its table, fails: so none is forgotten when either is renewed.
"""

import json
import math
import os
import re
import unittest

SOURCE = os.environ["CARAT_SOURCE"]
SHAPES = ("square", "layouts", "ragged", "odd", "llm", "skinny", "batched", "strict")


def page(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()


def document(name):
    return json.loads(page(f"docs/results/{name}.json"))


def lines(name):
    return [json.loads(line) for line in page(f"docs/results/{name}.json").splitlines()]


def tables(path):
    """Every table of a page as a list of rows of stripped cells, its head first, without the line below that."""
    found = []
    inside = False
    for line in page(path).splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        cells = [cell.strip() for cell in line.replace(r"\|", " ").strip().strip("|").split("|")]
        if not inside:
            found.append([])
        inside = True
        if not all(set(cell) <= set("-:") and cell for cell in cells):
            found[-1].append(cells)
    return found


def table(path, *head):
    """The one table of a page whose head begins with these words."""
    (found,) = [rows for rows in tables(path) if tuple(rows[0][:len(head)]) == head]
    return found[1:], found[0]


def products(name):
    """The results of a file of carat bench by type, layout, sizes and batch: a dictionary of contenders each."""
    found = {}
    for line in lines("bench_" + name):
        if line["kind"] == "result":
            key = tuple(line[field] for field in ("dtype", "layout", "m", "n", "k", "batch"))
            found.setdefault(key, {})[line["contender"]] = line
    return found


class Figures(unittest.TestCase):
    def agrees(self, text, value, what):
        """text has as many decimals as its page gives, and value rounds to them (a tie either way)."""
        match = re.fullmatch(r"(\d+)(?:\.(\d+))?(?:e(-\d+))?", text)
        self.assertTrue(match, f"{what}: {text!r} is no figure")
        place = 10.0 ** (int(match[3] or 0) - len(match[2] or ""))
        self.assertLessEqual(abs(float(text) - value), 0.5000001 * place, f"{what}: {text}, but the file has {value}")

    def rate(self, cell, mine, what):
        peers = [line["tflops"] for contender, line in mine.items() if contender != "carat" and line["tflops"]]
        if cell == "none":
            self.assertEqual(peers, [], what)
        else:
            self.agrees(cell, max(peers), what)

    def test_rates_of_the_readme(self):
        rows, _ = table("README.md", "type", "layout", "m = n = k")
        self.assertGreater(len(rows), 40)
        files = {name: products(name) for name in ("strict", "dial", "square", "odd", "types")}
        for dtype, layout, size, own, peer, ratio, share in rows:
            side = int(size)
            what = f"{dtype} {layout} {size}"
            mine = next(file[key] for file in files.values() for key in [(dtype, layout, side, side, side, 1)]
                        if key in file)
            self.agrees(own, mine["carat"]["tflops"], what)
            self.rate(peer, mine, what)
            if ratio or mine["carat"]["ratio"]:
                self.agrees(ratio, mine["carat"]["ratio"], what)
            self.agrees(share.removesuffix("%"), 100 * mine["carat"]["share_of_ceiling"], what)

    def means(self, name):
        """The geometric mean and the least of the ratios of each type in a file."""
        ratios = {}
        for (dtype, *_), contenders in products(name).items():
            if contenders["carat"]["ratio"]:
                ratios.setdefault(dtype, []).append(contenders["carat"]["ratio"])
        return {dtype: (math.exp(sum(map(math.log, of)) / len(of)), min(of)) for dtype, of in ratios.items()}

    def test_means_of_the_readme(self):
        rows, head = table("README.md", "shapes")
        self.assertEqual([row[0] for row in rows], list(SHAPES))
        for name, *cells in rows:
            means = self.means(name)
            self.assertEqual({dtype for dtype, cell in zip(head[1:], cells) if cell}, set(means), name)
            for dtype, cell in zip(head[1:], cells):
                for text, value in zip(cell.split(" / "), means.get(dtype, ())):
                    self.agrees(text, value, f"{name} {dtype}")
        means = self.means("dial")
        said = re.findall(r"(f32(?:-\w+)?) (\d\.\d+) / (\d\.\d+)", page("README.md"))
        self.assertEqual({dtype for dtype, *_ in said}, set(means))
        for dtype, *texts in said:
            for text, value in zip(texts, means[dtype]):
                self.agrees(text, value, f"dial {dtype}")

    def ladder(self, name):
        return {(line["kernel"], line["size"]): line for line in document("ladder_" + name)["results"]
                if line["outcome"] == "timed"}

    def rung(self, cells, line, what):
        """The cells of a rung: its rate, its share, its gain and over which rung."""
        self.agrees(cells[0], line["gflops"] / 1000, what)
        if cells[1]:
            self.agrees(cells[1].removesuffix("%"), 100 * line["share_of_ceiling"], what)
        if cells[2]:
            gain, over = cells[2].split(" over ")
            self.agrees(gain, line["gain"], what)
            self.assertEqual(int(over), line["gain_over_rung"], what)

    def test_rungs_of_f32(self):
        rows, _ = table("docs/ladder.md", "rung", "TFLOP/s", "of the ceiling", "gain, over rung",
                        "counted global loads, words")
        kernels = ("ladder_1_strip ladder_2_coalesced ladder_3_tiled ladder_3_tiled_transposed ladder_4_pitched "
                   "ladder_5_kahan ladder_6_register_tile_float2 ladder_6_register_tile_8 ladder_6_register_tile "
                   "ladder_7_register_prefetch ladder_8_async_copy ladder_8_async_copy_4 carat cublas cublaslt").split()
        self.assertEqual(len(rows), len(kernels))
        results = self.ladder("f32")
        for kernel, (label, *cells) in zip(kernels, rows):
            if kernel.startswith("ladder"):
                self.assertEqual(label[0], kernel[7])
            self.rung(cells, results[kernel, 4096], kernel)

    def test_rungs_of_bf16(self):
        rows, _ = table("docs/ladder.md", "rung", "TFLOP/s", "of the ceiling", "gain, over rung",
                        "cuBLAS's time over its")
        results = self.ladder("bf16")
        names = {re.sub(r"^ladder_(\d+)_", r"\1 ", kernel): line for (kernel, size), line in results.items()
                 if size == 4096}
        names |= {"9 simt_bf16_128x128": names["simt_bf16_128x128"], "14 carat": names["carat"]}
        for name, *cells in rows:
            self.rung(cells, names[name], name)
            if cells[3]:
                self.agrees(cells[3], names[name]["ratio"], name)
                self.agrees(cells[4].removesuffix(" GB"), names[name]["traffic_bytes"] / 1e9, name)

    def test_block_sizes(self):
        rows, head = table("docs/ladder.md", "threads")
        results = self.ladder("f32")
        count = 0
        for label, *cells in rows:
            match = re.fullmatch(r"GFLOP/s at (\d+) \[f32\]", label)
            for threads, cell in zip(head[1:], cells):
                if match:
                    kernel = "ladder_2_coalesced" + ("" if threads == "256" else "_" + threads)
                    self.agrees(cell, results[kernel, int(match[1])]["gflops"], f"{label}, {threads}")
                    count += 1
        self.assertEqual(count, 15)

    def test_transfers(self):
        rows, head = table("docs/ladder.md", "size", "128")
        results = self.ladder("f32")
        fields = (("ladder_4_pitched", "time_us"), ("ladder_4_pitched", "with_copies_us"), ("carat", "time_us"),
                  ("carat", "with_copies_us"), ("openblas", "time_us"))
        self.assertEqual(len(rows), len(fields))
        for (kernel, field), (label, *cells) in zip(fields, rows):
            for size, cell in zip(head[1:], cells):
                if cell:
                    self.agrees(cell, results[kernel, int(size)][field] / 1000, f"{label}, {size}")
                else:
                    self.assertNotIn((kernel, int(size)), results)

    def test_errors_of_sums(self):
        rows, head = table("docs/ladder.md", "k")
        errors = {(line["contender"], line["k"]): line["error"] for line in document("verify")["results"]
                  if line["dtype"] == "f32-strict" and line["family"] == "positive" and line["outcome"] == "right"}
        kernels = (("ladder_1_strip", "ladder_2_coalesced", "ladder_3_tiled", "ladder_4_pitched",
                    "ladder_6_register_tile", "ladder_7_register_prefetch", "ladder_8_async_copy"), ("carat",),
                   ("ladder_5_kahan",))
        self.assertEqual(len(rows), len(kernels))
        for names, (label, *cells) in zip(kernels, rows):
            for k, cell in zip(head[1:], cells):
                for name in names:
                    self.agrees(cell, errors[name, int(k)], f"{label}, {k}")

    def test_kernels_that_move_memory(self):
        rows, head = table("docs/notes/memory.md", "type", "copy")
        results = {(line["dtype"], line["operation"]): line for line in lines("memory") if line["kind"] == "memory"}
        count = 0
        for dtype, *cells in rows:
            for operation, cell in zip(head[1:], cells):
                self.assertEqual(bool(cell), (dtype, operation) in results, f"{dtype} {operation}")
                if cell:
                    time, *share = re.fullmatch(r"([\d.]+)(?: \(([\d.]+)%\))?", cell).groups()
                    line = results[dtype, operation]
                    self.agrees(time, line["time_us"], f"{dtype} {operation}")
                    if share[0]:
                        self.agrees(share[0], 100 * line["share_of_copy"], f"{dtype} {operation}")
                    count += 1
        self.assertEqual(count, len(results))

    def test_parts_in_registers(self):
        rows, _ = table("docs/notes/standard.md", "m, n, k", "row")
        self.assertGreater(len(rows), 4)
        for shape, row, own, peer, ratio, file in rows:
            match = re.fullmatch(r"(\d+)(?: cubed| x (\d+) x (\d+)), ([NT]{2})(?:, (\d+) of them)?", shape)
            side = int(match[1])
            mine = products(re.fullmatch(r"`bench_(\w+)\.json`", file)[1])[
                "f32", match[4], side, int(match[2] or side), int(match[3] or side), int(match[5] or 1)]
            self.assertIn("mma_3xbf16_" + row.replace(" ", "") + ":", mine["carat"]["plan"])
            self.agrees(own, mine["carat"]["graph_time_us"], shape)
            self.agrees(peer, min(line["graph_time_us"] for name, line in mine.items() if name != "carat"), shape)
            self.agrees(ratio, mine["carat"]["ratio"], shape)

    def test_rates_of_close(self):
        rows, head = table("docs/notes/close.md", "TFLOP/s")
        results = products("dial")
        for label, *cells in rows:
            side = int(label.removesuffix(" cubed"))
            for layout, cell in zip(head[1:], cells):
                self.agrees(cell, results["f32-close", layout, side, side, side, 1]["carat"]["tflops"], label + layout)

    def test_errors_beside_cublas(self):
        """docs/accuracy.md says in how many cases the errors of standard accuracy are no larger."""
        said = re.search(r"are no larger than cublasSgemm's in (\d+) of (\d+) cases", page("docs/accuracy.md"))
        errors = {(line["contender"], line["accuracy"], line["family"], line["k"]): line
                  for line in lines("accuracy") if line["kind"] == "accuracy"}
        cases = {key[2:] for key in errors}
        held = [case for case in cases if all(
            errors[("carat", "standard", *case)][error] <= errors[("cublas", "default", *case)][error]
            for error in ("error_max", "error_mean"))]
        self.assertEqual((int(said[1]), int(said[2])), (len(held), len(cases)))


if __name__ == "__main__":
    unittest.main()
