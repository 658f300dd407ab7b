from __future__ import annotations

import json
from pathlib import Path

import pytest

from dspark.cli.__main__ import run
from dspark.config import SettingError
from dspark.errors import Unauthenticated
from dspark.gateway.api_keys import ApiKeys, digest_of, draw_key, parse_key
from dspark.gateway.caller import Caller

KEY = draw_key()
DIGEST = digest_of(KEY).hex()
GOOD = {"name": "a", "sha256": DIGEST}
BAD: dict[str, object] = {
    "no json": "x",
    "a list": "[]",
    "no name": json.dumps({"sha256": DIGEST}),
    "name with a space": json.dumps(GOOD | {"name": "a b"}),
    "tenant with a slash": json.dumps(GOOD | {"tenant": "a/b"}),
    "a key, not its hash": json.dumps(GOOD | {"sha256": KEY}),
    "no time": json.dumps(GOOD | {"expires": "soon"}),
    "no time zone": json.dumps(GOOD | {"expires": "2027-01-31T00:00:00"}),
    "a number as time": json.dumps(GOOD | {"expires": 1}),
    "unknown field": json.dumps(GOOD | {"role": "admin"}),
    "twice": json.dumps(GOOD) + "\n" + json.dumps(GOOD | {"sha256": "0" * 64}),
    "nothing": "# none yet",
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_a_bad_file_is_an_error_that_repeats_nothing_of_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys"
    path.write_text(text + "\n")
    with pytest.raises(SettingError, match=str(path)) as caught:
        ApiKeys(str(path))
    assert KEY not in str(caught.value)
    assert DIGEST not in str(caught.value)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="No such file"):
        ApiKeys(str(tmp_path / "keys"))


def test_without_a_file_anybody_may_call() -> None:
    keys = ApiKeys("")
    assert not keys.are_needed
    assert keys.caller_of(None, "x").cache_salt("s") == "s"


def test_an_expiry_is_a_moment_in_any_time_zone(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(json.dumps(GOOD | {"expires": "2001-01-01T00:00:00-12:00"}))
    with pytest.raises(Unauthenticated, match="'a' expired at 2001"):
        ApiKeys(str(path)).caller_of(f"Bearer {KEY}", "x")
    path.write_text(json.dumps(GOOD | {"expires": "9001-01-01T00:00:00Z"}))
    assert ApiKeys(str(path)).caller_of(f"bearer  {KEY} ", "x") == Caller("a", "a")


def test_tenants_cannot_reach_the_caches_of_each_other() -> None:
    salts = {
        Caller(name, tenant).cache_salt(asked)
        for name, tenant in (("a", "t"), ("b", "t-x"), ("c", "u"))
        for asked in ("", "s", "t/s", "/s")
    }
    assert len(salts) == 12


def test_the_command_makes_a_line_and_its_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["keys", "create", "--name", "ci", "--expires", "30d", "--tenant", "team"]) == 0
    out, err = capsys.readouterr()
    key = err.rpartition(" ")[2].strip()
    assert key not in out
    path = tmp_path / "keys"
    path.write_text(out)
    assert ApiKeys(str(path)).caller_of(f"Bearer {key}", "x") == Caller("ci", "team")
    assert parse_key(json.loads(out)).line() == out.strip()


@pytest.mark.parametrize(
    ("flag", "value"), [("--name", "a b"), ("--expires", "soon"), ("--tenant", "a/b")]
)
def test_the_command_names_what_is_wrong(
    flag: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = {"--name": "a"} | {flag: value}
    flags = [part for pair in arguments.items() for part in pair]
    assert run(["keys", "create", *flags]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert flag in err
