"""The budget of compiled programs: it is kept to by every file (tests/conftest.py), and all of it is small enough."""

from programs import MOST, PROGRAMS, TESTS, budget_of, complaint


def test_all_files_together_may_compile_few_enough():
    assert sum(PROGRAMS.values()) <= MOST
    assert all((TESTS / name).exists() for name in PROGRAMS)


def test_a_file_that_compiles_more_than_it_may_is_named_with_what_it_compiles():
    path = TESTS / "test_programs.py"
    may = budget_of(path)
    assert complaint(path, may * ["jit(add)"]) == ""
    told = complaint(path, ["jit(one)", *may * ["jit(add)"]])
    assert (
        f"test_programs.py compiled {may + 1} programs and may compile {may}; most often jit(add) {may}, jit(one) 1"
        in told
    )
