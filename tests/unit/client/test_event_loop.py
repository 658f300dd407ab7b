"""The background loop of sync callers."""

from __future__ import annotations

import asyncio
import threading

import pytest

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
