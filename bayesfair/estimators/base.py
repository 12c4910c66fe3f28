"""The common part of both samplers' estimators: a fit is a tree, which is written to a file and read back."""

import os
from os import PathLike
from time import perf_counter
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from bayesfair._arrays import digest
from bayesfair._check import attempt, column_names, message, random_state_of, storable_index
from bayesfair._memory import free_disk, free_memory, in_words, peak_memory
from bayesfair._names import DataTree
from bayesfair._progress import in_one_place
from bayesfair._scaling import noted_scaling
from bayesfair._whole_fits import whole_or_not
from bayesfair.fairness.groups import names_of_attributes
from bayesfair.posterior.diagnostics import Note, as_html, brief, warn_of_disagreement
from bayesfair.posterior.draws import is_on_disk
from bayesfair.posterior.files import write_tree
from bayesfair.posterior.membership import misclassification_probability
from bayesfair.posterior.schema import Column, check_whole, columns_of, names_of_rows
from bayesfair.posterior.settings import FORMAT, NOT_KEPT, as_attribute, changed_settings, of_attribute, settings_of
from bayesfair.posterior.tree import add_derived

MAY_CHANGE = {"num_draws", "progress_bar", "n_jobs", "chain_method"}  # between `fit` and `resume`
_TABLE = "observed_data/X"
_ROW = 300  # bytes per row that the tree and its summaries need beside the labels
_DATA, _PAIRS, _LABEL, _FAIRLETS = 60, 600, 8, 40  # bytes per row while a Gibbs sampler runs; the last two of a chain
_LARGE = 100_000_000  # bytes; less is never refused


