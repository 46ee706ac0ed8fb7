"""The archive's Celery app. A custom serializer signs its messages."""

import os

from celery import Celery
from django.core.signing import Signer
from kombu.serialization import register
from kombu.utils.json import dumps, loads

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "archive.settings")


def dump_signed(value):
    return Signer(key="archive").sign(dumps(value))


def load_signed(body):
    return loads(Signer(key="archive").unsign(bytes(body).decode()))


register("signed", dump_signed, load_signed, content_type="application/x-signed-json", content_encoding="utf-8")

app = Celery("archive")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
