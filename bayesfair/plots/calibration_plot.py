"""Stated against true: how often statements of every probability hold in simulated tables."""

import numpy as np

from bayesfair._check import message
from bayesfair._names import Axes, DataFrame
from bayesfair.plots.style import axes_or_new, cluster_colors

BAND = 2.0  # standard errors


def calibration(table: "DataFrame", ax: "Axes | None" = None) -> "Axes":
    """How often two rows that are stated to be together are, one line for each multiple of the inverse temperature.

    Below the diagonal statements are too sure. Bands are two Monte Carlo standard errors wide on either side. The thick line
    has the least score, see `bayesfair.posterior.calibration`.

    Parameters
    ----------
    table : pandas.DataFrame
        From `bayesfair.posterior.calibration`.
    ax : matplotlib.axes.Axes, optional
        By default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If the table has no curve.

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.make_fair_mixture(60, 2, seed=1)
    >>> est = bf.GibbsFairClustering(2, random_state=0, progress_bar=False)
    >>> est = est.fit(data.features, sensitive_features=data.sensitive)
    >>> table = bf.posterior.calibration(est, 2, [0.5, 1.0], random_state=0, progress_bar=False)
    >>> ax = bf.plots.calibration(table)  # doctest: +SKIP
    """
    curves, best = curves_of(table), table.attrs["multiple"]
    ax = axes_or_new(ax, height=0.8)
    ax.plot([0, 1], [0, 1], color="black", linestyle=":", linewidth=1, label="as stated")
    for color, (multiple, (stated, true, off)) in zip(cluster_colors(len(curves)), curves.items()):
        known = np.isfinite(off)
        ax.fill_between(stated, true - BAND * off, true + BAND * off, where=known, color=color, alpha=0.15, linewidth=0)
        is_best = multiple == best
        label = f"{multiple:g}{', the least score' if is_best else ''}"
        ax.plot(stated, true, color=color, marker="o", markersize=3, linewidth=2.2 if is_best else 1, label=label)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="stated probability that two rows are together", ylabel="share that are")
    ax.set_title(f"Stated and true in {table.attrs['n_tables']} simulated tables", fontsize=10)
    ax.legend(title="multiple of the\ninverse temperature", fontsize=8, title_fontsize=8, frameon=False)
    return ax


def curves_of(table: "DataFrame") -> dict[float, np.ndarray]:
    """{multiple: (stated, true, standard error)}, each (bins,), of a table from `bayesfair.posterior.calibration`."""
    curve = table.attrs.get("curve")
    if curve is None:
        remedy = "Pass the table of bf.posterior.calibration itself."
        raise ValueError(message("table", "hold `curve` in its attrs", "none", remedy))
    multiple, *columns = (np.asarray(curve[name], float) for name in ("multiple", "stated", "true", "se"))
    return {float(one): np.stack(columns)[:, multiple == one] for one in np.unique(multiple)}
