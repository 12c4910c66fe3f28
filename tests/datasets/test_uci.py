"""Loaders against the real files where they are at hand, and against small files of the published format."""

import gzip
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayesfair
from bayesfair.datasets import (
    load_adult,
    load_adult_sample,
    load_bank,
    load_bank_additional,
    load_bank_sample,
    load_census1990,
    load_credit,
    load_diabetes130,
)
from bayesfair.datasets.registry import SOURCES

SAMPLES = Path(bayesfair.__file__).parent / "datasets" / "samples"
DRAW_SAMPLES = Path(bayesfair.__file__).parents[1] / "tools" / "draw-samples.py"
ADULT = """39, State-gov, 77516, Bachelors, 13, Never-married, Sales, Unmarried, White, Male, 2174, 0, 40, Cuba, <=50K
28, ?, 338409, Bachelors, 13, Divorced, Sales, Wife, Black, Female, 0, 0, 41, United-States, >50K

"""
BANK = """"age";"job";"marital";"education";"default";"balance";"housing";"loan";"contact";"day";"month";"duration";"y"
30;"unemployed";"married";"primary";"no";1787;"no";"no";"cellular";19;"oct";79;"no"
33;"services";"single";"secondary";"no";-4;"yes";"yes";"cellular";11;"may";220;"yes"
51;"services";"divorced";"secondary";"no";0;"yes";"yes";"cellular";11;"may";7;"no"
"""
ADDITIONAL_PUBLISHED = """"age";"marital";"duration";"campaign";"cons.price.idx";"euribor3m";"nr.employed";"y"
56;"married";261;1;93.994;4.857;5191;"no"
57;"unknown";149;1;93.994;4.857;5191;"yes"
37;"single";226;2;93.994;4.857;5191;"yes"
40;"divorced";151;1;93.994;4.857;5191;"no"
"""
ADDITIONAL_ALTERED = ADDITIONAL_PUBLISHED.replace('"', "").replace("no\n", "0\n").replace("yes\n", "1\n")
CREDIT = """ID,LIMIT_BAL,SEX,EDUCATION,MARRIAGE,AGE,BILL_AMT1,PAY_AMT1,default payment next month
1,20000,2,2,1,24,3913,0,1
2,120000,1,1,2,26,2682,0,1
3,90000,2,3,0,34,29239,1518,0
4,50000,2,0,3,37,46990,2000,0
5,50000,1,2,1,57,8617,2000,0
"""
DIABETES = """encounter_id,patient_nbr,race,gender,age,weight,time_in_hospital,max_glu_serum,readmitted
2278392,8222157,Caucasian,Female,[0-10),?,1,None,NO
149190,55629189,Caucasian,Male,[70-80),?,3,None,>30
64410,86047875,?,Unknown/Invalid,[20-30),?,2,None,NO
500364,82442376,AfricanAmerican,Male,[90-100),?,14,>300,<30
"""


def census_text(rows=5):
    """The published header, in its order where it matters: caseid, dAge, the 25, then others and iSex."""
    names = "caseid dAge dAncstry1 dAncstry2 iAvail iCitizen iClass dDepart iDisabl1 iDisabl2 iEnglish iFeb55 iFertil "
    names += "dHispanic dHour89 dHours iImmigr " + " ".join(f"dIncome{i}" for i in range(1, 9))
    names = f"{names} dIndustry iKorean iLang1 iSex dYrsserv".split()
    table = pd.DataFrame(np.arange(rows)[:, None] * 100 + np.arange(len(names)), columns=names)
    table["caseid"] += 10_000
    table["iSex"] = np.arange(rows) % 2
    return table.to_csv(index=False), names


def groups(data):
    return data.sensitive.value_counts().to_dict()


THREE = {"university": 0.4677, "graduate school": 0.3528, "other": 0.1795}
MARITAL = {"married": 0.6064, "single": 0.2814, "divorced": 0.1122}
TABLES = [  # shares of FMC, but for Adult
    (load_adult, "adult.data", (32_561, 5), "sex", {"Male": 0.6692, "Female": 0.3308}),
    (load_bank_additional, "bank-additional-full.csv", (41_108, 6), "marital", MARITAL),
    (load_credit, "creditcard.csv", (30_000, 4), "education", {"other": 0.5323, "university": 0.4677}),
    (load_credit, "creditcard.csv", (30_000, 4), "education3", THREE),
]


