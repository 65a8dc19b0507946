"""Records in the console, in front of a stage: which are asked for, how they are shown, watched and linked to."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import Scene
from tests.console.console_kit import WITH_BROWSER
from tests.console.stage import Answer, message, page_of, refusal

pytestmark = WITH_BROWSER
NEWEST = "/v1/topics/orders/messages/newest"
MESSAGES = "/v1/topics/orders/messages"
STREAM = "/v1/topics/orders/messages/stream"


def offsets(page: Page) -> list[str]:
    return [each.split("\n")[0] for each in page.locator(".record .column-offset a").all_inner_texts()]


def test_the_newest_are_requested_as_such_and_shown_the_newest_first(scene: Scene) -> None:
    found = [message(0, 998), message(1, 999)]
    scene.stage.says(NEWEST, page_of(*found, stopped_by="limit", before="0:998,1:999", scanned=60))
    page = scene.page("topics/orders/messages?limit=20&partitions=0,1")
    assert scene.stage.last(NEWEST).query == {
        "partitions": "0,1", "limit": "20", "key_format": "text", "value_format": "text"
    }  # fmt: skip
    assert offsets(page) == ["1:999", "0:998"]
    expect(page.locator("main")).to_contain_text(
        "2 records, newest first; 60 records searched. Older records are available."
    )
    scene.stage.says(NEWEST, page_of(message(0, 1), before="0:0,1:0"))
    page.get_by_role("button", name="Older").click()
    expect(page.locator(".record")).to_have_count(1)
    requested = scene.stage.last(NEWEST).query
    assert requested["before"] == "0:998,1:999" and "partitions" not in requested, "before names them"
    expect(page.locator("main")).to_contain_text("No more records.")
    page.go_back()
    expect(page.locator(".record")).to_have_count(1)
    assert "before" not in scene.stage.last(NEWEST).query, "the way back is the browser's"


@pytest.mark.long
def test_a_stopped_search_is_marked_incomplete(scene: Scene) -> None:
    scene.stage.says(NEWEST, page_of(stopped_by="time", scanned=5000))
    page = scene.page("topics/orders/messages?filter=value.a==1")
    expect(page.locator("main")).to_contain_text("No match so far.")
    expect(page.locator("main")).to_contain_text("Stopped at the limit of time of one search")


@pytest.mark.long
def test_the_oldest_are_shown_the_oldest_first_and_continue(scene: Scene) -> None:
    scene.stage.says(MESSAGES, page_of(message(0, 0), message(0, 1), stopped_by="limit", next="0:2"))
    page = scene.page("topics/orders/messages?from=earliest&limit=20")
    assert offsets(page) == ["0:0", "0:1"]
    assert scene.stage.last(MESSAGES).query["from"] == "earliest"
    page.get_by_role("button", name="Next page").click()
    scene.stage.until(lambda: scene.stage.last(MESSAGES).query.get("offsets") == "0:2", "the next page")
    assert "from" not in scene.stage.last(MESSAGES).query and "offsets=0%3A2" in page.url


@pytest.mark.long
def test_an_address_that_names_no_way_to_begin_shows_the_newest(scene: Scene) -> None:
    scene.page("topics/orders/messages?from=yesterday&value=json")
    assert scene.stage.last(NEWEST).query["value_format"] == "text"


def test_numbers_are_shown_as_they_were_written(scene: Scene) -> None:
    """A browser's numbers would make 1234567890123456800 of the first, 1.1 of the second, null of the third."""
    text = '{"id":1234567890123456789,"price":1.10,"far":1e400,"none":[],"text":"a \\"quoted\\", [text]: {}"}'
    long = text[:-1] + ',"pad":"' + "x" * 200 + '"}'
    scene.stage.says(NEWEST, page_of(message(0, 1, text), message(0, 2, long)))
    page = scene.page("topics/orders/messages")
    expect(page.locator(".record").last.locator("summary")).to_have_text(text)
    page.locator(".record").first.locator("summary").click()
    shown = page.locator(".record").first.locator("details pre").inner_text()
    assert '\n  "id": 1234567890123456789,\n  "price": 1.10,\n  "far": 1e400,\n  "none": [],\n' in shown
    assert '  "text": "a \\"quoted\\", [text]: {}",\n  "pad": "xxx' in shown


