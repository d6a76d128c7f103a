"""What the package says is what the command says."""

import json
import warnings

import polars
import pytest
import slabyard


def test_a_replay_is_the_command_s(guest, guest_file, command) -> None:
    options = ["--release", "6.12", "--cpus", 16, "--set", "max_order=1", "--samples", 20]
    told = command.json("replay", guest_file, *options, "--json")
    ours = guest.replay(release="6.12", cpus=16, max_order=1, samples=20)
    caches = ours.caches.rows()
    assert len(ours) == len(caches)
    assert [row["name"] for row in caches] == [cache["name"] for cache in told["caches"]]
    counters = ours.counters.rows()
    moments = zip(caches, told["caches"], told["before"]["caches"], told["after"]["caches"], counters)
    for row, cache, before, after, counts in moments:
        assert ", ".join(cache.pop("aliases")) == row.pop("aliases")
        assert cache.pop("counters") == {key: n for key, n in counts.items() if key != "name"}
        expected = cache | {
            f"{moment}_{key}": value
            for moment, state in (("before", before), ("after", after))
            for key, value in state.items()
            if key != "name"
        }
        assert row == expected
    totals = ours.totals
    assert totals.pop("before") == told["before"]["totals"]
    assert totals.pop("after") == told["after"]["totals"]
    assert totals == told["totals"]
    assert ours.counts == told["counters"]
    series = told["series"]
    assert ours.samples.rows() == [
        {key: value for key, value in at.items() if key != "caches"} for at in series
    ]
    states = [{"time_ns": at["time_ns"]} | one for at in series for one in at["caches"].values()]
    assert ours.cache_samples.rows() == states


def test_answers_are_the_command_s(guest, guest_file, command) -> None:
    variants = ["max_order=0..1", "cpus=16+possible=512", "memory=1M"]
    options = ["--machine", "release=6.1", "--costs", "table", "--cost", "pages=500"]
    told = command.json("ask", guest_file, *variants, *options, "--json")
    ours = guest.ask(*variants, release="6.1", costs="table", cost={"pages": 500})
    whole = json.loads(ours.to_json())
    assert whole == {key: told[key] for key in whole}
    assert ours.trust == told["trust"] and ours.costs["pages"] == 500
    assert ours.trust_line.startswith("trust: the base's own run is ")
    for row, answer in zip(ours.table.rows(), told["answers"], strict=True):
        memory, places, work = answer["memory"], answer["memory"]["parked_by_place"], answer["work"]
        assert row == {
            "name": answer["name"],
            **{key: answer["changes"].get(key) for key in ("max_order", "cpus", "possible", "memory")},
            **{key: answer[key] for key in ("rules", "calls", "out_of_memory_ns", "is_base")},
            **{key: answer[key] for key in ("live_differs", "unlike", "gone")},
            "changed": ", ".join(answer["changed"]),
            "saved_bytes": answer["saved"],
            **{f"{key}_bytes": memory[key] for key in ("peak", "mean", "end", "untouched", "live_end")},
            **{f"{key}_mean_bytes": memory[key] for key in ("live", "free_partial", "parked")},
            **{f"{key}_mean_bytes": places[key] for key in places},
            "partial_slabs_end": memory["partial_slabs"],
            **{f"{key}_per_million": work[key] for key in work if key != "ns"},
            "ns_per_call": work["ns"],
            "error_low": answer["error"] and answer["error"][0],
            "error_high": answer["error"] and answer["error"][1],
            **{key: None for key in WAITS},
        }


WAITS = [
    "waits_cpus",
    "list_locks_waited",
    "barn_locks_waited",
    "exchanges_failed",
    "exchanges_under_list_lock_per_million",
    "waiting",
    "longest_wait_ns",
    "ns_per_call_with_waits",
]


