"""The entry point: arguments in, exit status out, and one line on standard error about what went wrong."""

import os
import re
import sys
import traceback
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path

import bayesfair
from bayesfair import _cache
from bayesfair._check import Interrupted, Refusal

DONE, FAILED, MISUSED = 0, 1, 2
INTERRUPTED, CLOSED_PIPE = 130, 141  # 128 + the signal, as shells count
EXIT_STATUSES = """\
exit status:
  0    done
  1    the results could not be written, memory ran out, or bayesfair has a bug{lost}
  2    an option, a table or a file is wrong; one line on standard error says which
  130  interrupted (Ctrl-C);{kept} files are whole or not written
  141  the reader of the output closed the pipe
"""
WITH_DRAWS = {"lost": "; draws are saved elsewhere if possible", "kept": " draws made so far are saved, and"}
WITHOUT_DRAWS = {"lost": "", "kept": ""}
QUOTED = re.compile(r"""((?<!\w)'(?:[^'\\]|\\.)*'(?!\w)|"(?:[^"\\]|\\.)*")""")
ARGUMENT = re.compile(r"(?<=`)\w+(?=`)|(?<![\w/\\.-])[a-z]+(?:_[a-z]+)+(?![\w/\\-]|\.\w)")
IN_SHELL = {  # what messages advise, as it is typed
    "with sklearn.preprocessing.StandardScaler": "with --standardize",
    "tempering=True": "--tempering",
    "fit(..., store='run.zarr')": "--out run.zarr",
    "inverse_temperature=": "--inverse-temperature ",
}


class WrongUse(ValueError):
    """What was typed, or a table, is not what it must be; the text is in the shell's own words."""


class NotWritten(Exception):
    """Results could not be written, though the place was checked before."""


def main(argv=None) -> int:
    """Run one command of the shell, by default the one that was typed, and return its exit status. Errors are printed."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # for names that the terminal's encoding lacks
    argv = list(sys.argv[1:] if argv is None else argv)

    def run():
        from bayesfair.cli import arguments, commands  # takes a moment in which Ctrl-C may come

        typed = arguments.parse(argv)
        return getattr(commands, typed.command)(typed)

    _cache.by_itself = True
    os.environ["MPLBACKEND"] = "Agg"  # notebooks set it for child processes, to a package that may be missing
    return guarded(" ".join(["bayesfair", *argv[:1]]), run)


def guarded(program, command) -> int:
    """The exit status of `command()`, None meaning success; warnings and errors become lines that begin with `program`."""
    try:
        with _warnings_in_one_line(program) as told:
            status = command()
        if sys.stdout is not None:
            sys.stdout.flush()
        return status or (INTERRUPTED if Interrupted in told else DONE)
    except SystemExit as told:  # from argparse: help, or wrong use
        return told.code
    except BrokenPipeError:
        _silence_standard_output()
        return CLOSED_PIPE
    except (Exception, KeyboardInterrupt) as error:
        status, text = _ending(error)
        _tell(f"{program}: {text}")
        return status


@contextmanager
def writing():
    """Results are written here: an error of the system is no wrong use, as the place was checked before."""
    try:
        yield
    except OSError as error:
        raise NotWritten(str(error)) from error


def _ending(error):
    """(exit status, text) of an error; that of a bug follows its traceback."""
    text = str(error)
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, f"interrupted. {text}" if text else "interrupted"
    if isinstance(error, NotWritten):
        return FAILED, text
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in text:  # the latter is JAX's message
        return FAILED, f"out of memory. Ask for fewer draws or chains, or take fewer rows. ({text})"
    if isinstance(error, WrongUse):
        return MISUSED, text
    if error.args and isinstance(error.args[0], Refusal):
        return MISUSED, in_shell(text)
    if isinstance(error, OSError) and error.errno is not None:
        return FAILED, _refusal_of_the_system(error)
    # JAX could not start on the devices it was told to use; some versions raise an empty AssertionError.
    raised_in = Path(traceback.extract_tb(error.__traceback__)[-1].filename).name
    if isinstance(error, (RuntimeError, AssertionError)) and raised_in == "xla_bridge.py":
        return MISUSED, _no_device(text)
    traceback.print_exception(error)
    return FAILED, f"this is a bug of bayesfair {bayesfair.__version__}. Please report it, with the lines above."


def _tell(text):
    """Print one line on standard error, if it is open."""
    if sys.stderr is not None:
        with suppress(OSError):  # no reader is left
            print(" ".join(text.split()), file=sys.stderr)


def in_shell(text):
    """The text with the package's arguments renamed to the shell's; quoted text and paths are the user's own."""
    from bayesfair.cli.arguments import OPTIONS

    for in_python, typed in IN_SHELL.items():
        text = text.replace(in_python, typed)
    if IN_SHELL["inverse_temperature="] in text:  # for fairlets and for clusters
        text = re.sub(r"\(([\d.e+-]+), ([\d.e+-]+)\)", r"\1,\2", text)
    parts = QUOTED.split(text)
    parts[::2] = [ARGUMENT.sub(lambda found: OPTIONS.get(found[0], found[0]), part) for part in parts[::2]]
    return "".join(parts)


def _refusal_of_the_system(error):
    if error.filename is None:  # standard output has no name, and would fail again at exit
        _silence_standard_output()
        return f"the output could not be written: {error.strerror}"
    return f"{os.fspath(error.filename)!r}: {error.strerror}"


def _no_device(text):
    asked, why = os.environ.get("JAX_PLATFORMS", ""), f" ({text})" if text else ""
    remedy = "Check the driver, and install JAX for the device, such as pip install 'jax[cuda12]'."
    if not asked:
        return f"JAX finds no device that it can use{why}. Set JAX_PLATFORMS=cpu to use the processor. {remedy}"
    return f"JAX cannot use JAX_PLATFORMS={asked}{why}. Unset JAX_PLATFORMS to use what is here. {remedy}"


@contextmanager
def _warnings_in_one_line(program):
    """Yields a list that grows with the category of each warning."""
    told, texts = [], set()

    def show(text, category, filename, lineno, file=None, line=None):
        told.append(category)
        said = in_shell(str(text))
        if said not in texts:  # a command may read a column several times
            _tell(f"{program}: warning: {said}")
        texts.add(said)

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
