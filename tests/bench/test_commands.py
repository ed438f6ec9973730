"""End-to-end tests of the commands that measure: bench, ladder, verify, ceiling, explain, and scripts/gpu.

CARAT_PROGRAM is a program whose kernels the stand-in driver CARAT_STANDIN runs; so the whole flow of a GPU is
there, at tiny sizes and absurd speeds.
"""

import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["CARAT_PROGRAM"]
SOURCE = os.environ["CARAT_SOURCE"]
STANDIN = os.environ["CARAT_STANDIN"]
WRONG_CBLAS = os.environ["CARAT_WRONG_CBLAS"]
GPU_CHECK = os.environ["CARAT_GPU_CHECK"]

FIELDS = (
    "dtype layout m n k batch contender accuracy time_us graph_time_us tflops share_of_ceiling plan sm_clock_mhz "
    "power_w error ratio ratio_calls ratio_graph peer share_of_unit unit dtype_d"
).split()

CEILINGS = {
    "ceilings": [
        {"name": "ceiling_ffma", "unit": "TFLOP/s", "value": 0.01},
        {"name": "ceiling_dmma", "unit": "TFLOP/s", "value": 0.01},
        {"name": "ceiling_copy", "unit": "GB/s", "value": 1.0},
        {"name": "ceiling_mma_bf16", "unit": "TFLOP/s", "value": 0.02},
    ]
}

SHAPES = """# a comment
f32 NN 20 12 16
f64 TT 9 10 11 2
bf16 NT 16 16 16
s8 TN 8 12 4
tf32 NT 12 16 20
fp4 NN 10 10 10
"""


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.ceilings = self.write("ceiling.json", json.dumps(CEILINGS))
        self.shapes = self.write("shapes.txt", SHAPES)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def run_carat(self, *arguments, device=True, code=0, path=None):
        environment = dict(os.environ, CARAT_DRIVER_LIBRARY=STANDIN if device else "/nonexistent/libcuda.so")
        if path is not None:
            environment["PATH"] = path
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, env=environment, timeout=600)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def lines(self, name):
        return [json.loads(line) for line in self.read(name).splitlines()]


