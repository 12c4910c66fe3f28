"""The pictures of `bayesfair.plots` as PNG bytes, drawn on figures of their own: open figures and styles stay unchanged."""

import io
import warnings
from base64 import b64encode
from functools import partial
from typing import NamedTuple

import numpy as np

from bayesfair._numbers import counted, percent
from bayesfair.plots.calibration_plot import calibration
from bayesfair.plots.checks import trace
from bayesfair.plots.pairs import co_clustering, fairlets
from bayesfair.plots.profile_plot import height_of_profile, profile
from bayesfair.plots.scatter import (
    SHOWN_MODES,
    TOLD,
    height_of_modes,
    height_of_uncertainty,
    modes,
    uncertainty,
    uncertainty_profile,
)
from bayesfair.posterior.calibrating import kept_calibration
from bayesfair.posterior.diagnostics import scalar_table, worst_first
from bayesfair.posterior.found_modes import modes_of
from bayesfair.posterior.pairs import holds_fairlets
from bayesfair.reports.contents import SHOWN_FEATURES

WIDTH, DPI = 6.4, 150  # inches; narrower than in a notebook, so that letters stay legible on a phone
LONGEST_NAME = 24
MOST_CLUSTERS = 40  # in a legend
TRACES = 6
SAMPLE = 1_000


class Picture(NamedTuple):
    """`png`: the bytes. `alt`: a text for readers who cannot see the picture. `caption`: how to read it, and what it omits."""

    png: bytes
    alt: str
    caption: str

    @property
    def source(self):
        """The bytes as an address inside the page."""
        return f"data:image/png;base64,{b64encode(self.png).decode('ascii')}"


def draw_uncertainty(contents) -> Picture | None:
    """Clusters, groups and misclassification probability in two dimensions; None without features."""
    if contents.X is None:
        return None
    groups = 1 if contents.groups is None else len(contents.groups.names)
    remarks = "" if groups == 1 else " Marker: group."
    if groups > TOLD:
        remarks = f" Marker: the two largest of {groups:,} groups, and all others."
    height = height_of_uncertainty(contents.n_clusters if contents.n_clusters <= MOST_CLUSTERS else 0, groups)
    counts = ", ".join(f"{percent(np.mean(contents.doubt > level))} above {level}" for level in (0.1, 0.25, 0.5))
    alt = (
        f"Scatter plot of {len(contents.cluster):,} rows in {contents.n_clusters} clusters, larger marks for rows of "
        f"higher misclassification probability: {counts}."
    )
    caption = f"Colour: cluster. Size: probability of being misclassified.{remarks}"
    return _picture(contents, _of_clusters(uncertainty, contents), height, alt, caption)


def draw_traits(contents) -> Picture | None:
    """The traits of clusters, feature by feature; None without features."""
    if contents.X is None:
        return None
    lines = min(len(contents.traits), SHOWN_FEATURES + (0 if contents.groups is None else len(contents.groups.names)))
    alt = "Table of the mean of every feature and the share of every group, by cluster and of all rows."
    caption = "Colour: standard deviations above or below the mean of all rows."
    draw = partial(profile, contents.tree, contents.table, max_lines=SHOWN_FEATURES)
    return _picture(contents, lambda figure: draw(ax=figure.subplots()), height_of_profile(lines), alt, caption)


def draw_profile(contents) -> Picture:
    """Misclassification probabilities, the most uncertain row first."""
    alt = (
        f"Misclassification probabilities in descending order, of all rows and by cluster, from {contents.doubt.max():.2f} to "
        f"{contents.doubt.min():.2f}; half of the rows are below {np.median(contents.doubt):.2f}."
    )
    caption = "All rows, and those of each cluster, in order of uncertainty."
    return _picture(contents, _of_clusters(uncertainty_profile, contents), 0.45 * WIDTH, alt, caption)


def draw_calibration(contents) -> Picture | None:
    """Stated against true in simulated tables; None if the run holds no calibration."""
    table = kept_calibration(contents.tree)
    if table is None:
        return None
    alt = f"Curves of the share of pairs that are together, by the stated probability. {table.attrs['sentence']}"
    caption = "Below the diagonal statements are too sure. Bands: two standard errors. Thick: the best multiple."
    return _picture(contents, lambda figure: calibration(table, figure.subplots()), 0.8 * WIDTH, alt, caption)


