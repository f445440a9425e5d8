#!/usr/bin/env bash
# The MLflow UI over this workspace's own store: http://127.0.0.1:5000
# Another port: PORT=5001 mlflow/server.sh.  Ctrl-C stops it.  Only its own
# pages, and programs, may ask it.
set -euo pipefail
PATH="$(cd "$(dirname "$0")/.." && pwd)/.venv/bin:$PATH"
cd "${STORE:-$(dirname "$0")}"  # so that no path needs quoting below
port=${PORT:-5000}
export MLFLOW_DISABLE_TELEMETRY=true
export MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false  # 2 processes, not 10
# The first experiment of a store of ours; without the rest it opens on traces.
echo "runs: http://127.0.0.1:$port/#/experiments/1/runs?workflowType=machine_learning"
exec mlflow server \
  --host 127.0.0.1 --port "$port" --workers 1 \
  --allowed-hosts "127.0.0.1:$port,localhost:$port" \
  --cors-allowed-origins "http://127.0.0.1:$port,http://localhost:$port" \
  --backend-store-uri sqlite:///mlflow.db \
  --default-artifact-root ./artifacts