class Bench(Case):
    def bench(self, *arguments, **keywords):
        return self.run_carat(
            "bench", "--time-limit", "0.02", "--repeat", "3", "--json", self.path("out.json"), *arguments, **keywords
        )

    def test_a_line_a_case_and_contender(self):
        done = self.bench("--shapes", self.shapes, "--against", "openblas", "--ceilings", self.ceilings)
        head, *lines = self.lines("out.json")
        self.assertEqual(head["kind"], "head")
        self.assertIn("Stand-in", head["device"])
        self.assertEqual(set(head["contenders"]), {"carat", "openblas"})
        results = [line for line in lines if line["kind"] == "result"]
        self.assertEqual(len(results), 10)
        for line in results:
            for field in FIELDS:
                self.assertIn(field, line)
            self.assertEqual(line["outcome"], "timed")
            self.assertGreater(line["time_us"], 0)
            self.assertLess(line["error"], 0.01)
        self.assertEqual(results[2]["batch"], 2)
        self.assertEqual([line["dtype"] for line in results[::2]], ["f32", "f64", "bf16", "s8", "tf32"])
        self.assertEqual([line["accuracy"] for line in results[::2]], ["standard", "strict", "standard", "strict", "fast"])
        self.assertEqual(results[4]["unit"], "mma_bf16")
        self.assertAlmostEqual(results[4]["share_of_unit"], results[4]["tflops"] / 0.02, delta=1e-6)
        self.assertEqual({line["peer"] for line in results}, {"openblas"})
        for carat, openblas in zip(results[::2], results[1::2]):
            self.assertAlmostEqual(carat["ratio_calls"] * carat["time_us"], openblas["time_us"],
                                   delta=1e-6 * openblas["time_us"])
        (skipped,) = [line for line in lines if line["kind"] == "skipped"]
        self.assertEqual(skipped["dtype"], "fp4")
        self.assertIn("geometric mean", done.stdout)
        self.assertIn("left out 1 times: all: Carat has no type fp4", done.stdout)

    def test_summaries_of_each_file_and_type(self):
        other = self.write("other.txt", "f32 NN 8 8 8\nf32 TN 9 9 9\n")
        done = self.bench("--shapes", self.shapes, other, "--type", "f32,bf16", "--against", "openblas", "--ceilings",
                          self.ceilings, "--summary")
        lines = self.lines("out.json")
        summaries = [line for line in lines if line["kind"] == "summary"]
        self.assertEqual([(line["file"], line["dtype"], line["cases"]) for line in summaries],
                         [("shapes.txt", "f32", 1), ("shapes.txt", "bf16", 1), ("other.txt", "f32", 2), ("", "", 4)])
        results = [line for line in lines if line["kind"] == "result" and line["contender"] == "carat"]
        ratios = [line["ratio"] for line in results if line["file"] == "other.txt"]
        self.assertAlmostEqual(summaries[2]["ratio"]["geometric_mean"], (ratios[0] * ratios[1]) ** 0.5, delta=1e-6)
        self.assertAlmostEqual(summaries[2]["ratio"]["worst"], min(ratios), delta=1e-6)
        self.assertEqual(summaries[3]["ratio"]["count"], 4)
        self.assertNotIn("carat takes", done.stdout)  # no line a case
        self.assertIn("other.txt", done.stdout)

    def test_who_cannot_is_counted(self):
        done = self.bench("--shapes", self.shapes, "--device", "cpu", "--against", "blas:" + WRONG_CBLAS, "--type", "bf16")
        by_name = {line["contender"]: line for line in self.lines("out.json") if line["kind"] == "result"}
        self.assertEqual(by_name["blas:" + WRONG_CBLAS]["outcome"], "cannot")
        self.assertIn("has no bf16", by_name["blas:" + WRONG_CBLAS]["reason"])
        self.assertIsNone(by_name["carat"]["ratio"])
        self.assertIn("left out 1 times: blas:", done.stdout)
        self.assertIn("1 without a peer", done.stdout)

    def test_eight_bit_floats_run_both_ways(self):
        shapes = self.write("float8.txt", "e4m3 TN 16 12 32\n")
        self.bench("--shapes", shapes, "--device", "cpu", "--against", "openblas")
        results = [line for line in self.lines("out.json") if line["kind"] == "result"]
        self.assertEqual([(line["dtype"], line["accuracy"], line["dtype_d"]) for line in results[::2]],
                         [("e4m3", "standard", "bf16"), ("e4m3-fast", "fast", "bf16")])
        self.assertEqual({line["outcome"] for line in results}, {"timed"})

    def test_f32_both_ways(self):
        shapes = self.write("f32.txt", "f32 TN 16 12 32\nf32-strict TN 16 12 32\nf32-best TN 16 12 32\n")
        for types in ("f32", "f32-strict,f32,f32-best"):
            self.bench("--shapes", shapes, "--device", "cpu", "--against", "openblas", "--type", types)
            results = [line for line in self.lines("out.json") if line["kind"] == "result"]
            self.assertEqual([(line["dtype"], line["accuracy"]) for line in results[::2]],
                             [("f32", "standard"), ("f32-strict", "strict"), ("f32-best", "best")])
            self.assertEqual({line["outcome"] for line in results}, {"timed"})
            self.assertEqual({line["peer"] for line in results}, {"openblas"})
        self.bench("--shapes", shapes, "--device", "cpu", "--against", "openblas", "--type", "f32-strict")
        self.assertEqual({line["dtype"] for line in self.lines("out.json") if line["kind"] == "result"}, {"f32-strict"})

    def test_random_shapes(self):
        for _ in range(2):
            self.bench("--random", "8", "--seed", "5", "--size", "40", "--type", "f32,bf16", "--device", "cpu",
                       "--against", "openblas")
            lines = self.lines("out.json")
            shapes = [(line["dtype"], line["layout"], line["m"], line["n"], line["k"])
                      for line in lines if line["kind"] == "result" and line["contender"] == "carat"]
            self.assertEqual(len(shapes), 8)
            self.assertEqual(max(max(shape[2:]) for shape in shapes) <= 40, True)
            self.assertEqual(self.once(shapes), shapes)
        self.bench("--random", "8", "--seed", "6", "--size", "40", "--type", "f32,bf16", "--device", "cpu")
        other = [(line["dtype"], line["layout"], line["m"], line["n"], line["k"])
                 for line in self.lines("out.json") if line["kind"] == "result"]
        self.assertNotEqual(other, shapes)
        self.bench("--random", "1", "--type", "none", "--device", "cpu", code=1)

    def once(self, value):
        if not hasattr(self, "kept"):
            self.kept = value
        return self.kept

    def test_epilogues(self):
        done = self.run_carat("bench", "--epilogues", "--device", "cpu", "--type", "bf16,tf32,s8", "--layout", "NN",
                              "--size", "24", "--time-limit", "0.01", "--json", self.path("e.json"))
        _, *lines = self.lines("e.json")
        for dtype in ("bf16", "tf32"):
            ran = [line for line in lines if line["dtype"] == dtype]
            self.assertEqual(ran[0]["contender"], "plain")
            self.assertEqual(ran[0]["over_plain"], 1)
            self.assertEqual(len(ran), 11)
            for line in ran:
                self.assertEqual(line["outcome"], "timed", line)
                self.assertGreater(line["over_plain"], 0)
                self.assertEqual(line["layout"], "NN")
        # Sums of s32 know no activation but ReLU.
        outcomes = {line["contender"]: line["outcome"] for line in lines if line["dtype"] == "s8"}
        self.assertEqual(outcomes["bias per row, relu"], "timed")
        self.assertEqual(outcomes["silu"], "cannot")
        self.assertIn("gelu, erf form", done.stdout)

    def test_inputs_of_a_family(self):
        shapes = self.write("wide.txt", "f32 NT 20 12 40\nf32-close TN 130 70 200\nf32-best TT 20 12 40 2\nbf16 NN 8 8 8\n")
        for device in (True, False):
            done = self.bench("--shapes", shapes, "--input", "exponents", "--against", "openblas", "--ceilings",
                              self.ceilings, device=device)
            results = [line for line in self.lines("out.json") if line["kind"] == "result"]
            self.assertEqual({line["input"] for line in results}, {"exponents"})
            self.assertEqual([line["outcome"] for line in results], 6 * ["timed"] + 2 * ["skipped"])
            for line in results[:6]:
                self.assertLess(line["error"], 32 * 2**-24)
            self.assertIn("exponents are packed matrices of f32", results[6]["reason"])
            self.assertIn("inputs of family exponents", done.stdout)
            close = {line["contender"]: line for line in results if line["dtype"] == "f32-close"}["carat"]
            self.assertIsNotNone(close["safe_share"])
            self.assertIsNone(results[0]["safe_share"])
        self.bench("--random", "2", "--size", "30", "--input", "small", "--device", "cpu", "--against", "openblas")
        results = [line for line in self.lines("out.json") if line["kind"] == "result"]
        self.assertEqual([line["dtype"] for line in results[::2]], ["f32", "f32-close"])
        self.assertEqual({(line["error"], line["input"]) for line in results}, {(0, "small")})
        self.bench("--shapes", self.shapes, "--type", "s8", "--device", "cpu", "--against", "openblas")
        self.assertEqual({line["input"] for line in self.lines("out.json") if line["kind"] == "result"}, {"normal"})

    def test_every_row(self):
        shapes = self.write("few.txt", "f32 NN 20 12 64\nbf16 TN 16 16 16\n")
        done = self.bench("--shapes", shapes, "--every-row")
        _, *choices, summary = self.lines("out.json")
        self.assertEqual([choice["dtype"] for choice in choices], ["f32", "bf16"])
        for choice in choices:
            ways = choice["ways"]
            times = [way["time_us"] for way in ways]
            self.assertEqual(times, sorted(times))
            self.assertGreater(len({way["row"] for way in ways}), 1)
            self.assertGreater(len(ways), len({way["row"] for way in ways}))  # packed, or in parts
            self.assertGreater(choice["plan_us"], 0)
            self.assertAlmostEqual(choice["loss"], max(0, choice["plan_us"] / times[0] - 1), delta=1e-6)
            self.assertEqual(len({(w["row"], w["parts"], w["packs_a"], w["packs_b"], w["as_type"], w["as_layout"])
                                  for w in ways}), len(ways))
        self.assertEqual(summary["cases"], 2)
        self.assertAlmostEqual(summary["worst_loss"], max(choice["loss"] for choice in choices), delta=1e-6)
        self.assertIn("on average", done.stdout)
        done = self.bench("--shapes", shapes, "--every-row", "--device", "cpu")
        self.assertIn("0 cases, 2 cannot", done.stdout)

    def test_rows_run_beside(self):
        self.bench("--shapes", self.shapes, "--type", "f32", "--row", "simt_f32_32x32,ladder_1_strip", "--against",
                   "openblas", "--ceilings", self.ceilings)
        names = {line["contender"]: line["outcome"] for line in self.lines("out.json") if line["kind"] == "result"}
        self.assertEqual(names["simt_f32_32x32"], "timed")
        self.assertEqual(names["ladder_1_strip"], "timed")

    def test_graphs_are_timed_where_there_is_time(self):
        self.bench("--shapes", self.shapes, "--ceilings", self.ceilings, "--filter", "s8", "--time-limit", "30",
                   "--against", "openblas")
        timed = {line["contender"]: line for line in self.lines("out.json") if line["kind"] == "result"}
        self.assertGreater(timed["carat"]["graph_time_us"], 0)
        self.assertIsNone(timed["openblas"]["graph_time_us"])
        self.assertEqual(timed["carat"]["dtype"], "s8")

    def test_a_long_turn_has_more_calls(self):
        calls = []
        shapes = self.write("cube.txt", "f32 NN 512 512 512\n")
        for turn in ("0", "0.4"):
            self.bench("--shapes", shapes, "--device", "cpu", "--turn", turn, "--ceilings", self.ceilings,
                       "--against", "openblas")
            calls.append(min(line["calls"] for line in self.lines("out.json")
                             if line["kind"] == "result" and line["outcome"] == "timed"))
        self.assertGreater(calls[1], 4 * calls[0])

    def test_who_is_wrong_gets_no_time(self):
        done = self.bench("--shapes", self.shapes, "--device", "cpu", "--against", "blas:" + WRONG_CBLAS,
                          "--filter", "f32", code=1)
        by_name = {line["contender"]: line for line in self.lines("out.json") if line["kind"] == "result"}
        wrong = by_name["blas:" + WRONG_CBLAS]
        self.assertEqual(wrong["outcome"], "wrong")
        self.assertIsNone(wrong["time_us"])
        self.assertIsNone(wrong["tflops"])
        self.assertIn("D(19, 11)", wrong["reason"])
        self.assertEqual(by_name["carat"]["outcome"], "timed")
        self.assertIn("wrong", done.stdout)

    def test_without_a_device(self):
        done = self.bench("--shapes", self.shapes, "--against", "cublas,openblas", device=False)
        self.assertIn("without cublas", done.stderr)
        self.assertIn("left out 1 times: cublas", done.stdout)
        self.bench("--shapes", self.shapes, "--device", "cuda", device=False, code=1)

    def test_memory(self):
        done = self.run_carat("bench", "--memory", "--size", "70", "--time-limit", "0.01", "--json", self.path("m.json"))
        head, *lines = self.lines("m.json")
        self.assertEqual(head["kind"], "head")
        pairs = {(line["operation"], line["dtype"]) for line in lines}
        for dtype in ("f32", "f64", "f16", "bf16", "s32", "s8"):
            self.assertIn(("transpose", dtype), pairs)
            self.assertEqual(("scale_add", dtype) in pairs, dtype[0] != "s")
        for line in lines:
            self.assertEqual(line["outcome"], "timed", done.stdout)
            self.assertGreater(line["gb_per_s"], 0)

    def test_host(self):
        self.run_carat("bench", "--host", "--size", "64", "--json", self.path("h.json"))
        _, *lines = self.lines("h.json")
        self.assertEqual([line["memory"] for line in lines], ["pinned", "pageable"])
        for line in lines:
            self.assertEqual(line["outcome"], "timed")
            self.assertGreater(line["over_larger"], 0)

    def test_wrong_usage(self):
        for arguments in (
            [],
            ["--shapes", self.shapes, "--memory"],
            ["--memory", "--host"],
            ["--random", "3", "--epilogues"],
            ["--epilogues", "--type", "none"],
            ["--epilogues", "--layout", "XY"],
            ["--shapes", self.shapes, "--row", "none"],
            ["--shapes", self.shapes, "--row", "ceiling_ffma"],
            ["--random", "2", "--largest", "-1"],
            ["--every-row", "--memory"],
            ["--every-row", "--random", "2", "--against", "openblas"],
            ["--shapes", self.shapes, "--device", "tpu"],
            ["--shapes", self.shapes, "--against", "mkl"],
            ["--shapes", self.shapes, "--time-limit", "0"],
            ["--shapes", self.shapes, "--repeat", "0"],
            ["--shapes", self.shapes, "--repeat", "101"],
            ["--shapes", self.shapes, "--turn", "-0.1"],
            ["--shapes", self.shapes, "--turn", "0.6"],
            ["--shapes", self.shapes, "--turn", "0.1", "--every-row"],
            ["--memory", "--turn", "0.1"],
            ["--shapes", self.shapes, "--time-limit", "nan"],
            ["--shapes", self.shapes, "--input", "wide"],
            ["--shapes", self.shapes, "--input", "exponents", "--every-row"],
            ["--memory", "--input", "exponents"],
            ["--nonsense"],
        ):
            self.run_carat("bench", *arguments, code=2)
        bad = self.write("bad.txt", "f32 NN 1 1 1\nf32 QQ 1 1 1\n")
        done = self.bench("--shapes", bad, code=1)
        self.assertIn("bad.txt:2", done.stderr)
        self.bench("--shapes", "/nonexistent", code=1)
        self.bench("--shapes", self.shapes, "--ceilings", self.shapes, code=1)
        self.run_carat("bench", "--shapes", self.shapes, "--json", "/nonexistent/out.json", code=1)


