//! The baseline of a read: axum and tonic with nothing but a lookup of the token and a read by primary key. They run in
//! a process of their own, so that its CPU time can be measured.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, RwLock},
};

use axum::{
    Json, Router,
    extract::{Path, State},
    routing::{get, post},
};
use domain::resource::target::{Target, TargetKind};
use http::{HeaderMap, StatusCode, header};
use jiff::Timestamp;
use proto::{
    action::{
        self, GetTarget, GetTargetRequest, GetTargetResponse, SetRestRequestResponse, SetRestWebhook,
        target::TargetType,
    },
    object::{Details, Owner},
    operation::GET_TARGET,
};
use tokio::net::TcpListener;
use tonic::{Request, Response, Status, server::UnaryService, service::Routes, transport::server::TcpIncoming};
use tonic_prost::ProstCodec;
use view::database::Database;

/// The number of connections, as a node of the platform has for its reads.
const CONNECTIONS: usize = 16;

#[derive(Clone)]
struct Floor {
    database: Database,
    instance_id: Arc<str>,
    /// The verified tokens, with their users.
    verified: Arc<RwLock<HashMap<String, String>>>,
}

/// Serves JSON and gRPC on two free ports, which it prints.
pub(crate) async fn serve() {
    let [postgres_url, instance_id, token] =
        [2, 3, 4].map(|at| std::env::args().nth(at).expect("there are three words"));
    let floor = Floor {
        database: Database::new(&postgres_url, CONNECTIONS).expect("it is an address"),
        instance_id: instance_id.into(),
        verified: Arc::new(RwLock::new(HashMap::from([(token, "somebody".to_owned())]))),
    };
    let listen = async || TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let (json, grpc) = (listen().await, listen().await);
    let address = |listener: &TcpListener| listener.local_addr().expect("it has an address");
    println!("{} {}", address(&json), address(&grpc));
    let over_json = Router::new().route(GET_TARGET.facts.path, get(read)).with_state(floor.clone());
    let call = async move |request: axum::extract::Request| {
        let codec = ProstCodec::<GetTargetResponse, GetTargetRequest>::default();
        tonic::server::Grpc::new(codec).unary(floor.clone(), request).await
    };
    let over_grpc = Routes::from(Router::new().route(GET_TARGET.facts.grpc, post(call)));
    let incoming = TcpIncoming::from(grpc).with_nodelay(Some(true));
    let grpc = tonic::transport::Server::builder().add_routes(over_grpc).serve_with_incoming(incoming);
    let (json, grpc) = tokio::join!(axum::serve(json, over_json), grpc);
    json.and(grpc.map_err(std::io::Error::other)).expect("it serves");
}

async fn read(
    State(floor): State<Floor>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<GetTargetResponse>, StatusCode> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if !floor.is_authenticated(bearer) {
        return Err(StatusCode::UNAUTHORIZED);
    }
    floor.target(&id).await.map(Json).ok_or(StatusCode::NOT_FOUND)
}

impl UnaryService<GetTargetRequest> for Floor {
    type Response = GetTargetResponse;
    type Future = Pin<Box<dyn Future<Output = Result<Response<GetTargetResponse>, Status>> + Send>>;

    fn call(&mut self, request: Request<GetTargetRequest>) -> Self::Future {
        let floor = self.clone();
        Box::pin(async move {
            let bearer = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
            if !floor.is_authenticated(bearer) {
                return Err(Status::unauthenticated("who is there"));
            }
            let found = floor.target(&request.get_ref().id).await;
            found.map(Response::new).ok_or_else(|| Status::not_found("there is none"))
        })
    }
}

impl Floor {
    fn is_authenticated(&self, bearer: Option<&str>) -> bool {
        let token = bearer.and_then(|bearer| bearer.strip_prefix("Bearer "));
        token.is_some_and(|token| self.verified.read().is_ok_and(|verified| verified.contains_key(token)))
    }

    async fn target(&self, id: &str) -> Option<GetTargetResponse> {
        let connection = self.database.connection().await.ok()?;
        let text = "select id, owner_type, owner_id, sequence, changed_at, state::text from targets_1.targets \
                    where instance_id = $1 and id = $2";
        let statement = connection.prepare_cached(text).await.ok()?;
        let row = connection.query_opt(&statement, &[&&*self.instance_id, &id]).await.ok()??;
        let Target { name, kind, url, .. } = serde_json::from_str(row.get("state")).ok()?;
        let details = Details {
            id: row.get("id"),
            sequence: u64::try_from(row.get::<_, i64>("sequence")).ok()?,
            change_date: Some(row.get::<_, Timestamp>("changed_at").into()),
            resource_owner: Some(Owner { r#type: row.get::<_, i16>("owner_type").into(), id: row.get("owner_id") }),
        };
        let target_type = Some(match kind {
            TargetKind::RestWebhook => TargetType::RestWebhook(SetRestWebhook { url }),
            TargetKind::RestRequestResponse => TargetType::RestRequestResponse(SetRestRequestResponse { url }),
        });
        let target = action::Target { name, target_type, ..action::Target::default() };
        Some(GetTargetResponse { target: Some(GetTarget { details: Some(details), target: Some(target) }) })
    }
}
