"""Three capabilities that moves need beyond the protocol (`target.py`).

A target inherits those whose moves it uses and defines the methods without a body here.
"""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int

from bayesfair.fairness.balanced import BalanceConstraint
from bayesfair.gibbs.loss import Loss, Units
from bayesfair.gibbs.states import Fairlets


class HasUnits:
    """Weighted units in clusters, under one loss and one lambda: for reallocation, draws of lambda and jumps between modes."""

    x: Float[Array, "..."]  #: An array of the type that all arrays of floats have.
    loss: Loss  #: The clustering loss.
    n_units: int  #: Number of units.
    n_numbers: float  #: See `Table`.
    modes: Any = None  #: `Modes` between which chains may jump. None if they do not.
    #: Whether units are independent given centres, apart from the product of the normalisers. Such targets jump in one
    #: step, others along a path.
    clusters_are_independent: bool = False

    def units_of(self, state) -> Units:
        """Units of an opened state."""
        raise NotImplementedError

    def total_loss(self, losses) -> Float[ArrayLike, ""]:
        """The loss of the rows; lambda is its inverse temperature."""
        raise NotImplementedError

    def of_dispersion(self, inverse_dispersion):
        """Inverse temperatures for lambda = 1 / (2 sigma^2), sigma the within-cluster standard deviation; lambda itself."""
        return inverse_dispersion

    def dispersion_of(self, lambdas) -> Float[Array, ""]:
        """The lambda that gives these inverse temperatures."""
        return lambdas

    def with_dispersion(self, lambdas, inverse_dispersion):
        """The inverse temperatures after lambda was drawn."""
        return self.of_dispersion(inverse_dispersion)

    def path_moves(self) -> tuple:
        """Moves given centres that a jump between modes makes at each step of its path; () if it has no such path."""
        return ()

    @property
    def degrees(self) -> float:
        """Power of lambda in the normaliser of exp(-lambda loss), N d / h for a loss of degree h (Rigon et al. 2023).

        N is the sum of the weights; d is the number of dimensions that count.
        """
        return self.n_numbers / self.loss.degree

    def log_law_of(self, inverse_dispersion) -> Float[Array, ""]:
        """Log of p(z, lambda) exp(lambda loss): (a + N d / h - 1) log lambda - b lambda; 0 if lambda is fixed."""
        if self.prior is None:
            return jnp.zeros((), self.x.dtype)
        power = self.prior.shape + self.degrees - 1
        return power * jnp.log(inverse_dispersion) - self.prior.rate * inverse_dispersion


class HasFairlets(HasUnits):
    """Fairlets whose slots may exchange members: for swaps, and for visits at the border of clusters."""

    n_fairlets: int  #: Number of fairlets.
    slot_group: tuple[int, ...]  #: The group that each slot is for.
    lower: Int[Array, "fairlets groups"]  #: Fewest members of each group in a fairlet.
    upper: Int[Array, "fairlets groups"]  #: Most members of each group in a fairlet.
    free_sizes: bool  #: Whether the two differ.
    anchor: int | None  #: The group that has one anchor in every fairlet. None in the hub form.
    swap_slots: tuple[int, ...]  #: The slots of all other groups.
    matchings: Int[Array, "matchings points"]  #: Involutions that pair near neighbours.
    has_phantoms: bool  #: Whether a slot is ever empty.
    clustering_moves_fairlets: bool = False  #: Whether the clustering loss enters the law of B.

    def opened(self, members: Int[Array, "fairlets slots"], x: Float[Array, "fairlets slots dim"]):
        """`Fairlets` with these members and features, and the bounds of all fairlets."""
        raise NotImplementedError

    def fairlet(self, state) -> Int[Array, " obs"]:
        """The fairlet of every row, at a state between sweeps, in the smallest integer type that holds it."""
        raise NotImplementedError

    def replace_slot(self, fairlets: Fairlets, slot: Int[Array, " fairlets"], incoming) -> Fairlets:
        """The fairlets after member `incoming[i]` took slot `slot[i]` of fairlet i."""
        raise NotImplementedError

    def units(self, fairlets: Fairlets, cluster: Int[Array, " fairlets"]) -> Units:
        """The fairlets as units."""
        raise NotImplementedError

    def fairlet_energies(self, state) -> Float[Array, " fairlets"]:
        """The fairlet loss's part of -log p(B), one term per fairlet."""
        raise NotImplementedError

    def swap_energies(self, state) -> Float[Array, " fairlets"]:
        """Energies for parallel swaps: -log of the law of B at this state, one term per fairlet."""
        return self.fairlet_energies(state)

    def log_round_ratio(self, before, after) -> Float[Array, ""]:
        """The part of the log ratio of a whole round of swaps that the fairlets' own terms omit."""
        return jnp.zeros((), self.x.dtype)


class HasLabels(HasUnits):
    """A cluster for every row, on the space of balanced labellings: for moves without fairlets."""

    n_groups: int  #: Number of groups.
    group: Int[Array, " obs"]  #: The group of every row.
    by_group: Int[Array, " obs"]  #: All rows, sorted by group.
    first_of_group: Int[Array, " groups_and_one"]  #: Where each group begins in `by_group`.
    constraint: BalanceConstraint  #: Which labellings are balanced.
    weights: Float[Array, " obs"]  #: Weights of the rows in the loss.
    bundles: Int[Array, "pools bundles members"]  #: Rows near each other.

    def counts(self, label: Int[Array, " obs"]) -> Int[Array, "clusters groups"]:
        """Members of each group in each cluster."""
        raise NotImplementedError

    def unit(self, i) -> tuple:
        """(i, its features, its weight)."""
        raise NotImplementedError
