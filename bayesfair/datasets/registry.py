"""The source of every real data set, and access to its file: a local copy first, else a checked download."""

import os
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from bayesfair._check import Refusal, message

_UCI = "https://archive.ics.uci.edu"


@dataclass(frozen=True)
class Source:
    """A file at the UCI Machine Learning Repository.

    `file_name`: the name that `fetch` looks for in the folder BAYESFAIR_DATA. `url`: the file, or a zip archive that
    holds `member`. `sha256`: of the published file itself, None if not known. `rows`, `columns`: as published.
    """

    name: str
    title: str
    file_name: str
    url: str
    page: str
    rows: int
    columns: int
    member: str | None = None
    sha256: str | None = None
    licence: str = "CC BY 4.0"


# The checksums of adult.data and bank.csv were computed from copies and agree with those in public repositories;
# those of bank-additional-full.csv and diabetic_data.csv were only read there. Altered copies circulate.
SOURCES = {
    source.name: source
    for source in (
        Source(
            "adult",
            "Adult (1994 US census), Becker and Kohavi 1996",
            "adult.data",
            f"{_UCI}/ml/machine-learning-databases/adult/adult.data",
            f"{_UCI}/dataset/2/adult",
            rows=32_561,
            columns=15,
            sha256="5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        ),
        Source(
            "bank",
            "Bank Marketing, the tenth of it in bank.csv, Moro, Cortez and Rita 2014",
            "bank.csv",
            f"{_UCI}/ml/machine-learning-databases/00222/bank.zip",
            f"{_UCI}/dataset/222/bank+marketing",
            rows=4_521,
            columns=17,
            member="bank.csv",
            sha256="dc8d576e9bda0f41ee891251bd84bab9a39ce576cba715aac08adc2374a01fde",
        ),
        Source(
            "bank-additional",
            "Bank Marketing with social and economic context, Moro, Cortez and Rita 2014",
            "bank-additional-full.csv",
            f"{_UCI}/ml/machine-learning-databases/00222/bank-additional.zip",
            f"{_UCI}/dataset/222/bank+marketing",
            rows=41_188,
            columns=21,
            member="bank-additional/bank-additional-full.csv",
            sha256="74adfc578bf77a7ff4bb1ba4a9f8709d9e3c6907342959c2c8416847e0afb4d8",
        ),
        Source(
            "credit",
            "Default of Credit Card Clients (Taiwan, 2005), Yeh 2009",
            "creditcard.csv",
            f"{_UCI}/static/public/350/default+of+credit+card+clients.zip",
            f"{_UCI}/dataset/350/default+of+credit+card+clients",
            rows=30_000,
            columns=25,
            member="default of credit card clients.xls",
        ),
        Source(
            "diabetes130",
            "Diabetes 130-US Hospitals for Years 1999-2008, Clore, Cios, DeShazo and Strack 2014",
            "diabetic_data.csv",
            f"{_UCI}/static/public/296/diabetes+130-us+hospitals+for+years+1999-2008.zip",
            f"{_UCI}/dataset/296/diabetes+130-us+hospitals+for+years+1999-2008",
            rows=101_766,
            columns=50,
            member="diabetic_data.csv",
            sha256="0689e7ec031237dc63031b938805c48377748761a3b26acab621567afa24df97",
        ),
        Source(
            "census1990",
            "US Census Data (1990), Meek, Thiesson and Heckerman 2001",
            "USCensus1990.data.txt",
            f"{_UCI}/ml/machine-learning-databases/census1990-mld/USCensus1990.data.txt",
            f"{_UCI}/dataset/116/us+census+data+1990",
            rows=2_458_285,
            columns=69,
        ),
    )
}


def fetch(source, *, progress_bar=True):
    """Path of the file of `source`: in the folder BAYESFAIR_DATA if it is there, else downloaded, checked and kept."""
    folder = os.environ.get("BAYESFAIR_DATA")
    if folder and (own := Path(folder) / source.file_name).is_file():
        return own
    try:
        downloaded = _download(source, progress_bar)
    except (OSError, ValueError) as error:  # ValueError: an address that pooch cannot read
        tried = f"{folder!r} has no such file" if folder else "the variable is not set"
        raise OSError(
            Refusal(
                f"`{source.file_name}` is not available: the download from {source.url} failed ({error}), and the folder "
                f"named by the environment variable BAYESFAIR_DATA does not help ({tried}). Either connect to the internet "
                f"and call again, or get the file from {source.page} and set BAYESFAIR_DATA to the folder that holds it."
            )
        ) from error
    return _published(source, downloaded)


def _download(source, progress_bar):
    import pooch

    path = pooch.retrieve(
        source.url,
        known_hash=None,  # the checksum is the file's: its archive may be repacked
        path=pooch.os_cache("bayesfair"),
        fname=f"{source.name}-{source.url.rsplit('/', 1)[-1]}",
        progressbar=progress_bar,
    )
    return Path(path)


def _published(source, downloaded):
    """The published file within a download; any other download is deleted, so that it is fetched again."""
    import pooch

    rule = f"be the published {source.file_name}" + (f" with sha256 {source.sha256}" if source.sha256 else "")
    remedy = f"It was deleted: call again. If that does not help, {source.page} has changed: please report it."
    try:
        path = _extract(downloaded, source.member) if source.member else downloaded
    except (BadZipFile, KeyError) as error:
        downloaded.unlink()
        got = f"an archive without {source.member!r} ({error})"
        raise ValueError(message(str(downloaded), rule, got, remedy)) from error
    found = pooch.file_hash(path)
    if source.sha256 not in (None, found):
        path.unlink()
        downloaded.unlink(missing_ok=True)
        raise ValueError(message(str(path), rule, f"sha256 {found}", remedy))
    return path


def _extract(archive, member):
    folder = archive.with_suffix(".unzipped")
    if not (folder / member).is_file():
        with ZipFile(archive) as contents:
            contents.extract(member, folder)
    return folder / member
