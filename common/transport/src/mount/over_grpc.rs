//! Unary gRPC, and its variant for browsers, whose trailers are the end of the body.
//!
//! The framing is done here and not by tonic, so that what is wrong with a message is told like any other error.

use axum::{body::Body, response::Response};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, header, request::Parts};
use http_body_util::{BodyExt, Full};
use prost::Message;
use proto::operation::Facts;
use serde::{Serialize, de::DeserializeOwned};
use tonic::Status;

use super::{
    Answer, body,
    wire::{self, Wire},
};
use crate::{
    error::{Error, Reason},
    observe::Transport,
};

/// A flag, and the length of the message.
const PREFIX: usize = 5;
/// The flag of a frame that holds trailers.
const TRAILERS: u8 = 0x80;

/// gRPC, plain or for browsers.
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
    /// What a request's content type asks for, if it is gRPC with protobuf at all.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        match headers.get(header::CONTENT_TYPE)?.to_str().ok()? {
            "application/grpc" | "application/grpc+proto" => Some(Self::Plain),
            "application/grpc-web" | "application/grpc-web+proto" => Some(Self::Web),
            "application/grpc-web-text" | "application/grpc-web-text+proto" => Some(Self::WebText),
            _ => None,
        }
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

/// Refuses another content type on a gRPC path.
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

    async fn read<I: Message + DeserializeOwned + Default>(&self, _: &Facts, _: Parts, body: Body) -> Result<I, Error> {
        let mut frame = body::read(body, self.limit()).await?;
        if *self == Self::WebText {
            frame = decoded(&frame)?;
        }
        let message = unframed(&frame)?;
        // The text of the failure names Rust types.
        I::decode(message).map_err(|_| Error::new(Reason::InvalidRequest, "the message is not of the method's type"))
    }

    fn write<O: Message + Serialize>(&self, _: &Facts, answer: Answer<O>) -> Result<Response, Error> {
        let message = framed(0, &answer.message.encode_to_vec());
        let mut response = Response::new(self.answer(message));
        response.headers_mut().insert(header::CONTENT_TYPE, self.content_type());
        wire::add(response.headers_mut(), answer.metadata);
        Ok(response)
    }

    fn refuse(&self, error: Error) -> Response {
        let mut response: Response = Status::from(error).into_http();
        response.headers_mut().insert(header::CONTENT_TYPE, self.content_type());
        response
    }
}

fn framed(flag: u8, message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(PREFIX + message.len());
    frame.put_u8(flag);
    // An answer of 4 GiB does not exist: lists are paged.
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.put_slice(message);
    frame.freeze()
}

/// The bytes of a body in base64. A client may send it in parts that are padded each, which every four characters tell.
fn decoded(text: &[u8]) -> Result<Bytes, Error> {
    let mut bytes = BytesMut::with_capacity(text.len() / 4 * 3);
    for group in text.chunks(4) {
        let decoded = STANDARD.decode(group);
        bytes.put_slice(&decoded.map_err(|_| Error::new(Reason::InvalidRequest, "the body must be base64"))?);
    }
    Ok(bytes.freeze())
}

/// The one message of a request.
fn unframed(frame: &[u8]) -> Result<&[u8], Error> {
    let malformed = || Error::new(Reason::InvalidRequest, "the request must be exactly one gRPC message");
    let ([flag, length @ ..], message) = frame.split_first_chunk::<PREFIX>().ok_or_else(malformed)?;
    if *flag != 0 {
        return Err(Error::new(Reason::NotImplemented, "the message must not be compressed"));
    }
    let fits = usize::try_from(u32::from_be_bytes(*length)) == Ok(message.len());
    if fits { Ok(message) } else { Err(malformed()) }
}
