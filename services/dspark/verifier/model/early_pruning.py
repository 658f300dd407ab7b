"""Whether passes are pruned: by the setting, the model, the self-test and the measured costs."""

from __future__ import annotations

import logging

from dspark.verifier.config import VerifierConfig
from dspark.verifier.interfaces import ModelRefused
from dspark.verifier.model.cut_costs import measure_cut_costs
from dspark.verifier.model.cut_trial import cut_problem
from dspark.verifier.model.target_model import CutRunner, CuttingModel, Runner
from dspark.verifier.pruning.judge import LearntJudge
from dspark.verifier.pruning.occasions import EveryPass, Occasions, WhereItPays
from dspark.verifier.pruning.pruner import NoPruning, Pruner
from dspark.verifier.pruning.restricted_logits import RestrictedLogits
from dspark.verifier.pruning.savings import savings_of

log = logging.getLogger(__name__)

# Most of the accepted tokens that may be lost.
MAX_LOSS = 0.01
# Where the choice is free, shares of the layers behind which a pass may be cut.
_SHARES = (0.25, 0.5, 0.75)


def pruner_for(config: VerifierConfig, runner: Runner, exactness: str, max_rows: int) -> Pruner:
    """The policy that ``--early-pruning`` means here. Raises ModelRefused for a layer that the
    model does not have.
    """
    if config.early_pruning == "off":
        return NoPruning()
    cutting = runner.model
    if not isinstance(cutting, CuttingModel):
        return _without(config, "the model's passes cannot be cut")
    layer = config.pruning_layer
    if layer is not None and layer >= cutting.num_layers:
        raise ModelRefused(
            f"--early-pruning {layer} must be below the model's {cutting.num_layers} layers"
        )
    if exactness != "strict":
        return _without(config, "rows depend on their neighbours")
    bound = CutRunner(cutting, runner.kv_cache)
    problem = cut_problem(runner.forward, bound, runner.kv_cache)
    if problem is not None:
        return _without(config, problem)
    occasions = _occasions(layer, runner, bound, max_rows)
    if occasions is None:
        return NoPruning()
    judges = {layer: LearntJudge(MAX_LOSS) for layer in occasions.layers}
    return RestrictedLogits(bound, occasions, judges)


def _without(config: VerifierConfig, problem: str) -> NoPruning:
    """Asked for by number, pruning is missed; else it is merely not there."""
    level = logging.INFO if config.pruning_layer is None else logging.WARNING
    log.log(level, "passes are not pruned: %s", problem)
    return NoPruning()


def _occasions(
    layer: int | None, runner: Runner, cutting: CutRunner, max_rows: int
) -> Occasions | None:
    """None if no pass of up to ``max_rows`` rows could gain."""
    if layer is not None:
        return EveryPass(layer)
    pool, num_layers = runner.kv_cache, cutting.num_layers
    costs = measure_cut_costs(runner.forward, cutting, pool.num_slots, pool.block_size, max_rows)
    layers = sorted({max(1, round(share * num_layers)) for share in _SHARES} - {num_layers})
    if not costs or not layers:
        return None
    occasions = WhereItPays(savings_of(costs), layers, MAX_LOSS)
    if not any(occasions.hopes(rows, rows - 1) for rows in range(2, max_rows + 1)):
        log.info("passes are not pruned: it would save nothing at up to %d rows", max_rows)
        return None
    return occasions