class Ladder(Case):
    def ladder(self, *arguments, **keywords):
        return self.run_carat("ladder", "--time-limit", "0.01", "--ceilings", self.ceilings, *arguments, **keywords)

    def test_every_rung(self):
        done = self.ladder("--sizes", "16,33", "--transfers", "--json", self.path("l.json"))
        document = json.loads(self.read("l.json"))
        self.assertEqual(document["dtype"], "f32")
        rungs = {result["rung"] for result in document["results"]}
        self.assertEqual(rungs, set(range(10)))  # 0: the CPU's BLAS, and the settings of accuracy
        for result in document["results"]:
            self.assertEqual(result["outcome"], "timed", result)
            self.assertIn(result["size"], (16, 33))
            if result["rung"]:
                for field in ("gflops", "share_of_ceiling", "first_call_us", "speedup_over_plain", "speedup_over_blas",
                              "with_copies_us", "traffic_bytes", "intensity"):
                    self.assertGreater(result[field], 0, field)
                self.assertLess(result["error"], 1e-5)
                self.assertFalse(result["plain_extrapolated"])
            if result["rung"] > 1:
                self.assertGreater(result["gain"], 0)
        self.assertIn("does not beat", done.stdout)

    def test_every_accuracy_stands_below_the_last_rung(self):
        done = self.ladder("--sizes", "32,64", "--rungs", "8,9", "--no-cpu", "--json", self.path("l.json"), "--markdown",
                           self.path("t.md"))
        results = json.loads(self.read("l.json"))["results"]
        order = ["fast", "close", "standard", "strict", "best"]
        for size in (32, 64):
            at_size = [result for result in results if result["size"] == size]
            settings = {result["accuracy"]: result for result in at_size if result.get("setting")}
            self.assertTrue({"fast", "standard", "strict"} <= set(settings))
            self.assertEqual(list(settings), [name for name in order if name in settings])
            self.assertEqual([result["rung"] for result in at_size], [8, 8, 9] + [0] * len(settings))
            for name, result in settings.items():
                self.assertEqual(result["outcome"], "timed", result)
                self.assertEqual(result["kernel"], "carat " + name)
                self.assertGreater(result["gflops"], 0)
            self.assertEqual(settings["fast"]["dtype"], "tf32")
            self.assertGreater(settings["fast"]["error"], 1e-5)  # which strict would not be let off with
            self.assertLess(settings["strict"]["error"], 1e-6)
        self.assertEqual(len(re.findall(r"(?m)^     carat strict +\d", done.stdout)), 2)
        text = self.read("t.md")
        self.assertEqual(text.count("| accuracy |"), 2)
        self.assertEqual(len(re.findall(r"(?m)^\| fast \| [\d.]+ \|", text)), 2)
        self.assertNotIn("carat fast", text)
        self.ladder("--size", "16", "--rungs", "8", "--no-cpu", "--json", self.path("l.json"))
        self.assertNotIn("setting", self.read("l.json"))

    def test_each_accuracy_is_held_against_its_own_unit(self):
        limits = {"ffma": 1e-4, "dmma": 3e-4, "mma_tf32": 5e-4, "wgmma_bf16": 42e-4, "wgmma_f16": 33e-4}
        ceilings = [{"name": "ceiling_" + name, "unit": "TFLOP/s", "value": value} for name, value in limits.items()]
        ceilings.append({"name": "ceiling_copy", "unit": "GB/s", "value": 1.0})
        path = self.write("units.json", json.dumps({"ceilings": ceilings}))
        done = self.run_carat("ladder", "--time-limit", "0.01", "--ceilings", path, "--size", "32", "--rungs", "9",
                              "--no-cpu", "--json", self.path("l.json"), "--markdown", self.path("t.md"))
        results = {result["accuracy"]: result for result in json.loads(self.read("l.json"))["results"]
                   if result.get("setting")}
        units = {"fast": ("mma_tf32", 1), "close": ("wgmma_f16", 3), "standard": ("wgmma_bf16", 6),
                 "strict": ("ffma", 1), "best": ("dmma", 1)}
        self.assertEqual({name: result["unit"] for name, result in results.items()},
                         {name: unit for name, (unit, _) in units.items()})
        text = self.read("t.md")
        for name, (unit, products) in units.items():
            tflops = results[name]["gflops"] * 1e-3  # of calls, however quick replays of a graph are
            self.assertAlmostEqual(tflops * results[name]["time_us"] * 1e6, 2 * 32**3, delta=1)
            share = tflops * products / limits[unit]
            self.assertAlmostEqual(results[name]["share_of_ceiling"], share, delta=1e-6 * share)
            self.assertIn(f"| {name} | {tflops:.2f} | {100 * share:.1f}% |", text)
            columns = re.search(rf"(?m)^     carat {name} +(.*)", done.stdout).group(1).split()
            self.assertEqual(columns[2], f"{100 * share:.1f}")

    def test_other_types_have_some_rungs(self):
        self.ladder("--type", "f64", "--size", "16", "--no-cpu", "--json", self.path("l.json"))
        document = json.loads(self.read("l.json"))
        self.assertTrue({4, 9} <= {result["rung"] for result in document["results"]})

    def test_the_tensor_instructions_have_rungs(self):
        done = self.ladder("--type", "bf16", "--size", "16", "--no-cpu", "--json", self.path("l.json"))
        by_rung = {result["rung"]: result for result in json.loads(self.read("l.json"))["results"]}
        self.assertEqual(set(by_rung), {4, 9, 10, 11, 12, 13, 14})
        for rung in (4, 9, 10, 14):
            self.assertEqual(by_rung[rung]["outcome"], "timed", by_rung[rung])
            self.assertLess(by_rung[rung]["error"], 0.01)
        self.assertEqual(by_rung[9]["kernel"], "simt_bf16_128x128")
        self.assertEqual(by_rung[10]["gain_over_rung"], 9)
        self.assertEqual(by_rung[14]["kernel"], "carat")
        for rung in (11, 12, 13):  # the stand-in is no Hopper
            self.assertEqual(by_rung[rung]["outcome"], "cannot", by_rung[rung])
            self.assertIn(by_rung[rung]["kernel"], by_rung[rung]["reason"])
        self.assertIn("4 skipped", done.stdout)

    def test_tables_in_markdown(self):
        self.ladder("--sizes", "16,32", "--rungs", "2,3", "--no-cpu", "--json", self.path("l.json"), "--markdown",
                    self.path("t.md"))
        text = self.read("t.md")
        self.assertEqual(text.count("| rung |"), 2)
        results = json.loads(self.read("l.json"))["results"]
        self.assertEqual(len(re.findall(r"^\| [23] ", text, re.M)), len(results))
        (first,) = [result for result in results if result["kernel"] == "ladder_3_tiled" and result["size"] == 32]
        done = self.run_carat("ladder", "--from", self.path("l.json"), "--markdown", "-", "--size", "32", device=False)
        self.assertEqual(done.stdout.count("| rung |"), 1)
        self.assertIn(done.stdout, text)
        (line,) = re.findall(r"^\| 3 tiled \|.*", done.stdout, re.M)
        self.assertIn(f"{first['gain']:.2f} over 2", line)
        self.assertIn(f"{100 * first['share_of_ceiling']:.1f}%", line)
        for size, code in (("64", 1), ("0", 2), ("x", 2)):
            self.run_carat("ladder", "--from", self.path("l.json"), "--markdown", "-", "--size", size, code=code)
        self.run_carat("ladder", "--from", self.path("l.json"), "--markdown", "/nonexistent/t.md", code=1)

    def test_plots_are_drawn_and_drawn_again(self):
        self.ladder("--sizes", "16,32", "--rungs", "1,3,9", "--no-cpu", "--json", self.path("l.json"),
                    "--plot", self.path("p.svg"), "--roofline", self.path("r.svg"))
        for name in ("p.svg", "r.svg"):
            text = self.read(name)
            self.assertIn("<svg", text)
            self.assertIn("</svg>", text)
            self.assertIn("strip", text)
            self.assertNotIn("carat fast", text)
        self.run_carat("ladder", "--from", self.path("l.json"), "--plot", self.path("p2.svg"), "--roofline",
                       self.path("r2.svg"), device=False)
        self.assertEqual(self.read("p.svg"), self.read("p2.svg"))
        self.assertEqual(self.read("r.svg"), self.read("r2.svg"))
        done = self.run_carat("ladder", "--from", self.path("l.json"), "--plot", self.path("p3.svg"), code=1,
                              path="/nonexistent")
        self.assertIn("gnuplot is not installed", done.stderr)
        self.run_carat("ladder", "--from", self.shapes, "--plot", self.path("p3.svg"), code=1)
        self.run_carat("ladder", "--from", self.path("l.json"), code=2)

    def test_a_slow_rung_is_left_out_and_said_so(self):
        done = self.ladder("--sizes", "16,32", "--rungs", "1", "--no-cpu", "--call-limit", "0.000001", "--json",
                           self.path("l.json"))
        results = json.loads(self.read("l.json"))["results"]
        self.assertEqual([result["outcome"] for result in results], ["timed", "skipped"])
        self.assertIn("one product would take", results[1]["reason"])
        self.assertIn("1 skipped", done.stdout)

    def test_without_a_device(self):
        done = self.run_carat("ladder", device=False)
        self.assertIn("skipped: no CUDA device", done.stdout)
        self.assertIn("rungs at 8 sizes not run", done.stdout)

    def test_wrong_usage(self):
        for arguments in (["--sizes", "x"], ["--size", "0"], ["--type", "f8"], ["--rungs", "one"],
                          ["--time-limit", "0"], ["--call-limit", "nan"], ["extra"]):
            self.run_carat("ladder", *arguments, code=2)


