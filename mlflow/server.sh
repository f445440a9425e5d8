#!/usr/bin/env bash
# The MLflow UI over this workspace's own store: http://127.0.0.1:5000
# Another port: PORT=5001 mlflow/server.sh.  Ctrl-C stops it.  Only its own
# pages, and programs, may ask it.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
port=${PORT:-5000} store=${STORE:-$PWD/mlflow}
export MLFLOW_DISABLE_TELEMETRY=true
export MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false  # 2 processes, not 10
if ! python -c "import socket; socket.create_server(('127.0.0.1', $port))" \
    2>/dev/null; then
  echo "port $port cannot be had: PORT=5001 mlflow/server.sh" >&2
  exit 1
fi
number=$(python - "$store/mlflow.db" 2>/dev/null <<'END'
import sqlite3, sys
from urllib.parse import quote
find = "SELECT experiment_id FROM experiments WHERE name = 'stylerl'"
store = sqlite3.connect(f"file:{quote(sys.argv[1])}?mode=ro", uri=True)
print(*store.execute(find).fetchone())
END
) || number=1  # what the first run will make
start=http://127.0.0.1:$port/#/experiments/$number
kind=workflowType=machine_learning  # else it opens on traces
quoted=$(python -c 'import sys, urllib.parse as at
print(at.quote(sys.argv[1]))' "$store")
database=${store//%/%25}
echo "runs:   $start/runs?$kind"
echo "models: $start/models?$kind&viewMode=CHART"
exec mlflow server \
  --host 127.0.0.1 --port "$port" --workers 1 \
  --allowed-hosts "127.0.0.1:$port,localhost:$port" \
  --cors-allowed-origins "http://127.0.0.1:$port,http://localhost:$port" \
  --backend-store-uri "sqlite:///${database//\?/%3F}/mlflow.db" \
  --default-artifact-root "file://$quoted/artifacts"
