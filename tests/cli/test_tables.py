"""CSV files as people have them: what is taken from each, and what is said of those that cannot be meant."""

import gzip
import subprocess
import sys
from decimal import Decimal
from importlib.util import find_spec

import numpy as np
import pandas as pd
import polars as pl
import pytest

from bayesfair.cli import main
from bayesfair.cli.columns import Wanted, choose_columns, standardized
from bayesfair.cli.tables import read_table
from bayesfair.datasets import tables
from bayesfair.fairness import encode_groups

PEOPLE = 'id,age,"income, gross",sex,code,married,year,town\n' + "".join(
    f"{row},{20 + 7 * row % 31},{row**0.5!r},{'FM'[row % 2]},{row % 2}.0,{row % 3 == 0},2020,x{row % 4}\n"
    for row in range(1, 13)
)


def table_of(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "table.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_table(path, encoding=encoding)


def groups_of(columns):
    groups = encode_groups(columns.sensitive)
    return dict(zip(groups.names, groups.sizes.tolist()))


def test_features_are_the_numeric_columns_and_the_others_are_told(tmp_path):
    columns = choose_columns(table_of(tmp_path, PEOPLE), Wanted(["sex"]))
    assert list(columns.features) == ["age", "income, gross", "code", "married"]
    assert (columns.features["income, gross"] == np.arange(1, 13) ** 0.5).all()
    assert str(columns).splitlines() == [
        'features   age (whole numbers), "income, gross" (numbers), code (0 or 1), married (0 or 1)',
        "sensitive  sex: F (6); M (6)",
        "left out   id (row numbers; name it in --features to take it), year (constant), town (text such as 'x1')",
    ]


def test_named_features_are_taken_as_they_are(tmp_path):
    columns = choose_columns(
        table_of(tmp_path, PEOPLE), Wanted(["sex", "code"], ["id", "year", "code"], index="income, gross")
    )
    assert list(columns.features) == ["id", "year", "code"]
    assert groups_of(columns) == {"F, code=0": 6, "M, code=1": 6}
    assert columns.left_out["income, gross"] == "row names"
    assert columns.left_out["age"] == "not in --features"


@pytest.mark.parametrize("header", ["", "Unnamed: 0"])
def test_a_first_column_without_a_name_names_the_rows_and_is_no_feature(tmp_path, header):
    columns = choose_columns(table_of(tmp_path, f"{header},x,s\nc,1,a\nd,2,b\n"), Wanted(["s"]))
    assert list(columns.features) == ["x"]
    assert columns.features.index.tolist() == ["c", "d"]
    assert columns.left_out == {"Unnamed: 0": "row names, as it has no name itself"}


@pytest.mark.parametrize(
    ("first", "taken"), [((0, 1, 2), False), ((1, 2, 3), False), ((0, 2, 1), True), ((2, 3, 4), True)]
)
def test_row_numbers_name_the_rows_and_are_no_feature(tmp_path, first, taken):
    lines = "".join(f"{value},{value**2 % 5},{'ab'[row % 2]}\n" for row, value in enumerate(first))
    columns = choose_columns(table_of(tmp_path, "n,x,s\n" + lines), Wanted(["s"]))
    assert ("n" in columns.features) == taken
    assert columns.features.index.tolist() == ([0, 1, 2] if taken else list(first))


def test_categories_stand_as_they_are_written(tmp_path):
    table = table_of(tmp_path, "x,s\n0,None\n1,NA \n2,nan\n3,F\n")
    with pytest.warns(UserWarning, match=r"'nan' \(1 rows\) counts as a value\. If it means missing"):
        assert groups_of(choose_columns(table, Wanted(["s"], ["x"]))) == {"F": 1, "NA": 1, "None": 1, "nan": 1}
    with pytest.raises(ValueError, match=r"got 2 missing in 's'\. .* a group of their own: --missing-group unknown"):
        choose_columns(table, Wanted(["s"], ["x"], na=["NA", "nan"]))
    with pytest.warns(UserWarning, match=r"'None' \(1 rows\) counts as a value"):
        merged = choose_columns(table, Wanted(["s"], ["x"], na=["NA", "nan"], missing_group="unknown"))
    assert groups_of(merged) == {"F": 1, "None": 1, "unknown": 2}


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["1", "0", "1"], ["0", "1"]),
        (["1.0", "0.0", "1"], ["0", "1"]),
        (["10", "9", "10"], ["9", "10"]),
        (["01", "1", "01"], ["01", "1"]),
        (["1", "", "0"], ["0", "1", "none"]),
    ],
)
def test_whole_numbers_are_groups_without_a_point(tmp_path, values, names):
    table = table_of(tmp_path, "x,s\n" + "".join(f"{row},{value}\n" for row, value in enumerate(values)))
    assert list(groups_of(choose_columns(table, Wanted(["s"], ["x"], missing_group="none")))) == names


