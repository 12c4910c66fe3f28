"""Tables of numbers and categories as numbers, so that a loss measures their distances; and where new rows belong.

Two rows pay for every categorical column in which they differ, beside the cost of their numbers. For squared distances
this is the dissimilarity of k-prototypes (Huang 1998, eq. 2), d(x, y) = ||x - y||^2 + gamma #{columns in which they
differ}; for the norm of power p it is the p-th root of ||x - y||_p^p + gamma #{columns in which they differ}. Scaled
indicators of the levels have exactly these distances, so the loss, its conjugate centres and its normalisers are those
of the encoded table. A cluster's centre holds the shares of its levels, not a mode. Under "kl" and "binary" indicators
are unscaled: a column then costs the entropy of its levels in the cluster (the classification likelihood of a
multinomial, Celeux and Govaert 1991), or the sum of the entropies of its indicators.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from bayesfair._arrays import cluster_sums, row_blocks
from bayesfair._check import message, tell
from bayesfair._scaling import Scaling, center_and_spread, scaling_of
from bayesfair._tables import FEW_ROWS, Columns, Encoder, encoder_of, fit_encoder
from bayesfair.fairlets.decomposition import decompose
from bayesfair.fairlets.dissimilarity import Minkowski
from bayesfair.gibbs.dimensions import dimensions_that_count
from bayesfair.gibbs.loss import Loss, NamedLoss

FAR = 2.0**20  # spreads from 0 beyond which sums of rows lose digits
LARGEST_LOG = 150  # of a standard deviation, base 2: powers, sums and inverse temperatures stay well within float64
MANY_LEVELS = 0.5  # levels per row above which a column probably names the rows


class MixedTable(NamedTuple):
    """The encoding of rows: positions `where` of the categorical columns, their `levels`, and scales of their indicators.

    names: of the encoded columns, None if the table has no names. n_numbers: how many columns held numbers. dim: how many
    dimensions of the training table count in the law of lambda, see `dimensions_that_count`; None before they are counted.
    """

    where: tuple = ()
    levels: tuple = ()
    scales: tuple = ()
    names: list[str] | None = None
    n_numbers: int = 0
    both: bool = False  # does a column of two levels have two indicators, instead of one for the second?
    dim: float | None = None

    @property
    def indicators(self) -> list[str]:
        """Names of the columns that are 0 except for rows of one level."""
        return self.names[self.n_numbers :] if self.where else []

    @property
    def widths(self) -> list[int]:
        """How many indicators each categorical column has."""
        return [len(shown_levels(len(part), self.both)) for part in self.levels]

    def counted(self, rows, loss: Loss | NamedLoss, weight):
        """The table with the dimensions of its encoded training `rows`, which have a `weight` (N,)."""
        return self._replace(dim=dimensions_that_count(rows, self.n_numbers, self.widths, loss, weight))

    def numbers(self, columns: Columns) -> np.ndarray:
        """The rows (N, encoded columns), numeric columns first. Raises a ValueError for a level not seen in the fit."""
        if not self.where:
            return np.ascontiguousarray(columns.continuous)
        codes = Encoder(np.zeros(0), np.zeros(0), encoder_of(self.levels)).codes(columns.categorical)
        shown = (shown_levels(len(part), self.both) for part in self.levels)
        parts = [scale * (code[:, None] == at) for scale, code, at in zip(self.scales, codes.T, shown)]
        return np.concatenate([columns.continuous, *parts], 1)


def shown_levels(n_levels, both):
    """The levels that have an indicator."""
    return np.arange(n_levels)[0 if both or n_levels > 2 else 1 :]


def mixed_table(columns: Columns, where, all_names, loss: Loss | NamedLoss, category_weight, weight) -> MixedTable:
    """The encoding of a training table whose categorical columns are at the positions `where`; `weight` (N,): of its rows."""
    if len(where) == 0:
        if category_weight != "auto":
            rule, remedy = "be left out if no column is categorical", "Name them in categorical_features."
            raise ValueError(message("category_weight", rule, repr(category_weight), remedy))
        return MixedTable(names=columns.names, n_numbers=columns.continuous.shape[1])
    own = [str(at) for at in where] if all_names is None else [str(all_names[at]) for at in where]
    levels = tuple(part.tolist() for part in fit_encoder(columns).levels.categories_)
    _warn_of_names_of_rows(own, levels, len(columns.categorical))
    power, both = _power_of(loss), loss.dissimilarity.name == "kl"
    gamma = _gamma(columns.continuous, power, category_weight, weight)
    scales = tuple((gamma / (1 if len(part) == 2 else 2)) ** (1 / power) if power else 1.0 for part in levels)
    shown = [f"{name}={part[at]}" for name, part in zip(own, levels) for at in shown_levels(len(part), both)]
    names, where = [*map(str, columns.names or []), *shown], tuple(int(at) for at in where)
    return MixedTable(where, levels, scales, names, columns.continuous.shape[1], both)


def _power_of(loss: Loss | NamedLoss):
    """p of the p-th root, 2 for squared distances, 0 for unscaled indicators."""
    dissimilarity = loss.dissimilarity
    if dissimilarity.name == "kmeans":
        return 2.0
    if dissimilarity.name == "itakura-saito":
        rule, remedy = (
            "support categorical features",
            "Use 'kmeans', 'manhattan', 'kl' or 'binary', or encode the columns.",
        )
        raise ValueError(message("loss", rule, "'itakura-saito'", remedy))
    return float(dissimilarity.power) if isinstance(dissimilarity, Minkowski) else 0.0


def _gamma(numbers, power, category_weight, weight):
    """The cost of two different levels; "auto": that of numbers that differ by the root of their columns' mean variance."""
    if category_weight != "auto":
        if not power and category_weight != 1:
            rule, remedy = "be 'auto' or 1 for a loss that has no scale", "There the cost of levels is their entropy."
            raise ValueError(message("category_weight", rule, category_weight, remedy))
        return float(category_weight)
    if not power or numbers.shape[1] == 0:
        return 1.0
    pooled = center_and_spread(numbers, weight=weight)[2]
    return pooled**power if pooled > 0 else 1.0


