"""What every paper fills: a table of its figures beside those of its authors' code and ours, and pictures."""

import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

HIGHER = {"Balance", "NMI", "ARI", "test LL", "accuracy"}
LOWER = {"cost", "Delta", "KL error", "NLL", "KL to the truth", "SSE", "tilted SSE", "variance", "largest distance"}
PRINTED = 0.01  # of a figure: differences below it are no difference


class Sheet:
    """Rows and pictures of one paper, written after each row, so that a run that is cut off keeps what it has.

    A row is one method on one data set: what the paper prints, what its authors' code gave on these rows, and ours as
    {measure: one value per seed}. A measure whose mean is worse than the paper's by more than a hundredth is told first.
    """

    def __init__(self, paper, folder, seeds):
        self.paper, self.folder, self.seeds = paper, Path(folder), range(seeds)
        self.rows, self.pictures, self.missing = [], [], []
        self.folder.mkdir(parents=True, exist_ok=True)

    def row(self, where, data, method, ours, paper=None, authors=None, why=""):
        paper, authors = paper or {}, authors or {}
        for measure in dict.fromkeys([*ours, *paper, *authors]):
            values = np.atleast_1d(ours.get(measure, np.nan))
            self.rows.append(
                {
                    "where": where,
                    "data": data,
                    "method": method,
                    "measure": measure,
                    "paper": paper.get(measure, np.nan),
                    "authors' code, run here": authors.get(measure, np.nan),
                    "ours": values.mean(),
                    "sd": values.std(ddof=1) if len(values) > 1 else np.nan,
                    "seeds": len(values),
                    "why": why,
                }
            )
        self.write()
        told = ", ".join(f"{measure} {np.mean(values):.4g}" for measure, values in ours.items())
        print(f"{where}, {data}, {method}: {told}", flush=True)

    def needs(self, where, data):
        """What cannot be run because the data is not in BAYESFAIR_DATA."""
        self.missing.append(f"{where}: needs data, {data}")
        print(self.missing[-1], flush=True)

    def picture(self, name, figure, says):
        figure.tight_layout()
        figure.savefig(self.folder / f"{self.paper}-{name}.png", dpi=100)
        self.pictures.append((name, says))
        self.write()

    def table(self):
        table = pd.DataFrame(self.rows)
        sign = np.select([table["measure"].isin(HIGHER), table["measure"].isin(LOWER)], [1, -1], 0)
        short = sign * (table["paper"] - table["ours"])
        return table.assign(worse=short > PRINTED * table["paper"].abs().clip(lower=PRINTED))

    def write(self):
        table = self.table()
        shown = table.assign(worse=table["worse"].map({True: "worse", False: ""}))
        for name in ("paper", "authors' code, run here", "ours", "sd"):
            shown[name] = [f"{value:.4g}" if np.isfinite(value) else "" for value in table[name]]
        lines = [f"# {self.paper}", ""]
        if table["worse"].any():
            lines += [
                f"Ours is worse than the paper in {table['worse'].sum()} of {table['paper'].notna().sum()} figures:",
                "",
            ]
            worse = shown[table["worse"]]
            lines += [
                f"* {row['where']}, {row['data']}, {row['method']}: {row['measure']} {row['ours']}, the paper {row['paper']}."
                + f" {row['why']}".rstrip()
                for _, row in worse.iterrows()
            ]
            lines.append("")
        lines += [markdown(shown.drop(columns="why")), *(f"* {text}" for text in self.missing), ""]
        lines += [f"![{says}]({self.paper}-{name}.png)\n\n*{says}*\n" for name, says in self.pictures]
        (self.folder / f"{self.paper}.md").write_text("\n".join(lines))


def markdown(table):
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in [table.columns, *table.to_numpy()]]
    return "\n".join([lines[0], "|" + "---|" * table.shape[1], *lines[1:], ""])


def fitted(estimator, X, sensitive=None):
    """(the fitted estimator, processor seconds); what it warns of is in its attributes."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(X, sensitive_features=sensitive)
    return estimator, time.process_time() - start


def over_seeds(measure, seeds):
    """`measure(seed)` gives {measure: value}; {measure: values} of all seeds."""
    found = [measure(seed) for seed in seeds]
    return {name: np.array([one[name] for one in found]) for name in found[0]}


def normalised(features, unit=True):
    """Standardised, then each row divided by its length: FMC's and VFC's preparation."""
    X = features.to_numpy(float)
    X = (X - X.mean(0)) / X.std(0)
    return X / np.linalg.norm(X, axis=1, keepdims=True) if unit else X
