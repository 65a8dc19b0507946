"""`kafka-delegation-tokens`. Source: Kafka's DelegationTokenCommand."""

import base64
from typing import TYPE_CHECKING

import click

from kvorum.cli.kafka.common import Connection, connection_options
from kvorum.cli.kafka.option_checks import has_value, invalid_beside, one_action
from kvorum.cli.kafka.token_table import date_text, java_list, print_tokens
from kvorum.cli.output import raw, say

if TYPE_CHECKING:
    from collections.abc import Sequence

REQUIRED = {
    "create": ("max-life-time-period",),
    "renew": ("hmac", "renew-time-period"),
    "expire": ("hmac", "expiry-time-period"),
    "describe": (),
}
UNFITTING = {
    "create": ("hmac", "renew-time-period", "expiry-time-period"),
    "renew": ("renewer-principal", "max-life-time-period", "expiry-time-period", "owner-principal"),
    "expire": ("max-life-time-period", "renew-time-period", "owner-principal"),
    "describe": ("renew-time-period", "max-life-time-period", "hmac", "expiry-time-period"),
}
"""Options that do not go with an action."""


@click.command("kafka-delegation-tokens")
@click.option("--create", is_flag=True)
@click.option("--renew", is_flag=True)
@click.option("--expire", is_flag=True)
@click.option("--describe", is_flag=True)
@click.option("--owner-principal", "owners", multiple=True, metavar="TYPE:NAME")
@click.option("--renewer-principal", "renewers", multiple=True, metavar="TYPE:NAME")
@click.option("--max-life-time-period", type=int, metavar="MS", help="-1: delegation.token.max.lifetime.ms.")
@click.option("--renew-time-period", type=int, metavar="MS", help="-1: delegation.token.expiry.time.ms.")
@click.option("--expiry-time-period", type=int, metavar="MS", help="-1: at once.")
@click.option("--hmac", metavar="BASE64")
@connection_options()
def delegation_tokens(
    connection: Connection,
    create: bool,
    renew: bool,
    expire: bool,
    describe: bool,
    owners: tuple[str, ...],
    renewers: tuple[str, ...],
    max_life_time_period: int | None,
    renew_time_period: int | None,
    expiry_time_period: int | None,
    hmac: str | None,
) -> None:
    """Create, renew, expire and describe delegation tokens.

    \b
    kvorum kafka-delegation-tokens --bootstrap-server localhost:9092 --command-config admin.properties \\
        --create --max-life-time-period -1 --renewer-principal User:scheduler
    """
    action = one_action({"create": create, "renew": renew, "expire": expire, "describe": describe})
    given = {
        "owner-principal": owners,
        "renewer-principal": renewers,
        "max-life-time-period": max_life_time_period,
        "renew-time-period": renew_time_period,
        "expiry-time-period": expiry_time_period,
        "hmac": hmac,
    }
    for name in REQUIRED[action]:
        if not has_value(given[name]):
            raise click.UsageError(f'Missing required argument "[{name}]"')
    invalid_beside(action, {name: given[name] for name in UNFITTING[action]})
    if action == "create":
        assert max_life_time_period is not None
        create_token(connection, principals(owners), principals(renewers), max_life_time_period)
    elif action == "describe":
        describe_tokens(connection, principals(owners))
    else:
        period = renew_time_period if action == "renew" else expiry_time_period
        assert hmac is not None and period is not None
        change_token(connection, action, hmac, period)


def create_token(connection: Connection, owners: list[str], renewers: list[str], max_lifetime_ms: int) -> None:
    """Create a token and print it."""
    from kvorum.client.namespaces.tokens import Tokens

    say(
        f"Calling create token operation with renewers :{java_list(renewers)} , max-life-time-period :{max_lifetime_ms}"
    )
    owner = owners[0] if owners else None
    token = connection.run(
        lambda cluster: Tokens(cluster).create(owner=owner, renewers=renewers, max_lifetime_ms=max_lifetime_ms)
    )
    say(f"Created delegation token with tokenId : {token.token_id}")
    print_tokens([token])


def change_token(connection: Connection, action: str, hmac: str, period_ms: int) -> None:
    """Renew or expire a token, and print its expiration."""
    from kvorum.client.namespaces.tokens import Tokens

    option = "renew-time-period" if action == "renew" else "expire-time-period"
    say(f"Calling {action} token operation with hmac :{hmac} , {option} :{period_ms}")
    try:
        key = base64.b64decode(hmac, validate=True)
    except ValueError:
        raise click.UsageError("the HMAC is not valid base64") from None

    expires_at_ms = connection.run(
        lambda cluster: (
            Tokens(cluster).renew(key, period_ms) if action == "renew" else Tokens(cluster).expire(key, period_ms)
        )
    )
    raw(f"Completed {action} operation. New expiry date : {date_text(expires_at_ms)}")


def describe_tokens(connection: Connection, owners: list[str]) -> None:
    """Print the tokens of owners and renewers. Without any, the request names none, and has none in its answer."""
    from kvorum.client.namespaces.tokens import Tokens

    if owners:
        say(f"Calling describe token operation for owners: {java_list(owners)}")
    else:
        say("Calling describe token operation for current user.")
    tokens = connection.run(lambda cluster: Tokens(cluster).describe(owners))
    raw(f"Total number of tokens : {len(tokens)}")
    print_tokens(tokens)


def principals(texts: "Sequence[str]") -> list[str]:
    """Return the principals, checked."""
    found = [text.strip() for text in texts]
    for text in found:
        kind, _, name = text.partition(":")
        if not kind or not name:
            raise click.UsageError(f"expected a string in format principalType:principalName but got {text}")
    return found
