"""What transfers of k-means gain in wide tables, from inner products of rows, without a pass over the columns.

A cluster's loss is its rows' own terms less ||S||^2 / W, with S the sum of its rows and W their mass. When rows that sum
to m leave it, ||S - m||^2 = ||S||^2 - 2 <S, m> + ||m||^2, and all three are sums of inner products.
"""

import numpy as np

from bayesfair.balanced.centroids import Means
from bayesfair.balanced.problem import BalancedProblem

MOST_ROWS = 4096  # 128 MB of inner products
WIDE = 64  # columns above which looking them up is faster


def are_worth_it(problem: BalancedProblem):
    """Is the table wide, with few enough rows, and the loss that of k-means?"""
    n_obs, dim = problem.X.shape
    return isinstance(problem.loss, Means) and dim > WIDE and n_obs <= MOST_ROWS


class InnerProducts:
    """Inner products of the rows with each other (obs, obs) and with the clusters' sums (obs, clusters)."""

    def __init__(self, X):
        self.X, self.of_rows = X, X @ X.T

    def start_from(self, sums):
        """Work the products with the sums out anew, which drops the rounding of all moves."""
        self.with_sums, self.squares = self.X @ sums.T, np.square(sums).sum(1)

    def move(self, people, weight, start, end):
        """Rows go from one cluster to another."""
        moved = self.of_rows[:, people] @ weight
        square = weight @ moved[people]
        for k, sign in ((start, -1), (end, 1)):
            self.squares[k] += 2 * sign * (weight @ self.with_sums[people, k]) + square
            self.with_sums[:, k] += sign * moved

    def after(self, k, to, rows, weight):
        """||S||^2 of clusters k and of clusters `to` after `rows` (changes, most) went over with these weights."""
        along = [(weight * self.with_sums[rows, at[:, None]]).sum(1) for at in (k, to)]
        products = self.of_rows[rows[:, :, None], rows[:, None]]
        square = np.einsum("ci,cij,cj->c", weight, products, weight, optimize=True)
        return self.squares[k] - 2 * along[0] + square, self.squares[to] + 2 * along[1] + square
