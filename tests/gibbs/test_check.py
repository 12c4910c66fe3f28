"""Every loss that ships keeps what `check_loss` tries, and each of its checks catches a loss that breaks one thing."""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiers import tiers

from bayesfair.fairlets import Minkowski
from bayesfair.gibbs import DissimilarityLoss, KMeansLoss, Loss, check_loss
from bayesfair.gibbs.losses import resolve_loss

X = np.random.default_rng(0).uniform(0.05, 0.95, (12, 2))


@pytest.mark.parametrize(
    "name", tiers(["kmeans", "minkowski", "kl", "itakura-saito", "binary"], ["kmeans", "minkowski"])
)
def test_losses_that_ship_keep_everything(name):
    check_loss(resolve_loss(name, 3.0), X, n_clusters=2)


def spread(each, units, n_clusters):
    return jax.ops.segment_sum(each, units.cluster, n_clusters)


@dataclass(frozen=True)
class Own(Loss):
    """Half the squared distance to the weighted mean, with nothing but `cluster_losses`."""

    def cluster_losses(self, units, n_clusters):
        mass = spread(units.weight, units, n_clusters)
        total = spread(units.weight[:, None] * units.center, units, n_clusters)
        mean = total / jnp.where(mass > 0, mass, 1.0)[:, None]
        return spread(self.each(units, jnp.square(units.center - mean[units.cluster]).sum(1)), units, n_clusters)

    def each(self, units, squares):
        return units.weight * squares / 2


def test_a_loss_of_cluster_losses_alone_keeps_everything():
    check_loss(Own(degree=2.0, translation_invariant=True), X)


@dataclass(frozen=True)
class WithAnArray(Own):
    scale: Any = field(default_factory=lambda: np.ones(2))


@dataclass(frozen=True)
class WithAnUnseenPart(Own):
    scale: Any = field(default=1.0, compare=False)


@dataclass(frozen=True)
class WithAStrangeDissimilarity(Own):
    dissimilarity: Any = field(default_factory=lambda: Strange())


class Strange(Minkowski):
    """Equal to nothing but itself."""

    __eq__, __hash__ = object.__eq__, object.__hash__


def paying(each):
    """A loss that pays `each(units, squares)` for the units."""
    return type("Paying", (Own,), {"each": lambda self, units, squares: each(units, squares)})


def but(base, **wrong):
    """A loss with other methods, which are given the right one first, bound to the loss."""

    def method(name, planted):
        return lambda self, *args: planted(getattr(base, name).__get__(self), *args)

    return type("Planted", (base,), {name: method(name, planted) for name, planted in wrong.items()})


def between(right, x, y):
    return np.abs(x - y).sum(-1) if isinstance(x, np.ndarray) else 0 * x[..., 0] * y[..., 0]


Whole = but(Own, cluster_losses=lambda right, units, k: right(units, k).sum())
Unguarded = but(Own, cluster_losses=lambda right, units, k: right(units, k) / spread(units.weight, units, k))
ForgetsToRemove = but(DissimilarityLoss, remove=lambda right, stats, *unit: stats)
InsertsElsewhere = but(KMeansLoss, insert=lambda right, stats, i, center, weight, k: stats.add(0, center, weight, +1))
ForgetsTheOldMean = but(
    KMeansLoss, insertion=lambda right, stats, i, x, weight, k: weight * right.__self__.divergence(x, stats.mean)
)
HalfThePairs = but(Minkowski, pairwise=lambda right, x, y: right(x, y) / 2)
NumPyOnly = but(Minkowski, between=between)
CountsEmptySlots = but(
    Minkowski, hub=lambda right, x, mask: right.__self__.to_center(x, x.mean(-2, keepdims=True)).sum(-1)
)
WidelyDrawn = but(KMeansLoss, draw_centers=lambda right, key, lambda_, means: right(key, lambda_ / 2, means))
OffCentre = but(
    KMeansLoss, draw_centers=lambda right, key, lambda_, means: right(key, lambda_, means) + 0.3 * means.mean
)
OneDimension = but(KMeansLoss, log_normalizer=lambda right, lambda_, means: right(lambda_, means) / means.sum.shape[1])
OtherDivergences = but(KMeansLoss, divergences=lambda right, u, centers: 2 * right(u, centers))
ReadsTheMean = but(KMeansLoss, log_normalizer=lambda right, lambda_, means: right(lambda_, means) + means.mean.sum(1))


class Homogeneous(Own):
    homogeneous = True