class Verify(Case):
    def verify(self, size, *arguments):
        done = self.run_carat("verify", "--size", size, "--deepest", "64", "--json", self.path("v.json"), *arguments)
        results = json.loads(self.read("v.json"))["results"]
        for result in results:
            self.assertIn(result["outcome"], ("right", "skipped"), result)
        self.assertIn(", 0 wrong", done.stdout)
        return results

    def test_every_kernel_of_a_type(self):
        results = self.verify("12", "--type", "f32")
        names = {result["contender"] for result in results}
        self.assertIn("carat", names)
        self.assertIn("ladder_5_kahan", names)
        self.assertGreater(len(names), 20)
        exact = [r for r in results if r["family"] == "integers" and r["outcome"] == "right"]
        self.assertTrue(exact)
        self.assertTrue(all(result["error"] == 0 for result in exact))

    def test_one_kernel_of_a_tensor_instruction(self):
        # Each kernel has its own test on the CPU; here they would take minutes.
        results = self.verify("16", "--type", "bf16", "--kernel", "mma_bf16_tn_64x64")
        right = {result["contender"] for result in results if result["outcome"] == "right"}
        self.assertTrue({"carat", "mma_bf16_tn_64x64"} <= right, right)

    def test_on_the_cpu(self):
        self.run_carat("verify", "--size", "40", "--deepest", "256", "--type", "f32", device=False)

    def test_one_accuracy(self):
        def dtypes(*arguments):
            return {result["dtype"] for result in self.verify("12", "--device", "cpu", *arguments)}
        self.assertEqual(dtypes("--type", "f32"), {"f32", "f32-strict", "f32-close", "f32-best"})
        self.assertEqual(dtypes("--accuracy", "best"),
                         {"f32-best", "f64-best", "f16-best", "bf16-best", "e4m3:e5m2-best"})
        self.assertEqual(dtypes("--accuracy", "strict"), {"f32-strict", "e4m3-strict"})
        self.assertEqual(dtypes("--accuracy", "fast"), {"tf32", "e4m3-fast", "e5m2:e4m3-fast"})
        self.assertEqual(dtypes("--type", "f32", "--accuracy", "standard"), {"f32"})
        self.assertEqual(dtypes("--type", "f32-strict"), {"f32-strict"})

    def test_wrong_usage(self):
        for arguments in (["--type", "x"], ["--size", "0"], ["--kernel", "none"], ["--kernel", "pack_2"], ["--device", "x"], ["extra"],
                          ["--accuracy", "default"], ["--type", "f64", "--accuracy", "fast"]):
            self.run_carat("verify", *arguments, code=2)


