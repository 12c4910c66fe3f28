"""`GibbsFairClustering`: the sampler behind scikit-learn's interface, its posterior as an ArviZ tree."""

import warnings
from functools import wraps
from os import PathLike
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from bayesfair._check import (
    Refusal,
    check_integer,
    check_positive_weights,
    check_same_rows,
    column_names,
    message,
)
from bayesfair._draws import concatenate
from bayesfair._memory import give_back_freed
from bayesfair._progress import in_one_place
from bayesfair._scaling import warn_of_other_units, warn_of_scales
from bayesfair._settings import Count, Length, Positive, Seed, check_settings
from bayesfair._tables import categorical_positions, check_distinct, read_columns
from bayesfair._whole_fits import whole_or_not
from bayesfair.balanced.placement import balanced_placement
from bayesfair.estimators.base import PosteriorEstimator, check_disk, check_memory, fairlet_bytes, sampler_bytes
from bayesfair.estimators.mixed_tables import (
    MixedTable,
    distances,
    mixed_table,
    place_fairlets,
    rows_in_reach,
    soft_memberships,
)
from bayesfair.estimators.saved_runs import (
    Store,
    Writer,
    arrays_of_run,
    continued_states,
    facts_of_law,
    memory_of,
    modes_dataset,
)
from bayesfair.fairlets.dissimilarity import Minkowski
from bayesfair.fairness.balanced import balance_constraint
from bayesfair.fairness.groups import check_same_attributes, known_groups, read_groups, refuse_groups_as_y
from bayesfair.gibbs.cut import Cut
from bayesfair.gibbs.joint import Joint
from bayesfair.gibbs.labels import Labels
from bayesfair.gibbs.loss import Loss, resolve_loss
from bayesfair.gibbs.modes.search import ModeSearch, resolve_modes, starts_of
from bayesfair.gibbs.optimal import Optimal
from bayesfair.gibbs.run import Chains, InMemory, KeepFairlets, draw, warm_up
from bayesfair.gibbs.target import Dispersion, Table
from bayesfair.gibbs.targets import resolve_target, resolve_temperature
from bayesfair.gibbs.thinning import suitable_thinning
from bayesfair.posterior.calibrating import CALIBRATION, as_fact, calibration
from bayesfair.posterior.draws import as_labels
from bayesfair.posterior.files import read_run, read_tree
from bayesfair.posterior.point_estimates import map_partition
from bayesfair.posterior.schema import (
    STATE,
    UNFINISHED,
    WANTED,
    arrays_of,
    groups_of,
    guarantee_of,
    observed_features,
    state_dataset,
    weight_of,
)
from bayesfair.posterior.settings import NOT_KEPT, as_attribute, of_attribute
from bayesfair.posterior.store import begin_run, check_store, is_stored
from bayesfair.posterior.tables import evenly_spaced
from bayesfair.posterior.temperatures import FOUND
from bayesfair.posterior.tree import build_tree, cluster_means, draws_of

SHORT = 500  # sweeps, and draws, of the run that is calibrated
PREDICTIVE_DRAWS = 400  # draws over which memberships of new rows are averaged
_SEARCH = "Use modes=bf.gibbs.ModeSearch"
WITHDRAWN = {
    "composition": "It is a setting of the target: use target=bf.gibbs.Joint(composition=...), Cut or Optimal.",
    "crossed": "It is a setting of the target: use target=bf.gibbs.Labels(crossed=...).",
    "fairlet_move": "It is a setting of the target: use target=bf.gibbs.Joint(fairlet_move=...), or Cut.",
    "inner_steps": "It is a setting of the target: use target=bf.gibbs.Cut(inner_steps=...).",
    "keep_fairlets": "It is a setting of the target: use target=bf.gibbs.Joint(keep_fairlets=...), or Cut.",
    "mesh": "Chains are joblib tasks: use n_jobs=, or joblib.parallel_config for processes and clusters.",
    "min_balance": "It is a setting of the target: use target=bf.gibbs.Labels(min_balance=...).",
    "mode_jumps": f"{_SEARCH}(jumps=...), or modes=None for no search.",
    "num_starts": f"{_SEARCH}(num_starts=...), or modes=None for no search.",
    "power": "Use loss=bf.gibbs.Minkowski(power=...).",
    "reallocation": "Leave it out: there is one kernel, which serves every size.",
    "size_max": "It is a setting of the target: use target=bf.gibbs.Labels(size_max=...).",
    "size_min": "It is a setting of the target: use target=bf.gibbs.Labels(size_min=...).",
    "tempering": "Replicas made no round trip beyond 100 rows. Use modes=, whose jumps cross between modes.",
}


