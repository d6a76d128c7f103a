"""Sweeps, here or on what a site already runs: a Dask cluster, Ray, or an executor.

Each point of a sweep is a task of its own. A worker plans the same sweep from the same files, so the
traces must be where all workers see them under one path; it refuses to run if the digest of its plan is
another one. What it returns is one line with a checksum. Dask and Ray run the points of a killed worker
again; an executor of processes raises `BrokenProcessPool` instead. The table is that of
`slabyard sweep` whoever replayed what.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ._progress import Bar
from ._slabyard import Error, Plan, Sweep, UsageError

if TYPE_CHECKING:
    from ._slabyard import Key, Progress

#: What a plan is made of: files, axes, machine, and whether impossible points are kept.
_Asked = tuple[tuple[str, ...], tuple[str, ...], str, bool]


def sweep(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    vary: Mapping[str, Key | Iterable[Key]] | Iterable[str],
    *,
    machine: Mapping[str, Key] | None = None,
    keep_impossible: bool = False,
    on: Any = None,
    progress: Progress = None,
) -> Sweep:
    """Replays each trace at each combination of values, as `slabyard sweep` does.

    `vary` is `{"max_order": range(4), "cpus": [16, 64]}` or `["max_order=0..3", "cpus=16,64"]`;
    `machine` holds for all points. `on` is a `distributed.Client`, the module `ray` after `ray.init()`,
    or an executor of `concurrent.futures`; without, all CPUs of this machine work. A point that cannot
    be is an error, unless `keep_impossible` makes it a row that says why.
    """
    names = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    asked: _Asked = (
        tuple(os.path.abspath(name) for name in names),
        tuple(_axes(vary)),
        ",".join(f"{key}={_typed(value)}" for key, value in (machine or {}).items()),
        keep_impossible,
    )
    plan = Plan(*_spread(asked), progress=progress)
    points = range(len(plan.points))
    if on is None:
        return plan.gather(plan.run([*points], progress=progress))
    submitted = _submitted(on, [(asked, plan.digest, point) for point in points])
    lines = []
    with _shown(progress) as show:
        for line in submitted:
            lines.append(line)
            show("replaying", len(lines), len(points))
    return plan.gather(lines)


def run_point(asked: _Asked, digest: str, point: int) -> str:
    """On a worker: replays one point of a sweep."""
    plan = _plan(asked)
    if plan.digest != digest:
        raise Error("this worker's traces, or its version of slabyard, are other ones")
    return plan.run_point(point)


@functools.lru_cache(maxsize=1)
def _plan(asked: _Asked) -> Plan:
    return Plan(*_spread(asked))


def _spread(asked: _Asked) -> tuple[list[str], list[str], str, bool]:
    files, vary, machine, keep_impossible = asked
    return [*files], [*vary], machine, keep_impossible


def _axes(vary: Mapping[str, Any] | Iterable[str]) -> Iterator[str]:
    if not isinstance(vary, Mapping):
        yield from vary
        return
    for key, values in vary.items():
        one = isinstance(values, (str, int, float)) or not isinstance(values, Iterable)
        texts = [_typed(value) for value in ([values] if one else values)]
        # A value that has commas itself is a table of sizes.
        apart = "/" if any(":" in text for text in texts) else ","
        yield f"{key}={apart.join(texts)}"


def _typed(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _submitted(on: Any, tasks: list[tuple[_Asked, str, int]]) -> Iterator[str]:
    """The lines of tasks, each as soon as it is there."""
    if getattr(on, "__name__", None) == "ray":
        return _of_ray(on, tasks)
    if type(on).__module__.partition(".")[0] == "distributed":
        return _of_dask(on, tasks)
    if callable(getattr(on, "submit", None)):
        return _of_executor(on, tasks)
    raise UsageError(
        "on: give a distributed.Client, the module ray, or an executor of concurrent.futures"
    )


def _of_dask(client: Any, tasks: list[tuple[_Asked, str, int]]) -> Iterator[str]:
    import distributed

    as_completed: Any = distributed.as_completed
    futures = [client.submit(run_point, *task, pure=False) for task in tasks]
    try:
        for _, line in as_completed(futures, with_results=True):
            yield line
    finally:
        client.cancel(futures)


def _of_ray(ray: Any, tasks: list[tuple[_Asked, str, int]]) -> Iterator[str]:
    remote = ray.remote(run_point)
    waiting = [remote.remote(*task) for task in tasks]
    try:
        while waiting:
            done, waiting = ray.wait(waiting)
            yield from ray.get(done)
    finally:
        for task in waiting:
            ray.cancel(task)


def _of_executor(executor: Any, tasks: list[tuple[_Asked, str, int]]) -> Iterator[str]:
    from concurrent.futures import as_completed

    futures = [executor.submit(run_point, *task) for task in tasks]
    try:
        for future in as_completed(futures):
            yield future.result()
    finally:
        for future in futures:
            future.cancel()


def _shown(progress: Progress) -> AbstractContextManager[Callable[[str, int, int], object]]:
    """A progress function; our own bar is closed at the end."""
    if progress is True:
        return contextlib.closing(Bar())
    return contextlib.nullcontext(progress if callable(progress) else lambda *_: None)
