"""Where things are in the repository."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PORTIONS = (ROOT / "shared" / "dspark", ROOT / "services" / "dspark")
GENERATED = ROOT / "shared" / "dspark" / "v1"
PROTOS = ROOT / "protos"


def sources() -> list[Path]:
    """Every Python file of the product that a person wrote."""
    return sorted(
        path
        for portion in PORTIONS
        for path in portion.rglob("*.py")
        if GENERATED not in path.parents
    )


def module_name(path: Path) -> str:
    """``services/dspark/verifier/engine.py`` is ``dspark.verifier.engine``."""
    parts = path.relative_to(ROOT).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
