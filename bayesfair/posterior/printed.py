"""The summary for printing: within lines of 80 characters, with significant digits only."""

import re
from math import floor, isfinite, log10

from pandas import DataFrame

MOST_DECIMALS, WIDTH = 6, 7  # of a number; characters of a number
IN_UNITS = ["mean", "sd", "eti89_lb", "eti89_ub"]  # in the scalar's units; the others are figures of the sampler


class SummaryTable(DataFrame):
    """A DataFrame of `bayesfair.posterior.summary` that prints significant digits only; its methods return plain DataFrames."""

    @property
    def _constructor(self):
        return DataFrame

    def __repr__(self):
        texts = self._texts()
        if texts is self:
            return super().__repr__()
        columns = [[name, *texts[name]] for name in texts]
        widths = [max(map(len, column)) for column in columns]
        names = ["", *texts.index]
        rows = [" ".join(map(str.rjust, row, widths)) for row in zip(*columns)]
        return "\n".join(f"{name:<{max(map(len, names))}} {row}" for name, row in zip(names, rows))

    def _repr_html_(self):
        texts = self._texts()
        return super()._repr_html_() if texts is self else texts.to_html()

    def _texts(self):
        """The table as shown."""
        if not {*IN_UNITS, "ess_bulk", "ess_tail", "r_hat"} <= set(self.columns):
            return self
        texts = DataFrame(index=self.index)
        for name in IN_UNITS:
            texts[name] = [_number(value, sd) for value, sd in zip(self[name], self["sd"])]
        for name in ("ess_bulk", "ess_tail"):
            texts[name] = [_text(value, "{:.0f}") for value in self[name]]
        texts["r_hat"] = [_text(value, "{:.3f}") for value in self["r_hat"]]
        return texts


def _number(value, sd):
    """A value to two digits of the standard deviation, a constant to six; fewer if they need too many characters."""
    decimals = 1 - floor(log10(sd)) if isfinite(sd) and sd > 0 else MOST_DECIMALS + 1
    texts = [f"{value:z.{max(decimals, 0)}f}"] if decimals <= MOST_DECIMALS else []
    texts += [re.sub(r"e\+?(-?)0*", r"e\1", f"{value:z.{digits}g}") for digits in (6, 5, 4, 3, 2)]
    return next((text for text in texts if len(text) <= WIDTH), texts[-1])


def _text(value, form):
    return "" if value != value else form.format(value)  # NaN alone differs from itself
