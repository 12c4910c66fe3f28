"""A fit that was cut off goes on from its checkpoint, and ends where it would have ended."""

import numpy as np
import pytest
from sklearn.base import clone

import bayesfair as bf
from bayesfair.engines import checkpoint as module
from bayesfair.engines import fairlet_kmeans, fmc_blocks, optimize, variational_blocks
from bayesfair.gibbs import recombination, settling

ENGINES = {
    "mixture": bf.FairMixture(2, max_gap=0.05, n_init=3, max_iter=10, random_state=0),
    "mixture in blocks": bf.FairMixture(2, max_gap=0.05, n_init=2, max_iter=6, random_state=0),
    "batches": bf.FairMixture(2, max_gap=0.3, n_init=2, batch_size=50, max_iter=20, random_state=0),
    "variational": bf.VariationalFairClustering(2, max_iter=40, random_state=0),
    "path": bf.VariationalFairClustering(2, max_fairness_error=0.5, max_iter=40, random_state=0),
    "variational in blocks": bf.VariationalFairClustering(2, max_iter=40, random_state=0),
    "tilted": bf.TiltedKMeans(3, tilt=50.0, n_init=3, random_state=0),
    "tilted in shares": bf.TiltedKMeans(3, tilt=50.0, n_init=3, random_state=0),
    "sgd": bf.TiltedKMeans(2, solver="sgd", batch_size=20, max_iter=30, n_init=2, random_state=0),
    "big learn": bf.BigLearnMixture(2, max_iter=20, random_state=0),
    "big learn in shares": bf.BigLearnMixture(2, max_iter=20, random_state=0),
    "balanced": bf.BalancedKMeans(3, n_init=3, random_state=0),
    "balanced kl": bf.BalancedKMeans(3, loss="kl", min_balance=0.25, n_init=2, random_state=0),
    "balanced, one start": bf.BalancedKMeans(5, n_init=1, random_state=0),
}
DATA = bf.datasets.make_vfc_synthetic(unequal=True)
X = DATA.features.to_numpy() / 8
GIVEN = {"sensitive_features": DATA.sensitive, "sample_weight": 1.0 + np.arange(len(X)) % 3}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
every_engine = pytest.mark.parametrize("name", ENGINES)
going_on = pytest.warns(RuntimeWarning, match="going on from .*iteration [0-9]+ of its stage [0-9]+")


class Killed(BaseException):
    """What no code takes for its own affair."""


@pytest.fixture(autouse=True)
def _short_chunks(monkeypatch):
    monkeypatch.setattr(module, "EVERY", 0.0)
    monkeypatch.setattr(optimize, "CHUNK", 2)
    monkeypatch.setattr(fmc_blocks, "BLOCK", 64)
    monkeypatch.setattr(variational_blocks, "BLOCK", 64)


@pytest.fixture
def writes(monkeypatch):
    """Counts what is written; after the `last` one the fit ends by `error`."""
    write, count = module.Checkpoint._write, lambda: None
    count.made, count.last, count.error = 0, np.inf, Killed

    def counted(checkpoint):
        write(checkpoint)
        count.made += 1
        if count.made == count.last:
            raise count.error

    monkeypatch.setattr(module.Checkpoint, "_write", counted)
    return count


def engine_of(name, **changes):
    if "in " in name:
        changes["mesh"] = bf.distributed.mesh(rows=1)
    return clone(ENGINES[name]).set_params(**changes)


def what_was_found(est):
    return {name: value for name, value in vars(est).items() if name.endswith("_") and not name.startswith("_")}


def assert_same_fit(est, other):
    found = what_was_found(est)
    assert found.keys() == what_was_found(other).keys()
    for name, value in what_was_found(other).items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def cut_off(est, file, writes, last, error=Killed, **given):
    writes.made, writes.last, writes.error = 0, last, error
    with pytest.raises(error):
        est.fit(X, checkpoint=file, **{**GIVEN, **given})
    writes.last = np.inf
    assert file.exists()


