"""``python services/requirements_of.py EXTRA...``: what pip installs for these extras, a line each.

Images install it before the sources are copied, so that an edit of the sources installs nothing.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

_PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
_OWN_EXTRAS = re.compile(r"dspark\[(?P<extras>[\w,\s-]+)\]")


def requirements_of(extras: list[str]) -> list[str]:
    """The base requirements and those of ``extras``, each once. Raises KeyError for no extra."""
    project = tomllib.loads(_PYPROJECT.read_text())["project"]
    wanted = list(project["dependencies"])
    for extra in extras:
        for requirement in project["optional-dependencies"][extra]:
            if own := _OWN_EXTRAS.fullmatch(requirement):
                wanted += requirements_of([name.strip() for name in own["extras"].split(",")])
            else:
                wanted.append(requirement)
    return list(dict.fromkeys(wanted))


if __name__ == "__main__":
    print("\n".join(requirements_of(sys.argv[1:])))
