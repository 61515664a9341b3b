//! A client that speaks gRPC, for any operation.

use prost::Message;
use proto::operation::Operation;
use tonic::{
    Request, Response, Status,
    codegen::http::uri::PathAndQuery,
    metadata::{MetadataKey, MetadataMap},
    transport::Channel,
};
use tonic_prost::ProstCodec;
use tonic_types::StatusExt;

use crate::client::address;

/// A connection, with the token of a service user.
#[derive(Debug, Clone)]
pub struct Grpc {
    /// The connection.
    pub channel: Channel,
    token: Option<String>,
}

impl Grpc {
    /// Connects to a platform.
    pub async fn connect(base: &str, token: Option<&str>) -> Self {
        let endpoint = Channel::from_shared(format!("http://{}", address(base))).expect("it is a URL");
        let endpoint = endpoint.origin(base.parse().expect("the issuer is a URL"));
        let channel = endpoint.connect().await.expect("the platform takes connections");
        Self { channel, token: token.map(str::to_owned) }
    }

    /// Returns the connection with another token, or without one.
    pub fn with_token(&self, token: Option<&str>) -> Self {
        Self { token: token.map(str::to_owned), ..self.clone() }
    }

    /// Calls an operation.
    pub async fn call<I: Message + 'static, O: Message + Default + 'static>(
        &self,
        operation: &'static Operation<I, O>,
        message: I,
    ) -> Result<Response<O>, Status> {
        self.call_with(operation, message, &[]).await
    }

    /// Calls an operation with metadata.
    pub async fn call_with<I: Message + 'static, O: Message + Default + 'static>(
        &self,
        operation: &'static Operation<I, O>,
        message: I,
        metadata: &[(&str, &str)],
    ) -> Result<Response<O>, Status> {
        self.call_path(operation.facts.grpc, message, metadata).await
    }

    /// Calls the method at a path.
    pub async fn call_path<I: Message + 'static, O: Message + Default + 'static>(
        &self,
        path: &'static str,
        message: I,
        metadata: &[(&str, &str)],
    ) -> Result<Response<O>, Status> {
        let mut client = tonic::client::Grpc::new(self.channel.clone());
        client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let mut request = Request::new(message);
        let bearer = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let pairs = bearer.iter().map(|bearer| ("authorization", bearer.as_str())).chain(metadata.iter().copied());
        for (key, value) in pairs {
            let key = MetadataKey::from_bytes(key.as_bytes()).expect("keys of metadata are plain");
            request.metadata_mut().append(key, value.parse().expect("values of metadata are plain"));
        }
        client.unary(request, PathAndQuery::from_static(path), ProstCodec::default()).await
    }
}

/// Returns the reason of an error.
pub fn reason(status: &Status) -> String {
    status.get_error_details().error_info().map(|info| info.reason.clone()).unwrap_or_default()
}

/// Returns a value of metadata.
pub fn value(metadata: &MetadataMap, key: &str) -> String {
    metadata.get(key).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}
