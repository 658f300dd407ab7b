#!/usr/bin/env bash
# Fills compose/offline/wheelhouse with the wheels of all images, by the pip and the index of this
# machine, for builds that reach no index. PYTHON is a Python 3.11 with pip, as images have.
# torch is the CPU build: it comes from TORCH_INDEX unless pip already finds it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python=${PYTHON:-python3}
torch=${TORCH:-torch==2.13.0+cpu}
torch_index=${TORCH_INDEX-https://download.pytorch.org/whl/cpu}
target=compose/offline/wheelhouse
requirements=$(mktemp)
trap 'rm -f "$requirements"' EXIT

"$python" services/requirements_of.py gateway scheduler candidates verifier > "$requirements"
"$python" -m pip download --disable-pip-version-check --quiet --only-binary=:all: --dest "$target" \
    ${torch_index:+--extra-index-url "$torch_index"} "$torch" -r "$requirements"
echo "$(find "$target" -name '*.whl' | wc -l) wheels, $(du -sh "$target" | cut -f1)"
