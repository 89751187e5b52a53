"""The import rule: a module imports only from its own layer and those before it, and a device loads little.

The rule is read from the source with ``ast``, so imports inside functions count as well. What only a type
checker reads (under ``TYPE_CHECKING``) may name any third-party package, but keeps the order of the layers.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# What stands in one line may import each other; "client" and "server" may not.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "_validate"),
    ("privacy", "noise"),
    ("channels",),
    ("tree", "scale"),
    ("plan", "epoch_sums", "adaptive"),
    (
        "campaign",
        "campaign_parts",
        "campaign_problems",
        "campaign_auto",
        "reports",
        "report_batch",
        "codec",
        "batch_codec",
        "message_columns",
    ),
    ("inference", "deconvolution"),
    ("client", "server"),
    ("design", "planning", "audit"),
    ("datasets", "studies"),
    ("estimators",),
    ("connectors",),
)
LAYER_OF = {unit: number for number, units in enumerate(LAYERS) for unit in units}
APART = {("client", "server"), ("server", "client")}
CORE_MAY_USE = sys.stdlib_module_names | {"numpy", "scipy", "pydantic", "pydantic_core"}
MAY_USE = {  # river's mini-batch methods take and return pandas objects
    "": sys.stdlib_module_names,
    "estimators": CORE_MAY_USE | {"river", "pandas"},
}
FACE_MAY_USE_EAGERLY = frozenset(
    LAYERS[0]
)  # what ldp_stream/__init__.py may import before a name is asked for

HEAVY = ("numpy", "scipy", "river", "pandas", "kafka", "pyspark", "matplotlib", "pyarrow", "typer", "rich")
DEVICE_PATH = (
    "errors",
    "_validate",
    "privacy",
    "channels",
    "tree",
    "plan",
    "scale",
    "campaign",
    "reports",
    "codec",
    "client",
)


@dataclass(frozen=True)
class Import:
    """One imported name, in full, and how it is imported."""

    line: int
    target: str
    for_types_only: bool
    inside_function: bool


class _Collector(ast.NodeVisitor):
    """Collects the imports of one module; ``package`` is what a relative import starts from."""

    def __init__(self, package: list[str]) -> None:
        self.package = package
        self.found: list[Import] = []
        self.for_types_only = False
        self.inside_function = False

    def _add(self, node: ast.AST, target: str) -> None:
        line: int = getattr(node, "lineno", 0)
        self.found.append(Import(line, target, self.for_types_only, self.inside_function))

    def _absolute(self, level: int, name: str) -> str:
        start = self.package[: len(self.package) - level + 1] if level else []
        return ".".join([*start, *filter(None, [name])])

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        source = self._absolute(node.level, node.module or "")
        for alias in node.names:
            self._add(node, f"{source}.{alias.name}" if source else alias.name)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        first = node.args[0] if node.args else None
        if called in {"import_module", "__import__"} and isinstance(first, ast.Constant):
            name = str(first.value)
            self._add(node, self._absolute(len(name) - len(name.lstrip(".")), name.lstrip(".")))
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        test = node.test
        name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
        before, self.for_types_only = self.for_types_only, self.for_types_only or name == "TYPE_CHECKING"
        for child in node.body:
            self.visit(child)
        self.for_types_only = before
        for child in node.orelse:
            self.visit(child)

    def _visit_function(self, node: ast.AST) -> None:
        before, self.inside_function = self.inside_function, True
        self.generic_visit(node)
        self.inside_function = before

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _visit_function


def _modules(root: Path) -> Iterator[tuple[Path, list[str], bool]]:
    """Yield each source file, its import name in parts, and whether it is a package."""
    for folder, prefix in (("ldp_stream", ["ldp_stream"]), ("connectors", ["ldp_stream", "connectors"])):
        for path in sorted((root / folder).rglob("*.py")):
            parts = [*prefix, *path.relative_to(root / folder).with_suffix("").parts]
            is_package = parts[-1] == "__init__"
            yield path, parts[:-1] if is_package else parts, is_package


def _complaint(unit: str, imported: Import) -> str | None:
    """Say what is wrong, if anything, with an import in ``unit`` ("" stands for ldp_stream/__init__.py)."""
    top, *rest = imported.target.split(".")
    if top != "ldp_stream":
        if top == "connectors":
            return "import ldp_stream.connectors: there is no installed package of the name connectors"
        if unit == "connectors" or imported.for_types_only or top in MAY_USE.get(unit, CORE_MAY_USE):
            return None
        return f"{unit or 'ldp_stream'} may not import {top}"
    target = rest[0] if rest else ""
    if target == "__version__":
        return None
    if target not in LAYER_OF:
        return f"ldp_stream.{target} is in no layer: import a public name from the module that defines it"
    if not unit:
        if target in FACE_MAY_USE_EAGERLY or imported.inside_function or imported.for_types_only:
            return None
        return f"ldp_stream/__init__.py may not import {target} before a name is asked for"
    if (unit, target) in APART:
        return f"{unit} may not import {target}: what a device runs and what a server runs stay apart"
    if LAYER_OF[target] > LAYER_OF[unit]:
        return f"{unit} may not import {target}, which stands after it"
    return None


def violations(root: Path) -> list[str]:
    """Return one line for each import under ``root`` that breaks the rule."""
    found = []
    for folder in sorted({path.parent for path, _, _ in _modules(root)}):
        if not (folder / "__init__.py").is_file():
            found.append(
                f"{folder.relative_to(root).as_posix()}: no __init__.py, so it would not be installed"
            )
    for path, parts, is_package in _modules(root):
        unit = parts[1] if len(parts) > 1 else ""
        where = path.relative_to(root).as_posix()
        if unit and unit not in LAYER_OF:
            found.append(f"{where}: ldp_stream.{unit} is in no layer: add it to LAYERS")
            continue
        collector = _Collector(parts if is_package else parts[:-1])
        collector.visit(ast.parse(path.read_text(encoding="utf-8"), str(path)))
        for imported in collector.found:
            if complaint := _complaint(unit, imported):
                found.append(f"{where}:{imported.line}: {complaint}")
    return found


def test_the_package_keeps_the_rule() -> None:
    """No module imports from a later layer, across client and server, or a package it should not need."""
    assert violations(ROOT) == []


def test_the_rule_is_checked_on_something() -> None:
    """The walk reaches both folders, so an empty list of violations means something."""
    names = {".".join(parts) for _, parts, _ in _modules(ROOT)}
    assert {"ldp_stream", "ldp_stream.errors", "ldp_stream.connectors"} <= names


def test_a_folder_that_would_not_be_installed_is_found(tmp_path: Path) -> None:
    """A folder of modules without an __init__.py is a violation: the wheel would be without it."""
    _plant(tmp_path, {"ldp_stream/client/reporter.py": ""})
    (tmp_path / "ldp_stream/client/__init__.py").unlink()
    assert violations(tmp_path) == ["ldp_stream/client: no __init__.py, so it would not be installed"]


def _plant(root: Path, files: dict[str, str]) -> None:
    for folder in ("ldp_stream", "connectors"):
        (root / folder).mkdir(exist_ok=True)
        (root / folder / "__init__.py").touch()
    for name, source in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(source, encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "source", "complaint"),
    [
        ("ldp_stream/plan.py", "from .campaign import Campaign", "plan may not import campaign"),
        ("ldp_stream/plan.py", "import ldp_stream.server.aggregator", "plan may not import server"),
        ("ldp_stream/plan.py", "from . import client", "plan may not import client"),
        ("ldp_stream/plan.py", "def f():\n    from . import client", "plan.py:2: plan may not import client"),
        (
            "ldp_stream/plan.py",
            "import importlib\nimportlib.import_module('.client', 'ldp_stream')",
            "plan may not import client",
        ),
        ("ldp_stream/plan.py", "from . import Campaign", "ldp_stream.Campaign is in no layer"),
        ("ldp_stream/plan.py", "from ldp_stream import Campaign", "ldp_stream.Campaign is in no layer"),
        ("ldp_stream/errors.py", "from .privacy import PrivacyBudget", "errors may not import privacy"),
        ("ldp_stream/channels/cqx.py", "from ..plan import chain", "channels may not import plan"),
        ("ldp_stream/channels/__init__.py", "from ..plan import chain", "channels may not import plan"),
        (
            "ldp_stream/client/reporter.py",
            "from ..server.aggregator import A",
            "client may not import server",
        ),
        ("ldp_stream/server/aggregator.py", "from ..client import entropy", "server may not import client"),
        ("ldp_stream/estimators/quantile.py", "from ..connectors import files", "may not import connectors"),
        (
            "ldp_stream/plan.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .server import A",
            "plan may not import server",
        ),
        ("ldp_stream/server/aggregator.py", "import river.base", "server may not import river"),
        ("ldp_stream/plan.py", "def f():\n    import pandas as pd", "plan may not import pandas"),
        ("ldp_stream/datasets/taxi.py", "from kafka import KafkaConsumer", "datasets may not import kafka"),
        ("ldp_stream/design/audit.py", "import matplotlib.pyplot as plt", "design may not import matplotlib"),
        ("ldp_stream/estimators/quantile.py", "import rich", "estimators may not import rich"),
        ("ldp_stream/helpers.py", "", "ldp_stream.helpers is in no layer"),
        (
            "ldp_stream/errors.py",
            "import connectors.cli",
            "there is no installed package of the name connectors",
        ),
        (
            "connectors/cli.py",
            "import connectors.files",
            "there is no installed package of the name connectors",
        ),
        ("connectors/cli.py", "from ..nowhere import a", "ldp_stream.nowhere is in no layer"),
        ("ldp_stream/__init__.py", "from .campaign import Campaign", "may not import campaign before"),
        ("ldp_stream/__init__.py", "import numpy", "ldp_stream may not import numpy"),
    ],
)
def test_a_planted_wrong_import_is_found(tmp_path: Path, file: str, source: str, complaint: str) -> None:
    """Each way to break the rule gives exactly one violation that names the file and what is wrong."""
    _plant(tmp_path, {file: source})
    found = violations(tmp_path)
    assert len(found) == 1
    assert found[0].startswith(file)
    assert complaint in found[0]


@pytest.mark.parametrize(
    ("file", "source"),
    [
        (
            "ldp_stream/channels/cqx.py",
            "from .base import Channel\nfrom ..privacy import PrivacyBudget\nimport numpy",
        ),
        ("ldp_stream/reports.py", "from .campaign import Campaign\nfrom pydantic import BaseModel"),
        ("ldp_stream/campaign.py", "from .reports import Report\nimport tomllib, hashlib"),
        ("ldp_stream/server/a.py", "from ..inference.regions import Interval\nfrom scipy import stats"),
        (
            "ldp_stream/estimators/quantile.py",
            "import river.base\nfrom ..client import reporter\nfrom ..server import a",
        ),
        (
            "ldp_stream/plan.py",
            "import typing\nif typing.TYPE_CHECKING:\n    import pandas\nelse:\n    import math",
        ),
        (
            "ldp_stream/__init__.py",
            "from .errors import InvalidInput\ndef __getattr__(n):\n    from .campaign import C",
        ),
        ("connectors/cli.py", "import typer, kafka\nfrom ..estimators import quantile\nfrom . import files"),
        ("connectors/commands/replay.py", "from ...campaign import Campaign\nfrom ..files import rows"),
    ],
)
def test_a_right_import_is_accepted(tmp_path: Path, file: str, source: str) -> None:
    """What the rule allows is not reported: earlier layers, the same layer, lazy names, types, connectors."""
    _plant(tmp_path, {file: source})
    assert violations(tmp_path) == []


@pytest.mark.parametrize(
    "code",
    ["import ldp_stream", "from ldp_stream import Campaign, Reporter"]
    + [f"import ldp_stream.{m}" for m in DEVICE_PATH],
)
def test_a_device_loads_nothing_heavy(tmp_path: Path, code: str) -> None:
    """What a device imports leaves numpy, scipy, river and every optional package unloaded."""
    program = f"{code}\nimport sys\nprint([name for name in {HEAVY} if name in sys.modules])"
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (run.stdout.strip(), run.stderr) == ("[]", "")
