"""`GibbsFairClustering`: the sampler behind scikit-learn's interface, its posterior as an ArviZ tree."""

from collections.abc import Mapping
from functools import partial
from os import PathLike
from typing import Literal, Self

import jax
import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from bayesfair._arrays import cluster_sums, code_masses, digest
from bayesfair._check import (
    check_integer,
    check_positive_weights,
    check_same_rows,
    column_names,
    message,
    refuse_unread,
)
from bayesfair._draws import concatenate
from bayesfair._memory import give_back_freed
from bayesfair._scaling import warn_of_scales
from bayesfair._settings import Count, Length, Positive, Seed, check_settings
from bayesfair.balanced.placement import balanced_placement
from bayesfair.distributed.messages import agreed, check_alike, first_then_others, leads, sharing
from bayesfair.distributed.processes import WHY_NO_ROWS
from bayesfair.engines.base import check_distinct, whole_or_not
from bayesfair.engines.tables import categorical_positions, read_columns, read_groups, refuse_groups_as_y
from bayesfair.estimators.base import OF_YOUR_OWN, PosteriorEstimator
from bayesfair.estimators.mixed_tables import MixedTable, mixed_table
from bayesfair.estimators.new_rows import distances, place_fairlets, soft_memberships
from bayesfair.estimators.saved_runs import continued, modes_dataset, refuse_shares, state_of
from bayesfair.estimators.store import Store, Writer
from bayesfair.fairness.balanced import balance_constraint
from bayesfair.fairness.groups import check_same_attributes, known_groups
from bayesfair.gibbs.capabilities import HasFairlets
from bayesfair.gibbs.loss import Loss
from bayesfair.gibbs.losses import resolve_loss
from bayesfair.gibbs.modes import FEWEST_SWEEPS, n_search_starts
from bayesfair.gibbs.problem import make_problem, unscaled
from bayesfair.gibbs.run import KeepFairlets, draw, tuning, warm_up
from bayesfair.gibbs.search import FEW_ROWS, start_in_modes
from bayesfair.gibbs.target import Settings, Table, Target
from bayesfair.gibbs.targets import resolve_target
from bayesfair.gibbs.temperature import Dispersion, resolve_temperature
from bayesfair.gibbs.thinning import suitable_thinning
from bayesfair.gibbs.threads import warn_of_gpu
from bayesfair.posterior.contingency import evenly_spaced
from bayesfair.posterior.files import read_run, read_tree
from bayesfair.posterior.guarantees import fairlet_capacities
from bayesfair.posterior.memory import check_disk, check_memory, fairlet_bytes, sampler_bytes
from bayesfair.posterior.partitions import map_partition
from bayesfair.posterior.saved import STATE, arrays_of, plain, settings_of, state_dataset
from bayesfair.posterior.schema import groups_of, observed_features, weight_of
from bayesfair.posterior.store import begin_run, check_store, is_stored
from bayesfair.posterior.tree import build_tree, draws_of

PREDICTIVE_DRAWS = 400  # draws over which memberships of new rows are averaged


