#!/usr/bin/env bash
# The MLflow UI over this workspace's own store: http://127.0.0.1:5000
# Another port: PORT=5001 mlflow/server.sh.  Ctrl-C stops it.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
export MLFLOW_DISABLE_TELEMETRY=true
export MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false  # 2 processes, not 10
exec mlflow server \
  --host 127.0.0.1 --port "${PORT:-5000}" --workers 1 \
  --backend-store-uri "sqlite:///$PWD/mlflow/mlflow.db" \
  --default-artifact-root "file://$PWD/mlflow/artifacts"
