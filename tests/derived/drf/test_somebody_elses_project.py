"""Viewsets of another project, django-push-notifications, are published unchanged and called."""

from typing import Any

import pytest
from push_notifications.api.rest_framework import APNSDeviceAuthorizedViewSet, GCMDeviceAuthorizedViewSet
from push_notifications.models import APNSDevice, GCMDevice

from mcp_app.drf_tools import viewset_tools
from tests.derived.calling import call, offered, schemas, user

pytestmark = pytest.mark.usefixtures("_published")


ALL = ("list", "retrieve", "create", "partial_update", "destroy")
TOKEN = "0123456789abcdef"


@pytest.fixture
def _published() -> None:
    viewset_tools(APNSDeviceAuthorizedViewSet, actions=ALL)
    viewset_tools(GCMDeviceAuthorizedViewSet, actions={"create": {"name": "add_phone"}})


def test_its_devices_are_registered_listed_changed_and_deleted_by_their_owner() -> None:
    ann, ben = user("ann"), user("ben")
    made = call("create_apns_device", ann, registration_id=TOKEN, name="phone")
    assert (made["name"], made["active"], made["registration_id"]) == ("phone", True, TOKEN)
    assert APNSDevice.objects.get().user == ann
    assert [each["id"] for each in call("list_apns_devices", ann)] == [made["id"]]
    assert call("get_apns_device", ann, registration_id=TOKEN) == made
    changed = call("update_apns_device", ann, current_registration_id=TOKEN, active=False)
    assert changed == {**made, "active": False}

    assert call("list_apns_devices", ben) == []
    assert call("get_apns_device", ben, registration_id=TOKEN).startswith("No APNSDevice matches")
    assert call("delete_apns_device", ben, registration_id=TOKEN).startswith("No APNSDevice matches")
    assert call("delete_apns_device", ann, registration_id=TOKEN) == "Done."
    assert not APNSDevice.objects.exists()


def test_its_permissions_hold(settings: Any) -> None:
    assert "list_apns_devices" in offered(None)
    refused = "Authentication credentials were not provided."
    assert call("list_apns_devices", None) == refused
    assert call("create_apns_device", None, registration_id=TOKEN) == refused
    assert not APNSDevice.objects.exists()


def test_its_validation_is_told_by_field() -> None:
    ann = user("ann")
    told = call("create_apns_device", ann, registration_id="not hex")
    assert told.splitlines()[1:] == ["- registration_id: Registration ID (device token) is invalid"]
    call("add_phone", ann, registration_id="a", cloud_message_type="FCM")
    told = call("add_phone", ann, registration_id="a", cloud_message_type="FCM")
    assert told.splitlines()[1:] == ["- registration_id: This field must be unique."]
    assert GCMDevice.objects.count() == 1


def test_its_serializers_are_the_arguments() -> None:
    tool, _ = schemas("create_apns_device", user("ann"))
    assert tool["required"] == ["registration_id"]
    assert tool["properties"]["name"]["maxLength"] == 255
    assert tool["properties"]["active"] == {
        "type": "boolean",
        "description": "Inactive devices will not be sent notifications",
    }
    assert "date_created" not in tool["properties"]