@pytest.mark.parametrize(("load", "file", "shape", "sensitive", "shares"), TABLES)
def test_all_of_a_table(load, file, shape, sensitive, shares, real_data):
    real_data(file)
    data = load(sensitive=sensitive)
    assert data.features.shape == shape
    assert data.sensitive.value_counts(normalize=True).round(4).to_dict() == shares
    assert data.features.index.equals(pd.RangeIndex(shape[0]))


@pytest.fixture
def no_data(monkeypatch):
    """Neither a folder of data nor a download."""
    monkeypatch.delenv("BAYESFAIR_DATA", raising=False)
    monkeypatch.setattr("bayesfair.datasets.uci.fetch", None)


def test_the_samples_need_no_network(no_data):
    adult, bank = load_adult_sample(), load_bank_sample(sensitive="married")
    assert groups(adult) == {"Male": 641, "Female": 359}
    assert groups(bank) == {"married": 615, "not married": 385}
    assert list(adult.features) == ["age", "fnlwgt", "education-num", "capital-gain", "hours-per-week"]
    assert list(bank.features) == ["age", "balance", "duration"]
    assert set(adult.target) == {"<=50K", ">50K"}
    assert load_adult_sample(["age"], ["sex", "race"]).sensitive.shape == (1_000, 2)
    assert bank.name == "bank-sample"
    assert "1,000 rows used" in bank.description


def test_the_samples_are_attributed_and_small():
    text = (SAMPLES / "ATTRIBUTION.md").read_text()
    files = sorted(SAMPLES.glob("*.gz"))
    assert [file.name in text for file in files] == [True, True]
    assert "CC BY 4.0" in text
    assert sum(file.stat().st_size for file in files) < 150_000


def test_the_script_draws_the_samples_again(real_data, tmp_path):
    """The same rows; how they are compressed may differ between versions of zlib."""
    real_data("adult.data")
    real_data("bank.csv")
    subprocess.run([sys.executable, DRAW_SAMPLES, tmp_path], check=True, capture_output=True)
    for file in sorted(SAMPLES.glob("*.gz")):
        assert gzip.decompress((tmp_path / file.name).read_bytes()) == gzip.decompress(file.read_bytes())


def test_adult_format(own_copy):
    own_copy("adult.data", ADULT)
    data = load_adult()
    assert data.features.to_numpy().tolist() == [[39, 77516, 13, 2174, 40], [28, 338409, 13, 0, 41]]
    assert data.sensitive.tolist() == ["Male", "Female"]
    assert data.target.tolist() == ["<=50K", ">50K"]
    assert load_adult(["age"], ["sex", "race"]).sensitive.to_numpy().tolist() == [
        ["Male", "White"],
        ["Female", "Black"],
    ]
    assert "CC BY 4.0" in data.description
    assert "32,561 rows and 15 columns; 2 rows used" in data.description


def test_bank_format(own_copy):
    own_copy("bank.csv", BANK)
    assert load_bank().sensitive.tolist() == ["married", "single", "divorced"]
    data = load_bank(sensitive="married")
    assert data.sensitive.tolist() == ["married", "not married", "not married"]
    assert data.sensitive.name == "married"
    assert data.features.to_numpy().tolist() == [[30, 1787, 79], [33, -4, 220], [51, 0, 7]]


@pytest.mark.parametrize("text", [ADDITIONAL_PUBLISHED, ADDITIONAL_ALTERED], ids=["published", "altered copy"])
def test_bank_additional_format(text, own_copy):
    own_copy("bank-additional-full.csv", text)
    data = load_bank_additional()
    assert data.sensitive.tolist() == ["married", "single", "divorced"]
    assert data.target.tolist() == ["no", "yes", "no"]
    assert data.features.iloc[1].tolist() == [37, 226, 4.857, 5191, 93.994, 2]
    assert load_bank_additional(sensitive="married").sensitive.tolist() == ["married", "not married", "not married"]


def test_credit_codes(own_copy):
    own_copy("creditcard.csv", CREDIT)
    assert load_credit().sensitive.tolist() == ["university", "other", "other", "other", "university"]
    three = ["university", "graduate school", "other", "other", "university"]
    assert load_credit(sensitive="education3").sensitive.tolist() == three
    married = load_credit(sensitive="married")
    assert married.sensitive.tolist() == ["married", "not married", "not married", "not married", "married"]
    assert list(married.features) == ["AGE", "LIMIT_BAL"]
    assert load_credit(sensitive="sex").sensitive.tolist() == ["female", "male", "female", "female", "male"]
    crossed = load_credit(["AGE"], ["sex", "MARRIAGE"]).sensitive
    assert crossed.iloc[0].tolist() == ["female", 1]