def test_the_columns_of_the_table_are_chosen_and_fields_of_json_are_columns(scene: Scene) -> None:
    values = ['{"amount":1.10,"user":{"id":12345678901234567890}}', "no JSON"]
    scene.stage.says(NEWEST, page_of(*(message(0, at, value) for at, value in enumerate(values))))
    page = scene.page("topics/orders/messages")
    rows = page.locator(".record")
    assert all(row.bounding_box()["height"] < 40 for row in rows.all()), "one line per record"
    scene.settled(page)
    requested = scene.stage.count(NEWEST)
    page.get_by_text("Options", exact=True).click()
    page.get_by_label("Key", exact=True).uncheck()
    page.get_by_label("Value fields as columns").fill("amount, user.id")
    page.get_by_label("Value fields as columns").blur()
    expect(page.get_by_role("columnheader")).to_have_text(["Offset", "Timestamp", "Value", "Size", "amount", "user.id"])
    assert rows.last.locator(".column-field").all_inner_texts() == ["1.10", "12345678901234567890"]
    assert rows.first.locator(".column-field").all_inner_texts() == ["\u2013", "\u2013"]
    assert scene.stage.count(NEWEST) == requested, "the records are not requested again"
    page.reload()
    expect(page.get_by_role("columnheader")).to_have_count(6)
    page.get_by_text("Options", exact=True).click()
    page.get_by_label("View").select_option("list")
    expect(page.locator("li.record")).to_have_count(2)


def test_an_error_of_the_filter_is_shown_beside_it(scene: Scene) -> None:
    scene.stage.says(NEWEST, refusal(400, "INVALID_REQUEST", "character 3: use == to compare", "filter"))
    page = scene.page("topics/orders/messages?filter=a=1")
    expect(page.get_by_role("alert")).to_have_text("character 3: use == to compare")
    expect(page.get_by_label("Filter")).to_have_attribute("aria-invalid", "true")
    scene.stage.says(NEWEST, page_of(message(0, 1)))
    page.get_by_label("Filter").fill("a == 1")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".record")).to_have_count(1)
    expect(page.get_by_label("Filter")).not_to_have_attribute("aria-invalid", "true")


@pytest.mark.long
def test_the_encoding_of_a_text_is_shown(scene: Scene) -> None:
    headers = [
        {"key": "trace", "value": "AAEC", "format": "base64"},
        {"key": "none", "value": None, "format": "string"},
    ]
    binary = message(0, 1, "AAEC", value_format="base64", key="0a", key_format="hex", headers=headers)
    scene.stage.says(NEWEST, page_of(binary, message(0, 2, "AAEC")))
    page = scene.page("topics/orders/messages")
    expect(page.locator(".record").last).to_contain_text("base64")
    expect(page.locator(".record").last).to_contain_text("hex")
    expect(page.locator(".record").first).not_to_contain_text("base64")
    page.get_by_text("2 headers").click()
    expect(page.locator(".pairs")).to_contain_text(re.compile(r"trace\s*AAEC base64"))
    expect(page.locator(".pairs")).to_contain_text(re.compile(r"none\s*null"))


@pytest.mark.long
def test_a_moment_in_an_address_is_the_same_everywhere(scene: Scene) -> None:
    scene.stage.says(MESSAGES, page_of())
    context = scene.browser.new_context(timezone_id="Australia/Darwin")
    page = scene.page("topics/orders/messages?from=timestamp&at=2026-01-01T00:30:00.000Z", context=context)
    at = page.get_by_label("Offset or timestamp")
    expect(at).to_have_value("2026-01-01T10:00")
    assert scene.stage.last(MESSAGES).query["timestamp_ms"] == "1767227400000"
    expect(page.get_by_text("in Australia/Darwin, UTC+9:30", exact=True)).to_be_visible()
    at.fill("2026-01-01T10:00:01")
    page.get_by_role("button", name="Search").click()
    scene.stage.until(lambda: scene.stage.last(MESSAGES).query["timestamp_ms"] == "1767227401000", "a second later")
    assert "at=2026-01-01T00%3A30%3A01.000Z" in page.url


