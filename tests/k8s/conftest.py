"""Every rendering that a user may start from."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.kubernetes.rendering import COMPONENTS, OVERLAYS, Rendered, compose, render

_OVERLAYS = sorted(path.name for path in OVERLAYS.iterdir())
# Components that need another one are rendered with it.
_NEEDS = {"cert-manager": ("mtls",)}
_COMPONENTS = sorted(path.name for path in COMPONENTS.iterdir())

Compose = Callable[..., Rendered]


@pytest.fixture(scope="session")
def composed(tmp_path_factory: pytest.TempPathFactory) -> Compose:
    """Renders an overlay with components, as ``compose`` does."""
    made: dict[tuple[object, ...], Rendered] = {}

    def rendered(*components: str, overlay: str = "cpu", more: str = "") -> Rendered:
        key = (overlay, more, *components)
        if key not in made:
            directory = tmp_path_factory.mktemp("overlay")
            made[key] = compose(directory, *components, overlay=overlay, more=more)
        return made[key]

    return rendered


@pytest.fixture(
    scope="session", params=[*_OVERLAYS, *(f"cpu+{component}" for component in _COMPONENTS)]
)
def rendered(request: pytest.FixtureRequest, composed: Compose) -> Rendered:
    """Each overlay, and each component on the overlay ``cpu``."""
    overlay, _, component = request.param.partition("+")
    if not component:
        return render(OVERLAYS / overlay)
    return composed(*_NEEDS.get(component, ()), component)
