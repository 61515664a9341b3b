//! Unary gRPC, and its variant for browsers, whose trailers are the end of the body.
//!
//! The framing is done here and not by tonic, so that a malformed message is reported like any other error.

use std::{sync::Arc, time::Duration};

use axum::{body::Body, response::Response};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, header, request::Parts};
use http_body_util::{BodyExt, Full};
use proto::operation::Facts;
use tonic::Status;

use super::{
    body,
    operation::{Invocation, Operation},
    wire::{self, Wire},
};
use crate::{
    answer::Answer,
    error::{Error, Reason, Refused},
    message::AnyMessage,
    observe::Transport,
};

/// The length of the prefix of a frame: a flag, and the length of the message.
const PREFIX: usize = 5;
/// The flag of a frame that holds trailers.
const TRAILERS: u8 = 0x80;

/// A variant of gRPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grpc {
    /// HTTP/2 with trailers.
    Plain,
    /// gRPC-web.
    Web,
    /// gRPC-web in base64.
    WebText,
}

impl Grpc {
    /// The variant that a request's content type names, if it is gRPC with protobuf.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let given = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
        let kind = given.split(';').next().unwrap_or_default().trim();
        let kinds = [("", Self::Plain), ("-web", Self::Web), ("-web-text", Self::WebText)];
        let (_, found) = kinds.into_iter().find(|(way, _)| {
            let rest = strip(kind, "application/grpc").and_then(|rest| strip(rest, way));
            rest.is_some_and(|rest| rest.is_empty() || rest.eq_ignore_ascii_case("+proto"))
        })?;
        Some(found)
    }

    fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Plain => "application/grpc",
            Self::Web => "application/grpc-web+proto",
            Self::WebText => "application/grpc-web-text+proto",
        })
    }

    /// The largest body of a request.
    fn limit(self) -> usize {
        let binary = PREFIX + body::LIMIT;
        if self == Self::WebText { binary.div_ceil(3) * 4 } else { binary }
    }

    fn answer(self, message: Bytes) -> Body {
        let with_trailers = || [&message[..], &framed(TRAILERS, b"grpc-status:0\r\n")].concat();
        match self {
            Self::Plain => {
                let trailers = HeaderMap::from_iter([(Status::GRPC_STATUS, HeaderValue::from_static("0"))]);
                Body::new(Full::new(message).with_trailers(async move { Some(Ok(trailers)) }))
            }
            Self::Web => Body::from(with_trailers()),
            Self::WebText => Body::from(STANDARD.encode(with_trailers())),
        }
    }
}

/// The error for another content type on a gRPC path.
pub(super) fn unsupported() -> Error {
    Error::new(
        Reason::UnsupportedMediaType,
        "the body must be application/grpc, application/grpc-web or application/grpc-web-text, each with +proto or without it",
    )
}

impl Wire for Grpc {
    fn transport(&self) -> Transport {
        Transport::Grpc
    }

    async fn read<C: 'static>(
        &self,
        operation: &Arc<dyn Operation<C>>,
        _: Parts,
        body: Body,
    ) -> Result<Box<dyn Invocation<C>>, Error> {
        let mut frame = body::read(body, self.limit()).await?;
        if *self == Self::WebText {
            frame = decoded(&frame)?;
        }
        let (size, operation) = (frame.len(), operation.clone());
        let decode = move || {
            let message = unframed(&frame)?;
            // The text of the failure names Rust types.
            operation
                .decode(message)
                .map_err(|_| Error::new(Reason::InvalidRequest, "the message is not of the method's type"))
        };
        body::parse(size, decode).await
    }

    fn write(&self, _: &Facts, answer: Answer<Box<dyn AnyMessage>>) -> Result<Response, Error> {
        let message = framed(0, &answer.message.to_protobuf());
        let mut response = Response::new(self.answer(message));
        response.headers_mut().insert(header::CONTENT_TYPE, self.content_type());
        wire::add(response.headers_mut(), answer.metadata);
        Ok(response)
    }

    fn refuse(&self, error: Error) -> Response {
        let reason = error.reason();
        let mut response: Response = Status::from(error).into_http();
        response.headers_mut().insert(header::CONTENT_TYPE, self.content_type());
        response.extensions_mut().insert(Refused(reason.name()));
        response
    }
}

/// Strips a prefix, regardless of case.
fn strip<'a>(text: &'a str, beginning: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(beginning.len())?;
    head.eq_ignore_ascii_case(beginning).then_some(rest)
}

fn framed(flag: u8, message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(PREFIX + message.len());
    frame.put_u8(flag);
    // An answer of 4 GiB does not exist: lists are paged.
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.put_slice(message);
    frame.freeze()
}

/// Decodes a body in base64. A client may send it in parts that are padded each, so every four characters are decoded
/// alone.
fn decoded(text: &[u8]) -> Result<Bytes, Error> {
    let mut bytes = BytesMut::with_capacity(text.len() / 4 * 3);
    for group in text.chunks(4) {
        let decoded = STANDARD.decode(group);
        bytes.put_slice(&decoded.map_err(|_| Error::new(Reason::InvalidRequest, "the body must be base64"))?);
    }
    Ok(bytes.freeze())
}

/// The single message of a request.
fn unframed(frame: &[u8]) -> Result<&[u8], Error> {
    let malformed = || Error::new(Reason::InvalidRequest, "the request must be exactly one gRPC message");
    let ([flag, length @ ..], message) = frame.split_first_chunk::<PREFIX>().ok_or_else(malformed)?;
    if *flag != 0 {
        return Err(Error::new(Reason::NotImplemented, "the message must not be compressed"));
    }
    let fits = usize::try_from(u32::from_be_bytes(*length)) == Ok(message.len());
    if fits { Ok(message) } else { Err(malformed()) }
}

/// The `grpc-timeout` of a gRPC request: up to eight digits and a unit. A malformed one is ignored.
pub(super) fn timeout(headers: &HeaderMap) -> Option<Duration> {
    Grpc::of(headers)?;
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let is_number = (1..=8).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = number.parse().ok().filter(|_| is_number)?;
    match unit {
        "H" => Some(Duration::from_hours(number)),
        "M" => Some(Duration::from_mins(number)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(http::HeaderName::from_static(name), value.parse().unwrap())])
    }

    #[test]
    fn a_content_type_may_have_parameters_and_capitals() {
        for (kind, grpc) in [
            ("application/grpc", Some(Grpc::Plain)),
            ("application/grpc+proto; charset=utf-8", Some(Grpc::Plain)),
            ("Application/GRPC-Web", Some(Grpc::Web)),
            ("application/grpc-web+proto", Some(Grpc::Web)),
            ("application/grpc-web-text+Proto", Some(Grpc::WebText)),
            ("application/grpc+json", None),
            ("application/grpcs", None),
            ("application/json", None),
        ] {
            assert_eq!(Grpc::of(&with("content-type", kind)), grpc, "{kind}");
        }
    }

    #[test]
    fn a_client_says_how_long_it_waits() {
        for (text, patience) in [
            ("1S", Some(Duration::from_secs(1))),
            ("250m", Some(Duration::from_millis(250))),
            ("99999999H", Some(Duration::from_hours(99_999_999))),
            ("3u", Some(Duration::from_micros(3))),
            ("1", None),
            ("S", None),
            ("999999999S", None),
            ("+1S", None),
            ("1.5S", None),
            ("1s", None),
        ] {
            let mut headers = with("grpc-timeout", text);
            assert_eq!(timeout(&headers), None, "it is no gRPC");
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
            assert_eq!(timeout(&headers), patience, "{text}");
        }
    }
}