def test_following_uses_the_search_filter_and_continues_at_its_end(scene: Scene) -> None:
    scene.stage.says(MESSAGES, page_of(next="0:5,1:7"))
    page = scene.page("topics/orders/messages?isolation=read_committed&filter=value.a==1&partitions=0,1")
    page.get_by_role("button", name="Follow new records").click()
    scene.stage.until(lambda: scene.stage.readers(STREAM) == 1, "somebody who watches")
    requested = scene.stage.last(STREAM).query
    assert (requested["offsets"], requested["isolation"], requested["filter"]) == (
        "0:5,1:7",
        "read_committed",
        "value.a==1",
    )
    expect(page.get_by_role("heading", name="New records")).to_contain_text("live")
    for offset in (5, 6):
        scene.stage.tells(STREAM, "message", message(0, offset))
    watched = page.locator(".card", has=page.get_by_role("heading", name="New records"))
    expect(watched.locator(".record")).to_have_count(2)
    expect(watched.locator(".record").first).to_contain_text("k6")
    scene.stage.break_streams()
    scene.stage.until(lambda: scene.stage.count(STREAM) == 2, "it goes on")
    assert scene.stage.last(STREAM).query["offsets"] == "0:7,1:7"
    page.get_by_label("Filter").fill("value.a == 2")
    page.get_by_role("button", name="Search").click()
    expect(watched).to_be_hidden()
    scene.stage.until(lambda: scene.stage.readers(STREAM) == 0, "nobody watches for something else")
    expect(page.get_by_role("button", name="Follow new records")).to_be_visible()


@pytest.mark.long
def test_a_rejected_stream_shows_the_reason(scene: Scene) -> None:
    scene.stage.says(MESSAGES, page_of(next="0:5"))
    scene.stage.refuses(STREAM, 400, "INVALID_REQUEST", "the filter ends too early")
    page = scene.page("topics/orders/messages")
    page.get_by_role("button", name="Follow new records").click()
    expect(page.get_by_role("heading", name="New records")).to_contain_text("the filter ends too early")
    expect(page.get_by_role("button", name="Follow new records")).to_be_visible()


@pytest.mark.long
def test_a_record_has_an_address_of_its_own(scene: Scene) -> None:
    scene.stage.says(NEWEST, page_of(message(1, 41, '{"a":[1]}')))
    page = scene.page("topics/orders/messages")
    page.get_by_role("link", name="Record 41 of partition 1").click()
    scene.stage.says(MESSAGES, page_of(message(1, 41, '{"a":[1]}')))
    page.get_by_role("button", name="Refresh").click()
    expect(page.locator(".card", has_text="Value")).to_contain_text('{\n  "a": [\n    1\n  ]\n}')
    assert scene.stage.last(MESSAGES).query["offsets"] == "1:41"
    assert page.url.endswith("#/topics/orders/records/1/41")
    page.get_by_label("Value format").select_option("hex")
    scene.stage.until(lambda: scene.stage.last(MESSAGES).query["value_format"] == "hex", "in hexadecimal")
    scene.stage.says(MESSAGES, page_of(message(1, 44, None)))
    page.get_by_role("link", name="Next offset").click()
    expect(page.locator(".banner")).to_contain_text("There is no record at offset 42. This is the next")
    expect(page.locator(".card", has_text="Value")).to_contain_text("tombstone")
    scene.stage.says(MESSAGES, page_of())
    page.goto(f"{scene.stage.url}/#/topics/orders/records/1/900")
    expect(page.get_by_text("No record: the log ends before this offset.")).to_be_visible()


@pytest.mark.long
def test_a_record_is_written_like_another_one(scene: Scene) -> None:
    like = message(1, 41, "AAEC", value_format="base64", headers=[{"key": "h", "value": "1", "format": "string"}])
    scene.stage.says(MESSAGES, page_of(like))
    written = {"partition": 1, "offset": 42, "timestamp_ms": 1, "error": None, "message": None}
    scene.stage.says(MESSAGES, {"records": [written], "written": 1}, "POST")
    page = scene.page("topics/orders/records/1/41")
    page.get_by_role("button", name="Produce a copy").click()
    page.get_by_label("Key", exact=True).fill("other")
    page.get_by_role("button", name="Produce", exact=True).click()
    expect(page.locator("#notes")).to_contain_text("orders-1, offset 42")
    (record,) = scene.stage.last(MESSAGES, "POST").body["records"]
    assert (record["key"], record["value"], record["value_format"]) == ("other", "AAEC", "base64")
    assert record["headers"] == [{"key": "h", "value": "1"}]