class GibbsFairClustering(PosteriorEstimator):
    """Draws fair clusterings from the Gibbs posterior over fairlet decompositions and clusterings.

    The posterior is log p(B, C) = -lambda_f L_f(B) - lambda_c L_c(C | u(B)) + const, B being the fairlets and C the
    clusters of their centres u. A cluster is a union of whole fairlets, so that every draw keeps the balance of the least
    balanced fairlet. With target="labels" there are no fairlets: p(z) is proportional to exp(-lambda L(z)) on the balanced
    labellings z of the rows, and every group has its share of every cluster to within one row.

    Parameters
    ----------
    n_clusters : int, at least 1, default 3
        Number of clusters, all of which are used.
    loss : {"kmeans", "manhattan", "minkowski", "kl", "itakura-saito", "binary"} or Loss, default "kmeans"
        The clustering loss. A `bayesfair.gibbs.Loss` of your own is welcome.
    power : float above zero, default 1.0
        Power of "minkowski", the norm of x - y.
    target : {"joint", "cut", "optimal", "labels"} or Target class, default "joint"
        "joint" is exactly eq. (9). "cut" draws B from exp(-lambda_f L_f), then C given B from exp(-lambda_c L_c), with
        `inner_steps` reallocations in a sweep. "optimal" keeps B at the optimal decomposition. "labels" has balanced
        labels without fairlets. Or a subclass of `bayesfair.gibbs.Target`.
    composition : "auto", "singletons", dict, int or array-like, default "auto"
        Members of each group in each fairlet, see `bayesfair.fairlets.decompose`. "singletons" clusters without fairness.
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
    inverse_temperature : {"dispersion", "holmes-walker", "loss-likelihood-bootstrap"} or other, default "dispersion"
        "dispersion" samples lambda = 1 / (2 sigma^2) from its conjugate law; lambda_f and lambda_c follow from it. A
        `bayesfair.gibbs.Dispersion` sets its gamma prior. "holmes-walker" (2017) and "loss-likelihood-bootstrap" (Lyddon,
        Holmes and Walker 2019) fix it by the residuals around the starting clusters. A pair is (lambda_f, lambda_c), fixed,
        such as `inverse_temperature_` of another fit. With target="labels" a number is lambda, fixed.
    reallocation : {"auto", "collapsed", "blocked"}, default "auto"
        How fairlets change clusters. "auto" is "collapsed" for up to 2,000 fairlets and "blocked" beyond.
    inner_steps : int, at least 1, default 10
        With target="cut", reallocations in a sweep.
    fairlet_move : {"swaps", "rectangular-loop"}, default "swaps"
        How fairlets exchange members, for "joint" and "cut". "swaps" exchanges many pairs in a sweep. "rectangular-loop" is
        the paper's Algorithm 1 step by step. It has the same law but less than a hundredth of the effective draws in the
        same time.
    min_balance : "exact" or float above zero, default "exact"
        With target="labels". "exact": in every cluster each group's count differs by less than one row from its share of
        the data. A number: the least balance of every cluster, at most the balance of the data.
    crossed : bool, default True
        With target="labels", whether several sensitive columns are crossed into one group. False balances every column on
        its own.
    size_min : int, at least 1, optional
        With target="labels", the least rows of every cluster in every draw, beside its balance. Rows count, not weights.
        Sizes that no balanced labelling has are refused, and the message gives the nearest ones that it has.
    size_max : int, at least 1, optional
        The most rows of a cluster, like `size_min`.
    keep_fairlets : bool or int, at least 1, default False
        Whether `posterior_` keeps the fairlets of draws too, for "joint" and "cut". A number keeps those of so many draws
        of each chain, evenly spaced.
    num_chains : int, at least 1, default 4
        Number of chains.
    num_warmup : int, at least 0, default 1000
        Sweeps of each chain that are thrown away.
    num_draws : int, at least 1, default 1000
        Draws of each chain.
    thinning : int, at least 1, or "auto", default "auto"
        Sweeps from draw to draw. "auto" takes as many as make a draw worth half of an independent one, by the slowest
        scalar of the warm-up, within a budget of sweeps.
    num_starts : int, at least 0, default 32
        Short runs from different starts that look for modes before the warm-up. They come in whole batches of `num_chains`:
        at least two, and at most one for every 48 sweeps of `num_warmup`. 0 leaves the search out, and so does a warm-up
        below 96.
    mode_jumps : int, at least 1, "auto" or False, default "auto"
        How chains jump between modes and weigh them. "auto" makes jumps longer until the masses of the modes, or bounds of
        them, decide. An int allows jumps of up to so many steps, whatever they cost. False makes none; nothing is then
        known of masses.
    tempering : bool or "auto", default "auto"
        Whether to sample by replica exchange at 16 inverse temperatures, so that chains visit all modes at several times
        the cost. "auto" tries it for losses without conjugate centres if the search found several modes of at most 100
        rows.
    random_state : int or numpy.random.RandomState, optional
        An int makes runs repeatable on one machine and version.
    progress_bar : bool, default True
        Whether to show a progress bar.
    mesh : jax.sharding.Mesh, optional
        A `bayesfair.distributed.mesh` of chains: processes that share the chains. Each fits the same table and gets the
        posterior of all chains, bit for bit that of one process.

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
        Posterior means (lambda_f, lambda_c), or of whatever inverse temperatures the target has.
    cluster_centers_ : numpy.ndarray of shape (n_clusters, n_features)
        Means of the clusters of `labels_`; NaN for an empty one. Categorical columns become indicators.
    n_iter_ : int
        Sweeps done.
    thinning_ : int
        Sweeps from draw to draw.

    Notes
    -----
    One reallocation in a sweep would not be exact for the cut (Plummer 2015), so `inner_steps` of them approach it. Under
    the cut lambda_f stays where it starts.

    Categorical columns become indicators (Huang 1998). Under "kl" and "binary" they pay entropies. New rows with an unknown
    level are refused.

    Kept fairlets are `fairlet` (chain, draw, obs), or (chain, kept_draw, obs) for a number, in the group `posterior`. An
    anchor's fairlet has the same number in all draws. Without anchors the numbers mean nothing from draw to draw.

    Search for modes: it costs at most 1.5 times the warm-up if the warm-up has 24 sweeps for every start, and at most
    twice if it is shorter, with four chains. Chains begin in the modes that hold mass. Without a search they begin at
    k-means++ restarts or cooled labellings. `bayesfair.posterior.modes` lists the modes.

    Jumps: with "auto" they take at most four times as many steps as the warm-up has sweeps (as many for 100,000 rows or
    more), apart from the last length, which comes to its end. Losses without conjugate centres have no jumps.

    Tempering: a trial before the warm-up has to make a round trip from the hottest replica to the coldest. If it makes
    none, a warning is issued and sampling continues without tempering and without jumps.

    References
    ----------
    The Gibbs paper, eq. (9), eq. (12) and Algorithm 1. Rigon, Herring and Dunson (2023). Holmes and Walker (2017), eq. (5).

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.make_well_specified()
    >>> est = bf.GibbsFairClustering(2, num_chains=2, num_warmup=50, num_draws=100, random_state=0, progress_bar=False)
    >>> est.fit(data.features, sensitive_features=data.sensitive).labels_.shape
    (100,)
    """

    __metadata_request__fit = {"sensitive_features": True, "sample_weight": True}  # noqa: RUF012

    def __init__(
        self,
        n_clusters: Count = 3,
        *,
        loss: Literal["kmeans", "manhattan", "minkowski", "kl", "itakura-saito", "binary"] | Loss = "kmeans",
        power: Positive = 1.0,
        target: Literal["joint", "cut", "optimal", "labels"] | type[Target] = "joint",
        composition: Mapping | ArrayLike = "auto",
        categorical_features: ArrayLike | None = None,
        category_weight: Positive | Literal["auto"] = "auto",
        min_group_size: Count | None = None,
        merged_group_name: str = "other",
        inverse_temperature: Literal["dispersion", "holmes-walker", "loss-likelihood-bootstrap"]
        | float
        | tuple[float, ...]
        | Dispersion = "dispersion",
        reallocation: Literal["auto", "collapsed", "blocked"] = "auto",
        inner_steps: Count = 10,
        fairlet_move: Literal["swaps", "rectangular-loop"] = "swaps",
        min_balance: Literal["exact"] | Positive = "exact",
        crossed: bool = True,
        size_min: Count | None = None,
        size_max: Count | None = None,
        keep_fairlets: bool | Count = False,
        num_chains: Count = 4,
        num_warmup: Length = 1000,
        num_draws: Count = 1000,
        thinning: Count | Literal["auto"] = "auto",
        num_starts: Length = 32,
        mode_jumps: Count | Literal["auto", False] = "auto",
        tempering: bool | Literal["auto"] = "auto",
        random_state: Seed | np.random.RandomState | None = None,
        progress_bar: bool = True,
        mesh: jax.sharding.Mesh | None = None,
    ):
        self.n_clusters = n_clusters
        self.loss = loss
        self.power = power
        self.target = target
        self.composition = composition
        self.categorical_features = categorical_features
        self.category_weight = category_weight
        self.min_group_size = min_group_size
        self.merged_group_name = merged_group_name
        self.inverse_temperature = inverse_temperature
        self.reallocation = reallocation
        self.inner_steps = inner_steps
        self.fairlet_move = fairlet_move
        self.min_balance = min_balance
        self.crossed = crossed
        self.size_min = size_min
        self.size_max = size_max
        self.keep_fairlets = keep_fairlets
        self.num_chains = num_chains
        self.num_warmup = num_warmup
        self.num_draws = num_draws
        self.thinning = thinning
        self.num_starts = num_starts
        self.mode_jumps = mode_jumps
        self.tempering = tempering
        self.random_state = random_state
        self.progress_bar = progress_bar
        self.mesh = mesh

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

        Of processes that share chains the first one writes the store, and the others read it at the end.
        """
        refuse_groups_as_y(y, sensitive_features)
        self._start_clock()
        check_settings(self)
        _refuse_rows(self.mesh)
        self._refuse_unread()
        self._store = None if store is None else Store(check_store(store))
        columns = read_columns(self, X, self.categorical_features, reset=True)
        weight = check_positive_weights(sample_weight, len(columns.continuous), X)
        weight = None if (weight == 1).all() else weight
        where = categorical_positions(X, self.categorical_features)
        self._mixed = mixed_table(columns, where, column_names(X), self._loss, self.category_weight, weight)
        groups = read_groups(self, sensitive_features, len(columns.continuous), X=X)
        rows = self._mixed.numbers(columns)
        self._mixed = self._mixed.counted(rows, self._loss, weight)
        self._describe(X, sensitive_features, mixed=self._mixed._asdict())
        X = rows
        self._kept_of = self.num_draws
        self._check_room(X, self.num_draws)
        self._draw_seed()
        with sharing(self.mesh, "chains", stops=True):
            return self._fit(X, groups, weight)

    def _refuse_unread(self):
        """Raise a ValueError for an argument without effect; targets and tables of numbers refuse others themselves."""
        if not (isinstance(self.loss, str) and self.loss == "minkowski"):
            refuse_unread(self, "power", where="unless loss='minkowski'")
        if isinstance(self.target, str) and self.target in ("joint", "optimal"):
            refuse_unread(self, "inner_steps", where="unless target='cut'")
        if isinstance(self.target, str) and self.target in ("joint", "cut", "optimal"):
            refuse_unread(self, "crossed", where="unless target='labels'")
        if not issubclass(resolve_target(self.target), HasFairlets):
            why = "'optimal' keeps one decomposition in all draws, and 'labels' has no fairlets."
            refuse_unread(self, "fairlet_move", "keep_fairlets", where="unless target='joint' or 'cut'", why=why)
        elif isinstance(self.composition, str) and self.composition == "singletons":
            where = "with composition='singletons', whose fairlets never change"
            refuse_unread(self, "fairlet_move", "keep_fairlets", where=where)
        if plain(self.mode_jumps) is not False:  # False means no jumps anyway
            if n_search_starts(self.num_starts, self.num_chains, self.num_warmup) == 0:
                where = f"if num_starts is 0 or num_warmup below {2 * FEWEST_SWEEPS}, as nothing looks for modes"
                refuse_unread(self, "mode_jumps", where=where)
            if plain(self.tempering) is True:
                refuse_unread(self, "mode_jumps", where="under tempering=True")
            if self._loss.augmentation is None:
                refuse_unread(self, "mode_jumps", where="for losses without conjugate centres")

    def _check_alike(self, X, groups, weight, **more):
        """Processes that share chains must have the same data."""
        table = partial(digest, X) if weight is None else partial(digest, X, weight)
        return check_alike(self, X=table, sensitive_features=partial(digest, groups.code, groups.names), **more)

    def _fit(self, X, groups, weight):
        self._check_alike(X, groups, weight)
        self._seed = agreed(self._seed)
        check_distinct(X, self.n_clusters)
        problem = self._problem(X, groups, weight)
        if self._loss.translation_invariant and self._mixed.n_numbers:
            warn_of_scales(X[:, : self._mixed.n_numbers], self._mixed.names)
        warn_of_gpu()
        give_back_freed()
        length = self.num_chains, self.num_warmup, self.num_starts
        crossing = plain(self.mode_jumps), plain(self.tempering)
        problem, run, found = start_in_modes(problem, *length, *crossing, self._shows_progress)
        problem = problem._replace(table=problem.table._replace(X=None))  # needed for starts only
        give_back_freed()
        # Before the warm-up: without its fairlets a sweep is another compiled program.
        run, reports = warm_up(self._to_keep(run), problem.target, self.num_warmup, self._shows_progress)
        self.thinning_ = self.thinning
        if self.thinning == "auto":
            self.thinning_ = suitable_thinning(reports, run.moves, problem.target)
        modes = None if found is None else modes_dataset(problem, found)
        return self._sample(problem, run, self.num_draws, (X, groups, weight, modes))

    def _resume(self, num_draws):
        _refuse_rows(self.mesh)
        with sharing(self.mesh, "chains", stops=True):
            return self._go_on(num_draws)

    def _go_on(self, num_draws):
        tree, done = self.posterior_, self.posterior_["posterior"].sizes["draw"]
        self._start_clock(tree)
        missing = self._run["wanted"] - done
        if missing <= 0 and "unfinished" not in tree.attrs:
            missing = self.num_draws
        num_draws = missing if num_draws is None else check_integer("num_draws", num_draws)
        known, groups, weight = observed_features(tree), groups_of(tree), weight_of(tree)
        self._kept_of = self._run["kept_of"]
        self._check_room(known, done + num_draws)
        modes = tree["modes"].to_dataset() if "modes" in tree.children else None
        self._check_alike(known, groups, weight, num_draws=num_draws)
        arrays = arrays_of(tree[STATE])
        problem, run = continued(self._problem(known, groups, weight, arrays), arrays, self._run)
        return self._sample(problem, self._to_keep(run, done), num_draws, (known, groups, weight, modes), tree)

    @property
    def _shows_progress(self):
        return self.progress_bar and leads()

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The likeliest cluster of every row on its own: `predict_proba(X).argmax(1)`.

        Nothing guarantees the balance of new rows. `reassign` places them together. The rows of the fit do not always get their
        `labels_`: those are balanced, and some rows are in a less likely cluster for it. For a target of your own without
        `lambda_c` it is the cluster of `labels_` with the nearest centre.

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
        check_is_fitted(self, "posterior_")
        if "lambda_c" not in self.posterior_["posterior"]:
            return self._distances(X)[1].argmin(1)
        return self.predict_proba(X).argmax(1)

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """The probability of each cluster for rows on their own, averaged over up to 400 draws.

        In a draw it is softmax over clusters k of -lambda d(x, m_k), m_k being the means of the clusters and lambda the inverse
        temperature of one row. Balance has no part in it. For the rows of the fit use `bayesfair.posterior.memberships`.

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
            If the target has no inverse temperature, or the columns differ from those of the fit.
        """
        check_is_fitted(self, "posterior_")
        X = self._read_new(X)
        posterior = self.posterior_["posterior"]
        if "lambda_c" not in posterior:
            rule, remedy = "have the parameter `lambda_c`", "predict does not need it."
            raise ValueError(message("target", rule, f"one with {', '.join(posterior.data_vars)}", remedy))
        chosen = evenly_spaced(posterior["lambda_c"].size, PREDICTIVE_DRAWS)
        centers = posterior["centers"].values
        centers = centers.reshape(-1, *centers.shape[2:])[chosen]
        held = fairlet_capacities(self.posterior_)
        share = 1.0 if held is None else len(held.lower) / posterior.sizes["obs"]  # a row's mean weight in its unit
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
        known, of_fit = groups_of(self.posterior_), self.get_params() | settings_of(self.posterior_)["parameters"]
        composition, promise = of_fit["composition"], self._run["promise"]
        if isinstance(composition, str) and composition == "singletons" and promise == "fairlets":
            promise = None
        if len(known.names) == 1 or promise is None:
            return self.predict(X)
        check_same_attributes(sensitive_features, self._names.get("sensitive"))
        X, cost = self._distances(X)
        groups = known_groups(sensitive_features, len(X), known, of_fit["merged_group_name"])
        if promise == "labels":
            return balanced_placement(cost, groups.code, balance_constraint(groups, of_fit["min_balance"]))
        of_decomposition = {"dissimilarity": self._dissimilarity, "random_state": self._seed}
        return place_fairlets(X, cost, groups, composition, of_decomposition)

    @property
    def _promise(self):
        return resolve_target(self.target).promise

    @property
    def _loss(self):
        return resolve_loss(self.loss, self.power)

    def _read_new(self, X):
        """New rows as checked numbers (N, numeric columns)."""
        where = np.array(self._mixed.where, int) if self._mixed.where else ()
        return self._mixed.numbers(read_columns(self, X, where, reset=False))

    def _distances(self, X):
        """(checked X, costs of its rows for the centres of `labels_`)."""
        check_is_fitted(self, "posterior_")
        X = self._read_new(X)
        return X, distances(self._dissimilarity, X, self.cluster_centers_)

    @classmethod
    def load(cls, path: str | PathLike[str], *, loss: Loss | None = None, target: type[Target] | None = None) -> Self:
        """Read the estimator that `save` wrote.

        Parameters
        ----------
        path : str or os.PathLike
            The file, or the folder of a run with a `store`.
        loss : Loss, optional
            A loss of your own that the run was fitted with. It is not stored.
        target : Target class, optional
            A target of your own that the run was fitted with. It is not stored.

        Returns
        -------
        GibbsFairClustering

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If the file is damaged or holds something else, or an earlier version made it with rows in several processes.
        """
        tree, settings = read_run(path, cls, needed=[STATE])
        refuse_shares(path, tree, settings)
        given = {"loss": loss, "target": target}
        given = {name: value for name, value in given.items() if value is not None}
        for name, kind in OF_YOUR_OWN.items():
            if settings["parameters"][name] is None and name not in given:
                rule = f"be given for a run with a {name} of your own"
                raise ValueError(message(name, rule, "none", f"Pass the {kind} of the fit."))
        estimator = cls._of_file(tree, settings, **given)
        estimator._store = Store(path).seen() if is_stored(tree) else None
        return estimator

    def _problem(self, X, groups, weight, state=None):
        """The problem of a fit; `state`: the arrays from which a run continues."""
        resolved = {"loss": self._loss, "seed": self._seed}
        resolved["inverse_temperature"] = resolve_temperature(self.inverse_temperature)
        settings = Settings(*(resolved[name] if name in resolved else getattr(self, name) for name in Settings._fields))
        table = Table(X, groups, weight, self._mixed.dim, self._mixed.names)
        problem = make_problem(table, settings, state, self._shows_progress)
        leaves, structure = jax.tree.flatten(problem.target)  # processors of different kinds may differ in it
        return problem._replace(target=structure.unflatten(agreed(leaves)))

    def _check_room(self, X, num_draws):
        shape, sizes = (self.num_chains, num_draws, len(X)), (self.n_clusters, X.shape[1])
        moves_fairlets = self._promise != "labels" and not resolve_target(self.target).keeps_fairlets
        taken = {"sampling": sampler_bytes(self.num_chains, X.shape[1], moves_fairlets=moves_fairlets)}
        taken["fairlets"] = fairlet_bytes(self.num_chains, len(self._keeping().among(num_draws)), len(X))
        if self._store is not None:
            return check_disk(self._store.path, shape, *sizes, **taken)
        remedy = "Pass fit(..., store='run.zarr'), which keeps draws on disk, or ask for less."
        return check_memory(shape, *sizes, **taken, remedy=remedy)

    def _keeping(self, done=0):
        """Which draws keep their fairlets, after `done` draws."""
        number = self._kept_of if self.keep_fairlets is True else min(int(self.keep_fairlets), self._kept_of)
        return KeepFairlets(number, self._kept_of, done)

    def _to_keep(self, run, done=0):
        """The run, which from here on keeps fairlets if wanted; `done` draws are made."""
        return run if plain(self.keep_fairlets) is False else run._replace(fairlets=self._keeping(done))

    def _sample(self, problem, run, num_draws, table, earlier=None):
        """Draw `num_draws` more after those of the tree `earlier`, if any, and adopt the posterior of all of them.

        `table`: X, groups, weights, and the modes that were found.
        """
        done = 0 if earlier is None else earlier["posterior"].sizes["draw"]
        settings = self._settings(
            sweep=run.sweep,
            thinning=self.thinning_,
            tuning=tuning(run.moves),
            wanted=done + num_draws,
            promise=self._promise,
            kept_of=self._kept_of,
            fairlets=_about_fairlets(problem) if earlier is None else self._run["fairlets"],
        )
        draw = self._draw_in_memory if self._store is None else self._draw_to_store
        tree = draw(problem, run, num_draws, table, earlier, settings)
        give_back_freed()
        self._adopt(tree, self._run_of(tree, settings_of(tree)))
        give_back_freed()
        self._warn_of_disagreement(lambda: self._remedy(problem, tree))
        return self

    def _remedy(self, problem, tree):
        """A further remedy if chains stay in separate modes: replicas, if they have not been tried."""
        unknown = "modes" in tree.children and tree["modes"].attrs["masses"] == "not known"
        tried = plain(self.tempering) is True or problem.target.n_obs <= FEW_ROWS
        if not unknown or tried or "lp" not in problem.target.statistics:
            return ""
        return "tempering=True may cross modes, with some hundreds of rows."

    def _draw_in_memory(self, problem, run, num_draws, table, earlier, settings):
        run, draws = draw(run, problem.target, num_draws, self.thinning_, self._shows_progress)
        draws = unscaled(problem, draws)
        if earlier is not None:
            draws = concatenate([draws_of(earlier), draws])
        tree = self._tree_of(problem, run, draws, table, settings)
        tree["sample_stats"].attrs.update(self._cost())
        return tree

    def _tree_of(self, problem, run, draws, table, settings):
        """The tree of these draws and of the run after them, without derived results."""
        X, groups, weight, modes = table
        tree = build_tree(
            draws,
            X,
            groups,
            settings={**settings, "sweep": run.sweep},
            feature_names=self._mixed.names,
            obs_names=self._row_names,
            n_clusters=self.n_clusters,
            point=None,
            modes=modes,
            weight=weight,
        )
        axes = {name: ("chain", *dims) for name, dims in problem.target.state_dims.items()}
        tree[STATE] = state_dataset(state_of(problem.target, run), axes)
        return tree

    def _draw_to_store(self, problem, run, num_draws, table, earlier, settings):
        path, wanted = self._store.path, settings["wanted"]

        def add(stored, run, draws):
            draws = unscaled(problem, draws)
            if stored is None:
                return begin_run(path, self._tree_of(problem, run, draws, table, settings), run.sweep, wanted)
            stored.append(draws, run.sweep, state_of(problem.target, run))
            return stored

        def finish():
            into.stored.finish(self._cost())
            return read_tree(path)

        stored = self._store.go_on(wanted) if earlier is not None and leads() else None
        with Writer(add if leads() else lambda *_: None, stored) as into:
            if num_draws:
                draw(run, problem.target, num_draws, self.thinning_, self._shows_progress, into)
            give_back_freed()
            tree = first_then_others(finish, lambda: read_tree(path))
        self._store.seen()
        return tree

    def _take(self, tree, progress):
        super()._take(tree, progress)
        X = tree["observed_data"]["X"]
        self._mixed, self._dissimilarity = _mixed_of(self._names, X.shape[1]), self._loss.dissimilarity
        self.n_features_in_ = self._mixed.n_numbers + len(self._mixed.where)
        self.n_iter_, self.thinning_ = progress["sweep"], progress["thinning"]

    def _derived(self):
        tree = self.posterior_
        X, weight, posterior = observed_features(tree), weight_of(tree), tree["posterior"]
        lambdas = [name for name, values in posterior.data_vars.items() if values.attrs.get("kind") == "parameter"]
        return super()._derived() | {
            "inverse_temperature_": lambda: tuple(float(posterior[name].mean(dtype=float)) for name in lambdas),
            "cluster_centers_": lambda: self._means(X, weight),
        }

    def _means(self, X, weight):
        mass = code_masses(self.labels_, self.n_clusters, weight)[:, None]
        return cluster_sums(X, self.labels_, self.n_clusters, weight) / np.where(mass > 0, mass, np.nan)

    def _run_of(self, tree, settings):
        """The run's progress; its states are in the tree. Older files lack some of it."""
        older = {"thinning": settings["parameters"]["thinning"], "wanted": tree["posterior"].sizes["draw"]}
        older |= {"fairlets": None, "promise": self._promise, "kept_of": self.num_draws}
        return {name: settings.get(name, older.get(name)) for name in ("sweep", "tuning", *older)}

    @property
    def map_labels_(self) -> np.ndarray:
        """The draw of highest density, of shape (n_obs,). Absent with target="cut", where no draw's density is known."""
        check_is_fitted(self, "posterior_")
        try:
            return map_partition(self.posterior_)
        except ValueError as error:
            raise AttributeError(f"There are no `map_labels_`. {error}") from error


def _refuse_rows(mesh):
    """Raise a ValueError if a mesh gives rows to several processes."""
    if dict(getattr(mesh, "shape", {})).get("rows", 1) > 1:
        remedy = f"Pass bf.distributed.mesh(chains=...), or no mesh. {WHY_NO_ROWS}"
        raise ValueError(message("mesh", "give processes chains, not rows", f"the axes {dict(mesh.shape)}", remedy))


def _about_fairlets(problem):
    """How near the fixed fairlets of all draws are to the best ones; None if draws change them."""
    found = problem.table.fairlets
    if found is None or not problem.target.keeps_fairlets:
        return None
    return {"gap": 0.0 if found.optimal else found.gap}


def _mixed_of(names, n_columns) -> MixedTable:
    """The `MixedTable` in a file; older files have no categories, or count L - 1 dimensions for L levels."""
    if "mixed" not in names:
        return MixedTable(names=names["feature_names"], n_numbers=n_columns)
    mixed = MixedTable(**names["mixed"])
    of_older = mixed.n_numbers + sum(len(part) - 1 for part in mixed.levels)
    return mixed._replace(dim=of_older) if mixed.dim is None else mixed
