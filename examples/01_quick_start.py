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
# # Quick start
#
# You have a table and a protected attribute. You want clusters in which the groups are mixed as they are in the
# population, and you want to know how sure each membership is. This page goes from the table to three pictures.

# %%
import os
import tempfile
from pathlib import Path

import pandas as pd
from sklearn.preprocessing import StandardScaler

import bayesfair as bf

FAST = os.environ.get("BAYESFAIR_FAST") == "1"  # small settings, for tests; the text describes the full ones

# %% [markdown]
# ## The data
#
# The table comes with scikit-learn: 442 patients, nine measurements. The protected attribute is sex. Measurements have
# different units, so we standardise them, as for k-means.

# %%
data = bf.datasets.load_diabetes()
X = StandardScaler().set_output(transform="pandas").fit_transform(data.features)
print(data)

# %% [markdown]
# ## The fit
#
# `GibbsFairClustering` is a scikit-learn estimator. The protected attribute goes into `fit` by name. It is never used as
# a feature. Before four chains are run, 32 short runs look for modes, solutions of their own between which chains seldom
# move; chains begin in those that hold mass, as far as that is known. Clusterings of neighbouring sweeps are alike, so the
# warm-up chooses how many sweeps lie between two draws.

# %%
settings = {"num_warmup": 20, "num_draws": 20} if FAST else {}
est = bf.GibbsFairClustering(3, random_state=0, progress_bar=False, **settings)
est.fit(X, sensitive_features=data.sensitive)
tree = est.posterior_  # an xarray.DataTree, which ArviZ reads

# %% [markdown]
# ## Who is where
#
# `labels_` is one clustering: everybody in their likeliest cluster, as far as balance allows. The table has a row per cluster.
# `balance` is the smaller group's count divided by the larger one's; no clustering can exceed the population's.

# %%
report = bf.fairness.report(est.labels_, data.sensitive, overall=True)
report.drop(columns="kl").round(3)

# %%
balance = tree["sample_stats"]["balance"]
print(f"balance of the population: {report.attrs['best_balance']:.3f}")
print(f"balance of the {balance.size} draws: {float(balance.min()):.3f} to {float(balance.max()):.3f}")

# %% [markdown]
# The groups have 207 and 235 members, so a fairlet has one patient of the smaller group and one or two of the larger
# one. That guarantees a balance of at least 1/2 in every cluster of every draw. The draws are well above it, and their
# range ends near what the population allows.

# %% [markdown]
# ## Picture 1: how sure
#
# Colour is the cluster, the marker is the group, and the size is the probability that the patient belongs elsewhere.
# Nine measurements are shown on two axes, so clusters overlap in the picture more than they do in the data.

# %%
ax = bf.plots.uncertainty(tree)

# %% [markdown]
# Both markers occur in every colour: that is balance. The clusters lie side by side from right (0) to left (2). Patients
# at the outer ends have small marks, they are sure. The large marks are in between, where two clusters meet.

# %% [markdown]
# ## What the clusters are
#
# Every measurement by cluster, in the units of the table. The one that tells the clusters apart best comes first. A colour
# says how many standard deviations the mean of a cluster lies above or below that of all patients. The shares of the sexes
# stand below.

# %%
ax = bf.plots.profile(tree, data.features)

# %% [markdown]
# Cluster 2 has the highest cholesterol (`s1`, `s2`). Cluster 1 is heavier than average and has the highest blood pressure.
# Cluster 0 is younger and lighter, and below average in nearly all measurements.

# %% [markdown]
# ## Picture 2: who is together
#
# Every row and every column is a patient, in the order of the clusters. Blue means together in most draws.

# %%
ax = bf.plots.co_clustering(tree)

# %% [markdown]
# Each block on the diagonal has a dark core, whose members are together in nearly every draw, and a paler fringe. The
# stripes outside the blocks are the patients of the fringe, seen in another cluster's company. Clusters 0 and 2 hardly
# mix: what is uncertain is where cluster 1 begins and ends.

# %% [markdown]
# ## Picture 3: can the chains be trusted
#
# One colour per chain. Chains that agree lie on top of each other.

# %%
axes = bf.plots.trace(tree, var_names=["lp", "clustering_loss", "lambda_c", "balance"])

# %% [markdown]
# They do: no chain stays away from the others, and the four histograms of each row are nearly the same.
#
# The same in numbers. R-hat compares the spread between chains with the spread within them. It should be below 1.01, and
# the effective sample size (`ess_bulk`) above 400. Where they are not, raise `num_warmup`, from which the distance of two
# draws is chosen (`thinning_`), then `num_draws`. Rows named `lp, chain` are single chains, which have no R-hat. Agreement
# says nothing of modes that no chain saw; the sentence below the table does, as far as 32 starts can.

# %%
print("sweeps from draw to draw:", est.thinning_)
bf.posterior.summary(tree).round(3)

# %%
print(bf.posterior.modes_sentence(tree))

# %% [markdown]
# ## The patients to look at twice
#
# `misclassification_probability_` has one number per patient. These are the least certain. `labels_` is a single draw, and
# so it can hold a patient in a cluster where most other draws do not: then the number is near one.

# %%
doubt = pd.DataFrame(
    {"cluster": est.labels_, "sex": data.sensitive, "probability": est.misclassification_probability_.round(2)}
)
doubt.nlargest(5, "probability")

# %%
ax = bf.plots.uncertainty_profile(tree)
certain = (est.misclassification_probability_ < 0.1).mean()
print(f"{certain:.0%} of the patients are elsewhere with a probability below 0.1")

# %% [markdown]
# The curves fall without a step: there is no line between the sure and the unsure. Cluster 0 is the surest. Cluster 1, which
# lies between the others, is the least sure.

# %% [markdown]
# ## Keep it, go on with it
#
# `save` writes data, settings, draws and the state of the chains to one file. `load` and `resume` go on where the run
# ended: the same draws as one longer run, bit for bit.

# %%
file = Path(tempfile.mkdtemp()) / "quick-start.nc"
est.save(file)
longer = bf.GibbsFairClustering.load(file).resume(num_draws=10)
before = tree["posterior"].sizes["draw"]
print(f"draws per chain: {before} before, {longer.posterior_['posterior'].sizes['draw']} after")

# %% [markdown]
# From here: [the Gibbs paper's study](02_gibbs_study) shows what fairness changes,
# [several groups and crossed attributes](05_beyond_two_groups) go beyond two, and [an audit](07_audit) ends in a report.
