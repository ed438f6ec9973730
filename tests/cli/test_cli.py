"""End-to-end tests of the program carat: what it prints, what it writes, what it refuses.

    CARAT_PROGRAM=build/cli/carat CARAT_SOURCE=. python3 tests/cli/test_cli.py [class ...]

Arrays go to the program as NumPy writes them and come back as NumPy reads them; results are compared with
NumPy's in longdouble, or with Python's integers modulo 2^32.
"""

import io
import itertools
import json
import math
import os
import pty
import re
import resource
import shutil
import signal
import stat
import subprocess
import tempfile
import unittest

import numpy

PROGRAM = os.environ["CARAT_PROGRAM"]
SOURCE = os.environ["CARAT_SOURCE"]
NO_DRIVER = "/nonexistent/libcuda.so"


def source(name):
    """The text of a file of the sources."""
    with open(os.path.join(SOURCE, name), encoding="utf-8") as file:
        return file.read()


COMMANDS = re.findall(r'^    \{"([a-z]+)", command_', source("cli/main.c"), re.M)

# type name: NumPy's, the result's, the rounding unit of the sums, of the result
TYPES = {
    "f32": ("<f4", "<f4", 2.0**-24, 0),
    "f64": ("<f8", "<f8", 2.0**-53, 0),
    "f16": ("<f2", "<f2", 2.0**-24, 2.0**-11),
    "bf16": ("<u2", "<u2", 2.0**-24, 2.0**-8),
    "s32": ("<i4", "<i4", 0, 0),
    "s8": ("|i1", "<i4", 0, 0),
    "e4m3": ("|u1", "<u2", 2.0**-24, 2.0**-8),
    "e5m2": ("|u1", "<u2", 2.0**-24, 2.0**-8),
}
# The type of C and D where it is not that of A.
RESULT = {"s8": "s32", "e4m3": "bf16", "e5m2": "bf16"}
# NumPy has no names for these: the program is told what the bits stand for.
RAW = ("bf16", "e4m3", "e5m2")


def to_bf16(array):
    """Rounds to nearest even, for values that are numbers."""
    bits = numpy.asarray(array, dtype="<f4").view("<u4").astype("u8")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")


def from_bf16(array):
    return (array.astype("<u4") << 16).view("<f4")


def float8_values(name):
    """What the 256 bit patterns stand for."""
    fraction, bias = {"e4m3": (3, 7), "e5m2": (2, 15)}[name]
    values = []
    for bits in range(256):
        exponent, rest = (bits & 127) >> fraction, bits & ((1 << fraction) - 1)
        value = (rest + (exponent > 0) * 2**fraction) * 2.0 ** (max(exponent, 1) - bias - fraction)
        if name == "e5m2" and exponent == 31:
            value = numpy.nan if rest else numpy.inf
        if name == "e4m3" and bits & 127 == 127:
            value = numpy.nan
        values.append(-value if bits & 128 else value)
    return numpy.array(values)


FLOAT8 = {name: float8_values(name) for name in ("e4m3", "e5m2")}


def to_float8(name, array):
    """Rounds to nearest even, e4m3 with saturation, for values that are numbers."""
    largest = numpy.nanmax(FLOAT8[name][numpy.isfinite(FLOAT8[name])])
    array = numpy.clip(numpy.asarray(array, dtype=float), -largest, largest)
    finite = FLOAT8[name][:128][numpy.isfinite(FLOAT8[name][:128])]
    above = numpy.clip(numpy.searchsorted(finite, abs(array)), 1, len(finite) - 1)
    low, high = abs(array) - finite[above - 1], finite[above] - abs(array)
    bits = numpy.where((low < high) | ((low == high) & (above % 2 == 1)), above - 1, above)
    return (bits + 128 * numpy.signbit(array)).astype("u1")


def draw(name, rows, columns, generator, order="C"):
    """A random matrix of a type."""
    if name in ("s32", "s8"):
        dtype = TYPES[name][0]
        limits = numpy.iinfo(dtype)
        matrix = generator.integers(limits.min, limits.max, (rows, columns), dtype=dtype, endpoint=True)
    else:
        matrix = generator.standard_normal((rows, columns))
        if name in FLOAT8:
            matrix = to_float8(name, matrix)
        else:
            matrix = to_bf16(matrix) if name == "bf16" else matrix.astype(TYPES[name][0])
    return numpy.array(matrix, order=order)


def precise(name, matrix):
    """The same numbers where products and sums of them keep all digits that matter."""
    if name in ("s32", "s8"):
        return matrix.astype(object)
    if name == "bf16":
        matrix = from_bf16(matrix)
    if name in FLOAT8:
        matrix = FLOAT8[name][matrix]
    return matrix.astype(numpy.longdouble)


def wrap(matrix):
    """Modulo 2^32, as signed numbers."""
    return numpy.vectorize(lambda x: (int(x) + 2**31) % 2**32 - 2**31, otypes=["i8"])(matrix)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="carat-cli-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.generator = numpy.random.default_rng(7)
        self.environment = dict(os.environ, CARAT_DRIVER_LIBRARY=NO_DRIVER)

    def path(self, name):
        return os.path.join(self.folder, name)

    def save(self, name, matrix, version=None):
        with open(self.path(name), "wb") as file:
            numpy.lib.format.write_array(file, matrix, version=version)
        return self.path(name)

    def carat(self, *arguments, code=0, quiet=True, timeout=300, **options):
        result = subprocess.run(
            [PROGRAM, *map(str, arguments)],
            capture_output=True,
            env=self.environment,
            timeout=timeout,
            text=True,
            **options,
        )
        self.assertEqual(result.returncode, code, f"{arguments}\n{result.stdout}\n{result.stderr}")
        if code == 0 and quiet:
            self.assertEqual(result.stderr, "")
        for text in (result.stdout, result.stderr):
            self.assertNotRegex(text, r"[\x00-\x09\x0b-\x1f\x7f]", "control characters in piped output")
        return result

    def gemm(self, a, b, *arguments, c=None):
        """Multiplies arrays by way of files; what the program says, and D."""
        files = [self.save("A.npy", a), self.save("B.npy", b), "-o", self.path("D.npy")]
        files += [] if c is None else ["--c", self.save("C.npy", c)]
        text = self.carat("gemm", *files, *arguments).stdout
        return text, numpy.load(self.path("D.npy"))

    def refused(self, message, *arguments, code=1):
        """The arguments fail with the message, and leave the folder as it was."""
        before = self.contents()
        result = self.carat(*arguments, code=code)
        self.assertIn(message, result.stderr)
        self.assertTrue(result.stderr.startswith("carat "), result.stderr)
        self.assertEqual(self.contents(), before)
        return result

    def contents(self):
        contents = {}
        for name in os.listdir(self.folder):
            if os.path.isfile(self.path(name)):
                with open(self.path(name), "rb") as file:
                    contents[name] = file.read()
        return contents

    def compare(self, name, a, b, result, alpha=1, beta=0, c=None):
        """result against alpha a b + beta c, within the error bound of the type's arithmetic."""
        k = a.shape[1]
        a, b = precise(name, a), precise(name, b)
        if c is not None:
            c = precise(RESULT.get(name, name), c)
        if name in ("s32", "s8"):
            wanted = alpha * (a @ b if k else numpy.zeros((a.shape[0], b.shape[1]), dtype=object))
            wanted = wanted if c is None else wanted + beta * c
            numpy.testing.assert_array_equal(result, wrap(wanted) if wanted.size else wanted)
            return
        wanted = alpha * (a @ b)
        scale = abs(alpha) * (abs(a) @ abs(b))
        if c is not None:
            wanted = wanted + beta * c
            scale = scale + abs(beta * c)
        unit, result_unit = TYPES[name][2:]
        allowed = (1.1 * k + 8) * unit * scale + result_unit * abs(wanted) * 1.01 + 2.0**-25
        got = precise(RESULT.get(name, name), result)
        off = abs(got - wanted)
        self.assertTrue(numpy.all(off <= allowed), f"off by {numpy.max(off, initial=0)}")


