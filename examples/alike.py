"""Which text files of a folder are alike? The matrix product in the middle is Carat's work.

    alike.py count FOLDER -o OUT    one row a file, one column a word:  OUT/words.npy, OUT/names.txt
    carat gemm OUT/words.npy OUT/words.npy --trans-b -o OUT/alike.npy
    alike.py report OUT             the pairs of files that use the same words

A word weighs what it occurs in its file, times the logarithm of how rare it is among the files; rows are
then scaled to length 1, so that the product of the matrix with its own transpose holds the cosine between
every two files.
"""
import argparse
import collections
import os
import re

import numpy

TEXT = (".c", ".cmake", ".cu", ".h", ".md", ".py", ".txt")


def text_files(folder):
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith((".", "build")))
        for file in sorted(files):
            if file.endswith(TEXT):
                yield os.path.join(parent, file)


def count(folder, out):
    names, counts = [], []
    for name in text_files(folder):
        with open(name, encoding="utf-8", errors="replace") as file:
            words = collections.Counter(re.findall(r"[a-z]{2,}", file.read().lower()))
        if words:
            names.append(os.path.relpath(name, folder))
            counts.append(words)
    if len(names) < 2:
        raise SystemExit(f"alike.py: fewer than two text files under {folder}")

    vocabulary = {word: column for column, word in enumerate(sorted(set().union(*counts)))}
    matrix = numpy.zeros((len(names), len(vocabulary)))
    for row, words in enumerate(counts):
        for word, times in words.items():
            matrix[row, vocabulary[word]] = times
    matrix *= numpy.log(len(names) / (matrix > 0).sum(axis=0))
    matrix /= numpy.maximum(numpy.linalg.norm(matrix, axis=1, keepdims=True), 1e-30)

    os.makedirs(out, exist_ok=True)
    numpy.save(os.path.join(out, "words.npy"), matrix.astype(numpy.float32))
    with open(os.path.join(out, "names.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(names) + "\n")
    print(f"{len(names)} files, {len(vocabulary)} words: {os.path.join(out, 'words.npy')}")


def report(out, most=5):
    with open(os.path.join(out, "names.txt"), encoding="utf-8") as file:
        names = file.read().split("\n")[:-1]
    alike = numpy.load(os.path.join(out, "alike.npy"))
    if alike.shape != (len(names), len(names)):
        raise SystemExit(f"alike.py: alike.npy is {alike.shape}, but there are {len(names)} names")
    first, second = numpy.triu_indices(len(names), k=1)
    order = numpy.argsort(-alike[first, second])[:most]
    print("The files most alike (cosine):")
    for pair in order:
        i, j = first[pair], second[pair]
        print(f"  {alike[i, j]:.3f}  {names[i]}  {names[j]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    counting = commands.add_parser("count")
    counting.add_argument("folder")
    counting.add_argument("-o", dest="out", required=True)
    commands.add_parser("report").add_argument("out")
    arguments = parser.parse_args()
    if arguments.command == "count":
        count(arguments.folder, arguments.out)
    else:
        report(arguments.out)


if __name__ == "__main__":
    main()