def test_missing_numbers_are_refused_with_what_to_type(tmp_path):
    table = table_of(tmp_path, 'x,y,"z, w",s\n1,NA,1,a\n2,3,3,b\n3,?,5,b\n,3,1,a\n')
    with pytest.raises(ValueError, match="text '\\?' in 'y', row 3"):
        choose_columns(table, Wanted(["s"], ["y"]))
    refusal = "got 1 missing in 'x', 2 missing in 'y'. Leave those columns out, fill those cells, or drop those rows"
    with pytest.raises(ValueError, match=refusal):
        choose_columns(table, Wanted(["s"], na=["?"]))
    columns = choose_columns(table, Wanted(["s"], ["z, w"]))
    assert columns.features["z, w"].tolist() == [1, 3, 5, 1]


def test_one_text_among_numbers_is_told_with_what_to_type(tmp_path):
    columns = choose_columns(table_of(tmp_path, "x,y,s\n1,5,a\n2,6,b\n?,8,b\n4,7,a\n"), Wanted(["s"]))
    assert columns.left_out == {"x": "1 times '?' among numbers; if that means missing, --na '?'"}


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "table that can be read, got .*No columns to parse"),
        ("x,s\n", "have rows below the names of its columns, got none"),
        ("x,x,s\n1,2,a\n", "name each column once, got 'x' twice"),
        ("x\ts\n1\ta\n", r"`table.csv` must have several columns, got one named .*--separator '\\t'"),
        ("x;s\n1;a\n", "got one named 'x;s'.*--separator ';'"),
        ("x;s;a, b\n1;2;3\n", "must name columns of the table, got 's'.*pass --separator ';'"),
        ("x,s\n1,a\n2,b,3\n", "Expected 2 fields in line 3, saw 3.*Check --separator"),
        ('x,s\n1,"a\n2,b\n', "EOF inside string.*must be quoted"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "table that can be read, got .*can't decode byte 0x89"),
        (b"PK\x03\x04\x14\x00\x06\x00", "several columns"),
        ("x,s\n1,\u00fc\n".encode("latin-1"), "can't decode byte 0xfc.*--encoding, such as cp1252"),
        ("x,s\n1,a\n".encode("utf-16"), "can't decode byte 0xff.*--encoding, such as cp1252 or utf-16"),
        ("x,s\na,a\nb,b\n", "No numeric column is left as a feature. Left out: x"),
    ],
)
def test_other_files_are_refused_in_our_words(tmp_path, text, match):
    with pytest.raises((ValueError, OSError), match=match):
        choose_columns(table_of(tmp_path, text), Wanted(["s"]))


