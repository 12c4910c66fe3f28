"""Results of a fitted mixture, all from one function: the log joint densities of rows and components."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from bayesfair._arrays import power_of_two, row_blocks
from bayesfair._check import message, tell
from bayesfair._jit import usual_settings
from bayesfair.engines.base import Engine

FEWEST = 32  # least number of rows whose densities are computed together


class MixtureEngine(Engine):
    """An engine that writes `log_joint(columns)`: log pi_k + log f(x_i; theta_k), float64 (N, K), in the units of X."""

    parts = "n_components"
    weights_: np.ndarray
    means_: np.ndarray
    covariances_: np.ndarray

    def assign(self, columns):
        return self._of_log_joint(lambda log_joint: log_joint.argmax(1), columns)

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """The probability that a row belongs to each component.

        Parameters
        ----------
        X : array-like of shape (n_obs, n_features)
            Features, with the columns of the fit. New rows are welcome.

        Returns
        -------
        numpy.ndarray of shape (n_obs, n_components)
            Rows sum to 1. A row without any entry has the weights of the components.
        """
        return self._of_rows(lambda log_joint: softmax(log_joint, 1), X)

    def score_samples(self, X: ArrayLike) -> np.ndarray:
        """The log density of every row, of what it has.

        Parameters
        ----------
        X : array-like of shape (n_obs, n_features)
            Features, with the columns of the fit.

        Returns
        -------
        numpy.ndarray of shape (n_obs,)
            In nats, in the units of X.
        """
        return self._of_rows(lambda log_joint: logsumexp(log_joint, 1), X)

    def score(self, X: ArrayLike, y=None) -> float:
        """The mean log density of the rows.

        Parameters
        ----------
        X : array-like of shape (n_obs, n_features)
            Features, with the columns of the fit.
        y : None
            Not used.

        Returns
        -------
        float
            In nats, in the units of X.
        """
        return float(self.score_samples(X).mean())

    @usual_settings()
    def _of_rows(self, of, X):
        check_is_fitted(self)
        return self._of_log_joint(of, self.read(X, reset=False))

    def _of_log_joint(self, of, columns):
        """`of(log joint densities)`, by blocks, padded with their last row: few sizes compile, all rows round alike."""
        found = []
        for block in row_blocks(len(columns.continuous)):
            n_rows = block.stop - block.start
            size = max(FEWEST, power_of_two(n_rows))
            rows = np.minimum(np.arange(block.start, block.start + size), block.stop - 1)
            log_joint = self.log_joint(columns.take(rows))[:n_rows]
            check_has_density(np.isfinite(log_joint).any(1), block.start)
            found.append(of(log_joint))
        return np.concatenate(found)

    def _warn_of_empty(self, remedy, used=None):
        """Warn of components that are no row's most probable one; `used`: those that are, over all processes."""
        empty = np.setdiff1d(np.arange(self.n_parts), self.labels_ if used is None else used).tolist()
        if empty:
            what = f"no row has its largest responsibility in components {empty}"
            tell(f"{type(self).__name__}: {what}. Remedy: {remedy}", ConvergenceWarning)


def check_has_density(has_density, first=0):
    """Raise a ValueError for the first of the rows, numbered from `first` on, at which no component has a density."""
    if not has_density.all():
        got = f"row {first + has_density.argmin()}, so far away that every component's density is 0 there"
        raise ValueError(message("X", "be near the rows of the fit", got, "Correct it, or use the units of the fit."))
