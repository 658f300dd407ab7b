#!/usr/bin/env bash
# Fills compose/offline/wheelhouse with the wheels of all images, by the pip and the index of this
# machine, for builds that reach no index. PYTHON is a Python 3.11 with pip, as images have.
# torch is the CPU build; TORCH_INDEX is asked for it only if pip does not find it anyway.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python=${PYTHON:-python3}
torch=${TORCH:-torch==2.13.0+cpu}
torch_index=${TORCH_INDEX-https://download.pytorch.org/whl/cpu}
if "$python" -m pip index versions torch 2>/dev/null | grep -cF "${torch#torch==}" >/dev/null; then
    torch_index=
fi
target=compose/offline/wheelhouse
requirements=$(mktemp)
trap 'rm -f "$requirements"' EXIT

"$python" services/requirements_of.py gateway scheduler candidates verifier > "$requirements"
# redis needs it on the Python of Debian 12, whatever this machine's is.
echo async-timeout >> "$requirements"
"$python" -m pip download --disable-pip-version-check --quiet --only-binary=:all: --dest "$target" \
    ${torch_index:+--extra-index-url "$torch_index"} "$torch" -r "$requirements"
echo "$(find "$target" -name '*.whl' | wc -l) wheels, $(du -sh "$target" | cut -f1)"