class OtherDivergence(KMeansLoss):
    """Of degree 2 like k-means, but no Bregman divergence; everything but `augmentation` is as `Loss` has it."""

    def divergence(self, x, y):
        return jnp.square(jnp.abs(x - y).sum(-1))

    start, remove, insert, insertion = Loss.start, Loss.remove, Loss.insert, Loss.insertion


class DifferenceOfLargeSums(Own):
    def cluster_losses(self, units, n_clusters):
        far = units.center + 100.0
        mass = spread(units.weight, units, n_clusters)
        total = spread(units.weight[:, None] * far, units, n_clusters)
        squares = spread(units.weight * jnp.square(far).sum(1), units, n_clusters)
        return squares - jnp.square(total).sum(1) / jnp.where(mass > 0, mass, 1.0)


SHIFTED = paying(lambda units, squares: units.weight * (squares + jnp.abs(units.center).sum(1)))
PLANTED = [
    (WithAnArray(), "be hashable and compare by value, got The truth value of an array"),
    (WithAnUnseenPart(), r"compare all that it holds, got \['scale'\]"),
    (WithAStrangeDissimilarity(), "be hashable and compare by value, got a copy that is unequal"),
    (paying(lambda units, squares: squares if squares.sum() > 1 else units.weight * squares)(), "must compile"),
    (Whole(), "return one number per cluster"),
    (paying(lambda units, squares: units.weight * jnp.sqrt(squares - 0.05))(), "be finite on X"),
    (paying(lambda units, squares: units.weight * squares / jnp.sqrt(squares))(), "be finite if a unit is alone"),
    (paying(lambda units, squares: -units.weight * squares)(), "be above zero if rows differ"),
    (paying(lambda units, squares: squares)(), "ignore units of weight zero"),
    (Unguarded(), "cost 0 if a cluster is empty"),
    (paying(lambda units, squares: units.weight * squares * jnp.arange(1, len(squares) + 1))(), "order of the units"),
    (
        paying(lambda units, squares: units.weight * squares * jnp.where(units.cluster == 0, 0.9, 1.0))(),
        "whatever the cluster's number",
    ),
    (
        paying(lambda units, squares: units.weight * squares * (1 + units.weight @ squares))(),
        "depend on its own units alone",
    ),
    (Own(degree=-1.0), "have a degree above zero"),
    (Homogeneous(), "degree None"),
    (Homogeneous(degree=1.0), r"obey L\(s X\) = s\^1.0 L\(X\), as it is `homogeneous`, got"),
    (Homogeneous(degree=2.0, dissimilarity=Minkowski()), "`homogeneous`, by its dissimilarity"),
    (SHIFTED(translation_invariant=True), "be `translation_invariant`, as it says, got"),
    (Own(translation_invariant=True, dissimilarity=resolve_loss("kl").dissimilarity), "says, by its dissimilarity"),
    (ForgetsToRemove(dissimilarity=Minkowski()), "return from `insertion`"),
    (InsertsElsewhere(), "return from `insertion`"),
    (ForgetsTheOldMean(), "return from `insertion`"),
    (Own(dissimilarity=HalfThePairs()), "`pairwise` is `between`"),
    (Own(dissimilarity=NumPyOnly()), "the same in NumPy and JAX"),
    (Own(dissimilarity=CountsEmptySlots()), "`hub` sums `to_center`"),
    (WidelyDrawn(), "whose normaliser it returns"),
    (OffCentre(translation_invariant=False), "whose normaliser it returns"),
    (OneDimension(), "whose normaliser it returns"),
    (OtherDivergence(), "for all m"),
    (OtherDivergences(), "have `divergences` equal to `divergence`"),
    (ReadsTheMean(), "does not depend on means"),
    (DifferenceOfLargeSums(), "accurate to a thousandth in float32"),
]


@pytest.mark.parametrize(("loss", "said"), PLANTED, ids=[said for _, said in PLANTED])
def test_each_check_catches_what_it_is_for(loss, said):
    with pytest.raises(AssertionError, match=said):
        check_loss(loss, X, n_clusters=2)


def test_tables_that_show_nothing_are_refused():
    with pytest.raises(ValueError, match="at least 8 rows, got 7"):
        check_loss(Own(), X[:7])
    with pytest.raises(ValueError, match="must be above 0 for 'itakura-saito'"):
        check_loss(resolve_loss("itakura-saito"), X - 1)
    with pytest.raises(AssertionError, match="be above zero if rows differ"):
        check_loss(Own(), np.zeros((8, 1)))
    with pytest.raises(NotImplementedError, match="must define cluster_losses"):
        check_loss(Loss(), X)