def refusing_withdrawn(init):
    """Decorate `__init__` so that withdrawn keywords raise a TypeError with their sentence; its signature stays."""

    @wraps(init)
    def checked(self, *args, **settings):
        for name in settings:
            if name in WITHDRAWN:
                raise TypeError(Refusal(f"{type(self).__name__}({name}=...) is withdrawn. {WITHDRAWN[name]}"))
        init(self, *args, **settings)

    return checked


class GibbsFairClustering(PosteriorEstimator):
    """Draws fair clusterings from a Gibbs posterior: which rows end up together, and how sure that is.

    With target="labels", the posterior of a labelling z is proportional to exp(-lambda L(z)) on the balanced labellings: every
    group has its share of every cluster to within one row. The other targets have fairlets, small sets of rows that are fair
    by themselves: log p(B, C) = -lambda_f L_f(B) - lambda_c L_c(C | u(B)) + const, B being the fairlets and C the clusters of
    their centres u. A cluster is then a union of whole fairlets.

    Parameters
    ----------
    n_clusters : int, at least 1, default 3
        Number of clusters, all of which are used.
    target : {"labels", "joint", "cut", "optimal"} or object, default "labels"
        The posterior: a name, or an object with settings of its own. "labels", `bayesfair.gibbs.Labels`, has balanced labels
        without fairlets. "joint", `bayesfair.gibbs.Joint`, is exactly eq. (9) of the paper. "cut", `bayesfair.gibbs.Cut`, draws
        fairlets by themselves, then clusters given them. "optimal", `bayesfair.gibbs.Optimal`, keeps the optimal fairlets.
    loss : {"kmeans", "manhattan", "kl", "itakura-saito", "binary"} or object, default "kmeans"
        The clustering loss: a name, a `bayesfair.gibbs.Minkowski` norm, or a `bayesfair.gibbs.Loss` of your own.
    inverse_temperature : {"dispersion", "calibrated", "holmes-walker"}, number, pair or Dispersion, default "dispersion"
        "dispersion" samples lambda = 1 / (2 sigma^2) from its conjugate law; lambda_f and lambda_c follow from it. A
        `bayesfair.gibbs.Dispersion` sets its gamma prior. "calibrated" fixes lambda at the multiple of its mean in a
        short run that scores best in simulated tables, see `bayesfair.posterior.calibration`. "holmes-walker" (2017) fixes it
        by the residuals around the starting clusters. A number is lambda, fixed, for "labels"; a pair is
        (lambda_f, lambda_c), fixed, for the other targets.
    categorical_features : array-like, optional
        Names, positions or a mask of the columns that are categories. By default the columns of a data frame that hold no
        numbers.
    category_weight : float above zero or "auto", default "auto"
        What two rows pay for a categorical column in which they differ. "auto" is what they pay for numbers that differ
        by one standard deviation, and 1 if there are no numbers or the loss has no scale.
    min_group_size : int, at least 1, optional
        Groups of fewer rows are merged first, see `bayesfair.fairness.merge_small_groups`. By default none are.
    merged_group_name : str, default "other"
        Name of the merged group.
    num_chains : int, at least 1, default 4
        Number of chains.
    num_warmup : int, at least 0, default 1000
        Sweeps of each chain that are thrown away.
    num_draws : int, at least 1, default 1000
        Draws of each chain.
    thinning : int, at least 1, or "auto", default "auto"
        Sweeps from draw to draw. "auto" takes as many as make a draw worth a quarter of an independent one, by the slowest
        scalar of the warm-up, within a budget of sweeps.
    modes : "auto", None or ModeSearch, default "auto"
        How modes are looked for before the warm-up, weighed, and crossed by jumps: a `bayesfair.gibbs.ModeSearch`, "auto" for
        its defaults, or None for no search.
    n_jobs : int, at least 1, or -1, optional
        Number of joblib tasks at once, -1 for as many as there are processors. By default chains run in threads on all
        processors, or as `joblib.parallel_config` says.
    random_state : int or numpy.random.RandomState, optional
        An int makes runs repeatable on one machine and version.
    progress_bar : bool, default True
        Whether to show a progress bar.

    Attributes
    ----------
    posterior_ : xarray.DataTree
        The draws, by the conventions of ArviZ.
    labels_ : numpy.ndarray of shape (n_obs,)
        The point estimate: every row in its likeliest cluster as far as the guarantee allows, see
        `bayesfair.posterior.reference_partition`.
    map_labels_ : numpy.ndarray of shape (n_obs,)
        The draw of highest density. Absent with target="cut".
    misclassification_probability_ : numpy.ndarray of shape (n_obs,)
        Probability that a row is not in its cluster of `labels_`.
    inverse_temperature_ : tuple of float
        Posterior means (lambda_f, lambda_c), or (lambda,) with target="labels".
    cluster_centers_ : numpy.ndarray of shape (n_clusters, n_features)
        Means of the clusters of `labels_`; NaN for an empty one. Categorical columns become indicators.
    n_iter_ : int
        Sweeps done.
    thinning_ : int
        Sweeps from draw to draw.

    Notes
    -----
    Categorical columns become indicators (Huang 1998). Under "kl" and "binary" they pay entropies. New rows with an unknown
    level are refused.

    The first fit after an installation compiles for some seconds; Numba keeps the result on disk.

    References
    ----------
    The Gibbs paper, eq. (9), eq. (12) and Algorithm 1. Rigon, Herring and Dunson (2023). Holmes and Walker (2017), eq. (5).

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.make_well_specified()
    >>> est = bf.GibbsFairClustering(2, num_chains=2, num_warmup=200, num_draws=400, random_state=0, progress_bar=False)
    >>> est.fit(data.features, sensitive_features=data.sensitive).labels_.shape
    (100,)
    """

    __metadata_request__fit = {"sensitive_features": True, "sample_weight": True}  # noqa: RUF012

    @refusing_withdrawn
    def __init__(
        self,
        n_clusters: Count = 3,
        *,
        target: Literal["labels", "joint", "cut", "optimal"] | Labels | Joint | Cut | Optimal = "labels",
        loss: Literal["kmeans", "manhattan", "kl", "itakura-saito", "binary"] | Minkowski | Loss = "kmeans",
        inverse_temperature: Literal["dispersion", "calibrated", "holmes-walker"]
        | float
        | tuple[float, float]
        | Dispersion = "dispersion",
        categorical_features: ArrayLike | None = None,
        category_weight: Positive | Literal["auto"] = "auto",
        min_group_size: Count | None = None,
        merged_group_name: str = "other",
        num_chains: Count = 4,
        num_warmup: Length = 1000,
        num_draws: Count = 1000,
        thinning: Count | Literal["auto"] = "auto",
        modes: Literal["auto"] | ModeSearch | None = "auto",
        n_jobs: Count | Literal[-1] | None = None,
        random_state: Seed | np.random.RandomState | None = None,
        progress_bar: bool = True,
    ):
        self.n_clusters = n_clusters
        self.target = target
        self.loss = loss
        self.inverse_temperature = inverse_temperature
        self.categorical_features = categorical_features
        self.category_weight = category_weight
        self.min_group_size = min_group_size
        self.merged_group_name = merged_group_name
        self.num_chains = num_chains
        self.num_warmup = num_warmup
        self.num_draws = num_draws
        self.thinning = thinning
        self.modes = modes
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress_bar = progress_bar

    @in_one_place
    @whole_or_not
    def fit(
        self,
        X: ArrayLike,
        y=None,
        *,
        sensitive_features: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        store: str | PathLike[str] | None = None,
    ) -> Self:
        """Sample the posterior of a table.

        Without groups a warning is issued and clusters are not made fair. Ctrl-C during the draws keeps those already made.

        Parameters
        ----------
        X : array-like of shape (n_obs, n_features)
            Features. An array of floats is not copied: leave it as it is while `posterior_`, which holds it, is in use.
        y : None
            Not used.
        sensitive_features : array-like of shape (n_obs,) or (n_obs, n_attributes), optional
            The groups of the rows, see `bayesfair.fairness.encode_groups`.
        sample_weight : array-like of shape (n_obs,), optional
            Weights above zero. They enter the losses, and their sum takes the place of the number of rows in the law of the
            inverse temperature. Fairlets, balance and the guarantee count rows.
        store : str or os.PathLike, optional
            A new folder, such as "run.zarr". Draws are written to it as they are made and read from it, so that memory does
            not limit their number. After a crash it has every finished chunk, and `load(store).resume()` makes the others.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        TypeError
            If the table does not hold numbers or categories, or a setting has the wrong type.
        ValueError
            If the table, the groups, the weights or a setting are not valid, or there is not enough memory or disk for the
            draws. The message names the argument, the rule and the remedy.
        FileExistsError
            If there is already something at `store`.

        Notes
        -----
        Whole weights give the law of the table with rows repeated, given that the copies of a row stay together.
        """
        refuse_groups_as_y(y, sensitive_features)
        self._start_clock()
        check_settings(self)
        target, search = resolve_target(self.target), resolve_modes(self.modes)
        self._store = None if store is None else Store(check_store(store))
        columns = read_columns(self, X, self.categorical_features, reset=True)
        weight = check_positive_weights(sample_weight, len(columns.continuous), X)
        weight = None if (weight == 1).all() else weight
        where = categorical_positions(X, self.categorical_features)
        self._mixed = mixed_table(columns, where, column_names(X), self._loss, self.category_weight, weight)
        groups = read_groups(self, sensitive_features, len(columns.continuous), X=X)
        rows = self._mixed.numbers(columns)
        self._mixed = self._mixed.counted(rows, self._loss, weight)
        mixed = self._mixed
        self._describe(X, sensitive_features, mixed.names, {}, mixed.indicators, mixed=mixed._asdict())
        self._kept_of = self.num_draws
        self._check_room(rows, self.num_draws)
        self._draw_seed()
        check_distinct(rows, self.n_clusters)
        self._calibrate(X, sensitive_features, weight)
        table = self._table(rows, groups, weight)
        if self._loss.translation_invariant and self._mixed.n_numbers:
            warn_of_scales(rows[:, : self._mixed.n_numbers], self._mixed.names)
        law = target.prepare(table)
        law, states, found = starts_of(law, search, self.num_chains, self.num_warmup, self.n_jobs, self.progress_bar)
        chains = Chains(law, states, self.n_jobs)
        chains.compile(self.progress_bar)
        reports = warm_up(chains, self.num_warmup, self.progress_bar)
        self.thinning_ = suitable_thinning(reports, law) if self.thinning == "auto" else self.thinning
        modes = None if found is None else modes_dataset(found)
        return self._sample(chains, self.num_draws, (rows, groups, weight, modes))

    def _table(self, X, groups, weight) -> Table:
        """The table as the sampler reads it."""
        loss = self._loss
        weight = np.ones(len(X)) if weight is None else np.asarray(weight, np.float64)
        degrees = 0.0 if loss.degree is None else float(weight.sum()) * self._mixed.dim / loss.degree
        return Table(
            rows_in_reach(X, loss, self._mixed.names),
            groups,
            weight,
            self.n_clusters,
            loss,
            resolve_temperature(self.inverse_temperature, self._found),
            degrees,
            self._seed,
            self.progress_bar,
        )

    def _calibrate(self, X, sensitive_features, weight):
        """Find the inverse temperatures, by a calibration of a short run, if it is asked for."""
        self._found, self._calibration = None, None
        if self.inverse_temperature != "calibrated":
            return
        if weight is not None:
            rule, remedy = "be left out with inverse_temperature='calibrated'", "Use 'dispersion', the default."
            raise ValueError(message("sample_weight", rule, "weights", remedy))
        settings = {"modes": None, "random_state": self._seed} | dict.fromkeys(("num_warmup", "num_draws"), SHORT)
        short = clone(self).set_params(inverse_temperature="dispersion", **settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit itself tells them
            short.fit(X, sensitive_features=sensitive_features)
        if UNFINISHED in short.posterior_.attrs:
            raise KeyboardInterrupt
        self._calibration = calibration(short, random_state=self._seed, progress_bar=self.progress_bar)
        self._found = tuple(self._calibration.attrs["multiple"] * one for one in short.inverse_temperature_)

    def _law_of(self, X, groups, target, temperature, seed, memory=None):
        """The prepared law of other rows, encoded like those of the fit, without weights: of a simulated table."""
        table = self._table(X, groups, None)
        return target.prepare(table._replace(temperature=temperature, seed=seed, progress_bar=False), memory)

    def _resume(self, num_draws):
        tree, done = self.posterior_, self.posterior_["posterior"].sizes["draw"]
        self._start_clock(tree)
        missing = int(tree.attrs[WANTED]) - done if UNFINISHED in tree.attrs else self.num_draws
        num_draws = missing if num_draws is None else check_integer("num_draws", num_draws)
        known, groups, weight = observed_features(tree), groups_of(tree), weight_of(tree)
        self._kept_of = int(tree.attrs["kept_of"])
        self._check_room(known, done + num_draws)
        modes = tree["modes"].to_dataset() if "modes" in tree.children else None
        arrays = arrays_of(tree[STATE])
        law = resolve_target(self.target).prepare(self._table(known, groups, weight), memory_of(arrays))
        chains = Chains(law, continued_states(law, arrays), self.n_jobs)
        return self._sample(chains, num_draws, (known, groups, weight, modes), tree)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The likeliest cluster of every row on its own: `predict_proba(X).argmax(1)`.

        Nothing guarantees the balance of new rows. `reassign` places them together. The rows of the fit do not always get their
        `labels_`: those are balanced, and some rows are in a less likely cluster for it.

        Parameters
        ----------
        X : array-like of shape (n_obs, n_features)
            Features, with the columns of the fit.

        Returns
        -------
        numpy.ndarray of shape (n_obs,)
            Integer labels.

        Raises
        ------
        ValueError
            If the columns differ from those of the fit.
        """
        return self.predict_proba(X).argmax(1)

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """The probability of each cluster for rows on their own, averaged over up to 400 draws.

        In a draw it is softmax over clusters k of -lambda d(x, m_k), m_k being the means of the clusters and lambda the inverse
        temperature of one row. Balance has no part in it. So rows of the fit get other numbers than 1 -
        `misclassification_probability_`, a share of draws. For those rows use `bayesfair.posterior.memberships`.

        Parameters
        ----------
        X : array-like of shape (n_obs, n_features)
            Features, with the columns of the fit.

        Returns
        -------
        numpy.ndarray of shape (n_obs, n_clusters)
            Rows sum to 1.

        Raises
        ------
        ValueError
            If the columns differ from those of the fit.
        """
        check_is_fitted(self, "posterior_")
        X = self._read_new(X)
        posterior = self.posterior_["posterior"]
        chosen = evenly_spaced(posterior["lambda_c"].size, PREDICTIVE_DRAWS)
        centers = posterior["centers"].values
        centers = centers.reshape(-1, *centers.shape[2:])[chosen]
        n_fairlets = guarantee_of(self.posterior_).n_fairlets
        share = n_fairlets / posterior.sizes["obs"] if n_fairlets else 1.0  # a row's mean weight in its unit
        return soft_memberships(self._dissimilarity, X, centers, share * posterior["lambda_c"].values.ravel()[chosen])

    def reassign(self, X: ArrayLike, *, sensitive_features: ArrayLike | None) -> np.ndarray:
        """Place new rows together, as balanced among themselves as the method guarantees.

        With target="labels" they pay least for the centres of `labels_` among all placements in which every cluster that gets
        some of them is balanced by `min_balance`; `size_min` and `size_max` are of the rows of the fit. Otherwise they are
        decomposed into fairlets of the composition of the fit, and each fairlet goes where its members pay least. A cluster
        may get no row. If the fit guarantees nothing (no groups, composition="singletons", or a target without a guarantee),
        this is `predict`.

        Parameters
        ----------
        X : array-like of shape (n_obs, n_features)
            Features, with the columns of the fit.
        sensitive_features : array-like of shape (n_obs,) or (n_obs, n_attributes), or None
            The groups of the new rows.

        Returns
        -------
        numpy.ndarray of shape (n_obs,)
            Integer labels.

        Raises
        ------
        ValueError
            If row indexes differ, sensitive columns have other names than in the fit, or there are groups that the fit had not,
            only one group for fairlets, or groups that cannot be balanced so.
        """
        check_is_fitted(self, "posterior_")
        check_same_rows(X=X, sensitive_features=sensitive_features)
        known, given = groups_of(self.posterior_), guarantee_of(self.posterior_)
        if len(known.names) == 1 or given.kind == "none":
            return self.predict(X)
        check_same_attributes(sensitive_features, self._names.get("sensitive"))
        X, cost = self._distances(X)
        groups = known_groups(sensitive_features, len(X), known, self.merged_group_name)
        if given.kind != "fairlets":
            return balanced_placement(cost, groups.code, balance_constraint(groups, given.asked))
        of_decomposition = {"dissimilarity": self._dissimilarity, "random_state": self._seed}
        target = resolve_target(of_attribute(self.posterior_.attrs["target"]))  # settings may have changed since
        return place_fairlets(X, cost, groups, target.composition, of_decomposition)

    @property
    def _loss(self):
        return resolve_loss(self.loss)

    def _keep(self, name, value):
        """Keep a fact of the run among its attributes, on disk too if it is stored."""
        if self._store is not None:
            self._store.keep(name, value)
        self.posterior_.attrs[name] = value

    def _read_new(self, X):
        """New rows as checked numbers (N, numeric columns)."""
        where = np.array(self._mixed.where, int) if self._mixed.where else ()
        rows, n = self._mixed.numbers(read_columns(self, X, where, reset=False)), self._mixed.n_numbers
        if n:
            warn_of_other_units(rows[:, :n], observed_features(self.posterior_)[:, :n], self._mixed.names)
        return rows

    def _distances(self, X):
        """(checked X, costs of its rows for the centres of `labels_`)."""
        check_is_fitted(self, "posterior_")
        X = self._read_new(X)
        return X, distances(self._dissimilarity, X, self.cluster_centers_)

    @classmethod
    def load(cls, path: str | PathLike[str], *, loss: Loss | None = None) -> Self:
        """Read the estimator that `save` wrote.

        Parameters
        ----------
        path : str or os.PathLike
            The file, or the folder of a run with a `store`.
        loss : Loss, optional
            A loss of your own that the run was fitted with. It is not stored.

        Returns
        -------
        GibbsFairClustering

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If the file is damaged, holds something else, or was made by an earlier version.
        """
        tree = read_run(path, cls, needed=[STATE])
        if tree.attrs.get("loss") == NOT_KEPT and loss is None:
            remedy = "Pass the bf.gibbs.Loss of the fit."
            raise ValueError(message("loss", "be given for a run with a loss of your own", "none", remedy))
        estimator = cls._of_file(tree, **({} if loss is None else {"loss": loss}))
        estimator._store = Store(path).seen() if is_stored(tree) else None
        return estimator

    def _check_room(self, X, num_draws):
        shape, sizes = (self.num_chains, num_draws, len(X)), (self.n_clusters, X.shape[1])
        keep, target = self._keeping(), resolve_target(self.target)
        kept = 0 if keep is None else len(keep.among(num_draws))
        taken = {"sampling": sampler_bytes(self.num_chains, X.shape[1], moves_fairlets=target.moves_fairlets)}
        taken["fairlets"] = fairlet_bytes(self.num_chains, kept, len(X))
        if self._store is not None:
            return check_disk(self._store.path, shape, *sizes, **taken)
        remedy = "Pass fit(..., store='run.zarr'), which keeps draws on disk, or ask for less."
        return check_memory(shape, *sizes, **taken, remedy=remedy)

    def _keeping(self, done=0) -> KeepFairlets | None:
        """Which draws keep their fairlets, after `done` draws; None if none do."""
        wanted = getattr(resolve_target(self.target), "keep_fairlets", False)
        if wanted is False:
            return None
        return KeepFairlets(self._kept_of if wanted is True else min(wanted, self._kept_of), self._kept_of, done)

    def _sample(self, chains, num_draws, table, earlier=None):
        """Draw `num_draws` more after those of the tree `earlier`, if any, and adopt the posterior of all of them.

        `table`: X, groups, weights, and the modes that were found.
        """
        done = 0 if earlier is None else earlier["posterior"].sizes["draw"]
        chains.keep, law = self._keeping(done), chains.law
        wanted = done + num_draws if earlier is None else max(done + num_draws, int(earlier.attrs.get(WANTED, 0)))
        facts = {"sweeps_per_draw": self.thinning_, WANTED: wanted, "kept_of": self._kept_of} | facts_of_law(law)
        if earlier is not None:
            carried = "fairlet_gap", "small_groups", CALIBRATION, FOUND
            facts |= {name: earlier.attrs[name] for name in carried if name in earlier.attrs}
        if self._calibration is not None:
            facts |= {CALIBRATION: as_fact(self._calibration), FOUND: as_attribute(self._found)}
        facts = self._facts(**facts)
        made = self._draw_in_memory if self._store is None else self._draw_to_store
        tree = made(chains, num_draws, table, earlier, facts)
        give_back_freed()
        self._adopt(tree)
        give_back_freed()
        self._warn_of_disagreement(lambda: "")
        return self

    def _draw_in_memory(self, chains, num_draws, table, earlier, facts):
        into = InMemory(num_draws)
        draw(chains, num_draws, self.thinning_, into, self.progress_bar)
        draws = into.draws if earlier is None else concatenate([draws_of(earlier), into.draws])
        tree = self._tree_of(chains.law, into.states, draws, table, facts)
        tree["sample_stats"].attrs.update(self._cost())
        return tree

    def _tree_of(self, law, states, draws, table, facts):
        """The tree of these draws and of the states after them, without derived results."""
        X, groups, weight, modes = table
        tree = build_tree(
            draws,
            X,
            groups,
            facts=facts,
            columns=self._columns,
            guarantee=law.guarantee,
            encoding=as_attribute(self._names),
            obs_names=self._row_names,
            n_clusters=self.n_clusters,
            point=None,
            modes=modes,
            weight=weight,
        )
        tree[STATE] = state_dataset(arrays_of_run(law, states))
        return tree

    def _draw_to_store(self, chains, num_draws, table, earlier, facts):
        path, wanted = self._store.path, facts[WANTED]

        def begin(chains, draws):
            return begin_run(path, self._tree_of(chains.law, chains.states, draws, table, facts), wanted)

        with Writer(begin, None if earlier is None else self._store.go_on(wanted)) as into:
            draw(chains, num_draws, self.thinning_, into, self.progress_bar)
            give_back_freed()
            into.stored.finish(self._cost())
            tree = read_tree(path)
        self._store.seen()
        return tree

    def _take(self, tree, run):
        super()._take(tree, run)
        self._mixed, self._dissimilarity = MixedTable(**self._names["mixed"]), self._loss.dissimilarity
        self.n_features_in_ = self._mixed.n_numbers + len(self._mixed.where)
        self.thinning_ = int(tree.attrs["sweeps_per_draw"])
        self._found, self._calibration = of_attribute(tree.attrs.get(FOUND, "None")), None
        self.n_iter_ = self.num_warmup + self.thinning_ * tree["posterior"].sizes["draw"]

    def _derived(self):
        tree = self.posterior_
        X, weight, posterior = observed_features(tree), weight_of(tree), tree["posterior"]
        lambdas = [name for name, values in posterior.data_vars.items() if values.attrs.get("kind") == "parameter"]
        return super()._derived() | {
            "inverse_temperature_": lambda: tuple(float(posterior[name].mean(dtype=float)) for name in lambdas),
            "cluster_centers_": lambda: cluster_means(as_labels(self.labels_[None]), X, self.n_clusters, weight)[0],
        }

    @property
    def map_labels_(self) -> np.ndarray:
        """The draw of highest density, of shape (n_obs,). Absent with target="cut", where no draw's density is known."""
        check_is_fitted(self, "posterior_")
        try:
            return map_partition(self.posterior_)
        except ValueError as error:
            raise AttributeError(f"There are no `map_labels_`. {error}") from error