class PosteriorEstimator(ClusterMixin, BaseEstimator):
    """An estimator whose fit is an `xarray.DataTree`: its attributes with a trailing underscore are read from it.

    `fit` sets `_seed` (`_draw_seed`), and `_names`, `_row_names` and `_columns` (`_describe`), builds a tree of draws and rows
    with `_facts` and passes it, with its run, to `_adopt`. Subclasses extend `_take`, which sets what `save` and `resume` need,
    and `_derived`, which may fail; their `_run_of(tree)` makes the run of a file, with which their `_resume` goes on. `fit` and
    `resume` are `whole_or_not`: an earlier posterior keeps all that belongs to it. The estimator keeps the view of its
    posterior, so that summaries of it compute each result once.
    """

    posterior_: "DataTree"
    labels_: np.ndarray
    misclassification_probability_: np.ndarray
    n_iter_: int
    provenance: dict[str, str] | None = None  # of the table, {term: text}: set it before a fit, and reports show it
    _point = "likeliest"  # what the tree's reference partition is, see `build_tree`
    __metadata_request__fit = {"sensitive_features": True}  # noqa: RUF012

    def save(self, path: str | PathLike[str]) -> None:
        """Write posterior, data, settings and the state of the chains to a file.

        Parameters
        ----------
        path : str or os.PathLike
            A netCDF file, which is written whole or not at all, or a new folder that ends in .zarr.

        Raises
        ------
        ValueError
            If X or the posterior was changed after the fit. `bayesfair.posterior.write_tree` writes any posterior.
        OSError
            If the path cannot be written.
        """
        check_is_fitted(self, "posterior_")
        self._check_same_values()
        write_tree(self.posterior_, path)

    @in_one_place
    @whole_or_not
    def resume(self, num_draws: int | None = None) -> Self:
        """Go on from the last draw.

        Data and settings are those of the fit: only `num_draws`, `progress_bar`, `n_jobs` and `chain_method` may change. The
        draws of `GibbsFairClustering` are bit for bit those of one longer run, and a run with a `store` goes on there.

        Parameters
        ----------
        num_draws : int, at least 1, optional
            Further draws of each chain. By default an interrupted run makes what is missing, and a finished one makes as many
            again.

        Returns
        -------
        self
            The estimator with all draws.

        Raises
        ------
        ValueError
            If the fit was by "svi", or the table, a setting or the posterior was changed since the fit.
        """
        check_is_fitted(self, "posterior_")
        check_whole(self.posterior_, "`posterior_`", "Assign the run's own tree to it, or fit again.")
        self._check_same_values()
        self._check_same_settings()
        return self._resume(num_draws)

    def _html_repr(self):
        """scikit-learn's diagram in a notebook and, after a fit, the posterior in short."""
        diagram = super()._html_repr()
        if not hasattr(self, "labels_"):
            return diagram
        sizes = np.bincount(self.labels_, minlength=self.posterior_.attrs["n_clusters"])
        told = Note("plain", "Clusters:", f"{len(sizes)}, of {', '.join(f'{size:,}' for size in sizes)} rows.")
        return diagram + as_html([told, *brief(self.posterior_)])

    def _start_clock(self, earlier=None):
        """Start the clock, at the beginning of a fit or of a continuation of the fit of the tree `earlier`."""
        spent = 0.0 if earlier is None else earlier["sample_stats"].attrs.get("sampling_time", 0.0)
        self._started = perf_counter() - spent

    def _cost(self):
        """For the tree's sample_stats: seconds, with compilation and the search for modes, and the process's peak bytes."""
        return {"sampling_time": perf_counter() - self._started, "peak_memory": peak_memory()}

    def _describe(self, X, sensitive_features, names, codes, indicators=(), **more):
        """Take for the tree what is known of the user's table: names of rows and columns, and the columns as encoded.

        `names`: of the encoded columns, None without any; `codes`: {name: levels} of columns of codes; `more`: for `_names`.
        """
        given, scaling = column_names(X), noted_scaling(X) or {"mean": {}, "deviation": {}}
        by_text = given is not None and all(isinstance(name, str) for name in given)
        known = {"sensitive": names_of_attributes(sensitive_features), "named_by_text": by_text}
        self._names = {"feature_names": None if given is None else list(map(str, given)), **more, **known}
        self._row_names, self._columns = storable_index(X), None
        if names is not None:
            kinds = dict.fromkeys(codes, "category") | dict.fromkeys(indicators, "indicator")
            units = {name: (float(mean), float(scaling["deviation"][name])) for name, mean in scaling["mean"].items()}
            told = ((one, kinds.get(one, "number"), tuple(map(str, codes.get(one, ())))) for one in names)
            self._columns = [Column(*one, *units.get(one[0], ())) for one in told]

    def _draw_seed(self):
        self._seed = int(random_state_of(self.random_state).randint(2**31 - 1))

    def _facts(self, **of_the_run):
        """The run's facts and the estimator's settings other than the defaults, as attributes of the tree."""
        known = {"estimator": type(self).__name__, "format": FORMAT, "seed": self._seed}
        known |= {} if self.provenance is None else {"provenance": as_attribute(self.provenance)}
        return known | {name: as_attribute(value) for name, value in changed_settings(self).items()} | of_the_run

    def _check_same_values(self):
        """Raise a ValueError if X, which may be the user's own array, or another variable has changed since the fit."""
        now = _checksums(self.posterior_)
        changed = [place for place, checksum in self._checksums.items() if now.get(place, checksum) != checksum]
        if _TABLE in changed:
            remedy = "The posterior belongs to the old table: change a copy of it, and fit again."
            raise ValueError(message("X", "be unchanged since the fit", "a table that was changed", remedy))
        if changed:
            got = f"other values of {', '.join(changed)}"
            remedy = (
                "Fit again, or load the run. To keep a changed posterior, write it with bayesfair.posterior.write_tree."
            )
            raise ValueError(message("posterior_", "hold the values of the run", got, remedy))

    def _check_same_settings(self):
        """Raise a ValueError if a setting differs from that of the posterior; one that no file holds is not compared."""
        known = settings_of(self.posterior_, type(self))
        for name, given in self.get_params(deep=False).items():
            of_fit = self.posterior_.attrs.get(name, as_attribute(known[name]))
            is_same = as_attribute(given) == of_fit or (given is None and of_fit == NOT_KEPT)
            if name not in MAY_CHANGE and not is_same:
                remedy = "resume() uses the settings of the fit: restore it with set_params, or fit again."
                known_as = "one that no file keeps" if of_fit == NOT_KEPT else repr(of_attribute(of_fit))
                raise ValueError(message(name, f"be that of the fit, {known_as}", repr(given), remedy))

    @classmethod
    def _of_file(cls, tree, **parameters):
        """The estimator that made the tree; `parameters` replace its settings."""
        estimator, about = cls(**settings_of(tree, cls) | parameters), tree.attrs
        estimator._seed, estimator._names = int(about["seed"]), of_attribute(tree["observed_data"].attrs["encoding"])
        is_named = tree["observed_data"]["feature"].dtype.kind != "i"
        estimator._columns = columns_of(tree) if is_named else None
        estimator.provenance = of_attribute(about.get("provenance", "None"))
        return estimator._adopt(tree, estimator._run_of(tree))

    def _run_of(self, tree):
        """What continues the run of a tree, beside the tree."""

    def _adopt(self, tree, run=None):
        """Take the tree as this estimator's posterior, and `run`, with which (and the tree) `resume` continues.

        The posterior comes first: computations on its draws, stored in the tree or not, may fail.
        """
        self._take(tree, run)
        self._view = add_derived(tree, self._point).keep()
        self._checksums = _checksums(tree)
        self._derive(**self._derived())
        return self

    def _take(self, tree, run):
        self.posterior_, self._run = tree, run
        for name in list(vars(self)):
            if name.endswith("_") and name != "posterior_":
                delattr(self, name)  # left from an earlier posterior
        self._checksums = {_TABLE: digest(tree[_TABLE].values)}  # what is derived may change the others
        self._row_names = names_of_rows(tree)
        self.n_features_in_ = tree["observed_data"]["X"].shape[1]
        names = self._names["feature_names"]
        if self._names.get("named_by_text", names is not None):  # as in scikit-learn; unknown in older files
            self.feature_names_in_ = np.array(names, dtype=object)

    def _derived(self):
        """{attribute: function that computes it}, in order of dependence."""
        return {
            "labels_": lambda: self.posterior_["constant_data"]["reference_labels"].values.astype(int),
            "misclassification_probability_": lambda: misclassification_probability(self.posterior_),
        }

    def _derive(self, **attributes):
        """Set attributes to the results of these functions; those that fail are absent."""
        for name, compute in attributes.items():
            value = attempt(f"`{name}`", compute)
            if value is not None:
                setattr(self, name, value)

    def _warn_of_disagreement(self, remedy):
        """Warn if chains disagree; `remedy()` gives the method's own remedy."""
        attempt("The comparison of the chains", lambda: warn_of_disagreement(self.posterior_, remedy()))


