"""Which figure of the pages is which result's: every table that files of docs/results stand behind.

scripts/renew writes these figures and tests/pages/test_figures.py holds the pages to them. Both ask here, so
that what is held is what is written. Each function of TABLES yields a Figure (or Words) for a cell and its
result, and a Problem for a cell that has no result, or a result that has no cell.
"""

import functools
import json
import math
import os
import re
import typing

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHAPES = ("square", "layouts", "ragged", "odd", "llm", "skinny", "batched", "strict", "dial", "large")
SHAPES_ON_AN_H100 = ("square", "layouts", "ragged", "odd", "llm", "tokens", "sweep", "skinny", "batched", "random")
FORM = re.compile(r"(\d+)(?:\.(\d+))?(?:e(-?\d+))?")


class Page(typing.NamedTuple):
    path: str
    text: str

    def where(self, start):
        """The line that a place is in, as compilers write it."""
        return f"{self.path}:{self.text.count(chr(10), 0, start) + 1}"


class Part(str):
    """A piece of a page's text that knows where it stands."""

    def __new__(cls, page, start, end):
        part = super().__new__(cls, page.text[start:end])
        part.page, part.start, part.end = page, start, end
        return part

    def where(self):
        return self.page.where(self.start)

    def split_by(self, pattern):
        """The groups of a pattern that this part is written by; None for what is left out."""
        match = re.fullmatch(pattern, self)
        if not match:
            raise ValueError(f"{self.where()}: {str(self)!r} is not written as it was")
        return groups(self.page, match, self.start)


class Problem(typing.NamedTuple):
    what: str


class Figure(typing.NamedTuple):
    part: Part
    value: float
    what: str

    def holds(self):
        """The value rounds to as many decimals as the part gives (a tie either way)."""
        _, decimals, exponent = FORM.fullmatch(self.part).groups()
        place = 10.0 ** (int(exponent or 0) - len(decimals or ""))
        return abs(float(self.part) - self.value) <= 0.5000001 * place

    def renewed(self):
        """The value in the form that the part has; the part itself where it holds, however a tie went."""
        if self.holds():
            return str(self.part)
        _, decimals, exponent = FORM.fullmatch(self.part).groups()
        places = len(decimals or "")
        if exponent is None:
            return f"{self.value:.{places}f}"
        mantissa, power = f"{self.value:.{places}e}".split("e")
        return f"{mantissa}e{int(power)}"


class Words(typing.NamedTuple):
    """A cell that a result settles word by word, not to so many decimals."""
    part: Part
    value: str
    what: str

    def holds(self):
        return self.part == self.value

    def renewed(self):
        return self.value


def groups(page, match, start=0):
    """The groups of a match as parts of the page, whose text was matched from start on."""
    return [None if begin < 0 else Part(page, start + begin, start + end)
            for begin, end in map(match.span, range(1, match.re.groups + 1))]


@functools.cache
def page(path):
    # Line ends are left as they are: a place in the text is a place in the file.
    with open(os.path.join(SOURCE, path), encoding="utf-8", newline="") as file:
        return Page(path, file.read())


@functools.cache
def document(name):
    return json.loads(page(f"docs/results/{name}.json").text)


@functools.cache
def lines(name):
    return [json.loads(line) for line in page(f"docs/results/{name}.json").text.splitlines()]


def cells(of, start, line):
    """The cells of a table's line, which begins at start, without the blanks around them."""
    bars = [bar.start() for bar in re.finditer(r"(?<!\\)\|", line)]
    for left, right in zip(bars, bars[1:]):
        text = line[left + 1:right]
        begin = start + left + 1 + len(text) - len(text.lstrip())
        yield Part(of, begin, max(begin, start + right - len(text) + len(text.rstrip())))


def tables(path):
    """Every table of a page as a list of rows of cells, its head first, without the line below that."""
    found = []
    inside = False
    start = 0
    for line in page(path).text.splitlines(keepends=True):
        if not line.startswith("|"):
            inside = False
        else:
            row = list(cells(page(path), start, line))
            if not inside:
                found.append([])
            inside = True
            if not all(cell and set(cell) <= set("-:") for cell in row):
                found[-1].append(row)
        start += len(line)
    return found


def table(path, *head):
    """The rows of the one table of a page whose head begins with these words, and its head."""
    found = [rows for rows in tables(path) if tuple(rows[0][:len(head)]) == head]
    if len(found) != 1:
        raise ValueError(f"{path}: {len(found)} tables begin with {' | '.join(head)}")
    for row in found[0]:
        if len(row) != len(found[0][0]):
            raise ValueError(f"{row[0].where()}: {len(row)} cells under a head of {len(found[0][0])}")
    return found[0][1:], found[0][0]