def exported(page: Page, **fields: str) -> Any:
    """Export by the form; return the download."""
    page.get_by_role("button", name="Export").click()
    dialog = page.get_by_role("dialog")
    for label, value in fields.items():
        dialog.get_by_label(label.replace("_", " ")).fill(value)
    dialog.get_by_label("Format", exact=True).select_option("csv")
    with page.expect_download() as download:
        dialog.get_by_role("button", name="Export", exact=True).click()
    return download.value


@pytest.mark.long
def test_search_results_are_exported_also_with_a_token(scene: Scene) -> None:
    path = f"{MESSAGES}/export"
    scene.stage.says(path, Answer(raw="partition,offset\r\n"))
    page = scene.page("topics/orders/messages?filter=value.a==1&partitions=0")
    download = exported(page, Limit="7")
    assert download.suggested_filename == "orders.csv"
    assert download.path().read_bytes() == b"partition,offset\r\n"
    requested = scene.stage.last(path).query
    assert (requested["format"], requested["limit"], requested["filter"]) == ("csv", "7", "value.a==1")
    assert (requested["from"], requested["partitions"]) == ("earliest", "0")
    page.evaluate("sessionStorage.setItem('kvorum.token', 'secret')")
    page.reload()
    download = exported(page)
    assert download.path().read_bytes() == b"partition,offset\r\n"
    assert scene.stage.last(path).headers["Authorization"] == "Bearer secret"
    scene.stage.says(path, refusal(400, "INVALID_REQUEST", "no such filter", "filter"))
    page.get_by_role("button", name="Export").click()
    page.get_by_role("dialog").get_by_role("button", name="Export", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("no such filter")


@pytest.mark.long
def test_a_view_is_saved_by_a_name_and_found_again(scene: Scene) -> None:
    page = scene.page("topics/orders/messages")
    page.get_by_label("Filter").fill("value.amount > 100")
    page.get_by_role("button", name="Save this view").click()
    page.get_by_label("Name").fill("large ones")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".chip")).to_contain_text("large ones")
    page.goto(f"{scene.stage.url}/#/topics/orders/messages")
    page.reload()
    page.get_by_role("link", name="large ones").click()
    expect(page.get_by_label("Filter")).to_have_value("value.amount > 100")
    scene.stage.until(lambda: scene.stage.last(NEWEST).query.get("filter") == "value.amount > 100", "the search")
    page.goto(f"{scene.stage.url}/#/topics/others/messages")
    expect(page.locator(".chip")).to_have_count(0)
    page.go_back()
    page.get_by_role("button", name="Remove view large ones").click()
    expect(page.locator(".chip")).to_have_count(0)


TOLD = """async () => {
  const [format, json, events] =
    await Promise.all(["format", "jsontext", "events"].map((each) => import(`/console/${each}.js`)));
  const place = { topic: "t", partition: 0 };
  return [
    format.moment(1.7e18), format.moment(-1), format.ago(0, 3600e3 * 9600), format.bytes(1536), format.count(12345),
    format.span(59_400), format.span(250), json.indented('{"a":{}}'), json.indented("12"), json.indented("{no"),
    events.told({ kind: "leader_elected", data: { ...place, before: { leader: null }, after: { leader: 2 } } }),
    format.human("retention.ms", "604800000"), format.human("retention.ms", "-1"),
    format.human("segment.bytes", "1073741824"), format.human("partitions", "60000"),
    events.lines([
      { at: 180, kind: "isr_changed", data: { ...place, before: { isr: [1, 3] }, after: { isr: [1] } } },
      { at: 150, kind: "isr_changed", data: { ...place, partition: 1, before: { isr: [1, 2] }, after: { isr: [1] } } },
      { at: 100, kind: "leader_elected", data: { ...place, before: { leader: 3 }, after: { leader: 1 } } },
      { at: 5, kind: "broker_fenced", data: { broker: 3 } },
    ]).map(({ text }) => text),
  ];
}"""


def test_formats_and_ages_and_json_are_reported_as_people_read_them(scene: Scene) -> None:
    assert scene.page().evaluate(TOLD) == [
        *("1700000000000000000", None, "400 days ago", "1.5 KiB", "12,345", "59 s", "250 ms"),
        *('{\n  "a": {}\n}', None, None, "t-0: leader 2"),
        *("7 days", "unlimited", "1.0 GiB", None),
        ["t-1: ISR 1 (was 1, 2)", "broker 3 fenced: new leaders for 1 partition, 1 ISR shrunk, within 175 ms"],
    ]
