"""Every doctest of the package, found by import name.

``pytest --doctest-modules`` imports by path, so it cannot know that connectors/ is ``ldp_stream.connectors``.
"""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import ldp_stream

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def _modules() -> list[str]:
    connectors = importlib.import_module("ldp_stream.connectors")
    found = [ldp_stream.__name__, connectors.__name__]
    for package in (ldp_stream, connectors):
        found += [module.name for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    return sorted(found)


def _doctests(name: str) -> list[doctest.DocTest]:
    return doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name), name)


@pytest.mark.parametrize("name", _modules())
def test_doctests(name: str) -> None:
    """Every example in a module's docstrings prints what the docstring says, and none is left out."""
    report: list[str] = []
    for test in _doctests(name):
        assert not any(doctest.SKIP in example.options for example in test.examples), (
            f"{test.name} skips an example"
        )
        doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append)
    assert not report, "".join(report)


def test_the_walk_finds_both_folders() -> None:
    """The list of modules holds those of ldp_stream/ and those of connectors/, so none goes unread."""
    assert {"ldp_stream.errors", "ldp_stream._validate", "ldp_stream.connectors"} <= set(_modules())
    assert sum(len(test.examples) for test in _doctests("ldp_stream._validate")) >= 2


def test_a_wrong_example_is_reported() -> None:
    """An example that prints something else than it says is a failure, so a green run means something."""
    example = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "planted", None, None)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(example, out=report.append)
    assert "Got:\n    2" in "".join(report)