def test_waits_are_the_command_s(guest, guest_file, command) -> None:
    options = ["--machine", "release=6.1", "--costs", "table", "--contention=8", "--no-check"]
    told = command.json("ask", guest_file, *options, "--json")["answers"][0]["waits"]
    ours = guest.ask(release="6.1", costs="table", contention=8, check=False)
    row = ours.table.rows()[0]
    assert ours.trust is None and ours.trust_line is None
    assert row["waits_cpus"] == told["cpus"] == 8
    assert row["ns_per_call_with_waits"] == told["ns"] > row["ns_per_call"]
    under = told["exchanges_under_list_lock"]
    assert row["exchanges_under_list_lock_per_million"] == under
    assert row["longest_wait_ns"] == told["longest_wait_ns"]
    for key in ("list_locks_waited", "barn_locks_waited", "exchanges_failed", "waiting"):
        assert row[key] == told[key]


def test_geometry_is_the_command_s(command) -> None:
    told = command.json(
        "geometry", "--release", "5.9", "--page-size", "64k", "--cpus", 64, 192, "9856", "--json"
    )
    ours = slabyard.geometry(192, "9856", release="5.9", page="64k", cpus=64)
    assert ours.rows() == told
    assert (told[1]["objs_per_slab"], told[1]["order"]) == (53, 3)
    slab = ["geometry", "--engine", "slab", "--release", "6.1", "--cpus", 4, "--json"]
    assert slabyard.geometry(engine="slab", release="6.1", cpus=4).rows() == command.json(*slab)


def test_a_list_is_the_command_s(guest, guest_file, command, tmp_path) -> None:
    saved = tmp_path / "end.json.zst"
    command.run("replay", guest_file, "--save", saved)
    told = command.json("list", saved, "--json")
    ours = slabyard.snapshot(saved)
    assert len(ours) == len(told["caches"]) > 20
    assert bounded(ours, told) == set()
    again = tmp_path / "again.json"
    ours.save(again)
    assert slabyard.list(again).rows() == ours.caches.rows()


GUESTS = "crates/lab/tests/data/guests/6.12.json.zst#4.boot"


def test_boots_are_the_command_s(root, command) -> None:
    guest = f"{root}/{GUESTS}"
    options = ["--set", "max_order=0..1", "--cpus", "4,16", "--release", "6.12"]
    told = command.json("boot", guest, *options, "--json")
    ours = slabyard.boot(guest, release="6.12", cpus=[4, 16], max_order=range(2))
    assert json.loads(ours.to_json()) == told
    rows = ours.table.rows()
    assert len(ours) == len(rows) == 5 and rows[0]["name"] == "base" and rows[0]["cpus"] is None
    assert [row["max_order"] for row in rows[1:]] == ["0", "1", "0", "1"]
    for row, side in zip(rows, [told["before"], *told["variants"]], strict=True):
        assert row["bytes"] == side["totals"]["bytes"] and row["slabs"] == side["totals"]["slabs"]
        assert row["least_bytes"] == side["totals"]["least_bytes"]
        assert row["present_cpus"] == side["present_cpus"] and row["rules"] == side["release"]
        of_it = [{**cache, "variant": row["name"]} for cache in side["caches"]]
        assert [cache for cache in ours.caches.rows() if cache["variant"] == row["name"]] == of_it
        orders = [{**order, "variant": row["name"]} for order in side["orders"]]
        assert [order for order in ours.orders.rows() if order["variant"] == row["name"]] == orders
    errors = [error for side in told["variants"] for error in side["error_to_expect"]]
    assert [{**row, "variant": None} for row in ours.errors.rows()] == [
        {**error, "variant": None} for error in errors
    ]
    one = json.loads(slabyard.boot(guest, max_order=0).to_json())
    assert one == command.json("boot", guest, "--set", "max_order=0", "--json")


