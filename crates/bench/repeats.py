#!/usr/bin/env python3
"""How well ratios of times repeat: from what earlier versions of the benchmarks hold.

    crates/bench/repeats.py [REVISION]

Of each version of docs/benchmarks.json up to a revision (the history has some, to 2d53526),
each load and each peer with eight rounds or more, the rounds are parted into two halves at
random, twice. Each way of taking the ratio of ours to the peer's says one for either half;
printed is how far the logarithms of the two lie apart. The first way is that of src/stats.rs.
"""
import json
import math
import random
import statistics
import subprocess
import sys

DATA = "docs/benchmarks.json"
LEAST_ROUNDS = 8


def median_of_ratios(ours, peer):
    return statistics.median(math.log(a / b) for a, b in zip(ours, peer))


def ratio_of_medians(ours, peer):
    return math.log(statistics.median(ours) / statistics.median(peer))


def ratio_of_least(ours, peer):
    return math.log(min(ours) / min(peer))


def mean_of_ratios(ours, peer):
    return statistics.mean(math.log(a / b) for a, b in zip(ours, peer))


WAYS = [median_of_ratios, ratio_of_medians, ratio_of_least, mean_of_ratios]


def git(*words):
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout


def pairs(revision):
    """Wall times of ours and of a peer, by round; and how many versions have some."""
    found, versions = [], 0
    for commit in git("log", "--diff-filter=AM", "--format=%h", revision, "--", DATA).split():
        suites = json.loads(git("show", f"{commit}:{DATA}")).get("suites", {})
        before = len(found)
        for setting in suites.get("compare", {}).get("report", {}).get("settings", []):
            for load in setting["loads"]:
                samples = {name: of["wall_us"] for name, of in load["samples"].items() if of}
                ours = samples.pop("ours", [])
                found += [(ours, peer) for peer in samples.values()
                          if len(peer) == len(ours) >= LEAST_ROUNDS]
        versions += len(found) > before
    return found, versions


def main():
    found, versions = pairs(sys.argv[1] if len(sys.argv) > 1 else "HEAD")
    if not found:
        sys.exit(f"no version of {DATA} has loads with {LEAST_ROUNDS} rounds")
    draw, apart = random.Random(1), {way: [] for way in WAYS}
    for ours, peer in found:
        for _ in range(2):
            rounds = list(range(len(ours)))
            draw.shuffle(rounds)
            half = len(rounds) // 2
            halves = rounds[:half], rounds[half:2 * half]
            for way in WAYS:
                one, other = (way([ours[i] for i in h], [peer[i] for i in h]) for h in halves)
                apart[way].append(abs(one - other))
    print(f"{len(found)} pairs of {versions} versions   root mean square   median")
    for way, values in apart.items():
        square = math.sqrt(statistics.mean(value * value for value in values))
        print(f"{way.__name__:30} {square:18.3f} {statistics.median(values):8.3f}")


main()
