"""Where the traces are, and the command whose results the package must have."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import slabyard

ROOT = Path(__file__).resolve().parents[3]
TRACES = ROOT / "crates/lab/traces"
GUEST = "tr64k_hb_smp4.slabtrace"


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def traces() -> Path:
    return TRACES


@pytest.fixture(scope="session")
def guest() -> slabyard.Trace:
    """hackbench on a guest with 64 KiB pages."""
    return slabyard.open(TRACES / GUEST)


@pytest.fixture(scope="session")
def guest_file() -> Path:
    return TRACES / GUEST


class Command:
    """`slabyard`, as CI built it."""

    def __init__(self, program: str) -> None:
        self.program = program

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        line = [self.program, *map(str, arguments)]
        return subprocess.run(line, capture_output=True, text=True, check=False)

    def json(self, *arguments: object) -> Any:
        done = self.run(*arguments)
        assert done.returncode in (0, 1), done.stderr
        return json.loads(done.stdout)

    def refusal(self, *arguments: object, code: int) -> str:
        done = self.run(*arguments)
        assert done.returncode == code, done
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        return "\n".join(lines).removeprefix("slabyard: ").removeprefix("error: ")


@pytest.fixture(scope="session")
def command() -> Command:
    return Command(os.environ["SLABYARD"])
