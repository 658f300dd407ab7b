"""The draft model as it is trained: a student with few of the target's layers.

Embedding and LM head are the target's and stay as they are, so all that is learnt is how to get
from one to the other in fewer layers, which start as the target's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils.logging import (
    disable_progress_bar,
    get_verbosity,
    set_verbosity,
    set_verbosity_error,
)

from dspark.training.text_batches import NO_LABEL, TextBatch


def first_layers_of(model_dir: Path, num_layers: int) -> Any:
    """A float32 model of the target's first ``num_layers`` layers.

    They read what the embedding gives. The last layer, which writes what the head reads, does harm
    at the end of a few. Raises ValueError for a target that has fewer layers.
    """
    disable_progress_bar()  # type: ignore[no-untyped-call]
    config = AutoConfig.from_pretrained(model_dir, local_files_only=True)
    if not 1 <= num_layers <= config.num_hidden_layers:
        raise ValueError(
            f"draft_layers: must be from 1 to {config.num_hidden_layers}, the target's number"
        )
    config.num_hidden_layers = num_layers
    if getattr(config, "layer_types", None) is not None:
        config.layer_types = config.layer_types[:num_layers]
    with _silence():
        student: Any = AutoModelForCausalLM.from_pretrained(
            model_dir, config=config, dtype=torch.float32, local_files_only=True
        )
    return _with_frozen_matrices(student)


def trained_student(directory: Path) -> Any:
    """A draft model that was trained before, to learn on; its matrices are the target's, too."""
    with _silence():
        student: Any = AutoModelForCausalLM.from_pretrained(
            directory, dtype=torch.float32, local_files_only=True
        )
    return _with_frozen_matrices(student)


def _with_frozen_matrices(student: Any) -> Any:
    for matrix in (student.get_input_embeddings(), student.get_output_embeddings()):
        matrix.requires_grad_(False)
    return student


@contextmanager
def _silence() -> Iterator[None]:
    """That the other layers' tensors are not used is no news."""
    before = get_verbosity()
    set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        set_verbosity(before)


class DraftStudent(nn.Module):
    """A causal model that learns to say the tokens of a draft vocabulary, ascending ids [V']."""

    def __init__(self, model: Any, token_ids: NDArray[np.int64]) -> None:
        super().__init__()
        self.model = model
        self.token_ids = token_ids
        head = self.model.get_output_embeddings().weight.detach()
        rows = torch.full((len(head),), NO_LABEL)
        rows[torch.from_numpy(token_ids)] = torch.arange(len(token_ids))
        self.head: Tensor
        self.rows: Tensor
        self.register_buffer("head", head[torch.from_numpy(token_ids)], persistent=False)
        self.register_buffer("rows", rows, persistent=False)

    def answer_logits(self, batch: TextBatch) -> tuple[Tensor, Tensor]:
        """Logits [num_labels, V'] and labels [num_labels], as columns, of all tokens of answers.

        A label outside the draft vocabulary is NO_LABEL.
        """
        device = self.head.device
        token_ids = torch.from_numpy(batch.token_ids).to(device)
        labels = torch.from_numpy(batch.labels).to(device)
        # Padding comes after the text, so no token sees any.
        hidden = self.model.base_model(input_ids=token_ids, use_cache=False)[0]
        # The head is most of the work, and only answers need it.
        is_answer = labels != NO_LABEL
        return self._head_logits(hidden[is_answer]), self.rows[labels[is_answer]]

    def loss(self, batch: TextBatch) -> Tensor:
        """Cross-entropy a token of the answers, which the target wrote."""
        logits, labels = self.answer_logits(batch)
        total = functional.cross_entropy(logits, labels, ignore_index=NO_LABEL, reduction="sum")
        return total / max(1, len(labels))

    def trained_parameters(self) -> list[nn.Parameter]:
        return [parameter for parameter in self.parameters() if parameter.requires_grad]

    def _head_logits(self, hidden: Tensor) -> Tensor:
        """[num_rows, V'] of the last hidden states, as the models that are served have it."""
        logits = hidden @ self.head.T
        cap = getattr(self.model.config, "final_logit_softcapping", None)
        return logits if cap is None else cap * torch.tanh(logits / cap)
