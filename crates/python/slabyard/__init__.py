"""The Linux kernel's slab allocators, asked from Python.

Open a trace of a real kernel, replay it by other rules and on other machines, ask what variants would
take, and read slab memory of the running kernel or of a process. Results are Arrow tables: Polars,
pandas, pyarrow and DuckDB take them as they are.

    >>> import polars, slabyard
    >>> trace = slabyard.open("hackbench.slabtrace")
    >>> answers = trace.ask("max_order=0..3", page="64k", cpus=64)
    >>> polars.DataFrame(answers).select("name", "peak_bytes", "list_locks_per_million")
    >>> print(answers.trust_line)

Keys (`max_order`, `cpus`, `release`, ...) are those of `slabyard ask --help`. What the command says on
standard error is a warning of the class `Note` here; what ends it is an exception, `UsageError` or
`Error`, with the command's words. A function that may take long has `progress`: `True` shows a bar, and
a function is called with a stage, what is done of it, and how much there is (0 if that is not known).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from ._cluster import _axes, sweep
from ._slabyard import (
    Answers,
    Boot,
    Error,
    Note,
    Replay,
    Snapshot,
    Sweep,
    Table,
    Trace,
    Tune,
    UsageError,
    __version__,
    geometry,
    reproduce,
    snapshot,
)
from ._slabyard import boot as _boot
from ._slabyard import tune as _tune

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ._slabyard import Key, Progress

__all__ = [
    "Answers",
    "Boot",
    "Error",
    "Note",
    "Replay",
    "Snapshot",
    "Sweep",
    "Table",
    "Trace",
    "Tune",
    "UsageError",
    "__version__",
    "ask",
    "boot",
    "geometry",
    "list",
    "open",
    "replay",
    "reproduce",
    "snapshot",
    "sweep",
    "tune",
]


def open(
    file: str | os.PathLike[str],
    *,
    start: str | os.PathLike[str] | None = None,
    dump: str | None = None,
    no_lists: bool = False,
    partial: bool = False,
    progress: Progress = None,
) -> Trace:
    """Reads a trace, and the snapshot that it begins with.

    `start` is the snapshot taken just before the trace, if it is neither in the trace nor beside it;
    `dump` picks one of several in its file. `no_lists` begins as if no lists had been read out of the
    kernel, and `partial` takes what is left of a damaged trace.
    """
    return Trace(
        file, start=start, dump=dump, no_lists=no_lists, partial=partial, progress=progress
    )


def replay(
    trace: Trace | str | os.PathLike[str],
    *,
    samples: int = 0,
    progress: Progress = None,
    **keys: Key,
) -> Replay:
    """Replays a trace once, by the rules and on the machine that `keys` name.

    What is not named is the traced kernel's. With `samples` the result has about so many samples over
    time.
    """
    opened = trace if isinstance(trace, Trace) else open(trace, progress=progress)
    return opened.replay(samples=samples, progress=progress, **keys)


def ask(
    trace: Trace | str | os.PathLike[str],
    *variants: str,
    costs: Literal["measured", "table"] = "measured",
    cost: dict[str, int] | None = None,
    contention: int | None = None,
    check: bool = True,
    progress: Progress = None,
    **keys: Key,
) -> Answers:
    """Answers what a load takes with each of the variants, such as `"max_order=0..3"`.

    `keys` hold in each row, the base's too. `costs` of operations are `"measured"` on this machine or
    those of the lab's `"table"`, with those of `cost` (nanoseconds) in place. `contention` lets so many
    CPUs overlap in time. Without `check` the trace's own run is not checked, and `trust` is `None`.
    """
    opened = trace if isinstance(trace, Trace) else open(trace, progress=progress)
    return opened.ask(
        *variants,
        costs=costs,
        cost=cost,
        contention=contention,
        check=check,
        progress=progress,
        **keys,
    )


def boot(
    snapshot: str | os.PathLike[str],
    *,
    shrunk: str | os.PathLike[str] | None = None,
    progress: Progress = None,
    **keys: Key | Iterable[Key],
) -> Boot:
    """Foretells what a kernel's slabs would use after boot, from a snapshot alone, as `slabyard boot` does.

    `snapshot` is a file (`"FILE#DUMP"` if it holds several) or the running `"kernel"`; `shrunk` is another
    of the same boot, taken just after a shrink, which counts live objects exactly. A key takes one value or
    several, as in `boot("boot.json", max_order=range(4), cpus=[16, 64])`; all combinations are rows. The
    result has the totals of each, its `caches` and `orders`, and the `errors` to expect.
    """
    return _boot(snapshot, [*_axes(keys)], shrunk=shrunk, progress=progress)


def tune(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    progress: Progress = None,
    **keys: Key,
) -> Tune:
    """Finds settings on the front of memory against slow-path work for the loads of traces.

    What is `recommended` held on loads that took no part in the search: each of several traces judges what
    is best for the others, and one trace is cut into halves by time. `apply` says how a kernel is given it.
    `keys` hold for all, as in `tune("load.slabtrace", page="64k", cpus=64)`.
    """
    names = [files] if isinstance(files, (str, os.PathLike)) else [*files]
    return _tune(names, progress=progress, **keys)


def list(source: str | int | os.PathLike[str] = "kernel") -> Table:
    """The caches of the running `"kernel"`, of a process by its id, or of a snapshot's or core's file.

    A row has all fields that `slabyard list --help` names. Some are only bounded, by a kernel or because
    they moved while they were read: then the field is null, and both ends are in `..._low` and
    `..._high`, which are the number itself where it is exact.
    """
    return snapshot(source).caches