@every_engine
def test_a_fit_that_was_cut_off_ends_bit_for_bit_where_it_would_have(name, tmp_path, writes):
    file, whole = tmp_path / "fit.npz", engine_of(name).fit(X, **GIVEN)
    assert_same_fit(engine_of(name).fit(X, checkpoint=file, **GIVEN), whole)
    assert not file.exists()
    total = writes.made
    assert total > 4
    for last in (1, total // 2, total):
        cut_off(engine_of(name), file, writes, last)
        with going_on:
            est = engine_of(name).fit(X, checkpoint=file, **GIVEN)
        assert_same_fit(est, whole)
        assert not file.exists()
        assert writes.made < last + total


def test_a_fit_is_cut_off_again_and_again(tmp_path, writes):
    file, whole = tmp_path / "fit.npz", engine_of("path").fit(X, **GIVEN)
    cut_off(engine_of("path"), file, writes, 2)
    for _ in range(3):
        with going_on:
            cut_off(engine_of("path"), file, writes, 3)
    with going_on:
        assert_same_fit(engine_of("path").fit(X, checkpoint=file, **GIVEN), whole)


@pytest.mark.parametrize("random_state", [None, np.random.RandomState(3)])
def test_the_seed_that_was_drawn_is_drawn_once(random_state, tmp_path, writes, monkeypatch):
    seeds = []
    monkeypatch.setattr(bf.TiltedKMeans, "solve", noting_seeds(bf.TiltedKMeans.solve, seeds))
    file = tmp_path / "fit.npz"
    cut_off(engine_of("tilted", random_state=random_state), file, writes, 2)
    with going_on:
        engine_of("tilted", random_state=random_state).fit(X, checkpoint=file, **GIVEN)
    assert seeds[0] == seeds[1]
    engine_of("tilted", random_state=random_state).fit(X, checkpoint=file, **GIVEN)
    assert seeds[2] != seeds[1]


def noting_seeds(solve, seeds):
    def noted(self, problem, data):
        seeds.append(data.seed)
        return solve(self, problem, data)

    return noted


def test_after_ctrl_c_the_file_stays_and_the_fit_goes_on_from_there(tmp_path, writes):
    """The interrupted fit returns what it has; nothing that it does afterwards is kept."""
    file, whole = tmp_path / "fit.npz", engine_of("tilted").fit(X, **GIVEN)
    writes.last, writes.error = 3, KeyboardInterrupt
    with pytest.warns(RuntimeWarning, match="Interrupted after"):
        est = engine_of("tilted").fit(X, checkpoint=file, **GIVEN)
    assert est.n_iter_ > 0
    assert writes.made == 4  # once more on Ctrl-C, and never again
    with going_on:
        assert_same_fit(engine_of("tilted").fit(X, checkpoint=file, **GIVEN), whole)
    assert not file.exists()


def test_ctrl_c_writes_a_file_before_its_time(tmp_path, monkeypatch):
    file, whole = tmp_path / "fit.npz", engine_of("sgd").fit(X, **GIVEN)
    monkeypatch.setattr(module, "EVERY", np.inf)
    look, looks = module.Checkpoint.look, []

    def interrupted(checkpoint, *arguments, **settings):
        looks.append(look(checkpoint, *arguments, **settings))
        if len(looks) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(module.Checkpoint, "look", interrupted)
    with pytest.warns(RuntimeWarning, match="Interrupted after 4 iterations"):
        engine_of("sgd").fit(X, checkpoint=file, **GIVEN)
    with pytest.warns(RuntimeWarning, match="going on from .*iteration 4 of its stage 1"):
        assert_same_fit(engine_of("sgd").fit(X, checkpoint=file, **GIVEN), whole)


SWAPPED = np.r_[1, 0, 2 : len(X)]
OTHERS = {  # what is other, and what the message has to name
    "setting": ({"tilt": 4.0}, {}, "tilt was 50.0, where it is 4.0"),
    "seed": ({"random_state": 1}, {}, "random_state was 0, where it is 1"),
    "drawn seed": ({"random_state": None}, {}, "random_state was 0, where it is drawn"),
    "mesh": ({"mesh": bf.distributed.mesh(rows=1)}, {}, "mesh was None, where it is given"),
    "entry": ({}, {"X": X + 1e-9 * np.eye(*X.shape)}, "X was 400 rows of 2 columns, float64, checksum"),
    "order": ({}, {"X": X[SWAPPED]}, "X was 400 rows"),
    "rows": ({}, {"X": X[:-1], **{name: value[:-1] for name, value in GIVEN.items()}}, "X was 400 rows.* is 399"),
    "groups": ({}, {"sensitive_features": GIVEN["sensitive_features"].to_numpy()[::-1]}, "sensitive_features was"),
    "weights": ({}, {"sample_weight": GIVEN["sample_weight"][SWAPPED]}, "sample_weight was"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_the_checkpoint_of_another_fit_is_refused(other, tmp_path, writes):
    settings, tables, match = OTHERS[other]
    file = tmp_path / "fit.npz"
    cut_off(engine_of("tilted"), file, writes, 2)
    before = file.read_bytes()
    with pytest.raises(ValueError, match=f"`checkpoint` must be one of the same fit, got .*{match}.*Delete the file"):
        engine_of("tilted", **settings).fit(**{"X": X, **GIVEN, **tables}, checkpoint=file)
    assert file.read_bytes() == before


def test_another_engine_or_version_is_refused(tmp_path, writes, monkeypatch):
    file = tmp_path / "fit.npz"
    cut_off(engine_of("tilted"), file, writes, 2)
    with pytest.raises(ValueError, match="in whose fit engine was TiltedKMeans, where it is BigLearnMixture"):
        engine_of("big learn").fit(X, checkpoint=file, **GIVEN)
    monkeypatch.setattr(module, "FORMAT", module.FORMAT + 1)
    with pytest.raises(ValueError, match=r"in whose fit format was 3 of bayesfair .*, where it is 4 of"):
        engine_of("tilted").fit(X, checkpoint=file, **GIVEN)


def test_categories_are_compared_too(tmp_path, writes):
    mixed = DATA.features.assign(town=np.resize(["York", "Ely", "Bath"], len(X)))
    file, est = tmp_path / "fit.npz", engine_of("mixture")
    writes.last = 1
    with pytest.raises(Killed):
        est.fit(mixed, checkpoint=file, **GIVEN)
    mixed.iloc[[0, 1], -1] = mixed.iloc[[1, 0], -1].to_numpy()
    with pytest.raises(ValueError, match="in whose fit categories of X was"):
        clone(est).fit(mixed, checkpoint=file, **GIVEN)


@pytest.mark.parametrize("damage", ["cut", "one byte", "empty", "an array", "another archive"])
def test_a_damaged_file_is_refused_and_left_alone(damage, tmp_path, writes):
    file = tmp_path / "fit.npz"
    cut_off(engine_of("tilted"), file, writes, 2)
    content = file.read_bytes()
    if damage == "an array":
        with open(file, "wb") as stream:
            np.save(stream, X)
    elif damage == "another archive":
        np.savez(file, X=X)
    else:
        half = len(content) // 2
        flipped = content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :]
        file.write_bytes({"cut": content[:half], "one byte": flipped, "empty": b""}[damage])
    content = file.read_bytes()
    with pytest.raises(ValueError, match=r"`checkpoint` must be one that `fit` has written, got .*which cannot"):
        engine_of("tilted").fit(X, checkpoint=file, **GIVEN)
    assert file.read_bytes() == content


def test_engines_that_keep_nothing_refuse_a_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(bf.TiltedKMeans, "resumable", False)
    with pytest.raises(ValueError, match=r"`checkpoint` must be None for TiltedKMeans, got .*leave it out"):
        engine_of("tilted").fit(X, checkpoint=tmp_path / "fit.npz")


def not_again(*_):
    raise AssertionError("this was done before")


def test_fairlets_that_were_found_are_not_looked_for_again(tmp_path, writes, monkeypatch):
    est = bf.FairletKMeans(3, composition=(3, 1), random_state=0)
    file, whole = tmp_path / "fit.npz", clone(est).fit(X, **GIVEN)
    cut_off(clone(est), file, writes, 1)
    monkeypatch.setattr(fairlet_kmeans, "fairlets_of", not_again)
    with going_on:
        again = clone(est).fit(X, checkpoint=file, **GIVEN)
    fairlets, others = what_was_found(again).pop("decomposition_"), what_was_found(whole).pop("decomposition_")
    for name, part in fairlets._asdict().items():
        np.testing.assert_array_equal(part, getattr(others, name), err_msg=name)
    np.testing.assert_array_equal(again.labels_, whole.labels_)
    np.testing.assert_array_equal(again.cluster_centers_, whole.cluster_centers_)


def test_balanced_k_means_of_many_rows_is_cut_off_after_its_last_cooling(tmp_path, writes, monkeypatch):
    """All rows cool what was found on a part of them, which is a stage of its own."""
    monkeypatch.setattr(recombination, "SAMPLE", 100)
    file, whole = tmp_path / "fit.npz", engine_of("balanced").fit(X, **GIVEN)
    cut_off(engine_of("balanced"), file, writes, settling.GENERATIONS + 1)
    monkeypatch.setattr(recombination.Annealer, "cool", not_again)
    with pytest.warns(RuntimeWarning, match="iteration 1 of its stage 2"):
        assert_same_fit(engine_of("balanced").fit(X, checkpoint=file, **GIVEN), whole)


def test_a_place_without_a_folder_is_refused_before_anything_is_computed(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        engine_of("tilted").fit(X, checkpoint=tmp_path / "nowhere" / "fit.npz")


def test_without_a_checkpoint_nothing_of_it_runs(monkeypatch):
    monkeypatch.setattr(module, "Checkpoint", None)
    engine_of("tilted").fit(X)


def test_a_checksum_is_of_rows_in_order_however_they_are_cut(monkeypatch):
    from bayesfair.engines.shares import Share

    table = np.random.default_rng(0).normal(size=(100, 3)).round(1)
    cuts = {(100,): [100], (30, 70): [30, 70], (33, 1, 66): [33, 1, 66]}
    told = set()
    for sizes in cuts:
        sums = []
        places = np.cumsum((0, *sizes))
        for part in range(len(sizes)):
            share = PartOfRows(sizes, int(places[part]), sums)
            module._told(table[places[part] : places[part + 1]], share)
        told.add(module._told(np.empty((0, 3)), PartOfRows(sizes, 100, sums)))
    assert len(told) == 1
    assert module._told(table[::-1], Share(None, (100,))) != told.pop()


class PartOfRows:
    """A share of processes that are played one after the other: the last one sees what all have told."""

    mesh = None

    def __init__(self, sizes, first, told):
        self.n_obs, self.first, self.told = sum(sizes), first, told

    def everybody(self, value):
        self.told.append(value)
        return self.told
