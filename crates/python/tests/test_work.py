"""Long work: the interpreter goes on, progress comes, and Ctrl-C ends it."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import slabyard


def test_other_threads_run_meanwhile(traces) -> None:
    counted, done = 0, threading.Event()

    def count() -> None:
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    began = time.monotonic()
    slabyard.open(traces / "hackbench.slabtrace").replay()
    took = time.monotonic() - began
    done.set()
    counter.join()
    # A thread that waits for the interpreter's lock would have counted a handful of times.
    assert counted > took * 100, (counted, took)


def test_progress_tells_stages(traces) -> None:
    seen = []
    trace = slabyard.open(
        traces / "tr64k_hb_smp4.slabtrace", progress=lambda *told: seen.append(told)
    )
    assert any(stage.startswith("reading ") and total == 0 for stage, _, total in seen)
    trace.replay(progress=lambda *told: seen.append(told))
    assert any(stage == "preparing" for stage, _, _ in seen)
    trace.ask("max_order=0..2", progress=lambda *told: seen.append(told))
    assert [done for _, done, total in seen if total == 4] == [0, 1, 2, 3, 4]


def test_progress_is_called_in_the_caller_s_thread(guest) -> None:
    threads = set()
    guest.replay(progress=lambda *_: threads.add(threading.get_ident()))
    assert threads == {threading.get_ident()}


def test_an_exception_of_progress_ends_the_work(guest) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        guest.replay(progress=refuse)


def test_a_bar_is_shown_and_taken_away(guest, capsys) -> None:
    guest.replay(progress=True)
    assert capsys.readouterr().err.rstrip(" ").endswith(("\r", "\x1b[K"))


def workers() -> int:
    """Threads of this process that work for the package."""
    names = (Path(f"/proc/self/task/{thread}/comm") for thread in os.listdir("/proc/self/task"))
    return sum(name.read_text().strip() == "slabyard" for name in names if name.exists())


@pytest.fixture
def two_cpus() -> Iterator[None]:
    """Work is done on as many CPUs as a thread may use: on a hundred, what is under way when it is
    interrupted takes minutes of CPU time."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:2])
    yield
    os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize("work", ["replay", "ask"])
def test_an_interrupt_ends_the_work(traces, two_cpus, work: str) -> None:
    trace = slabyard.open(traces / "hackbench.slabtrace")
    interrupt = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        if work == "ask":
            trace.ask("max_order=0..3+cpus=1..500", check=False)
        else:
            for _ in range(1000):
                trace.replay(tasks=2)
    took = time.monotonic() - began
    assert 0.4 < took < 10
    # What was under way ends, and nothing else is begun.
    until = time.monotonic() + 30
    while workers() and time.monotonic() < until:
        time.sleep(0.05)
    assert workers() == 0
