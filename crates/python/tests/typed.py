"""Checked by mypy in `ci/python`, never run."""

import slabyard
from typing_extensions import assert_type

trace = slabyard.open("load.slabtrace", progress=lambda stage, done, total: print(stage, done, total))
assert_type(trace, slabyard.Trace)
assert_type(trace.replay(max_order=1, samples=10).caches, slabyard.Table)
assert_type(slabyard.list(4711), slabyard.Table)
assert_type(slabyard.geometry(192, "4k", page="64k").column_names, list[str])
trace.replay(samples="many")  # type: ignore[arg-type]
assert_type(slabyard.sweep("load.slabtrace", {"max_order": range(4), "release": ["6.12"]}), slabyard.Sweep)
assert_type(slabyard.boot("boot.json", max_order=range(4), cpus=16).caches, slabyard.Table)
assert_type(slabyard.tune("load.slabtrace", page="64k").recommended, str | None)
assert_type(slabyard.reproduce("64k.boot"), slabyard.Table)
slabyard.sweep("load.slabtrace")  # type: ignore[call-arg]
