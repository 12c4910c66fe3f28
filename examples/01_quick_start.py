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
# `bayesfair` divides the rows of a table into clusters in which protected groups have the shares that they have in the whole
# table. It guarantees that balance: every cluster holds every group's share to within one row. And it draws from a posterior
# over such clusterings, so that each row has a cluster, a probability and a runner-up. This page goes from a table to pictures.

# %%
import os
import tempfile
from pathlib import Path

from sklearn.preprocessing import StandardScaler

import bayesfair as bf

FAST = os.environ.get("BAYESFAIR_FAST") == "1"  # small settings, for tests; the text describes the full ones

# %% [markdown]
# ## The data
#
# The table comes with scikit-learn: 442 patients, nine measurements. The protected attribute is sex. The measurements have
# different units, so we standardise them, as for k-means.

# %%
data = bf.datasets.load_diabetes()
X = StandardScaler().set_output(transform="pandas").fit_transform(data.features)
print(data)

# %% [markdown]
# ## The fit
#
# `GibbsFairClustering` is a scikit-learn estimator. The protected attribute goes into `fit` by name. It is never used as a
# feature. The default, `target="labels"`, is the posterior of the labels themselves. `target="joint"` is that of the paper,
# over fairlets and clusters.
#
# `fit` works in three steps. Short runs look for modes: solutions between which chains seldom move. The warm-up then
# chooses how many sweeps lie between two draws, because clusterings of neighbouring sweeps are alike. At last four chains draw,
# each from a mode that holds mass, as far as that is known. A notebook shows a fitted estimator with what is to be known of
# its posterior.

# %%
settings = {"num_warmup": 20, "num_draws": 20} if FAST else {}
est = bf.GibbsFairClustering(3, random_state=0, progress_bar=False, **settings)
est.fit(X, sensitive_features=data.sensitive)

# %% [markdown]
# ## Who is where
#
# `labels_` is one clustering: each patient in the likeliest cluster, as far as balance allows. The table has one row for each
# cluster. `balance` is the smaller group's count divided by the larger one's; no clustering can exceed that of the whole
# table. `off_by` is how many patients of a group are missing or too many: less than one, everywhere.

# %%
report = bf.fairness.report(est.labels_, data.sensitive, overall=True)
report.drop(columns="kl").round(3)

# %%
tree = est.posterior_  # an xarray.DataTree, which ArviZ reads
balance = tree["sample_stats"]["balance"]
print(f"balance of the whole table: {report.attrs['best_balance']:.2f}")
print(f"balance of the {balance.size:,} draws: {float(balance.min()):.2f} to {float(balance.max()):.2f}")

# %% [markdown]
# That holds for every draw, and not only for this clustering: the posterior lives on balanced clusterings alone.

# %% [markdown]
# ## Picture 1: how sure
#
# Colour is the cluster, the marker is the group, and the size is the probability that the patient belongs elsewhere.
# Nine measurements are shown on two axes, so clusters overlap in the picture more than they do in the data.

# %%
ax = bf.plots.uncertainty(tree)

# %% [markdown]
# Both markers occur in every colour: that is balance. Patients at the outer ends have small marks: they are sure. The large
# marks lie where two clusters meet. In a live notebook `bf.plots.explore(tree)` draws the same points, and says at the pointer
# who a patient is.

# %% [markdown]
# ## What the clusters are
#
# Every measurement by cluster, in the units of the table. The one that tells the clusters apart best comes first. A colour
# says how many standard deviations the mean of a cluster lies above or below that of all patients. The shares of the sexes
# stand below.

# %%
ax = bf.plots.profile(tree, data.features)

# %% [markdown]
# One cluster has the highest cholesterol (`s1`, `s2`) and the heaviest patients. One is younger and lighter, and below average
# in nearly all measurements. The third lies between them, near the average.

# %% [markdown]
# ## Picture 2: who is together
#
# Every row and every column is a patient, in the order of the clusters. Blue means together in most draws.

# %%
ax = bf.plots.co_clustering(tree)

# %% [markdown]
# Two blocks on the diagonal have a dark core, whose members are together in nearly every draw, and a paler fringe. The block
# of the cluster between them is paler. The stripes outside the blocks are the patients of the fringe, seen in another cluster's
# company.

# %% [markdown]
# ## Picture 3: can the chains be trusted
#
# One colour per chain. Chains that agree lie on top of each other.

# %%
axes = bf.plots.trace(tree, var_names=["lp", "clustering_loss", "lambda_c", "balance"])

# %% [markdown]
# They do: no chain stays away from the others, and the four histograms of each row are nearly the same.
#
# The table says the same in numbers. R-hat compares the spread between chains with the spread within them. It should be below
# 1.01, and the effective sample size (`ess_bulk`) above 400. If they are not, raise `num_warmup`, which chooses the distance
# between two draws (`thinning_`), then `num_draws`. From `eti89_lb` to `eti89_ub` lie 89% of the draws. The last rows are
# pairs of patients, together or not, on which the draws are most divided. Agreement says nothing about modes that no chain
# saw. The sentences below the table say which modes the search found, and from how many starts.
#
# The diagnostic pictures of ArviZ take these scalars, `bf.posterior.diagnostic_vars(tree)`.

# %%
print("sweeps from draw to draw:", est.thinning_)
bf.posterior.summary(tree)

# %% [markdown]
# ## The patients to look at twice
#
# `memberships` has one row for each patient: the cluster, its probability, and the runner-up. These are the least certain.

# %%
shown = ["cluster", "probability", "runner_up", "runner_up_probability", "group"]
bf.posterior.memberships(tree).nsmallest(5, "probability")[shown].round(2)

# %%
ax = bf.plots.uncertainty_profile(tree)
certain = (est.misclassification_probability_ < 0.1).mean()
print(f"{certain:.0%} of the patients have a probability below 0.1 of being elsewhere")

# %% [markdown]
# The curves fall without a step: there is no line between the sure and the unsure.

# %% [markdown]
# ## Keep it, go on with it
#
# `save` writes data, settings, draws and the state of the chains to one file. `load` and `resume` continue the run. They give
# the same draws as one longer run, bit for bit.

# %%
file = Path(tempfile.mkdtemp()) / "quick-start.nc"
est.save(file)
longer = bf.GibbsFairClustering.load(file).resume(num_draws=10)
before = tree["posterior"].sizes["draw"]
print(f"draws per chain: {before} before, {longer.posterior_['posterior'].sizes['draw']} after")

# %% [markdown]
# From here: [an audit](07_audit) ends in a report, [several groups and crossed attributes](05_beyond_two_groups) go beyond two
# groups, and [the Gibbs paper's study](02_gibbs_study) takes the posterior of the paper, `target="joint"`, and shows what
# fairness changes.