class Frame(Case):
    def test_no_command(self):
        self.assertIn("Usage: carat COMMAND", self.carat(code=2).stderr)

    def test_unknown_command(self):
        result = self.carat("gem", code=2)
        self.assertEqual(result.stderr, "carat: no such command: 'gem'\nTry 'carat --help'.\n")

    def test_help_names_every_command(self):
        text = self.carat("--help").stdout
        self.assertGreaterEqual(len(COMMANDS), 2)
        for name in COMMANDS:
            self.assertRegex(text, rf"\n  {name} +\S")

    def test_every_command_has_help(self):
        for name in COMMANDS:
            with self.subTest(name):
                text = self.carat(name, "--help").stdout
                self.assertTrue(text.startswith(f"Usage: carat {name}"), text)
                self.assertIn("\nOptions:\n", text)

    def test_every_command_refuses_an_unknown_option(self):
        for name in COMMANDS:
            with self.subTest(name):
                result = self.refused("no such option: '--frobnicate'", name, "--frobnicate", code=2)
                self.assertIn(f"Try 'carat {name} --help'.", result.stderr)

    def test_man_page_names_every_command_and_option(self):
        page = source("docs/carat.1").replace("\\-", "-")
        for name in COMMANDS:
            self.assertTrue(f".Ss carat {name}\n" in page, f"no section on {name}")
            section = page.split(f".Ss carat {name}\n")[1].split(".Ss carat ")[0]
            text = self.carat(name, "--help").stdout
            for option in re.findall(r"^  (?:-., |    )--([a-z0-9-]+)", text, re.M):
                if option != "help":
                    self.assertTrue(re.search(rf"Fl -{option}(?![a-z-])", section), f"--{option} of {name}")

    def test_version(self):
        header = source("include/carat/carat.h")
        numbers = re.findall(r"#define CARAT_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header)
        self.assertEqual(self.carat("--version").stdout, f"carat {'.'.join(numbers)}\n")

    def test_usage_of_gemm(self):
        for message, *arguments in (
            ("give two .npy files, or --m",),
            ("give two .npy files, or --m", "A.npy"),
            ("one argument too many: 'C.npy'", "A.npy", "B.npy", "C.npy"),
            ("give files or --m, not both", "A.npy", "B.npy", "--m", "3"),
            ("--n, --k, --random and --seed go with --m", "A.npy", "B.npy", "--k", "3"),
            ("--c goes with files", "--m", "3", "--c", "C.npy"),
            ("--m is '-1', but should be a whole number, 0 or more", "--m", "-1"),
            ("--m is '3x', but should be a whole number", "--m=3x"),
            ("--m is '9223372036854775808', but should be", "--m", 2**63),
            ("--m needs a value", "--m"),
            ("--check takes no value", "--check=yes", "--m", "3"),
            ("--alpha is 'one', but should be a number", "--alpha", "one", "--m", "3"),
            ("--alpha is 0.5, but products of s8", "--alpha", "0.5", "--m", "3", "--type", "s8"),
            ("--beta is 2.14748e+09, but products of s32", "--beta", 2**31, "--m", "3", "--type", "s32"),
            ("--beta is 2, but there is no C", "A.npy", "B.npy", "--beta", "2"),
            ("--type is 'f8', but should be f32, f64", "--m", "3", "--type", "f8"),
            ("--order is 'row', but should be fortran|c", "--m", "3", "--order", "row"),
            ("--device is 'cuda:x', but should be auto", "--m", "3", "--device", "cuda:x"),
            ("--device is 'gpu', but should be auto", "--m", "3", "--device", "gpu"),
            ("--repeat is 0, but should be 1 or more", "--m", "3", "--repeat", "0"),
            ("should be at most 1000000", "--m", "3", "--repeat", str(2**61 + 1)),
            ("but should be f32, f64, f16, bf16, s32, s8, e4m3 or e5m2", "--m=3", "--type=fp8"),
            ("--type tf32 is f32 with --accuracy fast", "--m", 3, "--type", "tf32", "--accuracy", "strict"),
            ("--accuracy is 'default', but should be standard|strict|fast|best|close", "--m", "3", "--accuracy", "default"),
            ("--bias is 'both', but should be none|row|column", "--m", "3", "--bias", "both"),
            ("--activation is 'tanh', but should be none|relu", "--m", "3", "--activation", "tanh"),
            ("there is no bias: give it with --bias-file", "A.npy", "B.npy", "--bias", "row"),
            ("--bias-file goes with --bias", "A.npy", "B.npy", "--bias-file", "b.npy"),
            ("--bias-file goes with files", "--m", "3", "--bias", "row", "--bias-file", "b.npy"),
            ("--bias-type goes with --bias", "--m", "3", "--bias-type", "f16"),
            ("--scale-a goes with A and B of 8 bits", "--m", "3", "--scale-a", "2"),
            ("--scale-d goes with A and B of 8 bits", "--m", "3", "--type", "s8", "--scale-d", "2"),
            ("no such option: '-x'", "-x"),
        ):
            with self.subTest(arguments):
                self.refused(message, "gemm", *arguments, code=2)

    def test_full_standard_output(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run(
                [PROGRAM, "--help"], stdout=full, stderr=subprocess.PIPE, env=self.environment, text=True
            )
        self.assertEqual(result.returncode, 1)
        self.assertIn("No space left", result.stderr)


class Info(Case):
    def test_text(self):
        text = self.carat("info").stdout
        self.assertRegex(text, r"\ncpu:0  \S")
        self.assertRegex(text, rf"\n  logical cores +{os.cpu_count()}\n")
        self.assertIn("\nNo CUDA device: ", text)

    def test_json(self):
        info = json.loads(self.carat("info", "--json").stdout)
        header = source("include/carat/carat.h")
        body = header.split("typedef struct carat_device_info {")[1].split("} carat_device_info;")[0]
        members = re.findall(r"(\w+)(?:\[\d+\])?;", body)
        self.assertGreater(len(members), 25)
        self.assertEqual(len(info["devices"]), 1)
        self.assertEqual(sorted(info["devices"][0]), sorted(members))
        self.assertEqual(info["devices"][0]["kind"], "cpu")
        self.assertTrue(info["no_cuda"])

    def test_operand(self):
        self.refused("one argument too many: 'all'", "info", "all", code=2)


class Output(Case):
    def test_generated(self):
        for name in TYPES:
            with self.subTest(name):
                sizes = ("--m", 40, "--n", 30, "--k", 50)
                text = self.carat("gemm", *sizes, "--type", name, "--check", "--repeat", 3).stdout
                self.assertRegex(text, rf"\nA +40 x 50 +{name} ")
                self.assertRegex(text, rf"\nB +50 x 30 +{name} ")
                self.assertRegex(text, r"\nD +40 x 30 ")
                took = r"[0-9.]+ (s|ms|us)"
                self.assertRegex(text, rf"\ntime +{took} +median of 3 runs; best {took}, first {took}\n")
                self.assertRegex(text, r"\nrate +[0-9.]+ G(FL)?OP/s")
                self.assertRegex(text, r"\nplan +\S")
                self.assertIn("\ncheck    passed, all 1200 entries", text)

    def test_sampled_check(self):
        text = self.carat("gemm", "--m", 1500, "--n", 1400, "--k", 200, "--check", "--repeat", 1).stdout
        self.assertRegex(text, r"\ncheck    passed, \d+ x \d+ sampled entries")

    def test_uniform_is_another_input(self):
        for arguments in ((), ("--random", "uniform"), ("--seed", "2"), ()):
            output = self.path("D" + "-".join(arguments) + ".npy")
            self.carat("gemm", "--m", 20, *arguments, "--repeat", 1, "-o", output)
        contents = list(self.contents().values())
        self.assertEqual(len(contents), 3)
        self.assertEqual(len(set(contents)), 3)

    def test_terminal(self):
        """Progress is on the terminal, and gone at the end."""
        main, other = pty.openpty()
        environment = dict(self.environment, TERM="xterm")
        with subprocess.Popen(
            [PROGRAM, "gemm", "--m", "64"], stdout=subprocess.PIPE, stderr=other, env=environment, text=True
        ) as process:
            os.close(other)
            seen = b""
            while True:
                try:
                    piece = os.read(main, 4096)
                except OSError:  # how Linux ends a terminal
                    break
                if not piece:
                    break
                seen += piece
            output = process.stdout.read()
        os.close(main)
        self.assertEqual(process.returncode, 0)
        self.assertIn(b"multiplying", seen)
        self.assertTrue(seen.endswith(b"\r\x1b[K"), seen)
        self.assertNotRegex(output, r"[\x00-\x09\x0b-\x1f\x7f]")

    def test_no_cuda(self):
        result = self.refused("CUDA", "gemm", "--m", 3, "--device", "cuda")
        self.assertEqual(result.stdout, "")
        self.refused("CUDA", "gemm", "--m", 3, "--device", "cuda:1")


class Products(Case):
    def test_every_type_order_and_transpose(self):
        m, n, k = 13, 7, 9
        out_orders = itertools.cycle(("", "c", "fortran"))
        for name, order_a, order_b, trans_a, trans_b in itertools.product(TYPES, "CF", "CF", (0, 1), (0, 1)):
            out_order = next(out_orders)
            with self.subTest(name=name, orders=order_a + order_b, trans=(trans_a, trans_b), out=out_order):
                a = draw(name, *((k, m) if trans_a else (m, k)), self.generator, order_a)
                b = draw(name, *((n, k) if trans_b else (k, n)), self.generator, order_b)
                arguments = ["--trans-a"] * trans_a + ["--trans-b"] * trans_b + ["--repeat", 1, "--check"]
                arguments += ["--order", out_order] if out_order else []
                arguments += ["--type", name] if name in RAW else []
                text, result = self.gemm(a, b, *arguments)
                self.assertIn("check    passed", text)
                self.assertEqual(result.dtype.str, TYPES[name][1])
                fortran = order_a == order_b == "F" if not out_order else out_order == "fortran"
                self.assertEqual(result.flags.f_contiguous, fortran)
                self.assertEqual(result.flags.c_contiguous, not fortran)
                self.compare(name, a.T if trans_a else a, b.T if trans_b else b, result)

    def test_larger(self):
        for name in ("f32", "f16", "s8"):
            a = draw(name, 150, 301, self.generator)
            b = draw(name, 301, 123, self.generator, "F")
            self.compare(name, a, b, self.gemm(a, b, "--repeat", 1)[1])

    def test_empty(self):
        for m, n, k in itertools.product((0, 3), (0, 2), (0, 4)):
            with self.subTest(m=m, n=n, k=k):
                a = draw("f32", m, k, self.generator)
                b = draw("f32", k, n, self.generator)
                c = draw("f32", m, n, self.generator)
                result = self.gemm(a, b, "--check")[1]
                self.assertEqual(result.shape, (m, n))
                self.compare("f32", a, b, result)
                self.compare("f32", a, b, self.gemm(a, b, "--beta", 2, "--check", c=c)[1], 1, 2, c)

    def test_special_values(self):
        a = numpy.array([[numpy.inf, 1], [numpy.nan, 1], [1, 2]], dtype="f4")
        b = numpy.array([[1.0], [1.0]], dtype="f4")
        numpy.testing.assert_array_equal(self.gemm(a, b, "--check")[1], a @ b)

    def test_overflow_passes_the_check(self):
        a = numpy.full((3, 3), 300, dtype="f2")
        self.assertTrue(numpy.all(numpy.isposinf(self.gemm(a, a, "--check")[1])))


class Scalars(Case):
    def test_alpha_beta_c(self):
        m, n, k = 6, 5, 11
        for name, order_c, order, (alpha, beta) in itertools.product(
            TYPES, "CF", ("", "c", "fortran"), ((2, -3), (0, 1), (-1, 0))
        ):
            with self.subTest(name=name, order_c=order_c, order=order, scalars=(alpha, beta)):
                a, b = draw(name, m, k, self.generator), draw(name, k, n, self.generator)
                c = draw(RESULT.get(name, name), m, n, self.generator, order_c)
                arguments = ["--alpha", alpha, "--beta", beta, "--check", "--repeat", 1]
                arguments += ["--order", order] if order else []
                arguments += ["--type", name] if name in RAW else []
                result = self.gemm(a, b, *arguments, c=c)[1]
                fortran = order_c == "F" if not order else order == "fortran"
                self.assertEqual(result.flags.f_contiguous, fortran)
                self.compare(name, a, b, result, alpha, beta, c)

    def test_beta_is_1_with_c(self):
        a, b, c = (draw("f64", 3, 3, self.generator) for _ in range(3))
        self.compare("f64", a, b, self.gemm(a, b, c=c)[1], 1, 1, c)

    def test_c_holding_nan_is_not_read_with_beta_0(self):
        a, b = draw("f32", 3, 3, self.generator), draw("f32", 3, 3, self.generator)
        c = numpy.full((3, 3), numpy.nan, dtype="f4")
        self.compare("f32", a, b, self.gemm(a, b, "--beta", 0, c=c)[1])

    def test_fractions(self):
        a, b = draw("f64", 4, 8, self.generator), draw("f64", 8, 4, self.generator)
        self.compare("f64", a, b, self.gemm(a, b, "--alpha=-0.125")[1], -0.125)

    def test_output_over_input(self):
        a = draw("f32", 5, 5, self.generator)
        path = self.save("A.npy", a)
        os.chmod(path, 0o600)
        self.carat("gemm", path, path, "--c", path, "-o", path)
        self.compare("f32", a, a, numpy.load(path), 1, 1, a)
        self.assertEqual(os.listdir(self.folder), ["A.npy"])


class Epilogues(Case):
    """What there is around the product: result types, bias, activation, scales; against NumPy."""

    ACTIVATIONS = {
        "none": lambda x: x,
        "relu": lambda x: numpy.maximum(x, 0),
        "gelu-tanh": lambda x: x / 2 * (1 + numpy.tanh(numpy.sqrt(2 / numpy.pi) * (x + 0.044715 * x**3))),
        "gelu-erf": lambda x: x / 2 * (1 + numpy.vectorize(math.erf)(x / math.sqrt(2))),
        "gelu": lambda x: x / 2 * (1 + numpy.vectorize(math.erf)(x / math.sqrt(2))),
        "silu": lambda x: x / (1 + numpy.exp(-x)),
    }
    # types of A, B, D and the bias
    CASES = (
        ("f32", "f32", "f32", "f32"),
        ("f64", "f64", "f64", "f64"),
        ("f16", "f16", "f32", "f16"),
        ("f16", "f16", "f16", "f32"),
        ("bf16", "bf16", "f32", "bf16"),
        ("e4m3", "e5m2", "e4m3", "f32"),
        ("e5m2", "e4m3", "f32", "bf16"),
        ("e4m3", "e4m3", "f16", "f16"),
        ("s8", "s8", "f32", "f32"),
        ("s8", "s8", "s8", "bf16"),
    )
    DTYPES = {"f32": "<f4", "f64": "<f8", "f16": "<f2", "bf16": "<u2", "e4m3": "|u1", "s8": "|i1"}

    def setUp(self):
        super().setUp()
        self.device = ()

    def wanted(self, a, b, c, bias, alpha, scales, activation):
        x = alpha * scales[0] * scales[1] * (a @ b) + c + bias
        return scales[2] * self.ACTIVATIONS[activation](x.astype(float))

    def multiply(self, types, where, activation):
        type_a, type_b, type_d, type_bias = types
        m, n, k = 19, 23, 37
        a, b = draw(type_a, m, k, self.generator), draw(type_b, k, n, self.generator)
        c = draw(type_d, m, n, self.generator)
        bias = draw(type_bias, m if where == "row" else n, 1, self.generator)[:, 0]
        arguments = ["--alpha", 0.25, "--bias", where, "--activation", activation, "--check", "--repeat", 1]
        arguments += ["--bias-file", self.save("bias.npy", bias), "--bias-type", type_bias, "--type", type_a]
        arguments += ["--type-b", type_b] * (type_b != type_a) + ["--type-d", type_d, *self.device]
        scales = (1, 1, 1)
        if type_a in ("e4m3", "e5m2", "s8"):
            scales = (2.0**-10, 2, 0.5) if type_a == "s8" else (0.75, 1.5, 2)
            for letter, scale in zip("abd", scales):
                arguments += [f"--scale-{letter}", scale]
        text, result = self.gemm(a, b, *arguments, c=c)
        self.assertIn("check    passed, all", text)
        self.assertEqual(result.dtype.str, self.DTYPES[type_d])
        bias = precise(type_bias, bias).astype(float)
        bias = bias[:, None] if where == "row" else bias
        a, b, c = (precise(*pair).astype(float) for pair in ((type_a, a), (type_b, b), (type_d, c)))
        wanted = self.wanted(a, b, c, bias, 0.25, scales, activation)
        got = precise(type_d, result).astype(float)
        relative, absolute = {
            "f32": (2e-5, 2e-5), "f64": (1e-13, 1e-13), "f16": (2.0**-10, 2e-5), "bf16": (2.0**-7, 2e-5),
            "e4m3": (2.0**-4, 2.0**-9), "s8": (1e-5, 0.5001),
        }[type_d]
        if type_d in ("e4m3", "s8"):
            wanted = numpy.clip(wanted, *((-448, 448) if type_d == "e4m3" else (-128, 127)))
        numpy.testing.assert_allclose(got, wanted, rtol=relative, atol=absolute)

    def test_bias_activation_scales_and_result_types(self):
        turns = itertools.cycle(itertools.product(("row", "column"), self.ACTIVATIONS))
        for types in self.CASES:
            for _ in range(4):
                where, activation = next(turns)
                with self.subTest(types=types, bias=where, activation=activation):
                    self.multiply(types, where, activation)

    def test_s32_with_bias_and_relu(self):
        a, b = draw("s8", 7, 30, self.generator), draw("s8", 30, 5, self.generator)
        bias = draw("s32", 5, 1, self.generator)
        arguments = ("--bias", "column", "--bias-file", self.save("bias.npy", bias), "--activation", "relu")
        text, result = self.gemm(a, b, *arguments, "--check", *self.device)
        self.assertIn("exact result modulo 2^32", text)
        wanted = wrap(precise("s8", a) @ precise("s8", b) + bias[:, 0].astype(object))
        numpy.testing.assert_array_equal(result, numpy.maximum(wanted, 0))
        message = self.refused("", "gemm", "--m", 3, "--type", "s8", "--activation", "silu", *self.device)
        self.assertIn("s32", message.stderr)

    def test_generated(self):
        for arguments in (
            ("--type", "tf32"),
            ("--accuracy", "standard", "--trans-a", "--beta", "0.5"),
            ("--accuracy", "strict", "--trans-b"),
            ("--accuracy", "best", "--trans-a", "--activation", "silu"),
            ("--accuracy", "best", "--type", "f64", "--beta", "0.5"),
            ("--accuracy", "close", "--trans-b", "--beta", "0.5"),
            ("--accuracy", "best", "--type", "e5m2", "--type-d", "e4m3", "--scale-d", "0.125"),
            ("--type", "bf16", "--type-d", "f32", "--activation", "silu"),
            ("--type", "e4m3", "--accuracy", "fast", "--type-d", "e4m3", "--scale-d", "0.125"),
            ("--type", "e5m2", "--type-b", "e4m3", "--bias", "column", "--bias-type", "bf16"),
            ("--type", "s8", "--type-d", "s8", "--scale-a", "0.001", "--bias", "row", "--activation", "relu"),
            ("--type", "f64", "--bias", "row", "--activation", "gelu-tanh", "--beta", "2"),
        ):
            with self.subTest(arguments):
                arguments += ("--check", "--repeat", 1, *self.device)
                text = self.carat("gemm", "--m", 50, *arguments).stdout
                self.assertIn("check    passed, all 2500 entries", text)

    def test_the_formula_is_printed(self):
        arguments = ("--type", "e4m3", "--scale-a", 0.5, "--scale-d", 3, "--beta", 2, "--bias", "row")
        text = self.carat("gemm", "--m", 9, "--trans-a", *arguments, "--activation", "gelu").stdout
        self.assertIn("product  D = 3 gelu_erf(0.5 A^T B + 2 C + bias), sums of 9 products\n", text)
        text = self.carat("gemm", "--m", 9, "--type", "tf32").stdout
        self.assertIn("product  D = A B, sums of 9 products, fast\n", text)
        text = self.carat("gemm", "--m", 9, "--accuracy", "strict").stdout
        self.assertIn("product  D = A B, sums of 9 products, strict\n", text)
        text = self.carat("gemm", "--m", 9, "--accuracy", "best", "--check").stdout
        self.assertIn("sums of 9 products, best\n", text)
        text = self.carat("gemm", "--m", 9, "--accuracy", "standard").stdout
        self.assertIn("product  D = A B, sums of 9 products\n", text)

    def test_types_that_do_not_go_together(self):
        for arguments in (
            ("--type", "f32", "--type-d", "f16"),
            ("--type", "e4m3", "--type-d", "s8"),
            ("--type", "f16", "--type-b", "bf16"),
            ("--type", "e4m3", "--type-d", "e5m2"),
            ("--bias", "row", "--bias-type", "f64"),
        ):
            with self.subTest(arguments):
                result = self.refused("carat gemm: ", "gemm", "--m", 3, *arguments)
                self.assertNotIn("time", result.stdout)

    def test_files_are_what_they_are_said_to_be(self):
        a = self.save("A.npy", draw("e4m3", 3, 3, self.generator))
        half = self.save("H.npy", draw("f16", 3, 3, self.generator))
        bias = self.save("bias.npy", numpy.ones(4, dtype="f4"))
        self.refused("with --type e4m3 or e5m2", "gemm", a, a)
        self.refused(f"{a} holds e4m3, but {half} holds f16", "gemm", a, half, "--type", "e4m3")
        self.refused(f"{half} holds f16, but --type-b is f32", "gemm", half, half, "--type-b", "f32")
        with_bias = ("gemm", half, half, "--bias-file", bias, "--bias")
        self.refused(f"{bias} has 4 numbers, but D has 3 rows", *with_bias, "row")
        self.refused(f"{bias} has 4 numbers, but D has 3 columns", *with_bias, "column")
        self.refused(f"{bias} holds f32, but --bias-type is f16", *with_bias, "row", "--bias-type", "f16")
        square = self.save("square.npy", numpy.ones((2, 2), dtype="f4"))
        with_square = ("--bias", "row", "--bias-file", square)
        self.refused("should be one row or one column", "gemm", half, half, *with_square)


class Formats(Case):
    def multiply(self, a, path_a):
        identity = self.save("I.npy", numpy.eye(a.shape[1], dtype=a.dtype))
        self.carat("gemm", path_a, identity, "-o", self.path("D.npy"), "--repeat", 1)
        numpy.testing.assert_array_equal(numpy.load(self.path("D.npy")), a)

    def test_versions(self):
        for version in ((1, 0), (2, 0), (3, 0)):
            with self.subTest(version):
                a = draw("f64", 4, 6, self.generator)
                self.multiply(a, self.save("A.npy", a, version))

    def test_headers_of_other_writers(self):
        a = draw("f32", 2, 3, self.generator)
        for header in (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L)}",
            '{"shape":(2,3),"fortran_order":False,"descr":"<f4"}',
            "  { 'shape' : ( 2 , 3 , ) , 'descr' : '=f4' , 'fortran_order' : False , }   \n",
        ):
            with self.subTest(header):
                magic = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little")
                with open(self.path("A.npy"), "wb") as file:
                    file.write(magic + header.encode() + a.tobytes())
                self.multiply(a, self.path("A.npy"))

    def test_header_written(self):
        """What is written is laid out as NumPy itself does it."""
        a = draw("f32", 3, 3, self.generator)
        self.carat("gemm", self.save("A.npy", a), self.path("A.npy"), "-o", self.path("D.npy"))
        with open(self.path("D.npy"), "rb") as file:
            written = file.read()
        self.assertEqual((len(written) - 9 * 4) % 64, 0)
        self.assertEqual(written[:8], b"\x93NUMPY\x01\x00")
        buffer = io.BytesIO()
        numpy.save(buffer, numpy.load(self.path("D.npy")))
        self.assertEqual(written, buffer.getvalue())

    def test_mode_and_link(self):
        a = draw("f32", 3, 3, self.generator)
        os.symlink("target.npy", self.path("link.npy"))
        self.save("target.npy", a)
        previous = os.umask(0o027)
        self.addCleanup(os.umask, previous)
        self.carat("gemm", self.save("A.npy", a), self.path("A.npy"), "-o", self.path("link.npy"))
        self.assertTrue(os.path.islink(self.path("link.npy")))
        self.assertEqual(os.stat(self.path("target.npy")).st_mode & 0o777, 0o640)
        self.compare("f32", a, a, numpy.load(self.path("target.npy")))

    def test_bare_name(self):
        a = draw("f32", 3, 3, self.generator)
        self.save("A.npy", a)
        self.carat("gemm", "A.npy", "A.npy", "-o", "D.npy", cwd=self.folder)
        self.compare("f32", a, a, numpy.load(self.path("D.npy")))