def test_a_boot_that_cannot_be_is_a_usage_error(root, command) -> None:
    guest = f"{root}/{GUESTS}"
    for keys, says in [
        ({"engine": "slab"}, "replay a trace"),
        ({"tasks": 2}, "tasks changes no boot"),
        ({"no_such_key": 1}, "no_such_key"),
        ({"max_order": []}, "empty"),
        ({"max_order": range(99), "cpus": range(1, 99)}, "more than 1000 rows"),
    ]:
        with pytest.raises(slabyard.UsageError, match=says):
            slabyard.boot(guest, **keys)
    with pytest.raises(slabyard.UsageError) as raised:
        slabyard.boot(guest, max_order=99)
    assert str(raised.value) in command.refusal("boot", guest, "--set", "max_order=99", code=2)


def test_reproduced_tables_are_the_command_s(command) -> None:
    told = command.json("reproduce", "64k.max_order", "slob", "--json")
    ours = slabyard.reproduce("64k.max_order", "slob")
    expected = []
    for thread in told["threads"]:
        for table in thread["tables"]:
            for row in table["rows"]:
                near = row.pop("near") or {"holds": None, "tolerance": None, "why": None}
                basis = row.pop("basis")
                expected.append(
                    {"thread": thread["name"], "table": table["name"], **row}
                    | {"basis": basis["kind"], "basis_of": basis["of"]}
                    | {"is_near": near["holds"], "tolerance": near["tolerance"], "why": near["why"]}
                )
    assert ours.rows() == expected and len(expected) > 30
    with pytest.raises(slabyard.UsageError) as raised:
        slabyard.reproduce("64k.nothing")
    assert str(raised.value) in command.refusal("reproduce", "64k.nothing", code=2)
    real = slabyard.reproduce("reap.real").rows()
    assert all(row["missing"].startswith("not here: ") for row in real if row["basis"] == "real")


def test_a_tuned_setting_is_the_command_s(guest_file, command) -> None:
    machine = ["--machine", "cpus=64,possible=512"]
    told = command.json("tune", guest_file, *machine, "--json")
    ours = slabyard.tune(guest_file, cpus=64, possible=512)
    assert json.loads(ours.to_json()) == told
    assert ours.recommended == told["recommended"] is not None and ours.refused is None
    assert ours.apply == told["apply"] and ours.single_caches == told["single_caches"]
    assert ours.table.rows() == [{"name": it["name"], **it["score"]} for it in told["front"]]
    assert ours.judges.rows() == told["judges"]
    with pytest.raises(slabyard.UsageError) as raised:
        slabyard.tune([guest_file], max_order=99)
    refused = command.refusal("tune", guest_file, "--machine", "max_order=99", code=2)
    assert str(raised.value) in refused
    with pytest.raises(slabyard.UsageError, match="one trace or more"):
        slabyard.tune([])


def bounded(ours: slabyard.Snapshot, told) -> set[str]:
    """Holds a snapshot against the command's list; the fields that are only bounded there."""
    found = set()
    for row, cache in zip(ours.caches.rows(), told["caches"], strict=True):
        assert ", ".join(cache.pop("aliases")) == row["other_names"]
        for key, value in cache.items():
            if isinstance(value, list):
                found.add(key)
                assert row[key] is None
                assert [row[f"{key}_low"], row[f"{key}_high"]] == value
            else:
                assert row[key] == value, key
                assert row.get(f"{key}_low", value) == row.get(f"{key}_high", value) == value
    assert ours.totals == told["totals"]
    return found


def test_bounds_are_the_command_s(guest_file, command, tmp_path) -> None:
    """Of a kernel, and as a process's numbers are that move while they are read."""
    start = guest_file.with_suffix(".before.json.zst")
    of_kernel = bounded(slabyard.snapshot(start), command.json("list", start, "--json"))
    assert of_kernel == {"live", "live_bytes", "used", "parked", "parked_cpu"}
    saved = tmp_path / "end.json"
    command.run("replay", guest_file, "--save", saved)
    snapshot = json.loads(saved.read_text())
    moving = ["slabs", "partial", "empty", "objects", "total_objects", "bytes", "live", "parked_node"]
    moving += ["free_partial", "in_transit", "cpu_slabs"]
    for cache in snapshot["caches"]:
        for name in moving:
            reading = cache["readings"][name]
            reading["value"] = [reading["value"], reading["value"] + 1]
    saved.write_text(json.dumps(snapshot))
    assert bounded(slabyard.snapshot(saved), command.json("list", saved, "--json")) > {*moving}


