"""What a fit is given: checked columns, groups, weights and a seed, split over processes."""

from typing import NamedTuple

import numpy as np

from bayesfair._arrays import cell_masses, code_masses, distinct_places
from bayesfair.engines.affinities import Nodes
from bayesfair.engines.row_split import UNSPLIT, RowSplit
from bayesfair.engines.samples import distinct_rows
from bayesfair.engines.tables import Columns
from bayesfair.fairness.groups import Groups


class Data(NamedTuple):
    """What a fit is given: checked columns, groups, weights and a seed.

    Attributes
    ----------
    columns : Columns or Nodes
        The checked columns of the table, or the nodes of a graph.
    groups : Groups
        The groups of the rows.
    given_weight : numpy.ndarray of shape (n_obs,) or None
        Weights of the rows, all above zero. None where all are 1.
    seed : int
        Drives everything random in the fit.
    split : RowSplit
        How the rows of all processes are split.
    dealing : RowSplit
        Processes that have the same rows and share what is tried on them.
    own : slice
        Which of the rows belong to this process.
    """

    columns: Columns | Nodes
    groups: Groups
    given_weight: np.ndarray | None
    seed: int
    split: RowSplit = UNSPLIT
    dealing: RowSplit = UNSPLIT
    own: slice = slice(None)  # the part that this process holds

    @property
    def X(self):
        """The continuous columns of shape (n_obs, n_features), float32 or float64 as they came in."""
        return self.columns.continuous

    @property
    def weight(self):
        """Weights of the rows, of shape (n_obs,). Newly made if all are 1: for many rows use `weight_of`."""
        return self.weight_of(slice(None))

    def weight_of(self, rows):
        """Weights of some of the rows.

        Parameters
        ----------
        rows : slice or array of int
            Which rows.

        Returns
        -------
        numpy.ndarray
        """
        if self.given_weight is None:
            return np.array(np.broadcast_to(1.0, len(self.groups.code))[rows])
        return self.given_weight[rows]

    def taken(self, rows):
        """Some of the rows. Every process gets all of them.

        Parameters
        ----------
        rows : array of int
            Their numbers in the table that is split over processes.

        Returns
        -------
        Data
        """
        split, weight = self.split, None
        if any(split.everybody(self.given_weight is not None)):
            weight = split.take(self.weight, rows)
        groups = split.groups._replace(code=split.groups.code[rows])
        alike = RowSplit(None, (len(rows),), groups)
        dealing = split if len(split.sizes) > 1 else self.dealing
        return Data(self.columns.take(rows, split), groups, weight, self.seed, alike, dealing)

    @property
    def total_weight(self):
        """Sum of the weights of the rows of all processes."""
        own = len(self.groups.code) if self.given_weight is None else self.given_weight.sum()
        return float(sum(self.split.everybody(own)))

    @property
    def group_masses(self):
        """Weight of every group in the rows of all processes, of shape (n_groups,)."""
        return sum(self.split.everybody(code_masses(self.groups.code, len(self.groups.names), self.given_weight)))

    def masses_in(self, labels, n_clusters):
        """Weight of every group in hard clusters, in the rows of all processes.

        Parameters
        ----------
        labels : numpy.ndarray of shape (n_obs,)
            The cluster of every row of this process.
        n_clusters : int
            Number of clusters.

        Returns
        -------
        numpy.ndarray of shape (n_clusters, n_groups)
        """
        shape = n_clusters, len(self.groups.names)
        return sum(self.split.everybody(cell_masses(labels, self.groups.code, shape, self.given_weight)))

    @property
    def relative_weight(self):
        """Weights whose mean over all rows is 1, for losses per row."""
        scale = self.split.n_obs / self.total_weight
        return self.weight if scale == 1 else self.weight * scale


def some_rows(data: Data, rows, n_parts, argument, points) -> Data:
    """`data.taken(rows)`, with more rows if fewer than `n_parts` of them are distinct; an error if the table has fewer.

    `points(columns)`: the numbers by which rows are told apart.
    """
    known = distinct_places(lambda part: points(data.columns.take(rows[part], data.split)), n_parts)
    if len(known) < n_parts:
        split = data.split
        further = distinct_rows(
            lambda own: points(data.columns.take(own)), n_parts, argument, split.everybody, split.first
        )
        rows = np.union1d(rows, further)
    return data.taken(rows)
