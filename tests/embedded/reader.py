"""A process that consumes `load` from the folder and prints each body, a number, until it reads -1."""

# ruff: noqa: T201  (its output is what the test reads)

import sys

from kombu import Connection, Consumer, Queue

from mcp_app.embedded.broker import register

register()


def main(folder: str) -> None:
    bodies: list[int] = []
    with Connection("mcpfs://", transport_options={"folder": folder}) as connection:
        consumer = Consumer(connection.channel(), [Queue("load")], no_ack=True, accept=["json"])
        consumer.register_callback(lambda body, message: bodies.append(body))
        with consumer:
            print("consuming", flush=True)
            while -1 not in bodies:
                connection.drain_events(timeout=30)
    print(*bodies, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
