"""One line of JSON for each question, as its arguments: `{"ask": "request", "jsonrpc_id": "1"}` → `{"status": …}`."""

import json
import sys

import django


def main() -> None:
    django.setup()
    from django.db import close_old_connections

    from tests.acceptance.answers import changes, engines, requests  # models, which want Django set up

    answers = {**requests.ANSWERS, **engines.ANSWERS, **changes.ANSWERS}
    for line in sys.stdin:
        close_old_connections()  # the database may have been restarted since the last question
        question = json.loads(line)
        sys.stdout.write(json.dumps(answers[question.pop("ask")](**question)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
