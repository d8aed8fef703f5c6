"""The Python and the curl that ask the same question."""

import json
import shlex
from typing import Any

from setwise.service.rights import API

_METHODS = {"top-k": "top_k", "histogram": "histogram", "count": "count", "sum": "sum"}


def python_snippet(url: str, asked: dict[str, Any], key: str) -> str:
    """Return a program for the Python client; under the same key it gets the same answer and pays nothing."""
    query, spend = dict(asked["query"]), dict(asked["spend"])
    method = _METHODS[query.pop("kind")]
    if spend.pop("kind") == "draws" and "threshold_delta" in spend:
        spend["delta"] = spend.pop("threshold_delta")
    given = {**query, **spend, "key": key}
    arguments = "".join(f"    {name}={value!r},\n" for name, value in given.items() if value is not None)
    return (
        "import os\n\nimport setwise\n\n"
        f'client = setwise.connect(\n    {url!r},\n    token=os.environ["SETWISE_TOKEN"],\n)\n'
        f"dataset = client.dataset({asked['dataset']!r}, account={asked['account']!r})\n"
        f"answer = dataset.{method}(\n{arguments})\n"
        "print(answer.to_csv())\n"
    )


def curl_snippet(url: str, asked: dict[str, Any], key: str) -> str:
    """Return a command for a shell that has the token in SETWISE_TOKEN."""
    body = json.dumps(asked, indent=2, ensure_ascii=False)
    return (
        f"curl --silent --show-error {shlex.quote(f'{url}{API}/queries')} \\\n"
        '  --header "Authorization: Bearer $SETWISE_TOKEN" \\\n'
        f"  --header {shlex.quote(f'Idempotency-Key: {key}')} \\\n"
        "  --header 'Content-Type: application/json' \\\n"
        f"  --data {shlex.quote(body)}\n"
    )
