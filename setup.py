"""Finds the packages; pyproject.toml cannot say that connectors/ becomes ``ldp_stream.connectors``."""

from __future__ import annotations

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["ldp_stream", "ldp_stream.*"]),
        *(f"ldp_stream.{name}" for name in find_packages(include=["connectors", "connectors.*"])),
    ]
)
