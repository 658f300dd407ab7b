"""Loads, checks, self-tests and measures the target model."""

from __future__ import annotations

import logging

import torch

from dspark.step import VerifyCost
from dspark.verifier.attention.registry import backend_choices, num_scratch_blocks
from dspark.verifier.config import VerifierConfig
from dspark.verifier.interfaces import LoadedModel, ModelRefused, Progress
from dspark.verifier.kv.kv_cache import KvCache
from dspark.verifier.model.assembly import Assembled, assemble
from dspark.verifier.model.attention_survey import AttentionSurvey, survey_attention
from dspark.verifier.model.checkpoint import Checkpoint, load_checkpoint
from dspark.verifier.model.cost_table import measure_costs
from dspark.verifier.model.digest import model_digest
from dspark.verifier.model.early_pruning import pruner_for
from dspark.verifier.model.graph_setup import recorder_for, with_recordings
from dspark.verifier.model.kernels import choose_device, native_team
from dspark.verifier.model.refusals import check_length, check_supported, refusing
from dspark.verifier.model.self_test import RowInvarianceTest
from dspark.verifier.model.target_model import Runner
from dspark.verifier.model.weight_format import load_dtype, weight_format
from dspark.verifier.native.cpu_count import usable_cpus
from dspark.verifier.native.library import Team
from dspark.verifier.structure.compiler import NoStructures, Structures
from dspark.verifier.structure.loading import load_structures

log = logging.getLogger(__name__)

# A pass of a smaller model is over before a second thread has woken up.
_ONE_THREAD_PARAMETERS = 2_000_000
_MAX_STEP_ROWS = {"cpu": 64, "cuda": 2048}
# Tried in this order; larger sets waste fewer padded rows.
_TILE_SETS = ((16, 32, 64), (16, 32), (32,), (16,), (64,), (128,))


def load_model(config: VerifierConfig, progress: Progress) -> LoadedModel:
    """Make the model ready to serve. Raises ModelRefused, with the reason."""
    device = choose_device(config.device)
    dtype = load_dtype(config.weight_dtype)
    checkpoint = load_checkpoint(config.model, dtype, progress)
    form = weight_format(config.weight_dtype, checkpoint.dtype)
    check_supported(checkpoint.model)
    check_length(config.max_model_len, checkpoint.max_model_len)
    num_threads = _num_threads(config, checkpoint)
    progress("preparing kernels")
    team = native_team(config.kernels, device, num_threads)
    backends = _backends(config, device, team)
    # Two pools of threads would fight for the cores.
    torch.set_num_threads(1 if team is not None else num_threads)
    with refusing(f"{type(checkpoint.model).__name__} does not use the attention interface"):
        survey = survey_attention(checkpoint.model)
    kv_cache = _kv_cache(config, checkpoint, survey, device, backends)
    digest = model_digest(checkpoint.files, form.name)
    assembled = assemble(checkpoint, form, survey, kv_cache, backends, team, num_threads, progress)
    runner = Runner(
        model=assembled.model,
        kv_cache=kv_cache,
        vocab_size=assembled.model.vocab_size,
        max_model_len=checkpoint.max_model_len,
        eos_token_ids=checkpoint.eos_token_ids,
    )
    progress("testing row invariance")
    exactness = _exactness(config, assembled, runner)
    _record(config, runner, exactness, progress)
    progress("measuring the cost of a pass")
    max_step_rows = config.max_step_rows or _MAX_STEP_ROWS[device.type]
    costs = _costs(config, runner, max_step_rows)
    progress("deciding on early pruning")
    pruner = pruner_for(config, runner, exactness, max_step_rows)
    return LoadedModel(
        runner=runner,
        kv=kv_cache,
        model_digest=digest,
        kernel_class=f"{assembled.kernel_class}-kv-{_short(kv_cache.dtype)}",
        exactness=exactness,
        dtype=form.name,
        device=str(device),
        max_step_rows=max_step_rows,
        verify_costs=costs,
        pruner=pruner,
        structures=_structures(config, checkpoint, runner),
    )


def _structures(config: VerifierConfig, checkpoint: Checkpoint, runner: Runner) -> Structures:
    directory = checkpoint.files[0].parent
    # Beside a single file there may be the tokenizer of another model.
    if checkpoint.files[0].name != "config.json":
        return NoStructures()
    return load_structures(directory, runner.vocab_size, runner.eos_token_ids, config.grammar_cache)


def _record(config: VerifierConfig, runner: Runner, exactness: str, progress: Progress) -> None:
    recorder = recorder_for(runner.kv_cache.device, config.cuda_graphs)
    if recorder is not None:
        progress("recording small passes")
        runner.model = with_recordings(
            runner.model,
            runner.kv_cache,
            recorder,
            max_len=config.max_model_len or runner.max_model_len,
            is_strict=exactness == "strict",
        )


def _costs(config: VerifierConfig, runner: Runner, max_rows: int) -> tuple[VerifyCost, ...]:
    pool = runner.kv_cache
    max_len = config.max_model_len or runner.max_model_len
    return measure_costs(
        runner.forward, pool.num_slots, config.block_size, max_rows, max_len, pool.clear
    )


def _backends(config: VerifierConfig, device: torch.device, team: Team | None) -> tuple[str, ...]:
    try:
        return backend_choices(
            config.attention, device, native=team is not None, block_size=config.block_size
        )
    except ValueError as error:
        raise ModelRefused(str(error)) from error


def _num_threads(config: VerifierConfig, checkpoint: Checkpoint) -> int:
    if checkpoint.model.num_parameters() < _ONE_THREAD_PARAMETERS:
        return 1
    return config.threads or usable_cpus()


def _kv_cache(
    config: VerifierConfig,
    checkpoint: Checkpoint,
    survey: AttentionSurvey,
    device: torch.device,
    backends: tuple[str, ...],
) -> KvCache:
    return KvCache(
        num_layers=len(survey.layers),
        num_blocks=config.num_blocks,
        block_size=config.block_size,
        num_kv_heads=survey.num_kv_heads,
        head_dim=survey.head_dim,
        dtype=torch.float32 if checkpoint.dtype == torch.float32 else torch.bfloat16,
        num_scratch_blocks=num_scratch_blocks(backends, config.num_blocks),
        device=device,
    )


def _exactness(config: VerifierConfig, assembled: Assembled, runner: Runner) -> str:
    """Run the self-test, choosing row tiles by it where there are any."""
    if config.exactness == "fast":
        return "fast"
    failures = []
    for sizes in _TILE_SETS if assembled.tiles is not None else ((),):
        if assembled.tiles is not None:
            assembled.tiles.sizes = sizes
        test = RowInvarianceTest(
            runner.forward, runner.vocab_size, runner.kv_cache.num_slots, config.block_size
        )
        failures = test.failures()
        if not failures:
            return "strict"
    if assembled.tiles is not None:
        assembled.tiles.sizes = ()
    log.warning(
        "exactness is fast, not strict: rows depend on their neighbours here (%s)",
        ", ".join(failures),
    )
    return "fast"


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