def _warn_of_names_of_rows(names, levels, n_obs):
    for name, part in zip(names, levels):
        if n_obs > FEW_ROWS and len(part) > MANY_LEVELS * n_obs:
            what = f"column {name!r} has {len(part)} levels in {n_obs} rows; each level becomes a column"
            tell(f"{what}. Remedy: drop it if it names the rows, or give rare levels a common name.")


def rows_in_reach(X, loss: Loss | NamedLoss, names) -> np.ndarray:
    """X as the sampler reads it: less its means if these are far from 0, where only differences count."""
    loss.dissimilarity.check(X)
    scaling = scaling_of(X, names=names, degree=int(loss.degree or 1))
    if abs(scaling.exponent) > LARGEST_LOG:
        rule, got = "have a spread whose powers fit float64", f"a standard deviation near {2.0**scaling.exponent:.3g}"
        raise ValueError(message("X", rule, got, "Divide every column by it."))
    far = np.abs(scaling.middle).max(initial=0.0) > FAR * 2.0**scaling.exponent
    return Scaling(scaling.middle, 0).rows(X) if far and loss.translation_invariant else X


def distances(dissimilarity, X, centers):
    """Cost of every row of X (N, d) for every centre (K, d): (N, K), infinite for an empty cluster, whose centre is NaN.

    It is large if the loss has the centre at the edge of its domain and the row elsewhere.
    """
    inside = dissimilarity.interior(np.asarray(centers, np.float64))
    far = np.stack([dissimilarity.to_center(X, center) for center in inside], 1)
    return np.where(np.isnan(centers).any(1), np.inf, far)


def soft_memberships(dissimilarity, X, centers, inverse_temperatures):
    """softmax_k(-lambda d(x, m_k)) (N, K), the mean over draws of centres (draws, K, d) and lambda (draws,)."""
    soft = np.zeros((len(X), centers.shape[1]))
    for rows in row_blocks(len(X)):
        for of_draw, temperature in zip(centers, inverse_temperatures):
            soft[rows] += softmax(-temperature * distances(dissimilarity, X[rows], of_draw), axis=1)
    return soft / len(centers)


def place_fairlets(X, cost, groups, composition, settings):
    """Labels (N,) of whole fairlets, each in the cluster that is cheapest for its members; `settings`: of `decompose`.

    A composition that counts the fairlets of another table is replaced by "auto".
    """
    if not isinstance(composition, (str, Mapping)) and np.ndim(composition) != 1:
        composition = "auto"
    fairlet = decompose(X, groups, composition, **settings).fairlet
    return cluster_sums(cost, fairlet, fairlet.max() + 1).argmin(1)[fairlet]