class Accuracy(Case):
    SETTINGS = {("carat", "standard"), ("carat", "strict"), ("carat", "fast"), ("carat", "best"), ("carat", "close"), ("openblas", "default")}

    def accuracy(self, *arguments, **keywords):
        done = self.run_carat("accuracy", "--json", self.path("a.json"), *arguments, **keywords)
        head, *lines = self.lines("a.json")
        self.assertEqual(head["kind"], "head")
        self.assertIn("carat", head["contenders"])
        return done, lines

    def test_every_family_and_setting(self):
        done, lines = self.accuracy("--size", "12", "--depths", "16,40")
        self.assertIn(" 0 over their bound", done.stdout)
        self.assertEqual(len({line["family"] for line in lines}), 16)
        self.assertEqual({line["k"] for line in lines}, {16, 40})
        self.assertEqual({(line["contender"], line["accuracy"]) for line in lines}, self.SETTINGS)
        self.assertEqual(len(lines), 16 * 2 * len(self.SETTINGS))
        for line in lines:
            self.assertEqual((line["outcome"], line["entries"]), ("measured", 144), line)
            self.assertLessEqual(line["error_mean"], line["error_max"])
            if line["exact"] and line["accuracy"] != "fast":
                self.assertEqual((line["error_max"], line["misrounded"]), (0, 0), line)
            if line["contender"] == "carat":
                self.assertEqual(line["peer"], "openblas")
        rough = [l for l in lines if (l["family"], l["accuracy"], l["contender"]) == ("normal", "standard", "carat")]
        self.assertTrue(all(0 < line["error_max"] < 1e-5 for line in rough), rough)

    def test_who_is_beside(self):
        few = ("--size", "20", "--depths", "16", "--family", "normal")
        for against, peers in (("none", set()), ("openblas", {"openblas"}), ("openblas,cublas", {"openblas"})):
            done, lines = self.accuracy(*few, "--against", against)
            self.assertEqual({line["contender"] for line in lines}, {"carat"} | peers)
            self.assertEqual({line["peer"] for line in lines if line["contender"] == "carat"}, peers or {None})
            self.assertEqual("cublas is left out" in done.stdout, "cublas" in against)

    def test_time_is_limited(self):
        done, lines = self.accuracy("--size", "20", "--depths", "16,64", "--family", "normal", "--time-limit", "1e-9",
                                    "--device", "cpu", device=False)
        self.assertEqual([(line["kind"], line["family"], line["k"]) for line in lines],
                         [("skipped", "normal", 16), ("skipped", "normal", 64)])
        self.assertIn("no time left of 1e-09 s", lines[0]["reason"])
        self.assertIn("0 measured, 0 over their bound; 2 cases left out for want of time", done.stdout)
        self.assertIn("normal 20 x 20 x 64 is left out", done.stdout)
        done, lines = self.accuracy("--size", "20", "--depths", "16", "--time-limit", "500", "--device", "cpu",
                                    device=False)
        self.assertEqual({line["kind"] for line in lines}, {"accuracy"})
        self.assertRegex(done.stdout, r"(?m)^seconds: inputs [\d.]+, .*, carat best [\d.]+")

    def test_long_sums_have_fewer_rows(self):
        _, lines = self.accuracy("--size", "400", "--depths", "65536", "--family", "small", "--entries", "64",
                                 "--against", "none", "--device", "cpu", device=False)
        self.assertEqual({(line["m"], line["n"], line["entries"], line["error_max"]) for line in lines},
                         {(256, 256, 64, 0)})

    def test_sampled_and_all_entries(self):
        few = ("--size", "270", "--depths", "3", "--family", "normal", "--device", "cpu")
        _, lines = self.accuracy(*few, "--entries", "5000", device=False)
        self.assertEqual({line["entries"] for line in lines}, {71 * 71})
        _, lines = self.accuracy(*few, "--entries", "0", device=False)
        self.assertEqual({line["entries"] for line in lines}, {270 * 270})

    def test_the_same_seed_gives_the_same_errors(self):
        small = ("--size", "20", "--depths", "64", "--family", "spread", "--device", "cpu")
        _, first = self.accuracy(*small, device=False)
        _, again = self.accuracy(*small, device=False)
        _, other = self.accuracy(*small, "--seed", "2", device=False)
        self.assertEqual(first, again)
        self.assertNotEqual([line["error_max"] for line in first], [line["error_max"] for line in other])

    def bench_file(self, name, *results, device="H", family="normal"):
        """What carat bench writes, of cubes of 64."""
        lines = [{"kind": "head", "device": device}]
        for dtype, contender, tflops in results:
            lines.append({"kind": "result", "dtype": dtype, "layout": "NN", "m": 64, "n": 64, "k": 64, "batch": 1,
                          "contender": contender, "outcome": "timed", "tflops": tflops, "input": family})
        return self.write(name, "\n".join(json.dumps(line) for line in lines) + "\n")

    def accuracy_file(self, name, *errors):
        lines = [{"kind": "head", "device": "H"}]
        for k, contender, accuracy, error in errors:
            lines.append({"kind": "accuracy", "family": "normal", "k": k, "contender": contender,
                          "accuracy": accuracy, "error_max": error})
        return self.write(name, "\n".join(json.dumps(line) for line in lines))

    def points(self, svg):
        """The labels and where their marks stand, of Carat's and then of the others; the key's marks, which come
        last of each kind, are left out."""
        text = self.read(svg)
        self.assertIn("</svg>", text)
        labels = re.findall(r"<text>([a-z]+(?: t?f32)?)</text>", text)
        marks = re.findall(r"<use xlink:href='#gpPt(\d+)' transform='translate\(([\d.]+),([\d.]+)\)", text)
        places = []
        for kind in dict.fromkeys(kind for kind, _, _ in marks):
            places += [(float(x), float(y)) for of, x, y in marks if of == kind][:-1]
        self.assertEqual(len(labels), len(places))
        return labels, places

    def test_errors_are_drawn_over_rates(self):
        errors = self.accuracy_file(
            "a.json", (8, "carat", "fast", 0.5), (16, "cublas", "default", 1e-7), (16, "cublas", "fast", 1e-4),
            (16, "openblas", "default", 1e-7), (16, "carat", "standard", 1e-8), (16, "carat", "close", 1e-7),
            (16, "carat", "best", 1e-9), (16, "carat", "fast", 1e-4), (16, "carat", "strict", None))
        first = self.bench_file("b.json", ("f32", "carat", 100), ("f32", "cublas", 50), ("tf32", "carat", 300),
                                ("tf32", "cublas", 250), ("f32-close", "cublas", 1), ("bf16", "carat", 700))
        second = self.bench_file("c.json", ("f32", "carat", 10), ("f32-close", "carat", 200), ("f32-strict", "carat", 3))
        draw = ("accuracy", "--from", errors, "--depths", "16", "--size", "64", "--plot", self.path("p.svg"))
        done = self.run_carat(*draw, first, second, device=False)
        self.assertEqual(re.findall(r"(?m)^(\w+ \w+) is left out", done.stdout), ["openblas default", "carat best"])
        labels, marks = self.points("p.svg")
        self.assertEqual(labels, ["standard", "close", "fast", "cublas f32", "cublas tf32"])
        # Equal steps of the rate are equally far apart; the error is logarithmic.
        (x1, y1), (x2, y2), (x3, y3), (x4, y4), (x5, y5) = marks
        self.assertAlmostEqual(x2 - x1, x3 - x2, delta=0.3)
        self.assertAlmostEqual(x1 - x4, (x2 - x1) / 2, delta=0.3)
        self.assertAlmostEqual(x3 - x5, (x2 - x1) / 2, delta=0.3)
        self.assertAlmostEqual(y1 - y2, (y2 - y3) / 3, delta=0.3)
        self.assertGreater(y1, y2)
        self.assertEqual((y4, y5), (y2, y3))
        wide = self.bench_file("wide.json", ("f32", "carat", 7), family="exponents")
        self.run_carat(*draw, wide, first, second, device=False)
        self.assertEqual(self.points("p.svg"), (labels, marks))
        # Without a peer, and of another size, family or device.
        self.run_carat(*draw, second, device=False)
        self.assertEqual(self.points("p.svg")[0], ["standard", "close"])
        for message, arguments in (
            ("no setting has a rate at m = n = k = 65", (*draw, "--size", "65", first)),
            ("no errors of the family uniform at k = 16", (*draw, "--family", "uniform", first)),
            ("no errors of the family normal at k = 4", (*draw, "--depths", "4", first)),
            ("is of G, but the errors are of H", (*draw, self.bench_file("d.json", device="G"))),
            ("does not begin as a file of results", (*draw, self.ceilings)),
            ("cannot read", (*draw, self.shapes)),
            ("cannot read", (*draw, self.write("e.json", self.read("b.json") + "{"))),
            ("cannot open", (*draw, self.path("none.json"))),
        ):
            self.assertIn(message, self.run_carat(*arguments, code=1).stderr)
        self.assertIn("gnuplot is not installed", self.run_carat(*draw, first, code=1, path="/nonexistent").stderr)

    def test_what_is_measured_can_be_drawn(self):
        self.accuracy("--size", "16", "--depths", "24", "--family", "normal")
        shapes = self.write("s.txt", "".join(f"{dtype} NN 16 16 16\n" for dtype in
                                             ("f32", "f32-strict", "f32-best", "f32-close", "tf32")))
        self.run_carat("bench", "--time-limit", "0.02", "--repeat", "3", "--json", self.path("b.json"), "--shapes",
                       shapes, "--ceilings", self.ceilings)
        done = self.run_carat("accuracy", "--from", self.path("a.json"), "--depths", "24", "--size", "16", "--plot",
                              self.path("p.svg"), self.path("b.json"))
        self.assertEqual(re.findall(r"(?m)^(\w+ \w+) is left out", done.stdout), ["openblas default"])
        self.assertEqual(set(self.points("p.svg")[0]), {"standard", "strict", "best", "close", "fast"})

    def test_wrong_usage(self):
        draw = ["--from", "a.json", "--plot", "p.svg"]
        for arguments in (["--plot", "p.svg"], ["--from", "a.json"], ["b.json"], draw,
                          [*draw, "b.json", "--depths", "1,2"], [*draw, "b.json", "--json", "c.json"],
                          [*draw, "b.json", "--family", "x"]):
            self.run_carat("accuracy", *arguments, code=2)
        for arguments in (["--against", "mkl"], ["--against", ""], ["--against", "cublas,"], ["--time-limit", "-1"],
                          ["--family", "x"], ["--depths", "1,,2"], ["--depths", "0"], ["--depths", ""], ["--size", "0"],
                          ["--device", "x"], ["extra"]):
            self.run_carat("accuracy", *arguments, code=2)
        self.run_carat("accuracy", "--json", self.path("none/a.json"), code=1)


