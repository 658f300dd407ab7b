"""Lets the target make its own training texts: it invents requests, then answers them."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dspark.sampling import SamplingParams
from dspark.training.loops import is_loop
from dspark.training.openings import OPENINGS
from dspark.training.overlap import Overlap
from dspark.training.prompt_layout import PromptLayout
from dspark.training.tasks import subject_tasks, text_task
from dspark.training.text_generator import WritingJob, WrittenText

SHARE_OF_INVENTED = 0.4
SHARE_OF_TEXT_TASKS = 0.2
# Texts from earlier answers that tasks work on; the oldest goes first.
MAX_TEXTS = 200
MIN_TEXT_CHARS = 250
MIN_REQUEST_TOKENS = 4
MAX_REQUEST_TOKENS = 60
MAX_PROMPT_TOKENS = 400
# Of texts that end in a loop every third is kept: it happens in use, too.
LOOPS_A_KEPT_ONE = 3


@dataclass(frozen=True, slots=True)
class _Request:
    """The tag of a job that lets the model finish a user's turn that begins like this."""

    opening: str
    layout: PromptLayout


class SelfGeneration:
    """Endless jobs for a TextGenerator. What it wrote is given back by ``take``.

    Half of the answers are greedy, half are drawn at temperature 0.7.
    """

    def __init__(
        self,
        encode: Callable[[str], Sequence[int]],
        decode: Callable[[Sequence[int]], str],
        layouts: Sequence[PromptLayout],
        *,
        reserved: Overlap,
        max_answer_tokens: int,
        seed: int,
    ) -> None:
        self._encode, self._decode = encode, decode
        self._layouts = layouts
        self._reserved = reserved
        self._max_answer_tokens = max_answer_tokens
        self._chance = random.Random(seed)
        self._tasks = subject_tasks(self._chance)
        self._requests: deque[tuple[str, PromptLayout]] = deque()
        self._texts: deque[str] = deque(maxlen=MAX_TEXTS)
        self._num_loops = 0

    def jobs(self) -> Iterator[WritingJob]:
        while True:
            job = self._next_job()
            if job is not None:
                yield job

    def take(self, text: WrittenText) -> bool:
        """Whether a finished text is an answer to keep."""
        if isinstance(text.job.tag, _Request):
            self._take_request(text, text.job.tag)
            return False
        if is_loop(text.token_ids):
            self._num_loops += 1
            return self._num_loops % LOOPS_A_KEPT_ONE == 0
        answer = self._decode(text.token_ids).strip()
        if len(answer) >= MIN_TEXT_CHARS:
            self._texts.append(answer)
        return len(text.token_ids) > 1

    def _next_job(self) -> WritingJob | None:
        """None when what was drawn must not be asked."""
        chance = self._chance
        if self._requests:
            user, layout = self._requests.popleft()
            return self._answer(user, layout)
        layout = chance.choice(self._layouts)
        kind = chance.random()
        if kind < SHARE_OF_INVENTED:
            return self._invent(chance.choice(OPENINGS), layout)
        if kind < SHARE_OF_INVENTED + SHARE_OF_TEXT_TASKS and self._texts:
            return self._answer(text_task(list(self._texts), chance), layout)
        return self._answer(next(self._tasks), layout)

    def _invent(self, opening: str, layout: PromptLayout) -> WritingJob:
        sampling = SamplingParams(
            temperature=0.9, top_k=40, top_p=0.95, seed=self._seed(), max_tokens=MAX_REQUEST_TOKENS
        )
        prompt = tuple(self._encode(layout.before + opening))
        return WritingJob(prompt, sampling, _Request(opening, layout), wants_features=False)

    def _take_request(self, text: WrittenText, request: _Request) -> None:
        if text.ended and len(text.token_ids) >= MIN_REQUEST_TOKENS:
            user = request.opening + self._decode(text.token_ids[:-1])
            self._requests.append((user, request.layout))

    def _answer(self, user: str, layout: PromptLayout) -> WritingJob | None:
        prompt = tuple(self._encode(layout.prompt(user)))
        if len(prompt) > MAX_PROMPT_TOKENS or self._reserved.touches(user):
            return None
        temperature = self._chance.choice((0.0, 0.7))
        sampling = SamplingParams(
            temperature=temperature, seed=self._seed(), max_tokens=self._max_answer_tokens
        )
        return WritingJob(prompt, sampling)

    def _seed(self) -> int:
        return self._chance.getrandbits(32)
