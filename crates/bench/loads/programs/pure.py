"""Pure Python work of several kinds, with a digest of the results at its end:
objects that send messages, strings and regular expressions, dictionaries and
sets, sorting, pickling, big integers and a backtracking search."""

import hashlib
import heapq
import pickle
import random
import re


class Task:
    """One of many objects that pass packets to one another."""

    __slots__ = ("name", "inbox", "done")

    def __init__(self, name: str) -> None:
        self.name = name
        self.inbox: list[dict] = []
        self.done = 0

    def step(self, others: list["Task"], rng: random.Random) -> None:
        packets, self.inbox = self.inbox, []
        for packet in packets:
            self.done += packet["weight"]
            if packet["hops"]:
                next_one = {"hops": packet["hops"] - 1, "weight": packet["weight"] % 7 + 1}
                rng.choice(others).inbox.append(next_one)


def messages(rng: random.Random) -> int:
    tasks = [Task(f"task-{number}") for number in range(60)]
    for task in tasks:
        task.inbox = [{"hops": 25, "weight": weight % 5} for weight in range(30)]
    while any(task.inbox for task in tasks):
        for task in tasks:
            task.step(tasks, rng)
    return sum(task.done for task in tasks)


def text(rng: random.Random) -> int:
    words = ["".join(rng.choices("abcdefghij", k=rng.randrange(2, 9))) for _ in range(30_000)]
    page = " ".join(words)
    pairs = re.findall(r"\b([abc]\w*)\s+(\w*[hij])\b", page)
    counts: dict[str, int] = {}
    for word in page.split():
        counts[word] = counts.get(word, 0) + 1
    lines = [f"{word}:{count:05d}" for word, count in counts.items()]
    return len(pairs) + len("\n".join(sorted(lines)).replace("a", "bb"))


def graph(rng: random.Random) -> int:
    nodes = 6000
    edges = [[(rng.randrange(nodes), rng.randrange(1, 90)) for _ in range(4)] for _ in range(nodes)]
    costs, heap = {0: 0}, [(0, 0)]
    while heap:
        cost, node = heapq.heappop(heap)
        if cost > costs[node]:
            continue
        for other, more in edges[node]:
            if cost + more < costs.get(other, 1 << 30):
                costs[other] = cost + more
                heapq.heappush(heap, (cost + more, other))
    return sum(costs.values())


def queens(size: int) -> int:
    def place(row: int, columns: frozenset, down: frozenset, up: frozenset) -> int:
        if row == size:
            return 1
        free = [c for c in range(size) if c not in columns]
        free = [c for c in free if row - c not in down and row + c not in up]
        return sum(place(row + 1, columns | {c}, down | {row - c}, up | {row + c}) for c in free)

    return place(0, frozenset(), frozenset(), frozenset())


def pickles(rng: random.Random) -> int:
    rows = [(number, str(rng.random()), [rng.randrange(99)] * 5) for number in range(25_000)]
    size = 0
    for _ in range(3):
        stored = pickle.dumps(rows)
        size = len(stored)
        rows = sorted(pickle.loads(stored), key=lambda row: row[1])
    return size + rows[0][0]


def big_numbers() -> int:
    a, b = 0, 1
    for _ in range(9000):
        a, b = b, a + b
    return pow(3, 20_000) % 1_000_003 + b % 1_000_003


def main() -> None:
    rng = random.Random(1)
    results = []
    for _ in range(2):
        results += [messages(rng), text(rng), graph(rng), queens(7), pickles(rng), big_numbers()]
    print(hashlib.sha256(repr(results).encode()).hexdigest())


main()
