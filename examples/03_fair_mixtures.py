# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Fair mixtures with NumPyro
#
# A fair mixture is a mixture model with one more factor in its density: exp(-lambda N Delta). Here N is the number of rows,
# and Delta is the gap. The gap compares, cluster by cluster, the share of each group that the cluster holds; it is the
# largest difference. This page fits the model first as a NumPyro user would, then with the estimator. It shows a problem that
# is easily missed: a second mode.

# %%
import os

import jax
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from numpyro.infer import MCMC, NUTS

import bayesfair as bf

FAST = os.environ.get("BAYESFAIR_FAST") == "1"  # small settings, for tests; the text describes the full ones
N = 100 if FAST else 500

# %% [markdown]
# ## Data with two good answers
#
# The data are five blobs, and we ask for three clusters. Four blobs stand at the corners of a near square, so two pairs of
# them have to be merged. Most circles are below, most triangles above. Merging left with right gives clusters that are
# slightly more likely, but unfair. Merging bottom with top gives fair clusters.

# %%
rng = np.random.default_rng(0)
blob = rng.integers(5, size=N)
corners = np.array([[-1.6, -1.7], [1.6, -1.7], [-1.6, 1.7], [1.6, 1.7], [9, 0]])
X = pd.DataFrame(corners[blob] + 0.6 * rng.normal(size=(N, 2)), columns=["first feature", "second feature"])
group = (rng.random(N) < np.array([0.3, 0.3, 0.7, 0.7, 0.5])[blob]).astype(int)

fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
for value, marker, color in ((0, "o", "#332288"), (1, "^", "#CC6677")):
    X[group == value].plot.scatter(*X.columns, marker=marker, color=color, s=14, label=f"group {value}", ax=ax)
ax.set_aspect("equal")
_ = ax.legend(loc="center", bbox_to_anchor=(0.65, 0.8))

# %% [markdown]
# ## As a NumPyro model
#
# `fair_gaussian_mixture` is a NumPyro model function. It sums the labels out, so NUTS can sample the rest. Its sites are
# `weights`, `means`, `scales` and `gap` (Delta).

# %%
settings = {"n_components": 3, "fairness_weight": 0.05}
draws = 20 if FAST else 500


def sample(key):
    mcmc = MCMC(NUTS(bf.models.fair_gaussian_mixture), num_warmup=draws, num_samples=draws, progress_bar=False)
    mcmc.run(key, X, group, **settings)
    return mcmc.get_samples()


sites = jax.jit(sample)(jax.random.key(0))  # without `jit` NumPyro's set-up is compiled operation by operation
print({name: value.shape for name, value in sites.items()})
print(f"gap {sites['gap'].mean():.3f}, standard deviation {sites['gap'].std():.3f}")

# %% [markdown]
# One chain, one gap, a small standard deviation, no divergences. Nothing shows that the chain saw only half of the posterior.

# %% [markdown]
# ## Chains that start in different places
#
# The estimator starts its chains in different places: at a fair mixture, at k-means, at a random partition and at an unfair
# mixture. It warns if the chains disagree.

# %%
run = {"num_warmup": draws, "num_draws": draws, "random_state": 0, "progress_bar": False}
plain = bf.BayesianFairMixture(3, fairness_weight=0.05, **run).fit(X, sensitive_features=group)
summary = bf.posterior.summary(plain.posterior_)
summary.loc[summary.index.str.contains("lp|gap|balance"), ["mean", "sd", "ess_bulk", "r_hat"]].round(3)

# %% [markdown]
# The log density (`lp`) hardly shows the problem, because both modes are equally high. The gap does: its R-hat is far above
# 1.01. The trace shows why: each chain stays where it began.

# %%
axes = bf.plots.trace(plain.posterior_, var_names=["lp", "gap", "balance"])

# %% [markdown]
# ## Tempering
#
# `tempering=True` runs several replicas of each chain. In the hotter replicas the data and the fairness factor count for
# less; in the hottest one they count as much as about ten rows. There the chain moves freely between the modes. Replicas
# exchange their states, and only the coldest one gives draws.

# %%
run = {**run, "num_draws": 20 if FAST else 2000}
tempered = bf.BayesianFairMixture(3, fairness_weight=0.05, tempering=True, **run).fit(X, sensitive_features=group)
summary = bf.posterior.summary(tempered.posterior_)
print(summary.loc[["lp", "gap", "balance"], ["mean", "sd", "ess_bulk", "r_hat"]].round(3))
gap = tempered.posterior_["sample_stats"]["gap"].values
print("mass of the fair mode, chain by chain:", (gap < 0.15).mean(axis=1).round(2))

# %% [markdown]
# Every chain now visits both modes, and the chains nearly agree on the mass of each. This is the posterior at this lambda: the
# data do not decide between the two clusterings, and a report should say so.

# %%
axes = bf.plots.trace(tempered.posterior_, var_names=["lp", "gap", "balance"])

# %% [markdown]
# The uncertainty picture shows the same row by row. The far blob is certain. Two opposite corners change their partner from
# one mode to the other, so their marks are large. (The other two corners keep the numbers of their clusters.)

# %%
ax = bf.plots.uncertainty(tempered.posterior_)

# %% [markdown]
# ## More weight on fairness
#
# At lambda = 1 the unfair mode is gone. The chains agree without tempering, wherever they start.

# %%
run = {**run, "num_draws": draws}
fair = bf.BayesianFairMixture(3, fairness_weight=1.0, **run).fit(X, sensitive_features=group)
print(f"Delta of the map {fair.gap_:.3f}, of the labels {fair.hard_gap_:.3f}")
print(bf.posterior.summary(fair.posterior_).loc[["lp", "gap"], ["mean", "sd", "ess_bulk", "r_hat"]].round(3))

# %% [markdown]
# ## Does the model fit?
#
# We compare tables simulated from the posterior with the observed one. Three round clusters cannot describe five blobs, and
# the picture shows it: the observed distribution functions have steps, and the band of simulated ones has none. A fair model
# needs this check as much as any other.

# %%
axes = bf.plots.predictive(fair.posterior_predictive())

# %% [markdown]
# The prior is weak: some tables simulated from it are narrower than the data, others several times wider.

# %%
axes = bf.plots.predictive(fair.prior_predictive())
