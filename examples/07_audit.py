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
# # An audit, from a CSV file to a report
#
# A bank has divided its clients into four segments, and offers something else to each. Is marital status spread evenly over the
# segments? If not, do even ones exist, what would they cost, and how sure would they be? And what may the report of the audit
# say? This page answers in that order.

# %%
import os
import tempfile
from pathlib import Path

import pandas as pd
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler

import bayesfair as bf

FAST = os.environ.get("BAYESFAIR_FAST") == "1"  # small settings, for tests; the text describes the full ones
ROWS, DRAWS = (240, 20) if FAST else (900, 1000)
folder = Path(tempfile.mkdtemp())

# %% [markdown]
# ## 0. A file
#
# This page needs a file to start from, so we write one, of clients of a Portuguese bank. Yours exists already.

# %%
bank = bf.datasets.subsample(bf.datasets.load_bank_sample(sensitive="married"), {"married": 3, "not married": 2}, ROWS)
bank.features.assign(marital=bank.sensitive).rename_axis("client").to_csv(folder / "clients.csv")

# %% [markdown]
# ## 1. Read, and look before anything else
#
# Missing values and rare groups decide what can be done. bayesfair refuses missing values and says where they are: to fill
# them in is your decision, and belongs in the report.

# %%
table = pd.read_csv(folder / "clients.csv", index_col="client")
marital = table.pop("marital")
print(f"{len(table)} rows, {table.isna().sum().sum()} missing entries")
print(marital.value_counts().to_string())

# %% [markdown]
# ## 2. Decide before you see results
#
# Write down now, not later: the columns, the protected attribute, the number of clusters, and when a membership counts as
# uncertain. Here there are four segments because the bank has four. Uncertain means a probability of misclassification above
# 0.1.

# %%
N_CLUSTERS, UNCERTAIN = 4, 0.1
X = StandardScaler().set_output(transform="pandas").fit_transform(table)

# %% [markdown]
# ## 3. What is there
#
# The bank's segments are k-means clusters. One row per segment: `proportion` is the share of each group in it, `gap` the
# difference between the share of the married and the share of the others that the segment holds.

# %%
segments = KMeans(N_CLUSTERS, n_init=10, random_state=0).fit_predict(X)
existing = bf.fairness.report(segments, marital, X, overall=True)
existing.filter(regex="size|proportion|balance|gap|within_ss").round(3)

# %% [markdown]
# The two small segments have nearly the shares of all clients. The two large ones have not: in segment 0 nearly three of four
# clients are married, and in segment 1 little more than one of two. Each holds about 0.15 more of one group than of the other
# (`gap`).

# %% [markdown]
# ## 4. What could be
#
# Now the posterior over four segments in which every draw keeps the groups' ratio, first under the paper's target, `"joint"`.
# Read the modes and the chains before any probability: which other answers exist, how much mass they have, and whether the
# chains agree.

# %%
RUN = {"num_warmup": DRAWS, "num_draws": DRAWS, "random_state": 0, "progress_bar": False}


def diagnostics(est):
    """The scalars with the largest R-hat."""
    summary = pd.DataFrame(bf.posterior.summary(est.posterior_))  # the numbers, without the sentences
    return summary[["mean", "sd", "ess_bulk", "r_hat"]].sort_values("r_hat", ascending=False)


first = bf.GibbsFairClustering(N_CLUSTERS, target="joint", **RUN).fit(X, sensitive_features=marital)
diagnostics(first).head(4).round(3)

# %%
print(bf.posterior.summary(first.posterior_).sentences["modes"])
bf.posterior.modes(first.posterior_).drop(columns=["starts", "chains"]).round(2)

# %%
axes = bf.plots.trace(first.posterior_, var_names=["lp", "cluster_size_4"])

# %% [markdown]
# Chains begin in the mode that holds most mass, as far as the search can tell. If R-hat is below 1.01, they agree about it.
# Here it is not: the smallest segment keeps its size for hundreds of draws, because a fairlet of five clients moves as a
# whole, and seldom. Moreover, under this target the masses of the other modes are only bounded, and bounds this wide exclude
# nothing. An auditor must be able to say what else could be, so we quote nothing but the balance from this run.

# %% [markdown]
# ## 5. A target whose modes can be weighed
#
# The report says which target was used, so changing it is allowed; hiding it is not. With `target="optimal"` the fairlets
# stay at the best decomposition found, and only the clusters are drawn. The uncertainty is then that of the clusters given
# the fairlets, and the report must say so. Given fairlets, modes are easier to weigh.

# %%
est = bf.GibbsFairClustering(N_CLUSTERS, target="optimal", **RUN).fit(X, sensitive_features=marital)
checks = diagnostics(est)
worst, least = checks["r_hat"].max(), checks["ess_bulk"].min()
print(f"largest R-hat {worst:.3f}, smallest effective sample size {least:.0f}")
print(bf.posterior.summary(est.posterior_).sentences["modes"])

