"""``dspark train``: makes the weights of learned sources from text that the target writes."""

from __future__ import annotations

import argparse
from pathlib import Path

from dspark.cli.failure import CliError
from dspark.cli.models.prepare import prepare
from dspark.cli.progress import Progress
from dspark.cli.train_inputs import check_inputs
from dspark.cli.training_config import TrainConfig
from dspark.config import add_arguments, from_namespace

NAME = "train"
HELP = "train a learned source for a target on text that the target writes"
SOURCES = {
    "ngram": "a table of what follows the last tokens",
    "medusa": "heads that guess several places ahead from the target's hidden states",
    "draft": "a small copy of the target, which decodes ahead",
    "block": "a small network that guesses a block of tokens from the target's hidden states",
}
_REPORT = "report"
_REPORT_HELP = "write how trainings went as one HTML file"
_USAGE = 2


def add_parser(parser: argparse.ArgumentParser) -> None:
    sources = parser.add_subparsers(dest="source", metavar="SOURCE", required=True)
    for name, text in SOURCES.items():
        source = sources.add_parser(name, help=text, description=text)
        _add_files(source)
        add_arguments(source, TrainConfig)
    report = sources.add_parser(_REPORT, help=_REPORT_HELP, description=_REPORT_HELP)
    report.add_argument("--out", type=Path, required=True, help="directory of the trainings")


def _add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help='prompts to answer, {"prompt": ...} or {"user": ...} a line of a .jsonl file, or a '
        "text to go on with; may be given several times",
    )
    parser.add_argument(
        "--exclude",
        type=Path,
        action="append",
        default=[],
        metavar="FILE.json",
        help="prompts of a benchmark: requests that share six words with one are left out; "
        "may be given several times",
    )
    parser.add_argument(
        "--prompt-template",
        action="append",
        default=[],
        metavar="TEXT",
        help="a prompt with {user} in it; may be given several times; unset: the chat template",
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.source == _REPORT:
        return _write_report(arguments.out)
    config = from_namespace(TrainConfig, arguments)
    if not arguments.data and not config.self_generate:
        raise CliError("give --data FILE, --self-generate N, or both", _USAGE)
    check_inputs(
        arguments.data,
        arguments.exclude,
        arguments.prompt_template,
        config.start_from,
        Path(config.out),
    )
    progress = Progress()
    model = prepare(config.target, progress)
    # What follows takes seconds to import.
    from dspark.training.errors import TrainingFailed
    from dspark.training.job import TrainingJob
    from dspark.verifier.interfaces import ModelRefused

    job = TrainingJob(
        source=arguments.source,
        model_name=model.name,
        model_dir=model.directory,
        out=Path(config.out),
        data=tuple(arguments.data),
        exclude=tuple(arguments.exclude),
        prompt_templates=tuple(arguments.prompt_template),
        self_generate=config.self_generate,
        max_answer_tokens=config.max_answer_tokens,
        texts_at_once=config.texts_at_once,
        weight_dtype=config.weight_dtype,
        threads=config.threads,
        seed=config.seed,
        steps=config.steps,
        start_from=Path(config.start_from) if config.start_from else None,
        draft_layers=config.draft_layers,
        table_contexts=config.table_contexts,
    )
    try:
        with progress.part("writing texts") as part:
            texts = job.collect(part.update)
        with progress.part(f"training {job.source}") as part:
            report = job.train(texts, part.update)
    except (TrainingFailed, ModelRefused) as error:
        raise CliError(str(error)) from error
    for line in report:
        print(line)
    return 0


def _write_report(out: Path) -> int:
    from dspark.training.errors import TrainingFailed
    from dspark.training.report import write_report

    try:
        print(write_report(out))
    except (OSError, ValueError, TrainingFailed) as error:
        raise CliError(str(error)) from error
    return 0
