"""How many dimensions of a table count in the law of lambda, which has N d / h degrees of freedom.

d must not grow faster than the loss. A text column of 60 levels spans 59 dimensions, but rows differ by no more in it than in
one number: 59 degrees of freedom would raise lambda, so that columns of pure noise would make every row look sure. Likewise
a column that repeats another adds to the loss, but tells nothing new.
"""

import numpy as np
from jaxtyping import Float

from bayesfair._arrays import row_blocks
from bayesfair._scaling import ROUNDING, center_and_spread
from bayesfair.fairlets.dissimilarity import Minkowski
from bayesfair.gibbs.loss import Loss, NamedLoss

DETERMINED = 1e-4  # variance of standardised numbers in a direction, below which some determine the others


def dimensions_that_count(
    X: Float[np.ndarray, "obs dim"], n_numbers: int, widths, loss: Loss | NamedLoss, weight=None
) -> float:
    """d, of an encoded table (N, d'): `n_numbers` columns of numbers, then the indicators of each categorical column.

    Numbers count as many dimensions as they span. A categorical column counts the ratio of its cost, with everybody in one
    cluster, to that of a dimension of the numbers, or without numbers to that of an even yes-or-no column. Columns that divide
    the rows alike count together at most the dimensions that they span, one less than their levels. `widths`: of the
    categorical columns, how many indicators each has; `weight` (N,): of rows.

    For squared distances a further column of noise never raises d / L, the estimate of lambda up to a factor.
    """
    numbers, spanned = X[:, :n_numbers], _n_spanned(X[:, :n_numbers])
    if not len(widths):
        return float(spanned)
    with np.errstate(over="ignore"):  # numbers too large to be squared are refused later, by name
        unit = _cost(numbers, loss, weight) / spanned if spanned else 0.0
    most, counted, first = {}, {}, n_numbers
    for width in widths:
        block, first = X[:, first : first + width], first + width
        same = _division(block).tobytes()
        most[same] = max(width, 2) - 1
        one = unit or _cost(_even_column(block), loss, None)
        counted[same] = counted.get(same, 0.0) + _cost(block, loss, weight) / one
    return spanned + float(sum(min(most[same], counted[same]) for same in counted))


def _n_spanned(numbers):
    """Dimensions that numbers (N, d) span about their mean. Fewer rows than columns cannot tell: all that vary count."""
    if numbers.shape[1] == 0:
        return 0
    middle, spread, _ = center_and_spread(numbers)
    varies = spread > ROUNDING * np.abs(middle)
    if varies.sum() >= len(numbers):
        return int(varies.sum())
    products = np.zeros((varies.sum(),) * 2)
    for rows in row_blocks(len(numbers)):
        part = (numbers[rows][:, varies] - middle[varies]) / spread[varies]
        products += part.T @ part
    return int((np.linalg.eigvalsh(products / len(numbers)) > DETERMINED).sum())


def _division(block):
    """Numbers (N,) of the levels, in the order in which they appear."""
    code = (block[:, 0] > 0).astype(int) if block.shape[1] == 1 else block.argmax(1)
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _even_column(block):
    """A column of two even levels, with as many indicators and at the scale of a block."""
    scale = block.max()
    return scale * (np.eye(2) if block.shape[1] > 1 else np.array([[0.0], [1.0]]))


def _cost(X, loss, weight):
    """Mean cost of rows for their mean, a sum over columns: of powers of differences if the loss is a norm."""
    X = np.asarray(X, np.float64)
    mean = np.average(X, axis=0, weights=weight)
    if isinstance(loss.dissimilarity, Minkowski):
        paid = (np.abs(X - mean) ** loss.dissimilarity.power).sum(1)
    else:
        paid = loss.dissimilarity.to_center(X, loss.dissimilarity.interior(mean[None])[0])
    return float(np.average(paid, weights=weight))
