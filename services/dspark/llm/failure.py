"""What goes wrong with an offline LLM beside what the SDK raises."""

from __future__ import annotations

from dspark.errors import DSparkError


class StartFailed(RuntimeError):
    """The services could not be started as asked; the message says why. Never on the wire."""


class PromptFailed(DSparkError):
    """The prompt at ``index`` failed, and the other prompts were cancelled. Never on the wire.

    ``error`` is what the client raised for it.
    """

    def __init__(self, index: int, error: DSparkError) -> None:
        super().__init__(f"prompts[{index}]: {error}", error.metadata)
        self.index = index
        self.error = error
