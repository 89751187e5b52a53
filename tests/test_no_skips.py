"""CI counts a skip as a failure; without the variable it stays a skip."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SKIPPED_TEST = "import pytest\n\n@pytest.mark.skip(reason='no broker')\ndef test_it():\n    pass\n"
SKIPPED_IN_BODY = "import pytest\n\ndef test_it():\n    pytest.skip('no broker')\n"
SKIPPED_MODULE = "import pytest\n\npytest.skip('no broker', allow_module_level=True)\n"
EXPECTED_FAILURE = (
    "import pytest\n\n@pytest.mark.xfail(reason='no broker')\ndef test_it():\n    assert False\n"
)


def _run(folder: Path, test: str, no_skips: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text((Path(__file__).parent / "conftest.py").read_text())
    (folder / "test_planted.py").write_text(test + "\ndef test_that_passes():\n    pass\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(folder)]
    environment = {**os.environ, "LDP_STREAM_NO_SKIPS": no_skips}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("test", [SKIPPED_TEST, SKIPPED_IN_BODY, SKIPPED_MODULE])
def test_a_skip_fails_in_ci_and_says_why(tmp_path: Path, test: str) -> None:
    """With LDP_STREAM_NO_SKIPS=1 a skipped test or module makes the run fail and its reason is printed."""
    run = _run(tmp_path, test, no_skips="1")
    assert run.returncode != 0
    assert "LDP_STREAM_NO_SKIPS is set and this was skipped" in run.stdout
    assert "no broker" in run.stdout
    assert " skipped in" not in run.stdout


@pytest.mark.parametrize("test", [SKIPPED_TEST, SKIPPED_IN_BODY, SKIPPED_MODULE])
def test_a_skip_stays_a_skip_elsewhere(tmp_path: Path, test: str) -> None:
    """Without the variable a run with a skip does not fail, so a contributor may lack an optional service."""
    run = _run(tmp_path, test, no_skips="")
    assert run.returncode == (5 if test == SKIPPED_MODULE else 0)
    assert "1 skipped" in run.stdout


def test_an_expected_failure_is_not_a_skip(tmp_path: Path) -> None:
    """An expected failure keeps its meaning when skips are refused."""
    run = _run(tmp_path, EXPECTED_FAILURE, no_skips="1")
    assert run.returncode == 0
    assert "1 xfailed" in run.stdout
