"""Judges what the commands printed, for ci/observe.

    judge.py RULE ARGUMENT...

Says what is wrong, a line each, and exits 1 if anything is. Names are those of
docs/formats.md, sums those of docs/counters.md. The rules are the functions
below that are named in RULES.
"""

import concurrent.futures
import csv
import json
import re
import subprocess
import sys

# The places of memory that add up to `committed`.
PARTS = ("live parked_cpu parked_node in_transit free_partial padding runs mapped "
         "parked_pages free_runs metadata").split()
# The places of a cache's objects that add up to `total_objects`.
PLACES = "live parked_cpu parked_node in_transit free_partial".split()
# What a core file does not tell, and what no two looks share.
RESIDENT_OF = ("allocator", "files", "stack", "brk", "other")
NOT_IN_A_CORE = {"resident", *(f"resident_{part}" for part in RESIDENT_OF)}

wrong = []


def complain(text):
    wrong.append(text)


def expect(what, found, wanted):
    if found != wanted:
        complain(f"{what} is {found!r}, not {wanted!r}")


def load(path):
    with open(path) as file:
        return json.load(file)


def number(text):
    return json.loads(text)


def low(value):
    return value[0] if isinstance(value, list) else value


def high(value):
    return value[1] if isinstance(value, list) else value


def by_name(look):
    return {cache["name"]: cache for cache in look["caches"]}


def exact(what, values, names):
    """True if each of them is one whole number."""
    inexact = [name for name in names if type(values.get(name)) is not int]
    for name in inexact:
        complain(f"{what}: {name} is {values.get(name)!r}, not exact")
    return not inexact


def identity(path):
    """Of a process that stands still each place is exact, and places add up."""
    look = load(path)
    totals = look["totals"]
    if exact("totals", totals, PARTS + ["committed", "returned"]):
        expect("the sum of the parts", sum(totals[part] for part in PARTS), totals["committed"])
    if not any(cache["live"] for cache in look["caches"]):
        complain("no cache has a live object")
    of_all = dict.fromkeys(PLACES, 0)
    for cache in look["caches"]:
        name = cache["name"]
        if not exact(name, cache, PLACES + ["total_objects", "slabs", "objs_per_slab", "bytes"]):
            continue
        expect(f"{name}: the sum of the places", sum(cache[place] for place in PLACES),
               cache["total_objects"])
        expect(f"{name}: slabs times objs_per_slab", cache["slabs"] * cache["objs_per_slab"],
               cache["total_objects"])
        expect(f"{name}: partial and full slabs", cache["partial"] + cache["full"], cache["slabs"])
        for place in PLACES:
            of_all[place] += cache[place] * cache["slab_size"]
    for place in PLACES:
        expect(f"{place} of all caches", of_all[place], totals[place])


def nothing_parked(path):
    """An engine without sheaves hands out and takes back, and keeps nothing."""
    totals = load(path)["totals"]
    expect("bytes parked for CPUs", totals["parked_cpu"], 0)
    expect("bytes parked in barns", totals["parked_node"], 0)


def same(old, new, but=()):
    """Two looks tell the same of every cache and of the whole."""
    a, b = load(old), load(new)
    expect("names of caches", [cache["name"] for cache in b["caches"]],
           [cache["name"] for cache in a["caches"]])
    for x, y in zip(a["caches"], b["caches"]):
        for key in sorted(x.keys() | y.keys()):
            expect(f"{x['name']}: {key}", y.get(key), x.get(key))
    for key in sorted(a["totals"].keys() | b["totals"].keys()):
        if key not in but:
            expect(key, b["totals"].get(key), a["totals"].get(key))


def same_core(process, core):
    same(process, core, NOT_IN_A_CORE)
    expect("kind", load(core)["source"]["kind"], "core")
    expect("pid", load(core)["source"]["pid"], load(process)["source"]["pid"])


def shown(path, name, look):
    """`show` of one cache of a process that stands still: it is that of the
    list, and its slabs one by one are as many as are counted, as full."""
    one, listed = load(path)["cache"], by_name(load(look))[name]
    for key, value in listed.items():
        expect(key, one.get(key), value)
    slabs, fullness = one["partial_slabs"], one["fullness"]
    expect("partial slabs one by one", len(slabs), one["partial"])
    expect("empty slabs", fullness["empty"], one["empty"])
    expect("slabs in tenths", sum(fullness["tenths"]) + fullness["empty"], one["partial"])
    expect("free objects in slabs",
           sum(slab["objects"] - slab["inuse"] for slab in slabs), one["free_partial"])
    expect("parked for CPUs",
           sum(cpu.get("parked_cpu", 0) for cpu in one["cpus"].values()), one["parked_cpu"])


