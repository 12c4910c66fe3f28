"""What every paper fills: a table of its figures beside those of its authors' code and ours, and pictures."""

import os
import time
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

HIGHER = {"Balance", "NMI", "ARI", "test LL", "accuracy"}
LOWER = {
    "cost",
    "Delta",
    "mean Delta",
    "KL error",
    "NLL",
    "least KL of a round",
    "SSE",
    "tilted SSE",
    "variance",
    "largest distance",
}
CENSUS = "USCensus1990.data.txt"
EQUAL, WHY_SHORT = "Cost at the paper's Balance", "The paper's Balance was not reached at the bounds that were tried."
PRINTED = 0.01  # of a figure: differences below it are no difference


COLUMNS = [
    "part",
    "where",
    "data",
    "method",
    "measure",
    "paper",
    "code",
    "ours",
    "sd",
    "seeds",
    "seconds",
    "why",
]


class Sheet:
    """Rows and pictures of one paper as a page, written after each row, so that a run that is cut off keeps what it has.

    A row is one measure of one method on one data set: what the paper prints, what its authors' code gave on these rows, and
    the mean of ours over seeds. A mean that is worse than the paper's by more than a hundredth is told first. Rows and
    pictures of an earlier run stay, in their place, until their part runs again.
    """

    def __init__(self, paper, title, folder, seeds):
        self.paper, self.title, self.folder, self.seeds = paper, title, Path(folder), range(seeds)
        self.folder.mkdir(parents=True, exist_ok=True)
        kept = self.folder / f"{paper}.csv"
        self.rows = pd.read_csv(kept, keep_default_na=False, na_values=[""]).to_dict("records") if kept.exists() else []

    def begin(self, part):
        self.part = part
        self.at = next((at for at, row in enumerate(self.rows) if row["part"] == part), len(self.rows))
        self.rows = [row for row in self.rows if row["part"] != part]

    def _add(self, **row):
        self.rows.insert(self.at, {**dict.fromkeys(COLUMNS), "part": self.part, **row})
        self.at += 1
        self.write()

    def row(self, where, data, method, ours, paper=None, authors=None, why=""):
        paper, authors, ours = paper or {}, authors or {}, dict(ours)
        seconds = np.mean(ours.pop("CPU s", np.nan))
        for measure in dict.fromkeys([*ours, *paper, *authors]):
            values = np.atleast_1d(ours.get(measure, np.nan))
            numbers = {"paper": paper.get(measure), "code": authors.get(measure), "ours": values.mean()}
            spread = {"sd": values.std(ddof=1) if len(values) > 1 else np.nan, "seeds": len(values), "seconds": seconds}
            self._add(where=where, data=data, method=method, measure=measure, why=why, **numbers, **spread)
        told = ", ".join(f"{measure} {np.mean(values):.4g}" for measure, values in ours.items())
        print(f"{where}, {data}, {method}: {told}", flush=True)

    def needs(self, where, data):
        """What cannot be run because the data is not in BAYESFAIR_DATA."""
        self._add(where=where, data=data, method="needs data")
        print(f"{where}: needs data, {data}", flush=True)

    def note(self, text):
        """What the numbers do not say on their own: it stands before all of them."""
        self._add(where=text, method="note")
        print(text, flush=True)

    def picture(self, name, figure, says):
        figure.tight_layout()
        figure.savefig(self.folder / f"{self.paper}-{name}.png", dpi=100)
        plt.close(figure)
        self._add(where=says, data=f"{self.paper}-{name}.png", method="picture")

    def write(self):
        table = pd.DataFrame(self.rows, columns=COLUMNS)
        table.to_csv(self.folder / f"{self.paper}.csv", index=False)
        kinds = "needs data", "picture", "note"
        missing, pictures, notes = (table[table["method"] == kind] for kind in kinds)
        measured = table[~table["method"].isin(kinds)]
        text = [f"# {self.title}", "", *(f"* {note}" for note in notes["where"]), *[""] * bool(len(notes))]
        text += [*in_words(worse(measured), measured), ""]
        for where, rows in measured.groupby("where", sort=False):
            text += [f"## {where}", "", markdown(shown(rows)), ""]
        if len(missing):
            text += ["## Needs data", "", *(f"* {row.where}: {row.data}" for row in missing.itertuples()), ""]
        if len(pictures):
            text += ["## Figures", ""]
        text += [f"![{row.where}]({row.data})\n\n*{row.where}*\n" for row in pictures.itertuples()]
        (self.folder / f"{self.paper}.md").write_text("\n".join(text).rstrip() + "\n")


