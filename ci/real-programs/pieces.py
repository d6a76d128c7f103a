"""Threads, forks, child processes, JSON, compression and a big dict."""
import concurrent.futures
import hashlib
import json
import multiprocessing
import os
import queue
import random
import re
import subprocess
import sys
import threading
import zlib


def churn(seed):
    """Allocates and frees by a fixed plan; the digest tells if bytes changed."""
    rng = random.Random(seed)
    kept, digest = {}, hashlib.sha256()
    for step in range(1500):
        key = rng.randrange(300)
        digest.update(kept.pop(key, b"none")[:64])
        size = rng.choice((10, 100, 1000, 10_000, 100_000 if step % 50 == 0 else 24))
        kept[key] = bytes([step % 256]) * size
    return digest.hexdigest()


def threads():
    results, work = {}, queue.Queue()
    for seed in range(8):
        work.put(seed)

    def run():
        while True:
            try:
                seed = work.get_nowait()
            except queue.Empty:
                return
            results[seed] = churn(seed)

    workers = [threading.Thread(target=run) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert results == {seed: churn(seed) for seed in range(8)}
    for _ in range(150):  # short lives
        thread = threading.Thread(target=lambda: [str(i) for i in range(200)])
        thread.start()
        thread.join()
    return len(results), results[7]


def forks():
    """Forks while other threads allocate: the child's heap must be whole."""
    stop = threading.Event()

    def noise():
        while not stop.is_set():
            [bytes(n) for n in range(0, 3000, 17)]

    noisy = [threading.Thread(target=noise) for _ in range(3)]
    for thread in noisy:
        thread.start()
    ends = []
    for n in range(20):
        pid = os.fork()
        if pid == 0:
            os._exit(n if churn(1) else 255)
        ends.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    stop.set()
    for thread in noisy:
        thread.join()
    return ends == list(range(20))


def main():
    print("threads", *threads())
    print("forks", forks())
    fork = multiprocessing.get_context("fork")
    with fork.Pool(4) as pool:
        print("pool", hashlib.sha256("".join(pool.map(churn, range(12))).encode()).hexdigest())
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        print("executor", len(set(pool.map(churn, range(12)))))
    child = [sys.executable, "-c", "import sys; print(len(sys.stdin.read()))"]
    for n in (0, 10, 1_000_000):
        print("child", subprocess.run(child, input="x" * n, text=True, capture_output=True).stdout.strip())

    big = {f"key {n}": [n, str(n), {"square": n * n}] for n in range(30_000)}
    text = json.dumps(big, sort_keys=True)
    assert json.loads(text) == big
    print("json", len(text), zlib.crc32(text.encode()))
    print("zlib", zlib.decompress(zlib.compress(text.encode(), 3)) == text.encode())
    print("re", len(re.findall(r'"square": (\d*6)\b', text)))
    for n in range(0, 30_000, 3):
        del big[f"key {n}"]
    print("dict", len(big), sum(value[0] for value in big.values()))
    numbers = [random.Random(5).random() for _ in range(10)] + [x / 7 for x in range(60_000)]
    print("sort", hashlib.md5(repr(sorted(numbers, key=lambda x: -x)[::1000]).encode()).hexdigest())
    deep = []
    for _ in range(50_000):
        deep = [deep]
    del deep


main()
