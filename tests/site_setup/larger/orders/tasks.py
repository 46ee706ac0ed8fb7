from celery import shared_task

from orders.models import Entry


@shared_task
def tick():
    Entry.objects.get_or_create(text="tick")


@shared_task
def book(text):
    Entry.objects.create(text=text)
