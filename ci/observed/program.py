"""Keeps, replaces and drops pieces by a fixed plan, to be looked at meanwhile.

    program.py DIRECTORY [ROUNDS]

Prints a line a round with its own count of live pieces, and a checksum at the
end. With ROUNDS it does so many and does not rest between them; without, it
writes its id to DIRECTORY/pid and goes on until there is a file DIRECTORY/stop.
SIGUSR1 asks for one more burst. What is printed depends on the number of rounds
alone.
"""

import hashlib
import os
import random
import signal
import sys
import time

MOST_ROUNDS = 900  # it ends by itself if nobody says stop


def burst():
    """Makes objects of a size that the rounds do not use, and frees all: five slabs of them, more
    than the interpreter's own objects of that size leave room for, and so few that the library does
    not give them back by itself at once."""
    return len([bytes(800) for _ in range(90)])


def main():
    directory = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else None
    bursts = [1]
    signal.signal(signal.SIGUSR1, lambda *_: bursts.append(1))
    rng = random.Random(20)
    kept, digest = {}, hashlib.sha256()
    if rounds is None:
        with open(os.path.join(directory, "new"), "w") as file:
            file.write(str(os.getpid()))
        os.rename(file.name, os.path.join(directory, "pid"))
    for number in range(rounds or MOST_ROUNDS):
        while bursts:
            burst()
            bursts.pop()
        for _ in range(1500):
            key = rng.randrange(12000)
            digest.update(kept.pop(key, b"none"))
            kept[key] = bytes([number % 256]) * rng.choice((24, 400))
        if number % 4 == 3:
            for key in [key for key in kept if key % 4]:
                digest.update(kept.pop(key))
        print(f"round {number}: {len(kept)} pieces", flush=True)
        if rounds is None:
            if os.path.exists(os.path.join(directory, "stop")):
                break
            time.sleep(0.1)
    for key in sorted(kept):
        digest.update(kept[key])
    print("checksum", digest.hexdigest())


main()
