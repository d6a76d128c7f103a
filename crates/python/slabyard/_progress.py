"""A bar for `progress=True`: of tqdm where it is installed, in a notebook too, else a line of text."""

from __future__ import annotations

import sys
from typing import Any


class Bar:
    """Shows a stage, and how much of it is done; gone when it is closed."""

    def __init__(self) -> None:
        self._bar: Any = None
        try:
            from tqdm.auto import tqdm
        except ImportError:
            self._tqdm: Any = None
        else:
            self._tqdm = tqdm

    def __call__(self, stage: str, done: int, total: int) -> None:
        if self._tqdm is None:
            part = f", {done} of {total} done" if total else ""
            sys.stderr.write(f"\r\x1b[K{stage}{part} ...")
            sys.stderr.flush()
            return
        if self._bar is None:
            self._bar = self._tqdm(leave=False)
        self._bar.set_description(stage, refresh=False)
        self._bar.total = total or None
        self._bar.n = done
        self._bar.refresh()

    def close(self) -> None:
        """Takes the bar away."""
        if self._bar is not None:
            self._bar.close()
        elif self._tqdm is None:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
