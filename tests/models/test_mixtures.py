"""The models' densities against other libraries and against sums written out."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from numpyro.distributions import biject_to
from numpyro.infer import Predictive, log_likelihood
from numpyro.infer.util import log_density
from scipy import stats
from scipy.special import logsumexp
from tiers import tiers

import bayesfair as bf
from bayesfair.models import factor, mixtures, observed, parameters
from bayesfair.models.predictive import prior_sites
from bayesfair.models.priors import law_of_means
from bayesfair.models.rows import MixtureRow, scaled_table
from bayesfair.models.units import ColumnScaling, scaling_of, units_of

RNG = np.random.default_rng(0)
X = 30 + np.array([5.0, 0.5]) * RNG.normal(size=(40, 2))
CODES = np.stack([RNG.integers(3, size=40), RNG.integers(2, size=40)], 1)
GROUPS = RNG.integers(3, size=40)
GROUPS[:3] = 0, 1, 2
WEIGHTS = np.array([0.2, 0.3, 0.5])
MEANS = X.mean(0) + X.std(0) * RNG.normal(size=(3, 2))
SCALES = np.exp(RNG.normal(size=(3, 2)))
LEVELS = [RNG.dirichlet(np.ones(3), 3), RNG.dirichlet(np.ones(2), 3)]
CORRELATION = np.stack([[[1, 0], [r, np.sqrt(1 - r**2)]] for r in (0.3, -0.8, 0.0)])


def units_of_table(x, covariance_type):
    return units_of(scaling_of(x), covariance_type)


def sites_of(kind):
    sites = {"weights": WEIGHTS}
    if kind != "categorical":
        sites |= {"means": MEANS, "scales": 1.7 if kind == "isotropic" else SCALES}
    if kind == "full":
        sites["correlation_cholesky"] = CORRELATION
    if kind in ("categorical", "mixed"):
        sites |= {f"levels_{j}": part for j, part in enumerate(LEVELS)}
    return sites


def model_of(kind, **settings):
    settings = {"n_components": 3, **settings}
    if kind == "categorical":
        return bf.models.fair_categorical_mixture, (CODES,), settings
    if kind == "mixed":
        return bf.models.fair_mixed_mixture, (X, CODES), {"covariance_type": "diag", **settings}
    return bf.models.fair_gaussian_mixture, (X,), {"covariance_type": kind, **settings}


def covariance(kind, k):
    if kind == "isotropic":
        return 1.7**2 * np.eye(2)
    factor = np.diag(SCALES[k]) @ (CORRELATION[k] if kind == "full" else np.eye(2))
    return factor @ factor.T


def expected_log_joint(kind):
    """log pi_k + log f(x_i; theta_k), by scipy and by loops."""
    total = np.tile(np.log(WEIGHTS), (40, 1))
    for k in range(3):
        if kind != "categorical":
            total[:, k] += stats.multivariate_normal(MEANS[k], covariance(kind, k)).logpdf(X)
        if kind in ("categorical", "mixed"):
            total[:, k] += sum(np.log(LEVELS[j][k][CODES[:, j]]) for j in range(2))
    return total


KINDS = ("isotropic", "diag", "full", "categorical", "mixed")
FEW_KINDS = ("isotropic", "full", "mixed")  # the last of diagonal covariances


@pytest.mark.parametrize("kind", KINDS)
def test_pointwise_log_likelihood_is_that_of_scipy(kind):
    model, args, settings = model_of(kind)
    draws = {name: np.asarray(value, np.float32)[None] for name, value in sites_of(kind).items()}
    ours = jax.jit(lambda draws: log_likelihood(model, draws, *args, **settings)["x"])(draws)
    np.testing.assert_allclose(np.asarray(ours)[0], logsumexp(expected_log_joint(kind), axis=1), rtol=2e-4, atol=2e-4)


OTHERS = np.flatnonzero(X[:, 0] > 33)  # rows whose mean is far from that of all, one of them twice
OTHERS = np.r_[OTHERS, OTHERS[0]]


@pytest.mark.parametrize("kind", tiers(KINDS, FEW_KINDS))
def test_draws_describe_rows_of_any_table_in_the_units_of_the_fit(kind):
    """Nothing is rescaled to the rows at hand: densities of other rows are SciPy's, and means stay what they were."""
    model, args, settings = model_of(kind, **({"n_levels": (3, 2)} if kind in ("categorical", "mixed") else {}))
    draws = {name: np.asarray(value, np.float32)[None] for name, value in sites_of(kind).items()}

    @jax.jit
    def told(draws):
        some = [log_likelihood(model, draws, *(arg[rows] for arg in args), **settings) for rows in (OTHERS, OTHERS[:1])]
        kept = [name for name in draws if name in ("means", "scales", "levels_0")]
        back = Predictive(model, draws, return_sites=kept)(
            jax.random.key(0), *(arg[OTHERS] for arg in args), **settings
        )
        return [one["x"][0] for one in some], back

    (several, alone), back = told(draws)
    expected = logsumexp(expected_log_joint(kind), axis=1)[OTHERS]
    np.testing.assert_allclose(several, expected, rtol=2e-4, atol=2e-4)
    np.testing.assert_allclose(alone, expected[:1], rtol=2e-4, atol=2e-4)
    assert back.keys() >= ({"levels_0"} if kind == "categorical" else {"means", "scales"})
    for name, value in back.items():
        np.testing.assert_array_equal(value, draws[name])


