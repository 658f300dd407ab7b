"""The background loop of sync callers."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dspark.client import ClientClosed
from dspark.client.event_loop import BackgroundLoop


async def thread_name() -> str:
    return threading.current_thread().name


def test_users_share_one_thread_until_the_last_release() -> None:
    first, second = BackgroundLoop.acquire(), BackgroundLoop.acquire()
    assert first is second
    first.release()
    assert second.run(thread_name()) == "dspark-client"
    second.release()
    assert "dspark-client" not in [thread.name for thread in threading.enumerate()]
    third = BackgroundLoop.acquire()
    assert third is not first
    third.release()


def test_an_interrupted_wait_cancels_and_awaits_the_clean_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = BackgroundLoop.acquire()
    running, cleaned = threading.Event(), []

    async def work() -> None:
        try:
            running.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            cleaned.append(True)

    def interrupted(future: object, timeout: float | None = None) -> None:
        running.wait(5)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("concurrent.futures.Future.result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            loop.run(work())
    assert cleaned == [True]
    loop.release()


def test_after_the_last_release_nothing_runs() -> None:
    loop = BackgroundLoop.acquire()
    loop.release()
    with pytest.raises(ClientClosed):
        loop.run(thread_name())


def test_what_runs_keeps_the_loop() -> None:
    loop = BackgroundLoop.acquire()
    running, go_on = threading.Event(), threading.Event()

    async def work() -> str:
        running.set()
        await asyncio.to_thread(go_on.wait, 10)
        return "done"

    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(loop.run, work())
        assert running.wait(10)
        loop.release()
        go_on.set()
        assert result.result(10) == "done"
    with pytest.raises(ClientClosed):
        loop.run(thread_name())
