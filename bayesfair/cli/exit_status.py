"""The end of a command: its exit status, and one line on standard error about what went wrong."""

import os
import re
import sys
import traceback
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path

import bayesfair
from bayesfair._check import Interrupted
from bayesfair.cli.options import OPTIONS

DONE, FAILED, MISUSED = 0, 1, 2
INTERRUPTED, CLOSED_PIPE = 130, 141  # 128 + the signal, as shells count
EXIT_STATUSES = """\
exit status:
  0    done
  1    results could not be put where asked (the draws are kept elsewhere if they can be), memory ran out, or a bug
  2    wrong use: an option, a table or a file that cannot be what was meant; told in one line
  130  interrupted (Ctrl-C); draws that were made by then, or an engine's solution so far, are saved
  141  whoever read the output closed the pipe
"""


QUOTED = re.compile(r"""((?<!\w)'(?:[^'\\]|\\.)*'(?!\w)|"(?:[^"\\]|\\.)*")""")
ARGUMENT = re.compile(r"(?<=`)\w+(?=`)|(?<![\w/\\.-])[a-z]+(?:_[a-z]+)+(?![\w/\\-]|\.\w)")

IN_SHELL = {  # what messages advise, as it is typed
    "with sklearn.preprocessing.StandardScaler": "with --standardize",
    "tempering=True": "--tempering",
    "fit(..., store='run.zarr')": "--out run.zarr",
    "inverse_temperature=": "--inverse-temperature ",
}


class NotWritten(Exception):
    """Results that could not be written where they were asked for."""


def guarded(program, command) -> int:
    """The exit status of `command()`, None meaning success; warnings and errors become lines that begin with `program`."""
    try:
        with _warnings_in_one_line(program) as told:
            status = command()
        if sys.stdout is not None:
            sys.stdout.flush()
        return status or (INTERRUPTED if Interrupted in told else DONE)
    except BrokenPipeError:
        _silence_standard_output()
        return CLOSED_PIPE
    except (Exception, KeyboardInterrupt) as error:
        return _told(program, error)


@contextmanager
def writing():
    """Results are written here: errors of the system get exit status 1, as the place was checked before."""
    try:
        yield
    except OSError as error:
        raise NotWritten(str(error)) from error


def _told(program, error):
    last = traceback.extract_tb(error.__traceback__)[-1]
    source = Path(last.filename)
    if isinstance(error, KeyboardInterrupt):
        return _end(program, f"interrupted. {error}" if str(error) else "interrupted", INTERRUPTED)
    if isinstance(error, NotWritten):
        return _end(program, error, FAILED)
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):  # the latter is JAX's message
        return _end(program, f"out of memory. Ask for fewer draws or chains, or take fewer rows. ({error})", FAILED)
    if isinstance(error, OSError) and error.errno is not None:
        return _end(program, _refusal_of_the_system(error), FAILED)
    # JAX could not start on the devices it was told to use; some versions raise an empty AssertionError.
    if isinstance(error, (RuntimeError, AssertionError)) and source.name == "xla_bridge.py":
        return _end(program, _no_device(error), MISUSED)
    # An error raised by this package is for users, in the shell's words if a command raised it; any other is a bug.
    is_ours = source.is_relative_to(Path(bayesfair.__file__).parent) and last.line.startswith("raise")
    if isinstance(error, (ValueError, TypeError, OSError)) and is_ours:
        of_shell = source.is_relative_to(Path(__file__).parent)
        return _end(program, error if of_shell else in_shell(error), MISUSED)
    traceback.print_exception(error)
    text = f"this is a bug of bayesfair {bayesfair.__version__}. Please report it, with the lines above."
    return _end(program, text, FAILED)


def _end(program, text, status):
    _tell(f"{program}: {text}")
    return status


def _tell(text):
    """Print one line on standard error, if it is open."""
    if sys.stderr is not None:
        with suppress(OSError):  # no reader is left
            print(" ".join(str(text).split()), file=sys.stderr)


def in_shell(text):
    """The text with the package's arguments renamed to the shell's; quoted text and paths are the user's own."""
    text = str(text)
    for in_python, typed in IN_SHELL.items():
        text = text.replace(in_python, typed)
    parts = QUOTED.split(text)
    parts[::2] = [ARGUMENT.sub(lambda found: OPTIONS.get(found[0], found[0]), part) for part in parts[::2]]
    return "".join(parts)


def _refusal_of_the_system(error):
    if error.filename is None:  # standard output has no name, and would fail again at exit
        _silence_standard_output()
        return f"the output could not be written: {error.strerror}"
    return f"{os.fspath(error.filename)!r}: {error.strerror}"


def _no_device(error):
    asked, why = os.environ.get("JAX_PLATFORMS", ""), f" ({error})" if str(error) else ""
    remedy = "Check the driver, and install JAX for the device, such as pip install 'jax[cuda12]'."
    if not asked:
        return f"JAX finds no device that it can use{why}. Set JAX_PLATFORMS=cpu to use the processor. {remedy}"
    return f"JAX cannot use JAX_PLATFORMS={asked}{why}. Unset JAX_PLATFORMS to use what is here. {remedy}"


@contextmanager
def _warnings_in_one_line(program):
    """Yields a list that grows with the category of each warning."""
    told = []

    def show(text, category, filename, lineno, file=None, line=None):
        told.append(category)
        _tell(f"{program}: warning: {in_shell(text)}")

    with warnings.catch_warnings():
        for category in (UserWarning, RuntimeWarning):  # printed even if Python is set to raise warnings
            warnings.simplefilter("default", category)
        warnings.simplefilter("ignore", SyntaxWarning)  # of libraries' sources, when Python compiles them first
        warnings.showwarning = show
        yield told


def _silence_standard_output():
    """Discard what is still in the buffer when the interpreter ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