def table_of(count, path, *head):
    """The same, of a table whose rows are known by their order: so there must be as many as ever."""
    rows, names = table(path, *head)
    if len(rows) != count:
        raise ValueError(f"{names[0].where()}: {len(rows)} rows, not {count}")
    return rows, names


def said(path, pattern):
    """What the groups of a pattern are at each place of a page that has it."""
    return [groups(page(path), match) for match in re.finditer(pattern, page(path).text)]


def products(name, folder=""):
    """The results of a file of carat bench by type, layout, sizes and batch: a line for each contender."""
    found = {}
    for line in lines(f"{folder}bench_{name}"):
        if line["kind"] == "result":
            key = tuple(line[field] for field in ("dtype", "layout", "m", "n", "k", "batch"))
            found.setdefault(key, {})[line["contender"]] = line
    return found


def figure(part, value, what):
    """The figure of a cell, or what is wrong where there is none or its result has none."""
    if value is None or not math.isfinite(value):
        return Problem(f"{part.where()}: {what}: no result for {str(part)!r}")
    if not FORM.fullmatch(part):
        return Problem(f"{part.where()}: {what}: {str(part)!r} is no figure, the file has {value:.6g}")
    return Figure(part, value, what)


def unlike(cell, there, what):
    """The problem of a cell that is filled where there is no result, or empty where there is one."""
    if cell and not there:
        yield Problem(f"{cell.where()}: {what}: no result for {str(cell)!r}")
    if there and not cell:
        yield Problem(f"{cell.where()}: {what}: an empty cell, but a result")


def gauge(line, field, factor=1.0):
    """A number of a result in the unit of its page, None where it has not been measured."""
    return None if line.get(field) is None else factor * line[field]


def measured(contenders, field):
    """What those that Carat is compared with have in a field."""
    return [line[field] for name, line in contenders.items() if name != "carat" and line.get(field)]


def rates_of_the_readme():
    rows, _ = table("README.md", "type", "layout", "m = n = k")
    files = [products(name) for name in ("strict", "dial", "square", "odd", "types")]
    for dtype, layout, size, own, peer, ratio, share in rows:
        side = int(size)
        what = f"{dtype} {layout} {size}"
        key = (dtype, layout, side, side, side, 1)
        mine = next((file[key] for file in files if key in file), {})
        if "carat" not in mine:
            yield Problem(f"{dtype.where()}: {what}: no result for this row")
            continue
        carat = mine["carat"]
        peers = measured(mine, "tflops")
        yield figure(own, gauge(carat, "tflops"), what)
        if peers or peer != "none":
            yield figure(peer, max(peers, default=None), what + ", cuBLAS")
        if ratio or carat["ratio"]:
            yield figure(ratio, gauge(carat, "ratio"), what + ", ratio")
        yield figure(share.split_by(r"(\S+)%")[0], gauge(carat, "share_of_ceiling", 100), what + ", share")


def means(name, folder=""):
    """The geometric mean and the least of the ratios of each type in a file."""
    ratios = {}
    for (dtype, *_), contenders in products(name, folder).items():
        if contenders.get("carat", {}).get("ratio"):
            ratios.setdefault(dtype, []).append(contenders["carat"]["ratio"])
    return {dtype: (math.exp(sum(map(math.log, of)) / len(of)), min(of)) for dtype, of in ratios.items()}


def means_in_table(title, shapes, folder=""):
    rows, head = table("README.md", title)
    for name in sorted(set(shapes) - {name for name, *_ in rows}):
        yield Problem(f"{head[0].where()}: {name}: no row for its results")
    for name, *row in rows:
        found = means(name, folder)
        for dtype in sorted(set(found) - set(head)):
            yield Problem(f"{name.where()}: {name}: results for {dtype}, which has no column")
        for dtype, cell in zip(head[1:], row):
            what = f"{name} {dtype}"
            yield from unlike(cell, dtype in found, what)
            if cell and dtype in found:
                yield from map(figure, cell.split_by(r"(\S+) / (\S+)"), found[dtype], (what, what))


def means_of_the_readme():
    return means_in_table("shapes", SHAPES)


def means_on_an_h100():
    return means_in_table("shapes on an H100", SHAPES_ON_AN_H100, "h100/")


def ladder(name):
    return {(line["kernel"], line["size"]): line for line in document("ladder_" + name)["results"]
            if line["outcome"] == "timed"}


