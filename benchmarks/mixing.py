"""Effective draws per second and per sweep of the slowest scalar, and the worst R-hat, from where the estimator starts.

BAYESFAIR_DATA=... python benchmarks/mixing.py [CASE ...] [--against REV] [--fairlet-move rectangular-loop] [--draws 2000]

`--against` runs the same cases with the code of another git revision as well. Seconds are those of the draws alone: no
compilation, no search, no warm-up, no summaries.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

CASES = {  # data, target, K
    "patients": ("patients", "joint", 3),
    "patients labels": ("patients", "labels", 3),
    "patients optimal": ("patients", "optimal", 3),
    "bank900": ("bank900", "joint", 4),
    "bank900 labels": ("bank900", "labels", 4),
    "bank900 optimal": ("bank900", "optimal", 4),
    "bank2000 labels": ("bank2000", "labels", 4),
    "bank41108 labels": ("bank41108", "labels", 10),
    "adult": ("adult", "joint", 10),
    "adult optimal": ("adult", "optimal", 10),
    "adult labels": ("adult", "labels", 10),
}
COLUMNS = ["age", "duration", "euribor3m", "nr.employed", "cons.price.idx", "campaign"]


def table(name, seed=0):
    """(X, groups): the patients as they come, others standardised; `seed` draws the rows of a sample."""
    import numpy as np

    import bayesfair as bf

    if name == "patients":
        data = bf.datasets.load_diabetes()
        return np.asarray(data.features, float), np.asarray(data.sensitive)
    if name == "adult":
        data = bf.datasets.load_adult()
        X, group = data.features, data.sensitive
    else:
        data = bf.datasets.load_bank_additional()
        rows = np.random.default_rng(seed).choice(len(data.features), int(name.removeprefix("bank")), replace=False)
        X, group = (
            data.features[COLUMNS].iloc[rows],
            (data.sensitive.iloc[rows] == "married").map({True: "m", False: "n"}),
        )
    return np.asarray((X - X.mean()) / X.std(ddof=0), float), np.asarray(group)


def measure(case, arguments):
    """One line of the table."""
    from bayesfair.fairness import encode_groups
    from bayesfair.gibbs import KMeansLoss, Settings, Table
    from bayesfair.gibbs.problem import make_problem
    from bayesfair.gibbs.run import draw, warm_up
    from bayesfair.gibbs.search import start_in_modes
    from bayesfair.posterior import summary
    from bayesfair.posterior.tree import build_tree

    warnings.simplefilter("ignore")
    data, target, n_clusters = CASES[case]
    X, group = table(data)
    move = (
        {} if arguments.fairlet_move == "swaps" else {"fairlet_move": arguments.fairlet_move}
    )  # older code has no other
    settings = Settings(n_clusters, KMeansLoss(), target=target, seed=arguments.seed, **move)
    problem = make_problem(Table(X, encode_groups(group)), settings)
    problem, run, _ = start_in_modes(problem, 4, arguments.warmup, 32, "auto", False)
    run, _ = warm_up(run, problem.target, arguments.warmup)
    run, _ = draw(run, problem.target, 1)  # compiled
    begin = time.perf_counter()
    run, draws = draw(run, problem.target, arguments.draws)
    seconds = time.perf_counter() - begin
    scalars = summary(build_tree(draws, X, encode_groups(group), settings={}, n_clusters=n_clusters))
    scalars = scalars[~scalars.index.str.startswith("lp, chain")]
    slowest, worst = scalars["ess_bulk"].idxmin(), scalars["ess_bulk"].min()
    print(
        f"{case:17} {worst / seconds:9.1f} {worst / (4 * arguments.draws):9.4f}   {slowest:22} {scalars['r_hat'].max():7.3f} "
        f"{seconds / arguments.draws * 1e3:9.2f}",
        flush=True,
    )


def elsewhere(revision, arguments):
    """The same cases with the code of another revision, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "worktree", "add", "--detach", "-q", str(tree), revision], check=True)
        try:
            length = [f"--{name}={getattr(arguments, name)}" for name in ("draws", "warmup", "seed")]
            command = [sys.executable, str(Path(__file__).resolve()), *arguments.cases, *length]
            subprocess.run(command, env={**os.environ, "PYTHONPATH": str(tree)}, check=True)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=["patients"], help=f"of {', '.join(CASES)}")
    parser.add_argument("--against")
    parser.add_argument("--fairlet-move", default="swaps", choices=("swaps", "rectangular-loop"))
    for name, default in (("draws", 2000), ("warmup", 1000), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    import bayesfair

    print(
        f"{Path(bayesfair.__file__).parents[1]}\n{'case':17} ESS/second ESS/sweep   slowest scalar          R-hat  ms a sweep"
    )
    for case in arguments.cases:
        measure(case, arguments)
    if arguments.against:
        elsewhere(arguments.against, arguments)


if __name__ == "__main__":
    main()
