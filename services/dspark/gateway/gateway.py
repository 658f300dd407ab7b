"""The parts that both fronts share, put together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dspark.gateway.admission import Admission
from dspark.gateway.api_keys import ApiKeys
from dspark.gateway.chat_prompts import ChatPrompts, ChatSettings
from dspark.gateway.config import GatewayConfig
from dspark.gateway.generation import GenerationService
from dspark.gateway.grammar_checker import GrammarChecker
from dspark.gateway.lifecycle import Lifecycle
from dspark.gateway.metrics import GatewayMetrics
from dspark.gateway.scheduler_monitor import SchedulerMonitor
from dspark.gateway.template_files import load_chat_templates
from dspark.gateway.template_process import TemplateLimits
from dspark.gateway.template_renderer import ProcessRenderer
from dspark.gateway.token_source import TokenSource
from dspark.gateway.tokenizer import TextTokenizer, special_tokens


@dataclass(frozen=True)
class Gateway:
    """One gateway process without its sockets."""

    config: GatewayConfig
    source: TokenSource
    tokenizer: TextTokenizer
    monitor: SchedulerMonitor
    admission: Admission
    generation: GenerationService
    metrics: GatewayMetrics
    lifecycle: Lifecycle
    api_keys: ApiKeys
    grammars: GrammarChecker
    renderer: ProcessRenderer

    @property
    def is_ready(self) -> bool:
        return self.monitor.is_ready and not self.lifecycle.is_draining


def make_gateway(config: GatewayConfig, source: TokenSource) -> Gateway:
    """Reads the model's folder; raises ValueError that names what is wrong with it.

    Raises SettingError for a file of API keys that cannot be used.
    """
    model_dir = Path(config.model_dir)
    tokenizer = TextTokenizer(model_dir)
    renderer = ProcessRenderer(TemplateLimits(seconds=config.chat_template_timeout_s))
    chats = ChatPrompts(
        load_chat_templates(model_dir, special_tokens(model_dir, tokenizer)),
        renderer,
        ChatSettings(config.tool_parser, config.reasoning_parser, config.allow_chat_template),
        tokenizer.has_token,
    )
    monitor = SchedulerMonitor(source)
    lifecycle = Lifecycle()
    metrics = GatewayMetrics(config.model_name, lifecycle)
    grammars = GrammarChecker(model_dir / "tokenizer.json")
    timeout_s = config.request_timeout_s or None
    return Gateway(
        config=config,
        source=source,
        tokenizer=tokenizer,
        monitor=monitor,
        admission=Admission(config, tokenizer, chats, monitor, grammars),
        generation=GenerationService(source, tokenizer, metrics.books, lifecycle, timeout_s),
        metrics=metrics,
        lifecycle=lifecycle,
        api_keys=ApiKeys(config.api_keys_file),
        grammars=grammars,
        renderer=renderer,
    )
