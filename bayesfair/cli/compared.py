"""A comparison of numbers of clusters in print: a line per figure, a column per number."""

from textwrap import fill

import numpy as np

from bayesfair.cli.output import LINE

MEANS = {  # figures of `bayesfair.compare_clusters` in words
    "used": "clusters that are used",
    "cost": "cost (sum of squared distances)",
    "max_distance": "largest distance to a centre",
    "distance_variance": "variance of squared distances",
    "plain_cost": "cost without fairness (k-means)",
    "fairness_cost": "what fairness adds to that, as a share",
    "expected_loss": "expected loss of a draw",
    "balance": "least balance of a cluster",
    "gap": "largest gap between groups",
    "bootstrap_ari": "stability under new samples (1 is best)",
    "chains_ari": "agreement of chains (1 is best)",
    "doubt": "mean probability to be elsewhere",
    "modes": "modes that were found",
    "best_mode": "share of the best mode",
    "r_hat": "largest R-hat (below 1.05 is good)",
    "bic": "BIC (less is better)",
    "loo": "expected log density (more is better)",
    "loo_se": "its standard error",
    "loo_bad_k": "rows on which it cannot be relied",
    "converged": "converged",
}


def print_comparison(table):
    """Print the table of `bayesfair.compare_clusters`, and the number at its elbow."""
    shown = table.map(_in_words).rename(columns=MEANS).T.rename_axis(columns="number of clusters")
    print(f"\n{shown.to_string(line_width=LINE)}")
    elbow = table.attrs["elbow"]
    if elbow is not None:
        text = f"The elbow of the cost is at {elbow} clusters: from there on a further cluster saves less. "
        text += "Prefer a number at which clusters are stable and few rows are in doubt."
        print(f"\n{fill(text, LINE)}")


def _in_words(value):
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    return "unknown" if value != value else f"{value:.4g}"