def test_the_published_credit_workbook_needs_xlrd_and_says_so(published, cache, monkeypatch):
    folder, address = published
    monkeypatch.delenv("BAYESFAIR_DATA", raising=False)
    monkeypatch.setitem(__import__("sys").modules, "xlrd", None)
    with zipfile.ZipFile(folder / "credit.zip", "w") as archive:
        archive.writestr("default of credit card clients.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
    monkeypatch.setitem(SOURCES, "credit", replace(SOURCES["credit"], url=f"{address}/credit.zip"))
    with pytest.raises(ImportError, match=r"pip install xlrd.*creditcard\.csv .* BAYESFAIR_DATA"):
        load_credit(progress_bar=False)


def test_diabetes130_format(own_copy):
    own_copy("diabetic_data.csv", DIABETES)
    data = load_diabetes130()
    assert data.features.to_numpy().tolist() == [[5, 1], [75, 3], [95, 14]]
    assert data.sensitive.tolist() == ["Female", "Male", "Male"]
    assert data.target.tolist() == ["NO", ">30", "<30"]
    assert load_diabetes130(sensitive="max_glu_serum").sensitive.tolist() == ["None", "None", ">300"]  # a value
    assert load_diabetes130(sensitive="weight").sensitive.isna().all()


def test_census1990_format(own_copy):
    text, names = census_text()
    own_copy("USCensus1990.data.txt", text)
    data = load_census1990()
    assert data.features.shape == (5, 25)
    assert list(data.features) == names[2:27]
    assert data.features.iloc[1].tolist() == [100 + column for column in range(2, 27)]
    assert data.sensitive.tolist() == ["male", "female", "male", "female", "male"]
    assert data.target is None
    assert "caseid" not in data.features
    assert load_census1990(["dAge"], ["iSex", "iLang1"]).sensitive.columns.tolist() == ["iSex", "iLang1"]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: load_bank(["age", "income"]), r"`features` must name columns of the data: age, job, .*\['income'\]"),
        (lambda: load_bank(sensitive=["married", "sex"]), r"`sensitive` must name .*: married, age, .*got \['sex'\]"),
        (lambda: load_bank(features=[]), "`features` must name columns .* got none"),
        (lambda: load_bank(features="mixed"), r"`features` must name columns of the data: age, .*\['mixed'\]"),
        (lambda: load_census1990(features=["dAge", "age"]), r"caseid, dAge, dAncstry1.*\['age'\]"),
    ],
)
def test_wrong_column_names_list_the_right_ones(call, text, own_copy):
    own_copy("bank.csv", BANK)
    own_copy("USCensus1990.data.txt", census_text()[0])
    with pytest.raises(ValueError, match=text):
        call()


def test_text_columns_are_categories_and_kinds_name_columns(own_copy):
    own_copy("bank.csv", BANK)
    own_copy("adult.data", ADULT)
    features = load_bank(features=["age", "job"]).features
    assert [str(dtype) for dtype in features.dtypes] == ["int64", "category"]
    mixed = load_adult("mixed").features
    assert mixed.columns.tolist() == [*load_adult().features, *load_adult("categorical").features]
    assert (mixed.dtypes == "category").sum() == 7
    assert mixed["workclass"].tolist() == ["State-gov", "?"]


@pytest.mark.skipif("BAYESFAIR_DATA" not in os.environ, reason="BAYESFAIR_DATA names no folder with the papers' data")
@pytest.mark.parametrize(
    ("load", "features", "levels"),
    [
        (load_adult, "categorical", [9, 16, 7, 15, 6, 5, 42]),
        (load_bank_additional, ["job", "education", "default", "housing", "loan", "y"], [12, 8, 3, 3, 3, 2]),
        (load_credit, "categorical", [2, 4, 11, 11, 11, 11, 10, 10]),
    ],
)
def test_categories_have_the_levels_that_fmc_counts(load, features, levels):
    """Copies of Bank may lack its other four."""
    assert [len(column.cat.categories) for _, column in load(features).features.items()] == levels
