"""Getting a file: the own copy first, then a download that is checked, and a clear way out where neither works."""

import hashlib
import zipfile
from dataclasses import replace

import pytest

from bayesfair.datasets import load_adult
from bayesfair.datasets.registry import SOURCES, fetch

ROW = "39, Private, 77516, Bachelors, 13, Divorced, Sales, Unmarried, White, Male, 2174, 0, 40, Cuba, <=50K\n"


def source_at(address, text=ROW, **changes):
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    return replace(SOURCES["adult"], url=f"{address}/adult.data", **({"sha256": sha256} | changes))


@pytest.fixture
def no_own_copy(monkeypatch):
    monkeypatch.delenv("BAYESFAIR_DATA", raising=False)


@pytest.mark.parametrize("name", ["adult", "bank"])
def test_the_checksums_are_those_of_the_files_at_hand(name, real_data):
    real_data(SOURCES[name].file_name)
    assert hashlib.sha256(fetch(SOURCES[name]).read_bytes()).hexdigest() == SOURCES[name].sha256


def test_an_own_copy_comes_first_and_is_not_checked(own_copy, cache):
    own_copy("adult.data", "an altered copy")
    assert fetch(SOURCES["adult"]).read_text() == "an altered copy"
    assert not cache.exists()


def test_a_download_is_kept(published, cache, monkeypatch, tmp_path, capsys):
    """Of a file that the user's own folder lacks."""
    folder, address = published
    monkeypatch.setenv("BAYESFAIR_DATA", str(tmp_path))
    (folder / "adult.data").write_text(ROW)
    source = source_at(address)
    monkeypatch.setitem(SOURCES, "adult", source)
    assert load_adult().features.iloc[0].tolist() == [39, 77516, 13, 2174, 40]
    path = fetch(source)
    assert path.parent == cache
    assert "100%" in capsys.readouterr().err  # the progress bar
    (folder / "adult.data").unlink()
    assert fetch(source, progress_bar=False) == path
    assert "100%" not in capsys.readouterr().err


def test_a_bad_checksum_inside_an_archive_is_refused_and_the_archive_is_fetched_again(published, cache, no_own_copy):
    folder, address = published
    sha256 = hashlib.sha256(ROW.encode()).hexdigest()
    source = replace(SOURCES["bank"], url=f"{address}/bank.zip", member="inner/bank.csv", sha256=sha256)
    with zipfile.ZipFile(folder / "bank.zip", "w") as archive:
        archive.writestr("inner/bank.csv", "something else")
    with pytest.raises(ValueError, match=r"be the published bank\.csv"):
        fetch(source, progress_bar=False)
    with zipfile.ZipFile(folder / "bank.zip", "w") as archive:
        archive.writestr("inner/bank.csv", ROW)
        archive.writestr("bank-names.txt", "not this")
    assert fetch(source, progress_bar=False).read_text() == ROW
    assert fetch(source, progress_bar=False).name == "bank.csv"


@pytest.mark.parametrize("content", ["<html>log in first</html>", None], ids=["not an archive", "member missing"])
def test_an_archive_that_is_not_the_published_one_is_refused(content, published, cache, no_own_copy):
    folder, address = published
    if content is None:
        with zipfile.ZipFile(folder / "bank.zip", "w") as archive:
            archive.writestr("other.csv", ROW)
    else:
        (folder / "bank.zip").write_text(content)
    with pytest.raises(ValueError, match=r"an archive without 'bank\.csv'"):
        fetch(replace(SOURCES["bank"], url=f"{address}/bank.zip"), progress_bar=False)
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("folder", [None, "empty"])
def test_when_neither_way_works_the_error_names_both(folder, cache, monkeypatch, tmp_path):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    if folder is None:
        monkeypatch.delenv("BAYESFAIR_DATA", raising=False)
        tried = "the variable is not set"
    else:
        monkeypatch.setenv("BAYESFAIR_DATA", str(tmp_path))
        tried = f"{str(tmp_path)!r} has no such file"
    with pytest.raises(OSError, match="refused") as error:
        fetch(source_at("http://127.0.0.1:9"), progress_bar=False)
    text = str(error.value)
    assert tried in text
    assert "connect to the internet" in text
    assert "set BAYESFAIR_DATA to the folder" in text
    assert "https://archive.ics.uci.edu/dataset/2/adult" in text
