"""The shell of the console in a real browser, in front of a stage: addresses, keys, theme, tokens, favourites."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import Scene
from tests.console.console_kit import NARROW, WITH_BROWSER, in_menu
from tests.console.stage import Asked, Stage, refusal, topic

pytestmark = WITH_BROWSER


def test_the_skip_link_leads_to_the_page_and_leaves_it_there(scene: Scene) -> None:
    page = scene.page("topics")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Skip to the page")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    assert page.url.endswith("#/topics")


@pytest.mark.long
def test_an_unknown_page_has_a_message_and_its_own_title(scene: Scene) -> None:
    page = scene.page("topics")
    page.goto(f"{scene.stage.url}/#/no/such/page/at/all")
    expect(page.get_by_role("heading", level=1)).to_have_text("No such page")
    expect(page).to_have_title("No such page · Kvorum")
    expect(page.locator("main")).to_be_focused()


@pytest.mark.long
def test_a_group_called_by_dots_alone_is_refused_and_nothing_else_shown_instead(scene: Scene) -> None:
    page = scene.page("groups/..")
    expect(page.get_by_role("alert")).to_contain_text("cannot be part of an address")
    assert scene.stage.count("/v1/groups") == 0


def test_keys_wait_no_longer_than_they_should_and_can_be_switched_off(scene: Scene) -> None:
    page = scene.page()
    page.clock.install()
    page.keyboard.press("g")
    page.clock.run_for(3_000)
    page.keyboard.press("t")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    page.keyboard.press("?")
    page.get_by_label("Enable shortcuts").uncheck()
    page.get_by_role("button", name="Close", exact=True).click()
    for key in "gt":
        page.keyboard.press(key)
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    page.get_by_role("button", name="Keyboard shortcuts").click()
    page.get_by_label("Enable shortcuts").check()
    page.get_by_role("button", name="Close", exact=True).click()
    for key in "gt":
        page.keyboard.press(key)
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")


def dark(page: Page) -> bool:
    """Return whether what is drawn is dark."""
    return bool(page.evaluate("getComputedStyle(document.body).color") == "rgb(230, 237, 241)")


@pytest.mark.long
def test_the_theme_is_the_systems_until_another_is_chosen(scene: Scene) -> None:
    page = scene.page(dark=True)
    assert dark(page)
    page.emulate_media(color_scheme="light")
    assert not dark(page), "the first visit has not written down what the system had then"
    button = page.locator("#theme")
    expect(button).to_have_attribute("aria-label", "Theme: system")
    button.click()
    button.click()
    expect(button).to_have_attribute("aria-label", "Theme: dark")
    assert dark(page)
    page.reload()
    assert dark(page) and page.evaluate("document.documentElement.dataset.theme") == "dark"
    button.click()
    assert not dark(page)


@pytest.mark.long
def test_a_browser_that_keeps_nothing_shows_the_pages_all_the_same(scene: Scene) -> None:
    context = scene.browser.new_context()
    context.add_init_script(
        "for (const name of ['localStorage', 'sessionStorage'])"
        " Object.defineProperty(window, name, { get() { throw new DOMException('no', 'SecurityError'); } });"
    )
    page = scene.page("topics", context=context)
    expect(page.get_by_role("link", name="orders", exact=True)).to_be_visible()
    page.locator("#theme").click()
    page.get_by_role("button", name="Favourite: orders").click()


def guarded(stage: Stage, tokens: dict[str, str]) -> None:
    """Want a token for everything, {token: role}."""

    def me(requested: Asked) -> Any:
        message = requested.headers.get("Authorization", "").removeprefix("Bearer ")
        return (
            {"role": tokens[message], "guarded": True}
            if message in tokens
            else refusal(401, "UNAUTHENTICATED", "nobody")
        )

    stage.says("/v1/me", me)


@pytest.mark.long
def test_a_link_with_a_token_that_is_opened_in_an_open_tab_is_taken_and_not_left_in_the_address(scene: Scene) -> None:
    guarded(scene.stage, {"good-token": "operate"})
    page = scene.page("topics")
    page.goto(f"{scene.stage.url}/#/brokers?token=good-token")
    expect(page.get_by_role("heading", level=1)).to_have_text("Brokers")
    expect(page.locator("#role")).to_have_text("role: operate")
    assert "token" not in page.url
    assert scene.stage.last("/v1/brokers").headers["Authorization"] == "Bearer good-token"
    page.go_back()
    assert "token" not in page.url


def test_a_token_is_kept_once_the_server_knows_it_and_can_be_changed_and_forgotten(scene: Scene) -> None:
    guarded(scene.stage, {"one": "read", "two": "admin"})
    page = scene.page("topics")
    page.evaluate("document.dispatchEvent(new CustomEvent('kvorum:token'))")
    dialog = page.get_by_role("dialog", name="This server requires a token")
    for wrong, reported in (("wrong", "nobody"), ("geh\u00e4im\u2713", "Not a valid token")):
        dialog.get_by_label("Token").fill(wrong)
        dialog.get_by_role("button", name="Sign in").click()
        expect(dialog.get_by_role("alert")).to_contain_text(reported)
        assert page.evaluate("sessionStorage.getItem('kvorum.token')") is None
    dialog.get_by_label("Token").fill(" one ")
    dialog.get_by_role("button", name="Sign in").click()
    expect(page.locator("#role")).to_have_text("role: read")
    page.locator("#role").click()
    page.get_by_label("New token").fill("two")
    page.get_by_role("button", name="Use the new token").click()
    expect(page.locator("#role")).to_have_text("role: admin")
    page.locator("#role").click()
    page.get_by_role("button", name="Remove token").click()
    expect(page.locator("#role")).to_be_hidden()
    assert page.evaluate("sessionStorage.getItem('kvorum.token')") is None


def test_actions_without_permission_are_disabled(scene: Scene) -> None:
    guarded(scene.stage, {"looks": "read"})
    page = scene.page("topics/orders?token=looks")
    page.locator("details.menu > summary").click()
    button = page.get_by_role("button", name="Delete topic")
    expect(button).to_have_attribute("aria-disabled", "true")
    expect(button).to_have_attribute("title", re.compile("requires the role admin; your role is read"))
    button.click(force=True)
    expect(page.locator("#notes")).to_contain_text("requires the role admin")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Add partitions")).to_be_visible()


@pytest.mark.long
def test_the_bar_is_correct_after_the_server_returns(scene: Scene) -> None:
    scene.stage.refuses("/v1/cluster", 503, "CLUSTER_UNREACHABLE", "nobody answers")
    scene.stage.refuses("/v1/events", 503, "CLUSTER_UNREACHABLE", "nobody answers")
    page = scene.page("topics")
    expect(page.locator("#cluster")).to_have_text("nobody answers")
    expect(page.locator("#live")).to_contain_text("connecting: nobody answers")
    scene.stage.says("/v1/cluster", {"cluster_id": "stage"})
    scene.stage.allows_stream("/v1/events")
    expect(page.locator("#live")).to_have_text("live")
    expect(page.locator("#cluster")).to_have_text("cluster stage")


@pytest.mark.long
def test_a_stream_that_ends_with_an_error_shows_it_and_reconnects(scene: Scene) -> None:
    page = scene.page("topics")
    expect(page.locator("#live")).to_have_text("live")
    looks = scene.stage.count("/v1/topics")
    scene.stage.holds("/v1/events")
    scene.stage.tells("/v1/events", "error", {"message": "the log begins at 7 by now"})
    scene.stage.break_streams()
    expect(page.locator("#live")).to_contain_text("the log begins at 7 by now")
    scene.stage.release()
    expect(page.locator("#live")).to_have_text("live")
    scene.stage.until(lambda: scene.stage.count("/v1/topics") > looks, "another look: something may have been missed")


@pytest.mark.long
def test_a_dialog_closes_with_its_page(scene: Scene) -> None:
    page = scene.page("topics")
    page.goto(f"{scene.stage.url}/#/topics/orders")
    in_menu(page, "Delete topic")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_confirmation_is_accepted_once(scene: Scene) -> None:
    page = scene.page("topics")
    scene.stage.says("/v1/topics", {"name": "made", "topic_id": "x"}, "POST")
    scene.stage.holds("/v1/topics", "POST")
    page.get_by_role("button", name="Create a topic").click()
    page.get_by_label("Name", exact=True).fill("made")
    for _ in range(3):
        page.get_by_label("Name", exact=True).press("Enter")
    scene.stage.until(lambda: scene.stage.count("/v1/topics", "POST") == 1, "the request")
    page.get_by_role("button", name="Create", exact=True).click(force=True)
    scene.stage.says("/v1/topics/made", topic("made"))
    scene.stage.release()
    expect(page.get_by_role("heading", level=1)).to_have_text("made")
    assert scene.stage.count("/v1/topics", "POST") == 1


@pytest.mark.long
def test_closing_a_working_dialog_shows_the_result_later_and_errors_stay_until_dismissed(scene: Scene) -> None:
    page = scene.page("topics")
    scene.stage.refuses("/v1/topics", 422, "TOPIC_ALREADY_EXISTS", "it is there already", "POST")
    scene.stage.holds("/v1/topics", "POST")
    page.get_by_role("button", name="Create a topic").click()
    page.get_by_label("Name", exact=True).fill("made")
    page.get_by_role("button", name="Create", exact=True).click()
    scene.stage.until(lambda: scene.stage.count("/v1/topics", "POST") == 1, "the request")
    page.clock.install()
    page.get_by_role("button", name="Cancel").click()
    scene.stage.release()
    reported = page.locator("#notes .note.bad")
    expect(reported).to_contain_text("it is there already")
    page.clock.run_for(60_000)
    expect(reported).to_be_visible()
    page.get_by_role("button", name="Dismiss").click()
    expect(reported).to_have_count(0)


@pytest.mark.long
def test_errors_behind_an_open_dialog_are_shown_above_it(scene: Scene) -> None:
    page = scene.page("topics")
    page.get_by_role("button", name="Create a topic").click()
    page.evaluate("import('/console/dom.js').then((dom) => dom.note('something else failed', 'bad'))")
    reported = page.get_by_role("dialog").locator(".note.bad")
    expect(reported).to_contain_text("something else failed")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("body > #notes .note.bad")).to_contain_text("something else failed")


def test_the_field_that_was_wrong_is_marked(scene: Scene) -> None:
    page = scene.page("topics")
    message = refusal(422, "INVALID_REPLICATION_FACTOR", "too many replicas", "replication_factor")
    scene.stage.says("/v1/topics", message, "POST")
    page.get_by_role("button", name="Create a topic").click()
    page.get_by_label("Name", exact=True).fill("made")
    page.get_by_label("Replicas").fill("9")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_label("Replicas")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Replicas")).to_be_focused()
    scene.stage.says("/v1/topics", {"name": "made", "topic_id": "x"}, "POST")
    scene.stage.holds("/v1/topics", "POST")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_label("Replicas")).not_to_have_attribute("aria-invalid", "true")


def test_favourites_are_marked_kept_and_lead_there(scene: Scene) -> None:
    group = {"group_id": "g", "type": "consumer", "state": "Stable", "protocol_type": "consumer", "coordinator": 1}
    scene.stage.says("/v1/groups", {"groups": [group], "next": None, "unreachable": []})
    page = scene.page("topics")
    star = page.get_by_role("button", name="Favourite: orders")
    expect(star).to_have_attribute("aria-pressed", "false")
    star.click()
    expect(page.locator(".chip")).to_have_text("orders")
    page.goto(f"{scene.stage.url}/#/groups")
    page.get_by_role("button", name="Favourite: g").click()
    page.goto(f"{scene.stage.url}/#/")
    page.reload()
    expect(page.locator(".chip")).to_have_text(["orders", "g"])
    page.locator(".chip").first.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("orders")
    page.get_by_role("button", name="Favourite: orders").click()
    page.goto(f"{scene.stage.url}/#/")
    expect(page.locator(".chip")).to_have_text(["g"])


@pytest.mark.long
def test_a_phone_can_look_again_without_a_keyboard(scene: Scene) -> None:
    page = scene.settled(scene.page("topics", NARROW))
    before = scene.stage.count("/v1/topics")
    page.get_by_role("button", name="Refresh").click()
    scene.stage.until(lambda: scene.stage.count("/v1/topics") == before + 1, "another look")
    expect(page.locator(".age")).to_have_text(re.compile(r"as of \d\d:\d\d:\d\d"))


@pytest.mark.long
def test_the_zone_that_times_are_in_is_named(scene: Scene) -> None:
    context = scene.browser.new_context(timezone_id="Australia/Darwin")
    page = scene.page(context=context)
    expect(page.locator(".zone")).to_have_text("Times: Australia/Darwin, UTC+9:30")


@pytest.mark.long
def test_a_hung_server_is_reported_after_a_while_and_that_a_change_may_have_been_made(scene: Scene) -> None:
    context = scene.browser.new_context()
    context.add_init_script(
        "AbortSignal.timeout = (ms) => { const c = new AbortController();"
        " window.hung = () => c.abort(new DOMException('late', 'TimeoutError')); return c.signal; };"
    )
    page = scene.page("topics", context=context)
    scene.stage.holds("/v1/topics", "POST")
    page.get_by_role("button", name="Create a topic").click()
    page.get_by_label("Name", exact=True).fill("made")
    page.get_by_role("button", name="Create", exact=True).click()
    scene.stage.until(lambda: scene.stage.count("/v1/topics", "POST") == 1, "the request")
    page.evaluate("hung()")
    expect(page.get_by_role("alert")).to_contain_text("may or may not have been made")