class Others(Case):
    def test_ceiling_without_a_device(self):
        self.assertIn("skipped: no CUDA device", self.run_carat("ceiling", device=False).stdout)
        self.run_carat("ceiling", "--seconds", "0", code=2)
        self.run_carat("ceiling", "--seconds", "nan", code=2)

    def test_explain(self):
        done = self.run_carat("explain", "--layout", "TN", "24", "20", "16", "--measure")
        self.assertIn("f32 TN 24 x 20 x 16 to f32 on Stand-in", done.stdout)
        self.assertIn("chosen", done.stdout)
        self.assertIn("simt_f32_32x32", done.stdout)
        self.assertIn("OpenBLAS", self.run_carat("explain", "24", "20", "16", device=False).stdout)
        for arguments in (["1", "2"], ["1", "2", "x"], ["--layout", "QQ", "1", "1", "1"], ["--type", "x", "1", "1", "1"],
                          ["--device", "x", "1", "1", "1"]):
            self.run_carat("explain", *arguments, code=2)

    def test_help_names_every_option(self):
        for command in ("bench", "ladder", "verify", "accuracy", "ceiling", "explain", "tune"):
            done = self.run_carat(command, "--help")
            self.assertTrue(done.stdout.startswith("Usage: carat " + command))
            with open(os.path.join(SOURCE, "cli", command + ".c"), encoding="utf-8") as file:
                text = file.read()
            for option in text.split('.name = "--')[1:]:
                self.assertIn("--" + option.split('"')[0], done.stdout)


