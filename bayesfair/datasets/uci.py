"""Real data as the papers use it: the features, the sensitive attribute and the rows that are left out."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from bayesfair._check import Refusal, message
from bayesfair.datasets.base import Dataset
from bayesfair.datasets.registry import SOURCES, fetch

SAMPLES = Path(__file__).parent / "samples"  # drawn by tools/draw-samples.py
_BANK_FEATURES = ("age", "balance", "duration")
# As in FMC's appendix G. For Adult it prints sex in place of the file's marital-status, which has the seven levels it
# counts.
_KINDS = {
    "adult": {
        "continuous": ("age", "fnlwgt", "education-num", "capital-gain", "hours-per-week"),
        "categorical": (
            *["workclass", "education", "marital-status", "occupation", "relationship", "race", "native-country"],
        ),
    },
    "bank-additional": {
        "continuous": ("age", "duration", "euribor3m", "nr.employed", "cons.price.idx", "campaign"),
        "categorical": (
            *["job", "education", "default", "housing", "loan", "contact", "month", "day_of_week", "poutcome", "y"],
        ),
    },
    "credit": {
        "continuous": ("LIMIT_BAL", "AGE", "BILL_AMT1", "PAY_AMT1"),
        "categorical": ("SEX", "MARRIAGE", "PAY_0", *(f"PAY_{month}" for month in range(2, 7))),
    },
}
_ADULT_COLUMNS = [
    *["age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"],
    *["race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"],
]
_CENSUS_FEATURES = (
    *["dAncstry1", "dAncstry2", "iAvail", "iCitizen", "iClass", "dDepart", "iDisabl1", "iDisabl2", "iEnglish"],
    *["iFeb55", "iFertil", "dHispanic", "dHour89", "dHours", "iImmigr", *(f"dIncome{i}" for i in range(1, 9))],
    *["dIndustry", "iKorean"],
)


def load_adult(
    features: str | Sequence[str] = "continuous", sensitive: str | Sequence[str] = "sex", *, progress_bar: bool = True
) -> Dataset:
    """Adult: 32,561 people of the 1994 US census, 10,771 women and 21,790 men.

    The target is income.

    Parameters
    ----------
    features : str or sequence of str, default "continuous"
        "continuous" takes the five columns of FMC and VFC, "categorical" FMC's seven, "mixed" both. Or names of
        columns. Columns of text get the dtype `category`.
    sensitive : str or sequence of str, default "sex"
        A column, or columns to cross, such as ["sex", "race"].
    progress_bar : bool, default True
        Whether to show a bar while the file is downloaded.

    Returns
    -------
    Dataset

    Raises
    ------
    OSError
        If there is no copy in the folder `BAYESFAIR_DATA` and the download fails.
    ValueError
        If a column is unknown, or the download is not the published file.

    References
    ----------
    Becker and Kohavi (1996), UCI Machine Learning Repository. FMC, appendix G, lists the columns.

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.load_adult(sensitive=["sex", "race"])  # doctest: +SKIP
    """
    return _adult(fetch(SOURCES["adult"], progress_bar=progress_bar), features, sensitive)


def load_adult_sample(features: str | Sequence[str] = "continuous", sensitive: str | Sequence[str] = "sex") -> Dataset:
    """1,000 rows of Adult that come with the package and need no network.

    Parameters
    ----------
    features : str or sequence of str, default "continuous"
        As in `load_adult`.
    sensitive : str or sequence of str, default "sex"
        As in `load_adult`.

    Returns
    -------
    Dataset

    Raises
    ------
    ValueError
        If a column is unknown.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.datasets.load_adult_sample().features.shape
    (1000, 5)
    """
    return _sample(_adult, SOURCES["adult"], features, sensitive)


def load_bank(
    features: Sequence[str] = _BANK_FEATURES, sensitive: str | Sequence[str] = "marital", *, progress_bar: bool = True
) -> Dataset:
    """Bank Marketing, small: 4,521 clients of a Portuguese bank.

    The groups are divorced, married and single. The target is whether the client subscribed.

    Parameters
    ----------
    features : sequence of str, default ("age", "balance", "duration")
        Names of columns. The default is that of the Gibbs paper.
    sensitive : str or sequence of str, default "marital"
        A column, or columns to cross. "married" gives two groups, married and not married, as in the Gibbs paper.
    progress_bar : bool, default True
        As in `load_adult`.

    Returns
    -------
    Dataset

    Raises
    ------
    OSError, ValueError
        As `load_adult`.

    References
    ----------
    Moro, Cortez and Rita (2014), UCI Machine Learning Repository. The Gibbs paper, section 5.3.

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.load_bank(sensitive="married")  # doctest: +SKIP
    """
    return _bank(fetch(SOURCES["bank"], progress_bar=progress_bar), features, sensitive)


def load_bank_sample(features: Sequence[str] = _BANK_FEATURES, sensitive: str | Sequence[str] = "marital") -> Dataset:
    """1,000 clients of Bank Marketing that come with the package and need no network.

    Parameters
    ----------
    features : sequence of str, default ("age", "balance", "duration")
        As in `load_bank`.
    sensitive : str or sequence of str, default "marital"
        As in `load_bank`.

    Returns
    -------
    Dataset

    Raises
    ------
    ValueError
        If a column is unknown.

    Examples
    --------
    >>> import bayesfair as bf
    >>> bf.datasets.load_bank_sample(sensitive="married").features.shape
    (1000, 3)
    """
    return _sample(_bank, SOURCES["bank"], features, sensitive)


def load_bank_additional(
    features: str | Sequence[str] = "continuous",
    sensitive: str | Sequence[str] = "marital",
    *,
    progress_bar: bool = True,
) -> Dataset:
    """Bank Marketing, additional: 41,108 calls of a Portuguese bank.

    The groups are divorced, married and single. The target is whether the client subscribed. The 80 rows of unknown
    marital status are left out, as FMC and VFC do. Files that code the target as 0 and 1 are read as no and yes.

    Parameters
    ----------
    features : str or sequence of str, default "continuous"
        "continuous" takes six columns, "categorical" FMC's ten (the target among them, as printed), "mixed" both. Or
        names of columns.
    sensitive : str or sequence of str, default "marital"
        A column, or columns to cross. "married" gives two groups, married and not married.
    progress_bar : bool, default True
        As in `load_adult`.

    Returns
    -------
    Dataset

    Raises
    ------
    OSError, ValueError
        As `load_adult`.

    References
    ----------
    Moro, Cortez and Rita (2014), UCI Machine Learning Repository. FMC, appendix G, lists the columns.

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.load_bank_additional("mixed")  # doctest: +SKIP
    """
    table = _read("bank-additional", progress_bar, sep=";")
    table = table[table["marital"] != "unknown"].reset_index(drop=True)
    table["y"] = table["y"].replace({0: "no", 1: "yes"})
    return _dataset("bank-additional", table, features, sensitive, target="y", recoded={"married": _married})


def load_credit(
    features: str | Sequence[str] | None = None,
    sensitive: str | Sequence[str] = "education",
    *,
    progress_bar: bool = True,
) -> Dataset:
    """Default of Credit Card Clients: 30,000 clients of a bank in Taiwan.

    The target is whether the client defaults in the next month.

    Parameters
    ----------
    features : str or sequence of str, optional
        "continuous" takes FMC's LIMIT_BAL, AGE, BILL_AMT1 and PAY_AMT1, "categorical" FMC's eight columns, "mixed"
        both. Or names of columns. By default AGE and LIMIT_BAL where `sensitive` is "married", as in the Gibbs paper,
        and "continuous" otherwise.
    sensitive : str or sequence of str, default "education"
        "education" has the groups university (46.8%) and other, as FMC with two groups. "education3" has university,
        graduate school and other, as FMC with three. "married" has married and not married, as the Gibbs paper.
        "sex" has male and female. Or columns of the file, such as "MARRIAGE".
    progress_bar : bool, default True
        As in `load_adult`.

    Returns
    -------
    Dataset

    Raises
    ------
    OSError, ValueError
        As `load_adult`.
    ImportError
        If the published Excel workbook is read without the package xlrd. A copy named creditcard.csv needs none.

    References
    ----------
    Yeh (2009), UCI Machine Learning Repository. The Gibbs paper, section 5.1. FMC, appendix G.

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.load_credit(sensitive="married")  # doctest: +SKIP
    """
    table = _read("credit", progress_bar)
    if features is None:
        features = ("AGE", "LIMIT_BAL") if sensitive == "married" else "continuous"
    recoded = {
        "education": lambda t: t["EDUCATION"].map({2: "university"}).fillna("other"),
        "education3": lambda t: t["EDUCATION"].map({1: "graduate school", 2: "university"}).fillna("other"),
        "married": lambda t: t["MARRIAGE"].map({1: "married"}).fillna("not married"),
        "sex": lambda t: t["SEX"].map({1: "male", 2: "female"}),
    }
    return _dataset("credit", table, features, sensitive, target="default payment next month", recoded=recoded)


def load_diabetes130(
    features: Sequence[str] = ("age", "time_in_hospital"),
    sensitive: str | Sequence[str] = "gender",
    *,
    progress_bar: bool = True,
) -> Dataset:
    """Diabetes 130-US: 101,763 hospital stays of diabetic patients, female and male.

    The target is whether the patient was readmitted. Age is published in intervals of ten years and becomes their
    midpoint: [70-80) is 75. The three rows of unknown gender are left out.

    Parameters
    ----------
    features : sequence of str, default ("age", "time_in_hospital")
        Names of columns. The default is that of the Gibbs paper.
    sensitive : str or sequence of str, default "gender"
        A column, or columns to cross.
    progress_bar : bool, default True
        As in `load_adult`.

    Returns
    -------
    Dataset

    Raises
    ------
    OSError, ValueError
        As `load_adult`.

    References
    ----------
    Clore, Cios, DeShazo and Strack (2014), UCI Machine Learning Repository. The Gibbs paper, section 5.2.

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.load_diabetes130()  # doctest: +SKIP
    """
    table = _read("diabetes130", progress_bar, na_values="?", keep_default_na=False, low_memory=False)
    table = table[table["gender"] != "Unknown/Invalid"].reset_index(drop=True)
    table["age"] = _midpoint(table["age"])
    return _dataset("diabetes130", table, features, sensitive, target="readmitted")


def load_census1990(
    features: Sequence[str] = _CENSUS_FEATURES, sensitive: str | Sequence[str] = "iSex", *, progress_bar: bool = True
) -> Dataset:
    """US Census 1990: 2,458,285 people, male and female.

    All columns hold small integers. Only the columns that are asked for are read. There is no target.

    Parameters
    ----------
    features : sequence of str, optional
        Names of columns. By default the 25 columns that follow dAge in the file: VFC and FMC use 25 of the 68 without
        naming them.
    sensitive : str or sequence of str, default "iSex"
        A column, or columns to cross. iSex is 0 for male and 1 for female, as in the code book of the census.
    progress_bar : bool, default True
        As in `load_adult`.

    Returns
    -------
    Dataset

    Raises
    ------
    OSError, ValueError
        As `load_adult`.

    Notes
    -----
    VFC and FMC print the same two counts, 1,191,601 and 1,266,684, and disagree on which sex is the larger.

    References
    ----------
    Meek, Thiesson and Heckerman (2001), UCI Machine Learning Repository.

    Examples
    --------
    >>> import bayesfair as bf
    >>> data = bf.datasets.load_census1990()  # doctest: +SKIP
    """
    header = _read("census1990", progress_bar, nrows=0)
    used = {*_columns(header, features, "features"), *_columns(header, sensitive, "sensitive")}
    table = _read("census1990", progress_bar, usecols=list(used), dtype="int32")
    recoded = {"iSex": lambda t: t["iSex"].map({0: "male", 1: "female"})}
    return _dataset("census1990", table, features, sensitive, recoded=recoded)


def _adult(path, features, sensitive):
    table = pd.read_csv(path, header=None, names=_ADULT_COLUMNS, skipinitialspace=True)
    return _dataset("adult", table, features, sensitive, target="income")


def _bank(path, features, sensitive):
    table = pd.read_csv(path, sep=";")
    return _dataset("bank", table, features, sensitive, target="y", recoded={"married": _married})


def _sample(load, source, features, sensitive):
    data = load(SAMPLES / f"{source.file_name}.gz", features, sensitive)
    text = f"{data.description}\nDrawn at random (tools/draw-samples.py); comes with bayesfair."
    return replace(data, name=f"{data.name}-sample", description=text)


def _read(name, progress_bar, **options):
    path = fetch(SOURCES[name], progress_bar=progress_bar)
    if path.suffix != ".xls":
        return pd.read_csv(path, **options)
    try:
        return pd.read_excel(path, header=1)
    except ImportError as error:
        raise ImportError(
            Refusal(
                f"{path.name} is an Excel workbook, which needs the package xlrd. Either `pip install xlrd`, or save it as "
                f"{SOURCES[name].file_name} with the column names in the first row and set BAYESFAIR_DATA to its folder."
            )
        ) from error


def _dataset(name, table, features, sensitive, *, target=None, recoded=None):
    """The data set; `recoded`: {name: function of the table} for sensitive attributes that are not columns of the file."""
    source = SOURCES[name]
    return Dataset(
        name=name,
        features=_features(name, table, features),
        sensitive=_sensitive(table, sensitive, recoded or {}),
        target=None if target is None else _columns(table, target, "target")[target],
        description=f"{source.title}.\nSource: {source.page}. Licence: {source.licence}.\n"
        f"Published with {source.rows:,} rows and {source.columns} columns; {len(table):,} rows used.",
    )


def _sensitive(table, sensitive, recoded):
    """The sensitive column, or a table of several; names in `recoded` are computed, others are columns."""
    names = _listed(sensitive)
    for name in names:
        if name not in recoded:
            _columns(table, name, "sensitive", recoded)
    columns = [recoded[name](table) if name in recoded else table[name] for name in names]
    columns = [column.rename(name) for column, name in zip(columns, names)]
    return columns[0] if len(columns) == 1 else pd.concat(columns, axis=1)


def _columns(table, names, argument, further=()):
    names = _listed(names)
    missing = [name for name in names if name not in table.columns]
    if missing or not names:
        rule = f"name columns of the data: {', '.join(dict.fromkeys([*further, *map(str, table.columns)]))}"
        raise ValueError(message(argument, rule, missing or "none", "Names are case-sensitive."))
    return table[names]


def _features(name, table, features):
    """Features of a kind, or named columns; text, and columns that FMC treats as categories, become categorical."""
    kinds = dict(_KINDS.get(name, {}))
    if kinds:
        kinds["mixed"] = kinds["continuous"] + kinds["categorical"]
    asked = kinds.get(features, features) if isinstance(features, str) else features
    taken = _columns(table, asked, "features", kinds)
    text = [column for column in taken.columns if not pd.api.types.is_numeric_dtype(taken[column])]
    categorical = kinds.get("categorical", ()) if asked is not features else ()
    return taken.astype({column: "category" for column in taken.columns if column in {*text, *categorical}})


def _married(table):
    return table["marital"].where(table["marital"] == "married", "not married")


def _midpoint(intervals):
    """[70-80) as 75.0; NaN for anything else."""
    ends = intervals.str.extract(r"^\[(\d+)-(\d+)\)$").astype(float)
    return ends.mean(axis=1)


def _listed(names):
    return [names] if isinstance(names, str) else list(names)
