"""Answers each question with a line of JSON: `{"ask": "request", "jsonrpc_id": "1"}` → `{"answer": {…}}`.

The other members of a question are its arguments. A question that fails is answered with `{"raised": traceback}`, and
the process goes on, because the next question may come from another test.
"""

import json
import sys
import traceback
from collections.abc import Callable
from typing import Any

import django


def main() -> None:
    django.setup()
    from django.db import close_old_connections

    from tests.support.site.answers import changes, engines, requests  # models, which need Django to be set up

    answers = {**requests.ANSWERS, **engines.ANSWERS, **changes.ANSWERS}
    for line in sys.stdin:
        close_old_connections()  # the database may have been restarted since the last question
        question = json.loads(line)
        sys.stdout.write(_answered(answers[question.pop("ask")], question) + "\n")
        sys.stdout.flush()


def _answered(function: Callable[..., Any], details: dict[str, Any]) -> str:
    try:
        return json.dumps({"answer": function(**details)})
    except Exception:
        return json.dumps({"raised": traceback.format_exc()})


if __name__ == "__main__":
    main()
