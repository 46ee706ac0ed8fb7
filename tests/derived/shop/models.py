"""A shop that publishes its models: every kind of field, rows with an owner, limited relations."""

from decimal import Decimal
from typing import ClassVar

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models


def no_shouting(text: str) -> None:
    if text.isupper():
        raise ValidationError("Do not shout.")


class Author(models.Model):
    name = models.CharField(max_length=50, unique=True)
    owner = models.ForeignKey(User, models.CASCADE, null=True, blank=True)

    def __str__(self) -> str:
        return self.name


class Tag(models.Model):
    word = models.SlugField(primary_key=True)
    is_secret = models.BooleanField(default=False)

    def __str__(self) -> str:
        return self.word


class Book(models.Model):
    class Status(models.TextChoices):
        DRAFT = "draft", "Draft"
        OUT = "out", "In the shops"

    title = models.CharField(max_length=20, help_text="As on the cover", validators=[no_shouting])
    author = models.ForeignKey(Author, models.CASCADE, limit_choices_to={"name__startswith": "A"})
    tags = models.ManyToManyField(Tag, blank=True)
    status = models.CharField(max_length=8, choices=Status, default=Status.DRAFT)
    price = models.DecimalField(max_digits=6, decimal_places=2, validators=[MinValueValidator(Decimal(0))])
    published = models.DateField(null=True, blank=True)
    sold_at = models.DateTimeField(null=True, blank=True)
    pages = models.PositiveSmallIntegerField(default=1)
    details = models.JSONField(default=dict, blank=True)
    secret = models.CharField(max_length=20, blank=True)
    owner = models.ForeignKey(User, models.CASCADE, null=True, blank=True, related_name="books")
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering: ClassVar = ["title"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["author", "title"], name="shop_one_title_of_an_author"),
            models.CheckConstraint(condition=~models.Q(title="forbidden"), name="shop_not_forbidden"),
        ]

    def __str__(self) -> str:
        return self.title

    def clean(self) -> None:
        if self.status == self.Status.OUT and self.published is None:
            raise ValidationError({"published": "What is in the shops was published."})


class Novel(Book):
    """A row of two tables: its key is a relation, and the database computes some of its fields."""

    length = models.DurationField(null=True, blank=True)
    words = models.IntegerField(null=True, blank=True)
    letters = models.GeneratedField(
        expression=models.F("words") * 6, output_field=models.BigIntegerField(), db_persist=True
    )


class Loan(models.Model):
    """Keeps its book from being deleted."""

    book = models.ForeignKey(Book, models.PROTECT, related_name="loans")

    def __str__(self) -> str:
        return f"loan of <{self.book}>"


class Review(models.Model):
    """Is deleted with its book."""

    book = models.ForeignKey(Book, models.CASCADE, related_name="reviews")
    text = models.CharField(max_length=20)

    def __str__(self) -> str:
        return self.text


class Cover(models.Model):
    """Fields that JSON cannot fill, and fields without a JSON type."""

    image = models.FileField()
    thumbnail = models.BinaryField(editable=True)

    def __str__(self) -> str:
        return self.image.name
