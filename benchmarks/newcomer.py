"""The newcomer's path: install, one's own spreadsheet, fit, and everybody's cluster back in the spreadsheet.

    python benchmarks/newcomer.py [--rows 1000] [--installed BIN]

In an empty folder: a virtual environment, the package from this source tree, a CSV as a spreadsheet of another country saves
it (semicolons, decimal commas, names with umlauts, holes), `bayesfair fit`, `memberships --table`, `report`. Prints seconds of
processor and clock of every step, and fails where a step does. `--installed`: the folder of a `bayesfair` that is there
already, instead of the first two steps.
"""

import argparse
import csv
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
STYLE = ["--separator", ";", "--decimal", ","]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--installed", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        write_spreadsheet(folder / "people.csv", arguments.rows)
        print(f"{'step':<44}{'processor':>10}{'clock':>8}")
        for name, command in steps(arguments.installed or folder / "venv/bin", arguments.installed is None):
            timed(name, command, folder)
        check(folder, arguments.rows)


def steps(programs, install):
    """(what it is, command) of every step."""
    run, bayesfair = "run.nc", programs / "bayesfair"
    if install:
        yield "python -m venv", [sys.executable, "-m", "venv", "venv"]
        yield "pip install", [programs / "pip", "install", "--quiet", "--disable-pip-version-check", ROOT]
    yield "bayesfair --help", [bayesfair, "--help"]
    chosen = ["--sensitive", "sex", "--index", "name", "--n-clusters", "4", "--standardize", "--missing", "drop"]
    yield "bayesfair fit", [bayesfair, "fit", "people.csv", *STYLE, *chosen, "--out", run]
    table = ["--table", "people.csv", "--index", "name", *STYLE, "--out", "people_with_clusters.csv"]
    yield "bayesfair memberships --table", [bayesfair, "memberships", run, *table]
    yield "bayesfair report", [bayesfair, "report", run, "--out", "report.html"]


def timed(name, command, folder):
    before, began = used(), time.perf_counter()
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, check=False)
    print(f"{name:<44}{used() - before:>10.1f}{time.perf_counter() - began:>8.1f}", flush=True)
    if done.returncode:
        raise SystemExit(f"{name} ended with status {done.returncode}: {done.stderr}")


def used():
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def write_spreadsheet(path, rows):
    """Four kinds of customers; a hole in one row of fifty."""
    rng = random.Random(0)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(["name", "sex", "age", "income", "visits", "town"])
        for row in range(rows):
            kind = rng.randrange(4)
            numbers = (
                rng.gauss(30 + 10 * kind, 5),
                rng.gauss(2000 + 900 * (kind % 2), 300),
                rng.gauss(5 + 4 * (kind // 2), 1.5),
            )
            cells = [f"{number:.1f}".replace(".", ",") for number in numbers]
            if row % 50 == 7:
                cells[row % 3] = ""
            writer.writerow([f"Müller, {row}", rng.choice("fffmm"), *cells, rng.choice(["Köln", "Ulm"])])


def check(folder, rows):
    """Every row of the spreadsheet is there, and those without holes have a cluster."""
    with (folder / "people_with_clusters.csv").open(encoding="utf-8", newline="") as file:
        back = list(csv.DictReader(file, delimiter=";"))
    whole = [row for row in back if all(row[name] for name in ("age", "income", "visits"))]
    if len(back) != rows or {row["cluster"] for row in whole} != set("0123"):
        raise SystemExit("The spreadsheet did not come back with everybody's cluster.")
    print(f"{len(back)} rows came back, {len(whole)} of them with a cluster; the others had holes.")


if __name__ == "__main__":
    main()
