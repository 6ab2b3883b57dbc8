"""Filters of access control entries: round trips, and matching entries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ErrorCode, KafkaError
from ottla.wire.acl_codes import Acl, Operation, PatternType, PermissionType, ResourceType
from ottla.wire.acl_filter import AclFilter
from ottla.wire.messages.delete_acls import DeleteAclsFilter
from ottla.wire.messages.describe_acls import DescribeAclsRequest

ENTRY = Acl(ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:a", "*", Operation.READ, PermissionType.ALLOW)
FILTERS = st.builds(
    AclFilter,
    resource_type=st.sampled_from([each for each in ResourceType if each]),
    resource_name=st.none() | st.just("orders"),
    pattern_type=st.sampled_from([each for each in PatternType if each]),
    principal=st.none() | st.just("User:a"),
    host=st.none() | st.just("*"),
    operation=st.sampled_from([each for each in Operation if each]),
    permission_type=st.sampled_from([each for each in PermissionType if each]),
)


@given(wanted=FILTERS)
def test_filter_round_trips_through_both_requests(wanted: AclFilter) -> None:
    assert AclFilter.read(DescribeAclsRequest(**wanted.fields())) == wanted
    assert AclFilter.read(DeleteAclsFilter(**wanted.fields())) == wanted


@pytest.mark.parametrize(
    "unknown",
    [{"resource_type_filter": 99}, {"pattern_type_filter": 0}, {"operation": -1}, {"permission_type": 4}],
    ids=["resource", "pattern", "operation", "permission"],
)
def test_unknown_code_is_rejected(unknown: dict[str, int]) -> None:
    with pytest.raises(KafkaError) as rejected:
        AclFilter.read(DeleteAclsFilter(**{**AclFilter().fields(), **unknown}))
    assert rejected.value.code is ErrorCode.INVALID_REQUEST


def test_filter_of_an_entry_matches_only_that_entry() -> None:
    assert AclFilter.of(ENTRY).exact == ENTRY
    assert AclFilter.of(ENTRY).matches(ENTRY)
    assert not AclFilter.of(ENTRY).matches(ENTRY._replace(host="10.0.0.1"))


@given(wanted=FILTERS)
def test_only_an_exact_filter_has_an_entry(wanted: AclFilter) -> None:
    if wanted.exact is not None:
        assert wanted.matches(wanted.exact)
        assert AclFilter.of(wanted.exact) == wanted
    assert AclFilter().matches(ENTRY)
    assert AclFilter().exact is None