@pytest.mark.parametrize(
    ("cells", "style"),
    [
        (["25,836", "950", "-1,234.5"], {"thousands": ","}),
        (["25.836", "950", "-1.234,5"], {"thousands": ".", "decimal": ","}),
        (["25 836", "950", "-1\u00a0234.5"], {"thousands": " "}),
    ],
)
def test_thousands_are_read(tmp_path, cells, style):
    lines = "".join(f'"{cell}",{"ab"[row % 2]}\n' for row, cell in enumerate(cells))
    table = table_of(tmp_path, "income,s\n" + lines)
    assert choose_columns(table, Wanted(["s"], **style)).features["income"].tolist() == [25836, 950, -1234.5]
    with pytest.raises(ValueError, match="the text '12,5' in 'x', row 1"):  # 125 to `pandas.read_csv`
        choose_columns(table_of(tmp_path, 'x,s\n"12,5",a\n950,b\n'), Wanted(["s"], ["x"], thousands=","))
    with pytest.raises(ValueError, match="must differ from --decimal"):
        choose_columns(table, Wanted(["s"], thousands=".", decimal="."))


def test_the_line_of_excel_says_the_separator(tmp_path):
    assert table_of(tmp_path, "sep=;\nx;s\n1;a\n").to_dict("list") == {"x": ["1"], "s": ["a"]}


def test_all_missing_values_are_told_at_once(tmp_path):
    table = table_of(tmp_path, "x,k,w,s\n1,,1,a\n2,u,,b\n,v,2,\n5,u,1,b\n")
    told = "`--features` and `--categorical` and `--weights` and `--sensitive` must have .* 1 missing in 'x', "
    with pytest.raises(ValueError, match=told + "1 missing in 'k', 1 missing in 'w', 1 missing in 's'"):
        choose_columns(table, Wanted(["s"], ["x"], categorical_features=["k"], weights="w"))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "cp1252"])
def test_encodings_can_be_named(tmp_path, encoding):
    text = "x,\u00e4\n1,\u00fc\n2,b\n".encode(encoding)
    table = table_of(tmp_path, text, encoding="utf-8" if encoding == "utf-8-sig" else encoding)
    assert table["\u00e4"].tolist() == ["\u00fc", "b"]


def test_packed_tables_are_unpacked_and_broken_ones_refused(tmp_path):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(PEOPLE.encode()))
    assert len(read_table(path)) == 12
    for wrong in (b"no gzip", gzip.compress(PEOPLE.encode())[:-20], gzip.compress("x,s\n1,\u00fc\n".encode("latin-1"))):
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match="must be a table that can be read"):
            read_table(path)
    (tmp_path / "table.parquet").write_bytes(b"x,s\n1,a\n")
    with pytest.raises(ValueError, match=r"`TABLE.csv` must be a table that can be read, got .*table.parquet"):
        read_table(tmp_path / "table.parquet")


@pytest.mark.parametrize(
    ("ending", "write"), [("parquet", pl.DataFrame.write_parquet), ("feather", pl.DataFrame.write_ipc)]
)
def test_numbers_of_parquet_and_feather_keep_their_type_and_it_is_told(tmp_path, ending, write):
    n = 12
    columns = {
        "age": pl.Series(20 + np.arange(n) ** 2 % 31, dtype=pl.Int16),
        "income": pl.Series(np.arange(n) ** 0.5, dtype=pl.Float32),
        "wealth": pl.Series(np.arange(n) ** 0.25, dtype=pl.Float64),
        "married": np.arange(n) % 3 == 0,
        "sex": pl.Series(np.array(["F", "M"])[np.arange(n) % 2], dtype=pl.Categorical),
        "code": np.where(np.arange(n) % 2, 10.0, 9.0),
        "region": ["north"] * n,
    }
    write(pl.DataFrame(columns), tmp_path / f"table.{ending}")
    table = read_table(tmp_path / f"table.{ending}")
    found = choose_columns(table, Wanted(["sex", "code"]))
    assert str(found).splitlines() == [
        "features   age (whole numbers, int16), income (numbers, float32), wealth (numbers), married (0 or 1, int8)",
        "sensitive  sex x code: F, code=9 (6); M, code=10 (6)",
        "left out   region (text such as 'north')",
    ]
    assert found.features["income"].dtype == np.float32


