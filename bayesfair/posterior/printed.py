"""The summary as it is printed: whole on a line of 80 letters, with the digits that mean something."""

from math import floor, isfinite, log10

from pandas import DataFrame

__all__ = ["SummaryTable"]

MOST_DECIMALS, WIDTH = 6, 8  # of a number; letters of it, as of the names of columns
IN_UNITS = ["mean", "sd", "eti89_lb", "eti89_ub"]  # of the scalar; the others are figures of the sampler


class SummaryTable(DataFrame):
    """A DataFrame of `bayesfair.posterior.summary`, all digits kept; what is made from it is a plain DataFrame.

    Printed, a scalar has two digits of its standard deviation, effective sample sizes are whole, and what is not known is left
    empty.
    """

    @property
    def _constructor(self):
        return DataFrame

    def __repr__(self):
        return self._texts().to_string()

    def _repr_html_(self):
        return self._texts().to_html()

    def _texts(self):
        """The table as it is shown."""
        if not {*IN_UNITS, "ess_bulk", "ess_tail", "r_hat"} <= set(self.columns):
            return DataFrame(self)
        texts = DataFrame(index=self.index)
        for name in IN_UNITS:
            texts[name] = [_number(value, sd) for value, sd in zip(self[name], self["sd"])]
        for name in ("ess_bulk", "ess_tail"):
            texts[name] = [_text(value, "{:.0f}") for value in self[name]]
        texts["r_hat"] = [_text(value, "{:.3f}") for value in self["r_hat"]]
        return texts


def _number(value, sd):
    """A value with two digits of the standard deviation, a constant with six; three where there is no room for so many."""
    decimals = 1 - floor(log10(sd)) if isfinite(sd) and sd > 0 else MOST_DECIMALS + 1
    text = f"{value:z.{max(decimals, 0)}f}" if decimals <= MOST_DECIMALS else f"{value:.6g}"
    return text if len(text) <= WIDTH else f"{value:.3g}"


def _text(value, form):
    return "" if value != value else form.format(value)  # NaN alone differs from itself
