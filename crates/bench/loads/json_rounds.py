"""Builds about 20 MB of JSON, writes and reads it several times, and prints
the peak of its resident memory in KiB (VmHWM of its own address space), or
with --no-peak a checksum of the JSON, which is always the same."""

import json
import random
import sys
import zlib

ROUNDS = 5
RECORDS = 80_000


def record(rng: random.Random, number: int) -> dict:
    return {
        "id": number,
        "name": f"user-{rng.getrandbits(48):x}",
        "score": rng.random(),
        "tags": [f"tag-{rng.randrange(5000)}" for _ in range(rng.randrange(1, 9))],
        "address": {"street": "x" * rng.randrange(4, 60), "number": rng.randrange(999)},
        "note": "n" * rng.randrange(0, 120),
    }


def peak_kib() -> int:
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))


def main() -> None:
    rng = random.Random(1)
    rows = [record(rng, number) for number in range(RECORDS)]
    text = ""
    for _ in range(ROUNDS):
        text = json.dumps(rows)
        rows = json.loads(text)
        rng.shuffle(rows)
    first = zlib.crc32(text.encode()) if "--no-peak" in sys.argv else peak_kib()
    print(first, len(text))


main()
