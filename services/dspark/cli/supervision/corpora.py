"""Whether the corpora that services are to use are there and fit the model."""

from __future__ import annotations

from dspark.candidates.sources.corpus_file import read_info
from dspark.candidates.sources.corpus_name import names_of, source_name
from dspark.cli.failure import CliError
from dspark.cli.models.model_tokenizer import tokenizer_digest
from dspark.cli.models.prepare import PreparedModel
from dspark.cli.services_config import ServicesConfig

_USAGE = 2


def check_corpora(config: ServicesConfig, model: PreparedModel) -> None:
    """Raises CliError for a corpus that is in no file and cannot be in Redis, or whose file is
    none or of another tokenizer.
    """
    candidates = config.candidates()
    files = candidates.corpus_files
    for name in names_of(candidates.sources):
        if name not in files and not config.redis_url:
            problem = f"give --corpus {name}=FILE, or --redis-url if it is in Redis"
            raise CliError(f"--sources {source_name(name)}: {problem}", _USAGE)
    for name, file in files.items():
        try:
            info = read_info(file)
        except ValueError as error:
            raise CliError(f"--corpus {name}={error}", _USAGE) from error
        if info.tokenizer != tokenizer_digest(model.directory):
            problem = f"is made with another tokenizer than that of {model.name}"
            raise CliError(f"--corpus {name}={file}: {problem}", _USAGE)
