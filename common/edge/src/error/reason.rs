//! The table of reasons.

use http::StatusCode;
use tonic::Code;

/// A stable name for what went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Fields break their rules, or have values of the wrong type.
    InvalidRequest,
    /// The body is not JSON.
    MalformedJson,
    /// The body names an unknown field.
    UnknownField,
    /// The query names an unknown parameter.
    UnknownParameter,
    /// A query parameter is malformed or given twice.
    InvalidParameter,
    /// The body or message is too large.
    BodyTooLarge,
    /// The body did not arrive in time.
    BodyTimeout,
    /// The body is of a type that is not understood.
    UnsupportedMediaType,
    /// The path has no such method.
    MethodNotAllowed,
    /// There is no such path.
    RouteNotFound,
    /// The operation is specified but not built.
    NotImplemented,
    /// No instance answers under this host.
    InstanceNotFound,
    /// There is no access token.
    TokenMissing,
    /// The access token is not valid here.
    TokenInvalid,
    /// The access token is no longer valid.
    TokenExpired,
    /// The access token lacks a scope.
    InsufficientScope,
    /// The page that sent the request is not one of the app that got its access token.
    OriginNotAllowed,
    /// The caller lacks a permission.
    PermissionDenied,
    /// The operation needs a feature flag that is off.
    FeatureDisabled,
    /// There is no such resource, or the caller may not know of it.
    ResourceNotFound,
    /// The resource exists already.
    ResourceExists,
    /// A name is held by something that is being removed.
    NameBeingReleased,
    /// The resource is not in a state that allows this.
    PreconditionFailed,
    /// A setting would promise what is not built yet.
    SettingNotBuilt,
    /// A target stopped the request.
    ExecutionFailed,
    /// Calls of targets call the platform again, too deeply nested.
    ExecutionLoop,
    /// The challenge of a domain was not found.
    ChallengeNotFound,
    /// The credentials belong to nobody who may log in.
    CredentialsInvalid,
    /// The resource is not at the sequence that `If-Match` names.
    SequenceMismatch,
    /// The idempotency key was used for another request.
    IdempotencyKeyReused,
    /// The first request with this idempotency key is not answered yet.
    IdempotencyInProgress,
    /// The consistency token is malformed, forged or of another platform.
    ConsistencyTokenInvalid,
    /// The read models did not reach the sequence in time.
    ConsistencyNotReached,
    /// The resource is parked, so that waiting does not make it as fresh as required.
    AggregateParked,
    /// No writer accepts the command; it was not executed.
    WriterUnavailable,
    /// It is unknown whether the command was executed.
    OutcomeUnknown,
    /// The read models cannot be reached.
    ReadModelUnavailable,
    /// The command's events do not fit in a record of the log.
    CommandTooLarge,
    /// The operator of the platform has blocked the instance.
    InstanceBlocked,
    /// The instance or organization has as many objects of a kind as it may have.
    ObjectLimit,
    /// The instance is switched off.
    InstanceInactive,
    /// Too many requests of an address, a client or an instance.
    RateLimited,
    /// The request took too long.
    DeadlineExceeded,
    /// Something else failed; details are in the log of the node.
    Internal,
}

impl Reason {
    /// All reasons.
    pub const ALL: &[Self] = &[
        Self::InvalidRequest,
        Self::MalformedJson,
        Self::UnknownField,
        Self::UnknownParameter,
        Self::InvalidParameter,
        Self::BodyTooLarge,
        Self::BodyTimeout,
        Self::UnsupportedMediaType,
        Self::MethodNotAllowed,
        Self::RouteNotFound,
        Self::NotImplemented,
        Self::InstanceNotFound,
        Self::TokenMissing,
        Self::TokenInvalid,
        Self::TokenExpired,
        Self::InsufficientScope,
        Self::OriginNotAllowed,
        Self::PermissionDenied,
        Self::FeatureDisabled,
        Self::ResourceNotFound,
        Self::ResourceExists,
        Self::NameBeingReleased,
        Self::PreconditionFailed,
        Self::SettingNotBuilt,
        Self::ExecutionFailed,
        Self::ExecutionLoop,
        Self::ChallengeNotFound,
        Self::CredentialsInvalid,
        Self::SequenceMismatch,
        Self::IdempotencyKeyReused,
        Self::IdempotencyInProgress,
        Self::ConsistencyTokenInvalid,
        Self::ConsistencyNotReached,
        Self::AggregateParked,
        Self::WriterUnavailable,
        Self::OutcomeUnknown,
        Self::ReadModelUnavailable,
        Self::CommandTooLarge,
        Self::InstanceBlocked,
        Self::ObjectLimit,
        Self::InstanceInactive,
        Self::RateLimited,
        Self::DeadlineExceeded,
        Self::Internal,
    ];

    /// The name that programs compare.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// The gRPC code.
    pub fn code(self) -> Code {
        self.row().1
    }

    /// The HTTP status: that of the code, except where HTTP has a better one.
    pub fn http_status(self) -> StatusCode {
        match self {
            Self::SequenceMismatch => StatusCode::PRECONDITION_FAILED,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            _ => status_of(self.code()),
        }
    }

