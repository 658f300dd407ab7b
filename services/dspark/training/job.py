"""One run of ``dspark train``: the target writes texts, then a source is trained on them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dspark.candidates.target_digest import target_digest
from dspark.errors import InvalidArgument
from dspark.gateway.template_files import load_chat_template
from dspark.gateway.tokenizer import TextTokenizer, special_tokens
from dspark.training.collect import answer_jobs, collect, keeps_all
from dspark.training.errors import TrainingFailed
from dspark.training.overlap import Overlap, reserved_texts
from dspark.training.prompt_files import read_prompts
from dspark.training.prompt_layout import USER, PromptLayout
from dspark.training.self_generation import MAX_PROMPT_TOKENS, SelfGeneration
from dspark.training.target import Target, load_target
from dspark.training.text_generator import TextGenerator
from dspark.training.text_store import StoreMeta, TextStore, stored_layers
from dspark.training.trainer import TrainingRun
from dspark.training.trainers import TRAINERS

TEXTS = "texts"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """What to train, for which target, on what; sizes in tokens."""

    source: str
    model_name: str
    model_dir: Path
    out: Path
    data: tuple[Path, ...]
    exclude: tuple[Path, ...]
    prompt_templates: tuple[str, ...]
    self_generate: int
    max_answer_tokens: int
    texts_at_once: int
    weight_dtype: str
    threads: int
    seed: int
    steps: int
    draft_layers: int
    table_contexts: int
    start_from: Path | None = None

    def collect(self, say: Say) -> TextStore:
        """The texts, of which an earlier run may have left some. Raises TrainingFailed."""
        try:
            tokenizer = TextTokenizer(self.model_dir)
            layouts = self._layouts(tokenizer)
            prompts = self._prompts(tokenizer, layouts)
            target = self._target(say)
            store = TextStore(self.out / TEXTS, self._meta(target))
        except (OSError, ValueError, InvalidArgument) as error:
            raise TrainingFailed(str(error)) from error
        generator = TextGenerator(target.engine, self.texts_at_once, store.meta.layers)
        seed = self.seed + len(store)
        # A run that goes on does not answer again what is answered already, in whatever order.
        answered = store.prompts()
        waiting = [prompt for prompt in prompts if prompt not in answered]
        jobs = answer_jobs(waiting, self.max_answer_tokens, seed)
        most = len(prompts) * self.max_answer_tokens
        collect(generator, jobs, keeps_all, store, most, say)
        if self.self_generate:
            generation = SelfGeneration(
                tokenizer.encode_now,
                tokenizer.decode,
                layouts,
                reserved=self._reserved(),
                max_answer_tokens=self.max_answer_tokens,
                seed=seed,
            )
            collect(generator, generation.jobs(), generation.take, store, self.self_generate, say)
        return store

    def train(self, store: TextStore, say: Say) -> list[str]:
        """Train the source, write its weights and a card to ``out``; returns lines to show."""
        about = {
            "target": self.model_name,
            "target_digest": store.meta.target_digest,
            "texts": len(store),
            "answer_tokens": store.num_answer_tokens,
            "data": [path.name for path in self.data],
            "self_generated": self.self_generate,
            **({"start_from": self.start_from.name} if self.start_from else {}),
        }
        try:
            result = TRAINERS[self.source].train(self._run(store, about, say))
        except (OSError, ValueError) as error:
            raise TrainingFailed(str(error)) from error
        card = self._card() | {"target_digest": store.meta.target_digest, self.source: result.card}
        (self.out / "card.json").write_text(json.dumps(card, indent=1) + "\n")
        return result.lines

    def _run(self, store: TextStore, about: dict[str, Any], say: Say) -> TrainingRun:
        return TrainingRun(
            store=store,
            model_dir=self.model_dir,
            out=self.out,
            about=about,
            say=say,
            special_ids=TextTokenizer(self.model_dir).special_ids,
            steps=self.steps,
            threads=self.threads,
            seed=self.seed,
            start_from=self.start_from,
            draft_layers=self.draft_layers,
            table_contexts=self.table_contexts,
        )

    def _card(self) -> dict[str, Any]:
        """What earlier trainings into the same directory wrote."""
        path = self.out / "card.json"
        try:
            return dict(json.loads(path.read_text())) if path.exists() else {}
        except ValueError as error:
            raise TrainingFailed(f"{path} is damaged: {error}") from error

    def _layouts(self, tokenizer: TextTokenizer) -> list[PromptLayout]:
        if self.prompt_templates:
            return [PromptLayout.of(template) for template in self.prompt_templates]
        template = load_chat_template(self.model_dir, special_tokens(self.model_dir, tokenizer))
        if template is None:
            raise ValueError("the model has no chat template: give --prompt-template")
        return [PromptLayout.of(template.render([{"role": "user", "content": USER}]))]

    def _prompts(
        self, tokenizer: TextTokenizer, layouts: list[PromptLayout]
    ) -> list[tuple[int, ...]]:
        def read() -> Iterator[tuple[int, ...]]:
            for path in self.data:
                yield from read_prompts(path, layouts, tokenizer.encode_now, MAX_PROMPT_TOKENS)

        return list(read())

    def _reserved(self) -> Overlap:
        return Overlap(text for path in self.exclude for text in reserved_texts(path))

    def _target(self, say: Say) -> Target:
        room = MAX_PROMPT_TOKENS + self.max_answer_tokens
        return load_target(
            self.model_dir, self.weight_dtype, self.texts_at_once * room, self.threads, say
        )

    def _meta(self, target: Target) -> StoreMeta:
        layers = TRAINERS[self.source].layers_of(self.model_dir)
        known = stored_layers(self.out / TEXTS)
        if set(layers) <= set(known):
            layers = known
        digest = target_digest(self.model_dir)
        return StoreMeta(digest, target.vocab_size, target.hidden_size, layers)
