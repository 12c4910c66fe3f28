"""The joint target, exactly eq. (9) of the paper: log p(B, C) = -lambda_f L_f(B) - lambda_c L_c(C | u(B)) + const."""

import jax.numpy as jnp

from bayesfair.gibbs.moves.blocked import BlockedReallocation, GivenCenters, log_block_ratio
from bayesfair.gibbs.moves.border import BorderVisits
from bayesfair.gibbs.moves.loop_steps import LoopSteps
from bayesfair.gibbs.moves.swaps import Swaps
from bayesfair.gibbs.moves.swaps_in_turn import SwapsInTurn
from bayesfair.gibbs.states import OpenState
from bayesfair.gibbs.sweep import Repeat
from bayesfair.gibbs.target import as_pytree
from bayesfair.gibbs.targets.fairlets import FairletTarget

PATH_ROUNDS = 4  # rounds of swaps at every step of a jump
PATH_BLOCKS, PATH_WHOLE = 8, 2_000  # blocks of its reallocations; from PATH_WHOLE fairlets on, one block


@as_pytree
class Joint(FairletTarget):
    """B and C jointly. If the loss has conjugate centres m, fairlets swap members in parallel given m."""

    clustering_moves_fairlets = True

    def moves(self, settings):
        reallocation, update = self.reallocation(settings), self.temperature_moves()
        rounds = self.swap_rounds()
        if rounds and settings.fairlet_move == "rectangular-loop":
            return LoopSteps(self.n_obs), Repeat((reallocation, *update))
        if self.loss.augmentation is None or rounds == 0:
            swaps = SwapsInTurn() if rounds else Swaps(0)
            return swaps, Repeat((reallocation, *update))
        if isinstance(reallocation, GivenCenters):  # one draw of the centres serves both
            return GivenCenters((Swaps(rounds), *reallocation.moves)), *update
        visits = () if self.n_clusters == 1 else (BorderVisits.of(self.n_obs),)
        return GivenCenters((Swaps(rounds), *visits)), Repeat((reallocation, *update))

    def path_moves(self):
        if self.loss.augmentation is None:
            return ()
        blocks = min(PATH_BLOCKS, self.n_fairlets) if self.n_fairlets < PATH_WHOLE else 1
        return Swaps(min(self.swap_rounds(), PATH_ROUNDS)), BlockedReallocation(blocks)

    def swap_energies(self, state: OpenState):
        """-log p(B | C, m), one term per fairlet."""
        units = self.units_of(state)
        attraction = units.weight * self.loss.divergence(units.center, state.centers[state.cluster])
        return self.fairlet_energies(state) + state.lambdas.clustering * attraction

    def log_round_ratio(self, before: OpenState, after: OpenState):
        """The change in the augmentation's normaliser, if swaps can change it."""
        if not (self.free_sizes or self.loss.normalizer_reads_mean or self.weight is not None):
            return jnp.zeros((), self.x.dtype)
        old, new = self.units_of(before), self.units_of(after)
        return log_block_ratio(self, old, new, before.lambdas.clustering)
