"""The cut: B ~ exp(-lambda_f L_f), then C | B ~ exp(-lambda_c L_c); the aim of the paper's Algorithm 1 and (12).

One step of C per step of B is not exact for it (Plummer 2015): `inner_steps` reallocations approach C | B.
"""

from bayesfair.gibbs.moves.loop_steps import LoopSteps
from bayesfair.gibbs.moves.swaps import Swaps
from bayesfair.gibbs.sweep import Repeat
from bayesfair.gibbs.target import as_pytree
from bayesfair.gibbs.targets.fairlets import FairletTarget


@as_pytree
class Cut(FairletTarget):
    """B by itself, C given B. There is no `lp`: the density is known only up to the sum over all clusterings of B.

    lambda_f stays at its start: clusters must not influence the decomposition.
    """

    clusters_are_independent = True
    statistics = {name: kind for name, kind in FairletTarget.statistics.items() if name != "lp"}  # noqa: RUF012

    def moves(self, settings):
        inner = self.reallocation(settings), *self.temperature_moves()
        rounds = self.swap_rounds()
        in_loop = rounds and settings.fairlet_move == "rectangular-loop"
        return LoopSteps(self.n_obs) if in_loop else Swaps(rounds), Repeat(inner, settings.inner_steps)

    def log_density(self, state, lambdas, losses=None):
        return None

    def with_dispersion(self, lambdas, inverse_dispersion):
        return self.of_dispersion(inverse_dispersion)._replace(fairlet=lambdas.fairlet)
