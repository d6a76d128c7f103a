"""A sweep's table is that of `slabyard sweep`, byte for byte, whoever replays its points."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import polars
import pytest
import slabyard

VARY = {"max_order": range(4), "cpus": [4, 16]}
AXES = ["--vary", "max_order=0..3", "--vary", "cpus=4,16"]
FORMATS = ["csv", "json", "parquet"]


@pytest.fixture(scope="module")
def told(guest_file, command, tmp_path_factory) -> dict[str, bytes]:
    """What the command writes, by format."""
    directory = tmp_path_factory.mktemp("told")
    files = {format: directory / f"out.{format}" for format in FORMATS}
    for file in files.values():
        done = command.run("sweep", guest_file, *AXES, "-o", file)
        assert done.returncode == 0, done.stderr
    return {format: file.read_bytes() for format, file in files.items()}


def written(swept: slabyard.Sweep, directory) -> dict[str, bytes]:
    files = {format: directory / f"out.{format}" for format in FORMATS}
    for file in files.values():
        swept.write(file)
    return {format: file.read_bytes() for format, file in files.items()}


def test_here(guest_file, told, tmp_path) -> None:
    seen = []
    swept = slabyard.sweep(guest_file, VARY, progress=lambda *told: seen.append(told))
    assert written(swept, tmp_path) == told
    assert [done for stage, done, total in seen if total == 8][-1] == 8
    frame = polars.DataFrame(swept)
    assert frame["max_order"].to_list() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert frame.equals(polars.read_parquet(tmp_path / "out.parquet"))


def test_on_an_executor(guest_file, told, tmp_path) -> None:
    with ThreadPoolExecutor(2) as executor:
        swept = slabyard.sweep(guest_file, ["max_order=0..3", "cpus=4,16"], on=executor)
    assert written(swept, tmp_path) == told


def test_on_dask_with_a_killed_worker(guest_file, told, tmp_path) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, dashboard_address=None, silence_logs=50
    ) as cluster, distributed.Client(cluster) as client:
        pids = client.run(os.getpid)
        assert len(set(pids.values())) == 3
        killed = []

        def kill_one(stage: str, done: int, total: int) -> None:
            if done == 1 and total == 8 and not killed:
                killed.append(next(iter(pids.values())))
                os.kill(killed[0], signal.SIGKILL)

        swept = slabyard.sweep(guest_file, VARY, on=client, progress=kill_one)
        assert killed
        assert written(swept, tmp_path) == told


def test_duckdb_joins_shards(guest_file, command, tmp_path) -> None:
    """What DuckDB makes of the shards is what `sweep join` makes of them, value by value."""
    duckdb = pytest.importorskip("duckdb")
    parts = [str(tmp_path / f"part-{nth}.parquet") for nth in (1, 2, 3)]
    for nth, part in enumerate(parts, 1):
        done = command.run("sweep", guest_file, *AXES, "--shard", f"{nth}/3", "-o", part)
        assert done.returncode == 0, done.stderr
    joined = tmp_path / "joined.parquet"
    assert command.run("sweep", "join", *parts, "-o", joined).returncode == 0
    asked = duckdb.sql(f"SELECT * FROM read_parquet({parts}) ORDER BY point")
    told = polars.read_parquet(joined)
    assert asked.columns == told.columns
    assert asked.fetchall() == told.rows() and len(told) == 8


def test_on_ray(guest_file, told, tmp_path) -> None:
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        assert written(slabyard.sweep(guest_file, VARY, on=ray), tmp_path) == told
    finally:
        ray.shutdown()


def test_a_row_of_another_sweep_is_refused(guest_file) -> None:
    from slabyard._slabyard import Plan

    plan, other = (Plan([str(guest_file)], [axis], "", False) for axis in ("cpus=4", "cpus=8"))
    line = plan.run_point(0)
    assert len(plan.gather([line])) == 1
    with pytest.raises(slabyard.Error, match="another sweep"):
        other.gather([line])
    with pytest.raises(slabyard.Error, match="no row, or two"):
        plan.gather([line, line])
    with pytest.raises(slabyard.Error):
        plan.gather([line.replace("4", "5", 1)])


def test_nonsense_is_a_usage_error(guest_file, tmp_path) -> None:
    for vary, on, says in [
        ({"no_such_key": 1}, None, "no_such_key"),
        ({"max_order": []}, None, "empty"),
        ({"cpus": range(2000), "max_order": range(2000)}, None, "vary less"),
        ({"max_order": 1}, "a cluster", "distributed.Client"),
    ]:
        with pytest.raises(slabyard.UsageError, match=says):
            slabyard.sweep(guest_file, vary, on=on)
    swept = slabyard.sweep(guest_file, {"max_order": 1})
    with pytest.raises(slabyard.UsageError, match=".csv, .json or .parquet"):
        swept.write(tmp_path / "out.xlsx")
