"""The parts that both fronts share, put together."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from starlette.requests import Request

from dspark.errors import DSparkError
from dspark.gateway.admission import Admission
from dspark.gateway.answers import Answers
from dspark.gateway.api_keys import ApiKeys
from dspark.gateway.chat_prompts import ChatPrompts, ChatSettings, tools_problem
from dspark.gateway.config import GatewayConfig
from dspark.gateway.generation import GenerationService
from dspark.gateway.grammar_checker import GrammarChecker
from dspark.gateway.json_body import read_body
from dspark.gateway.lifecycle import Lifecycle
from dspark.gateway.metrics import GatewayMetrics
from dspark.gateway.scheduler_monitor import SchedulerMonitor
from dspark.gateway.template_files import load_chat_templates
from dspark.gateway.template_process import TemplateLimits
from dspark.gateway.template_renderer import ProcessRenderer
from dspark.gateway.token_source import SchedulerStatus, TokenSource
from dspark.gateway.tokenization import Tokenization
from dspark.gateway.tokenizer import TextTokenizer, special_tokens

log = logging.getLogger(__name__)
Body = TypeVar("Body")


@dataclass(frozen=True, slots=True)
class GatewayStatus:
    """How the server is; ``problem`` is empty while requests are served."""

    version: str
    problem: str
    num_answering: int
    # None while no scheduler answers
    engine: SchedulerStatus | None


@dataclass(frozen=True)
class Gateway:
    """One gateway process without its sockets."""

    config: GatewayConfig
    source: TokenSource
    tokenizer: TextTokenizer
    monitor: SchedulerMonitor
    admission: Admission
    answers: Answers
    tokenization: Tokenization
    metrics: GatewayMetrics
    lifecycle: Lifecycle
    api_keys: ApiKeys
    grammars: GrammarChecker
    renderer: ProcessRenderer

    async def read_body(self, request: Request, parse: Callable[[Mapping[str, Any]], Body]) -> Body:
        """What ``parse`` makes of a body's JSON object; raises DSparkError for one over a limit."""
        limits = self.config.request_limits

        def checked(fields: Mapping[str, Any]) -> Body:
            limits.check(fields)
            return parse(fields)

        return await read_body(request, self.config.body_limits, checked)

    @property
    def problem(self) -> str:
        """Why requests are not served; empty while they are."""
        if self.lifecycle.is_draining:
            return "draining"
        problem = self.monitor.problem
        return "" if problem is None else problem.for_strangers().message

    async def status(self) -> GatewayStatus:
        engine: SchedulerStatus | None = None
        with contextlib.suppress(DSparkError):
            engine = await self.source.status()
        return GatewayStatus(version("dspark"), self.problem, self.lifecycle.num_running, engine)


def make_gateway(config: GatewayConfig, source: TokenSource) -> Gateway:
    """Reads the model's folder; raises ValueError that names what is wrong with it.

    Raises SettingError for a file of API keys that cannot be used.
    """
    model_dir = Path(config.model_dir)
    tokenizer = TextTokenizer(model_dir)
    renderer = ProcessRenderer(TemplateLimits(seconds=config.chat_template_timeout_s))
    templates = load_chat_templates(model_dir, special_tokens(model_dir, tokenizer))
    settings = ChatSettings(config.tool_parser, config.reasoning_parser, config.allow_chat_template)
    if problem := tools_problem(settings, templates):
        log.warning(
            "tool parser %s: %s, so requests with tools are refused", config.tool_parser, problem
        )
    chats = ChatPrompts(templates, renderer, settings, tokenizer)
    monitor = SchedulerMonitor(source)
    lifecycle = Lifecycle()
    metrics = GatewayMetrics(config.model_name, lifecycle)
    grammars = GrammarChecker(model_dir / "tokenizer.json")
    timeout_s = config.request_timeout_s or None
    admission = Admission(config, tokenizer, chats, monitor, grammars)
    generation = GenerationService(source, tokenizer, metrics.books, lifecycle, timeout_s)
    return Gateway(
        config=config,
        source=source,
        tokenizer=tokenizer,
        monitor=monitor,
        admission=admission,
        answers=Answers(admission, generation, lifecycle, metrics.books, config.max_choices),
        tokenization=Tokenization(admission, tokenizer, monitor),
        metrics=metrics,
        lifecycle=lifecycle,
        api_keys=ApiKeys(config.api_keys_file),
        grammars=grammars,
        renderer=renderer,
    )
