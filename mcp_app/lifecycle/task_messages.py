"""A task's message as Celery's own `send_task` makes it, at half its cost: what is the same each time is said at once.

Left out is what nobody here has use for: an `AsyncResult` and what the result backend does for it, the pretty-printing
of arguments, a queue's declaration on a connection that has declared it. What looks at messages sees them all the same:
Celery's signals are sent. Refuses what it does not know: routes of the site's own, a task that sends, a `send_task`
that somebody has wrapped; there Celery does it.
"""
# mypy: allow-untyped-calls
# kombu and Celery type a part of themselves

from collections.abc import Sequence
from typing import Final

from celery import Celery
from kombu.entity import Queue
from kombu.messaging import Producer

_CELERYS_OWN: Final = Celery.send_task


def send(app: Celery, producer: Producer, name: str, args: Sequence[str], *, task_id: str, queue: str) -> None:
    """Publish once, without a retry; raises what the transport raises."""
    if not _is_plain(app):
        app.send_task(name, args, task_id=task_id, queue=queue, producer=producer, retry=False, ignore_result=False)
        return
    message = app.amqp.create_task_message(
        task_id,
        name,
        args,
        reply_to=app.thread_oid,
        create_sent_event=app.conf.task_send_sent_event,
        argsrepr=repr(args),
        kwargsrepr="{}",
    )
    known = app.amqp.queues[queue]
    declare = [] if _is_declared(known, producer) else [known]
    app.amqp.send_task_message(producer, name, message, queue=known, declare=declare, retry=False)


def _is_plain(app: Celery) -> bool:
    wrapped = Celery.send_task is not _CELERYS_OWN or hasattr(_CELERYS_OWN, "__wrapped__")
    own = type(app).send_task is not Celery.send_task or "send_task" in vars(app)
    return not (wrapped or own or app.amqp.router.routes or app.current_worker_task)


def _is_declared(queue: Queue, producer: Producer) -> bool:
    """As kombu decides it, for a price: whether this connection has declared the queue since it was made."""
    return queue.can_cache_declaration and hash(queue) in producer.channel.connection.client.declared_entities