def test_missing_numbers_of_parquet_are_refused_and_missing_groups_named(tmp_path):
    path = tmp_path / "table.parquet"
    pl.DataFrame({"x": [1, None, 3], "y": [1.5, 2.0, 3.0], "g": [1, None, 2]}).write_parquet(path)
    with pytest.raises(ValueError, match="1 missing in 'x'"):
        choose_columns(read_table(path), Wanted(["g"], missing_group="none"))
    with pytest.raises(ValueError, match="got 1 missing in 'g'"):
        choose_columns(read_table(path), Wanted(["g"], ["y"]))
    named = groups_of(choose_columns(read_table(path), Wanted(["g"], ["y"], missing_group="none")))
    assert named == {"1": 1, "2": 1, "none": 1}


@pytest.mark.parametrize("values", [[2.0, 2.0], [1e300, -1e300]])
def test_what_cannot_be_standardized_is_named(tmp_path, values):
    table = table_of(tmp_path, "x,s\n" + "".join(f"{value},{group}\n" for value, group in zip(values, "ab")))
    features = choose_columns(table, Wanted(["s"], ["x"])).features
    with pytest.raises(ValueError, match="constant, infinite or too large to square: x"):
        standardized(features)


@pytest.mark.parametrize(
    ("table", "text"),
    [
        (".", "must be a file, got the folder '.'"),
        ("people.xls", "`TABLE.csv` must be a file of CSV, Parquet or Feather, got 'people.xls'. Save it as CSV"),
        ("nothing.csv", "must be a file that exists, got 'nothing.csv'. Check the name."),
        ("", "`TABLE.csv` must not be empty"),
    ],
)
def test_no_table_at_all_is_one_line(tmp_path, monkeypatch, capsys, table, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.xls").write_bytes(b"PK")
    assert main(["fit", table, "--sensitive", "s", "--n-clusters", "2", "--out", "r.nc"]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1


def test_the_first_sheet_of_a_workbook_is_read_as_text_or_refused(tmp_path):
    pytest.importorskip("openpyxl")
    people = pd.DataFrame({"id": ["a", "b"], "age": [31, 4.5], "sex": ["f", None]})
    people.to_excel(tmp_path / "people.xlsx", index=False)
    table = read_table(tmp_path / "people.xlsx")
    assert table.to_numpy().tolist() == [["a", "31", "f"], ["b", "4.5", ""]]
    (tmp_path / "broken.xlsx").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"`TABLE\.xlsx` must be a sheet that can be read"):
        read_table(tmp_path / "broken.xlsx")


def test_a_workbook_without_openpyxl_is_told_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr("bayesfair.cli.tables.find_spec", lambda _: None)
    with pytest.raises(ValueError, match=r"Install openpyxl, or save the sheet as CSV \(UTF-8\)"):
        read_table(tmp_path / "people.xlsx")


@pytest.mark.parametrize(("mark", "line_end"), [(b"\xef\xbb\xbf", b"\r\n"), (b"", b"\n")])
def test_csv_is_written_as_the_table_was(tmp_path, mark, line_end):
    lines = [b"id;sex;segment", *(f"{at};{'fm'[at % 2]};{'ab'[at > 3]}".encode() for at in range(8))]
    (tmp_path / "people.csv").write_bytes(mark + line_end.join(lines))
    out, typed = tmp_path / "counts.csv", ["--clusters", "segment", "--sensitive", "sex", "--separator", ";"]
    assert main(["check", str(tmp_path / "people.csv"), *typed, "--out", str(out)]) == 0
    written = out.read_bytes()
    assert written.startswith(mark + b"attribute;cluster;")
    assert written.count(line_end) == written.count(b"\n") == 5
    assert b";2.0;0.0;0.5;0.5;" in written


def test_a_table_comes_from_standard_input(tmp_path):
    lines = "".join(f"{'fm'[at % 2]},{'ab'[at > 3]}\n" for at in range(8))
    typed = [sys.executable, "-m", "bayesfair", "check", "-", "--clusters", "segment", "--sensitive", "sex"]
    done = subprocess.run(typed, input=f"sex,segment\n{lines}", capture_output=True, text=True, timeout=300, check=True)
    assert "Rows read: 8" in done.stdout


def test_columns_have_one_use_but_for_features_that_are_groups_or_categories_too(tmp_path):
    table = table_of(tmp_path, "x,k,s\n1,1,1\n2,2,2\n3,1,1\n")
    columns = choose_columns(table, Wanted(["s"], ["x", "s", "k"], categorical_features=["k"]))
    assert list(columns.features) == ["x", "s", "k"]
    for uses, told in [
        ({"categorical_features": ["s"]}, "`--categorical` .*'s', which --sensitive names"),
        ({"weights": "k", "categorical_features": ["k"]}, "`--weights` .*'k', which --categorical names"),
        ({"index": "x", "features": ["x"]}, "`--index` .*'x', which --features names"),
    ]:
        with pytest.raises(ValueError, match=told):
            choose_columns(table, Wanted(["s"], **uses))


CODED = {
    "age": [20, 31, 42, 53, 64, 75],
    "kids": [0, -9, 2, 0, 1, 2],
    "sex": ["F", "M"] * 3,
    "counts": [1, 1, 2, 2, -9, 1],
}


@pytest.mark.parametrize("kind", [str, pl.Int8, pl.Int64, pl.UInt64, pl.Float32, pl.Float64, "-9.0"])
@pytest.mark.parametrize("missing", ["drop", "error"])
def test_codes_for_missing_are_read_as_numbers_in_every_kind_of_file(tmp_path, kind, missing):
    """Text alone was compared: -9 of Parquet and -9.0 of a CSV stayed as a number, a group, a cluster or a weight."""
    code, table = -9 if kind != pl.UInt64 else 2**64 - 1, pl.DataFrame(CODED)
    if kind is str:
        table.write_csv(tmp_path / "people.csv")
    elif kind == "-9.0":
        table.cast({"kids": pl.Float64, "counts": pl.Float64}).write_csv(tmp_path / "people.csv")
    else:
        cells = {
            name: pl.Series([code if cell == -9 else cell for cell in CODED[name]], dtype=kind)
            for name in ("kids", "counts")
        }
        table.with_columns(**cells).write_parquet(tmp_path / "people.parquet")
    read = read_table(next(tmp_path.iterdir()))
    usual = {"sensitive": ["sex"], "features": ["age"], "weights": "counts", "na": [str(code)], "missing": missing}
    uses = {"sensitive": ["kids"]}, {"features": ["kids"]}, {"categorical_features": ["kids"]}, {"clusters": "kids"}
    for use in uses:
        wanted = Wanted(**usual | use)
        if missing == "error":
            with pytest.raises(ValueError, match=r"1 missing in '(kids|counts)', 1 missing in '(counts|kids)'"):
                choose_columns(read, wanted)
        else:
            found = choose_columns(read, wanted)
            assert found.dropped == {"kids": 1, "counts": 1}
            assert found.weights.tolist() == [1, 2, 2, 1]


def test_codes_for_missing_are_neither_true_nor_codes_with_zeros_in_front(tmp_path):
    table = table_of(tmp_path, "x,s,k\n4,007,True\n5,7,False\n6,7.0,True\n")
    found = choose_columns(table, Wanted(["s"], ["x", "k"], na=["7", "1", "true"], missing="drop"))
    assert (found.features["k"].tolist(), groups_of(found), found.dropped) == ([1], {"007": 1}, {"s": 2})


@pytest.mark.skipif(find_spec("pyarrow") is None, reason="pandas writes Parquet by pyarrow")
@pytest.mark.parametrize("reader", ["pyarrow", "polars"])
@pytest.mark.parametrize(
    ("index", "wanted", "rows", "left_out"),
    [
        (
            pd.Index([7, 3, 5], name="id"),
            {},
            [7, 3, 5],
            {"id": "row names in the file; name it in --features to take it"},
        ),
        (pd.Index([7, 3, 5], name="id"), {"index": "id"}, [7, 3, 5], {"id": "row names"}),
        (pd.Index([7, 3, 5], name="id"), {"features": ["id"]}, [0, 1, 2], {"age": "not in --features"}),
        (
            *(pd.Index(["c", "a", "b"]), {}, ["c", "a", "b"]),
            {"Unnamed: 0": "row names in the file; name it in --features to take it"},
        ),
        (
            *(pd.Index([0, 1, 0], name="id"), {}, [0, 1, 2]),
            {"id": "row names in the file; name it in --features to take it"},
        ),
        (pd.RangeIndex(3), {}, [0, 1, 2], {}),
    ],
)
def test_row_names_of_pandas_are_found_and_no_feature(tmp_path, monkeypatch, reader, index, wanted, rows, left_out):
    pd.DataFrame({"age": [4, 9, 2], "sex": ["F", "M", "F"]}, index=index).to_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(tables, "find_spec", lambda name: name == reader or None)
    found = choose_columns(read_table(tmp_path / "t.parquet"), Wanted(["sex"], **wanted))
    assert (found.features.index.tolist(), found.left_out) == (rows, left_out)
    assert list(found.features) == wanted.get("features", ["age"])


def test_several_columns_of_row_names_are_no_features(tmp_path):
    index = pd.MultiIndex.from_tuples([(1, 7), (1, 8), (2, 7)], names=["house", "person"])
    pd.DataFrame({"age": [4, 9, 2], "sex": ["F", "M", "F"]}, index=index).to_parquet(tmp_path / "t.parquet")
    found = choose_columns(read_table(tmp_path / "t.parquet"), Wanted(["sex"]))
    assert (list(found.features), list(found.left_out), found.features.index.tolist()) == (
        *(["age"], ["house", "person"]),
        [0, 1, 2],
    )


@pytest.mark.parametrize("reader", ["pyarrow", "polars"])
def test_decimals_and_long_codes_of_typed_files_keep_their_values(tmp_path, monkeypatch, reader):
    long = 2**63
    cells = {
        "wage": [Decimal("9.75"), Decimal("12.50"), None],
        "code": pl.Series([long, long + 1, long], dtype=pl.UInt64),
    }
    pl.DataFrame({"age": [4, 9, 2], **cells}).write_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(tables, "find_spec", lambda name: name == reader or None)
    table = read_table(tmp_path / "t.parquet")
    found = choose_columns(table, Wanted(["code"], ["wage", "age"], decimal=",", missing="drop"))
    assert groups_of(found) == {str(long): 1, str(long + 1): 1}
    assert found.features["wage"].tolist() == [9.75, 12.5]
    assert groups_of(choose_columns(table, Wanted(["wage"], ["age"], missing="drop"))) == {"9.75": 1, "12.5": 1}


def test_levels_of_typed_files_keep_their_own_order(tmp_path, monkeypatch):
    """Bands were in the order of the alphabet: 100 and more before 9 to 30."""
    bands = ["under 9", "9 to 30", "100 and more"]
    band = pl.Series(["100 and more", "9 to 30", "under 9", "9 to 30"], dtype=pl.Enum(bands))
    pl.DataFrame({"x": [4, 9, 2, 1], "band": band}).write_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(tables, "find_spec", lambda name: name == "polars" or None)
    found = choose_columns(read_table(tmp_path / "t.parquet"), Wanted(["band"]))
    assert list(groups_of(found)) == bands
