#!/usr/bin/env bash
# Checks DSpark on a CUDA machine in a few minutes: tests marked gpu, then the time of a pass by rows.
#   tests/gpu_check.sh [MODEL_DIR]
# Needs Python 3.11 or newer with torch (and its triton), transformers, safetensors, numpy and pytest;
# installs nothing. PYTHON names another interpreter. flash-attn is tested where it is installed.
# DSPARK_TEST_DEVICE=cpu runs the tests alone, on the CPU with stand-ins: it checks the tests themselves.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-python3}
export PYTHONPATH=$PWD/shared:$PWD/services:$PWD/tests

if [[ ${DSPARK_TEST_DEVICE:-cuda} == cuda* ]]; then
    "$python" - <<'PY'
import sys

import torch

if not torch.cuda.is_available():
    sys.exit("error: torch sees no CUDA device")
print(torch.cuda.get_device_name(), "torch", torch.__version__, "CUDA", torch.version.cuda)
PY
fi
"$python" -m pytest -q -m gpu -p no:cacheprovider --override-ini addopts=--import-mode=importlib \
    --override-ini filterwarnings=ignore tests/gpu
[[ ${DSPARK_TEST_DEVICE:-cuda} == cuda* ]] || exit 0

if [[ $# -gt 0 ]]; then
    model=$1
else
    model=$(mktemp -d)
    trap 'rm -rf "$model"' EXIT
    echo "no MODEL_DIR given: measuring a random Llama of 135 million parameters"
    "$python" -m harness.random_llama "$model"
fi
# The first line has all that --attention auto gives; the others say what each part of it is worth.
for options in "" "--no-cuda-graphs" "--attention torch" "--weight-dtype fp32"; do
    echo "step_profile $options"
    # shellcheck disable=SC2086
    "$python" tests/bench/step_profile.py --model "$model" --device cuda --weight-dtype bf16 $options \
        --rows 1,4,8,16,32,64,128 --contexts 128,1024 --repeats 10
done
