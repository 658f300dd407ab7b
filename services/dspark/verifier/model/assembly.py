"""Chooses how a checkpoint runs, and proves the choice against the model's own forward pass."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import torch

from dspark.verifier.attention.registry import BACKENDS
from dspark.verifier.interfaces import ModelRefused, Progress
from dspark.verifier.kv.kv_cache import KvCache
from dspark.verifier.model.attention_survey import AttentionSurvey
from dspark.verifier.model.attention_trial import problem_with
from dspark.verifier.model.checkpoint import Checkpoint
from dspark.verifier.model.decoder_parts import UnfitStructure, decoder_parts
from dspark.verifier.model.kernels import torch_compute_dtype
from dspark.verifier.model.linears import NativeLinear, RowTiledLinear, RowTiles, replace_linears
from dspark.verifier.model.native_decoder import NativeDecoder
from dspark.verifier.model.reference import FirstLayers, largest_difference
from dspark.verifier.model.refusals import refusing
from dspark.verifier.model.stock_model import StockModel
from dspark.verifier.model.target_model import TargetModel
from dspark.verifier.model.weight_format import WeightFormat
from dspark.verifier.native.library import Team, instruction_set

log = logging.getLogger(__name__)

_DTYPE_NAMES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}


@dataclass(frozen=True, slots=True)
class Assembled:
    """A model ready to run; ``tiles`` is set where torch's matmuls need row tiles."""

    model: TargetModel
    kernel_class: str
    tiles: RowTiles | None


def assemble(
    checkpoint: Checkpoint,
    form: WeightFormat,
    survey: AttentionSurvey,
    kv_cache: KvCache,
    backends: tuple[str, ...],
    team: Team | None,
    num_threads: int,
    progress: Progress,
) -> Assembled:
    """The fastest way that fits the model, with the first attention backend that works.

    Raises ModelRefused. The checkpoint's model is taken apart: its weights are freed as they are
    packed.
    """
    device, backend = kv_cache.device, backends[0]
    progress("packing weights and checking them against the model's own forward pass")
    kind = type(checkpoint.model).__name__
    with refusing(f"{kind} does not run as models of transformers do"):
        first_layers = FirstLayers(checkpoint.model, survey, form)
        reference = first_layers.logits()
    if team is not None and backend == "native":
        decoder = _native_decoder(checkpoint, form, survey, team, first_layers, reference)
        if decoder is not None:
            return Assembled(decoder, _native_class(form), None)
    cpu = torch.device("cpu")
    check_backend = BACKENDS[backend if device.type == "cpu" else "torch"](cpu, num_threads)
    with refusing(f"{kind} does not run over flat rows"):
        batch, cache = first_layers.probe()
        stock = StockModel(first_layers.model, check_backend, torch.float32)
        difference = largest_difference(stock.forward(batch, cache), reference)
    if difference is not None:
        raise ModelRefused(
            f"{kind} computes something else through the attention interface than by itself "
            f"(logits differ by {difference:.1%})"
        )
    if team is not None:
        return _stock_native(checkpoint, form, backend, team, num_threads)
    return _stock_torch(checkpoint, form, backends, kv_cache, num_threads)


def _native_decoder(
    checkpoint: Checkpoint,
    form: WeightFormat,
    survey: AttentionSurvey,
    team: Team,
    first_layers: FirstLayers,
    reference: Any,
) -> NativeDecoder | None:
    kind = type(checkpoint.model).__name__
    try:
        parts = decoder_parts(checkpoint.model, survey)
        decoder = NativeDecoder(parts, form, team)
    except UnfitStructure as reason:
        log.info("%s runs through its own forward pass: %s", kind, reason)
        return None
    with refusing(f"{kind} does not fit its config"):
        batch, cache = first_layers.probe()
        logits = decoder.forward(batch, cache, num_layers=first_layers.num_layers)
    difference = largest_difference(logits, reference)
    if difference is not None:
        log.info("%s runs through its own forward pass: it is not a plain decoder", kind)
        return None
    _free_layers(checkpoint.model)
    return decoder


def _free_layers(model: Any) -> None:
    """Drop what was packed; the embedding stays with the decoder."""
    model.base_model.layers = torch.nn.ModuleList()
    model.set_output_embeddings(torch.nn.Identity())
    # Weights are views of the mapped file; one that stays would keep all of it resident.
    embed = model.get_input_embeddings()
    embed.weight = torch.nn.Parameter(embed.weight.detach().clone(), requires_grad=False)


def _native_class(form: WeightFormat) -> str:
    return f"native-{instruction_set()}-{form.name}w-{form.activations}a"


def _stock_native(
    checkpoint: Checkpoint, form: WeightFormat, backend: str, team: Team, num_threads: int
) -> Assembled:
    model = checkpoint.model
    replace_linears(model, form, lambda linear, form: NativeLinear(linear, form, team))
    embed = model.get_input_embeddings()
    for module in model.modules():
        if module is not embed:
            for parameter in module.parameters(recurse=False):
                parameter.data = parameter.data.float()
    made = BACKENDS[backend](torch.device("cpu"), num_threads)
    stock = StockModel(model, made, torch.float32)
    return Assembled(stock, f"{_native_class(form)}-stock-{backend}", None)


def _stock_torch(
    checkpoint: Checkpoint,
    form: WeightFormat,
    backends: tuple[str, ...],
    kv_cache: KvCache,
    num_threads: int,
) -> Assembled:
    device = kv_cache.device
    dtype = torch_compute_dtype(checkpoint.dtype, device)
    model = checkpoint.model.to(device=device, dtype=dtype)
    tiles = RowTiles()
    replace_linears(model, form, lambda linear, form: RowTiledLinear(linear, form, tiles))
    backend, stock = _first_that_works(model, backends, kv_cache, dtype, num_threads)
    name = f"torch-{device.type}-{_DTYPE_NAMES[dtype]}-{_torch_kernels(device)}"
    if form.load_dtype is None:
        name += f"-{form.name}w"
    return Assembled(stock, name if backend == "torch" else f"{name}-{backend}", tiles)


def _torch_kernels(device: torch.device) -> str:
    """What torch chooses its kernels by: its version, and the model of GPU or CPU."""
    is_cuda = device.type == "cuda"
    # torch.backends.cpu lacks annotations.
    cpu: Any = torch.backends.cpu
    machine = torch.cuda.get_device_name(device) if is_cuda else cpu.get_cpu_capability()
    return f"{torch.__version__}-{machine.replace(' ', '_')}"


def _first_that_works(
    model: Any,
    backends: tuple[str, ...],
    kv_cache: KvCache,
    dtype: torch.dtype,
    num_threads: int,
) -> tuple[str, StockModel]:
    """Plain torch needs no trial: it is what the others are compared with."""
    device = kv_cache.device
    reference = StockModel(model, BACKENDS["torch"](device, num_threads), dtype)
    problem: str | None = None
    for name in backends:
        if name == "torch":
            return name, reference
        try:
            candidate = StockModel(model, BACKENDS[name](device, num_threads), dtype)
        except ImportError as error:
            problem = str(error)
        else:
            problem = problem_with(candidate, reference, kv_cache)
            if problem is None:
                return name, candidate
        log.warning("attention %s does not work here: %s", name, problem)
    raise ModelRefused(f"--attention {backends[-1]} does not work here: {problem}")
