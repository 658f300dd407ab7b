"""What the headers say of a body's encoding: plain UTF-8 is all that is read."""

from __future__ import annotations

from email.message import Message

from starlette.datastructures import Headers

from dspark.errors import DSparkError
from dspark.gateway.shortened import shortened

_CHARSETS = ("utf-8", "utf8", "us-ascii")


class UnsupportedEncoding(DSparkError):
    """The body is compressed, or in another character set than UTF-8."""

    reason = "INVALID_ARGUMENT"
    code = "INVALID_ARGUMENT"
    http_status = 415

    def __init__(self, header: str, problem: str) -> None:
        super().__init__(f"{header}: {problem}", {"field": header})


def check_encoding(headers: Headers) -> None:
    """Raises UnsupportedEncoding; a missing or odd media type is none of its concern."""
    for coding in headers.getlist("content-encoding"):
        if coding.strip().lower() not in ("", "identity"):
            problem = f"{shortened(coding)!r} is not supported; send the body uncompressed"
            raise UnsupportedEncoding("Content-Encoding", problem)
    for media_type in headers.getlist("content-type"):
        charset = _charset(media_type)
        if charset not in _CHARSETS:
            problem = f"the charset {shortened(charset)!r} is not supported, only 'utf-8' is"
            raise UnsupportedEncoding("Content-Type", problem)


def _charset(media_type: str) -> str:
    header = Message()
    header["content-type"] = media_type
    return header.get_content_charset("utf-8")
