#!/usr/bin/env python3
"""Breaks every kernel in small ways, one at a time, and counts what the kernel tests catch.

A mutant is a copy of the kernels with one change:

    barrier    a __syncthreads, __syncwarp or wait for copies or stores is removed
    bound      a comparison's bound is moved by one, up or down: a < b becomes a <= b, or a < -1 + b

It is compiled for the CPU as one row of the catalogue after another, and run by test_cuda_kernels, until
one row's check fails (wrong result, sanitizer, barrier that threads miss, or no end). A mutant that no row
catches is a survivor; survivors.txt names each with the reason why it is no fault. A survivor that it does not
name fails this test, and so does a line of it that is out of date.

Python's standard library alone.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile

BARRIER = re.compile(r"\b(__syncthreads\(\)|__syncwarp\([^()]*\)|copy_async_wait\([^()]*\)"
                     r"|tensor_store_commit\(\)|tensor_store_wait_read\([^()]*\))\s*;")
COMPARISON = re.compile(r"(?<=[^<>=!-]) (<=|>=|<|>) (?=[^<>=])")
# What each comparison becomes with its bound one higher and one lower, for integers.
SHIFTED = {
    "<": [("<=", "<="), ("< -1 +", "< -1 +")],
    "<=": [("<", "<"), ("<= 1 +", "<= 1 +")],
    ">": [(">=", ">="), ("> 1 +", "> 1 +")],
    ">=": [(">", ">"), (">= -1 +", ">= -1 +")],
}
CPU_SECONDS = 60  # of one row's check

Row = collections.namedtuple("Row", "name source arch definitions cost")
Mutant = collections.namedtuple("Mutant", "file kind line key text")


def read_catalog(path):
    """The rows that can run on the CPU, as cmake/catalog.cmake and tests/cpu_run/cpu_run.cmake read them."""
    rows = []
    for line in path.read_text().splitlines():
        if not re.match(r"[a-z]", line):
            continue
        name, source, arch, *fields = line.split()
        if arch.endswith("a") or "OPERATION=CEILING" in fields:
            continue
        pairs = dict(field.split("=", 1) for field in fields)
        definitions = [f"-DKERNEL_NAME={name}"]
        for key, value in pairs.items():
            definitions.append(f"-D{key}={value}" if value.isdigit() else f"-D{key}={key}_{value}")
        cost = int(pairs.get("TILE_M", 1)) * int(pairs.get("TILE_N", 1))
        rows.append(Row(name, source, arch, definitions, cost))
    return rows


def code_of(text):
    """The text with comments, preprocessor lines and static_asserts blanked, at the same places."""

    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())

    text = re.sub(r"/\*.*?\*/", blank, text, flags=re.S)
    text = re.sub(r"//[^\n]*", blank, text)
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, text, flags=re.M)
    return re.sub(r"static_assert\(.*?\);", blank, text, flags=re.S)


def mutants_of(kernels, file):
    text = (kernels / file).read_text()
    code = code_of(text)
    lines = text.splitlines()
    seen = collections.Counter()
    made = []

    def add(kind, begin, end, replacement, label):
        number = text.count("\n", 0, begin)
        line = " ".join(lines[number].split())
        column = text[:begin].rsplit("\n", 1)[-1]
        nth = len(COMPARISON.findall(column)) + 1 if kind == "bound" else 1
        key = f"{file} | {line} | {label}" + (f" ({nth}.)" if nth > 1 else "")
        seen[key] += 1
        if seen[key] > 1:
            key += f" #{seen[key]}"
        made.append(Mutant(file, kind, number + 1, key, text[:begin] + replacement + text[end:]))

    for match in BARRIER.finditer(code):
        add("barrier", match.start(), match.end(), ";", "removed")
    for match in COMPARISON.finditer(code):
        for replacement, label in SHIFTED[match.group(1)]:
            add("bound", match.start(1), match.end(1), replacement, f"{match.group(1)} to {label}")
    return made


class Bench:
    """Compiles and runs mutants."""

    def __init__(self, options, rows):
        self.options = options
        self.rows = rows
        self.kernels = options.source / "kernels"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mutants-"))
        self.environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=0:symbolize=0:detect_odr_violation=0",
                                UBSAN_OPTIONS="print_stacktrace=0:symbolize=0")

    def command(self, row, kernels):
        tests = self.options.source / "tests" / "cpu_run"
        return [self.options.cc, *shlex.split(self.options.flags), *row.definitions,
                f'-DKERNEL_SOURCE="{kernels / row.source}"', f"-I{kernels / 'common'}", f"-I{tests}"]

    def preprocessed(self, row, kernels):
        command = self.command(row, kernels) + ["-E", "-P", str(self.options.source / "tests/cpu_run/row.c")]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.stdout.replace(str(kernels), "")

    def original(self, row, cache={}):
        if row.name not in cache:
            cache[row.name] = self.preprocessed(row, self.kernels)
        return cache[row.name]

    def run(self, row, kernels, trials=None):
        """How the row's check ends: 'survives', 'not compiled', or what caught the mutant."""
        built = kernels / f"{row.name}.so"
        compiled = subprocess.run(
            self.command(row, kernels) + ["-fPIC", "-shared", "-fvisibility=hidden", "-w", "-o", str(built),
                                          str(self.options.source / "tests/cpu_run/row.c")],
            capture_output=True, text=True)
        if compiled.returncode:
            return "not compiled"

        def limit():
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        done = subprocess.run([self.options.runner, row.name, str(built)], capture_output=True, text=True,
                              errors="replace", preexec_fn=limit,
                              env=dict(self.environment, KERNEL_TRIALS=str(trials or self.options.trials)))
        said = done.stdout + done.stderr
        built.unlink()
        if done.returncode == 0:
            return "survives"
        if done.returncode == 3:
            raise RuntimeError(f"{row.name} cannot be checked: {said}")
        if done.returncode in (-9, -24):
            return "no end"
        if "AddressSanitizer" in said or "runtime error" in said:
            return "sanitizer"
        if done.returncode == -6:
            return "barrier or copy"
        return "wrong result"

    def check_originals(self):
        """What is not broken has to pass, or nothing that is caught means anything."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            kernels = pathlib.Path(folder) / "kernels"
            shutil.copytree(self.kernels, kernels)
            with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
                for row, verdict in zip(self.rows, pool.map(lambda row: self.run(row, kernels, 4), self.rows)):
                    if verdict != "survives":
                        sys.exit(f"{row.name} without any change: {verdict}")

    def judge(self, mutant):
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            kernels = pathlib.Path(folder) / "kernels"
            shutil.copytree(self.kernels, kernels)
            (kernels / mutant.file).write_text(mutant.text)
            seen = False
            compiled = False
            for row in self.rows:
                if self.preprocessed(row, kernels) == self.original(row):
                    continue
                seen = True
                verdict = self.run(row, kernels)
                compiled = compiled or verdict != "not compiled"
                if verdict not in ("survives", "not compiled"):
                    return verdict
            return "survives" if compiled else "not compiled" if seen else "in no row"


def included_by(kernels, source):
    """The files under kernels/ that a source includes, but for those that stand for the instructions."""
    found = set()
    todo = [source]
    while todo:
        file = todo.pop()
        for name in re.findall(r'#include "([^"]+)"', (kernels / file).read_text()):
            for candidate in (pathlib.PurePath(file).parent / name, pathlib.PurePath("common") / name):
                if (kernels / candidate).exists() and str(candidate) not in found and "ptx" not in str(candidate):
                    found.add(str(candidate))
                    todo.append(str(candidate))
                    break
    return found


def read_survivors(path):
    reasons = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            key, separator, reason = line.rpartition(" | ")
            if not separator or key.count(" | ") < 2 or not reason.strip():
                sys.exit(f"{path}:{number}: not 'file | line | change | reason'")
            reasons[" | ".join(part.strip() for part in key.split(" | "))] = reason.strip()
    return reasons


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=pathlib.Path, required=True, help="the project's folder")
    parser.add_argument("--runner", required=True, help="test_cuda_kernels")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--flags", default="", help="of the compiler, in one word")
    parser.add_argument("--only", default="", help="files whose name contains this")
    parser.add_argument("--every", type=int, default=1, help="every nth bound only; all barriers all the same")
    parser.add_argument("--trials", type=int, default=60, help="cases a row")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()

    kernels = options.source / "kernels"
    rows = sorted(read_catalog(kernels / "catalog.txt"), key=lambda row: row.cost)
    rows_of = collections.defaultdict(list)
    for row in rows:
        for file in {row.source} | included_by(kernels, row.source):
            rows_of[file].append(row)
    # What all kernels share is checked with the cheapest row of each, and of those that rescue.
    for file, users in rows_of.items():
        if file.startswith("common/"):
            first = {}
            for row in users:
                first.setdefault((row.source, "-DRESCUES=1" in row.definitions), row)
            rows_of[file] = list(first.values())

    reasons = read_survivors(options.source / "tests/mutation/survivors.txt")
    tally = collections.defaultdict(collections.Counter)
    unexplained = []
    outdated = []
    todo = []
    unbuilt = []
    keys = set()
    left_out = 0
    for file in sorted(rows_of):
        made = mutants_of(kernels, file)
        keys |= {mutant.key for mutant in made}
        bench = Bench(options, rows_of[file])
        bounds = 0
        for mutant in made:
            bounds += mutant.kind == "bound"
            if options.only in file and (mutant.kind == "barrier" or bounds % options.every == 0):
                # A known survivor goes through all rows and trials: that is for the run of all mutants.
                if options.every > 1 and mutant.key in reasons:
                    left_out += 1
                else:
                    todo.append((bench, mutant))
    outdated += [f"{key}: there is no such mutant" for key in reasons if key not in keys]

    checked = set()
    for bench, _ in todo:
        if not {row.name for row in bench.rows} <= checked:
            bench.check_originals()
            checked |= {row.name for row in bench.rows}

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for (bench, mutant), verdict in zip(todo, pool.map(lambda pair: pair[0].judge(pair[1]), todo)):
            tally[mutant.kind][verdict] += 1
            if options.verbose:
                print(f"{verdict:16} {mutant.key}", flush=True)
            if verdict in ("survives", "in no row"):
                if mutant.key not in reasons:
                    unexplained.append(f"{mutant.key}   ({verdict}, line {mutant.line})")
            elif mutant.key in reasons:
                outdated.append(f"{mutant.key}: it is caught now ({verdict})")
            if verdict == "not compiled":
                unbuilt.append(mutant.key)
    for bench, _ in todo:
        shutil.rmtree(bench.folder, ignore_errors=True)

    for kind, verdicts in sorted(tally.items()):
        survived = verdicts["survives"] + verdicts["in no row"]
        caught = sum(verdicts.values()) - survived - verdicts["not compiled"]
        print(f"{kind}: {sum(verdicts.values())} mutants, {caught} caught ("
              + ", ".join(f"{name} {count}" for name, count in sorted(verdicts.items())
                          if name not in ("survives", "in no row", "not compiled"))
              + f"), {verdicts['not compiled']} did not compile, {survived} survived")
    if left_out:
        print(f"skipped: {left_out} mutants that survivors.txt explains, which only a run of all tries again")
    for title, lines in (("survivors that survivors.txt does not explain", unexplained),
                         ("lines of survivors.txt that are out of date", outdated)):
        if lines:
            print(f"{len(lines)} {title}:")
            print("\n".join("  " + line for line in lines))
    if not todo:
        print("there was nothing to do")
    return 1 if unexplained or outdated or not todo else 0


if __name__ == "__main__":
    sys.exit(main())