def shrunk(path):
    """Bytes came back, slabs of some cache fell, and nothing failed."""
    done = load(path)
    expect("failed", done["failed"], [])
    if not done["bytes_returned"] > 0:
        complain("no bytes came back")
    fell = [c for c in done["caches"] if high(c["slabs"]["after"]) < low(c["slabs"]["before"])]
    if not fell:
        complain("the slabs of no cache fell")
    returned = done["totals"]["returned"]
    if not high(returned["before"]) < low(returned["after"]):
        complain(f"returned memory did not grow: {returned}")


def nothing_shrunk(path):
    """Every cache was asked, and none had parked objects that it could give back."""
    done = load(path)
    expect("failed", done["failed"], [])
    if not done["caches_shrunk"] > 0:
        complain("no cache was asked")
    for place in ["parked_cpu", "parked_node"]:
        expect(place, high(done["totals"][place]["before"]), 0)


def exact_after(path, name):
    """Of the one cache of a kernel that was shrunk nothing is parked any more."""
    done = load(path)
    expect("failed", done["failed"], [])
    expect("caches", list(by_name(done)), [name])
    for cache in done["caches"]:
        exact(name, cache, ["live"])
        expect("parked", cache["parked"]["after"], 0)
        if cache["slabs"]["after"] > cache["slabs"]["before"]:
            complain(f"more slabs than before: {cache['slabs']}")


def field(path, cache, name, wanted):
    """A field of a cache, or a total of the `yard`, is this."""
    look = load(path)
    values = look["totals"] if cache == "yard" else by_name(look)[cache]
    expect(f"{cache}: {name}", values[name], number(wanted))


def fewer_slabs(path, cache, than):
    before, now = by_name(load(than))[cache]["slabs"], by_name(load(path))[cache]["slabs"]
    if not high(now) < low(before):
        complain(f"{cache}: {now} slabs, and there were {before}")


def many_slabs(path, cache, wanted):
    found = by_name(load(path)).get(cache, {"slabs": 0})["slabs"]
    if low(found) < number(wanted):
        complain(f"{cache}: {found} slabs, not {wanted} or more")


def difference(path, cache, wanted):
    """Live objects of this cache alone are different, by this number exactly."""
    diff, wanted = load(path), number(wanted)
    found = {c["name"]: c["fields"]["live"]["difference"] for c in diff["caches"]}
    expect("the difference of live objects", found, {cache: wanted})


