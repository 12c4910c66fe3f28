"""Rough masses of modes of balanced labels, without jumps: correct to some tens of nats."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayesfair._jit import jit
from bayesfair.gibbs.capabilities import HasLabels
from bayesfair.gibbs.loss import BregmanLoss, cluster_means
from bayesfair.gibbs.modes import Mode

MOST_STATES = 8  # states of a mode that are used
BALANCING = 30  # rounds that fit expected counts to those of the clusters


class Estimates(NamedTuple):
    """Logs of the modes' masses, up to a constant, and standard errors, infinite if each mode has a single state."""

    value: Float[np.ndarray, " modes"]
    se: Float[np.ndarray, " modes"]


def log_masses(modes: list[Mode], target: HasLabels) -> Estimates:
    """The mean over a mode's states of the log density plus the entropy of the labels given the centres there.

    A mode of lower density may hold more: on 2,000 rows a log density lower by 561 went with an entropy higher by 563.
    """
    found = []
    for mode in modes:
        asked = mode.members[:: -(-len(mode.members) // MOST_STATES)]
        found.append(np.array([one.lp[-1] + float(label_entropy(target, one.state)) for one in asked]))
    several = [values for values in found if len(values) > 1]
    spread = np.sqrt(np.mean([values.var(ddof=1) for values in several])) if several else np.inf
    return Estimates(*np.array([(values.mean(), spread / np.sqrt(len(values))) for values in found]).T)


@jit
def label_entropy(target: HasLabels, state) -> Float[Array, ""]:
    """Entropy of labels that rows choose independently given the means of the clusters, with the groups' counts on average."""
    state = target.open(state)
    means = cluster_means(target.units_of(state), target.n_clusters)
    apart = BregmanLoss.divergences(target.loss, target.x, means.mean)
    logits = -state.lambda_c * target.weights[:, None] * apart
    counts = jnp.maximum(target.counts(state.label).T, 0.5).astype(logits.dtype)
    member = (target.group == jnp.arange(target.n_groups)[:, None]).astype(logits.dtype)

    def balanced(_, tilt):
        expected = member @ jax.nn.softmax(logits + tilt[target.group], 1)
        return tilt + jnp.log(counts) - jnp.log(expected)

    tilt = jax.lax.fori_loop(0, BALANCING, balanced, jnp.zeros_like(counts))
    log_p = jax.nn.log_softmax(logits + tilt[target.group], 1)
    return -(jnp.exp(log_p) * log_p).sum()