def test_a_live_source_is_listed(command) -> None:
    """The running kernel, as far as it lets us; else the command's words."""
    done = command.run("list", "kernel", "--json")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", slabyard.Note)
        if done.returncode == 0:
            frame = polars.DataFrame(slabyard.list())
            assert frame.height > 10
            assert (frame["live_low"] <= frame["live_high"]).all()
        else:
            with pytest.raises(slabyard.Error) as raised:
                slabyard.list()
            assert done.stderr.strip().endswith(str(raised.value))


def test_errors_have_the_command_s_words(guest, guest_file, command, tmp_path) -> None:
    trace = guest_file
    missing = tmp_path / "missing.slabtrace"
    damaged = tmp_path / "damaged.slabtrace"
    damaged.write_bytes(trace.read_bytes()[:-900])
    start = trace.with_suffix(".before.json.zst")
    cases = [
        (slabyard.Error, 3, lambda: slabyard.open(missing), ["replay", missing]),
        (slabyard.Error, 3, lambda: slabyard.open(damaged, start=start), ["replay", damaged, "--start", start]),
        (
            slabyard.UsageError,
            2,
            lambda: guest.replay(max_order=99),
            ["replay", trace, "--set", "max_order=99"],
        ),
        (
            slabyard.UsageError,
            2,
            lambda: guest.replay(no_such_key=1),
            ["replay", trace, "--set", "no_such_key=1"],
        ),
        (
            slabyard.UsageError,
            2,
            lambda: slabyard.geometry(192, release="6.12", freezing="eager"),
            ["geometry", 192, "--release", "6.12", "--set", "freezing=eager"],
        ),
        (slabyard.Error, 3, lambda: slabyard.list(missing), ["list", missing]),
    ]
    for kind, code, asked, arguments in cases:
        with pytest.raises(slabyard.Error) as raised:
            asked()
        assert type(raised.value) is kind
        assert str(raised.value) in command.refusal(*arguments, code=code)


def test_a_value_that_no_key_takes_is_a_usage_error(guest) -> None:
    for keys, says in [
        ({"cpus": -1}, "cpus takes a number"),
        ({"page": "x"}, "page takes 4k to 64k"),
        ({"memory": "0"}, "memory takes bytes"),
    ]:
        with pytest.raises(slabyard.UsageError, match=says):
            guest.replay(**keys)
    with pytest.raises(slabyard.UsageError, match="change no geometry"):
        slabyard.geometry(192, release="6.12", tasks=2)


def test_a_wrong_variant_is_a_usage_error(guest, guest_file, command) -> None:
    for variant in ["max_order", "max_order=3..0", "max_order=99", "no_such_key=1"]:
        with pytest.raises(slabyard.UsageError) as raised:
            guest.ask(variant)
        assert str(raised.value) in command.refusal("ask", guest_file, variant, code=2)
    with pytest.raises(slabyard.UsageError, match="a variant is a text"):
        guest.ask({"max_order": 1})
    with pytest.raises(slabyard.UsageError, match='"measured" or "table"'):
        guest.ask(costs="guessed")


def test_notes_are_warnings(traces) -> None:
    with pytest.warns(slabyard.Note, match="kernel 9.9 follows the preset"):
        slabyard.geometry(192, release="9.9", cpus=4)


def test_a_note_names_the_line_that_called(guest_file) -> None:
    """Else Python says it once a session, whichever traces it is of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        slabyard.open(guest_file)
        slabyard.replay(guest_file)
        slabyard.Trace(guest_file)
    assert {note.filename for note in caught} == {__file__}
    of_file = [note for note in caught if "found beside the trace" in str(note.message)]
    assert len({note.lineno for note in of_file}) == len(of_file) == 3
