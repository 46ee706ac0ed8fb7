from django.http import HttpRequest, JsonResponse

from orders.models import Entry
from orders.tasks import book as book_task


def orders(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"entries": list(Entry.objects.values_list("text", flat=True))})


def book(request: HttpRequest) -> JsonResponse:
    book_task.delay("booked")
    return JsonResponse({})
