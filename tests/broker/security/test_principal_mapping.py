"""From the name in a certificate to a principal: rules that Kafka documents, and others compared with its code."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ottla.errors import ConfigurationError
from ottla.security.principal_mapping import NoMatchingRuleError, PrincipalMapping
from ottla.wire.acl_codes import ANONYMOUS_PRINCIPAL

KAFKA_LIBS = os.environ.get("OTTLA_KAFKA_LIBS")
DOCUMENTED = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,"
    "DEFAULT"
)
NAMES = (
    "CN=Duke,OU=ServiceUsers,O=Unknown,C=Unknown",
    "CN=duke,OU=JavaSoft,O=Sun Microsystems,L=Cupertino,ST=CA,C=US",
    "cn=Some.One,O=x",
    "OU=nobody",
    "CN=a\\,b,O=c",
)
RULES = (
    DOCUMENTED,
    "DEFAULT",
    "",
    "RULE:^CN=(.*?),.*$/$1/U",
    "RULE:^CN=(.*?),.*$/$1@$2/,DEFAULT",
    "RULE:^CN=(.*?),.*$/x\\$1-\\\\/ , DEFAULT",
    "RULE:.*/x/",
    "RULE:^CN=(?<who>.*?),.*$/$1/",
    "RULE:^CN=(\\w)(\\w+),.*$/$2$1$12/",
    "RULE:^CN=([^,]*)(x)?,.*$/$1$2./L",
    "RULE:^CN=a\\/b$/slash/,DEFAULT",
    "DEFAULT,RULE:.*/never/",
    ",,DEFAULT",
    "RULE:^CN=(.*)$/$1",
    "RULE:CN=(.*/$1/",
    "RULE:^CN=(.*)$/$1/LU",
    "NONE",
    "default",
)


def apply(rules: str, name: str) -> str:
    try:
        return PrincipalMapping(rules).principal(name).removeprefix("User:")
    except ConfigurationError:
        return "<invalid>"
    except NoMatchingRuleError:
        return "<none>"


@pytest.mark.parametrize(
    ("name", "principal"),
    [
        pytest.param(NAMES[0], "User:Duke", id="the-first-rule-that-fits"),
        pytest.param(NAMES[1], "User:duke@javasoft", id="groups-in-lower-case"),
        pytest.param(NAMES[2], "User:some.one", id="a-later-rule"),
        pytest.param(NAMES[3], "User:OU=nobody", id="default-is-the-whole-name"),
        pytest.param(None, ANONYMOUS_PRINCIPAL, id="no-certificate"),
    ],
)
def test_documented_rules_give_the_documented_names(name: str | None, principal: str) -> None:
    assert PrincipalMapping(DOCUMENTED).principal(name) == principal


def test_distinguished_name_without_matching_rule_is_rejected_and_named() -> None:
    with pytest.raises(NoMatchingRuleError, match="matches 'OU=nobody'"):
        PrincipalMapping("RULE:^CN=(.*)$/$1/").principal("OU=nobody")


def test_distinguished_name_cannot_forge_log_lines() -> None:
    with pytest.raises(NoMatchingRuleError) as failed:
        PrincipalMapping("RULE:^CN=(.*)$/$1/").principal("OU=x\nERROR \u2028" + "y" * 1_000)
    assert str(failed.value).isprintable()
    assert len(str(failed.value)) < 300


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param("RULE:CN=(.*/$1/", id="broken-pattern"),
        pytest.param("RULE:^CN=(.*)$/$1", id="no-end"),
        pytest.param("NONE", id="no-rule"),
        pytest.param("RULE:^CN=([a-z&&[^x]]*)$/$1/", id="a-class-that-java-interprets-differently"),
    ],
)
def test_malformed_rule_is_rejected_at_startup(rules: str) -> None:
    with pytest.raises(ConfigurationError, match=r"ssl\.principal\.mapping\.rules has the rule"):
        PrincipalMapping(rules)


@pytest.mark.skipif(
    KAFKA_LIBS is None or shutil.which("javac") is None,
    reason="OTTLA_KAFKA_LIBS names no folder of Kafka's jars, or there is no JDK",
)
def test_every_rule_maps_as_in_kafka() -> None:
    source = Path(__file__).with_name("PrintMappedPrincipals.java")
    ran = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{KAFKA_LIBS}/*", str(source)],
        input="\n".join([str(len(NAMES)), *NAMES, *RULES, ""]),
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    ours = "".join(f"{rules}\t{name}\t{apply(rules, name)}\n" for rules in RULES for name in NAMES)

    assert ran.stdout == ours
