"""A task's message as Celery's own `send_task` makes it, at a fraction of its cost: what is the same each time is made
once, by Celery and the broker's transport, and a message of it by putting its id in.

Left out is what nobody here has use for: an `AsyncResult` and what the result backend does for it, the pretty-printing
of arguments, a queue's declaration on a connection that has declared it. What looks at messages sees them all the same:
where somebody listens to Celery's signals, each message is made for them. Refuses what it does not know: routes of the
site's own, a task that sends, a `send_task` that somebody has wrapped; there Celery does it.
"""
# mypy: allow-untyped-calls
# kombu and Celery type a part of themselves

import json
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from celery import Celery, signals
from kombu.entity import Queue
from kombu.messaging import Producer
from kombu.transport import virtual


class Addressed(NamedTuple):
    """A message: one task, or several that share it."""

    task_ids: Sequence[str]
    queue: str


_CELERYS_OWN: Final = Celery.send_task
_LISTENED_TO: Final = (signals.before_task_publish, signals.after_task_publish, signals.task_sent)
_ID: Final = str(uuid.uuid4())
"""Stands in a form where a message has its id."""


class _Form(NamedTuple):
    """A message as a virtual transport takes it, in JSON, and where it goes."""

    text: str
    exchange: str
    routing_key: str


_Key = tuple[int, type, str, str]
"""A process, which a message names as its origin, a kind of channel, a task and a queue."""

_forms: WeakKeyDictionary[Celery, dict[_Key, _Form | None]] = WeakKeyDictionary()


def send(app: Celery, producer: Producer, name: str, tasks: Sequence[Addressed], batch: str = "") -> None:
    """Publish tasks whose one argument is their id, each once and without a retry; raises what the transport raises.

    Several that are to share a message do where it can be made of a form: it is one of the task `batch`, with an id of
    its own and without a result.
    """
    with _publishing(producer.channel, sum(len(task_ids) for task_ids, _ in tasks)) as publish:
        for task_ids, queue in tasks:
            form = _usable_form(app, producer, batch if len(task_ids) > 1 else name, queue)
            if form is not None:
                publish(_of(form, task_ids), exchange=form.exchange, routing_key=form.routing_key)
                continue
            for task_id in task_ids:
                if _is_plain(app):
                    _send_one(app, producer, name, task_id, app.amqp.queues[queue])
                else:
                    options = {"task_id": task_id, "queue": queue, "producer": producer, "retry": False}
                    app.send_task(name, (task_id,), ignore_result=False, **options)


def _of(form: _Form, task_ids: Sequence[str]) -> dict[str, Any]:
    """A message of one task, or of several."""
    own_id = task_ids[0] if len(task_ids) == 1 else str(uuid.uuid4())
    message: dict[str, Any] = json.loads(form.text.replace(_ID, own_id))
    if len(task_ids) > 1:
        _, *embedded = json.loads(message["body"])
        message["body"] = json.dumps([task_ids, *embedded])
        message["headers"] |= {"argsrepr": repr(tuple(task_ids)), "ignore_result": True}
    return message


def _usable_form(app: Celery, producer: Producer, name: str, queue: str) -> _Form | None:
    """What a message may be made of now; None where Celery is to make it."""
    if not _is_plain(app) or not _is_declared(known := app.amqp.queues[queue], producer):
        return None
    return _form(app, producer, name, known)


@contextmanager
def _publishing(channel: Any, count: int) -> Iterator[Callable[..., object]]:
    """How one message after another is published: where the transport takes several in one word, at the block's end."""
    if count == 1 or not hasattr(channel, "create_publish_batch"):
        yield channel.basic_publish
        return
    batch = channel.create_publish_batch(count)
    try:
        yield batch.publish
        batch.flush()
    finally:
        batch.close()


def _send_one(app: Celery, producer: Producer, name: str, task_id: str, queue: Queue) -> None:
    args = (task_id,)
    message = app.amqp.create_task_message(
        task_id,
        name,
        args,
        reply_to=app.thread_oid,
        create_sent_event=app.conf.task_send_sent_event,
        argsrepr=repr(args),
        kwargsrepr="{}",
    )
    declare = [] if _is_declared(queue, producer) else [queue]
    app.amqp.send_task_message(producer, name, message, queue=queue, declare=declare, retry=False)


def _form(app: Celery, producer: Producer, name: str, queue: Queue) -> _Form | None:
    """What is the same in all such messages; None where they are to be made one by one."""
    if any(signal.receivers for signal in _LISTENED_TO):
        return None
    own = _forms.setdefault(app, {})
    key = (os.getpid(), type(producer.channel), name, queue.name)
    if key not in own:
        own[key] = _made(app, producer, name, queue)
    return own[key]


def _made(app: Celery, producer: Producer, name: str, queue: Queue) -> _Form | None:
    if not isinstance(producer.channel, virtual.Channel) or app.conf.task_send_sent_event:
        return None
    recording = _Recording(producer.channel, auto_declare=False)
    _send_one(app, recording, name, _ID, queue)
    text = json.dumps(recording.message, default=str)
    # Not where anything of it is no JSON, or the id is not to be read in its body, as where that is signed or encoded.
    is_plain = recording.message["content-type"] == "application/json" and _is_call(recording.message["body"])
    return _Form(text, *recording.target) if is_plain and json.loads(text) == recording.message else None


def _is_call(body: Any) -> bool:
    """Whether a body has the arguments where Celery's protocol 2 has them."""
    try:
        args, *_ = json.loads(body)
    except (TypeError, ValueError):
        return False
    return bool(args == [_ID])


class _Recording(Producer):
    """Publishes nothing, and keeps the message that it was given."""

    message: Any = None
    target: tuple[str, str] = ("", "")

    def _publish(
        self,
        body: Any,
        priority: Any,
        content_type: str,
        content_encoding: str,
        headers: dict[str, Any],
        properties: dict[str, Any],
        routing_key: str,
        mandatory: bool,
        immediate: bool,
        exchange: str,
        *args: Any,
        **options: Any,
    ) -> None:
        self.message = self.channel.prepare_message(body, priority, content_type, content_encoding, headers, properties)
        self.target = (exchange, routing_key)


def _is_plain(app: Celery) -> bool:
    wrapped = Celery.send_task is not _CELERYS_OWN or hasattr(_CELERYS_OWN, "__wrapped__")
    own = type(app).send_task is not Celery.send_task or "send_task" in vars(app)
    return not (wrapped or own or app.amqp.router.routes or app.current_worker_task)


def _is_declared(queue: Queue, producer: Producer) -> bool:
    """As kombu decides it, for a price: whether this connection has declared the queue since it was made."""
    return queue.can_cache_declaration and hash(queue) in producer.channel.connection.client.declared_entities