def _checksums(tree):
    """{group/variable: checksum} of what the tree has in memory."""
    variables = {
        f"{group}/{name}": values for group, node in tree.children.items() for name, values in node.data_vars.items()
    }
    return {place: digest(values.values) for place, values in variables.items() if not is_on_disk(values)}


def check_memory(
    shape, n_clusters, dim, *, sampling=0, label_bytes=None, fairlets=0, remedy="Ask for fewer draws or chains."
):
    """Raise a ValueError if labels of this shape (chains, draws, obs) and what is made of them do not fit into memory.

    `sampling`: bytes per row while draws are made. `label_bytes`: per label; by default twice the smallest type, as sampled and
    in the tree. `fairlets`: bytes of the fairlets that draws keep.
    """
    label_bytes = 2 * np.min_scalar_type(-n_clusters).itemsize if label_bytes is None else label_bytes
    labels, rest = label_bytes * np.prod(shape, dtype=float), _beside(shape, n_clusters, dim, sampling)
    _check("memory", labels + fairlets + rest, free_memory(), shape, remedy)


def sampler_bytes(num_chains, dim, *, moves_fairlets):
    """Bytes per row of a Gibbs sampler beside its draws: its data and starts, and the chains' states, twice for a while."""
    of_state = _FAIRLETS + 4 * dim if moves_fairlets else _LABEL
    return _DATA + _PAIRS * moves_fairlets + 2 * num_chains * of_state


def fairlet_bytes(num_chains, num_kept, num_obs):
    """Upper bound of the bytes for the fairlets of so many draws per chain: there are fewer fairlets than rows."""
    return float(num_chains) * num_kept * num_obs * np.min_scalar_type(-num_obs).itemsize


def check_disk(path, shape, n_clusters, dim, *, sampling=0, fairlets=0):
    """Raise a ValueError if a run does not fit on the disk of `path`, twice for a while, or its rest in memory."""
    run = np.min_scalar_type(-n_clusters).itemsize * np.prod(shape, dtype=float) + 8 * shape[2] * dim
    remedy = "Ask for fewer draws or chains, or choose another disk."
    _check(f"disk of {os.fspath(path)!r}", 2 * run + fairlets, free_disk(path), shape, remedy)
    beside = _beside(shape, n_clusters, dim, sampling)
    _check("memory", beside, free_memory(), shape, "Ask for fewer draws or chains.")


def _beside(shape, n_clusters, dim, sampling):
    """Bytes of the draws' centres, original and renumbered, and of the sampler's needs or, after it, the summaries'."""
    return 16 * shape[0] * shape[1] * n_clusters * dim + max(_ROW, sampling) * shape[2]


def _check(place, needed, free, shape, remedy):
    if free is None or needed <= free or needed < _LARGE:
        return
    num_chains, num_draws, num_obs = shape
    rule = f"make draws that fit into the {in_words(free)} that the {place} has free"
    got = f"{num_chains} chains of {num_draws:,} draws of {num_obs:,} rows, which take {in_words(needed)}"
    raise ValueError(message("num_draws", rule, got, remedy))
