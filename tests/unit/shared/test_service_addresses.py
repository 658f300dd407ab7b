"""Names stand for all their addresses, which come and go; other targets stand for themselves."""

from __future__ import annotations

import pytest

from dspark import service_addresses
from dspark.service_addresses import check_targets, watch_addresses


class Names:
    """A name service whose answers are scripted; an OSError is raised."""

    def __init__(self, *answers: list[str] | OSError) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str]] = []

    async def __call__(self, host: str, port: str) -> list[str]:
        self.asked.append((host, port))
        answer = self.answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_addresses, "RESOLVE_INTERVAL_S", 0.0)
    monkeypatch.setattr(service_addresses, "RETRY_INTERVAL_S", 0.0)


async def seen(targets: list[str], names: Names, count: int) -> list[tuple[str, ...]]:
    looks = watch_addresses(targets, names)
    found = [await anext(looks) for _ in range(count)]
    await looks.aclose()  # type: ignore[attr-defined]
    return found


async def test_plain_targets_stand_for_themselves_once() -> None:
    assert await seen(["unix:/v", "h:1", "h:1"], Names(), 1) == [("unix:/v", "h:1")]


async def test_a_name_stands_for_all_its_addresses() -> None:
    names = Names(["10.0.0.1:5", "10.0.0.2:5"], ["10.0.0.2:5"])
    assert await seen(["dns:///v.ns:5"], names, 2) == [
        ("10.0.0.1:5", "10.0.0.2:5"),
        ("10.0.0.2:5",),
    ]
    assert names.asked == [("v.ns", "5")] * 2


async def test_a_name_that_cannot_be_resolved_keeps_what_it_had(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lost = OSError("no such name")
    names = Names(lost, ["10.0.0.1:5"], lost, lost, [])
    looks = await seen(["dns:///v:5", "h:1"], names, 5)
    assert looks == [("h:1",), *[("10.0.0.1:5", "h:1")] * 3, ("h:1",)]
    assert len(caplog.records) == 2


async def test_real_names_resolve_to_addresses_with_their_port() -> None:
    assert "127.0.0.1:80" in await service_addresses.resolve("localhost", "80")
    assert await service_addresses.resolve("::1", "80") == ["[::1]:80"]


@pytest.mark.parametrize(
    "target", ["h:1", "10.0.0.1:65535", "[::1]:5", "dns:///v.ns:5", "unix:/v", "unix:v"]
)
def test_addresses_that_can_be_called(target: str) -> None:
    check_targets(verifier=(target,))


@pytest.mark.parametrize(
    "target",
    ["", "nonsense", "h:", ":5", "h:0", "h:65536", "h:x", "dns:///v", "unix:", "http://h:1"],
)
def test_what_is_no_address_is_named(target: str) -> None:
    with pytest.raises(ValueError, match=r"^verifier: .* is no address"):
        check_targets(verifier=("h:1", target))
