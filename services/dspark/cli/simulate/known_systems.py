"""Systems that can be simulated by name, from data sheets and stated assumptions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dspark.cli.simulate.candidates_model import CandidatesModel
from dspark.cli.simulate.processor import SchedulerModel
from dspark.cli.simulate.roofline import dense_transformer
from dspark.cli.simulate.source_model import SourceModel, TextKind
from dspark.cli.simulate.system import System
from dspark.cli.simulate.verifier_model import VerifierModel

DEFAULT_SYSTEM = "h200-8b"
_BLOCK_SIZE = 16
_MEMORY_SHARE = 0.9


def _h200_8b() -> System:
    """Llama 3.1 8B in bfloat16 on one H200.

    NVIDIA's data sheet of the H200 SXM has 141 GB at 4.8 TB/s, and 1,979 TFLOPS in bfloat16 with
    sparsity, half of that without. The model's sizes are those of its config.json.
    """
    roofline = dense_transformer(
        bandwidth_bytes_per_s=4.8e12,
        peak_flops=1979e12 / 2,
        num_layers=32,
        hidden_size=4096,
        intermediate_size=14336,
        num_heads=32,
        num_kv_heads=8,
        head_dim=128,
        vocab_size=128256,
    )
    for_kv = 141e9 * _MEMORY_SHARE - roofline.num_parameters * roofline.bytes_per_parameter
    return System(
        VerifierModel(
            num_blocks=int(for_kv / roofline.kv_bytes_per_token) // _BLOCK_SIZE,
            block_size=_BLOCK_SIZE,
            max_step_rows=8192,
            max_model_len=131072,
            roofline=roofline,
            call_ms=0.8,
            call_ms_per_request=0.02,
            computes_ahead=True,
        ),
        SchedulerModel(step_ms=0.3, step_ms_per_request=0.03),
        CandidatesModel(
            call_ms=0.8,
            call_ms_per_request=0.02,
            sources=(
                SourceModel("suffix", (0.75, 0.8, 0.85), offered=0.3, ms_per_request=0.05),
                SourceModel("draft", (0.7,), further=(0.1,), max_depth=5, ms_per_request=0.15),
            ),
            kinds=(TextKind(0.5, 1.15), TextKind(0.5, 0.6)),
        ),
        "Llama 3.1 8B in bfloat16 on one H200 each; passes by roofline, all else assumed",
    )


def _h200_8b_draft() -> System:
    """The same, with a draft model of 1.2 billion parameters on another H200.

    Each of its five passes reads 2.5 GB at three quarters of 4.8 TB/s, and half a millisecond goes
    into starting it: 1.2 ms, whatever the number of requests.
    """
    draft = SourceModel("draft", (0.75,), further=(0.1,), max_depth=5, ms_per_request=0.02)
    kinds = (TextKind(0.5, 1.15), TextKind(0.5, 0.6))
    return replace(
        _h200_8b(),
        candidates=CandidatesModel(0.8 + 5 * 1.2, 0.02, (draft,), kinds),
        description="Llama 3.1 8B on one H200 and a draft model on another; passes by roofline, "
        "all else assumed",
    )


KNOWN_SYSTEMS: dict[str, Callable[[], System]] = {
    "h200-8b": _h200_8b,
    "h200-8b-draft": _h200_8b_draft,
}
