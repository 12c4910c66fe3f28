"""The conjugate step of the inverse temperature, one lambda for both losses (DESIGN 2.4)."""

from dataclasses import dataclass

import jax

from bayesfair.gibbs.capabilities import HasUnits


@dataclass(frozen=True)
class DrawInverseDispersion:
    """lambda | B, C ~ Gamma(a + N d / h, rate b + loss) with the target's prior (a, b) (Rigon, Herring and Dunson 2023)."""

    def __call__(self, key, target: HasUnits, state):
        prior = target.prior
        rate = prior.rate + target.total_loss(target.losses(state))
        drawn = jax.random.gamma(key, prior.shape + target.degrees, dtype=target.x.dtype) / rate
        return state._replace(lambdas=target.with_dispersion(state.lambdas, drawn)), {}
