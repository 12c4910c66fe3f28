"""Draws as a sampler would hand them over, from labels and scalars by name."""

from bayesfair.gibbs import Draws, Statistic

KINDS = {
    "lambda_f": Statistic("parameter", -1),
    "lambda_c": Statistic("parameter", -1),
    "fairlet_loss": Statistic("quantity", 1),
    "clustering_loss": Statistic("quantity", 1),
    "swap_rate": Statistic("figure"),
    "reallocation_rate": Statistic("figure"),
}


def draws_of(labels, **scalars):
    """`Draws` whose scalars are what a run declares them as, quantities of the draw where no run has them."""
    return Draws(labels, scalars, {name: KINDS.get(name, Statistic("quantity")) for name in scalars})