def table(path, look):
    """A CSV reader finds the heading, and a line for each cache of a look."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file, restkey="too many", restval="too few", strict=True))
    expect("names", sorted(row["name"] for row in rows), sorted(by_name(load(look))))
    for row in rows:
        for key, text in row.items():
            if key != "name" and not re.fullmatch(r"(\d+(\.\d+)?(\.\.\d+(\.\d+)?)?)?", str(text)):
                complain(f"{row['name']}: {key} is {text!r}")


def series(path):
    """A parser of OpenMetrics takes it, or at least our own grammar of it."""
    with open(path, newline="") as file:
        text = file.read()
    try:
        from prometheus_client.openmetrics.parser import text_string_to_metric_families
    except ImportError:
        names = series_by_hand(text)
    else:
        try:
            families = list(text_string_to_metric_families(text))
        except ValueError as error:
            complain(f"the parser says: {error}")
            return
        names = {sample.name for family in families for sample in family.samples}
    for name in ("slabyard_cache_live_objects", "slabyard_cache_bytes", "slabyard_caches"):
        if name not in names:
            complain(f"no sample of {name}")


def series_by_hand(text):
    """Families of gauges, each with its heading once before its samples."""
    lines = text.split("\n")
    expect("the end", lines[-2:], ["# EOF", ""])
    family, headed, names, seen = None, set(), set(), set()
    for line in lines[:-2]:
        heading = re.fullmatch(r"# (HELP|TYPE|UNIT) ([a-z_]+) (.+)", line)
        sample = re.fullmatch(
            r'([a-z_]+)(\{[a-z]+="[^"\\\n]*"(?:,[a-z]+="[^"\\\n]*")*\})? (\d+)', line)
        if heading:
            kind, name, value = heading.groups()
            if name != family and name in headed:
                complain(f"a second heading of {name}")
            family = name
            headed.add(name)
            if kind == "TYPE":
                expect(f"type of {name}", value, "gauge")
            if kind == "UNIT" and not name.endswith("_" + value):
                complain(f"{name} does not end with its unit, {value}")
        elif sample:
            expect("the family of a sample", sample[1], family)
            if (sample[1], sample[2]) in seen:
                complain(f"twice: {line}")
            seen.add((sample[1], sample[2]))
            names.add(sample[1])
        else:
            complain(f"not a line of OpenMetrics: {line!r}")
    return names


def watch(readings, look, *command):
    """Runs a command that lists the kernel, and reads slabinfo before, meanwhile
    and after. Nothing is written before the end: files would take objects."""
    texts = []

    def read():
        with open("/proc/slabinfo") as file:
            texts.append(file.read())

    read()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            printed = pool.submit(child.stdout.read)
            while not printed.done():
                read()
    read()
    expect("exit code", child.returncode, 0)
    with open(readings, "w") as file:
        file.write("".join(texts))
    with open(look, "wb") as file:
        file.write(printed.result())


def slabinfo(path):
    """Each reading: the numbers of each cache."""
    names = "active_objs num_objs objsize objperslab pagesperslab".split()
    found = []
    with open(path) as file:
        for line in file:
            if line.startswith("slabinfo"):
                found.append({})
            elif not line.startswith("#"):
                row = line.split()
                found[-1][row[0]] = dict(zip(names, map(int, row[1:6]))) | {
                    "num_slabs": int(row[14])}
    return found


def geometry(readings, look):
    """Every cache of slabinfo is in the list, and no other, and each geometry
    is the same."""
    info, look = slabinfo(readings)[0], load(look)
    caches, page = by_name(look), look["machine"]["page_bytes"]
    expect("names of caches", sorted(caches), sorted(info))
    for name, row in info.items():
        if cache := caches.get(name):
            expect(f"{name}: slab_size", cache["slab_size"], row["objsize"])
            expect(f"{name}: objs_per_slab", cache["objs_per_slab"], row["objperslab"])
            expect(f"{name}: pages of a slab", 1 << cache["order"], row["pagesperslab"])
            expect(f"{name}: bytes", cache["bytes"], cache["slabs"] * row["pagesperslab"] * page)


def between(*paths):
    """Counts lie within what slabinfo said before, meanwhile and after, in one of
    several tries: READINGS LOOK, again and again. A cache may move there and back
    between two readings."""
    outside = None
    for readings, look in zip(paths[::2], paths[1::2]):
        readings, caches = slabinfo(readings), by_name(load(look))
        now = {}
        for name in readings[0]:
            if name not in caches:
                now[name, ""] = f"no cache {name}"
                continue
            for ours, theirs in (("objects", "active_objs"), ("total_objects", "num_objs"),
                                 ("slabs", "num_slabs")):
                values = [reading[name][theirs] for reading in readings if name in reading]
                if not min(values) <= caches[name][ours] <= max(values):
                    now[name, ours] = (f"{name}: {ours} {caches[name][ours]} is not in "
                                       f"{min(values)} to {max(values)}")
        outside = now if outside is None else {k: now[k] for k in outside.keys() & now.keys()}
    for text in outside.values():
        complain(text)


def quiet(readings, look):
    """Prints the smallest cache that is in use and did not move."""
    first, *others = slabinfo(readings)
    caches = by_name(load(look))
    still = [name for name in first if all(first[name] == other.get(name) for other in others)
             and caches[name]["slabs"] and not caches[name]["aliases"]
             and not name.startswith("kmalloc")]
    if not still:
        complain("every cache moves")
        return
    print(min(still, key=lambda name: caches[name]["bytes"]))


def plant(source, target, where, change):
    """Writes a copy in which the number at `where` (keys, apart by `/`; an
    index or a name for a cache) is larger by `change`."""
    look = load(source)
    *way, last = where.split("/")
    at = look
    for key in way:
        at = by_name({"caches": at})[key] if isinstance(at, list) else at[key]
    at[last] += number(change)
    with open(target, "w") as file:
        json.dump(look, file)


RULES = (identity, nothing_parked, same, same_core, shown, shrunk, nothing_shrunk, exact_after, field,
         fewer_slabs, many_slabs, difference, table, series, watch, geometry, between, quiet, plant)

{rule.__name__: rule for rule in RULES}[sys.argv[1]](*sys.argv[2:])
for text in wrong[:20]:
    print(text)
sys.exit(bool(wrong))