def rung(row, line, what):
    """The cells of a rung: its rate, its share, its gain and over which rung."""
    rate, share, gain = row
    if not line:
        yield Problem(f"{rate.where()}: {what}: no result for this row")
        return
    yield figure(rate, gauge(line, "gflops", 1e-3), what)
    if share:
        yield figure(share.split_by(r"(\S+)%")[0], gauge(line, "share_of_ceiling", 100), what + ", share")
    if gain:
        times, over = gain.split_by(r"(\S+) over (\d+)")
        yield figure(times, gauge(line, "gain"), what + ", gain")
        yield figure(over, gauge(line, "gain_over_rung"), what + ", the rung that its gain is over")


def rungs_of_f32():
    kernels = ("ladder_1_strip ladder_2_coalesced ladder_3_tiled ladder_3_tiled_transposed ladder_4_pitched "
               "ladder_5_kahan ladder_6_register_tile_float2 ladder_6_register_tile_8 ladder_6_register_tile "
               "ladder_7_register_prefetch ladder_8_async_copy ladder_8_async_copy_4 carat cublas "
               "cublaslt").split()
    rows, _ = table_of(len(kernels), "docs/ladder.md", "rung", "TFLOP/s", "of the ceiling", "gain, over rung",
                       "counted global loads, words")
    results = ladder("f32")
    for kernel, (label, *row) in zip(kernels, rows):
        if kernel.startswith("ladder") and label[0] != kernel[7]:
            yield Problem(f"{label.where()}: the row of {label}, not of {kernel}")
        else:
            yield from rung(row[:3], results.get((kernel, 4096), {}), kernel)


def rungs_of_bf16():
    rows, _ = table("docs/ladder.md", "rung", "TFLOP/s", "of the ceiling", "gain, over rung",
                    "cuBLAS's time over its", "counted traffic")
    titles = {"simt_bf16_128x128": "9 simt_bf16_128x128", "carat": "14 carat"}
    results = {titles.get(kernel) or re.sub(r"^ladder_(\d+)_", r"\1 ", kernel): line
               for (kernel, size), line in ladder("bf16").items() if size == 4096}
    for name, *row, ratio, traffic in rows:
        line = results.get(name, {})
        yield from rung(row, line, name)
        if ratio:
            yield figure(ratio, gauge(line, "ratio"), name + ", ratio")
            moved = traffic.split_by(r"(\S+) GB")[0]
            yield figure(moved, gauge(line, "traffic_bytes", 1e-9), name + ", traffic")


def block_sizes():
    rows, head = table("docs/ladder.md", "threads")
    results = ladder("f32")
    for label, *row in rows:
        match = re.fullmatch(r"GFLOP/s at (\d+) \[f32\]", label)
        if match:
            for threads, cell in zip(head[1:], row):
                kernel = "ladder_2_coalesced" + ("" if threads == "256" else "_" + threads)
                line = results.get((kernel, int(match[1])), {})
                yield figure(cell, gauge(line, "gflops"), f"{match[1]}, {threads} threads")


def transfers():
    fields = (("ladder_4_pitched", "time_us"), ("ladder_4_pitched", "with_copies_us"),
              ("carat", "time_us"), ("carat", "with_copies_us"), ("openblas", "time_us"))
    rows, head = table_of(len(fields), "docs/ladder.md", "size", "128")
    results = ladder("f32")
    for (kernel, field), (label, *row) in zip(fields, rows):
        for size, cell in zip(head[1:], row):
            what = f"{label}, {size}"
            there = (kernel, int(size)) in results
            yield from unlike(cell, there, what)
            if cell and there:
                yield figure(cell, gauge(results[kernel, int(size)], field, 1e-3), what)


def shared(cell, values, what):
    """The figure of a cell that stands for several results, which must round alike."""
    largest = figure(cell, max(values) if None not in values else None, what)
    yield largest
    if isinstance(largest, Figure):
        text = largest.renewed()
        for value in values:
            if not Figure(text, value, what).holds():
                yield Problem(f"{cell.where()}: {what}: one cell for {largest.value:.6g} and {value:.6g}")


def errors_of_sums():
    kernels = (("ladder_1_strip", "ladder_2_coalesced", "ladder_3_tiled", "ladder_4_pitched",
                "ladder_6_register_tile", "ladder_7_register_prefetch", "ladder_8_async_copy"), ("carat",),
               ("ladder_5_kahan",))
    rows, head = table_of(len(kernels), "docs/ladder.md", "k", "16")
    case = ("f32-strict", "positive", "right")
    errors = {(line["contender"], line["k"]): line["error"] for line in document("verify")["results"]
              if (line["dtype"], line["family"], line["outcome"]) == case}
    for names, (label, *row) in zip(kernels, rows):
        for k, cell in zip(head[1:], row):
            yield from shared(cell, [errors.get((name, int(k))) for name in names], f"{label}, {k}")


