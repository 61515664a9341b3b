//! HTTP with JSON bodies.

use std::sync::Arc;

use axum::{
    RequestPartsExt,
    body::Body,
    extract::RawPathParams,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts};
use proto::operation::{self, Facts};

use super::{
    body,
    operation::{Invocation, Operation},
    wire::{self, Wire},
};
use crate::{
    answer::Answer,
    error::{Error, Reason},
    json::{self, RequestParts},
    message::AnyMessage,
    observe::Transport,
};

const JSON: &str = "application/json";
/// An estimate of how many times larger than in protobuf a message is in JSON.
const JSON_TO_BINARY: usize = 4;

/// HTTP with JSON bodies.
pub(super) struct Http;

impl Wire for Http {
    fn transport(&self) -> Transport {
        Transport::Http
    }

    async fn read<C: 'static>(
        &self,
        operation: &Arc<dyn Operation<C>>,
        mut parts: Parts,
        body: Body,
    ) -> Result<Box<dyn Invocation<C>>, Error> {
        let facts = operation.facts();
        let body = body::read(body, body::LIMIT).await?;
        if !body::is_plain(&parts.headers) {
            let message = "the body must not be compressed: leave Content-Encoding out";
            return Err(Error::new(Reason::UnsupportedMediaType, message).header("accept-encoding", "identity"));
        }
        if facts.body != operation::Body::None && !is_json(&parts.headers, body.is_empty()) {
            return Err(Error::new(Reason::UnsupportedMediaType, format!("the body must be {JSON}")));
        }
        let path = parts.extract::<RawPathParams>().await;
        let path = path.map_err(|_| Error::new(Reason::InvalidRequest, "the path must be percent-encoded UTF-8"))?;
        let (size, operation) = (body.len(), operation.clone());
        let read = move |tree| operation.clone().read(tree);
        let bind = move || {
            let sent = RequestParts { path: &path, query: parts.uri.query(), body: &body };
            json::bind_with(facts, sent, read, |asked| asked.request().violations())
        };
        body::parse(size, bind).await
    }

    fn write(&self, facts: &Facts, answer: Answer<Box<dyn AnyMessage>>) -> Result<Response, Error> {
        let mut body = Vec::with_capacity(JSON_TO_BINARY * answer.message.protobuf_len());
        answer.message.write_json(&mut body)?;
        let status = StatusCode::from_u16(answer.status.unwrap_or(facts.success));
        let status = status.map_err(|failure| Error::internal(&failure))?;
        let mut response = (status, body).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        wire::add(response.headers_mut(), answer.metadata);
        Ok(response)
    }

    fn refuse(&self, error: Error) -> Response {
        error.into_response()
    }
}

/// Whether the body is JSON by its content type; an empty one needs no type.
fn is_json(headers: &HeaderMap, is_empty: bool) -> bool {
    let mut given = headers.get_all(header::CONTENT_TYPE).iter();
    let (first, second) = (given.next(), given.next());
    let Some(value) = first else { return is_empty };
    let mut parts = value.to_str().unwrap_or_default().split(';').map(str::trim);
    let is_json = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case(JSON));
    second.is_none() && is_json && parts.all(is_understood)
}

/// Whether a parameter of the content type is acceptable: JSON is UTF-8 (RFC 8259, section 8.1); others mean nothing.
fn is_understood(parameter: &str) -> bool {
    match parameter.split_once('=') {
        Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
            value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        _ => true,
    }
}
