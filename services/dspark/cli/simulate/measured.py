"""The cost table and sizes of a verifier that runs."""

from __future__ import annotations

import dataclasses

from dspark.cli.failure import CliError
from dspark.cli.simulate.verifier_model import VerifierModel
from dspark.errors import DSparkError
from dspark.scheduler.verifier_client import VerifierClient
from dspark.step import VerifierInfo

_TIMEOUT_S = 5.0


async def measured_verifier(address: str, like: VerifierModel) -> VerifierModel:
    """``like`` with what the verifier at the address says of itself. Raises CliError."""
    client = VerifierClient(address, _TIMEOUT_S)
    try:
        info = await client.info()
    except DSparkError as error:
        raise CliError(f"--measure {address}: {error.message}") from error
    finally:
        await client.close()
    if not info.verify_costs:
        raise CliError(f"--measure {address}: the verifier measured no cost table")
    return with_info(like, info)


def with_info(like: VerifierModel, info: VerifierInfo) -> VerifierModel:
    """The same costs beside the pass, with the sizes and the table of a verifier."""
    return dataclasses.replace(
        like,
        num_blocks=info.num_blocks,
        block_size=info.block_size,
        max_step_rows=info.max_step_rows,
        max_model_len=info.max_model_len,
        verify_costs=info.verify_costs,
        roofline=None,
        device=info.device,
        computes_ahead=info.computes_ahead,
    )
