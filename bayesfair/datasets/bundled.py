"""Data bundled with scikit-learn; it needs no network."""

from bayesfair.datasets.base import Dataset


def load_diabetes() -> Dataset:
    """Diabetes: 442 patients with nine measurements, bundled with scikit-learn.

    The sensitive attribute is sex: 235 and 207 patients. The source codes it as 1 and 2 and does not say which is
    which, so the groups are named "sex 1" and "sex 2". The target is disease progression after one year.

    Returns
    -------
    Dataset
        Features are unscaled.

    References
    ----------
    Efron, Hastie, Johnstone and Tibshirani (2004), Least Angle Regression, Annals of Statistics 32.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.datasets.load_diabetes().features.shape
    (442, 9)
    """
    from sklearn.datasets import load_diabetes as load

    table = load(as_frame=True, scaled=False).frame
    return Dataset(
        name="diabetes",
        features=table.drop(columns=["sex", "target"]),
        sensitive="sex " + table["sex"].astype(int).astype(str),
        target=table["target"].rename("progression"),
        description="Diabetes, Efron, Hastie, Johnstone and Tibshirani 2004, Least Angle Regression, Annals of "
        "Statistics 32. Bundled with scikit-learn (BSD licence), unscaled.\nsex is coded 1 and 2 at the source, which "
        "does not say which is which. target: a measure of disease progression one year after baseline.",
    )