def kernels_that_move_memory():
    rows, head = table("docs/notes/memory.md", "type", "copy")
    results = {(line["dtype"], line["operation"]): line for line in lines("memory")
               if line["kind"] == "memory"}
    shown = {(dtype, operation): cell for dtype, *row in rows for operation, cell in zip(head[1:], row)}
    for dtype, operation in sorted(set(results) - set(shown)):
        yield Problem(f"{head[0].where()}: {dtype} {operation}: a result, but no cell")
    for key, cell in shown.items():
        what = " ".join(key)
        yield from unlike(cell, key in results, what)
        if cell and key in results:
            time, share = cell.split_by(r"([\d.]+)(?: \(([\d.]+)%\))?")
            yield figure(time, gauge(results[key], "time_us"), what)
            if share:
                yield figure(share, gauge(results[key], "share_of_copy", 100), what + ", share")


def parts_in_registers():
    rows, _ = table("docs/notes/standard.md", "m, n, k", "row")
    for shape, row, own, peer, ratio, file in rows:
        m, n, k, layout, batch = shape.split_by(
            r"(\d+)(?: cubed| x (\d+) x (\d+)), ([NT]{2})(?:, (\d+) of them)?")
        key = ("f32", layout, int(m), int(n or m), int(k or m), int(batch or 1))
        mine = products(file.split_by(r"`bench_(\w+)\.json`")[0]).get(key, {})
        carat = mine.get("carat", {})
        kernel = re.search(r"\bmma_3xbf16_(\w+):", carat.get("plan") or "")
        if not kernel:
            # Its times would be another kernel's, under a title that speaks of this one.
            plan = (carat.get("plan") or "none").split(":")[0]
            yield Problem(f"{shape.where()}: {shape}: no result of mma_3xbf16, but {plan}")
            continue
        yield Words(row, kernel[1].replace("x", " x "), shape + ", row")
        yield figure(own, gauge(carat, "graph_time_us"), str(shape))
        yield figure(peer, min(measured(mine, "graph_time_us"), default=None), shape + ", cuBLAS")
        yield figure(ratio, gauge(carat, "ratio"), shape + ", ratio")


def rates_of_close():
    rows, head = table("docs/notes/close.md", "TFLOP/s")
    results = products("dial")
    for label, *row in rows:
        side = int(label.split_by(r"(\d+) cubed")[0])
        for layout, cell in zip(head[1:], row):
            line = results.get(("f32-close", layout, side, side, side, 1), {}).get("carat", {})
            yield figure(cell, gauge(line, "tflops"), f"{label} {layout}")


def errors_beside_cublas():
    """docs/accuracy.md says in how many cases the errors of standard accuracy are no larger."""
    spoken = said("docs/accuracy.md", r"are no larger than cublasSgemm's in (\d+) of (\d+) cases")
    if len(spoken) != 1:
        raise ValueError("docs/accuracy.md: in how many cases errors are no larger is not said as it was")
    errors = {(line["contender"], line["accuracy"], line["family"], line["k"]): line
              for line in lines("accuracy") if line["kind"] == "accuracy"}
    cases = {key[2:] for key in errors}
    held = 0
    for case in sorted(cases):
        both = [errors.get((*who, *case), {}) for who in (("carat", "standard"), ("cublas", "default"))]
        pairs = [[line.get(error) for line in both] for error in ("error_max", "error_mean")]
        if any(None in pair for pair in pairs):
            yield Problem(f"docs/results/accuracy.json: {case[0]}, k = {case[1]}: no errors of both")
        else:
            held += all(own <= peer for own, peer in pairs)
    yield from map(figure, spoken[0], (held, len(cases)), ("errors that are no larger", "all of them"))


TABLES = (rates_of_the_readme, means_of_the_readme, means_on_an_h100, rungs_of_f32, rungs_of_bf16,
          block_sizes, transfers, errors_of_sums, kernels_that_move_memory, parts_in_registers,
          rates_of_close, errors_beside_cublas)


def figures_of(one):
    """The figures and the problems of a table; that it cannot be read at all is a problem too."""
    figures, problems = [], []
    try:
        for found in one():
            (problems if isinstance(found, Problem) else figures).append(found)
    except (OSError, ValueError) as error:
        problems.append(Problem(f"{one.__name__.replace('_', ' ')}: {error}"))
    return figures, problems