    fn row(self) -> (&'static str, Code) {
        match self {
            Self::InvalidRequest => ("INVALID_REQUEST", Code::InvalidArgument),
            Self::MalformedJson => ("MALFORMED_JSON", Code::InvalidArgument),
            Self::UnknownField => ("UNKNOWN_FIELD", Code::InvalidArgument),
            Self::UnknownParameter => ("UNKNOWN_PARAMETER", Code::InvalidArgument),
            Self::InvalidParameter => ("INVALID_PARAMETER", Code::InvalidArgument),
            Self::BodyTooLarge => ("BODY_TOO_LARGE", Code::ResourceExhausted),
            Self::BodyTimeout => ("BODY_TIMEOUT", Code::DeadlineExceeded),
            Self::UnsupportedMediaType => ("UNSUPPORTED_MEDIA_TYPE", Code::InvalidArgument),
            Self::MethodNotAllowed => ("METHOD_NOT_ALLOWED", Code::Unimplemented),
            Self::RouteNotFound => ("ROUTE_NOT_FOUND", Code::NotFound),
            Self::NotImplemented => ("NOT_IMPLEMENTED", Code::Unimplemented),
            Self::InstanceNotFound => ("INSTANCE_NOT_FOUND", Code::NotFound),
            Self::TokenMissing => ("TOKEN_MISSING", Code::Unauthenticated),
            Self::TokenInvalid => ("TOKEN_INVALID", Code::Unauthenticated),
            Self::TokenExpired => ("TOKEN_EXPIRED", Code::Unauthenticated),
            Self::InsufficientScope => ("INSUFFICIENT_SCOPE", Code::PermissionDenied),
            Self::OriginNotAllowed => ("ORIGIN_NOT_ALLOWED", Code::PermissionDenied),
            Self::PermissionDenied => ("PERMISSION_DENIED", Code::PermissionDenied),
            Self::FeatureDisabled => ("FEATURE_DISABLED", Code::FailedPrecondition),
            Self::ResourceNotFound => ("RESOURCE_NOT_FOUND", Code::NotFound),
            Self::ResourceExists => ("RESOURCE_EXISTS", Code::AlreadyExists),
            Self::NameBeingReleased => ("NAME_BEING_RELEASED", Code::AlreadyExists),
            Self::PreconditionFailed => ("PRECONDITION_FAILED", Code::FailedPrecondition),
            Self::SettingNotBuilt => ("SETTING_NOT_BUILT", Code::FailedPrecondition),
            Self::ExecutionFailed => ("EXECUTION_FAILED", Code::FailedPrecondition),
            Self::ExecutionLoop => ("EXECUTION_LOOP", Code::FailedPrecondition),
            Self::ChallengeNotFound => ("CHALLENGE_NOT_FOUND", Code::FailedPrecondition),
            Self::CredentialsInvalid => ("CREDENTIALS_INVALID", Code::FailedPrecondition),
            Self::SequenceMismatch => ("SEQUENCE_MISMATCH", Code::FailedPrecondition),
            Self::IdempotencyKeyReused => ("IDEMPOTENCY_KEY_REUSED", Code::FailedPrecondition),
            Self::IdempotencyInProgress => ("IDEMPOTENCY_IN_PROGRESS", Code::Aborted),
            Self::ConsistencyTokenInvalid => ("CONSISTENCY_TOKEN_INVALID", Code::InvalidArgument),
            Self::ConsistencyNotReached => ("CONSISTENCY_NOT_REACHED", Code::Unavailable),
            Self::AggregateParked => ("AGGREGATE_PARKED", Code::Unavailable),
            Self::WriterUnavailable => ("WRITER_UNAVAILABLE", Code::Unavailable),
            Self::OutcomeUnknown => ("OUTCOME_UNKNOWN", Code::Unavailable),
            Self::ReadModelUnavailable => ("READ_MODEL_UNAVAILABLE", Code::Unavailable),
            Self::CommandTooLarge => ("COMMAND_TOO_LARGE", Code::InvalidArgument),
            Self::InstanceBlocked => ("INSTANCE_BLOCKED", Code::ResourceExhausted),
            Self::ObjectLimit => ("OBJECT_LIMIT", Code::ResourceExhausted),
            Self::InstanceInactive => ("INSTANCE_INACTIVE", Code::PermissionDenied),
            Self::RateLimited => ("RATE_LIMITED", Code::ResourceExhausted),
            Self::DeadlineExceeded => ("DEADLINE_EXCEEDED", Code::DeadlineExceeded),
            Self::Internal => ("INTERNAL", Code::Internal),
        }
    }
}

fn status_of(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => StatusCode::BAD_REQUEST,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::Cancelled | Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique_and_upper_snake() {
        let names: HashSet<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), Reason::ALL.len());
        assert!(names.iter().all(|name| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')));
    }

    #[test]
    fn http_has_a_status_of_its_own_for_some() {
        let statuses = [
            (Reason::SequenceMismatch, 412),
            (Reason::MethodNotAllowed, 405),
            (Reason::BodyTooLarge, 413),
            (Reason::UnsupportedMediaType, 415),
            (Reason::TokenMissing, 401),
            (Reason::FeatureDisabled, 400),
            (Reason::ResourceExists, 409),
            (Reason::IdempotencyInProgress, 409),
            (Reason::NotImplemented, 501),
            (Reason::WriterUnavailable, 503),
            (Reason::RateLimited, 429),
            (Reason::BodyTimeout, 408),
            (Reason::InsufficientScope, 403),
            (Reason::DeadlineExceeded, 504),
        ];
        for (reason, status) in statuses {
            assert_eq!(reason.http_status(), status, "{}", reason.name());
        }
    }
}
