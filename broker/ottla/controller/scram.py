"""`ScramControl`: setting and removing users' SCRAM credentials.

The salted password comes from the client (Kafka's tools compute it); the credential stores less of it, see
`ottla.sasl.scram`. Each user may be named once in a request, whatever the mechanism. The first credential also creates
the secret for the decoys of users that do not exist.
Source: ScramControlManager of Apache Kafka 4.3, whose error texts these are; KIP-554, KIP-900.
"""

from ottla.controller.result import ControllerResult, check_record_count
from ottla.controller.state import ControllerState
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.metadata_version import SCRAM_METADATA_VERSION
from ottla.metadata.records import MetadataRecord
from ottla.metadata.scram import ScramUser, new_decoy_secret, scram_record
from ottla.ports import Random
from ottla.sasl.scram import ITERATIONS_MAX, ITERATIONS_MIN, ScramMechanism, credential
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.metadata_log import RemoveUserScramCredentialRecord, UserScramCredentialRecord


class ScramControl:
    """Decides on the newest state; changes nothing itself."""

    def __init__(self, state: ControllerState, *, random: Random) -> None:
        self._state = state
        self._random = random

    def alter(self, request: AlterUserScramCredentialsRequest) -> ControllerResult[AlterUserScramCredentialsResponse]:
        """Apply the valid changes; report the error of each other user.

        Raises:
            KafkaError: POLICY_VIOLATION: more users than one batch of records holds.
        """
        accepted: dict[str, MetadataRecord] = {}
        rejected: dict[str, KafkaError] = {}
        changes: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions, *request.upsertions]
        for change in changes:
            if change.name in rejected:
                continue
            try:
                if accepted.pop(change.name, None) is not None:
                    raise KafkaError(
                        ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
                    )
                accepted[change.name] = self._record(change)
            except KafkaError as error:
                rejected[change.name] = error
        records = list(accepted.values())
        if any(isinstance(each.message, UserScramCredentialRecord) for each in records):
            records = [*self._secret(), *records]
        check_record_count(records)
        results = [_result(name, rejected.get(name)) for name in dict.fromkeys(change.name for change in changes)]
        return ControllerResult(AlterUserScramCredentialsResponse(results=results), records)

    def missing_secret(self) -> list[MetadataRecord]:
        """Return the secret's record if there are credentials without it: from Kafka, or an older release."""
        return self._secret() if self._state.image.scram.credentials else []

    def _secret(self) -> list[MetadataRecord]:
        if self._state.image.scram.decoy_secret is not None:
            return []
        return [new_decoy_secret(self._random.randrange)]

    def _record(self, change: ScramCredentialDeletion | ScramCredentialUpsertion) -> MetadataRecord:
        if self._state.image.features.metadata_version < SCRAM_METADATA_VERSION:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
        if not change.name:
            raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
        if change.mechanism not in ScramMechanism.__members__.values():
            raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        user = ScramUser(ScramMechanism(change.mechanism), change.name)
        if isinstance(change, ScramCredentialDeletion):
            if user not in self._state.image.scram.credentials:
                raise KafkaError(
                    ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
                )
            record = RemoveUserScramCredentialRecord(name=user.name, mechanism=user.mechanism)
            return MetadataRecord(record, 0)
        if change.iterations < ITERATIONS_MIN:
            raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
        if change.iterations > ITERATIONS_MAX:
            raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
        created = credential(user.mechanism, bytes(change.salted_password), bytes(change.salt), change.iterations)
        return scram_record(user, created)


def _result(name: str, error: KafkaError | None) -> AlterUserScramCredentialsResult:
    if error is None:
        return AlterUserScramCredentialsResult(user=name, error_message=None)
    return AlterUserScramCredentialsResult(user=name, error_code=error.code, error_message=error.message)
