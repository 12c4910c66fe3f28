"""Gradient of a fair mixture's log density against the engines' E-step on the same rows, as a ratio (issue 4: at most 3).

python benchmarks/models/gradient_speed.py [--rows 30000]
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.handlers import seed, trace
from numpyro.infer.util import log_density

import bayesfair as bf
from bayesfair.engines.families import Components, EncodedTable, Family


def least_time(run, repeats=20):
    jax.block_until_ready(run())
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(run())
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=30_000)
    n_obs, dim, k = parser.parse_args().rows, 5, 10
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(n_obs, dim)), rng.integers(2, size=n_obs)
    table = EncodedTable(jnp.asarray(X, jnp.float32), jnp.asarray((X**2).sum(1), jnp.float32), jnp.zeros((n_obs, 0)))
    for covariance_type, shape in (("isotropic", ()), ("diag", (k, dim)), ("full", (k, dim, dim))):
        family = Family(covariance_type)
        mean = jnp.asarray(rng.normal(size=(k, dim)), jnp.float32)
        start = Components(jnp.zeros(k), mean, jnp.zeros(shape), jnp.zeros((k, 0)))
        e_step = jax.jit(lambda c, t, f=family: jax.nn.softmax(f.log_joint(c, t), 0))
        model, settings = bf.models.fair_gaussian_mixture, {"n_components": k, "covariance_type": covariance_type}
        settings |= {"fairness_weight": 1.0}
        sites = trace(seed(model, 0)).get_trace(X, groups, **settings)
        values = {
            name: site["value"] for name, site in sites.items() if site["type"] == "sample" and not site["is_observed"]
        }
        gradient = jax.jit(jax.grad(lambda v, s=settings, m=model: log_density(m, (X, groups), s, v)[0]))
        ours, theirs = least_time(lambda g=gradient, v=values: g(v)), least_time(lambda e=e_step, s=start: e(s, table))
        text = f"gradient {1e3 * ours:.1f} ms, E-step {1e3 * theirs:.1f} ms, ratio {ours / theirs:.2f}"
        print(f"{covariance_type:<10} N = {n_obs:,}, d = {dim}, K = {k}: {text}", flush=True)


if __name__ == "__main__":
    main()
