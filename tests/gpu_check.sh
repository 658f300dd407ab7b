#!/usr/bin/env bash
# Checks DSpark on a CUDA machine in a few minutes: tests marked gpu, then the time of a pass by rows.
#   tests/gpu_check.sh [MODEL_DIR]
# Needs Python 3.11 or newer with torch, transformers, safetensors, numpy and pytest; installs nothing.
# PYTHON names another interpreter. flash-attn is tested where it is installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-python3}
export PYTHONPATH=$PWD/shared:$PWD/services:$PWD/tests

"$python" - <<'PY'
import sys

import torch

if not torch.cuda.is_available():
    sys.exit("error: torch sees no CUDA device")
print(torch.cuda.get_device_name(), "torch", torch.__version__, "CUDA", torch.version.cuda)
PY
"$python" -m pytest -q -m gpu -p no:cacheprovider --override-ini addopts=--import-mode=importlib \
    --override-ini filterwarnings=ignore tests/gpu

if [[ $# -gt 0 ]]; then
    model=$1
else
    model=$(mktemp -d)
    trap 'rm -rf "$model"' EXIT
    echo "no MODEL_DIR given: measuring a random Llama of 135 million parameters"
    "$python" -m harness.random_llama "$model"
fi
for dtype in bf16 fp32; do
    "$python" tests/bench/step_profile.py --model "$model" --device cuda --weight-dtype "$dtype" \
        --rows 1,2,4,8,16,32,64,128 --contexts 128,1024
done
