"""Every estimator on tables that nobody should have to fit: what it does with each. The last three columns must be 0.

refused: an error of ours, or a warning of ours before work that would take minutes. survived: a right answer (of the
table as it was before it was made hostile), or one with a warning that says what is wrong. silent: a wrong one without
a word. raw: an error or a warning of another library's. slow: more than --limit seconds.

python benchmarks/hostile_tables.py [--only Estimator,...] [--tables name,...] [--limit 60] [--verbose]
"""

import argparse
import sys
import time
import traceback
import warnings
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import pandas as pd
import polars
from scipy import sparse

import bayesfair as bf

OUTCOMES = ["refused", "survived", "silent", "raw", "slow"]
PACKAGE = str(Path(bf.__file__).parent)
K, N = 3, 60
WORSE = 1.5  # a clustering of a hostile table may cost so many times that of the plain one, on the plain rows
OUTLIER = 7  # the row that some tables make one


class Table(NamedTuple):
    """A table as the user has it. `plain`: the same in ordinary numbers (N, d), by which the answer is judged on the rows
    `judged`; None where the table must be refused, or survive with a warning."""

    X: object
    sensitive: object
    plain: np.ndarray | None
    judged: object = slice(None)


def blobs():
    """Three clusters of twenty rows, two groups half and half in each."""
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0, 0.0], [8.0, 0.0, 4.0], [0.0, 8.0, -4.0]])
    X = np.repeat(centers, N // K, axis=0) + rng.normal(size=(N, 3))
    frame = pd.DataFrame(X, columns=["age", "income", "score"])
    return frame, pd.Series(np.tile(["F", "M"], N // 2), name="sex")


FRAME, SEX = blobs()
PLAIN = FRAME.to_numpy()


def of(X, sensitive=SEX, plain=PLAIN):
    return Table(X, sensitive, plain)


def changed(column, value, dtype=float):
    frame = FRAME.astype({column: dtype})
    frame.loc[OUTLIER, column] = value
    return frame


def outlier(value):
    """An outlier takes a cluster whatever its size: the others are judged, as they are beside an ordinary one."""
    return Table(changed("income", value), SEX, changed("income", 1e3).to_numpy(), np.delete(np.arange(N), OUTLIER))


def refused(X, sensitive=SEX):
    return Table(X, sensitive, None)


def groups_of(*sizes):
    names = [f"g{i}" for i in range(len(sizes))]
    return pd.Series(np.random.default_rng(0).permutation(np.repeat(names, sizes)))


def many_columns(n_obs, dim):
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(K, dim)) * 3, n_obs // K, axis=0) + rng.normal(size=(n_obs, dim))
    return Table(X, np.tile(["F", "M"], n_obs // 2), X)


def tables():
    two = pd.DataFrame(np.tile([[0.0, 1.0], [1.0, 0.0]], (N // 2, 1)))
    days = pd.date_range("2020-01-01", periods=N)
    high = FRAME.gt(FRAME.mean())
    nanoseconds = (FRAME["age"] * 1e9).astype("int64")
    unit = (FRAME - FRAME.min()) / (FRAME.max() - FRAME.min())
    return {
        "plain": of(FRAME),
        "unit interval": of(unit),
        "times 1e-300": of(FRAME * 1e-300),
        "times 1e-100": of(FRAME * 1e-100),
        "times 1e-20": of(FRAME * 1e-20),
        "times 1e6": of(FRAME * 1e6),
        "times 1e20": of(FRAME * 1e20),
        "times 1e100": of(FRAME * 1e100),
        "times 1e150": of(FRAME * 1e150),
        "times 1e300": of(FRAME * 1e300),
        "plus 1e8": of(FRAME + 1e8),
        "plus 1e12": of(FRAME + 1e12),
        "plus 1e17": refused(FRAME + 1e17),  # float64 holds multiples of 16 there
        "one entry 1e10": outlier(1e10),
        "one entry 1e155": outlier(1e155),
        "one entry 1e300": outlier(1e300),
        "columns 1e-8 to 1e8": of(FRAME * [1e-8, 1, 1e8], plain=PLAIN * [1e-8, 1, 1e8]),
        "nanoseconds": of(FRAME.assign(age=nanoseconds + 1_700_000_000_000_000_000), plain=PLAIN * [1, 1e-9, 1e-9]),
        "constant column": of(FRAME.assign(age=3.0)),
        "all constant": refused(FRAME * 0 + 5),
        "every row twice": of(
            pd.concat([FRAME[::2], FRAME[::2]], ignore_index=True), plain=np.tile(PLAIN[::2], (2, 1))
        ),
        "two distinct rows": of(two, plain=two.to_numpy()),
        "one row": refused(FRAME[:1], SEX[:1]),
        "two rows": refused(FRAME[:2], SEX[:2]),
        "as many rows as clusters": of(PLAIN[[0, 21, 40]], ["F", "M", "F"], PLAIN[[0, 21, 40]]),
        "one column": of(FRAME[["age"]], plain=PLAIN[:, :1]),
        "no rows": refused(FRAME[:0], SEX[:0]),
        "no columns": refused(FRAME[[]]),
        "NaN": of(changed("score", np.nan)),
        "infinity": refused(changed("score", np.inf)),
        "a column of NaN": refused(FRAME.assign(score=np.nan)),
        "text column": of(FRAME.assign(town=np.resize(["a", "b", "c"], N))),
        "text among numbers": refused(changed("age", "x", dtype=object)),
        "text in NumPy": refused(np.array([["a", "b"]] * N)),
        "dates": refused(FRAME.assign(day=days)),
        "complex numbers": refused(PLAIN + 1j),
        "duplicate names": refused(FRAME.set_axis(["age", "age", "score"], axis=1)),
        "names that are numbers": of(FRAME.set_axis([1, 2, 3], axis=1)),
        "names of mixed types": refused(FRAME.set_axis([1, "b", 3], axis=1)),
        "booleans": of(high, plain=high.to_numpy(float)),
        "int8": of((FRAME * 8).astype("int8")),
        "float16": of(FRAME.astype("float16")),
        "numbers as objects": of(FRAME.astype(object)),
        "nullable integers": of((FRAME * 100).round().astype("Int64")),
        "nullable integers with NA": of(changed("age", pd.NA, dtype="Float64")),
        "polars": of(polars.from_pandas(FRAME)),
        "lazy polars": refused(polars.from_pandas(FRAME).lazy()),
        "sparse matrix": refused(sparse.csr_matrix(PLAIN)),
        "three dimensions": refused(PLAIN[:, :, None]),
        "one dimension": refused(PLAIN[:, 0]),
        "None": refused(None),
        "nested lists": of(PLAIN.tolist()),
        "fewer groups than rows": refused(FRAME, SEX[:-1]),
        "shuffled index": refused(FRAME, SEX.sample(frac=1, random_state=0)),
        "one group": refused(FRAME, ["F"] * N),
        "missing group": refused(FRAME, SEX.where(SEX.index != 3)),
        "groups not hashable": refused(FRAME, [{}] * N),
        "groups by name": refused(FRAME, "sex"),
        "a group of one": of(FRAME, groups_of(1, 30, 29)),
        "every row a group": of(FRAME, np.arange(N)),
        "groups of 50 and 10": of(FRAME, groups_of(50, 10)),
        "30 rows of 500 columns": many_columns(30, 500),
        "120 rows of 2000 columns": many_columns(120, 2_000),
    }


SHORT = {"random_state": 0, "progress_bar": False}
ESTIMATORS = {
    "GibbsFairClustering": lambda: bf.GibbsFairClustering(K, num_chains=2, num_warmup=100, num_draws=50, **SHORT),
    "GibbsFairClustering, Manhattan": lambda: bf.GibbsFairClustering(
        K, loss="manhattan", num_chains=2, num_warmup=100, num_draws=50, **SHORT
    ),
    "FairletKMeans": lambda: bf.FairletKMeans(K, random_state=0),
    "VariationalFairClustering": lambda: bf.VariationalFairClustering(K, **SHORT),
    "FairMixture": lambda: bf.FairMixture(K, max_gap=0.2, **SHORT),
    "TiltedKMeans": lambda: bf.TiltedKMeans(K, tilt=0.01, **SHORT),
    "BigLearnMixture": lambda: bf.BigLearnMixture(K, max_iter=100, n_init=2, **SHORT),
    "BayesianFairMixture": lambda: bf.BayesianFairMixture(
        K, inference="svi", num_draws=50, fairness_weight=1.0, **SHORT
    ),
}


def outcome(name, make, table, limit):
    """(outcome, what it said) of one estimator on one table."""
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("error", "[^.]*may take about", RuntimeWarning)
        try:
            est = make().fit(table.X, sensitive_features=table.sensitive)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            kind, text = ("refused" if is_ours(error) else "raw"), f"{type(error).__name__}: {error}"
        else:
            kind, text = judged(est, table, caught)
    seconds = time.perf_counter() - began
    return ("slow", f"{seconds:.0f} s; {kind}: {text}") if seconds > limit else (kind, text)


def is_ours(error):
    """Was the error raised by the package's own code, as an error of use or as a warning before long work?"""
    frames = traceback.extract_tb(error.__traceback__)
    return frames[-1].filename.startswith(PACKAGE) and isinstance(error, (TypeError, ValueError, RuntimeWarning))


def judged(est, table, caught):
    foreign = [str(item.message) for item in caught if not is_our_warning(item)]
    if foreign:
        return "raw", f"warning: {foreign[0]}"
    said = "; ".join(str(item.message) for item in caught)
    wrong = fault(est, table)
    return ("silent", wrong) if wrong and not said else ("survived", f"{wrong}; said: {said}" if wrong else said)


def is_our_warning(item):
    """Warnings of ours name an estimator, a remedy or the figures by which chains are judged."""
    text = str(item.message)
    return any(word in text for word in ("Remedy:", "Pass ", "R-hat", "effective sample size", *ESTIMATORS))


def fault(est, table):
    """What is wrong with a fitted estimator, or ""."""
    if table.plain is None:
        return "accepted without a word"
    labels = np.asarray(est.labels_)
    if labels.shape != (len(table.plain),) or not set(labels) <= set(range(K)):
        return "labels are not one cluster per row"
    if len(set(labels)) < K:
        return f"{len(set(labels))} clusters"
    for attribute in (
        "cluster_centers_",
        "means_",
        "objective_trace_",
        "inertia_",
        "cost_",
        "tilted_sse_",
        "covariances_",
    ):
        if hasattr(est, attribute) and not np.isfinite(getattr(est, attribute)).all():
            return f"{attribute} is not finite"
    return dearer(est, labels, table)


def dearer(est, labels, table):
    """Does the clustering cost much more, on the plain rows, than the same estimator's of the plain rows?"""
    name = next(name for name in ESTIMATORS if name.startswith(type(est).__name__))
    known = plain_labels(name, table.plain.tobytes(), table.plain.shape, tuple(np.asarray(table.sensitive).tolist()))
    found, wanted = (cost(part[table.judged], table.plain[table.judged]) for part in (labels, known))
    return f"cost {found:.4g} against {wanted:.4g}" if found > WORSE * wanted + 1e-9 else ""


@cache
def plain_labels(name, data, shape, sensitive):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X = np.frombuffer(data).reshape(shape)
        return ESTIMATORS[name]().fit(X, sensitive_features=list(sensitive)).labels_


def cost(labels, X):
    return sum(((X[labels == k] - X[labels == k].mean(0)) ** 2).sum() for k in np.unique(labels))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="estimators, by the beginning of their names")
    parser.add_argument("--tables", help="tables, by name")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds")
    parser.add_argument("--verbose", action="store_true", help="show what each said")
    arguments = parser.parse_args()
    chosen = tables() if arguments.tables is None else {name: tables()[name] for name in arguments.tables.split(",")}
    wanted = tuple((arguments.only or "").split(","))
    rows = {}
    for name, make in ESTIMATORS.items():
        if not name.startswith(wanted):
            continue
        found = {table: outcome(name, make, chosen[table], arguments.limit) for table in chosen}
        rows[name] = Counter(kind for kind, _ in found.values())
        jax.clear_caches()  # programs hold memory maps, of which a process has 65,530
        for table, (kind, text) in found.items():
            if arguments.verbose or kind in OUTCOMES[2:]:
                print(f"{name:32s} {table:26s} {kind:9s} {text[:300]}", flush=True)
    summary = pd.DataFrame.from_dict(rows, orient="index").reindex(columns=OUTCOMES).fillna(0).astype(int)
    print(f"{len(chosen)} tables\n{summary.to_string()}")
    return int(summary[OUTCOMES[2:]].to_numpy().sum() > 0)


if __name__ == "__main__":
    sys.exit(main())
