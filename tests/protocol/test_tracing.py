import pytest

from mcp_app.protocol.metadata import read_trace_context

PARENT = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"


def test_a_well_formed_context_is_kept() -> None:
    context = {
        "traceparent": PARENT,
        "tracestate": "congo=t61rcWkgMzE, rojo@vendor=00f067aa0ba902b7",
        "baggage": "userId=alice;prop=1;flag, serverNode=DF%2028",
    }
    assert read_trace_context(context | {"other": 1}) == context


@pytest.mark.parametrize(
    "parent",
    [
        "",
        5,
        None,
        PARENT.upper(),
        PARENT + "\n",
        PARENT + "-more",
        PARENT.replace("00-", "ff-", 1),
        "00-" + "0" * 32 + "-00f067aa0ba902b7-01",
        "00-0af7651916cd43dd8448eb211c80319c-" + "0" * 16 + "-01",
    ],
)
def test_a_malformed_parent_is_dropped_and_its_state_with_it(parent: object) -> None:
    assert read_trace_context({"traceparent": parent, "tracestate": "a=1"}) == {}


def test_a_later_version_of_the_parent_may_say_more() -> None:
    later = PARENT.replace("00-", "01-", 1) + "-more"
    assert read_trace_context({"traceparent": later}) == {"traceparent": later}


@pytest.mark.parametrize(
    "state", ["", "novalue", "A=1", "a=1,a=2", "a=1\n", "a=b=c", ",".join(f"k{n}=1" for n in range(33))]
)
def test_a_malformed_state_is_dropped(state: str) -> None:
    assert read_trace_context({"traceparent": PARENT, "tracestate": state}) == {"traceparent": PARENT}


@pytest.mark.parametrize("baggage", ["", "novalue", "a=1,", "a=b c", "a=é", "a=1;;", "a=" + "x" * 9000, ["a=1"]])
def test_malformed_baggage_is_dropped(baggage: object) -> None:
    assert read_trace_context({"baggage": baggage}) == {}
