"""The thread that runs jobs, and the limit of requests per client."""

import threading
import types

import jax
import pytest

from serving import worker as workers
from serving.worker import Busy, ModelWorker, RateLimit


def test_jobs_run_in_order_and_before_warm_ups():
    ran, begun, go = [], threading.Event(), threading.Event()

    def first():
        begun.set()
        go.wait(60)
        ran.append("first warm-up")

    progress = []
    worker = ModelWorker(8, [first, lambda: ran.append("second warm-up"), lambda: 1 / 0],
                         progress.append)  # fmt: skip
    worker.start()
    begun.wait(60)
    futures = [worker.submit(lambda i=i: ran.append(i) or i) for i in range(3)]
    failing = worker.submit(lambda: 1 / 0)
    futures[1].cancel()
    go.set()
    assert futures[0].result(60) == 0 and futures[2].result(60) == 2
    with pytest.raises(ZeroDivisionError):
        failing.result(60)
    while worker.done < 3:  # a warm-up that fails does not end the thread
        pass
    worker.close()
    assert ran == ["first warm-up", 0, 2, "second warm-up"] and progress == [1, 2, 3]


def test_a_job_that_compiles_is_named():
    go, begun, double = threading.Event(), threading.Event(), jax.jit(lambda x: 2 * x)

    def job():
        double(3.0)
        begun.set()
        go.wait(60)

    worker = ModelWorker(2)
    worker.start()
    named = []
    for _ in range(2):  # the program of the first job is used again
        future = worker.submit(job, "a, beam 7")
        begun.wait(60)
        named.append(worker.compiling)
        go.set()
        future.result(60)
        go.clear()
        begun.clear()
    worker.close()
    assert named == ["a, beam 7", ""] and worker.compiling == ""


def test_a_full_queue_refuses_jobs_and_forgets_canceled_ones():
    worker = ModelWorker(2)  # not started, so that jobs wait
    futures = [worker.submit(lambda: 1) for _ in range(2)]
    with pytest.raises(Busy):
        worker.submit(lambda: 1)
    futures[0].cancel()
    last = worker.submit(lambda: 2)
    worker.start()
    assert last.result(60) == 2
    worker.close()


def test_each_client_has_a_rate_and_few_clients_are_remembered(monkeypatch):
    now = [0.0]
    # Only the worker's clock: the event loops of other threads would wait for hours.
    monkeypatch.setattr(workers, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    limit = RateLimit(rate=2, burst=3)
    assert [limit.wait("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert limit.wait("b") == 0
    now[0] = 0.5
    assert limit.wait("a") == 0 and limit.wait("a") == 0.5
    for i in range(2000):
        limit.wait(str(i))
    assert len(limit._left) == workers.MOST_ADDRESSES
