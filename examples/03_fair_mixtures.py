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
# A fair mixture is an ordinary mixture model whose density has one more factor, exp(-lambda N Delta): Delta is the largest
# difference between the groups in the share of them that a cluster holds. This page runs it as a NumPyro user would, then
# through the estimator, and shows the one thing that goes wrong unnoticed: a second mode.

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
# Five blobs, and we ask for three clusters. Four blobs stand on the corners of a near square; two pairs of them have to be
# merged. Circles are frequent below, triangles above. Merged along the rows the clusters are a little likelier and unfair,
# merged along the columns they are fair.

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
ax.legend(loc="center", bbox_to_anchor=(0.65, 0.8))

# %% [markdown]
# ## As a NumPyro model
#
# `fair_gaussian_mixture` is a model function. Labels are summed out, so NUTS works. Sites are `weights`, `means`, `scales`, and
# `gap`, which is Delta.

# %%
settings = {"n_components": 3, "fairness_weight": 0.05}
draws = 20 if FAST else 500
mcmc = MCMC(NUTS(bf.models.fair_gaussian_mixture), num_warmup=draws, num_samples=draws, progress_bar=False)
mcmc.run(jax.random.key(0), X, group, **settings)
sites = mcmc.get_samples()
print({name: value.shape for name, value in sites.items()})
print(f"gap {sites['gap'].mean():.3f}, standard deviation {sites['gap'].std():.3f}")

# %% [markdown]
# One chain, one gap, a small standard deviation, no divergences. Nothing says that this is half of the posterior.

# %% [markdown]
# ## Chains that start in different places on purpose
#
# The estimator starts its chains at a fair engine solution, at k-means, at a random partition and at an unfair solution. It
# warns when they disagree.

# %%
run = {"num_warmup": draws, "num_draws": draws, "random_state": 0, "progress_bar": False}
plain = bf.BayesianFairMixture(3, fairness_weight=0.05, **run).fit(X, sensitive_features=group)
summary = bf.posterior.summary(plain.posterior_)
summary.loc[summary.index.str.contains("lp|gap|balance"), ["mean", "sd", "ess_bulk", "r_hat"]].round(3)

# %% [markdown]
# The density (`lp`) has nothing to report: both modes are equally high. Delta has. Its R-hat is far above 1.05, and the trace
# shows why: each chain stays where it began.

# %%
axes = bf.plots.trace(plain.posterior_, var_names=["lp", "gap", "balance"])

# %% [markdown]
# ## Tempering
#
# `tempering=True` runs replicas of each chain in which everything observed counts for less, down to about ten rows' worth.
# There the modes melt. Replicas exchange their states, and the draws are those of the coldest one.

# %%
run = {**run, "num_draws": 20 if FAST else 2000}
tempered = bf.BayesianFairMixture(3, fairness_weight=0.05, tempering=True, **run).fit(X, sensitive_features=group)
summary = bf.posterior.summary(tempered.posterior_)
print(summary.loc[["lp", "gap", "balance"], ["mean", "sd", "ess_bulk", "r_hat"]].round(3))
gap = tempered.posterior_["sample_stats"]["gap"].values
print("mass of the fair mode, chain by chain:", (gap < 0.15).mean(axis=1).round(2))

# %% [markdown]
# Every chain now visits both modes, and they agree on how much each weighs. That is the posterior at this lambda: the data
# do not decide between the two clusterings, and an honest report says so.

# %%
axes = bf.plots.trace(tempered.posterior_, var_names=["lp", "gap", "balance"])

# %% [markdown]
# The uncertainty picture says the same row by row. The far blob is sure. Two opposite corners go with one neighbour in one
# mode and with the other neighbour in the other: their large marks are the second mode. (The other two corners give the
# clusters their numbers.)

# %%
ax = bf.plots.uncertainty(tempered.posterior_)

# %% [markdown]
# ## More weight on fairness
#
# At lambda = 1 the unfair mode is gone, and chains from all starts agree without tempering.

# %%
run = {**run, "num_draws": draws}
fair = bf.BayesianFairMixture(3, fairness_weight=1.0, **run).fit(X, sensitive_features=group)
print(f"Delta of the map {fair.gap_:.3f}, of the labels {fair.hard_gap_:.3f}")
print(bf.posterior.summary(fair.posterior_).loc[["lp", "gap"], ["mean", "sd", "ess_bulk", "r_hat"]].round(3))

# %% [markdown]
# ## Does the model fit?
#
# Tables simulated from the posterior, against the one observed. Three round clusters cannot be five blobs, and the picture
# shows it: the observed distribution functions have steps that the band of the simulated ones lacks. Fairness is no excuse
# for not looking.

# %%
axes = bf.plots.predictive(fair.posterior_predictive())

# %% [markdown]
# The prior is weak: tables simulated from it are anything from narrower to several times wider than the data.

# %%
axes = bf.plots.predictive(fair.prior_predictive())