def test_samplers_walk_in_standard_deviations():
    law, z = (
        law_of_means(bf.models.Prior(), units_of_table(X, "diag")),
        np.float32([[0.3, -1.0], [0.0, 2.0], [1.5, -0.4]]),
    )

    @jax.jit
    def told(z):
        places = biject_to(law.support)
        value = places(z)
        return value, law.log_prob(value).sum() + places.log_abs_det_jacobian(z, value).sum()

    value, density = told(z)
    np.testing.assert_allclose(value, X.mean(0) + X.std(0) * z, rtol=1e-5)
    assert float(density) == pytest.approx(stats.norm(0, 1.5).logpdf(z).sum(), rel=1e-4)


def test_one_scaling_gives_every_table_one_prior():
    values = {name: np.asarray(value, np.float32) for name, value in sites_of("diag").items()}
    model, _, settings = model_of("diag", scaling=bf.models.column_scaling(X))

    @jax.jit
    def log_prior(values):
        whole, some = (log_density(model, (X[rows],), settings, values)[0] for rows in (slice(None), OTHERS))
        draws = jax.tree.map(lambda value: value[None], values)
        densities = log_likelihood(model, draws, X, **settings)["x"][0]
        return whole - densities.sum(), some - densities[OTHERS].sum()

    whole, some = log_prior(values)
    assert float(whole) == pytest.approx(float(some), rel=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_the_log_prior_is_that_of_scipy(kind):
    """As the docstring of `Prior` has it; a correlation of two columns is LKJ(2) if (1 + r) / 2 is Beta(2, 2)."""
    values = {name: np.asarray(value, np.float32) for name, value in sites_of(kind).items()}
    x, n_levels = np.zeros((40, 0)) if kind == "categorical" else X, (3, 2) if "levels_0" in values else ()
    covariance_type = kind if kind in ("isotropic", "full") else "diag"
    mixture = mixtures.Mixture(observed.family_of(covariance_type, n_levels), 3)
    ours = jax.jit(partial(parameters.log_prior, mixture))(units_of_table(x, covariance_type), values)
    expected = stats.dirichlet([2.0] * 3).logpdf(WEIGHTS)
    if kind != "categorical":
        sd = np.sqrt(X.var(0).mean()) if kind == "isotropic" else X.std(0)
        expected += stats.norm(X.mean(0), 1.5 * X.std(0)).logpdf(MEANS).sum()
        expected += stats.lognorm(0.7, scale=0.5 * sd).logpdf(values["scales"]).sum()
    if kind == "full":
        expected += stats.beta(2, 2, loc=-1, scale=2).logpdf(CORRELATION[:, 1, 0]).sum()
    if n_levels:
        expected += sum(stats.dirichlet(np.ones(n)).logpdf(part.T).sum() for n, part in zip(n_levels, LEVELS))
    np.testing.assert_allclose(ours, expected, rtol=1e-4)


def test_rows_prepared_for_a_table_are_the_same_law():
    family = observed.family_of("full", ())
    values = {name: np.asarray(value, np.float32) for name, value in sites_of("full").items()}
    units, table = units_of_table(X, "full"), observed.rows_of(X, np.zeros((40, 0)))
    components = jax.jit(partial(parameters.assemble, family))(units, np.log(values["weights"]), values)

    @jax.jit
    def densities():
        plain = MixtureRow(components, units, family)
        prepared = plain.prepared_for(table, scaled_table(table, units, family))
        copied = jax.tree.map(lambda leaf: leaf + 0, prepared)
        return [[row.log_prob(rows) for row in (plain, prepared, copied)] for rows in (table, table[::-1], table + 1)]

    told = np.asarray(densities())
    np.testing.assert_allclose(told[:, 1:], told[:, :1].repeat(2, axis=1), rtol=1e-6)
    assert not np.allclose(told[0], told[2])


@pytest.mark.parametrize("kind", FEW_KINDS)
def test_the_fairness_factor_is_the_gap_of_psi(kind):
    model, args, settings = model_of(kind)
    values = {name: np.asarray(value, np.float32) for name, value in sites_of(kind).items()}

    @jax.jit
    def density(values, weight):
        return log_density(model, (*args, GROUPS), {**settings, "fairness_weight": weight}, values)[0]

    joint = expected_log_joint(kind)
    psi = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    delta = bf.fairness.gap(psi / psi.sum(1, keepdims=True), GROUPS)
    smooth = (density(values, 0.0) - density(values, 2.0)) / (2.0 * 40)
    tau = factor.SMOOTHING
    assert delta - tau * (1 + np.log(3)) - 1e-4 <= smooth <= delta + 1e-4

    def told(values):
        trace = numpyro.handlers.trace(numpyro.handlers.substitute(numpyro.handlers.seed(model, 0), values))
        sites = trace.get_trace(*args, GROUPS, **{**settings, "fairness_weight": 1.0})
        return sites["gap"]["value"]

    assert float(jax.jit(told)(values)) == pytest.approx(delta, abs=2e-4)


@pytest.mark.parametrize("kind", tiers(KINDS, FEW_KINDS))
def test_memberships_are_the_responsibilities_of_the_site_and_of_sums(kind):
    """By draw or by chain, of the rows of the fit or of others; labels are drawn from them."""
    model, args, settings = model_of(kind, **({"n_levels": (3, 2)} if kind in ("categorical", "mixed") else {}))
    sites = {name: np.asarray(value, np.float32) for name, value in sites_of(kind).items()}
    draws = {name: np.broadcast_to(value, (2, 1_000, *value.shape)) for name, value in sites.items()}
    table = (None, *args) if kind == "categorical" else args
    told = bf.models.memberships(draws, *(part if part is None else part[OTHERS] for part in table), random_state=0)
    joint = expected_log_joint(kind)[OTHERS]
    psi = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    assert told.psi.shape == (2, 1_000, len(OTHERS), 3)
    np.testing.assert_allclose(told.psi[1, 999], psi, atol=2e-4)
    drawn = (told.labels[..., None] == np.arange(3)).mean((0, 1))
    np.testing.assert_allclose(drawn, psi, atol=0.05)  # 4.5 standard errors
    named = numpyro.handlers.trace(numpyro.handlers.substitute(numpyro.handlers.seed(model, 0), sites))
    site = jax.jit(lambda: named.get_trace(*args, **settings)["psi"]["value"])()
    np.testing.assert_allclose(np.asarray(site)[OTHERS], psi, atol=2e-4)


def test_the_smooth_gap_tends_to_the_gap_and_is_zero_when_fair():
    member = factor.membership(GROUPS, 3).T
    psi = RNG.dirichlet(np.ones(4), 40)
    smooth_gap = jax.jit(bf.models.smooth_gap)
    errors = [float(smooth_gap(psi, member, tau)) - bf.fairness.gap(psi, GROUPS) for tau in (0.1, 0.01, 1e-3)]
    assert all(error <= 1e-6 for error in errors)
    assert np.all(np.diff(np.abs(errors)) < 0)
    assert abs(errors[-1]) < 3e-3
    assert float(smooth_gap(np.full((40, 4), 0.25), member)) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("kind", FEW_KINDS)
def test_drawn_rows_have_the_law_of_their_density(kind):
    values = {name: np.asarray(value, np.float32) for name, value in sites_of(kind).items()}
    x, _, n_levels = observed.tables(X, CODES if kind == "mixed" else None)
    covariance_type = "diag" if kind == "mixed" else kind
    family, units = observed.family_of(covariance_type, n_levels), units_of_table(x, covariance_type)

    @jax.jit
    def drawn(values):
        components = parameters.assemble(family, units, jnp.log(values["weights"]), values)
        return MixtureRow(components, units, family).sample(jax.random.key(0), (20_000,))

    rows = np.asarray(drawn(values))
    mean = WEIGHTS @ MEANS
    spread = sum(w * (covariance(kind, k) + np.outer(m - mean, m - mean)) for k, w, m in zip(range(3), WEIGHTS, MEANS))
    np.testing.assert_allclose(rows[:, :2].mean(0), mean, atol=4 * np.sqrt(np.diag(spread) / 20_000).max())
    size = np.sqrt(np.outer(np.diag(spread), np.diag(spread)))
    np.testing.assert_allclose(np.cov(rows[:, :2].T) / size, spread / size, atol=0.05)
    if kind == "mixed":
        for j, part in enumerate(LEVELS):
            share = np.bincount(rows[:, j - 2].astype(int)) / 20_000
            np.testing.assert_allclose(share, WEIGHTS @ part, atol=0.015)


LEVELLED, LABELLED = sites_of("categorical"), bf.models.labelled_mixture
BAD = [
    ("no groups", lambda: density_of(X, None, fairness_weight=1.0), "`groups` must be given"),
    ("one group", lambda: density_of(X, np.zeros(40), fairness_weight=1.0), "at least two groups"),
    ("short groups", lambda: density_of(X, GROUPS[:5], fairness_weight=1.0), "one entry per row"),
    ("missing group", lambda: density_of(X, [None, *GROUPS[1:]], fairness_weight=1.0), "a value in every row"),
    ("NaN", lambda: density_of(np.where(X > 35, np.nan, X), GROUPS), "be finite"),
    ("far from zero", lambda: density_of(X + 1e7, GROUPS), "Subtract the columns' means"),
    ("covariance", lambda: density_of(X, GROUPS, covariance_type="round"), "`covariance_type` must be one of"),
    ("weight", lambda: density_of(X, GROUPS, fairness_weight=-1.0), "at least 0"),
    ("components", lambda: density_of(X, GROUPS, n_components=0), "`n_components`"),
    ("prior", lambda: density_of(X, GROUPS, prior="flat"), "a bayesfair.models.Prior or None"),
    (
        "prior's weights",
        lambda: density_of(X, prior=bf.models.Prior(weight=(1.0, 200.0))),
        "one number for each component",
    ),
    (
        "sampled prior",
        lambda: density_of(X, prior=bf.models.Prior(mean=lambda _: 0.0)),
        "return a distribution of NumPyro",
    ),
    ("nothing to simulate", lambda: density_of(None), "`X` must be given, or what its columns are like"),
    ("no number of rows", lambda: density_of(None, scaling=bf.models.column_scaling(X)), "`n_obs` must be given"),
    ("two numbers of rows", lambda: density_of(X, n_obs=3), "`n_obs` must be left out if there is a table"),
    ("smoothing", lambda: density_of(X, GROUPS, fairness_weight=1.0, smoothing=0.0), "`smoothing`"),
    ("codes", lambda: density_of(None, GROUPS, codes=CODES - 1), "whole numbers from 0 on"),
    ("levels", lambda: density_of(None, GROUPS, codes=CODES, n_levels=(2, 2)), "above its largest code"),
    ("lengths", lambda: density_of(X, GROUPS, codes=CODES[:9]), "one entry per row"),
    ("scaling", lambda: density_of(X, scaling=(0, 1)), "`scaling` must be a bayesfair.models.ColumnScaling"),
    (
        "scaling's columns",
        lambda: density_of(X, scaling=ColumnScaling([0.0], [1.0])),
        "each of the 2 continuous columns",
    ),
    ("scaling's signs", lambda: density_of(X, scaling=ColumnScaling([0.0, 0.0], [1.0, -1.0])), "of at least 0"),
    ("scaling of text", lambda: bf.models.column_scaling([["a"]]), "`X`"),
    ("draws of other columns", lambda: density_of(X[:, :1], draws=sites_of("diag")), "`means` must have the shape"),
    ("draws of other components", lambda: density_of(X, draws=sites_of("diag"), n_components=2), "`weights` must have"),
    ("draws of other levels", lambda: density_of(None, codes=CODES[CODES[:, 0] < 2], draws=LEVELLED), "n_levels"),
    ("draws of other labels", lambda: density_of(X, draws={"labels": np.zeros(9, int)}, model=LABELLED), "fair_mixed"),
]


DRAWS = {name: np.asarray(value)[None] for name, value in sites_of("mixed").items()}
BAD += [
    ("no scales", lambda: bf.models.memberships({"weights": WEIGHTS[None]}, X), "have the sites.*'means'"),
    ("other columns of draws", lambda: bf.models.memberships(DRAWS, X[:, :1], CODES), "of the 1 columns of `X`"),
    (
        "other levels of draws",
        lambda: bf.models.memberships(DRAWS, X, CODES + 1),
        "`codes` must be codes of the levels",
    ),
    ("rows far away", lambda: bf.models.memberships(DRAWS, X * 1e30, CODES), "near the rows of the fit"),
]


def density_of(x, groups=None, codes=None, draws=None, model=bf.models.fair_mixed_mixture, **settings):
    model = numpyro.handlers.substitute(numpyro.handlers.seed(model, 0), draws or {})
    jax.eval_shape(lambda: numpyro.handlers.trace(model).get_trace(x, codes, groups, **settings) and None)


@pytest.mark.parametrize(("call", "text"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_input_is_refused_with_a_remedy(call, text):
    with pytest.raises((ValueError, TypeError), match=text):
        call()


def test_a_constant_column_has_no_unit_of_its_own_where_one_scale_is_shared():
    table = np.c_[X * 1e-3, np.full(len(X), 7.0)]
    units = units_of_table(table, "isotropic")
    np.testing.assert_allclose(units.scale, np.sqrt(table.var(0).mean()), rtol=1e-6)
    np.testing.assert_allclose(units.spread[-1], units.scale[-1])
    assert units_of_table(table[:, -1:], "isotropic").scale == 1


@pytest.mark.slow
def test_a_group_of_one_member_and_a_constant_column_work():
    groups, table = np.r_[1, np.zeros(39, int)], np.c_[X, np.ones(40)]
    model, settings = bf.models.fair_gaussian_mixture, {"fairness_weight": 1.0, "covariance_type": "full"}
    mixture = mixtures.Mixture(observed.family_of("full", ()), 3)
    sites = prior_sites(mixture, units_of_table(table, "full"), jax.random.key(1)[None])
    density = jax.value_and_grad(lambda sites: log_density(model, (table, groups), settings, sites)[0])
    told = jax.jit(density)({name: values[0] for name, values in sites.items()})
    assert all(np.isfinite(part).all() for part in jax.tree.leaves(told))
