"""What an extra of the package brings, read from the installed metadata."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, packages_distributions, requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def closure(name: str, extras: frozenset[str] = frozenset()) -> set[str]:
    """Names of ``name`` with the extras and of all that they need."""
    seen: set[tuple[str, str]] = set()
    _collect(canonicalize_name(name), extras, seen)
    return {distribution for distribution, _ in seen}


def _collect(name: str, extras: frozenset[str], seen: set[tuple[str, str]]) -> None:
    wanted = {(name, extra) for extra in ("", *extras)} - seen
    if not wanted:
        return
    seen |= wanted
    try:
        requirements = [Requirement(text) for text in requires(name) or ()]
    except PackageNotFoundError:
        return
    for requirement in requirements:
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for _, extra in wanted):
            dependency = canonicalize_name(requirement.name)
            _collect(dependency, frozenset(requirement.extras), seen)


def top_level_modules_outside(distributions: set[str]) -> set[str]:
    """Installed top-level modules that none of the distributions has."""
    return {
        module
        for module, owners in packages_distributions().items()
        if not {canonicalize_name(owner) for owner in owners} & distributions
    }