# %%
fair = bf.fairness.report(est.labels_, marital, X, overall=True)
fair.filter(regex="size|proportion|balance|gap|within_ss").round(3)

# %%
ax = bf.plots.uncertainty(est.posterior_)

# %% [markdown]
# Now the chains agree. The segments are the younger and the older clients, and two small ones: long calls and high balances.
#
# Next, what balance costs, and whether four is a reasonable number.

# %%
ax = bf.plots.elbow(X, marital, range(2, 4 if FAST else 9))

# %% [markdown]
# Both lines bend at four. The distance between them is the price of balance. It is small beside what one segment more or less
# would change.

# %% [markdown]
# ## 6. Who is uncertain, and is doubt shared evenly
#
# Balance says nothing about certainty: one group could be placed surely and the other by chance, in perfectly balanced
# segments. So we count the uncertain in each group.

# %%
doubt = pd.Series(est.misclassification_probability_, index=table.index, name="P(misclassified)")
pd.DataFrame(
    {
        "mean P(misclassified)": doubt.groupby(marital).mean(),
        "share uncertain": (doubt > UNCERTAIN).groupby(marital).mean(),
    }
).round(3)

# %%
ax = bf.plots.uncertainty_profile(est.posterior_)

# %% [markdown]
# Fewer than one client in ten is uncertain. The two groups have the same numbers, but that proves nothing here: members of a
# fairlet share their cluster, each fairlet has the same groups, and this target does not change fairlets. Under `"joint"` the
# numbers could differ.

# %% [markdown]
# ## 7. Does it depend on our choices
#
# We chose the number of clusters and the loss. Take the same table with an absolute loss: how far apart are the two answers,
# compared with the draws of one posterior? The distance is the variation of information, in bits.

# %%
other = bf.GibbsFairClustering(N_CLUSTERS, loss="manhattan", target="optimal", **RUN)
other.fit(X, sensitive_features=marital)
within = bf.posterior.credible_ball(est.posterior_)
between = bf.posterior.partition_distance(other.labels_[None], est.labels_)[0]
print(f"95% of the draws lie within {within.radius:.2f} bits of their centre")
print(f"the Manhattan loss gives clusters {between:.2f} bits from those of the squared loss")

# %% [markdown]
# The answer of the other loss lies outside the ball: the segments depend more on the loss than on the draw. That is a finding,
# and belongs in the report beside the probabilities.

# %% [markdown]
# ## 8. The report
#
# One page, one file, no network: who is where, the guarantee, the pictures, a verdict on the chains, settings and versions.
# `X=` gives it the table in the units of the file. The saved run is the evidence; keep both.

# %%
est.save(folder / "run.nc")
bf.report(est.posterior_, folder / "report.html", X=table)
print(*(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB" for file in sorted(folder.iterdir())), sep="\n")

# %% [markdown]
# The same from the shell:
#
# ```sh
# bayesfair fit clients.csv --sensitive marital --features age,balance,duration --standardize --n-clusters 4 \
#     --target optimal --out run.nc
# bayesfair report run.nc --out report.html
# ```

# %% [markdown]
# ## 9. What one may write
#
# These sentences follow from what was computed; the numbers are filled in by the cells above. The last one may be written
# only if the chains agree.

# %%
draws = est.posterior_["sample_stats"]["balance"]
population, before, after = existing.attrs["best_balance"], existing.attrs["balance"], float(draws.min())
cost = fair.attrs["within_ss"] / existing.attrs["within_ss"]
sentences = [
    f"In the population the smaller group's count is {population:.2f} of the larger one's; in the existing segments it is as "
    f"little as {before:.2f}.",
    f"There are four segments in which it is at least {after:.2f}, in each of {draws.size} draws.",
    f"They have {cost:.2f} times the within-segment sum of squares of the existing ones.",
]
if worst < 1.01 and least > 400:
    sentences.append(
        f"Given four segments, these columns, the squared loss and the best fairlets found, "
        f"{(doubt > UNCERTAIN).mean():.0%} of the clients belong to another segment with a probability above {UNCERTAIN}."
    )
else:
    sentences.append("No probability of membership is reported, because the chains have not been shown to agree.")
print(*sentences, sep="\n")

# %% [markdown]
# ## 10. What one may not write
#
# * *The segments are fair.* Balance is one notion of fairness. It says nothing about who is harmed by what a segment is
#   offered.
# * *Marital status plays no role.* Other columns, such as age, may carry it. Balance describes the result, not the reasons.
# * *Other groups are balanced as well.* Only the attribute that was given is. Sex, or marital status within age bands, may
#   be far from it.
# * *New clients will be placed in balance.* `predict` places row by row. Balance holds for the rows that were fitted.
# * *This client belongs to segment 2 with probability 0.93.* That holds given four segments, these columns, this loss and
#   these inverse temperatures. Write so.
# * *Four is the right number of segments.* It was given. The posterior does not choose it.
# * *These are the best balanced segments.* The point estimate has each client in the likeliest segment, as far as balance
#   allows. It is not the cheapest clustering.