def draw_co_clustering(contents) -> Picture:
    """Co-clustering probabilities; a random sample of the rows if there are many."""
    total = len(contents.cluster)
    draw = partial(co_clustering, contents.tree, sample=min(total, SAMPLE))
    alt = (
        f"Heat map of the probability that two rows share a cluster, in the order of the {contents.n_clusters} clusters; "
        "dark squares on the diagonal are clusters that stay together."
    )
    caption = (
        "Rows in the order of their clusters, the surest first. A dark square is a cluster that stays together; colour "
        "off the diagonal shows which clusters exchange members."
    )
    caption += f" A random sample of {SAMPLE:,} of the {total:,} rows." if total > SAMPLE else ""
    return _picture(contents, lambda figure: draw(ax=figure.subplots()), 0.8 * WIDTH, alt, caption)


def draw_fairlets(contents) -> Picture | None:
    """Who is matched with whom; None without features, or if draws keep no fairlets."""
    if contents.X is None or not holds_fairlets(contents.tree):
        return None
    alt = f"Scatter plot of {len(contents.cluster):,} rows; lines join those that are matched in at least 10% of the draws."
    caption = "Colour and marker: group. A line is as strong as the share of draws in which its ends share a fairlet."
    return _picture(contents, lambda figure: fairlets(contents.tree, ax=figure.subplots()), 0.62 * WIDTH, alt, caption)


def draw_modes(contents) -> Picture | None:
    """The masses of the modes and their clusterings; None without features, or with a single mode."""
    num_modes = modes_of(contents.tree).sizes["mode"]
    if contents.X is None or num_modes == 1:
        return None
    alt = f"Scatter plots of {min(num_modes, SHOWN_MODES)} of {num_modes} modes."
    caption = "Clusters have the same colours. Large marks are rows in another cluster than in the best mode."
    height = WIDTH * height_of_modes(num_modes)
    return _picture(contents, lambda figure: modes(contents.tree, figure=figure), height, alt, caption)


def draw_trace(contents) -> Picture | None:
    """The traces of the scalars on which the chains agree least; None if nothing moved."""
    names = worst_first(scalar_table(contents.tree)).index[:TRACES].tolist()
    if not names:
        return None

    def draw(figure):
        axes = figure.subplots(len(names), 2, squeeze=False, gridspec_kw={"width_ratios": [2, 1]})
        for right in trace(contents.tree, var_names=names, axes=axes)[:, 1]:
            right.locator_params(axis="x", nbins=3)  # long numbers would overlap

    sizes = contents.tree["posterior"].sizes
    alt = f"Traces of {counted(sizes['chain'], 'chain')} over {sizes['draw']:,} draws, and their histograms."
    caption = "Chains that agree lie on top of each other. Shown: the scalars on which they agree least."
    return _picture(contents, draw, 1.15 * len(names) + 0.6, alt, caption)


def _of_clusters(plot, contents):
    """What draws a plot of the tree on a figure, without its legend if there are too many clusters."""

    def draw(figure):
        ax = plot(contents.tree, ax=figure.subplots())
        if contents.n_clusters > MOST_CLUSTERS:
            ax.get_legend().remove()

    return draw


def _picture(contents, draw, height, alt, caption):
    groups = () if contents.groups is None else contents.groups.names
    png, missing = render((groups, contents.features), draw, height)
    return Picture(png, alt, caption + missing)


def render(names, draw, height, width=WIDTH):
    """The PNG bytes of `draw` applied to a figure, and a remark if the font lacks letters; `names`: lists to be shortened."""
    from matplotlib import style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    file = io.BytesIO()
    with warnings.catch_warnings(record=True) as caught, style.context("default"):
        warnings.simplefilter("always")
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure)
        _shorten(figure, names)
        figure.savefig(file, format="png", dpi=DPI)
        figure.clear()  # now: a million points would stay until the garbage collection
    glyphs = [warning for warning in caught if "missing from" in str(warning.message)]
    for warning in caught:
        if warning not in glyphs:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    boxes = " A box stands for a letter that the picture's font lacks; the tables have the names in full."
    return file.getvalue(), boxes if glyphs else ""


def _shorten(figure, names):
    """Cut long ones of some lists of names in a figure to fit."""
    from matplotlib.text import Text

    short = {name: cut for alike in names for name, cut in zip(alike, _cut(alike))}
    for text in figure.findobj(Text):
        if len(name := text.get_text()) > LONGEST_NAME:
            text.set_text(short.get(name, name))


def _cut(names):
    """Names of at most `LONGEST_NAME` letters: their beginning; if not unique, also the end, or else the position before it."""
    for tail in (0, LONGEST_NAME // 2):
        short = [_without_middle(name, tail) for name in names]
        if len(set(short)) == len(set(names)):
            return short
    return [_without_middle(f"{place + 1}: {name}", 0) for place, name in enumerate(names)]


def _without_middle(name, tail):
    """A name that is too long, reduced to its last `tail` letters and as many of the first as fit."""
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 3 - tail]}...{name[len(name) - tail :]}"
