"""What is published: the source archive, the wheel built from it, and a fresh environment into which the wheel goes."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LARGEST = 1_000_000  # bytes of a file in the source archive: no data but the samples, no built site


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """(source archive, wheel): the wheel is built from the archive, by what this environment has."""
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT], folder)
    return next(folder.glob("*.tar.gz")), next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """`bin` of an environment that holds the wheel alone; what it depends on is read from the environment of the tests."""
    folder = tmp_path_factory.mktemp("fresh")
    run([sys.executable, "-m", "venv", "--without-pip", folder], folder)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python"]
    run([*pip, "install", "--quiet", "--no-deps", "--no-index", "--no-compile", built[1]], folder)
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "dependencies.pth").write_text("\n".join(path for path in sys.path if "site-packages" in path))
    return folder / "bin"


def run(command, folder):
    """What a command prints, away from the source tree and from any data."""
    dropped = ("PYTHONPATH", "BAYESFAIR_DATA")
    settings = {name: value for name, value in os.environ.items() if name not in dropped}
    done = subprocess.run(list(map(str, command)), cwd=folder, env=settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


@pytest.mark.slow
def test_the_source_archive_holds_what_builds_tests_and_explains_it(built):
    with tarfile.open(built[0]) as archive:
        sizes = {member.name.split("/", 1)[1]: member.size for member in archive.getmembers()}
    wanted = ["pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "Makefile"]
    wanted += ["tests/packaging/test_distributions.py", "tests/conftest.py", "examples/01_quick_start.py"]
    wanted += ["docs/conf.py", "tools/find-python", "bayesfair/py.typed"]
    assert set(wanted) <= set(sizes)
    data = {name for name in sizes if re.search(r"\.(csv|data|mat|gz|zip|xls|parquet|nc)$", name)}
    results = {f"docs/papers/{paper}.csv" for paper in ("gibbs", "fmc", "vfc", "biglearn", "tkm")}
    assert data - results == {f"bayesfair/datasets/samples/{name}.gz" for name in ("adult.data", "bank.csv")}
    assert not [name for name in sizes if name.startswith("shared/") or "_build/" in name]
    assert max(sizes.values()) < LARGEST


def test_the_wheel_holds_the_package_and_its_licences(built):
    with zipfile.ZipFile(built[1]) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == {"bayesfair", f"bayesfair-{PROJECT['version']}.dist-info"}
    assert {
        "bayesfair/py.typed",
        "bayesfair/reports/base.html",
        "bayesfair/reports/page.html",
        "bayesfair/reports/audit.html",
        "bayesfair/reports/style.css",
        "bayesfair/datasets/samples/ATTRIBUTION.md",
    } < set(names)
    licences = {name.split("/licenses/")[1] for name in names if "/licenses/" in name}
    assert licences == set(PROJECT["license-files"])


def test_links_of_the_description_have_addresses(built):
    about = metadata(built[1])
    assert set(about.get_all("Project-URL")) == {f"{name}, {url}" for name, url in PROJECT["urls"].items()}
    links = re.findall(r"\]\(([^)]+)\)", about.get_payload())
    assert len(links) == len(re.findall(r"\]\([^)]+\)", (ROOT / "README.md").read_text()))
    assert [link for link in links if not link.startswith("https://")] == []
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", about.get_payload())
    assert pictures
    assert all(link.startswith("https://raw.githubusercontent.com/") for link in pictures)


def test_versions_agree():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {PROJECT['version']}\n" in citation
    assert f"\nrepository-code: {PROJECT['urls']['Source']}\n" in citation


@pytest.mark.slow
def test_the_wheel_works_in_a_fresh_environment(installed):
    code = """
        import importlib.resources, bayesfair as bf
        print(bf.__file__, bf.__version__)
        print(len(bf.datasets.load_adult_sample()), len(bf.datasets.load_bank_sample()))
        print(importlib.resources.files(bf).joinpath("py.typed").is_file())
    """
    code = "\n".join(line.strip() for line in code.splitlines())
    where, *rest = run([installed / "python", "-c", code], installed).split()
    assert Path(where).is_relative_to(installed.parent)
    assert rest == [PROJECT["version"], "1000", "1000", "True"]
    assert PROJECT["version"] in run([installed / "bayesfair", "--version"], installed)
