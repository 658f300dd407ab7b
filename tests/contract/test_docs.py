"""The documentation points at things that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.repository import PORTIONS, ROOT, sources

PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(page for folder in ("docs", "k8s", "compose") for page in (ROOT / folder).rglob("*.md")),
    ]
)
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
FOLDERS = (".ci", "compose", "docs", "k8s", "protos", "services", "shared", "tests")
FILES = [
    f"/{path.relative_to(ROOT)}"
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*")
    if path.is_file()
]


def exists_somewhere(name: str) -> bool:
    """Whether a file's path ends so; NAME stands for a file that is to be written."""
    return "NAME" in name or any(file.endswith(f"/{name}") for file in FILES)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?://|#|mailto:)([^)#\s]+)", page.read_text())
    assert not [target for target in targets if not (page.parent / target).exists()]


def anchors(page: Path) -> set[str]:
    """What the page's headings are called in links."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_to_headings_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://)([^)#\s]*)#([^)\s]+)\)", page.read_text())
    targets = [(page.parent / file if file else page, anchor) for file, anchor in links]
    assert not [anchor for target, anchor in targets if anchor not in anchors(target)]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_named_files_exist(page: Path) -> None:
    named = set(
        re.findall(r"`((?:[\w.-]+/)+[\w.-]*\.(?:py|proto|cpp|h|md|yml))`", page.read_text())
    )
    assert not sorted(name for name in named if not exists_somewhere(name))


def test_the_architecture_names_every_package() -> None:
    packages = {
        str(path.parent.relative_to(portion))
        for path in sources()
        for portion in PORTIONS
        if portion in path.parents and path.parent != portion
    }
    assert not sorted(package for package in packages if f"{package}/" not in ARCHITECTURE)


def listed_modules() -> set[str]:
    """The files that the architecture's tables of modules name."""
    listed = set()
    folder = ""
    for line in ARCHITECTURE.partition("## Modules")[2].splitlines():
        if match := re.match(r"`((?:shared|services)/[\w/]+)/`", line):
            folder = match[1]
        elif match := re.match(r"\| `([\w.]+)` \|", line):
            name = match[1] if "." in match[1] else f"{match[1]}.py"
            listed.add(f"{folder}/{name}")
    return listed


def test_the_listed_modules_exist() -> None:
    assert not sorted(name for name in listed_modules() if not (ROOT / name).is_file())


def test_every_module_is_listed() -> None:
    modules = {str(path.relative_to(ROOT)) for path in sources() if path.stem != "__init__"}
    assert not sorted(modules - listed_modules())
