#!/usr/bin/env python3
"""Proves that the build refuses kernels that would be slow.

Takes the very command by which the build compiles a row of the catalogue, puts another source in the row's place,
and runs it: a plain kernel must come through; one with a serialized wgmma, one with an ignored setmaxnreg and one
that spills registers must fail, with that reason. Exits 77 where there is nothing to run it with.
"""

import argparse
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))

# source, whether it needs an instruction of 90a, what the refusal must speak of (None: it must come through)
CASES = [
    ("plain.cu", False, None),
    ("plain_wgmma.cu", True, None),
    ("serialized.cu", True, "serialized"),
    ("setmaxnreg.cu", True, "setmaxnreg"),
    ("spills.cu", False, "spill"),
    ("spills.cu", True, "spill"),
]


def skip(reason):
    print(f"skipped: {len(CASES)} kernels: {reason}")
    sys.exit(77)


def rows(catalog):
    """(name, source, arch) of every row."""
    with open(catalog, encoding="utf-8") as lines:
        return [line.split()[:3] for line in lines if line[:1].isalpha()]


def command_of(build, image):
    """The command that compiles an image, without what CMake has done afterwards: that would write the image's list of
    headers, which Ninja reads, for another source, and Ninja would make the image once more."""
    said = subprocess.run(["ninja", "-C", build, "-t", "commands", image], capture_output=True, text=True, check=True)
    steps = said.stdout.strip().splitlines()[-1].split(" && ")
    compiling = [step for step in steps if "kernel.cmake" in step]
    if len(compiling) != 1:
        sys.exit(f"not one step of these compiles {image}: {steps}")
    return compiling[0]


def compile_as(build, row, specific, source, target):
    """The build's own command for the row, on another source."""
    name, row_source, arch = row
    image = f"images/{name}.fatbin"
    command = command_of(build, image)
    if specific and not arch.endswith("a"):  # no such row in the catalogue: another's command, for 90a
        words = [word for word in command.split(" ") if not word.startswith("-gencode=")]
        words.insert(words.index("-fatbin") + 1, "-gencode=arch=compute_90a,code=sm_90a")
        command = " ".join(words)
    for text, other in ((os.path.join(build, image), target), (image, target)):
        command = command.replace(text, other)
    whole = os.path.join("kernels", row_source)
    at = command.find(whole)
    if at < 0:
        sys.exit(f"the command of {name} does not name its source: {command}")
    begin = command.rfind(" ", 0, at) + 1
    command = command.replace(command[begin : at + len(whole)], source)
    return subprocess.run(command, shell=True, cwd=build, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def main():
    parser = argparse.ArgumentParser()
    for option in ("--build", "--catalog", "--nvcc", "--strict", "--generator"):
        parser.add_argument(option, default="")
    options = parser.parse_args()
    if not options.nvcc:
        skip("this build has no nvcc")
    if not options.strict:
        skip("this nvcc is not the one that the kernels are tuned with, and may warn and spill")
    if "Ninja" not in options.generator:
        skip(f"{options.generator} does not tell its commands; configure with -G Ninja")
    listed = rows(options.catalog)
    plain = next(row for row in listed if not row[2].endswith("a"))
    special = next((row for row in listed if row[2].endswith("a")), plain)
    wrong = 0
    with tempfile.TemporaryDirectory() as place:
        for source, specific, reason in CASES:
            target = os.path.join(place, "image.fatbin")
            row = special if specific else plain
            done = compile_as(options.build, row, specific, os.path.join(HERE, source), target)
            refused = done.returncode != 0
            right = refused and reason in done.stdout if reason else not refused
            made = os.path.exists(target)
            if refused and made:  # a second build would take it for a good one
                right = False
            print(f"{source} as {row[0]}: {'refused' if refused else 'compiled'}{', image left' if refused and made else ''}:"
                  f" {'right' if right else 'WRONG'}")
            if not right:
                print(done.stdout)
                wrong += 1
            if made:
                os.remove(target)
    print(f"{len(CASES) - wrong} right, {wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
