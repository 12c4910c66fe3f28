"""Files of the published formats, the folder of real data, and a server on this machine to download from."""

import functools
import http.server
import os
import threading
from pathlib import Path

import pytest


@pytest.fixture
def real_data():
    """`require(file_name)`: skip, with the reason, where the folder BAYESFAIR_DATA does not hold the file."""

    def require(file_name):
        folder = os.environ.get("BAYESFAIR_DATA")
        if not folder or not (Path(folder) / file_name).is_file():
            pytest.skip(f"needs {file_name} in the folder BAYESFAIR_DATA, which is {folder!r}")

    return require


@pytest.fixture
def own_copy(tmp_path, monkeypatch):
    """`write(file_name, text)`: a file in an otherwise empty BAYESFAIR_DATA."""
    monkeypatch.setenv("BAYESFAIR_DATA", str(tmp_path))
    return lambda file_name, text: (tmp_path / file_name).write_text(text)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty download folder in place of the user's."""
    folder = tmp_path / "cache"
    monkeypatch.setattr("pooch.os_cache", lambda project: folder)
    return folder


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A folder and the address under which a server on this machine publishes it."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    folder = tmp_path / "published"
    folder.mkdir()

    class Silent(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Silent, directory=folder))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()