class Refusals(Case):
    def setUp(self):
        super().setUp()
        self.a = draw("f32", 3, 4, self.generator)
        self.good = self.save("A.npy", self.a)
        self.save("B.npy", draw("f32", 4, 5, self.generator))
        # What was there before must be there after.
        self.output = self.save("D.npy", self.a)

    def gemm_refused(self, message, *arguments, code=1):
        for output in (self.output, self.path("new.npy")):
            result = self.refused(message, "gemm", *arguments, "-o", output, code=code)
        return result

    def write(self, content, name="X.npy"):
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def raw(self, header, data=b"", version=b"\x01\x00", length=None):
        header = header.encode() if isinstance(header, str) else header
        size = 2 if version[0] == 1 else 4
        length = len(header) if length is None else length
        return self.write(b"\x93NUMPY" + version + length.to_bytes(size, "little") + header + data)

    def test_files(self):
        header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n"
        data = self.a.tobytes()
        cut = "it is truncated"
        for message, path in (
            ("No such file", self.path("nothing.npy")),
            ("it is no regular file", self.folder),
            ("it is no .npy file", self.write(b"", "empty.npy")),
            ("it is no .npy file", self.write(b"\x93NUMP", "short.npy")),
            ("it is no .npy file", self.write(b"PK\x03\x04" + bytes(100), "zip.npy")),
            ("its format is version 4.0", self.raw(header, data, b"\x04\x00")),
        ):
            with self.subTest(message=message, path=path):
                result = self.gemm_refused(message, path, self.path("B.npy"))
                self.assertIn(path, result.stderr)
        for message, *parts in (
            (cut, header, data, b"\x01\x00", 60000),
            (cut, header, data, b"\x02\x00", 2**32 - 1),
            (cut + ": 3 x 4 elements of 4 bytes are 48 bytes, but 47 follow", header, data[:-1]),
            (cut + ": 3 x 4 elements of 4 bytes are 48 bytes, but 0 follow", header),
            ("trailing bytes: 3 x 4 elements of 4 bytes are 48 bytes, but 49 follow", header, data + b"x"),
            ("it is truncated: 1000000 x 1000000 elements", header.replace("3, 4", "1000000, 1000000"), data),
            ("more than can be counted", header.replace("3, 4", f"{2**40}, {2**40}"), data),
            ("more than can be counted", header.replace("3, 4", f"{2**31}, {2**30}"), data),
            ("more than can be counted", header.replace("3, 4", f"{2**63 - 1}, 1"), data),
            ("'shape', or one with a number beyond 2^63", header.replace("3, 4", f"{2**63}, 1"), data),
            ("'shape', or one with a number beyond 2^63", header.replace("3, 4", f"0, {2**64}"), data),
            ("'shape', or", header.replace("3, 4", "-3, -4"), data),
            ("'shape', or", header.replace("3, 4", "3, 4.0"), data),
            ("'shape', or", header.replace("(3, 4)", "[3, 4]"), data),
            ("'shape', or", header.replace("(3, 4)", "(3 4)"), data),
            ("'shape', or", header.replace("(3, 4)", "(,)"), data),
            ("its shape () has 0 dimensions", header.replace("3, 4", ""), data),
            ("its shape (12) has 1 dimension;", header.replace("3, 4", "12,"), data),
            ("its shape (3, 2, 2) has 3 dimensions", header.replace("3, 4", "3, 2, 2"), data),
            ("'shape', or", header.replace("3, 4", "1, " * 33), data),
            ("its elements are big-endian (>f4)", header.replace("<f4", ">f4"), data),
            ("its elements are <u2; with --type bf16", header.replace("<f4", "<u2"), data),
            ("its elements are <i8; Carat multiplies", header.replace("<f4", "<i8"), data),
            ("its elements are <c8; Carat", header.replace("<f4", "<c8"), data),
            ("its elements are |b1; Carat", header.replace("<f4", "|b1"), data),
            ("its elements are ; Carat", header.replace("<f4", ""), data),
            ("its elements are |O; Carat", header.replace("<f4", "|O"), data),
            ("its elements are records", header.replace("'<f4'", "[('x', '<f4')]"), data),
            ("no dictionary", header.replace("'<f4'", "'<f4"), data),
            ("'descr'", header.replace("<f4", "<f4" * 50), data),
            ("'fortran_order'", header.replace("False", "0"), data),
            ("its header lacks one of", header.replace("'fortran_order': False, ", ""), data),
            ("its header lacks one of", "{}", data),
            ("a key twice", header.replace("{", "{'descr': '<f4', "), data),
            ("one that is not NumPy's", header.replace("{", "{'extra': 1, "), data),
            ("no dictionary", header.replace("{", "["), data),
            ("no dictionary", header.replace("}", ""), data),
            ("no dictionary", header.replace("'descr':", "'descr'"), data),
            ("no dictionary", b"\x00" * 20, data),
            ("no dictionary", b"\xff" * 20, data),
            ("no dictionary", "", data),
            ("goes on after the dictionary", header.strip() + " x", data),
            ("goes on after the dictionary", header.strip() + "\0", data),
            ("its header has 2000000 bytes, more than", header.ljust(2000000), data, b"\x02\x00"),
        ):
            with self.subTest(message=message, header=parts[0][:80]):
                path = self.raw(*parts)
                result = self.gemm_refused(message, path, self.path("B.npy"))
                self.assertTrue(result.stderr.startswith(f"carat gemm: {path}: "), result.stderr)
                self.gemm_refused(message, self.good, self.path("B.npy"), "--c", path)

    def test_pipe(self):
        os.mkfifo(self.path("pipe.npy"))
        self.gemm_refused("it is no regular file", self.path("pipe.npy"), self.path("B.npy"))

    def test_shapes_and_types(self):
        a, b = self.good, self.path("B.npy")
        self.gemm_refused(f"{a} is 3 x 4 and {a} is 3 x 4: op(A) has 4 columns, but op(B) has 3 rows", a, a)
        self.gemm_refused("op(A) has 3 columns, but op(B) has 4 rows", a, b, "--trans-a")
        self.gemm_refused("op(A) has 4 columns, but op(B) has 5 rows", a, b, "--trans-b")
        self.gemm_refused(f"{a} is 3 x 4 of f32, but the product is 3 x 5 of f32", a, b, "--c", a)
        double = self.save("double.npy", draw("f64", 4, 5, self.generator))
        self.gemm_refused(f"{a} holds f32, but {double} holds f64", a, double)
        self.gemm_refused(f"{a} holds f32, but --type is f64", a, b, "--type", "f64")
        self.gemm_refused(f"{a} holds f32, but --type is bf16", a, b, "--type", "bf16")
        c = self.save("C.npy", draw("f64", 3, 5, self.generator))
        self.gemm_refused("of f64, but the product is 3 x 5 of f32", a, b, "--c", c)
        bytes_a = self.save("bytes.npy", draw("s8", 3, 3, self.generator))
        self.gemm_refused("3 x 3 of s8, but the product is 3 x 3 of s32", bytes_a, bytes_a, "--c", bytes_a)
        self.gemm_refused("--alpha is 1.5, but products of s8", bytes_a, bytes_a, "--alpha", "1.5", code=2)

    def test_huge_products_of_nothing(self):
        """Files without elements can promise any shape."""
        tall = numpy.zeros((2**40, 0), dtype="f4")
        wide = numpy.zeros((0, 2**40), dtype="f4")
        self.gemm_refused("is larger than can be counted", self.save("T.npy", tall), self.save("W.npy", wide))
        tall, wide = tall[: 2**24], wide[:, : 2**24]
        self.gemm_refused("this machine has", self.save("T.npy", tall), self.save("W.npy", wide))

    def test_huge_generated(self):
        self.refused("is larger than can be counted", "gemm", "--m", 2**62, "--n", 1, "--k", 3)
        self.refused("this machine has", "gemm", "--m", 2**22)

    def test_outputs(self):
        a, b, pipe = self.good, self.path("B.npy"), self.path("pipe")
        os.mkfifo(pipe)
        for message, output in (
            ("cannot write in its directory", self.path("nowhere/D.npy")),
            ("it is there, and no regular file", self.folder),
            ("it is there, and no regular file", pipe),
            ("Not a directory", self.path("A.npy/D.npy")),
        ):
            with self.subTest(message):
                result = self.refused(message, "gemm", a, b, "-o", output)
                self.assertNotIn("time", result.stdout)
        self.assertTrue(stat.S_ISFIFO(os.stat(pipe).st_mode))

    def test_disk_full(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

        for output in (self.output, self.path("new.npy")):
            before = self.contents()
            result = self.carat("gemm", self.good, self.path("B.npy"), "-o", output, code=1, preexec_fn=limit)
            self.assertIn("File too large", result.stderr)
            self.assertEqual(self.contents(), before)

    def test_no_such_device(self):
        self.gemm_refused("CUDA", self.good, self.path("B.npy"), "--device", "cuda")
        self.gemm_refused("CUDA", self.good, self.path("B.npy"), "--device", "cuda:7")


class Mutations(Case):
    """What the program takes, NumPy takes for the same; test_npy.c tries many more from inside."""

    def test_mutated_headers(self):
        matrix = draw("f32", 2, 2, self.generator)
        buffer = io.BytesIO()
        numpy.save(buffer, matrix)
        original = buffer.getvalue()
        identity = numpy.eye(2, dtype="f4")
        arguments = [self.path("X.npy"), self.save("I.npy", identity), "-o", self.path("D.npy")]
        letters = bytearray(b" '(),0123<>=fi:FTL\0\xff")
        taken = 0
        for _ in range(60):
            mutant = bytearray(original)
            for _ in range(self.generator.integers(1, 3)):
                mutant[self.generator.integers(6, 80)] = self.generator.choice(letters)
            with open(self.path("X.npy"), "wb") as file:
                file.write(mutant)
            result = subprocess.run(
                [PROGRAM, "gemm", *arguments], capture_output=True, env=self.environment, text=True
            )
            self.assertIn(result.returncode, (0, 1), result.stderr)
            if result.returncode == 0:
                taken += 1
                wanted = numpy.load(self.path("X.npy"))
                self.assertEqual(wanted.dtype.str, "<f4")
                numpy.testing.assert_array_equal(numpy.load(self.path("D.npy")), wanted @ identity)
                os.remove(self.path("D.npy"))
            else:
                self.assertFalse(os.path.exists(self.path("D.npy")))
        self.assertGreater(taken, 0)
        self.assertLess(taken, 60)


class WrongBlas(Case):
    def test_check_notices(self):
        self.environment["LD_PRELOAD"] = os.environ["CARAT_WRONG_BLAS"]
        for arguments in (("--m", 50), ("--m", 900, "--k", 500)):
            arguments += ("--check", "--repeat", 1, "-o", self.path("D.npy"))
            result = self.carat("gemm", *arguments, code=1)
            self.assertIn("\ncheck    FAILED, ", result.stdout)
            self.assertIn("1 wrong, worst D(0, 0) = ", result.stdout)
            self.assertIn("the result is wrong", result.stderr)
            self.assertEqual(os.listdir(self.folder), [])


class Standin(Case):
    """The CUDA device, with the driver's stand-in running the kernels on the CPU."""

    def setUp(self):
        super().setUp()
        self.environment["CARAT_DRIVER_LIBRARY"] = os.environ["CARAT_STANDIN"]

    def test_info(self):
        devices = json.loads(self.carat("info", "--json").stdout)["devices"]
        self.assertEqual(devices[0]["kind"], "cpu")
        self.assertGreater(len(devices), 1)
        for device in devices[1:]:
            self.assertEqual(device["kind"], "cuda")
            self.assertEqual(device["warp_size"], 32)
            self.assertGreater(device["multiprocessors"], 0)
        text = self.carat("info").stdout
        self.assertRegex(text, r"\ncuda:0  \S")
        self.assertRegex(text, r"\n  compute capability +\d+\.\d\n")
        self.assertRegex(text, r"\n  largest grid +2147483647 x 65535 x 65535\n")
        self.assertNotIn("No CUDA device", text)
        # What the architecture has, and how many kernels of the build run on it.
        capability = devices[1]["compute_capability_major"] * 10 + devices[1]["compute_capability_minor"]
        self.assertEqual("mma.sync" in devices[1]["instructions"], capability >= 80)
        self.assertEqual("wgmma" in devices[1]["instructions"], capability == 90)
        self.assertIn(f"\n  {'instructions':<31}{', '.join(devices[1]['instructions'])}\n", text)
        self.assertLessEqual(set(TYPES) - set(FLOAT8), set(devices[1]["kernels"]))
        for name, families in devices[1]["kernels"].items():
            self.assertTrue(families)
            listed = ", ".join(f"{count} {family}" for family, count in families.items())
            self.assertIn(f"\n  {'kernels for ' + name:<31}{listed}\n", text)
        self.assertIn(f"\n  {'times of kernels':<31}{devices[1]['times']}\n", text)

    def test_info_names_the_device_whose_times_count(self):
        self.environment.update(STANDIN_CAPABILITY="90", STANDIN_MULTIPROCESSORS="70", CARAT_TUNING="")
        times = r"\n  times of kernels +%s\n"
        self.assertRegex(self.carat("info").stdout, times % "none: a model alone chooses")
        del self.environment["CARAT_TUNING"]
        self.assertRegex(self.carat("info").stdout, times % "those of the NVIDIA H100 80GB HBM3")
        table = self.path("table.txt")
        for over, words in (("", "measured on this device"),
                            ("over NVIDIA H200\n", "measured on this device, and those of the NVIDIA H200")):
            with open(table, "w") as file:
                file.write("carat-tuning 1\ndevice Stand-in 0\n%sclock 1000\nproduct simt_f32_32x32 NN 64 64 64 1\n" % over)
            self.environment["CARAT_TUNING"] = table
            self.assertRegex(self.carat("info").stdout, times % words)

    def test_products(self):
        m, n, k = 33, 21, 40
        for name, (order_a, order_b, trans_a) in itertools.product(TYPES, ("CF0", "FC1", "CC1")):
            trans_a = int(trans_a)
            with self.subTest(name=name, orders=order_a + order_b, trans_a=trans_a):
                a = draw(name, *((k, m) if trans_a else (m, k)), self.generator, order_a)
                b = draw(name, k, n, self.generator, order_b)
                c = draw(RESULT.get(name, name), m, n, self.generator, order_a)
                arguments = ["--device", "cuda", "--alpha", 2, "--beta", 3, "--order", "c"]
                arguments += ["--check", "--repeat", 1] + ["--trans-a"] * trans_a
                arguments += ["--type", name] if name in RAW else []
                text, result = self.gemm(a, b, *arguments, c=c)
                self.assertRegex(text, r"^device   cuda:0, ")
                self.assertRegex(text, r"\n {9}[0-9.]+ (s|ms|us) +with copies in and out, ")
                self.compare(name, a.T if trans_a else a, b, result, 2, 3, c)

    def test_empty(self):
        self.carat("gemm", "--m", 3, "--k", 0, "--device", "cuda", "--check", "-o", self.path("D.npy"))
        numpy.testing.assert_array_equal(numpy.load(self.path("D.npy")), numpy.zeros((3, 3)))
        self.carat("gemm", "--m", 0, "--n", 4, "--k", 5, "--device", "cuda", "--check")

    def test_auto_takes_the_gpu(self):
        self.assertRegex(self.carat("gemm", "--m", 5).stdout, r"^device   cuda:0, ")

    def test_several_devices(self):
        self.environment["STANDIN_DEVICES"] = "3"
        self.assertEqual(len(json.loads(self.carat("info", "--json").stdout)["devices"]), 4)
        text = self.carat("gemm", "--m", 5, "--device", "cuda:2", "--check").stdout
        self.assertRegex(text, r"^device   cuda:2, ")
        self.refused("index is 3", "gemm", "--m", 3, "--device", "cuda:3")

    def test_no_devices(self):
        self.environment["STANDIN_DEVICES"] = "0"
        self.assertIn("\nNo CUDA device: ", self.carat("info").stdout)
        self.assertRegex(self.carat("gemm", "--m", 5).stdout, r"^device   cpu, ")
        self.refused("CUDA_ERROR_NO_DEVICE", "gemm", "--m", 3, "--device", "cuda")

    def test_old_driver(self):
        self.environment["STANDIN_VERSION"] = "10000"
        text = self.carat("info").stdout
        self.assertIn("is for CUDA 10.0", text)
        self.assertIn("Install a newer NVIDIA driver.", text)
        self.refused("is for CUDA 10.0", "gemm", "--m", 3, "-o", self.path("D.npy"))

    def test_little_device_memory(self):
        self.environment["STANDIN_MEMORY"] = "100000"
        result = self.refused("are free", "gemm", "--m", 100, "--device", "cuda", "-o", self.path("D.npy"))
        self.assertNotIn("time", result.stdout)


class StandinEpilogues(Epilogues):
    """The same by the kernels of the CUDA device: by rows that finish D, and by the reduce."""

    def setUp(self):
        super().setUp()
        self.environment["CARAT_DRIVER_LIBRARY"] = os.environ["CARAT_STANDIN"]
        self.device = ("--device", "cuda")

    def test_older_devices(self):
        """Where there is less of an instruction, other rows and the reduce do it."""
        for capability in ("75", "80"):
            self.environment["STANDIN_CAPABILITY"] = capability
            for types in self.CASES:
                with self.subTest(capability=capability, types=types):
                    self.multiply(types, "row", "silu")


# A line of bench has at least these.
RESULT_KEYS = {
    "dtype", "layout", "m", "n", "k", "batch", "contender", "accuracy", "time_us", "graph_time_us", "tflops",
    "share_of_ceiling", "plan", "sm_clock_mhz", "power_w", "host_us", "launches",
}
SHAPES = "# three\nf32 NN 64 32 48\ns8 TN 33 20 16 3\nf64 NT 20 20 20\n"


class Measuring(Case):
    """The measuring commands on the CPU, and where there is no GPU to measure."""

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def bench(self, *arguments):
        shapes = self.write("shapes.txt", SHAPES)
        arguments += ("--against", "openblas", "--time-limit", 0.01)
        return self.carat("bench", "--shapes", shapes, *arguments, quiet=False)

    def check_bench_lines(self, lines):
        head, *lines = map(json.loads, lines.splitlines())
        results = [line for line in lines if line["kind"] == "result"]
        self.assertIn("carat", head["contenders"])
        self.assertEqual(len(results), 6)
        for result in results:
            self.assertLessEqual(RESULT_KEYS, set(result))
            self.assertGreater(result["time_us"], 0)
            self.assertLess(result["error"], 1e-6)
        cases = [(result["dtype"], result["m"], result["batch"]) for result in results[::2]]
        self.assertEqual(cases, [("f32", 64, 1), ("s8", 33, 3), ("f64", 20, 1)])

    def test_bench(self):
        table = self.bench("--device", "cpu", "--json", self.path("out.json")).stdout
        self.assertIn("f32 NN 64 32 48", table)
        with open(self.path("out.json"), encoding="utf-8") as file:
            self.check_bench_lines(file.read())

    def test_bench_json_to_standard_output(self):
        result = self.bench("--device", "cpu", "--json", "-")
        self.check_bench_lines(result.stdout)
        self.assertIn("f32 NN 64 32 48", result.stderr)

    def test_bench_refuses_shape_files(self):
        for text in ("f32 NN 3 3\n", "f32 XN 3 3 3\n", "f32 NN 3 -3 3\n", "f32 NN 3 3 3 1 1\n"):
            with self.subTest(text):
                shapes = self.write("shapes.txt", text)
                self.refused("shapes.txt", "bench", "--device", "cpu", "--shapes", shapes)
        # A type that others have and Carat does not is no mistake in the file, but said.
        shapes = self.write("shapes.txt", "c64 NN 3 3 3\n")
        text = self.carat("bench", "--device", "cpu", "--shapes", shapes).stdout
        self.assertIn("left out 1 times: all: Carat has no type c64", text)
        self.refused("nothing.txt", "bench", "--device", "cpu", "--shapes", self.path("nothing.txt"))

    def test_verify(self):
        sizes = ("--size", 20, "--deepest", 256)
        self.carat("verify", "--device", "cpu", *sizes, "--json", self.path("out.json"))
        with open(self.path("out.json"), encoding="utf-8") as file:
            document = json.load(file)
        self.assertEqual(list(document["contenders"]), ["carat"])
        results = document["results"]
        mixed = {"tf32", "f32-strict", "e4m3:e5m2", "e5m2:e4m3", "e4m3-strict", "e4m3-fast", "e5m2:e4m3-fast"}
        best = {"f32-close", "f32-best", "f64-best", "f16-best", "bf16-best", "e4m3:e5m2-best"}
        self.assertEqual({result["dtype"] for result in results}, set(TYPES) | mixed | best)
        self.assertEqual({result["outcome"] for result in results}, {"right"})
        self.assertIn("gelu, tanh form", {result["contender"] for result in results})
        # What the type's own result is judged by: the error of exact products summed in f32.
        times = [
            result["times_f32_sums"] for result in results
            if result["dtype"] == "e4m3" and result["dtype_d"] == "bf16" and result["contender"] == "carat"
        ]
        self.assertEqual(len(times), 6)
        self.assertTrue(all(0.5 < time <= 2 for time in times if time), times)

    def test_verify_of_one_type(self):
        counts = {"tf32": 1, "f32": 4, "f32-strict": 1, "f32-close": 1, "f32-best": 1, "e4m3": 5, "e4m3-fast": 1, "e5m2:e4m3": 2}
        for word, count in counts.items():
            output = self.path(f"{word}.json")
            sizes = ("--size", 12, "--deepest", 0)
            self.carat("verify", "--device", "cpu", "--type", word, *sizes, "--json", output)
            with open(output, encoding="utf-8") as file:
                dtypes = {result["dtype"] for result in json.load(file)["results"]}
            self.assertEqual(len(dtypes), count)
            self.assertTrue(all(dtype.startswith(word) for dtype in dtypes))
        self.refused("'e4' is no element type", "verify", "--type", "e4", code=2)

    def test_no_gpu(self):
        for command in ("ladder", "ceiling"):
            text = self.carat(command).stdout
            self.assertIn("no CUDA device", text)

    def test_explain(self):
        self.assertIn("sgemm", self.carat("explain", 100, 100, 100).stdout)


class StandinMeasuring(Measuring):
    """The same with the stand-in driver. It cannot run the loops that measure ceilings: they are given."""

    def setUp(self):
        super().setUp()
        self.environment["CARAT_DRIVER_LIBRARY"] = os.environ["CARAT_STANDIN"]
        names = ("ffma", "dmma", "dfma", "imad", "dp4a")
        ceilings = [{"name": f"ceiling_{name}", "unit": "TFLOP/s", "value": 1} for name in names]
        ceilings += [{"name": f"ceiling_{name}", "unit": "GB/s", "value": 100} for name in ("copy", "read")]
        self.ceilings = self.write("ceilings.json", json.dumps({"ceilings": ceilings}))

    def test_bench(self):
        output = self.path("out.json")
        self.bench("--device", "cuda", "--ceilings", self.ceilings, "--repeat", 1, "--json", output)
        with open(self.path("out.json"), encoding="utf-8") as file:
            self.check_bench_lines(file.read())

    def test_host_time(self):
        """The call returns long before the product, which runs beside it here too, is done."""
        shapes = self.write("one.txt", "f32 NN 1 1 1\n")
        output = self.path("out.json")
        options = ("--repeat", 3, "--against", "openblas", "--ceilings", self.ceilings, "--json", output)
        table = self.carat("bench", "--shapes", shapes, "--device", "cuda", *options, quiet=False).stdout
        with open(output, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        carat, blas = (line for line in lines if line["kind"] == "result")
        self.assertEqual(carat["launches"], 1)
        self.assertIsNone(blas["launches"])
        self.assertIsNone(blas["host_us"])  # a BLAS of the CPU is the host
        if carat["host_us"] is None:  # only where this machine is too slow for it
            self.assertGreater(carat["time_us"], 200)
            return
        self.assertLess(carat["host_us"], carat["first_call_us"])
        self.assertIn("host time of a call", table)

    def test_verify(self):
        # Stand-in devices have no cuBLAS.
        arguments = ("--device", "cuda", "--against", "none", "--size", 32, "--deepest", 0)
        rows = [line.split() for line in source("kernels/catalog.txt").splitlines()]
        products = ("OPERATION=GEMM", "OPERATION=LADDER")
        rows = [row for row in rows if len(row) > 3 and row[2] != "90a" and row[3] in products]
        rows = [row for row in rows if "RESCUES=1" not in row]  # nothing by itself
        for dtype, element, fast in (("f32", "F32", False), ("tf32", "F32", True), ("s8", "S8", False)):
            with self.subTest(dtype):
                output = self.path(f"{dtype}.json")
                self.carat("verify", "--type", dtype, *arguments, "--json", output, timeout=900)
                with open(output, encoding="utf-8") as file:
                    results = json.load(file)["results"]
                kernels = [row[0] for row in rows
                           if f"ELEMENT={element}" in row and ("ACCURACY=FAST" in row) == fast]
                self.assertGreater(len(kernels), 2)
                self.assertLessEqual(set(kernels), {result["contender"] for result in results})
                self.assertLessEqual({result["outcome"] for result in results}, {"right", "skipped"})
                right = {result["contender"] for result in results if result["outcome"] == "right"}
                self.assertLessEqual(set(kernels), right, "rows that were tried in no layout")

    def test_verify_of_8_bit_floats(self):
        arguments = ("--device", "cuda", "--against", "none", "--size", 24, "--deepest", 64)
        for capability in ("75", "80"):
            self.environment["STANDIN_CAPABILITY"] = capability
            output = self.path(f"{capability}.json")
            self.carat("verify", "--type", "e4m3", *arguments, "--json", output)
            with open(output, encoding="utf-8") as file:
                results = json.load(file)["results"]
            # Rows of Hopper's own instructions are not for this device; all else has to be right.
            ran = [result for result in results if not result["contender"].startswith(("wgmma_", "f64_"))]
            self.assertGreater(len(ran), 20)
            self.assertEqual({result["outcome"] for result in ran}, {"right"})

    def test_no_gpu(self):
        self.environment["STANDIN_DEVICES"] = "0"
        super().test_no_gpu()

    def explain(self, *arguments):
        """The lines of the table as lists of words, and of the rows that cannot, the reasons."""
        lines = self.carat("explain", *arguments).stdout.splitlines()
        begin = next(i for i, line in enumerate(lines) if line.startswith("kernel, in its best way"))
        table, refused = [], {}
        for line in lines[begin + 1 :]:
            words = line.split()
            if re.fullmatch(r"\d+x\d+x\d+", words[1]):
                table.append(words)
            elif words[0] != "the":  # "the plan, as it runs"
                refused[words[0]] = " ".join(words[1:])
        return lines[: begin - 1], table, refused

    def test_explain(self):
        head, table, refused = self.explain(100, 100, 100)
        self.assertRegex(head[0], r"^f32 NN 100 x 100 x 100 to f32 on ")
        self.assertEqual(table[0][7], "chosen")
        self.assertTrue(head[1].startswith(table[0][0] + ":"))
        self.assertEqual([words[7] for words in table[1:] if words[7][0] != "+"], [])
        times = [float(words[5]) for words in table]
        self.assertEqual(times, sorted(times))
        # Every row of the type is in one of the two lists.
        rows = re.findall(r"^(\w+) +gemm/.*\b(?:ELEMENT=F32|PLANES=[23]) ", source("kernels/catalog.txt"), re.M)
        self.assertEqual(sorted([words[0] for words in table] + list(refused)), sorted(rows))
        self.assertRegex(refused["f32_tt_128x128"], "it is for layout TT")
        fast = [name for name in refused if name.startswith("mma_tf32")]
        self.assertTrue(fast)
        for name in fast:
            self.assertIn("fast accuracy, which was not asked for", refused[name])

    def test_explain_an_accuracy(self):
        planes = "wgmma_3xbf16_tn_128x128"
        for arguments in (("--accuracy", "strict"), ("--type", "f32-strict")):
            head, table, refused = self.explain(*arguments, 100, 100, 100)
            self.assertRegex(head[0], r"^f32-strict NN 100 x 100 x 100 to f32 on ")
            self.assertFalse([words for words in table if "3xbf16" in words[0] or "tf32" in words[0]])
            self.assertIn("behind a product of planes", refused["simt_f32_128x64_rescue"])
        self.assertIn(planes, refused)
        head, table, refused = self.explain("--accuracy", "best", 700, 700, 700)
        self.assertRegex(head[0], r"^f32-best NN ")
        self.assertTrue(all("best" in words[0] or "f64" in " ".join(words) for words in table))
        self.assertIn("not as accurate as the best", refused["simt_f32_64x64"])
        _, _, refused = self.explain("--type", "f64", 100, 100, 100)
        self.assertIn("of the best accuracy, which was not asked for", refused["simt_f64_best_32x32"])
        close = "wgmma_2xf16_tn_128x128"
        self.assertIn(close, self.explain(200, 200, 200)[2])
        head, table, refused = self.explain("--accuracy", "close", 200, 200, 200)
        self.assertRegex(head[0], r"^f32-close NN ")
        self.assertIn(close, refused)
        self.assertNotIn("of the close accuracy", " ".join(refused.values()))
        head, _, _ = self.explain("--accuracy", "fast", 100, 100, 100)
        self.assertRegex(head[0], r"^tf32 NN ")
        head, _, refused = self.explain("--accuracy", "standard", "--bias", "row", 100, 100, 100)
        self.assertRegex(head[0], r"^f32 NN ")
        self.assertIn(planes, refused)
        _, _, refused = self.explain("--type", "bf16", 100, 100, 100)
        self.assertNotIn(planes, refused)
        message = "--type tf32 asks for another accuracy than --accuracy does"
        self.refused(message, "explain", "--type", "tf32", "--accuracy", "strict", 3, 3, 3, code=2)

    def test_explain_tells_the_way(self):
        _, table, _ = self.explain("--type", "tf32", "--lda", 1001, 1001, 1000, 900)
        self.assertIn("tf32", table[0][0])
        self.assertIn("packed first: A", " ".join(table[0]))
        head, table, _ = self.explain("--type", "e4m3", "--type-d", "e4m3", "--bias", "row", 200, 100, 64)
        self.assertIn("to e4m3 on", head[0])
        self.assertIn("A as f16, B as f16, sums finished", " ".join(table[0]))
        _, table, _ = self.explain("--activation", "silu", "--type", "bf16", 32, 32, 65536)
        self.assertGreater(int(table[0][2]), 1)
        self.assertIn("parts added", " ".join(table[0]))
        message = "--measure is for packed products without --bias and --activation"
        self.refused(message, "explain", "--measure", "--lda", 9, 3, 3, 3, code=2)
        # Every kernel is timed in the way that is listed, packing and all.
        _, table, _ = self.explain("--measure", "--type", "s8", 32, 32, 48)
        self.assertGreater(len(table), 3)
        for words in table:
            self.assertGreater(float(words[7]), 0)
        text = self.carat("explain", "--ways", 5, 64, 64, 4096).stdout
        lines = text.split("way, of any kernel")[1].splitlines()
        ways = [line.split() for line in lines[1:-1]]
        self.assertEqual([words[7].rstrip(",;") for words in ways].index("chosen"), 0)
        self.assertEqual(len({(words[0], words[2], " ".join(words[8:])) for words in ways}), 5)
        self.assertGreater(int(lines[-1].split()[0]), 50)
        self.refused("is no element type", "explain", "--type-d", "f8", 3, 3, 3, code=2)
        self.environment["STANDIN_CAPABILITY"] = "75"
        _, table, refused = self.explain("--type", "bf16", 100, 100, 100)
        self.assertTrue(all(words[0].startswith(("simt", "direct")) for words in table))
        self.assertIn("needs compute capability 8.0", refused["mma_bf16_nn_64x64"])

    def test_ladder(self):
        paths = [self.path(name) for name in ("out.json", "plot.svg", "roofline.svg")]
        arguments = ["--sizes", "12,20", "--transfers", "--time-limit", 0.001, "--ceilings", self.ceilings]
        arguments += ["--json", paths[0], "--plot", paths[1], "--roofline", paths[2]]
        text = self.carat("ladder", *arguments, quiet=False).stdout
        for rung in range(1, 10):
            self.assertRegex(text, rf"\n +{rung} \w")
        with open(paths[0], encoding="utf-8") as file:
            results = json.load(file)["results"]
        self.assertGreaterEqual(len(results), 18)
        for path in paths[1:]:
            with open(path, encoding="utf-8") as file:
                self.assertIn("<svg", file.read())


if __name__ == "__main__":
    unittest.main()