class Tune(Case):
    def tune(self, *arguments, **keywords):
        return self.run_carat("tune", "--type", "f32", "--largest", "32", "--minutes", "1", "--ways", "0", "--out",
                              self.path("table.txt"), *arguments, **keywords)

    def foreseen(self):
        done = self.run_carat("explain", "20", "20", "20")
        return float(re.search(r"(?m)^simt_f32_32x32 +32x32x16 +\d+ +\d+ +[\d.]+ +([\d.]+)", done.stdout)[1])

    def test_a_table_is_measured_and_used(self):
        done = self.tune()
        head, *lines = re.split(r"(?m)^(?=product |pack |reduce )", self.read("table.txt"))
        self.assertTrue(head.startswith("carat-tuning 1\ndevice Stand-in 0\n"))
        self.assertIn("%d measured, " % len(lines), done.stdout)
        self.assertNotIn("failed", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^rows that multiply split operands, which have no points of their own: 1$")
        self.assertEqual({line.split()[0] for line in lines}, {"product", "pack", "reduce"})
        rows = {line.split()[1] for line in lines if line.startswith("product ")}
        self.assertIn("simt_f32_32x32", rows)
        self.assertFalse([row for row in rows if "_f32_" not in row])
        for line in lines:
            self.assertGreater(float(line.split()[-1]), 0)
        self.assertEqual(len({line.rsplit(None, 1)[0] for line in lines}), len(lines))

        # What a second run has to do is what the first one did not come to.
        table = self.read("table.txt")
        again = self.tune("--resume")
        self.assertIn("0 measured, %d there already" % len(lines), again.stdout)
        self.assertEqual(self.read("table.txt"), table)

        before = self.foreseen()
        os.environ["CARAT_TUNING"] = self.path("table.txt")
        self.assertGreater(self.foreseen(), 10 * before)  # the stand-in is that slow
        self.addCleanup(os.environ.pop, "CARAT_TUNING")
        done = self.run_carat("explain", "20", "20", "20")
        self.assertRegex(done.stdout, r"(?m)^\d+ of \d+ kernels' times are corrected by a table")
        self.assertNotIn("corrected", self.run_carat("explain", "--type", "s32", "20", "20", "20").stdout)
        self.write("table.txt", table + "product simt_f32_32x32 NN 1 1 1 0\n")
        done = self.run_carat("explain", "20", "20", "20", code=1)
        self.assertIn("table.txt, line %d: '0' is no time" % (table.count("\n") + 1), done.stderr)
        os.environ["CARAT_TUNING"] = ""
        self.assertNotIn("corrected", self.run_carat("explain", "20", "20", "20").stdout)

    def test_there_is_no_time(self):
        done = self.tune("--minutes", "0.0000001")
        self.assertRegex(done.stdout, r"(?m)not come to in the time$")

    def test_whole_ways_are_measured(self):
        done = self.tune("--minutes", "0", "--ways", "2")
        table = self.read("table.txt")
        shapes = re.findall(r"(?m)^shape f32 ([NT][NT] \d+ \d+ \d+)(?: \d+)?$", table)
        ways = re.findall(r"(?m)^way (\S+) (\S\S) (?:\d+|shared) (\S+)$", table)
        self.assertIn("%d ways to do %d shapes measured" % (len(ways), len(shapes)), done.stdout)
        self.assertEqual(table.count("\n"), 8 + len(shapes) + len(ways))
        self.assertGreater(len(shapes), 2)
        self.assertGreater(len(ways), 2 * len(shapes))
        for _, _, time in ways:
            self.assertGreater(float(time), 0)
        # Others are drawn when it is gone on with, and by the bench.
        self.tune("--minutes", "0", "--ways", "1", "--resume")
        more = self.read("table.txt")
        self.assertTrue(more.startswith(table))
        self.assertGreater(len(more), len(table))
        self.assertNotEqual(re.findall(r"(?m)^shape .*", more[len(table):])[:3], re.findall(r"(?m)^shape .*", table)[:3])

    def test_given_shapes_are_measured(self):
        shapes = self.write("given.txt", "f32 TN 20 12 64\nf32-strict NN 9 10 11 3\nbf16 NN 16 16 16\n")
        done = self.tune("--minutes", "0", shapes)
        table = self.read("table.txt")
        self.assertEqual(re.findall(r"(?m)^shape .*", table), ["shape f32 TN 20 12 64", "shape f32-strict NN 9 10 11 3"])
        self.assertIn("to do 2 shapes measured", done.stdout)
        self.assertGreater(len(re.findall(r"(?m)^way ", table)), 4)
        self.tune("--minutes", "0", "--resume", shapes, shapes)  # again, and each twice
        self.assertEqual(len(re.findall(r"(?m)^shape ", self.read("table.txt"))), 6)
        self.tune("--minutes", "0", self.write("wrong.txt", "f32 TN 20 12\n"), code=1)
        self.tune("--minutes", "0", self.path("none.txt"), code=1)
        self.tune("--minutes", "0", "--device", "cpu", shapes, device=False, code=1)

    def test_what_is_measured_adds_to_the_library(self):
        shapes = self.write("given.txt", "s32 TN 20 12 64\n")
        self.write("table.txt", "precious")
        done = self.tune("--add", code=1)
        self.assertIn("the library has no table for a device like Stand-in 0", done.stderr)
        self.assertEqual(self.read("table.txt"), "precious")
        self.tune("--add", "--resume", code=2)
        # A device of the capability of one that has been measured, and of half its size.
        for name, value in (("STANDIN_CAPABILITY", "90"), ("STANDIN_MULTIPROCESSORS", "70")):
            os.environ[name] = value
            self.addCleanup(os.environ.pop, name)
        explain = ["explain", "--type", "s32", "--layout", "TN", "20", "12", "64"]
        nearest = "NVIDIA H100 80GB HBM3"
        self.assertIn(f" by times of the {nearest}", self.run_carat(*explain).stdout)
        done = self.tune("--type", "s32", "--minutes", "0", "--add", shapes)
        table = self.read("table.txt")
        self.assertTrue(table.startswith(f"carat-tuning 1\ndevice Stand-in 0\nover {nearest}\n"))
        ways = re.findall(r"(?m)^way (\S+) \S\S \S+ (\S+)$", table)
        self.assertIn("%d ways to do 1 shapes measured" % len(ways), done.stdout)
        self.assertGreater(len(ways), 4)
        os.environ["CARAT_TUNING"] = self.path("table.txt")
        self.addCleanup(os.environ.pop, "CARAT_TUNING")
        plan = self.run_carat(*explain).stdout
        self.assertIn(f" by measured times and those of the {nearest}", plan)
        self.assertRegex(plan, f"corrected by a table of times measured on this device and the {nearest}\n")
        foreseen = re.findall(r"(?m)^(\S+) +\d+x\d+x\d+ +\d+ +\d+ +[\d.]+ +([\d.]+) ", plan)
        # As they were written, with two digits behind the point; where ways are as far apart as here they are kept to 1.3 percent.
        self.assertTrue([row for row, time in ways for other, shown in foreseen if row == other
                         and abs(float(shown) - float(time)) < 0.006 + 1.3e-2 * float(time)])
        # It goes on as it began.
        self.tune("--type", "s32", "--minutes", "0", "--resume", shapes)
        self.assertTrue(self.read("table.txt").startswith(table))

    def test_what_cannot_be_gone_on_with(self):
        self.tune("--resume", code=1)
        self.write("table.txt", "carat-tuning 1\ndevice Another\nclock 1\n")
        self.assertIn("is a table of Another, but this is Stand-in 0", self.tune("--resume", code=1).stderr)
        self.assertIn("the CPU has one way", self.tune("--device", "cpu", device=False, code=1).stderr)
        for arguments in (["--device", "cpu"], ["--device", "auto"], ["--minutes", "0", "--ways", "1", "--device", "cpu"]):
            self.write("table.txt", "precious")
            self.assertIn("the CPU has one way", self.tune(*arguments, device=False, code=1).stderr)
            self.assertEqual(self.read("table.txt"), "precious")
        self.tune(device=False, code=1)
        self.tune("--minutes", "0", code=2)
        self.tune("--minutes", "nan", code=2)
        self.tune("--device", "gpu", code=2)
        self.tune("--type", "f31", code=2)


class Script(Case):
    def setUp(self):
        super().setUp()
        self.build = self.path("build")
        os.makedirs(os.path.join(self.build, "cli"))
        os.makedirs(os.path.join(self.build, "tests/gpu"))
        os.symlink(PROGRAM, os.path.join(self.build, "cli/carat"))

    def run_script(self, *arguments, device=True, code=0, script=os.path.join(SOURCE, "scripts/gpu")):
        environment = dict(os.environ, CARAT_DRIVER_LIBRARY=STANDIN if device else "/nonexistent/libcuda.so")
        done = subprocess.run([script, *arguments, self.build], capture_output=True,
                              text=True, env=environment, timeout=600)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def put_check(self, text):
        path = os.path.join(self.build, "tests/gpu/gpu_check")
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + text + "\n")
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)

    def test_without_a_device(self):
        self.assertIn("skipped: 17 steps", self.run_script(device=False))
        self.assertIn("skipped: 2 steps", self.run_script("--only", "check,bench", device=False))

    def test_steps_run_and_are_counted(self):
        self.put_check("echo checked")
        text = self.run_script("--only", "check,ladder", "--types", "f32,f64", "--sizes", "16", "--out", self.folder)
        self.assertIn("checked", text)
        self.assertIn("3 ran, 0 failed (), 2 skipped", text)  # gpu_gemm and gpu_elementwise are not there
        self.assertEqual(json.loads(self.read("ladder_f32.json"))["dtype"], "f32")
        self.assertEqual(json.loads(self.read("ladder_f64.json"))["dtype"], "f64")

    def test_dial_and_large_run_on_exponents_too(self):
        # Tiny ones in a copy of the folders that the script looks into.
        copy = self.path("copy")
        os.makedirs(os.path.join(copy, "bench/shapes"))
        os.makedirs(os.path.join(copy, "scripts"))
        shutil.copy(os.path.join(SOURCE, "scripts/gpu"), os.path.join(copy, "scripts"))
        for name in ("dial", "large"):
            with open(os.path.join(copy, f"bench/shapes/{name}.txt"), "w", encoding="utf-8") as file:
                file.write("# tiny\nf32 NN 20 12 40\nf32-close TN 20 12 128\n")
        text = self.run_script("--only", "bench,accuracy", "--per-case", "0.01", "--out", self.folder, "--minutes", "0",
                               script=os.path.join(copy, "scripts/gpu"))
        self.assertIn("0 ran, 0 failed (), 5 skipped (bench bench bench bench accuracy)", text)
        self.run_script("--only", "bench", "--per-case", "0.01", "--out", self.folder,
                        script=os.path.join(copy, "scripts/gpu"))
        for shapes in ("dial", "large"):
            for name, family in ((f"bench_{shapes}.json", "normal"), (f"bench_{shapes}_exponents.json", "exponents")):
                results = [line for line in self.lines(name) if line["kind"] == "result"]
                self.assertEqual([line["dtype"] for line in results], ["f32", "f32-close"])
                self.assertEqual({line["input"] for line in results}, {family})

    def test_a_failing_step_is_said_and_counted(self):
        self.put_check("exit 3")
        text = self.run_script("--only", "check", "--out", self.folder, code=1)
        self.assertIn("FAILED with exit code 3", text)
        self.assertIn("1 failed (check)", text)

    def test_time_runs_out(self):
        self.put_check("sleep 600")
        text = self.run_script("--only", "check,host", "--minutes", "0", "--out", self.folder)
        self.assertIn("no time left of 0 minutes", text)

    def test_wrong_usage(self):
        self.run_script("--only", "nothing", code=2)
        self.run_script("--nonsense", code=2)
        self.run_script("--shapes", "nothing", code=2)
        self.run_script("--minutes", "few", code=2)
        os.remove(os.path.join(self.build, "cli/carat"))
        self.run_script(code=2)


class OnAnyMachine(Case):
    def test_the_check_of_a_device_skips_without_one(self):
        environment = dict(os.environ, CARAT_DRIVER_LIBRARY="/nonexistent/libcuda.so")
        done = subprocess.run([GPU_CHECK], capture_output=True, text=True, env=environment, timeout=60)
        self.assertEqual(done.returncode, 0)
        self.assertIn("skipped: no CUDA device", done.stdout)

    def test_the_check_of_a_device_has_trials_of_each_kind_for_every_row(self):
        """There is no time to run any, so that they may be of Hopper's rows, which no stand-in runs. Clusters of eight share
        tiles where there are two of them, on twenty multiprocessors."""
        environment = dict(os.environ, CARAT_DRIVER_LIBRARY=STANDIN, STANDIN_CAPABILITY="90",
                           STANDIN_MULTIPROCESSORS="20")
        done = subprocess.run([GPU_CHECK, "--rows", "", "--seconds", "1e-9"], capture_output=True, text=True,
                              env=environment, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^wgmma_\w+ +0 passed, \d+ left out")


if __name__ == "__main__":
    unittest.main(verbosity=2)