def worse(table):
    """The rows in which ours is worse than the paper by more than a hundredth."""
    sign = np.select([table["measure"].isin(HIGHER), table["measure"].isin(LOWER)], [1, -1], 0)
    paper, ours = (table[name].astype(float) for name in ("paper", "ours"))
    return table[sign * (paper - ours) > PRINTED * paper.abs().clip(lower=PRINTED)]


def in_words(short, table):
    """The rows in which ours is worse, by reason and method."""
    n_printed = table["paper"].notna().sum()
    if not n_printed:
        return ["The paper prints no numbers of these, only pictures."]
    if short.empty:
        return [f"No figure of ours is worse than the paper's {n_printed} by more than 1%."]
    text = [f"Ours is worse than the paper by more than 1% in {len(short)} of {n_printed} figures."]
    for why, reason in short.groupby(short["why"].fillna(""), sort=False):
        text += ["", *filter(None, [why]), ""]
        for (where, data, method), rows in reason.groupby(["where", "data", "method"], sort=False):
            figures = (f"{row.measure} {number(row.ours)} (paper {number(row.paper)})" for row in rows.itertuples())
            text.append(f"* {where}, {data}, {method}: {', '.join(figures)}")
    return text


def shown(table):
    """One line per data set and method, one column per measure: the mean and standard deviation over seeds."""
    lines = {}
    for row in table.itertuples(index=False):
        line = lines.setdefault(
            (row.data, row.method), {"data": row.data, "method": row.method, "seeds": int(row.seeds)}
        )
        known = [
            f"{name} {number(value)}" for name, value in (("paper", row.paper), ("code", row.code)) if pd.notna(value)
        ]
        spread = f" ± {number(row.sd, 2)}" if pd.notna(row.sd) else ""
        ours = f"{number(row.ours)}{spread}" if pd.notna(row.ours) else "-"
        line[row.measure] = f"{ours} ({', '.join(known)})" if known else ours
        if pd.notna(row.seconds):
            line["CPU s"] = number(row.seconds, 2)
    found = pd.DataFrame(lines.values()).fillna("")
    return found[
        [name for name in found if name not in ("seeds", "CPU s")] + [n for n in ("seeds", "CPU s") if n in found]
    ]


def number(value, digits=4):
    """So many significant digits, and no powers of ten: 12,201 and 0.4642."""
    if 0 < abs(value) < 1e-4:
        return "<0.0001"
    return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"


def markdown(table):
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in [table.columns, *table.to_numpy()]]
    return "\n".join([lines[0], "|" + "---|" * table.shape[1], *lines[1:]])


def there(file):
    """Is this file in BAYESFAIR_DATA?"""
    return (Path(os.environ["BAYESFAIR_DATA"]) / file).exists()


def fitted(estimator, X, sensitive=None):
    """(the fitted estimator, processor seconds); what it warns of is printed, every time."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        estimator.fit(X, sensitive_features=sensitive)
    return estimator, time.process_time() - start


def over_seeds(measure, seeds):
    """`measure(seed)` gives {measure: value}; {measure: values} of all seeds."""
    found = [measure(seed) for seed in seeds]
    return {name: np.array([one[name] for one in found]) for name in found[0]}


def as_fair(measure, bounds, balance):
    """(bound, what `measure(bound)` gives) for the first of `bounds` whose mean Balance is at least `balance`, or the last."""
    for bound in bounds:
        ours = measure(bound)
        if ours["Balance"].mean() >= balance:
            break
    return bound, ours


def normalised(features, unit=True):
    """Standardised, then each row divided by its length: FMC's and VFC's preparation."""
    X = features.to_numpy(float)
    X = (X - X.mean(0)) / X.std(0)
    return X / np.linalg.norm(X, axis=1, keepdims=True) if unit else X
